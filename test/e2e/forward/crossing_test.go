// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"net"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// changeBound is how soon a change of the kernel's routes must take effect.
const changeBound = 100 * time.Millisecond

// changePause is the time between changes: shorter than a cached next hop may
// last.
const changePause = 300 * time.Millisecond

// twoWays is `ecmp` with only the way through porthos in use. The routers in the
// middle run no agent, so their captures see every packet.
func twoWays(t *testing.T) *lab.Topology {
	t.Helper()
	top := e2e.Builtin(t, "ecmp")
	for _, node := range []string{"athos", "aramis"} {
		for i := range top.Node(node).Routes {
			r := &top.Node(node).Routes[i]
			r.Via = r.Via[:1]
		}
	}
	top.Node("porthos").Agent, top.Node("dartagnan").Agent = nil, nil
	return top
}

// raiseTwoWays raises it with athos and aramis forwarding fast.
func raiseTwoWays(t *testing.T, top *lab.Topology) *lab.Lab {
	t.Helper()
	forwardFast(t, top, "athos", "aramis")
	l := e2e.Raise(t, top)
	e2e.OpenEnds(t, l, "alpha", "porthos", "dartagnan", "beta")
	e2e.Must(t, l.Node("dartagnan"), "ethtool", "-K", "eth1", "gro", "on")
	e2e.Must(t, l.Node("porthos"), "ethtool", "-K", "eth1", "gro", "on")
	return l
}

// change is one change of the way to beta.
type change struct {
	began, done time.Time
	way         string // the node in the middle that packets now take
}

// crossing is a stream over two ways, and what the routers in the middle saw of
// it.
type crossing struct {
	lab     *lab.Lab
	stream  *stream
	seen    map[string]*arrivals
	changes []change
	bound   time.Duration // how soon a change must have its effect
}

// startCrossing starts traffic through porthos.
func startCrossing(t *testing.T, l *lab.Lab) *crossing {
	t.Helper()
	c := &crossing{lab: l, stream: startStream(t, l), seen: map[string]*arrivals{}, bound: changeBound}
	for _, node := range []string{"porthos", "dartagnan"} {
		c.seen[node] = watchArrivals(t, l, c.stream, node, "eth0")
	}
	c.recordCrossing("porthos", time.Now())
	time.Sleep(patience.Of(200 * time.Millisecond))
	return c
}

func (c *crossing) recordCrossing(way string, began time.Time) {
	c.changes = append(c.changes, change{began, time.Now(), way})
}

// change runs a command in athos that makes packets take a way.
func (c *crossing) change(t *testing.T, way string, command ...string) {
	t.Helper()
	began := time.Now()
	e2e.Must(t, c.lab.Node("athos"), command...)
	c.recordCrossing(way, began)
}

// stop ends the stream and checks that its packets took each way in its time:
// none may take another way once the bound has passed.
func (c *crossing) stop(t *testing.T) streamResult {
	t.Helper()
	r := c.stream.stop(t)
	seen := map[string][]arrival{}
	for node, a := range c.seen {
		seen[node] = a.stop(t)
	}
	ended := r.sent[len(r.sent)-1]
	var latest time.Duration
	for i, now := range c.changes {
		until := ended
		if i+1 < len(c.changes) {
			until = c.changes[i+1].began
		}
		settled := now.done.Add(c.bound)
		sent := r.sentIn(settled, until) // 0: the next change came before
		for node, all := range seen {
			count, last := 0, now.done
			for _, a := range all {
				if a.at.After(now.done) && a.at.Before(until) {
					count, last = count+1, a.at
				}
			}
			took := last.Sub(now.done)
			if node != now.way {
				latest = max(latest, last.Sub(now.began))
			}
			switch {
			case node == now.way && count < (sent-streamBurst)/2:
				t.Errorf("change %d: only %d packets took %s in %v, and %d were sent", i, count, node, until.Sub(now.done), sent)
			case node != now.way && took > c.bound:
				t.Errorf("change %d to %s: %d packets still took %s, the last after %v", i, now.way, count, node, took)
			}
		}
	}
	t.Logf("%d datagrams, %d of them late; a change took %v at most, its command included", len(r.sent), r.late, latest)
	return r
}

// linkAddress is the link-layer address of an interface.
func linkAddress(t *testing.T, n *lab.Node, name string) (address net.HardwareAddr) {
	t.Helper()
	if err := n.Do(func() error {
		device, err := net.InterfaceByName(name)
		if err == nil {
			address = device.HardwareAddr
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return address
}

// alter calls a function in athos that changes the way to beta.
func (c *crossing) alter(t *testing.T, way string, change func() error) {
	t.Helper()
	began := time.Now()
	if err := c.lab.Node("athos").Do(change); err != nil {
		t.Fatal(err)
	}
	c.recordCrossing(way, began)
}
