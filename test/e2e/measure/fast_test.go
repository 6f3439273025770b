// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/srv6"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

const fast = "xdp, forwarding: fast"

// open has the links take what XDP redirects, and the host send complete checksums.
func open(t *testing.T, l *lab.Lab) {
	t.Helper()
	for _, node := range []string{"ingress", "middle", "egress"} {
		e2e.Must(t, l.Node(node), "ethtool", "-K", "eth1", "gro", "on")
	}
	e2e.OpenEnds(t, l, "alpha", "ingress", "middle", "egress", "beta")
}

// checkCounts compares what the three routers counted; all packets arrive.
func checkCounts(t *testing.T, readers []*reader, count, octets uint64) {
	t.Helper()
	for i, r := range readers {
		awaitSum(t, r, []string{"ingress", "middle", "egress"}[i], count)
		if s := r.sum(t); s.Octets != octets || s.Unmarked+s.Late+s.Early+s.Unsized > 0 {
			t.Errorf("router %d: %+v, want %d octets", i, s, octets)
		}
		if i == 0 {
			continue
		}
		if list := differ(readers[0], r); len(list) > 0 {
			t.Errorf("between ingress and router %d: %s", i, strings.Join(list, "; "))
		}
	}
}

// checkFast checks that a router forwarded so many packets without its stack.
func checkFast(t *testing.T, l *lab.Lab, node string, count uint64) {
	t.Helper()
	if f := e2e.ForwardsOf(t, l, node); f.Sum() < count {
		t.Errorf("%s forwarded %d packets fast, want %d; left to the stack: %v", node, f.Sum(), count, f.ToStack)
	}
}

// TestSegmentRoutingFast counts and marks packets that routers encapsulate, advance and
// decapsulate in XDP, as TestSegmentRouting does where the kernel does all that.
func TestSegmentRoutingFast(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"encap", "encap.red"} {
		t.Run(mode, func(t *testing.T) {
			l := raise(t, mode, fast)
			open(t, l)
			time.Sleep(time.Second) // the agent reads the source of encapsulations once a second
			readers := []*reader{read(t, l, "ingress"), read(t, l, "middle"), read(t, l, "egress")}
			for _, r := range readers {
				r.awaitComplete(t)
			}
			const count, size = 3000, 100
			send(t, l, count, size, 64)
			outer := 40 + 8 + 2*16
			if mode == "encap.red" {
				outer -= 16
			}
			checkCounts(t, readers, count, uint64(count*(outer+48+size)))
			for _, node := range []string{"ingress", "middle", "egress"} {
				checkFast(t, l, node, count)
			}
		})
	}
}

// TestMarkedWhereForwarded marks packets that arrive with their segments at the router
// that measures them from there on, and that XDP forwards: each exactly once.
func TestMarkedWhereForwarded(t *testing.T) {
	list := []netip.Addr{netip.MustParseAddr(endSID), netip.MustParseAddr(lastSID)}
	flow := fmt.Sprintf("source: 2001:db8:1::2, segments: [%q, %q]", endSID, lastSID)
	l := e2e.RaiseText(t, "routers", fmt.Sprintf(routers, agentOf(1, "out", fast, asking{}, flow), agentOf(2, "transit", fast, asking{}, flow), agentOf(3, "in", fast, asking{}, flow)))
	e2e.Must(t, l.Node("middle"), "ip", "-6", "route", "add", endSID, "encap", "seg6local", "action", "End", "dev", "eth1")
	e2e.Must(t, l.Node("egress"), "ip", "-6", "route", "add", lastSID, "encap", "seg6local", "action", "End.DT6", "table", "254", "dev", "eth1")
	open(t, l)
	time.Sleep(time.Second)
	readers := []*reader{read(t, l, "ingress"), read(t, l, "middle"), read(t, l, "egress")}
	for _, r := range readers {
		r.awaitComplete(t)
	}
	slices.Reverse(list)
	header, err := srv6.SRH{NextHeader: 41, SegmentsLeft: 1, Segments: list}.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	inner := craft.Between("2001:db8:1::2", "2001:db8:2::2", craft.UDP).With(craft.Datagram(9, 9, make([]byte, 100)...))
	packet := craft.Between("2001:db8:1::2", endSID, srv6.NextHeaderRouting).With(header, inner)
	var to net.HardwareAddr
	err = l.Node("ingress").Do(func() error {
		device, err := net.InterfaceByName("eth0")
		if err == nil {
			to = device.HardwareAddr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const count, burst = 3000, 50
	for range count / burst {
		if err := l.Node("alpha").Do(func() error { return e2e.Inject("eth0", to, slices.Repeat([][]byte{packet}, burst)) }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	checkCounts(t, readers, count, count*uint64(len(packet)))
	for _, node := range []string{"ingress", "middle", "egress"} {
		checkFast(t, l, node, count)
	}
}
