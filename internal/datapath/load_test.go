// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// TestFrequencyAcrossCPUs checks that k/n is exact when all CPUs send at once,
// except for the rest of the last block of numbers that each CPU took.
func TestFrequencyAcrossCPUs(t *testing.T) {
	const block = int(bpf.ABIFrequencyBoundFREQUENCY_BLOCK)
	t.Run("whole blocks", func(t *testing.T) { testFrequencyAcrossCPUs(t, 7*block*31, 0) })
	t.Run("parts of blocks", func(t *testing.T) { testFrequencyAcrossCPUs(t, 7*block*31-block/2, block/2) })
}

func testFrequencyAcrossCPUs(t *testing.T, each, left int) {
	cfg := rightConfig()
	cfg.Encapsulations = []model.Encapsulation{{
		Name: "some", Interface: 1, Mode: model.ModeInline, Frequency: model.Frequency{K: 3, N: 7},
		Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24}),
	}}
	p := loadPrograms(t, cfg, 1, 0, hookEgressTC)
	plain := stripped(rightPacket())
	before := p.snapshotCounters(t)
	var wait sync.WaitGroup
	cpus := runtime.NumCPU()
	for cpu := range cpus {
		wait.Go(func() {
			if !stayOn(t, cpu) {
				return
			}
			for range each {
				if _, _, err := runOnce(p.tcOut, plain); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	got := moved(before, p.snapshotCounters(t))
	inserted := got[bpf.ABICounterCOUNTER_EGRESS+bpf.ABICounter(model.OutcomeEncapInserted)]
	skipped := got[bpf.ABICounterCOUNTER_EGRESS+bpf.ABICounter(model.OutcomeEncapNotSelected)]
	least, most := cpus*(each-left)*3/7-cpus, cpus*(each+left)*3/7+cpus
	if left == 0 {
		least, most = least+cpus, most-cpus
	}
	if int(inserted) < least || int(inserted) > most || int(inserted+skipped) != cpus*each || len(got) != 2 {
		t.Errorf("%d inserted and %d not of %d, want 3 of 7, from %d to %d: %v", inserted, skipped, cpus*each, least, most, got)
	}
	var next bpf.ABIFrequency
	if err := p.maps[bpf.MapFrequencies].Lookup(uint32(0), &next); err != nil || next.Next != uint64(cpus*(each+left)) {
		t.Errorf("%d numbers were taken (%v), want %d", next.Next, err, cpus*(each+left))
	}
}

// TestBudgetAcrossCPUs checks that all CPUs together keep to a budget when all send at
// once, and a part of the packets only matches: a tenth of the interface's packets is a
// fifth of those that match.
func TestBudgetAcrossCPUs(t *testing.T) {
	const each = 20_000
	cfg := rightConfig()
	udp := ioam.NextHeader(17)
	cfg.Encapsulations = []model.Encapsulation{{
		Name: "some", Interface: 1, Mode: model.ModeInline, Budget: model.Budget{Packets: 100_000}, Match: model.Match{NextHeader: &udp},
		Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24}),
	}}
	p := loadPrograms(t, cfg, 1, 0, hookEgressTC)
	plain := stripped(rightPacket())
	other := bytes.Clone(plain)
	other[14+6] = 59 // no next header
	before := p.snapshotCounters(t)
	var wait sync.WaitGroup
	cpus := runtime.NumCPU()
	for cpu := range cpus {
		wait.Go(func() {
			if !stayOn(t, cpu) {
				return
			}
			for range each / 2 {
				for _, frame := range [][]byte{plain, other} {
					if _, _, err := runOnce(p.tcOut, frame); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wait.Wait()
	got := moved(before, p.snapshotCounters(t))
	inserted := int(got[bpf.ABICounterCOUNTER_EGRESS+bpf.ABICounter(model.OutcomeEncapInserted)])
	if want := cpus * each / 10; inserted > want || inserted < want-2*cpus {
		t.Errorf("%d of %d packets got a header, want %d: %v", inserted, cpus*each, want, got)
	}
}

// stayOn keeps the goroutine's thread on a CPU; the thread ends with the goroutine.
func stayOn(t *testing.T, cpu int) bool {
	runtime.LockOSThread()
	err := moveThread(cpu)
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

func runOnce(program *ebpf.Program, frame []byte) (uint32, []byte, error) {
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+1024), Context: &skb{}}
	verdict, err := program.Run(options)
	return verdict, options.DataOut, err
}

// TestNobodyReads fills the rings: packets are treated as before, and lost
// records are counted.
func TestNobodyReads(t *testing.T) {
	cfg := rightConfig()
	decapsulating(&cfg)
	p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP)
	frame := tunnelled(rightPacket())
	const packets = 12_000 // more than the rings of two CPUs hold
	before := p.snapshotCounters(t)
	for range packets {
		if verdict, out := run(t, p.xdp, frame, 0); verdict != 2 || len(out) != len(frame)-80 {
			t.Fatalf("verdict %d, %d bytes", verdict, len(out))
		}
	}
	got := moved(before, p.snapshotCounters(t))
	written, lost := got[bpf.ABICounterCOUNTER_RECORDS_WRITTEN], got[bpf.ABICounterCOUNTER_RECORDS_LOST]
	if written == 0 || lost == 0 || written+lost != packets {
		t.Errorf("%d records written and %d lost of %d", written, lost, packets)
	}
	if n := len(p.readRecords(t)); uint64(n) != written {
		t.Errorf("%d records read, %d written", n, written)
	}
}

// TestFrequencySurvives checks that an encapsulation continues its count when the
// next generation has it under the same name.
func TestFrequencySurvives(t *testing.T) {
	cfg := rightConfig()
	encapsulation := func(name string) model.Encapsulation {
		return model.Encapsulation{Name: name, Interface: 1, Mode: model.ModeInline, Frequency: model.Frequency{K: 1, N: 2},
			Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24})}
	}
	cfg.Encapsulations = []model.Encapsulation{encapsulation("a"), encapsulation("b")}
	p := loadPrograms(t, cfg, 1, 0, hookEgressTC)
	slots := func(names ...string) (out []uint32, stale []uint32) {
		g := &compile.Generation{Owners: names, Encapsulations: make([]bpf.ABIEncapsulation, len(names))}
		for i := range g.Encapsulations {
			g.Encapsulations[i].FrequencyK, g.Encapsulations[i].FrequencyN = 1, 2
		}
		stale, _, err := assignFrequencies(g, p.maps)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range g.Encapsulations {
			out = append(out, e.FrequencySlot)
		}
		return out, stale
	}
	first, stale := slots("a", "b")
	if len(stale) != 0 {
		t.Errorf("stale %v, want none", stale)
	}
	second, stale := slots("b", "a long name that does not fit into a slot and has to be told apart by its digest")
	if second[0] != first[1] || second[1] == first[0] {
		t.Errorf("slots %v after %v", second, first)
	}
	if len(stale) != 1 || stale[0] != first[0] {
		t.Errorf("stale %v, want that of a: %d", stale, first[0])
	}
}

// TestFrequencySlots replaces the maximum number of encapsulations by as many
// others; those that select every packet need no slot.
func TestFrequencySlots(t *testing.T) {
	p := loadPrograms(t, rightConfig(), 1, 0)
	generationOf := func(prefix string, n uint32) *compile.Generation {
		g := &compile.Generation{Encapsulations: make([]bpf.ABIEncapsulation, model.MaxEncapsulations)}
		for i := range g.Encapsulations {
			g.Owners = append(g.Owners, fmt.Sprint(prefix, i))
			g.Encapsulations[i].FrequencyK, g.Encapsulations[i].FrequencyN = 1, n
		}
		return g
	}
	if _, fresh, err := assignFrequencies(generationOf("all", 1), p.maps); err != nil || len(fresh) != 0 {
		t.Fatalf("%d slots for rules without a frequency, %v", len(fresh), err)
	}
	used := make([]bpf.ABIFrequencyBlock, ebpf.MustPossibleCPU())
	for i := range used {
		used[i] = bpf.ABIFrequencyBlock{Next: 5, End: 64}
	}
	for _, prefix := range []string{"a", "b", "c"} {
		stale, fresh, err := assignFrequencies(generationOf(prefix, 2), p.maps)
		if err != nil || len(fresh) != model.MaxEncapsulations {
			t.Fatalf("%d fresh slots, %v", len(fresh), err)
		}
		for _, slot := range fresh { // an encapsulation starts at its own first number
			var blocks []bpf.ABIFrequencyBlock
			if err := p.maps[bpf.MapFrequencyBlocks].Lookup(slot, &blocks); err != nil ||
				slices.ContainsFunc(blocks, func(b bpf.ABIFrequencyBlock) bool { return b.Next != b.End }) {
				t.Fatalf("slot %d begins with %v (%v)", slot, blocks, err)
			}
			if err := p.maps[bpf.MapFrequencyBlocks].Put(slot, used); err != nil {
				t.Fatal(err)
			}
		}
		if prefix == "b" { // an attempt that failed
			stale = fresh
		}
		if err := freeFrequencies(p.maps[bpf.MapFrequencies], stale); err != nil {
			t.Fatal(err)
		}
	}
}
