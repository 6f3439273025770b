// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"math"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
)

// Of a steady load, a budget takes its share, and not a packet more.
func TestBudgetKeepsToItsShare(t *testing.T) {
	const packets = 40_000
	for name, test := range map[string]struct {
		limit    model.Budget
		inserted int // of packets of 1000 octets, with a header of 16
	}{
		"1% of the packets":            {model.Budget{Packets: 10_000}, packets / 100},
		"0.01% of the packets":         {model.Budget{Packets: 100}, packets / 10_000},
		"all packets":                  {model.Budget{Packets: model.MaxBudget}, packets},
		"0.1% of the octets":           {model.Budget{Octets: 1000}, packets / 16},
		"the smaller one: the octets":  {model.Budget{Packets: 500_000, Octets: 1000}, packets / 16},
		"the smaller one: the packets": {model.Budget{Packets: 1000, Octets: 100_000}, packets / 1000},
		"no limit":                     {model.Budget{}, packets},
	} {
		n := &Node{
			config:  model.NodeConfig{Encapsulations: []model.Encapsulation{{Interface: 1, Budget: test.limit}}},
			batches: map[model.IfIndex]uint64{},
			budgets: make([]budget, 1),
		}
		inserted := 0
		for range packets {
			f := Frame{Interface: 1, Data: make([]byte, 1000)}
			n.countSent(f)
			if n.affords(0, f, 16) {
				inserted++
			}
		}
		if off := inserted - test.inserted; math.Abs(float64(off)) > 1 {
			t.Errorf("%s: %d packets, want %d", name, inserted, test.inserted)
		}
	}
}

// Packets that the encapsulation does not match earn credit, of which a burst is saved
// up; offloaded packets count as what they will be cut into.
func TestBudgetOfOtherPackets(t *testing.T) {
	n := &Node{
		config:  model.NodeConfig{Encapsulations: []model.Encapsulation{{Interface: 1, Budget: model.Budget{Packets: 125_000}}}},
		batches: map[model.IfIndex]uint64{},
		budgets: make([]budget, 1),
	}
	small, large := Frame{
		Interface: 1,
		Data:      make([]byte, 100),
	}, Frame{
		Interface:   1,
		Data:        make([]byte, 45_000),
		GSOSize:     1000,
		GSOSegments: 45,
	}
	n.countSent(small)
	n.affords(0, small, 16) // the first look
	for range 8 {
		n.countSent(large) // 360 packets, of which 45 may get a header
	}
	spent := 0
	for n.affords(0, small, 16) {
		spent++
	}
	if spent != 45 {
		t.Errorf("12.5%% of 360 packets are %d", spent)
	}
	for range 1000 {
		n.countSent(large)
	}
	for spent = 0; n.affords(0, small, 16); {
		spent++
	}
	if spent != budgetBurst {
		t.Errorf("after a pause, %d packets get a header at once, want %d", spent, budgetBurst)
	}
	for range 100 {
		n.countSent(large)
	}
	for range 2 {
		if !n.affords(0, large, 16) {
			t.Error("an offloaded packet of 45 does not get 45 headers out of 256")
		}
	}
	for spent = 0; n.affords(0, small, 16); {
		spent++
	}
	if spent != budgetBurst-90 {
		t.Errorf("after two offloaded packets, %d are left", spent)
	}
}
