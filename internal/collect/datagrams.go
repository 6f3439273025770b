// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/ipfix"
)

// datagrams is a UDP socket.
type datagrams struct {
	collector *Collector
	conn      *net.UDPConn
	endpoint  Endpoint
	closed    atomic.Bool
	dropped   uint32 // the kernel's count
}

func (c *Collector) listenDatagrams(e Endpoint) (listener, error) {
	var size int
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if fault := raw.Control(func(fd uintptr) { size, err = prepare(int(fd), c.config.datagramsBuffer) }); fault != nil {
			return fault
		}
		return err
	}}
	packets, err := config.ListenPacket(context.Background(), e.network(), e.Address.String())
	if err != nil {
		return nil, fmt.Errorf("listen at %v: %w", e, err)
	}
	conn := packets.(*net.UDPConn)
	e.Address = conn.LocalAddr().(*net.UDPAddr).AddrPort()
	if size < c.config.datagramsBuffer {
		c.config.Note(fmt.Sprintf("%v has a buffer of %d bytes, and bursts may be lost; run as root, or sysctl -w net.core.rmem_max=%d", e, size, c.config.datagramsBuffer))
	}
	return &datagrams{collector: c, conn: conn, endpoint: e}, nil
}

// prepare enlarges a socket's buffer, beyond the system's limit where that is
// allowed, and makes the kernel tell what it drops. size is what it got.
func prepare(fd, want int) (size int, err error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1); err != nil {
		return 0, fmt.Errorf("count dropped datagrams: %w", err)
	}
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
	return d.conn.Close()
}

func (d *datagrams) serve(context.Context) error {
	buffer, control := make([]byte, 1<<16), make([]byte, unix.CmsgSpace(4))
	for {
		n, controls, _, from, err := d.conn.ReadMsgUDPAddrPort(buffer, control)
		switch {
		case d.closed.Load():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("%v: %w", d.endpoint, err)
		case err != nil:
			// Such as an ICMP error to an address that never was an exporter's.
			d.collector.note("%v: %v", d.endpoint, err)
			time.Sleep(d.collector.config.flushInterval)
			continue
		}
		d.countDropped(control[:controls])
		d.take(from, buffer[:n])
	}
}

func (d *datagrams) take(from netip.AddrPort, octets []byte) {
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	key := ipfix.SessionKey{Transport: ipfix.UDP, Exporter: from, Collector: d.endpoint.Address}
	session, err := d.collector.decoder.Open(key, time.Now())
	if err != nil {
		d.collector.count(func(s *Stats) { s.SessionsRefused++; s.Octets += uint64(len(octets)) })
		return
	}
	d.collector.message(session, join.Exporter{Addr: from.Addr()}, octets)
}

// countDropped reads how many datagrams the kernel dropped since the socket was
// opened, which it tells with the next one when there are any.
func (d *datagrams) countDropped(control []byte) {
	const header = unix.SizeofCmsghdr
	if len(control) < header+4 {
		return
	}
	total := binary.NativeEndian.Uint32(control[header:])
	if lost := total - d.dropped; lost > 0 {
		d.collector.count(func(s *Stats) { s.SocketDropped += uint64(lost) })
	}
	d.dropped = total
}
