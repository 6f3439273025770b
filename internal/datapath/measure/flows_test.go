// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// TestTwoFlowsOfOneKey checks that a configuration is refused for two flows that select the same
// packets exactly when programs would find both by one key.
func TestTwoFlowsOfOneKey(t *testing.T) {
	random := rand.New(rand.NewPCG(21, 5))
	markings := []model.Marking{
		model.DefaultMarking(),
		{Carrier: model.CarrierArgument, Octet: 15, Mask: 0x03, Colours: [2]uint8{1, 2}},
		model.OptionMarking(false),
	}
	same, different := 0, 0
	for range 20_000 {
		cfg := model.NodeConfig{ID: 2, IDWide: 2, Measurement: measurementOf(someFlow(random, "a"), someFlow(random, "b"))}
		cfg.Measurement.Marking = markings[random.IntN(len(markings))]
		err := cfg.Validate()
		if err != nil && (strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), `flow "a" selects the same packets`)) {
			continue // is refused for something else
		}
		m := Compile(cfg.Measurement)
		m.hash([2]uint64{1, 2})
		shared := slices.ContainsFunc(m.flows[1].keys, func(k segmentKey) bool { return slices.Contains(m.flows[0].keys, k) })
		if shared != (err != nil) {
			t.Fatalf("%+v\nthe flows share a key: %v; the configuration: %v", cfg.Measurement, shared, err)
		}
		if shared {
			same++
		} else {
			different++
		}
	}
	if same < 100 || different < 1000 {
		t.Errorf("%d pairs of flows select the same packets, %d do not", same, different)
	}
}

// someFlow is one of few flows, many of which select the same packets.
func someFlow(random *rand.Rand, name string) model.MeasuredFlow {
	sids := []netip.Addr{netip.MustParseAddr("2001:db8:6::1"), netip.MustParseAddr("2001:db8:6::2"), netip.MustParseAddr("2001:db8:6::4")}
	f := model.MeasuredFlow{
		Name: name, Direction: model.Direction(random.IntN(3)),
		Path: srv6.Path{Mode: srv6.Mode(random.IntN(3)), Popped: random.IntN(4) == 0},
	}
	for range 1 + random.IntN(2) {
		f.Path.Segments = append(f.Path.Segments, sids[random.IntN(len(sids))])
	}
	if random.IntN(4) == 0 {
		f.Destination = sids[random.IntN(len(sids))]
	}
	if random.IntN(4) == 0 {
		f.TrafficClass = new(uint8(random.IntN(64)))
	}
	if random.IntN(4) == 0 {
		f.FlowLabel = new(uint32(random.IntN(2)))
	}
	if random.IntN(4) == 0 {
		f.MonitorID = new(uint32(random.IntN(3)))
	}
	return f
}
