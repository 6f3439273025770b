// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/socketdrops"
)

// Server is a socket whose datagrams are answered in batches, and the count of those that found
// no room in it. Its zero value is not open.
type Server struct {
	socket  *Socket
	dropped socketdrops.Counter
}

// Open opens the socket, in the network namespace of the calling thread.
func (s *Server) Open(c Config) error {
	socket, err := Listen(c)
	if err != nil {
		return err
	}
	s.socket = socket
	s.dropped.Begin(socket.Dropped)
	return nil
}

// Socket is the open socket, by which answers are sent.
func (s *Server) Socket() *Socket { return s.socket }

// Local is the address and port of the open socket.
func (s *Server) Local() netip.AddrPort { return s.socket.Local() }

// Dropped is how many datagrams found no room in the socket; it may be called at any time.
func (s *Server) Dropped() uint64 { return s.dropped.Lost() }

// Close closes the socket of a server that does not run.
func (s *Server) Close() error {
	s.dropped.End()
	return s.socket.Close()
}

// Serve passes the datagrams that arrive to a function until the context ends, which is no
// error, or until the function or the socket fails, and closes the socket. The datagrams are
// valid until the function returns.
func (s *Server) Serve(ctx context.Context, answer func([]Datagram) error) error {
	stop := context.AfterFunc(ctx, func() { s.socket.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer s.Close()
	for {
		list, err := s.socket.Receive()
		if err == nil {
			err = answer(list)
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
	}
}
