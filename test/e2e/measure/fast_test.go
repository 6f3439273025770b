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
	"github.com/waymark-net/waymark/internal/lab/linkloss"
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

// openKnown waits for the agents of fast routers also, which look once a second for the source of
// what routers encapsulate.
func openKnown(t *testing.T, l *lab.Lab, fast ...string) {
	t.Helper()
	open(t, l)
	time.Sleep(time.Second)
	e2e.AwaitSegments(t, l, fast...)
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

// checkFast checks that a router forwarded at least this number of packets in XDP.
func checkFast(t *testing.T, l *lab.Lab, node string, count uint64) {
	t.Helper()
	checkFastSince(t, l, node, e2e.Forwards{}, count)
}

// checkFastSince leaves out what it had forwarded before.
func checkFastSince(t *testing.T, l *lab.Lab, node string, before e2e.Forwards, count uint64) {
	t.Helper()
	// while an agent reads its tables of segments again, which it does late on a busy machine, the stack forwards
	f := e2e.ForwardsOf(t, l, node)
	fast, suspended := f.Sum()-before.Sum(), f.ToStack["segment_suspended"]-before.ToStack["segment_suspended"]
	if fast+suspended < count || fast < count-count/10 {
		t.Errorf("%s forwarded %d packets fast, want %d, or nearly so; left to the stack: %v", node, fast, count, f.ToStack)
	}
}

// countFast does something that sends so many packets of a flow, and checks what the routers count, and
// that some of them forward all in XDP.
func countFast(t *testing.T, l *lab.Lab, flow string, nodes []string, count, octets uint64, do func()) {
	t.Helper()
	before := make(map[string]e2e.Forwards)
	for _, node := range nodes {
		before[node] = e2e.ForwardsOf(t, l, node)
	}
	c := countFlow(t, l, flow)
	e2e.AwaitSegments(t, l, nodes...)
	do()
	c.check(t, count, 0, octets, 0)
	for _, node := range nodes {
		checkFastSince(t, l, node, before[node], count)
	}
}

// countFastForm does so with packets that the ingress encapsulates.
func countFastForm(t *testing.T, l *lab.Lab, list []form, i int, nodes []string) {
	t.Helper()
	const count, size = 3000, 100
	countFast(t, l, list[i].name, nodes, count, uint64(list[i].octets+40+8+size), func() {
		sendTo(t, l, formTo(i).String(), 0, count, size, 64)
	})
}

// arriving is a flow whose packets come to the ingress with their segments.
var arriving = form{name: "arriving", segments: "fc00:2::e,fc00:3::4", source: "2001:db8:1::2"}

// arrivingPackets are one of this flow, and one with a Destination Options header.
func arrivingPackets(t *testing.T) (packet, withOptions []byte) {
	t.Helper()
	const first, last = "fc00:2::e", "fc00:3::4"
	segments := []netip.Addr{netip.MustParseAddr(last), netip.MustParseAddr(first)}
	header, err := srv6.SRH{NextHeader: 41, SegmentsLeft: 1, Segments: segments}.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	inner := craft.Between("2001:db8:1::2", "2001:db8:2::2", craft.UDP).With(craft.Datagram(9, 9, make([]byte, 100)...))
	options := []byte{srv6.NextHeaderRouting, 0, 1, 4, 0, 0, 0, 0}
	return craft.Between("2001:db8:1::2", first, srv6.NextHeaderRouting).With(header, inner),
		craft.Between("2001:db8:1::2", first, 60).With(options, header, inner)
}

// TestSegmentRoutingFast counts and marks packets that routers encapsulate, advance and
// decapsulate in XDP, as TestKernelsForms does where the kernel does all that; a container of
// compressed SIDs (NEXT-CSID), End.X, and packets that arrive with their segments at the router that
// measures them from there on.
func TestSegmentRoutingFast(t *testing.T) {
	t.Parallel()
	list := complete([]form{
		{name: "encap", mode: "encap", segments: "fc00:2::e,fc00:3::1", octets: ip6 + srh + 2*sid},
		{name: "reduced", mode: "encap.red", segments: "fc00:2::e,fc00:3::2", octets: ip6 + srh + sid},
		{name: "container", mode: "encap.red", segments: "fcbb:bb00:2:3::", flow: ", container: 32/16", octets: ip6, last: "fcbb:bb00:3::"},
		{name: "end-x", mode: "encap", segments: "fc00:2::c,fc00:3::3", octets: ip6 + srh + 2*sid},
		arriving,
	})
	l := raiseForms(t, fast, "", list)
	openKnown(t, l, onTheWay...)
	const count = 3000
	for i, f := range list[:4] {
		t.Run(f.name, func(t *testing.T) { countFastForm(t, l, list, i, onTheWay) })
	}
	t.Run(arriving.name, func(t *testing.T) {
		packet, _ := arrivingPackets(t)
		countFast(t, l, arriving.name, onTheWay, count, uint64(len(packet)), func() { inject(t, l, packet, count) })
	})
}

// TestOptionFast does so with the AltMark option. With a Hop-by-Hop header, only the ingress does.
func TestOptionFast(t *testing.T) {
	t.Parallel()
	list := complete([]form{
		{name: "encap", mode: "encap", segments: "fc00:2::e,fc00:3::1", octets: ip6 + 8 + srh + 2*sid},
		{name: "reduced", mode: "encap.red", segments: "fc00:2::e,fc00:3::2", octets: ip6 + 8 + srh + sid},
		arriving,
	})
	l := raiseForms(t, fast, ", carrier: option", list)
	openKnown(t, l, onTheWay...)
	const count, other = 3000, 50
	t.Run("MTU", func(t *testing.T) {
		before := e2e.ForwardsOf(t, l, "ingress")
		checkOptionMTU(t, l)
		checkFastSince(t, l, "ingress", before, 60)
	})
	t.Run("reduced", func(t *testing.T) { countFastForm(t, l, list, 1, onTheWay) })
	t.Run(arriving.name, func(t *testing.T) {
		packet, withOptions := arrivingPackets(t)
		countFast(t, l, arriving.name, onTheWay, count, uint64(len(packet)+8), func() { inject(t, l, packet, count) })
		// a packet gets no second Destination Options header: it leaves as it is
		before, unmarked := e2e.ForwardsOf(t, l, "ingress"), unmarkedAt(t, l, "ingress")
		c := countFlow(t, l, arriving.name)
		inject(t, l, withOptions, other)
		e2e.Await(t, "unmarked packets", closeTime, func() bool { return c.readers[0].sum(t).Unmarked == other })
		checkFastSince(t, l, "ingress", before, other)
		checkUnmarkedAt(t, l, "ingress", unmarked, "header", other)
	})
	reconfigure(t, l, onTheWay, "carrier: option", "carrier: option, header: hop-by-hop")
	openKnown(t, l, onTheWay...)
	t.Run("encap, hop-by-hop", func(t *testing.T) { countFastForm(t, l, list, 0, onTheWay[:1]) })
}

// TestArgumentFast marks bits of the last SID's argument in XDP.
func TestArgumentFast(t *testing.T) {
	t.Parallel()
	const last, prefix = "fc00:3:0:0:0:d6::", "fc00:3:0:0:0:d6::/96"
	const marking = ", carrier: argument, octet: 14, mask: 0xc0, unmarked: 0x00, even: 0x40, odd: 0x80"
	l := raiseMarked(t, "encap", fast, last, prefix, marking, asking{})
	openKnown(t, l, onTheWay...)
	const count, size = 3000, 100
	countFast(t, l, "red", onTheWay, count, ip6+srh+2*sid+40+8+size, func() { send(t, l, count, size, 64) })
	checkLoss(t, l, count, 0)
}

// TestLossFast loses packets behind a router whose stack forwards them, because those that XDP
// forwards pass the losses by, between two that forward in XDP: what they find to be lost is
// that, in every block.
func TestLossFast(t *testing.T) {
	t.Parallel()
	l := raiseMarked(t, "encap", fast, lastSID, lastSID, "", asking{middle: "tcx"})
	openKnown(t, l, "ingress", "egress")
	readers := []*reader{read(t, l, "ingress"), read(t, l, "middle"), read(t, l, "egress")}
	for _, r := range readers {
		r.awaitComplete(t)
	}
	if _, err := l.AddLoss("middle", "eth1", linkloss.Rule{Probability: 0.1, Seed: 3,
		LastSID: netip.PrefixFrom(netip.MustParseAddr(lastSID), 128)}); err != nil {
		t.Fatal(err)
	}
	if err := l.CountBlocks("middle", "eth1", linkloss.Colours{Length: time.Second, Mask: 0x0c, Even: 0x04, Odd: 0x0c}); err != nil {
		t.Fatal(err)
	}
	const count = 3000
	for range 3 { // more than one block
		send(t, l, count/3, 100, 64)
		time.Sleep(700 * time.Millisecond)
	}
	blocks, unplaced, err := l.LostBlocks("middle", "eth1")
	if err != nil || unplaced > 0 || len(blocks) < 2 {
		t.Fatalf("%v, %d packets are in no block (%v)", blocks, unplaced, err)
	}
	lost := uint64(0)
	for _, b := range blocks {
		lost += b.LostPackets
	}
	for i, r := range readers {
		awaitSum(t, r, []string{"ingress", "middle", "egress"}[i], []uint64{count, count, count - lost}[i])
	}
	for _, b := range blocks {
		for i, r := range readers {
			if got, want := r.of(b.Number).Packets, []uint64{b.Packets, b.Packets, b.Packets - b.LostPackets}[i]; got != want {
				t.Errorf("block %d, router %d: %d packets, want %d", b.Number, i, got, want)
			}
		}
	}
	checkLoss(t, l, count, lost)
	checkFast(t, l, "ingress", count)
	checkFast(t, l, "egress", count-lost)
	if f := e2e.ForwardsOf(t, l, "middle"); f.Sum() > 0 || lost == 0 {
		t.Errorf("middle forwarded %d packets fast; %d were lost", f.Sum(), lost)
	}
}

// TestMarkedWithIOAM leaves packets to the stack that may get the option and IOAM: the egress hook
// marks them, each exactly once.
func TestMarkedWithIOAM(t *testing.T) {
	t.Parallel()
	const ioam = `{name: other, interface: eth1, match: {destination: "2001:db8:99::/64"}, mode: inline, options: [{trace: {namespace: 123, ` +
		`type: 0xc00000, size: 64}}]}`
	flow := fmt.Sprintf("source: 2001:db8:1::2, segments: [%q, %q]", endSID, lastSID)
	topology := fmt.Sprintf(
		routers,
		agentOf(1, "out", fast, asking{ioam: ioam}, flow),
		agentOf(2, "transit", fast, asking{}, flow),
		agentOf(3, "in", fast, asking{}, flow),
	)
	l := e2e.RaiseText(t, "routers", strings.ReplaceAll(topology, "mean-delay: true", "mean-delay: true, carrier: option"))
	open(t, l)
	readers := []*reader{read(t, l, "ingress"), read(t, l, "middle"), read(t, l, "egress")}
	for _, r := range readers {
		r.awaitComplete(t)
	}
	header, err := srv6.SRH{
		NextHeader:   41,
		SegmentsLeft: 1,
		Segments:     []netip.Addr{netip.MustParseAddr(lastSID), netip.MustParseAddr(endSID)},
	}.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	inner := craft.Between("2001:db8:1::2", "2001:db8:2::2", craft.UDP).With(craft.Datagram(9, 9, make([]byte, 100)...))
	packet := craft.Between("2001:db8:1::2", endSID, srv6.NextHeaderRouting).With(header, inner)
	e2e.Must(t, l.Node("middle"), "ip", "-6", "route", "add", endSID, "encap", "seg6local", "action", "End", "dev", "eth1")
	const count = 500
	inject(t, l, packet, count)
	checkCounts(t, readers, count, uint64(count*(len(packet)+8)))
	if f := e2e.ForwardsOf(t, l, "ingress"); f.ToStack["marking"] != count || f.Fast["no_ioam"] > 0 {
		t.Errorf("fast %v, left to the stack %v; want %d by marking", f.Fast, f.ToStack, count)
	}
}

// inject sends copies of a packet from alpha to the ingress.
func inject(t *testing.T, l *lab.Lab, packet []byte, count int) {
	t.Helper()
	var to net.HardwareAddr
	err := l.Node("ingress").Do(func() error {
		device, err := net.InterfaceByName("eth0")
		if err == nil {
			to = device.HardwareAddr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const burst = 50
	for range count / burst {
		if err := l.Node("alpha").Do(func() error { return e2e.Inject("eth0", to, slices.Repeat([][]byte{packet}, burst)) }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
