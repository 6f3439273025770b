// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/waymark-net/waymark/internal/sink"
)

// sparing keeps the addresses that one attempt to reach a collector sends to out of this
// node's encapsulations, before the first packet to each.
type sparing struct {
	peers sink.Peers
	host  string

	mu     sync.Mutex
	ended  bool
	spared []sparedPeer
}

type sparedPeer struct {
	address netip.AddrPort
	left    <-chan struct{}
	release func()
}

func (c *Sink) newSparing() *sparing {
	host, _, _ := net.SplitHostPort(c.config.Address) // New has checked it
	return &sparing{peers: c.peers, host: host}
}

// control is called between the making of a socket and its first packet, for each address
// of a name.
func (s *sparing) control(ctx context.Context, network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the collector's address: %w", err)
	}
	if s.peers == nil {
		return nil
	}
	left, release, err := s.peers.Spare(ctx, network, s.host, to)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		release()
		return context.Canceled
	}
	s.spared = append(s.spared, sparedPeer{to, left, release})
	return nil
}

// connected forgets the addresses that were only tried. The channel is closed when the
// host has other addresses than this one.
func (s *sparing) connected(to net.Addr) (left <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var peer netip.AddrPort
	switch a := to.(type) {
	case *net.UDPAddr:
		peer = a.AddrPort()
	case *net.TCPAddr:
		peer = a.AddrPort()
	}
	same := func(p sparedPeer) bool {
		return p.address.Port() == peer.Port() && p.address.Addr().Unmap() == peer.Addr().Unmap()
	}
	s.spared = slices.DeleteFunc(s.spared, func(p sparedPeer) bool {
		if same(p) {
			left = p.left
			return false
		}
		p.release()
		return true
	})
	return left
}

// end forgets all of them.
func (s *sparing) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, p := range s.spared {
		p.release()
	}
	s.spared = nil
}
