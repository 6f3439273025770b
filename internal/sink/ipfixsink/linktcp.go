// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dialTimeout bounds the setup of a connection, with the TLS handshake.
const dialTimeout = 10 * time.Second

// stallTime is how long a collector may accept no data before its connection counts as
// lost.
const stallTime = 30 * time.Second

// streamMessage is the largest message over TCP: the size of a TLS record.
const streamMessage = 16384

// DefaultMessageSize is the largest message that is sent over a transport
// unless a MessageSize is given.
func DefaultMessageSize(t Transport) int {
	if t == UDP {
		return maxDatagram
	}
	return streamMessage
}

// control is what a net.Dialer calls before a socket sends its first packet.
type control func(ctx context.Context, network, address string, raw syscall.RawConn) error

func (c Config) dial(ctx context.Context, spare control) (link, error) {
	if c.Transport == UDP {
		return c.dialUDP(ctx, spare)
	}
	return c.dialTCP(ctx, spare)
}

// tcpLink is a TCP connection, with or without TLS. Octets that the collector's host
// has acknowledged are confirmed; whether the collector has read them is unknown.
type tcpLink struct {
	tcp     *net.TCPConn
	raw     syscall.RawConn
	conn    net.Conn // tcp, or TLS over it
	size    int
	room    uint64        // see unread
	octets  atomic.Uint64 // written to tcp, TLS' own included
	written uint64        // octets of messages
	marks   []mark        // messages that are not acknowledged
	end     uint64        // octets of messages that are acknowledged
	closed  chan struct{}
	fault   error // of reading; valid once over is closed

	mu        sync.Mutex
	finishing time.Time // when writing must end; zero: no limit
}

// mark maps octets of messages to octets of the connection.
type mark struct{ messages, octets uint64 }

// counted counts what TLS writes.
type counted struct {
	*net.TCPConn
	octets *atomic.Uint64
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	c.octets.Add(uint64(n))
	return n, err
}

func (c Config) dialTCP(ctx context.Context, spare control) (link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	d := net.Dialer{ControlContext: spare}
	if c.Source.IsValid() {
		d.LocalAddr = &net.TCPAddr{IP: c.Source.AsSlice()}
	}
	conn, err := d.DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return nil, err
	}
	l := &tcpLink{tcp: conn.(*net.TCPConn), size: streamMessage, closed: make(chan struct{})}
	if c.MessageSize != 0 {
		l.size = c.MessageSize
	}
	if err := l.open(ctx, c); err != nil {
		conn.Close()
		return nil, err
	}
	go func() {
		defer close(l.closed)
		_, l.fault = io.Copy(io.Discard, l.conn) // collectors send nothing
	}()
	if c.Transport == TLS {
		if err := l.accepted(); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

// verdictTime is how long to wait for a collector's refusal of our certificate.
const verdictTime = 300 * time.Millisecond

// accepted waits for a refusal: in TLS 1.3 it comes after the handshake (RFC 8446
// §4.4.2.4), and messages sent before it would be acknowledged and lost.
func (l *tcpLink) accepted() error {
	select {
	case <-l.closed:
		return l.ended()
	case <-time.After(verdictTime):
		return nil
	}
}

func (l *tcpLink) ended() error {
	if l.fault == nil {
		return errEnded
	}
	return l.fault
}

func (l *tcpLink) open(ctx context.Context, c Config) (err error) {
	if l.raw, err = l.tcp.SyscallConn(); err != nil {
		return err
	}
	var option error
	err = l.raw.Control(func(fd uintptr) {
		var scale uint8
		scale, option = peerScale(int(fd))
		l.room = maxWindow<<scale + uint64(l.size) // plus a message that it has read in part
		option = errors.Join(option, unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(stallTime.Milliseconds())))
	})
	if err = errors.Join(err, option); err != nil {
		return fmt.Errorf("prepare the connection: %w", err)
	}
	under := counted{l.tcp, &l.octets}
	if l.conn = under; c.Transport == TLS {
		config, err := c.Files.load(c.Address)
		if err != nil {
			return err
		}
		secure := tls.Client(under, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("handshake: %w", err)
		}
		l.conn = secure
	}
	return nil
}

// maxWindow is the largest receive window without its scale (RFC 9293 §3.1).
const maxWindow = 65535

// peerScale is the scale of the peer's windows. The peer chose it so that a window can
// cover its whole buffer (RFC 7323 §2.3).
func peerScale(fd int) (uint8, error) {
	var info [unix.SizeofTCPInfo]byte
	size := uint32(len(info))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
		return 0, errno
	}
	return info[6] & 0xf, nil // tcpi_snd_wscale, which Go's TCPInfo lacks
}

func (l *tcpLink) peer() net.Addr        { return l.tcp.RemoteAddr() }
func (l *tcpLink) limit() int            { return l.size }
func (l *tcpLink) unread() uint64        { return l.room }
func (l *tcpLink) gone() <-chan struct{} { return l.closed }

// write writes each message separately, to know which ones are acknowledged.
func (l *tcpLink) write(out []byte, sizes []int) error {
	if err := l.allow(); err != nil {
		return err
	}
	for _, n := range sizes {
		if _, err := l.conn.Write(out[:n]); err != nil {
			return err
		}
		out = out[n:]
		l.written += uint64(n)
		l.marks = append(l.marks, mark{l.written, l.octets.Load()})
	}
	return nil
}

// allow sets the deadline for writing.
func (l *tcpLink) allow() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.finishing.IsZero() {
		return l.tcp.SetWriteDeadline(l.finishing)
	}
	return l.tcp.SetWriteDeadline(time.Now().Add(stallTime))
}

func (l *tcpLink) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finishing = time.Now().Add(closingTime)
	_ = l.tcp.SetWriteDeadline(l.finishing) // also for a write in progress
}

func (l *tcpLink) confirmed() (uint64, []uint64, error) {
	waiting, fault := 0, 0
	var err error
	if outer := l.raw.Control(func(fd uintptr) {
		if waiting, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			fault, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		}
	}); outer != nil {
		return l.end, nil, outer
	}
	if err != nil {
		return l.end, nil, err
	}
	acknowledged := l.octets.Load() - min(uint64(waiting), l.octets.Load())
	n := 0
	for n < len(l.marks) && l.marks[n].octets <= acknowledged {
		l.end = l.marks[n].messages
		n++
	}
	l.marks = append(l.marks[:0], l.marks[n:]...)
	if fault != 0 {
		return l.end, nil, syscall.Errno(fault)
	}
	return l.end, nil, nil
}

// close resets a connection with unacknowledged messages: they will be counted as lost
// or sent again, so they must not arrive now.
func (l *tcpLink) close() {
	if _, _, err := l.confirmed(); err != nil || len(l.marks) > 0 {
		_ = l.tcp.SetLinger(0) // the connection is closed even on error
		l.tcp.Close()
	} else {
		l.conn.Close()
	}
	<-l.closed
}
