// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// requestTimeout bounds how long a client may take to send its request, and to
// read the answer.
const requestTimeout = 10 * time.Second

// Server serves pages over the network.
type Server struct {
	http    http.Server
	address string
}

// Serve starts to serve at an address. If the server ends by itself, it calls
// failed with the reason.
func Serve(address string, pages http.Handler, failed func(*Server, error)) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{
		http:    http.Server{Handler: pages, ReadHeaderTimeout: requestTimeout, WriteTimeout: requestTimeout},
		address: l.Addr().String(),
	}
	go func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed(s, err)
		}
	}()
	return s, nil
}

// Address is the address and port where it listens.
func (s *Server) Address() string { return s.address }

// Close ends it at once.
func (s *Server) Close() { s.http.Close() }
