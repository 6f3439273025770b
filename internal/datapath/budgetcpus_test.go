// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// A load is what a CPU sends again and again: how many packets that a rule matches, and
// how many others, offloaded or not.
type load struct {
	matching, others int
	gso              skb // of all
	payload          int
}

// twoLoads is a part of a test in which two CPUs send at once.
type twoLoads struct {
	name string
	cpus [2]load
}

// atOnce lets both CPUs send their load in rounds: neither is more than one ahead.
func atOnce(t *testing.T, p *programs, loads [2]load, rounds int) {
	t.Helper()
	for range rounds {
		var both sync.WaitGroup
		for cpu, load := range loads {
			both.Go(func() {
				if !stayOn(t, cpu) {
					return
				}
				frame, other := segment(load.payload), ofSize(load.payload)
				for n := range max(load.matching, load.others) {
					if n < load.matching && !sendOnce(t, p.tcOut, frame, load.gso) || n < load.others && !sendOnce(t, p.tcOut, other, load.gso) {
						return
					}
				}
			})
		}
		both.Wait()
	}
}

func sendOnce(t *testing.T, program *ebpf.Program, frame []byte, context skb) bool {
	_, err := program.Run(&ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: &context})
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// segment is a frame with TCP and a payload of this many octets.
func segment(payload int) []byte {
	return frameOf(craft.TCP, craft.Segment(0, 0, 0, make([]byte, payload)...))
}

// sentBy is what a load of so many rounds counts for.
func (l load) sentBy(rounds int) (packets, octets float64) {
	parts := max(1, int(l.gso.GSOSegs))
	frames := l.matching*len(segment(l.payload)) + l.others*len(ofSize(l.payload))
	return float64(rounds * parts * (l.matching + l.others)), float64(rounds * frames)
}

// budgetConfig has a rule with a budget for TCP.
func budgetConfig(budget model.Budget) model.NodeConfig {
	tcp := ioam.NextHeader(craft.TCP)
	cfg := rightConfig()
	cfg.Encapsulations = []model.Encapsulation{{
		Name: "some", Interface: 1, Mode: model.ModeInline, Budget: budget, Match: model.Match{NextHeader: &tcp},
		Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24}),
	}}
	return cfg
}

// loadBudget loads a rule with a budget for TCP, and gives each CPU its first look.
func loadBudget(t *testing.T, budget model.Budget) (p *programs, insertion int) {
	t.Helper()
	cfg := budgetConfig(budget)
	p = loadPrograms(t, cfg, 1, 0, hookEgressTC)
	atOnce(t, p, [2]load{{matching: 1}, {matching: 1}}, 1)
	return p, cfg.Encapsulations[0].HeaderLen()
}

// inserted is how many frames got a header since a snapshot.
func (p *programs) inserted(t *testing.T, before []uint64) float64 {
	t.Helper()
	return float64(moved(before, p.snapshotCounters(t))[bpf.ABICounterCOUNTER_EGRESS+bpf.ABICounter(model.OutcomeEncapInserted)])
}

// The budget is that of the interface, whichever CPU sends what: within 10% in each part,
// for packets as well as for octets.
func TestBudgetOfTwoCPUs(t *testing.T) {
	const rounds = 100
	offloaded := skb{GSOSegs: 10, GSOSize: 100}
	for name, budget := range map[string]model.Budget{
		"packets": {Packets: 50_000}, "octets": {Octets: 20_000},
		"the smaller one: the packets": {Packets: 20_000, Octets: 300_000},
	} {
		t.Run(name, func(t *testing.T) {
			p, insertion := loadBudget(t, budget)
			for _, part := range []twoLoads{
				{"one sends what matches, one the rest", [2]load{{matching: 200, payload: 100}, {others: 200, payload: 100}}},
				{"the other way round", [2]load{{others: 200, payload: 100}, {matching: 200, payload: 100}}},
				{"all by the first", [2]load{{matching: 200, others: 200, payload: 300}, {}}},
				{"all by the second", [2]load{{}, {matching: 200, others: 200, payload: 300}}},
				{"both the same", [2]load{{matching: 100, others: 100, payload: 100}, {matching: 100, others: 100, payload: 100}}},
				{"few by the first", [2]load{{matching: 20, others: 10, payload: 1000}, {matching: 200, others: 100, payload: 100}}},
				{"few by the second", [2]load{{matching: 200, others: 100, payload: 64}, {matching: 20, others: 10, payload: 1000}}},
				{"much of the rest by the second", [2]load{{matching: 200, payload: 500}, {others: 400, payload: 500}}},
				{"much of the rest by the first", [2]load{{others: 400, payload: 500}, {matching: 200, payload: 500}}},
				{"the rest offloaded", [2]load{{matching: 300, payload: 100}, {others: 40, payload: 1000, gso: offloaded}}},
			} {
				before := p.snapshotCounters(t)
				atOnce(t, p, part.cpus, rounds)
				inserted := p.inserted(t, before)
				packets, octets := part.cpus[0].sentBy(rounds)
				more, moreOctets := part.cpus[1].sentBy(rounds)
				ofPackets := used(inserted, packets+more, budget.Packets)
				ofOctets := used(inserted*float64(insertion), octets+moreOctets, budget.Octets)
				if most := max(ofPackets, ofOctets); most < 0.8 {
					t.Log(moved(before, p.snapshotCounters(t)))
				}
				if most := max(ofPackets, ofOctets); most < 0.9 || most > 1.1 {
					t.Errorf("%s: %v headers are %.3f of the budget for packets and %.3f of that for octets", part.name, inserted, ofPackets, ofOctets)
				}
			}
		})
	}
}

