// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/socketdrops"
	"github.com/waymark-net/waymark/ipfix"
)

// datagrams is a UDP socket.
type datagrams struct {
	receiving *receiving
	conn      *net.UDPConn
	endpoint  Endpoint
	ending    atomic.Bool
	closed    atomic.Bool
	raw       syscall.RawConn
	dropped   uint32 // the kernel's count, at the last look
}

func (c *receiving) listenDatagrams(e Endpoint) (listener, error) {
	var size int
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if fault := raw.Control(func(fd uintptr) { size, err = EnlargeBuffer(int(fd), c.config.datagramsBuffer) }); fault != nil {
			return fault
		}
		return err
	}}
	packets, err := config.ListenPacket(context.Background(), e.network(), e.Address.String())
	if err != nil {
		return nil, fmt.Errorf("listen at %v: %w", e, listenFault(err, "--listen"))
	}
	conn := packets.(*net.UDPConn)
	e.Address = conn.LocalAddr().(*net.UDPAddr).AddrPort()
	if size < c.config.datagramsBuffer {
		c.config.Note(fmt.Sprintf("%v has a buffer of only %d bytes, so bursts may be lost; run as root, or sysctl -w net.core.rmem_max=%d", e, size, c.config.datagramsBuffer))
	}
	own, err := conn.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &datagrams{receiving: c, conn: conn, raw: own, endpoint: e}, nil
}

// ReceiveBuffer is the size, in octets, of the buffer that a UDP socket should have.
const ReceiveBuffer = 8 << 20

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
	return d.conn.Close()
}

// drainTime is how long to wait for a datagram before a socket counts as empty.
const drainTime = 5 * time.Millisecond

// end lets serve read waiting datagrams, for at most partingTime when more keep coming.
func (d *datagrams) end() {
	d.ending.Store(true)
	_ = d.conn.SetReadDeadline(time.Now().Add(drainTime))
	time.AfterFunc(partingTime, func() { d.Close() })
}

func (d *datagrams) serve(context.Context) error {
	defer d.Close()
	buffer := make([]byte, 1<<16)
	for {
		if d.ending.Load() {
			_ = d.conn.SetReadDeadline(time.Now().Add(drainTime))
		}
		n, from, err := d.conn.ReadFromUDPAddrPort(buffer)
		switch {
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
		d.receiveDatagram(from, buffer[:n])
	}
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
	if total, err := socketdrops.Total(d.raw); err == nil { // else the socket is closed, and was counted
		d.receiving.received.SocketDropped += uint64(total - d.dropped) // 32 bits that wrap
		d.dropped = total
	}
}
