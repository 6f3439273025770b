// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"maps"
	"testing"

	messages "github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// askingForCopies changes the road's agents: every trace asks for copies, and every node returns
// them (RFC 9322 §4).
func askingForCopies(incremental bool) []string {
	grows := ""
	if incremental {
		grows = ", incremental: true"
	}
	return []string{
		"node: {", "node: {loopback-limit: 1/1, loopback-rate: 1000000, ",
		"{id: 123, ", "{id: 123, loopback: true" + grows + ", ",
		"type: 0xf80000, size: 60", "type: 0x800000, size: 40, loopback: 1/1" + grows,
	}
}

// copies are what a node counts of the Loopback flag. Its copies come back from the nodes of the list.
type copies struct {
	asked, returned uint64
	from            []string
}

// checkCopies checks counts. A busy machine's agent may send a copy too late; it says so.
func checkCopies(t *testing.T, l *lab.Lab, want map[string]copies) {
	t.Helper()
	sent := map[string]uint64{}
	for node, w := range want {
		e2e.Settled(t, l, node, "loopback_received")
		got, all := map[string]uint64{"asked": 0, "returned": 0}, e2e.StatusOf(t, l, node)
		for _, i := range all.Interfaces {
			for what, n := range i.Loopback {
				got[what] += n
			}
		}
		sent[node] = all.LoopbackCopies["sent"]
		if !maps.Equal(got, map[string]uint64{"asked": w.asked, "returned": w.returned}) || sent[node]+all.LoopbackCopies["late"] != w.returned {
			t.Errorf("%s counted %v, copies %v; want %+v", node, got, all.LoopbackCopies, w)
		}
	}
	for node, w := range want {
		received := uint64(0)
		for _, other := range w.from {
			received += sent[other]
		}
		e2e.CheckCounters(t, l, node, map[string]uint64{"loopback_received": received})
	}
}

// Errors about packets that ask for copies reach the senders as without the tunnel. Each node
// returns one copy of each packet, also of one that ends there, and none of an error.
func TestErrorsAboutPacketsThatAskForCopies(t *testing.T) {
	t.Parallel()
	var without map[string]map[string]answer
	t.Run("without", func(t *testing.T) { without = journey(t, raiseRoad(t, treatment{})) })
	for name, incremental := range map[string]bool{"pre-allocated": false, "incremental": true} {
		for _, tt := range []treatment{{"encap", string(e2e.TCModes()[0]), "stack"}, {"auto", "xdp", "fast"}} {
			t.Run(name+", "+tt.String(), func(t *testing.T) {
				t.Parallel()
				l := raiseRoad(t, tt, askingForCopies(incremental)...)
				got := journey(t, l)
				for who, want := range without {
					sameAnswers(t, who, got[who], want)
				}
				// Four probes for each number of hops, from alpha and from athos, and four for each of
				// three ends of the route at planchet.
				const probes, ends = 4, 2 * 3 * 4
				const athos, milady = (7+7)*probes + ends, (4+4)*probes + ends
				checkCopies(t, l, map[string]copies{
					"athos":     {asked: athos, from: []string{"porthos", "aramis"}},
					"porthos":   {returned: athos},
					"aramis":    {returned: athos - 2*probes},
					"milady":    {asked: milady, from: []string{"planchet", "rochefort"}},
					"planchet":  {returned: milady},
					"rochefort": {returned: milady - 2*probes - ends},
				})
			})
		}
	}
}

// Where both ends of the domain ask for copies of whatever they send, errors on their way back ask
// for none: they get no trace. Nor do copies, although they go into the tunnel back, from which the
// node that asked takes them. So the number of copies is bounded by that of nodes.
func TestErrorsAskForNoCopies(t *testing.T) {
	t.Parallel()
	const count = 20
	for name, nested := range map[string]string{"": "", "nested, ": ", nested: true"} {
		for _, tt := range []treatment{{"encap", string(e2e.TCModes()[0]), "stack"}, {"encap", "xdp", "fast"}} {
			t.Run(name+tt.String(), func(t *testing.T) {
				t.Parallel()
				back := `encapsulations: [{name: all, interface: eth0` + nested +
					`, match: {destination: "2001:db8::/32"}, mode: encap, tunnel: {source: "2001:db8:ff::3", destination: "2001:db8:ff::1"}, ` +
					`options: [{trace: {namespace: 123, type: 0x800000, size: 40, loopback: 1/1}}]}]`
				ends := `decapsulations: [{tunnel-destination: "2001:db8:ff::3"}]`
				l := raiseFirstDomain(t, tt, append(askingForCopies(false), ends, ends+"\n      "+back,
					`encapsulations: [{name: all, interface: eth1, match: {destination: "2001:db8:7::/64"}, mode: encap, `+
						`tunnel: {source: "2001:db8:ff::1"`,
					`decapsulations: [{tunnel-destination: "2001:db8:ff::1"}]
      encapsulations: [{name: all, interface: eth1`+nested+`, match: {destination: "2001:db8::/32"}, mode: encap, tunnel: {source: "2001:db8:ff::1"`,
				)...)
				for range count { // they end at milady, behind the domain
					if kind, _, offender := socketError(t, l.Node("alpha"), roadsBegin, 4); kind != byte(messages.TimeExceeded) {
						t.Fatalf("type %d from %v", kind, offender)
					}
				}
				checkCopies(t, l, map[string]copies{
					"athos":   {asked: count, from: []string{"porthos", "aramis"}},
					"porthos": {returned: count},
					"aramis":  {returned: count},
				})
				e2e.CheckCounters(
					t,
					l,
					"aramis",
					map[string]uint64{"encap_skipped_control": count, "encap_tunneled": e2e.StatusOf(t, l, "aramis").LoopbackCopies["sent"]},
				)
			})
		}
	}
}
