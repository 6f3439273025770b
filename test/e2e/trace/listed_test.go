// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// listing is how many UDP packets cross a domain one of whose nodes joins them as lists, on receipt
// (rx-gro-list).
var listing = segmented{from: "alpha", size: 1200, each: 20, calls: 10}

// joinsLists makes one node of the domain join what it receives as lists. The others join nothing, and
// every link carries single packets with complete checksums, as a network does.
func joinsLists(t *testing.T, l *lab.Lab, node string) {
	t.Helper()
	for _, n := range []string{"athos", "porthos", "aramis"} {
		on := map[bool]string{true: "on", false: "off"}[n == node]
		e2e.Must(t, l.Node(n), "ethtool", "-K", "eth0", "gro", on, "rx-gro-list", on)
	}
}

// crossing is what aramis receives of packets to beta, by hop limit, words that are left in the trace,
// and overflow flag.
func crossing(t *testing.T, path, filter string) map[string]int {
	t.Helper()
	got := map[string]int{}
	for _, p := range e2e.Dissect(t, path, "ipv6.dst == 2001:db8:2::2 && "+filter, "ipv6.hlim", "ipv6.opt.ioam.trace.remlen",
		"ipv6.opt.ioam.trace.flag.o", "_ws.malformed") {
		outer, _, _ := strings.Cut(p[0], ",")
		got[strings.TrimSpace(strings.Join([]string{outer, p[1], p[2], p[3]}, " "))]++
	}
	return got
}

// Where receive offload keeps packets as a list, the kernel gives what changes in the headers of the
// first one to the others only if it has to cut them anew: packets of tunnels, and those that have
// grown. Of others, the first one alone has this node's data, as it alone has a lower hop limit. Nothing
// is lost or changed, and removal reaches all of them. Before that, large packets grow where traces are
// incremental.
func TestListsOfReceiveOffload(t *testing.T) {
	t.Parallel()
	for _, tt := range e2e.Modes(e2e.TCModes()[0]) {
		for _, incremental := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, incremental %v", tt.Mode, incremental), func(t *testing.T) {
				t.Parallel()
				top := e2e.Domain(t, tt)
				e2e.SetMTU(top, 1500, 2000)
				if incremental {
					e2e.Reconfigure(t, top, "athos", "- {id: 123}", "- {id: 123, incremental: true}", "size: 60}", "size: 60, incremental: true}")
					e2e.Reconfigure(t, top, "porthos", "- {id: 123}", "- {id: 123, incremental: true}")
					e2e.Reconfigure(t, top, "aramis", "- {id: 123", "- {id: 123, incremental: true")
				}
				l := e2e.Raise(t, top)
				if incremental {
					t.Run("growth of large packets", func(t *testing.T) { growLarge(t, l, tt) })
				}
				// packets whose traces differ would not be joined
				e2e.Reconfigure(t, top, "athos", "type: 0xf80000, size: 60", "type: 0xc00000, size: 60")
				if err := l.Node("athos").Reconfigure(t.Context(), top.Node("athos").Agent.Config); err != nil {
					t.Fatal(err)
				}
				for node, name := range map[string]string{"alpha": "eth0", "athos": "eth1", "porthos": "eth1", "aramis": "eth1"} {
					e2e.Must(t, l.Node(node), "ethtool", "-K", name, "tso", "off", "gso", "off", "tx-udp-segmentation", "off", "tx", "off")
				}
				listedTransit(t, l, tt, incremental)
				listedEnds(t, l, tt)
			})
		}
	}
}

// listedTransit checks what porthos does to lists.
func listedTransit(t *testing.T, l *lab.Lab, tt e2e.Transfer, incremental bool) {
	t.Helper()
	joinsLists(t, l, "porthos")
	counted := e2e.CountedFrom(t, l, "porthos")
	wire, beta := e2e.StartWire(t, l, "aramis", "eth0"), e2e.StartScan(t, l, "beta", "eth0")
	sent := listing
	sent.run(t, l)
	outcome, each, data := "trace_filled", uint64(2), "62 11 0"
	if incremental { // nothing can compute sums of grown UDP whose sum is complete already
		outcome, each, data = "trace_overflow", 1, "62 13 1"
	}
	lists := int(counted.Settled(t, "porthos", outcome) / each)
	transferTo(t, l, "2001:db8:2::2", 1<<20)
	wire.Stop(t)
	beta.Stop(t)

	all := sent.each * sent.calls
	if lists == 0 || lists > all/2 {
		t.Fatalf("porthos counted %d times %s, want a few lists of %d packets", lists, outcome, all)
	}
	want := map[string]int{data: lists, "63 13 0": all - lists}
	if tt.Mode == "encap" {
		want = map[string]int{data: all}
	}
	if got := crossing(t, wire.Path, "udp"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("UDP in %d lists crossed as %v, want %v", lists, got, want)
	}
	segments := crossing(t, wire.Path, "tcp")
	complete := segments["62 11 0"]
	if delete(segments, "62 11 0"); !incremental && tt.Mode == "inline" {
		delete(segments, "63 13 0") // where the kernel keeps TCP as lists, too
	}
	if complete == 0 || len(segments) > 0 {
		t.Errorf("%d segments of TCP have the data of both nodes; others crossed as %v", complete, segments)
	}
	checkSums(t, wire.Path, all+complete)
	if beta.IOAMBytes.Load() > 0 {
		t.Errorf("beta received %d bytes of IOAM", beta.IOAMBytes.Load())
	}
}

// listedEnds checks insertion into lists, and removal from them.
func listedEnds(t *testing.T, l *lab.Lab, tt e2e.Transfer) {
	t.Helper()
	for node, outcome := range map[string]string{"athos": "encap_skipped_gso", "aramis": tt.Removed} {
		joinsLists(t, l, node)
		before := e2e.Settled(t, l, node, outcome)
		beta := e2e.StartScan(t, l, "beta", "eth0")
		sent := listing
		sent.run(t, l)
		lists := int(e2e.Settled(t, l, node, outcome) - before)
		if all := sent.each * sent.calls; lists == 0 || lists > all/2 {
			t.Errorf("%s counted %s for %d lists of %d packets", node, outcome, lists, all)
		}
		transferTo(t, l, "2001:db8:2::2", 1<<20)
		beta.Stop(t)
		if beta.IOAMBytes.Load() > 0 {
			t.Errorf("%s joined lists, and beta received %d bytes of IOAM", node, beta.IOAMBytes.Load())
		}
	}
	e2e.CheckCounters(t, l, "aramis", map[string]uint64{"decap_failed": 0, "removal_partial": 0})
}
