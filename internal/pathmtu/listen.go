// SPDX-License-Identifier: Apache-2.0

package pathmtu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// messagesPerSecond is how many messages are looked at; more wait in the
// socket's buffer, and beyond it are lost. One for each tunnel is enough.
const messagesPerSecond = 1000

// quoteLen is all of a message that is looked at.
const quoteLen = 128

// Listener receives the Packet Too Big messages of a network namespace.
type Listener struct{ conn net.PacketConn }

// Listen opens a raw socket that only Packet Too Big messages reach (RFC 3542
// §3.2), in the network namespace of the calling thread.
func Listen() (*Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if fault := raw.Control(func(fd uintptr) { err = onlyTooBig(int(fd)) }); fault != nil {
			return fault
		}
		return err
	}}
	conn, err := config.ListenPacket(context.Background(), "ip6:ipv6-icmp", "::")
	if err != nil {
		return nil, fmt.Errorf("open a socket for ICMPv6: %w", err)
	}
	return &Listener{conn}, nil
}

// onlyTooBig blocks every type but one.
func onlyTooBig(fd int) error {
	var filter unix.ICMPv6Filter
	for i := range filter.Data {
		filter.Data[i] = ^uint32(0)
	}
	filter.Data[typeTooBig/32] &^= 1 << (typeTooBig % 32)
	return unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &filter)
}

// Read calls heard with each message, from its ICMPv6 header on, until the
// context ends or the socket fails. The message is only valid during the call.
func (l *Listener) Read(ctx context.Context, heard func(message []byte)) error {
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	defer stop()
	buffer := make([]byte, quoteLen)
	second, count := time.Now(), 0
	for {
		n, _, err := l.conn.ReadFrom(buffer)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			return fmt.Errorf("receive Packet Too Big messages: %w", err)
		}
		heard(buffer[:n])
		if count++; count < messagesPerSecond {
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

// Close ends the listener.
func (l *Listener) Close() error { return l.conn.Close() }
