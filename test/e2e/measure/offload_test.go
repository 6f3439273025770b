// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"strings"
	"syscall"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// TestOffloadedTCP sends TCP in packets that hosts leave for the network card to cut,
// while an agent is killed and begins again: all routers count the same packets, and
// the same octets.
func TestOffloadedTCP(t *testing.T) {
	l := raise(t, "encap", "tcx")
	for _, end := range []struct{ node, device string }{{"alpha", "eth0"}, {"ingress", "eth0"}} {
		e2e.Must(t, l.Node(end.node), "ip", "link", "set", end.device, "mtu", "1400")
	}
	out, transit, in := read(t, l, "ingress"), read(t, l, "middle"), read(t, l, "egress")
	for _, r := range []*reader{out, transit, in} {
		r.awaitComplete(t)
	}
	exchange := lab.Traffic{Kind: lab.KindTCP, From: "alpha", To: "beta", Bytes: 20 << 20, Port: 9001}
	for range 2 {
		if r, err := l.Send(t.Context(), exchange); err != nil || r.Lost() > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		e2e.Restart(t, l, "middle", syscall.SIGKILL)
	}
	var a, b, c = out.sum(t), transit.sum(t), in.sum(t)
	e2e.Await(t, "the same sums", closeTime, func() bool {
		a, b, c = out.sum(t), transit.sum(t), in.sum(t)
		return a.Octets > 40<<20 && a.Packets == b.Packets && b.Packets == c.Packets
	})
	if a.Octets != b.Octets || b.Octets != c.Octets || a.Unsized+b.Unsized+c.Unsized+b.Unmarked+c.Unmarked > 0 {
		t.Errorf("out %+v\ntransit %+v\nin %+v", a, b, c)
	}
	for _, pair := range [][2]*reader{{out, transit}, {transit, in}} {
		if list := differ(pair[0], pair[1]); len(list) > 0 {
			t.Error(strings.Join(list, "; "))
		}
	}
}
