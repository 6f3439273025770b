// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/socketdrops"
	"github.com/waymark-net/waymark/ipfix"
)

// datagrams are the UDP sockets of an endpoint, each with a goroutine that reads it. The kernel chooses the
// socket of a datagram by a hash of addresses and ports (SO_REUSEPORT), so that those of a session stay in one
// socket and in their order.
type datagrams struct {
	receiving *receiving
	sockets   []*socket
	endpoint  Endpoint
	ending    atomic.Bool
	closed    atomic.Bool
}

// socket is one of them.
type socket struct {
	conn    *net.UDPConn
	raw     syscall.RawConn
	dropped uint32 // the kernel's count, at the last look
	size    int    // of its buffer, in octets
}

func (c *receiving) listenDatagrams(e Endpoint) (listener, error) {
	d := &datagrams{receiving: c}
	kept := d.inherit(e)
	var err error
	if kept == 0 && c.config.Readers > 1 && e.Address.Port() != 0 {
		// Another collector's sockets would share theirs with ours. To one without SO_REUSEPORT, they do not.
		err = e.tryAlone()
	}
	for len(d.sockets) < c.config.Readers && err == nil {
		err = d.open(&e)
	}
	if err != nil && kept > 0 { // fewer readers do it, too: a service that has another user now may not add its sockets
		err = nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen at %v: %w", e, listenFault(err, c.config.ListenName)), d.closeSockets())
	}
	d.endpoint = e
	return d, nil
}

// tryAlone opens the endpoint as a program would that shares it with no other program.
func (e *Endpoint) tryAlone() error {
	conn, err := net.ListenPacket(e.network(), e.Address.String())
	if err != nil {
		return err
	}
	return conn.Close()
}

// open opens one more socket of an endpoint, whose port may become known by it.
func (d *datagrams) open(e *Endpoint) error {
	c := d.receiving
	var size int
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		size, err = c.prepare(raw)
		return err
	}}
	keep := e.Address.Port() != 0 // else each start has another port
	packets, err := config.ListenPacket(context.Background(), e.network(), e.Address.String())
	if err != nil {
		return err
	}
	conn := packets.(*net.UDPConn)
	e.Address = conn.LocalAddr().(*net.UDPAddr).AddrPort()
	s, err := d.add(conn, *e, size)
	if err == nil && keep {
		c.config.Keeper.Keep(e.keptName(), s.raw)
	}
	return err
}

// prepare sets the options of a socket, and returns the size of its buffer.
func (c *receiving) prepare(raw syscall.RawConn) (size int, err error) {
	fault := raw.Control(func(fd uintptr) {
		if c.config.Readers > 1 {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}
		if err == nil {
			size, err = EnlargeBuffer(int(fd), c.config.datagramsBuffer)
		}
	})
	return size, errors.Join(fault, err)
}

// add adds an open socket, whose buffer has this size; or closes it.
func (d *datagrams) add(conn *net.UDPConn, e Endpoint, size int) (*socket, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s := &socket{conn: conn, raw: raw, size: size}
	d.sockets = append(d.sockets, s)
	if want := d.receiving.config.datagramsBuffer; size < want && len(d.sockets) == 1 {
		d.receiving.config.Notify(
			slog.LevelWarn,
			fmt.Sprintf(
				"%v has a buffer of only %d bytes, so bursts may be lost; run as root, or sysctl -w net.core.rmem_max=%d",
				e,
				size,
				want,
			),
		)
	}
	return s, nil
}

// ReceiveBuffer is the size, in octets, of the buffer that a UDP socket should have.
const ReceiveBuffer = 32 << 20

// Buffer is what the sockets of an endpoint over UDP have.
type Buffer struct {
	Endpoint Endpoint
	Sockets  int
	Octets   int // of the smallest
}

// Buffers are those of all endpoints over UDP.
func (c *Collector) Buffers() (list []Buffer) {
	c.receiving.counting.Lock()
	defer c.receiving.counting.Unlock()
	for _, l := range c.receiving.sockets {
		d, ok := l.(*datagrams)
		if !ok || len(d.sockets) == 0 {
			continue
		}
		b := Buffer{d.endpoint, len(d.sockets), d.sockets[0].size}
		for _, s := range d.sockets {
			b.Octets = min(b.Octets, s.size)
		}
		list = append(list, b)
	}
	return list
}

