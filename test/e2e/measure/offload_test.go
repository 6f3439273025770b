// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// countThroughRestarts sends TCP in packets that hosts leave for the network card to cut,
// while an agent is killed and begins again: all routers count the same packets, and
// the same octets.
func countThroughRestarts(t *testing.T, l *lab.Lab) {
	t.Helper()
	out, transit, in := countOffloaded(t, l, "red", netip.Addr{}, func() { e2e.Restart(t, l, "middle", syscall.SIGKILL) })
	checkOctets(t, out, transit, in)
}

// TestOffloadedTCPWithIOAM inserts IOAM into packets that are still to be cut, after they
// were counted: each is cut into more packets, which are as long as they were to be, and
// the ingress counts as many as the others.
func TestOffloadedTCPWithIOAM(t *testing.T) {
	const ioam = `{name: all, interface: eth1, match: {destination: "fc00:2::/32"}, mode: inline, options: [{trace: {namespace: 123, ` +
		`type: 0xc00000, size: 64}}]}`
	l := raiseWith(t, "inline", "tcx", asking{ioam: ioam})
	// the host at the end of the segments gets their header
	e2e.Must(t, l.Node("beta"), "sysctl", "-qw", "net.ipv6.conf.all.seg6_enabled=1", "net.ipv6.conf.eth0.seg6_enabled=1")
	countOffloaded(t, l, "red", netip.Addr{}, func() {})
	counters := e2e.Must(t, l.Node("ingress"), e2e.Program, "status", "--json")
	if !strings.Contains(counters, `"encap_inserted":`) {
		t.Errorf("nothing was inserted: %s", counters)
	}
}

// An outage is a time without an agent.
type outage struct{ from, to time.Time }

// during does something that ends an agent and starts it anew.
func during(do func()) outage {
	from := time.Now()
	do()
	return outage{from, time.Now()}
}

// hides reports whether no agent may have read a block: two more were closed before the next
// agent read its first ones, shortly after it was ready.
func (o outage) hides(number uint64) bool {
	length, err := time.ParseDuration(block)
	closed := time.Unix(0, int64(number+1)*int64(length)).Add(length / 2)
	return err == nil && closed.After(o.from) && closed.Add(2*length).Before(o.to.Add(length/2))
}

// hide takes the blocks of a time without an agent out of a router's.
func (r *reader) hide(o outage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for number, b := range r.blocks {
		if o.hides(number) {
			r.hidden[number] = b
			delete(r.blocks, number)
		}
	}
}

// all is how many octets a router counted, also in blocks that another one may lack.
func (r *reader) all(t *testing.T) (octets uint64) {
	t.Helper()
	octets = r.sum(t).Octets
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.hidden {
		octets += b.Octets
	}
	return octets
}

// countOffloaded sends TCP along the path, with something done after it, twice. All routers
// have to count the same packets.
func countOffloaded(t *testing.T, l *lab.Lab, flow string, to netip.Addr, then func()) (out, transit, in *reader) {
	t.Helper()
	for _, end := range []struct{ node, device string }{{"alpha", "eth0"}, {"ingress", "eth0"}} {
		e2e.Must(t, l.Node(end.node), "ip", "link", "set", end.device, "mtu", "1400")
	}
	c := countFlow(t, l, flow)
	out, transit, in = c.readers[0], c.readers[1], c.readers[2]
	exchange := lab.Traffic{Kind: lab.KindTCP, From: "alpha", To: "beta", Address: to, Bytes: 20 << 20, Port: 9001}
	var outages []outage
	for range 2 {
		if r, err := l.Send(t.Context(), exchange); err != nil || r.Lost() > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		o := during(then)
		t.Logf("something was done for %v", o.to.Sub(o.from))
		outages = append(outages, o)
	}
	e2e.Await(t, "the same sums", closeTime, func() bool {
		for _, r := range []*reader{out, transit, in} {
			for _, o := range outages {
				r.hide(o)
			}
		}
		a, b, c := out.sum(t), transit.sum(t), in.sum(t)
		return out.all(t) > 40<<20 && a.Packets == b.Packets && b.Packets == c.Packets
	})
	for _, pair := range [][2]*reader{{out, transit}, {transit, in}} {
		if list := differ(pair[0], pair[1]); len(list) > 0 {
			t.Error(strings.Join(list, "; "))
		}
	}
	return out, transit, in
}

// checkOctets checks that three routers counted the same octets, and no packet apart.
func checkOctets(t *testing.T, out, transit, in *reader) {
	t.Helper()
	a, b, c := out.sum(t), transit.sum(t), in.sum(t)
	if a.Octets != b.Octets || b.Octets != c.Octets || a.Unsized+b.Unsized+c.Unsized+b.Unmarked+c.Unmarked > 0 {
		t.Errorf("out %+v\ntransit %+v\nin %+v", a, b, c)
	}
}
