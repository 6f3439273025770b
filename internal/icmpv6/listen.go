// SPDX-License-Identifier: Apache-2.0

// Package icmpv6 receives the ICMPv6 messages of a network namespace, and sends
// packets with any source (RFC 3542, RFC 4443).
package icmpv6

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/socketdrops"
)

// Type is the type of a message (RFC 4443 §2.1).
type Type uint8

// The types of errors.
const (
	Unreachable      Type = 1
	TooBig           Type = 2
	TimeExceeded     Type = 3
	ParameterProblem Type = 4
)

// HeaderLen is the length of an error before its quote: type, code, checksum, and
// four bytes that depend on the type.
const HeaderLen = 8

// defaultHopLimit is the hop limit of a message if the kernel does not report it.
const defaultHopLimit = 64

// Message is a message that arrived; the kernel has checked its checksum. It is
// valid only during the call.
type Message struct {
	Body         []byte // from the ICMPv6 header on
	Source       netip.Addr
	Interface    model.IfIndex // where it arrived; 0 when the kernel does not report it
	HopLimit     uint8         // on arrival
	TrafficClass uint8
}

// Listener receives messages of some types.
type Listener struct {
	conn      *net.IPConn
	raw       syscall.RawConn
	longest   int
	perSecond int
}

// Listen opens a raw socket for messages of some types (RFC 3542 §3.2), in the
// network namespace of the calling thread. It reads the first bytes of a message,
// at most `longest`. Messages beyond the rate wait in the socket's buffer; those
// that find no room there are lost and counted ([Listener.Dropped]).
func Listen(longest, perSecond int, types ...Type) (*Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if fault := raw.Control(func(fd uintptr) { err = prepare(int(fd), types) }); fault != nil {
			return fault
		}
		return err
	}}
	conn, err := config.ListenPacket(context.Background(), "ip6:ipv6-icmp", "::")
	if err != nil {
		return nil, fmt.Errorf("open a socket for ICMPv6: %w", err)
	}
	ip, ok := conn.(*net.IPConn)
	if !ok {
		conn.Close()
		return nil, errors.New("open a socket for ICMPv6: not a raw socket")
	}
	raw, err := ip.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a socket for ICMPv6: %w", err), ip.Close())
	}
	return &Listener{ip, raw, longest, perSecond}, nil
}

// prepare blocks all other types, and requests the IPv6 header's fields and the
// interface of arrival.
func prepare(fd int, types []Type) error {
	var filter unix.ICMPv6Filter
	for i := range filter.Data {
		filter.Data[i] = ^uint32(0)
	}
	for _, t := range types {
		filter.Data[t/32] &^= 1 << (t % 32)
	}
	return errors.Join(
		unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &filter),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1))
}

// Read calls heard with each message until the context ends or the socket fails.
func (l *Listener) Read(ctx context.Context, heard func(Message)) error {
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	defer stop()
	buffer, control := make([]byte, l.longest), make([]byte, 256)
	second, count := time.Now(), 0
	for {
		n, controls, _, from, err := l.conn.ReadMsgIP(buffer, control)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			return fmt.Errorf("receive ICMPv6 messages: %w", err)
		}
		m := Message{Body: buffer[:n], HopLimit: defaultHopLimit}
		if from != nil {
			m.Source, _ = netip.AddrFromSlice(from.IP)
		}
		m.read(control[:controls])
		heard(m)
		if count++; count < l.perSecond {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(second.Add(time.Second))):
		}
		second, count = time.Now(), 0
	}
}

// read takes what the kernel reports about the IPv6 header and the interface of
// arrival.
func (m *Message) read(control []byte) {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return
	}
	for _, c := range list {
		if c.Header.Level != unix.IPPROTO_IPV6 || len(c.Data) < 4 {
			continue
		}
		switch value := uint8(binary.NativeEndian.Uint32(c.Data)); {
		case c.Header.Type == unix.IPV6_HOPLIMIT:
			m.HopLimit = value
		case c.Header.Type == unix.IPV6_TCLASS:
			m.TrafficClass = value
		case c.Header.Type == unix.IPV6_PKTINFO && len(c.Data) >= unix.SizeofInet6Pktinfo: // the index follows an address
			m.Interface = model.IfIndex(binary.NativeEndian.Uint32(c.Data[16:]))
		}
	}
}

// Dropped is how many messages found no room in the socket's buffer since the
// listener was made; it wraps.
func (l *Listener) Dropped() (uint32, error) { return socketdrops.Total(l.raw) }

// Close ends the listener.
func (l *Listener) Close() error { return l.conn.Close() }