// EnlargeBuffer enlarges a socket's buffer, beyond the system's limit where that is allowed.
// size is the size that it got.
func EnlargeBuffer(fd, want int) (size int, err error) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, want) != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, want); err != nil {
			return 0, fmt.Errorf("enlarge the socket's buffer: %w", err)
		}
	}
	size, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return size / 2, err // the kernel doubles it, for its own use
}

func (d *datagrams) Endpoint() Endpoint { return d.endpoint }

// Close ends serve.
func (d *datagrams) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	d.receiving.count(func(*Received) { d.countDropped() })
	return d.closeSockets()
}

func (d *datagrams) closeSockets() error {
	var errs []error
	for _, s := range d.sockets {
		errs = append(errs, s.conn.Close())
	}
	return errors.Join(errs...)
}

// drainTime is how long to wait for a datagram before a socket counts as empty.
const drainTime = 5 * time.Millisecond

// end lets serve read waiting datagrams, for at most partingTime when more keep coming.
func (d *datagrams) end() {
	d.ending.Store(true)
	for _, s := range d.sockets {
		_ = s.conn.SetReadDeadline(time.Now().Add(drainTime))
	}
	time.AfterFunc(partingTime, func() { d.Close() })
}

// serve reads all sockets. They are closed together: the kernel hashes in another way when one is missing.
func (d *datagrams) serve(context.Context) error {
	var reading sync.WaitGroup
	errs := make([]error, len(d.sockets))
	for i, s := range d.sockets {
		reading.Go(func() {
			if errs[i] = d.read(s); errs[i] != nil {
				d.Close()
			}
		})
	}
	reading.Wait()
	return errors.Join(append(errs, d.Close())...)
}

const (
	// mostTogether is how many datagrams one system call reads.
	mostTogether = 16
	// mostDatagram is the room for a datagram.
	mostDatagram = 1 << 16
)

// read reads one socket until it is closed, or empty at the end.
func (d *datagrams) read(s *socket) error {
	batch := make([]ipv6.Message, mostTogether)
	for i := range batch {
		batch[i].Buffers = [][]byte{make([]byte, mostDatagram)}
	}
	conn := ipv6.NewPacketConn(s.conn) // recvmmsg, which knows no families
	for {
		if d.ending.Load() {
			_ = s.conn.SetReadDeadline(time.Now().Add(drainTime))
		}
		n, err := conn.ReadBatch(batch, 0)
		switch {
		case err == nil: // also when the socket is closed meanwhile: the kernel no longer has them
		case !d.closed.Load() && errors.Is(err, os.ErrDeadlineExceeded) && s.waits():
			continue // on a busy machine the deadline may pass before the socket is read at all
		case d.closed.Load() || errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("%v: %w", d.endpoint, err)
		case err != nil:
			// Such as an ICMP error about an address that was never an exporter's.
			d.receiving.reportToOperator("%v: %v", d.endpoint, err)
			time.Sleep(d.receiving.config.flushInterval)
			continue
		}
		for i := range batch[:n] {
			m := &batch[i]
			if from, ok := m.Addr.(*net.UDPAddr); ok {
				d.receiveDatagram(from.AddrPort(), m.Buffers[0][:m.N])
			}
		}
	}
}

// waits reports whether a datagram waits in the socket.
func (s *socket) waits() (yes bool) {
	_ = s.raw.Control(func(fd uintptr) { // fails when the socket is closed: then nothing waits
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		yes = n > 0 && err == nil
	})
	return yes
}

func (d *datagrams) receiveDatagram(from netip.AddrPort, octets []byte) {
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	key := ipfix.SessionKey{Transport: ipfix.UDP, Exporter: from, Collector: d.endpoint.Address}
	session, err := d.receiving.decoder.Open(key, time.Now())
	if err != nil {
		d.receiving.count(func(r *Received) { r.SessionsRefused++ })
		d.receiving.arrivals <- arrival{at: time.Now(), octets: len(octets), err: err}
		return
	}
	d.receiving.receive(session, join.Exporter{Addr: from.Addr()}, bytes.Clone(octets)) // what is waited for outlives the buffer
}

// countDropped counts the datagrams that the kernel has dropped since the last call. The
// lock of the counters is held.
func (d *datagrams) countDropped() {
	for _, s := range d.sockets {
		if total, err := socketdrops.Total(s.raw); err == nil { // else the socket is closed, and was counted
			d.receiving.received.SocketDropped += uint64(total - s.dropped) // 32 bits that wrap
			s.dropped = total
		}
	}
}