// An offloaded packet spends as much as its segments need, also of what the other CPU has
// sent. The kernel refuses those of the facility only after the budget has allowed them.
func TestBudgetOfOffloadedPackets(t *testing.T) {
	p, _ := loadBudget(t, model.Budget{Packets: 50_000})
	loads := [2]load{{matching: 40, payload: 1000, gso: skb{GSOSegs: 10, GSOSize: 100}}, {others: 400, payload: 100}}
	before := p.snapshotCounters(t)
	atOnce(t, p, loads, 100)
	allowed := moved(before, p.snapshotCounters(t))[bpf.ABICounterCOUNTER_EGRESS+bpf.ABICounter(model.OutcomeEncapSkippedGSO)]
	packets, _ := loads[0].sentBy(100)
	more, _ := loads[1].sentBy(100)
	if share := used(10*float64(allowed), packets+more, 50_000); share < 0.9 || share > 1.1 {
		t.Errorf("%.3f of the budget was used", share)
	}
}

// What is saved up while nothing matches is for all CPUs together, not for each, and is
// there for the one that needs it.
func TestBudgetSavedUpByTwoCPUs(t *testing.T) {
	p, _ := loadBudget(t, model.Budget{Packets: 20_000})
	atOnce(t, p, [2]load{{others: 400}, {others: 400}}, 100)
	const burst, ahead = int(bpf.ABIFrequencyBoundBUDGET_BURST), int(bpf.ABIFrequencyBoundBUDGET_BATCH)
	for i, loads := range [][2]load{{{matching: 1000}, {matching: 1000}}, {{}, {matching: 2000}}, {{matching: 2000}, {}}} {
		before := p.snapshotCounters(t)
		atOnce(t, p, loads, 1)
		saved := int(p.inserted(t, before)) - 2000*2/100
		if saved < burst-ahead || saved > burst+2*ahead {
			t.Errorf("burst %d: %d headers besides the share, want %d to %d", i, saved, burst-ahead, burst+2*ahead)
		}
		atOnce(t, p, [2]load{{others: 400}, {others: 400}}, 100)
	}
}

// Both CPUs take and add at once, as fast as they can: credit is never used twice or lost,
// and all packets get a header where the budget is for all of them.
func TestBudgetTakenByTwoCPUsAtOnce(t *testing.T) {
	for share, want := range map[uint32]float64{300_000: 0.3, model.MaxBudget: 1} {
		p, _ := loadBudget(t, model.Budget{Packets: share})
		const each = 100_000
		before := p.snapshotCounters(t)
		atOnce(t, p, [2]load{{matching: each}, {matching: each}}, 1)
		const apart = 4 * int(bpf.ABIFrequencyBoundBUDGET_BATCH)
		if inserted := int(p.inserted(t, before)); inserted > int(2*each*want)+apart || inserted < int(2*each*want)-apart {
			t.Errorf("%d of %d packets got a header, want %v of them, and at most %d more or less", inserted, 2*each, want, apart)
		}
	}
}

// A change of the configuration keeps what is saved up, also if it changes the budget.
func TestBudgetSurvives(t *testing.T) {
	p, _ := loadBudget(t, model.Budget{Packets: 20_000})
	atOnce(t, p, [2]load{{others: 400}, {others: 400}}, 100)
	g, err := compile.Node(budgetConfig(model.Budget{Packets: 10_000}), 0, attach.Ethernet)
	if err != nil {
		t.Fatal(err)
	}
	g.Node.FixedIfindex = p.site.set.node.FixedIfindex
	if !p.site.set.serves(g, p.site.kept) {
		t.Fatal("another budget needs other programs")
	}
	if _, fresh, err := assignFrequencies(g, p.site.kept); err != nil || len(fresh) != 0 {
		t.Fatalf("the rule begins anew: slots %v (%v)", fresh, err)
	}
	if err := p.site.set.activate(g, func(compile.Interface) bool { return false }); err != nil {
		t.Fatal(err)
	}
	before := p.snapshotCounters(t)
	atOnce(t, p, [2]load{{matching: 1000}, {matching: 1000}}, 1)
	const burst, ahead = int(bpf.ABIFrequencyBoundBUDGET_BURST), int(bpf.ABIFrequencyBoundBUDGET_BATCH)
	if saved := int(p.inserted(t, before)) - 2000/100; saved < burst-ahead || saved > burst+2*ahead {
		t.Errorf("%d headers besides the share, want about the %d that were saved up", saved, burst)
	}
}

// A rule that gets another interface, with another total, begins without credit there, and
// does not wait until that has as much as the old one.
func TestBudgetOfAnotherInterface(t *testing.T) {
	p, _ := loadBudget(t, model.Budget{Packets: 50_000})
	loads := [2]load{{matching: 200}, {others: 200}}
	atOnce(t, p, loads, 100)
	p.forgetSent(t)
	before := p.snapshotCounters(t)
	atOnce(t, p, loads, 50)
	if share := used(p.inserted(t, before), 50*400, 50_000); share < 0.9 || share > 1.1 {
		t.Errorf("%.3f of the budget was used", share)
	}
}
