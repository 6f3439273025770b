// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// exportingConfig encapsulates everything that leaves through interface 1 inline,
// with a Flow-ID from the flow label and a Sequence Number.
func exportingConfig(mode model.ExportMode) model.NodeConfig {
	cfg := rightConfig()
	cfg.Namespaces[0].Export = mode
	cfg.ExportLimit, cfg.ExportRate = 1, model.MaxExportRate
	cfg.Encapsulations = []model.Encapsulation{{
		Name: "drafts", Interface: 1,
		Options: []model.InsertedOption{{DirectExport: &model.DirectExportOption{
			Namespace: 123, Type: 0xc00000, ExtensionFlags: ioam.ExtensionFlowID | ioam.ExtensionSequence,
			FlowID: model.FlowIDSource{Kind: model.FlowIDLabel},
		}}},
	}}
	return cfg
}

// plainPacket is a UDP packet with a flow label and without IOAM.
func plainPacket(label uint32) []byte {
	return labelled(label, stripped(rightPacket()))
}

func labelled(label uint32, f []byte) []byte {
	binary.BigEndian.PutUint32(f[atIPv6:], 6<<28|label)
	return f
}

// insertedSequence is the number inserted into a plain packet.
func insertedSequence(t testing.TB, frame []byte) uint32 {
	t.Helper()
	header, err := ioam.DecodeExtensionHeader(frame[atHBH:])
	if err != nil {
		t.Fatal(err)
	}
	for option := range header.Options() {
		if carried, err := option.IOAM(); err == nil {
			d, err := carried.DirectExport()
			if err != nil {
				t.Fatal(err)
			}
			return d.Sequence
		}
	}
	t.Fatal("no Direct Export was inserted")
	return 0
}

// TestSequenceOnSeveralCPUs numbers one flow on all CPUs at once: no number may
// be missing or occur twice.
func TestSequenceOnSeveralCPUs(t *testing.T) {
	p := loadPrograms(t, exportingConfig(model.ExportNone), 1, fixedTime, hookEgressTC)
	const workers, each = 4, 5000
	var got [workers][]uint32
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for range each {
				_, out := run(t, p.tcOut, plainPacket(7), 0)
				got[w] = append(got[w], insertedSequence(t, out))
			}
		})
	}
	group.Wait()
	all := slices.Concat(got[:]...)
	slices.Sort(all)
	for i, n := range all {
		if n != uint32(i) {
			t.Fatalf("the %dth number is %d", i, n)
		}
	}
}

// TestSequenceEviction has more flows in one set than it holds: the flow that was
// silent longest starts again, and that is counted.
func TestSequenceEviction(t *testing.T) {
	p := loadPrograms(t, exportingConfig(model.ExportNone), 1, fixedTime, hookEgressTC)
	set := func(flow uint32) uint32 { return flow * 0x9e3779b1 >> 16 }
	var labels []uint32
	for label := uint32(1); len(labels) < 3; label++ {
		if set(label) == set(1) {
			labels = append(labels, label)
		}
	}
	before := p.snapshotCounters(t)
	var numbers []uint32
	for _, flow := range []int{0, 0, 1, 1, 0, 2, 2, 0, 1} {
		_, out := run(t, p.tcOut, plainPacket(labels[flow]), 0)
		numbers = append(numbers, insertedSequence(t, out))
	}
	evicted := moved(before, p.snapshotCounters(t))[bpf.ABICounterCOUNTER_SEQUENCES_EVICTED]
	// the clock is too coarse to show which of two flows was used last
	firsts := 0
	for _, n := range numbers {
		if n == 0 {
			firsts++
		}
	}
	if evicted == 0 || uint64(firsts) != 3+evicted-1 {
		t.Errorf("numbers %v, %d evictions", numbers, evicted)
	}
}

// TestSequenceOfNewFlowOnTwoCPUs starts a flow on two CPUs at once, in sets that
// others fill: it gets one way of its set, and no number occurs twice.
func TestSequenceOfNewFlowOnTwoCPUs(t *testing.T) {
	p := loadPrograms(t, exportingConfig(model.ExportNone), 1, fixedTime, hookEgressTC)
	inSet := make(map[uint32][]uint32)
	for label := uint32(1); label < 1<<20; label++ {
		set := label * 0x9e3779b1 >> 16
		inSet[set] = append(inSet[set], label)
	}
	const namespace, sets = 123, 200
	for set := range uint32(sets) {
		for _, label := range inSet[set] {
			var got [2]uint32
			var group sync.WaitGroup
			var ready atomic.Int32
			for w := range got {
				group.Go(func() {
					for ready.Add(1); ready.Load() < int32(len(got)); {
						runtime.Gosched()
					}
					_, out := run(t, p.tcOut, plainPacket(label), 0)
					got[w] = insertedSequence(t, out)
				})
			}
			group.Wait()
			var slots bpf.ABISequenceSet
			if err := p.maps[bpf.MapSequences].Lookup(set^namespace, &slots); err != nil {
				t.Fatal(err)
			}
			if got[0] == got[1] || uint32(slots.Ways[0].Word) == uint32(slots.Ways[1].Word) {
				t.Fatalf("flow %d got the numbers %d, its set is %+v", label, got, slots)
			}
		}
	}
}

