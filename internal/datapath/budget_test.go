// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"math/rand/v2"
	"testing"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/test/craft"
)

// Under a load that changes, a budget is kept within 10% in each window, for packets as well
// as for octets: the rate jumps to ten times and back, and the sizes of packets change.
func TestBudgetUnderChangingLoad(t *testing.T) {
	onOneCPU(t)
	for name, budget := range map[string]model.Budget{
		"packets": {Packets: 50_000}, "octets": {Octets: 20_000},
		"the smaller one: the packets": {Packets: 20_000, Octets: 200_000},
	} {
		t.Run(name, func(t *testing.T) { changeLoad(t, budget) })
	}
}

// changeLoad sends what leaves in windows of the same time.
func changeLoad(t *testing.T, budget model.Budget) {
	t.Helper()
	const slow, fast = 2_000, 20_000 // packets in a window
	cfg := rightConfig()
	cfg.Encapsulations = []model.Encapsulation{{
		Name: "some", Interface: 1, Mode: model.ModeInline, Budget: budget,
		Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24}),
	}}
	insertion := cfg.Encapsulations[0].HeaderLen()
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	run(t, p.tcOut, ofSize(100), 2) // a rule begins with no credit
	for i, window := range []struct {
		packets int
		sizes   []int // octets of payload, in turns
	}{
		{slow, []int{100}}, {fast, []int{100}}, {slow, []int{100}},
		{slow, []int{1300}}, {fast, []int{1300}}, {slow, []int{64, 1300, 500}},
		{fast, []int{64, 1300, 500}}, {slow, []int{1300, 64}}, {fast, []int{64}}, {slow, []int{700}},
	} {
		before := p.snapshotCounters(t)
		octets := 0
		for n := range window.packets {
			frame := ofSize(window.sizes[n%len(window.sizes)])
			run(t, p.tcOut, frame, 2)
			octets += len(frame)
		}
		inserted := float64(moved(before, p.snapshotCounters(t))[bpf.ABICounterCOUNTER_EGRESS+bpf.ABICounter(model.OutcomeEncapInserted)])
		ofPackets := used(inserted, float64(window.packets), budget.Packets)
		ofOctets := used(inserted*float64(insertion), float64(octets), budget.Octets)
		if most := max(ofPackets, ofOctets); most < 0.9 || most > 1.1 {
			t.Errorf("window %d, %d packets of %v octets: %v headers are %.3f of the budget for packets and %.3f of that for octets",
				i, window.packets, window.sizes, inserted, ofPackets, ofOctets)
		}
	}
}

// used is which part of a budget was used, 0 if there is none.
func used(amount, sent float64, millionths uint32) float64 {
	if millionths == 0 {
		return 0
	}
	return amount / sent / (float64(millionths) / model.MaxBudget)
}

// ofSize is a frame with a payload of this many octets.
func ofSize(payload int) []byte {
	source, destination := addresses[0], addresses[1]
	packet := craft.IPv6{Next: craft.NoNext, HopLimit: 64, Source: source, Destination: destination}.With(nil, make([]byte, payload))
	return craft.Ethernet([]byte{2, 0, 0, 0, 0, 1}, []byte{2, 0, 0, 0, 0, 2}, packet)
}

// TestBudgetAgreement gives the same load to the programs and to the reference node: pauses
// in which credit is saved up, and bursts of packets that match, offloaded or not. Each
// packet must get the header from both or from none.
func TestBudgetAgreement(t *testing.T) {
	onOneCPU(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		budget := model.Budget{Packets: random.Uint32N(400_000), Octets: []uint32{0, 10_000, 100_000, model.MaxBudget}[random.IntN(4)]}
		if budget == (model.Budget{}) {
			budget.Packets = 1
		}
		cfg := budgetConfig(budget)
		p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
		c := newComparison(t, cfg, p, p.tcOut, bpf.ABICounterCOUNTER_EGRESS, 0)
		afforded := 0
		for range 30 {
			matching, length := []float64{0, 0.01, 0.3, 1}[random.IntN(4)], random.IntN(400)
			if matching == 0 {
				length *= 5
			}
			var offload skb
			if random.IntN(3) == 0 {
				offload = skb{GSOSegs: 1 + random.Uint32N(60), GSOSize: 100}
			}
			for range length {
				payload := random.IntN(1200)
				frame := ofSize(payload)
				if random.Float64() < matching {
					frame = segment(payload)
				}
				if c.affordsAlike(t, frame, offload) {
					afforded++
				}
			}
			if t.Failed() {
				t.Fatalf("%+v, after %d insertions", budget, afforded)
			}
		}
		p.close()
	}
}

// affordsAlike reports whether the budget allows a frame to get a header, and fails unless
// both say the same. The kernel refuses offloaded frames of the facility after that.
func (c *comparison) affordsAlike(t *testing.T, frame []byte, offload skb) bool {
	t.Helper()
	want := c.node.Egress(reference.Frame{
		Data: frame, Interface: 1, Time: fixedTime, GSOSize: offload.GSOSize, GSOSegments: offload.GSOSegs,
	}).Outcome
	if want == model.OutcomeEncapInserted && offload.GSOSize != 0 {
		want = model.OutcomeEncapSkippedGSO
	}
	before := c.p.snapshotCounters(t)
	sendOnce(t, c.program, frame, offload)
	if got := moved(before, c.p.snapshotCounters(t)); got[c.base+bpf.ABICounter(want)] != 1 {
		t.Errorf("counters moved by %v, and the reference node says %v", got, want)
	}
	return want == model.OutcomeEncapInserted || want == model.OutcomeEncapSkippedGSO
}
