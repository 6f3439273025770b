// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// fakePeers spares an address when the test says so.
type fakePeers struct {
	allowed chan error // a nil for each address that may be used

	mu       sync.Mutex
	asked    []string
	released int
	left     chan struct{} // of the last one
}

func (p *fakePeers) Spare(ctx context.Context, network, host string, to netip.AddrPort) (<-chan struct{}, func(), error) {
	p.mu.Lock()
	p.asked = append(p.asked, network+" "+host+" "+to.String())
	left := make(chan struct{})
	p.left = left
	p.mu.Unlock()
	select {
	case err := <-p.allowed:
		if err != nil {
			return nil, nil, err
		}
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	return left, sync.OnceFunc(func() {
		p.mu.Lock()
		p.released++
		p.mu.Unlock()
	}), nil
}

func (p *fakePeers) counts() (asked, released int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked), p.released
}

func (p *fakePeers) asks(n int) func() bool {
	return func() bool { asked, _ := p.counts(); return asked == n }
}

// Nothing is sent to an address before the node spares it; a name that has moved gets a
// new session over UDP; an address is released when its session has ended.
func TestPeersAreSpared(t *testing.T) {
	for _, transport := range []Transport{UDP, TCP} {
		t.Run(string(transport), func(t *testing.T) {
			r, x := newReceiver(t), newEncoder(t)
			address := r.listen(transport, "[::1]:0")
			c := newCollector(t, x, Config{Transport: transport, Address: address, Domain: 2})
			peers := &fakePeers{allowed: make(chan error)}
			c.peers = peers
			stop := run(c)
			offer(x, c, postcard(t), 10)
			waitFor(t, "the sink asks", peers.asks(1))
			time.Sleep(50 * time.Millisecond)
			if n := r.records(); n != 0 || c.Stats().Messages != 0 {
				t.Errorf("%d records were sent before the address is spared", n)
			}
			if want := string(transport) + "6 ::1 " + address; peers.asked[0] != want {
				t.Errorf("asked for %q, want %q", peers.asked[0], want)
			}
			peers.allowed <- errors.New("no room")
			waitFor(t, "it says why it does not send", func() bool { return c.Stats().Error == "dial "+string(transport)+" "+address+": no room" })
			waitFor(t, "the sink asks again", peers.asks(2))
			peers.allowed <- nil
			waitFor(t, "receiving all", func() bool { return r.records() == 10 })
			close(peers.left)
			want := 0
			if transport == UDP {
				waitFor(t, "a new session asks", peers.asks(3))
				waitFor(t, "the old address is released", func() bool { _, n := peers.counts(); return n == 1 })
				peers.allowed <- nil
				want = 1
			}
			offer(x, c, postcard(t), 10)
			waitFor(t, "receiving more", func() bool { return r.records() == 20 })
			if _, n := peers.counts(); n != want {
				t.Errorf("%d addresses are released, want %d", n, want)
			}
			stop()
			if _, n := peers.counts(); n != want+1 {
				t.Errorf("after the end, %d addresses are released, want %d", n, want+1)
			}
			check(t, c)
			r.close()
		})
	}
}

// A sink that waits for its address ends at once.
func TestEndWhileSparing(t *testing.T) {
	c := newCollector(t, newEncoder(t), Config{Transport: UDP, Address: "[::1]:4739"})
	peers := &fakePeers{allowed: make(chan error)}
	c.peers = peers
	stop := run(c)
	waitFor(t, "the sink asks", peers.asks(1))
	began := time.Now()
	stop()
	if took := time.Since(began); took > dialTimeout/2 {
		t.Errorf("the end took %v", took)
	}
}