// TestExportLimit lets an interface earn its exports: one postcard per hundred
// packets; the others are only counted.
func TestExportLimit(t *testing.T) {
	onOneCPU(t)
	cfg := exportingConfig(model.ExportEvery)
	cfg.ExportLimit = 100
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	p.setCredit(t, 0)
	before := p.snapshotCounters(t)
	const packets = 1001
	for range packets {
		run(t, p.tcOut, plainPacket(7), 0)
	}
	got := moved(before, p.snapshotCounters(t))
	postcards := len(p.readSamples(t).postcards)
	if postcards != 10 || got[bpf.ABICounterCOUNTER_POSTCARDS] != 10 || got[bpf.ABICounterCOUNTER_POSTCARDS_SUPPRESSED] != packets-10 {
		t.Errorf("%d postcards, counted %v", postcards, got)
	}
}

// TestExportCreditIsBounded lets an interface save credit for long: how much it
// then exports at once is bounded.
func TestExportCreditIsBounded(t *testing.T) {
	onOneCPU(t)
	cfg := exportingConfig(model.ExportEvery)
	cfg.ExportLimit = 3
	cfg.Encapsulations[0].Match.FlowLabel = new(uint32)
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	p.setCredit(t, 0)
	for range 1000 {
		run(t, p.tcOut, plainPacket(7), 0)
	}
	for range 400 {
		run(t, p.tcOut, plainPacket(0), 0)
	}
	// 64 saved, and one for each 3 packets since
	if got := len(p.readSamples(t).postcards); got < 64 || got > 64+400/3+1 {
		t.Errorf("%d postcards", got)
	}
}

// TestExportRate bounds postcards per time, for two interfaces together.
func TestExportRate(t *testing.T) {
	onOneCPU(t)
	const allowed, packets = 20, 200 // per window
	cfg := exportingConfig(model.ExportEvery)
	cfg.ExportRate = allowed*1e9>>27 + 1
	second := cfg.Encapsulations[0]
	second.Name, second.Interface = "exports too", 2
	cfg.Encapsulations = append(cfg.Encapsulations, second)
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	other := p.onInterface(t, cfg, 2)
	window := func() int64 {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &now); err != nil {
			t.Fatal(err)
		}
		return now.Nano() >> 27
	}
	first := window()
	for range packets / 2 {
		run(t, p.tcOut, plainPacket(7), 0)
		run(t, other, plainPacket(7), 0)
	}
	windows := int(window() - first + 1)
	if got := len(p.readSamples(t).postcards); got < allowed || got > allowed*windows {
		t.Errorf("%d postcards of %d packets in %d windows, %d are allowed in each", got, packets, windows, allowed)
	}
}

// onInterface loads the egress program for one more interface of the
// configuration, with its own credit.
func (p *programs) onInterface(t *testing.T, cfg model.NodeConfig, index model.IfIndex) *ebpf.Program {
	t.Helper()
	g, err := compile.Node(cfg, 0, attach.Ethernet)
	if err != nil {
		t.Fatal(err)
	}
	g.Node.FixedTime, g.Node.FixedIfindex = uint64(fixedTime), uint32(index)
	other := &programs{site: site{kept: p.site.kept}}
	if err := other.site.open(g, index); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		other.site.kept = nil // these maps belong to p
		other.site.close()
	})
	other.setCredit(t, 1<<40)
	other.load(t, []hookName{hookEgressTC})
	return other.tcOut
}

// TestFrequencyBlockPassed finds a CPU's numbers past the end of their block, as
// after two packets that interrupt each other at its last number (PREEMPT_RT):
// the next packet takes a new block instead of counting on without end.
func TestFrequencyBlockPassed(t *testing.T) {
	onOneCPU(t)
	cfg := exportingConfig(model.ExportEvery)
	cfg.Encapsulations[0].Frequency.K, cfg.Encapsulations[0].Frequency.N = 1, 2
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	const block = uint64(bpf.ABIFrequencyBoundFREQUENCY_BLOCK)
	passed := make([]bpf.ABIFrequencyBlock, ebpf.MustPossibleCPU())
	for i := range passed {
		passed[i] = bpf.ABIFrequencyBlock{Next: block + 1, End: block}
	}
	if err := p.maps[bpf.MapFrequencyBlocks].Put(uint32(0), passed); err != nil {
		t.Fatal(err)
	}
	if err := p.maps[bpf.MapFrequencies].Put(uint32(0), bpf.ABIFrequency{Next: 4 * block}); err != nil {
		t.Fatal(err)
	}
	run(t, p.tcOut, plainPacket(1), 0)
	var now []bpf.ABIFrequencyBlock
	if err := p.maps[bpf.MapFrequencyBlocks].Lookup(uint32(0), &now); err != nil {
		t.Fatal(err)
	}
	if got, want := now[0], (bpf.ABIFrequencyBlock{Next: 4*block + 1, End: 5 * block}); got != want {
		t.Errorf("the block is %+v, want %+v", got, want)
	}
}
