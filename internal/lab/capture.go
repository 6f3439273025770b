// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	captureSnapLength = 256 << 10 // more than the largest offloaded packet of default limits
	captureBuffer     = 32 << 20  // bytes that may wait in the socket
)

// Packet is one captured frame. Data is valid only during the call that gets it.
type Packet struct {
	Time     time.Time
	Outgoing bool // sent by the interface, not received
	Length   int  // on the wire; more than len(Data) when Data was cut
	Data     []byte
}

// CaptureOptions say where captured packets go; both may be given.
type CaptureOptions struct {
	Writer io.Writer    // gets a pcap file with nanoseconds
	Each   func(Packet) // is called for every packet, in order
}

// CaptureStats counts the packets of a capture.
type CaptureStats struct {
	Packets int
	Dropped int // by the kernel for lack of room: the capture is incomplete
}

// Capture reads every packet of an interface, in both directions.
type Capture struct {
	file    *os.File
	pcap    *bufio.Writer // nil when no Writer is given
	each    func(Packet)
	done    chan struct{}
	once    sync.Once
	packets int
	stats   CaptureStats
	err     error
}

// Capture starts to capture at an interface of a node. Packets are captured from its
// return on.
func (l *Lab) Capture(node, name string, o CaptureOptions) (*Capture, error) {
	n := l.Node(node)
	if n == nil {
		return nil, fmt.Errorf("no node is called %s", node)
	}
	c := &Capture{each: o.Each, done: make(chan struct{})}
	if o.Writer != nil {
		c.pcap = bufio.NewWriter(o.Writer)
		if err := writePcapHead(c.pcap); err != nil {
			return nil, fmt.Errorf("write the capture: %w", err)
		}
	}
	err := n.Do(func() error {
		fd, err := openPacketSocket(name)
		if err == nil {
			c.file = os.NewFile(uintptr(fd), "capture")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("capture at %s of %s: %w", name, node, err)
	}
	go c.run()
	return c, nil
}

func openPacketSocket(name string) (int, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBuffer),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: link.Index}),
	)
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func networkOrder(v uint16) uint16 { return v<<8 | v>>8 }

// Stop ends the capture with the packets that have arrived so far, and returns after
// the last one was handled.
func (c *Capture) Stop() (CaptureStats, error) {
	c.once.Do(func() {
		if err := c.file.SetReadDeadline(time.Now()); err != nil {
			c.file.Close()
		}
		<-c.done
		c.err = errors.Join(c.err, c.file.Close())
	})
	return c.stats, c.err
}

func (c *Capture) run() {
	defer close(c.done)
	conn, err := c.file.SyscallConn()
	if err != nil {
		c.err = err
		return
	}
	data, control := make([]byte, captureSnapLength), make([]byte, 256)
	var fault error
	err = conn.Read(func(fd uintptr) bool {
		fault = c.drain(int(fd), data, control)
		return fault != nil
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	// Packets that arrived before Stop was called are part of the capture.
	cerr := conn.Control(func(fd uintptr) {
		if fault == nil {
			fault = c.drain(int(fd), data, control)
		}
		c.stats = CaptureStats{Packets: c.packets}
		stats, serr := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
		if serr != nil {
			fault = errors.Join(fault, serr)
			return
		}
		c.stats.Dropped = int(stats.Drops)
	})
	c.err = errors.Join(err, fault, cerr)
	if c.pcap != nil {
		c.err = errors.Join(c.err, c.pcap.Flush())
	}
}

// drain reads until no packet waits.
func (c *Capture) drain(fd int, data, control []byte) error {
	for {
		n, cn, _, from, err := unix.Recvmsg(fd, data, control, unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return fmt.Errorf("read captured packets: %w", err)
		}
		p := Packet{Time: packetTime(control[:cn]), Length: n, Data: data[:min(n, len(data))]}
		if ll, ok := from.(*unix.SockaddrLinklayer); ok {
			p.Outgoing = ll.Pkttype == unix.PACKET_OUTGOING
		}
		if err := c.handle(p); err != nil {
			return err
		}
	}
}

func (c *Capture) handle(p Packet) error {
	c.packets++
	if c.each != nil {
		c.each(p)
	}
	if c.pcap == nil {
		return nil
	}
	if err := writePcapRecord(c.pcap, p); err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	return nil
}

// packetTime is the kernel's timestamp of a packet.
func packetTime(control []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Now()
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(syscall.Timespec{})) {
			ts := (*syscall.Timespec)(unsafe.Pointer(&m.Data[0]))
			return time.Unix(ts.Unix())
		}
	}
	return time.Now()
}
