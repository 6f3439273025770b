// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/ipfix"
)

// streamBuffer is the number of bytes read from a connection at once.
const streamBuffer = 1 << 14

// connections are the open connections of all sockets.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]netip.Addr
	from map[netip.Addr]int
}

// admit remembers a connection, unless there are too many.
func (c *connections) admit(conn net.Conn, from netip.Addr, limit, addressLimit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= limit || c.from[from] >= addressLimit {
		return false
	}
	if c.open == nil {
		c.open, c.from = map[net.Conn]netip.Addr{}, map[netip.Addr]int{}
	}
	c.open[conn] = from
	c.from[from]++
	return true
}

func (c *connections) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.open[conn]
	delete(c.open, conn)
	if c.from[from]--; c.from[from] <= 0 {
		delete(c.from, from)
	}
}

// streams is a TCP socket that accepts connections, with TLS or without.
type streams struct {
	receiving *receiving
	listener  *net.TCPListener
	endpoint  Endpoint
	closed    atomic.Bool
}

func (c *receiving) listenStream(e Endpoint) (listener, error) {
	l := c.inheritStream(e)
	if l == nil {
		var err error
		if l, err = net.ListenTCP(e.network(), net.TCPAddrFromAddrPort(e.Address)); err != nil {
			return nil, fmt.Errorf("listen at %v: %w", e, listenFault(err, c.config.ListenName))
		}
		c.keepStream(e, l)
	}
	e.Address = l.Addr().(*net.TCPAddr).AddrPort()
	return &streams{receiving: c, listener: l, endpoint: e}, nil
}

func (l *streams) Endpoint() Endpoint { return l.endpoint }

func (l *streams) end() { l.Close() }

// Close ends serve.
func (l *streams) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	return l.listener.Close()
}

// serve accepts connections until the socket is closed, and ends when all of
// them have.
func (l *streams) serve(ctx context.Context) error {
	var open sync.WaitGroup
	defer open.Wait()
	c := l.receiving
	for {
		conn, err := l.listener.AcceptTCP()
		switch {
		case l.closed.Load():
			if err == nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("%v: %w", l.endpoint, err)
		case err != nil: // for example, no more file descriptors
			c.reportToOperator("%v: %v", l.endpoint, err)
			time.Sleep(c.config.flushInterval)
			continue
		}
		exporter := unmapped(conn.RemoteAddr().(*net.TCPAddr).AddrPort())
		if !c.tcp.admit(conn, exporter.Addr(), c.config.Connections, c.config.AddressLimit) {
			conn.Close()
			c.count(func(r *Received) { r.ConnectionsRefused++ })
			continue
		}
		c.count(func(r *Received) { r.Connections++ })
		open.Go(func() {
			defer c.tcp.remove(conn)
			l.connection(ctx, conn, exporter)
		})
	}
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// connection reads one connection to its end.
func (l *streams) connection(ctx context.Context, raw *net.TCPConn, exporter netip.AddrPort) {
	c := l.receiving
	conn := net.Conn(raw)
	defer context.AfterFunc(ctx, func() { part(raw) })()
	defer func() { conn.Close() }()
	if l.endpoint.TLS {
		secured := tls.Server(raw, c.config.TLS)
		conn = secured
		raw.SetDeadline(time.Now().Add(c.config.MessageTimeout))
		if err := secured.HandshakeContext(ctx); err != nil {
			if ctx.Err() == nil {
				c.count(func(r *Received) { r.HandshakesFailed++ })
				c.reportToOperator("%v: no session with %v: %v", l.endpoint, exporter, handshakeFault(err))
				refuse(raw)
			}
			return
		}
		raw.SetDeadline(time.Time{})
	}
	key := ipfix.SessionKey{Transport: ipfix.TCP, Exporter: exporter, Collector: unmapped(raw.LocalAddr().(*net.TCPAddr).AddrPort())}
	session, err := c.decoder.Open(key, time.Now())
	if err != nil {
		c.count(func(r *Received) { r.SessionsRefused++ })
		return
	}
	end := arrival{session: session, over: true}
	defer func() {
		c.decoder.Close(key)
		c.arrivals <- end
	}()
	if err := c.stream(conn, session, join.Exporter{Addr: exporter.Addr()}); ctx.Err() == nil {
		end.err = err
		c.ended(err)
	}
}

// refuse waits until the client has read the alert and closed, within the deadline
// of the handshake. A client of TLS 1.3 sends data before it knows whether its
// certificate is accepted; closing with that data unread would reset the connection,
// and the reset discards the alert at the client.
func refuse(raw *net.TCPConn) {
	const most = 1 << 20
	if raw.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, raw, most) // ends when the client closes, or at the deadline
	}
}

// partingTime is how long an exporter may take to end its connection when the
// collector ends.
const partingTime = 2 * time.Second

// part asks the exporter to end the connection. Data in flight is already acknowledged,
// and would be lost silently if the collector just closed.
func part(raw *net.TCPConn) {
	if raw.CloseWrite() != nil {
		raw.Close()
		return
	}
	time.AfterFunc(partingTime, func() { raw.Close() })
}

// stream reads messages until the connection ends. It skips malformed messages (RFC
// 7011 §9.1), whose length says where the next one begins.
func (c *receiving) stream(conn net.Conn, session *ipfix.Session, from join.Exporter) error {
	r := bufio.NewReaderSize(conn, streamBuffer)
	silence := c.config.MessageTimeout // a new connection must send a message soon
	for {
		if r.Buffered() == 0 {
			conn.SetReadDeadline(time.Now().Add(silence))
			if _, err := r.Peek(1); err != nil {
				return err
			}
		}
		conn.SetReadDeadline(time.Now().Add(c.config.MessageTimeout))
		octets, err := ipfix.ReadMessage(r, nil) // what is waited for outlives this turn
		if err != nil {
			return err
		}
		if c.receive(session, from, octets) {
			silence = c.config.SilenceTimeout
		}
	}
}

// ended counts how a connection ended, unless that is an error in a message, which the next stage counts.
func (c *receiving) ended(err error) {
	var problem *ipfix.Problem
	switch {
	case errors.As(err, &problem):
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.count(func(r *Received) { r.TimedOut++ })
	case !errors.Is(err, io.EOF):
		c.count(func(r *Received) { r.Broken++ })
	}
}
