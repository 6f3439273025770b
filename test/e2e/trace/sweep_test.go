// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// firstSwept is the port of the packets with one option; each number of options and of
// namespaces has its own.
const firstSwept = 9100

// swept is a number of namespaces, with as many options or more.
type swept struct{ namespaces, options int }

func (s swept) port() uint16 {
	return firstSwept + uint16(s.options*(s.options-1)/2+s.namespaces-1)
}

func (s swept) rule() string {
	var options []string
	for i := range s.options {
		options = append(
			options,
			fmt.Sprintf("{trace: {namespace: %d, type: 0x%06x, size: %d}}", 1+i%s.namespaces, uint32(nineTypes[i]), 12*nineTypes[i].NodeLen()),
		)
	}
	return fmt.Sprintf(
		"  - {name: p%d, interface: eth1, match: {destination: 2001:db8:2::/64, destination-port: %[1]d}, mode: inline, options: [%s]}",
		s.port(),
		strings.Join(options, ", "),
	)
}

// sweep are 1 to 9 options of 1 to 9 namespaces.
func sweep() (list []swept) {
	for options := 1; options <= model.MaxOptionsPerPacket; options++ {
		for namespaces := 1; namespaces <= options; namespaces++ {
			list = append(list, swept{namespaces, options})
		}
	}
	return list
}

// Every number of options in every number of namespaces: each node fills each option, and each
// is reported as its own trace, in their order.
func TestNamespacesAndOptions(t *testing.T) {
	for part := range slices.Chunk(sweep(), model.MaxEncapsulationOverlap) {
		t.Run(fmt.Sprintf("from %d options in %d namespaces", part[0].options, part[0].namespaces), func(t *testing.T) {
			t.Parallel()
			checkPart(t, part)
		})
	}
}

// checkPart sweeps as many as one prefix may have rules.
func checkPart(t *testing.T, part []swept) {
	t.Helper()
	top := e2e.Domain(t, e2e.Modes("xdp")[1])
	e2e.SetMTU(top, 1500, 2000)
	var namespaces []string
	for id := 1; id <= model.MaxOptionsPerPacket; id++ {
		namespaces = append(namespaces, fmt.Sprintf("  - {id: %d}", id))
	}
	known := "namespaces:\n" + strings.Join(namespaces, "\n") + "\n"
	for node, text := range map[string]string{"athos": known, "porthos": known, "aramis": strings.ReplaceAll(known, "}", ", remove: true}")} {
		old := regexp.MustCompile(`(?m)^namespaces:\n(?:  .*\n)+`).FindString(string(top.Node(node).Agent.Config))
		e2e.Reconfigure(t, top, node, old, text)
	}
	rules := "encapsulations:\n"
	for _, s := range part {
		rules += s.rule() + "\n"
	}
	old := regexp.MustCompile(`(?m)^encapsulations:\n(?:  .*\n)+`).FindString(string(top.Node("athos").Agent.Config))
	e2e.Reconfigure(t, top, "athos", old, rules)
	l := e2e.Raise(t, top)
	e2e.Must(t, l.Node("porthos"), "sysctl", "-w", "net.ipv6.max_hbh_opts_number=9") // the default is 8
	journal := e2e.Keep(t, l, "aramis")
	const count = 3
	want, packets := 0, uint64(0)
	for _, s := range part {
		e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 100, Port: s.port()})
		want += count * s.options
		packets += count
	}
	checkSweep(t, part, journal.Read(t, want), count)
	e2e.CheckCounters(t, l, "athos", map[string]uint64{"encap_inserted": packets})
	e2e.CheckCounters(t, l, "porthos", map[string]uint64{"trace_filled": 2 * packets})
	e2e.CheckCounters(t, l, "aramis", map[string]uint64{"inline_removed": packets, "removal_partial": 0})
}

// checkSweep checks that each packet has the traces of its port, in their order, filled by three nodes. Those of packets that
// two CPUs received may be between each other.
func checkSweep(t *testing.T, part []swept, traces []record.Trace, count int) {
	t.Helper()
	byPort := map[uint16][]record.Trace{}
	for _, r := range traces {
		byPort[*r.Packet.DestinationPort] = append(byPort[*r.Packet.DestinationPort], r)
	}
	for _, s := range part {
		of := byPort[s.port()]
		if len(of) != count*s.options {
			t.Errorf("%+v: %d traces, want %d", s, len(of), count*s.options)
			continue
		}
		next := make([]int, count) // option of each packet
		for _, r := range of {
			packet := slices.IndexFunc(next, func(at int) bool {
				return at < s.options && r.TraceType == nineTypes[at] && int(r.Namespace) == 1+at%s.namespaces
			})
			if packet < 0 {
				t.Fatalf("%+v, after traces of %d options of its packets: %+v", s, next, r)
			}
			at := next[packet]
			next[packet]++
			// The next trace is of the same packet, unless it is another one's.
			next[0], next[packet] = next[packet], next[0]
			if len(r.Nodes) != len(lineHops) || r.Overflow.Value || r.Remaining.Value != 0 {
				t.Fatalf("%+v, option %d: %+v", s, at, r)
			}
			for n, node := range r.Nodes {
				if h := lineHops[n]; e2e.Value(node.NodeID) != fmt.Sprint(h.id) || e2e.Value(node.HopLimit) != fmt.Sprint(h.limit) {
					t.Fatalf("%+v, option %d, node %d: %+v", s, at, n, node)
				}
			}
		}
	}
}
