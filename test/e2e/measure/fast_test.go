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
	// while an agent reads its tables of segments again, which it does late on a busy machine, the stack forwards
	f := e2e.ForwardsOf(t, l, node)
	if f.Sum()+f.ToStack["segment_suspended"] < count || f.Sum() < count-count/10 {
		t.Errorf("%s forwarded %d packets fast, want %d, or nearly so; left to the stack: %v", node, f.Sum(), count, f.ToStack)
	}
}

// TestSegmentRoutingFast counts and marks packets that routers encapsulate, advance and
// decapsulate in XDP, as TestSegmentRouting does where the kernel does all that. With a
// Hop-by-Hop header, only the ingress does so.
func TestSegmentRoutingFast(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ mode, marking string }{
		{"encap", ""}, {"encap.red", ""}, {"encap", ", carrier: option, header: hop-by-hop"}, {"encap.red", ", carrier: option"},
	} {
		mode := tt.mode
		t.Run(mode+tt.marking, func(t *testing.T) {
			l := raiseMarked(t, mode, fast, lastSID, lastSID, tt.marking, asking{})
			openKnown(t, l, "ingress", "middle", "egress")
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
			nodes := []string{"ingress", "middle", "egress"}
			if tt.marking != "" {
				outer += 8
			}
			if strings.Contains(tt.marking, "hop-by-hop") {
				nodes = nodes[:1]
			}
			checkCounts(t, readers, count, uint64(count*(outer+48+size)))
			for _, node := range nodes {
				checkFast(t, l, node, count)
			}
		})
	}
}

// TestBehavioursFast counts in XDP what TestSegmentRoutingFast has not: marks in an argument, a
// container of compressed SIDs (NEXT-CSID) and End.X.
func TestBehavioursFast(t *testing.T) {
	t.Parallel()
	const outer, last, prefix = 40 + 8 + 2*16, "fc00:3:0:0:0:d6::", "fc00:3:0:0:0:d6::/96"
	for _, tt := range []struct {
		name  string
		outer int
		raise func(t *testing.T) *lab.Lab
	}{
		{"argument", outer, func(t *testing.T) *lab.Lab {
			return raiseMarked(t, "encap", fast, last, prefix, ", carrier: argument, octet: 14, mask: 0xc0, unmarked: 0x00, even: 0x40, odd: 0x80",
				asking{})
		}},
		{"NEXT-CSID", 40, func(t *testing.T) *lab.Lab { return raiseContainer(t, fast) }},
		{"End.X", outer, func(t *testing.T) *lab.Lab {
			l := raise(t, "encap", fast)
			e2e.Must(t, l.Node("middle"), "ip", "-6", "route", "replace", endSID, "encap", "seg6local", "action", "End.X", "nh6", "2001:db8:23::3",
				"dev", "eth1")
			return l
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := tt.raise(t)
			openKnown(t, l, "ingress", "middle", "egress")
			readers := []*reader{read(t, l, "ingress"), read(t, l, "middle"), read(t, l, "egress")}
			for _, r := range readers {
				r.awaitComplete(t)
			}
			const count, size = 3000, 100
			send(t, l, count, size, 64)
			checkCounts(t, readers, count, uint64(count*(tt.outer+48+size)))
			checkLoss(t, l, count, 0)
			for _, node := range []string{"ingress", "middle", "egress"} {
				checkFast(t, l, node, count)
			}
		})
	}
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

// TestMarkedWhereForwarded marks packets that arrive with their segments at the router
// that measures them from there on, and that XDP forwards: each exactly once.
func TestMarkedWhereForwarded(t *testing.T) {
	t.Parallel()
	for _, marking := range []string{"", ", carrier: option"} {
		t.Run("marks"+marking, func(t *testing.T) { checkMarkedWhereForwarded(t, marking) })
	}
}

func checkMarkedWhereForwarded(t *testing.T, marking string) {
	t.Helper()
	list := []netip.Addr{netip.MustParseAddr(endSID), netip.MustParseAddr(lastSID)}
	flow := fmt.Sprintf("source: 2001:db8:1::2, segments: [%q, %q]", endSID, lastSID)
	topology := fmt.Sprintf(
		routers,
		agentOf(1, "out", fast, asking{}, flow),
		agentOf(2, "transit", fast, asking{}, flow),
		agentOf(3, "in", fast, asking{}, flow),
	)
	l := e2e.RaiseText(t, "routers", strings.ReplaceAll(topology, "mean-delay: true", "mean-delay: true"+marking))
	e2e.Must(t, l.Node("middle"), "ip", "-6", "route", "add", endSID, "encap", "seg6local", "action", "End", "dev", "eth1")
	e2e.Must(
		t,
		l.Node("egress"),
		"ip",
		"-6",
		"route",
		"add",
		lastSID,
		"encap",
		"seg6local",
		"action",
		"End.DT6",
		"table",
		"254",
		"dev",
		"eth1",
	)
	openKnown(t, l, "middle", "egress") // the ingress has no route with segments
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
	const count, other = 3000, 50
	inject(t, l, packet, count)
	octets := uint64(len(packet))
	if marking != "" {
		octets += 8
	}
	checkCounts(t, readers, count, count*octets)
	for _, node := range []string{"ingress", "middle", "egress"} {
		checkFast(t, l, node, count)
	}
	if marking == "" {
		return
	}
	// a packet gets no second Destination Options header: it leaves as it is
	options := []byte{srv6.NextHeaderRouting, 0, 1, 4, 0, 0, 0, 0}
	inject(t, l, craft.Between("2001:db8:1::2", endSID, 60).With(options, header, inner), other)
	e2e.Await(t, "unmarked packets", closeTime, func() bool { return readers[0].sum(t).Unmarked == other })
	checkFast(t, l, "ingress", count+other)
	if text := e2e.Must(t, l.Node("ingress"), e2e.Program, "status", "--json"); !strings.Contains(
		text,
		fmt.Sprintf(`"unmarked":{"header":%d}`, other),
	) {
		t.Errorf("status does not count %d packets with a header: %s", other, text)
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
	}.Append(
		nil,
	)
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
