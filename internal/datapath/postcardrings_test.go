// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/rings"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
)

// exportingEvery returns a function that makes a program write the postcard with a
// Sequence Number into the ring of the CPU on which the test runs.
func exportingEvery(t *testing.T) (p *programs, export func(number uint32)) {
	t.Helper()
	p = loadPrograms(t, exportingConfig(model.ExportEvery), 1, fixedTime, hookEgressTC)
	runtime.LockOSThread() // until the test's goroutine ends, and its thread with it
	moveTo(t, 0)
	return p, func(number uint32) { run(t, p.tcOut, numberedPacket(t, number), 2) }
}

func numbers(cards []rings.Postcard) (list []uint32) {
	for _, c := range cards {
		list = append(list, c.Option.Sequence)
	}
	return list
}

// TestPostcardRingIsFull fills a CPU's ring twice: what has no room is counted as
// lost, the rest comes in order and once, also to a second reader.
func TestPostcardRingIsFull(t *testing.T) {
	p, export := exportingEvery(t)
	const more = 100
	postcardRoom := uint64(p.site.set.node.PostcardRoom)
	number := uint32(0)
	for _, first := range []uint32{0, uint32(postcardRoom) + more} {
		before := p.snapshotCounters(t)
		for range postcardRoom + more {
			export(number)
			number++
		}
		counts := moved(before, p.snapshotCounters(t))
		if counts[bpf.ABICounterCOUNTER_POSTCARDS] != postcardRoom || counts[bpf.ABICounterCOUNTER_RECORDS_LOST] != more {
			t.Errorf("%d written, %d lost", counts[bpf.ABICounterCOUNTER_POSTCARDS], counts[bpf.ABICounterCOUNTER_RECORDS_LOST])
		}
		got := numbers(p.readSamples(t).postcards)
		if len(got) != int(postcardRoom) {
			t.Fatalf("%d postcards were read", len(got))
		}
		for i, n := range got {
			if n != first+uint32(i) {
				t.Fatalf("postcard %d has number %d, want %d", i, n, first+uint32(i))
			}
		}
		rings.Close(p.rings)
		p.rings = nil
	}
	if again := p.readSamples(t).postcards; len(again) > 0 {
		t.Errorf("%d postcards came twice", len(again))
	}
}

// TestPostcardReaderIsKilled ends a reader in the middle of a batch: the next one
// gets all postcards of the batch, and none is lost.
func TestPostcardReaderIsKilled(t *testing.T) {
	p, export := exportingEvery(t)
	for n := range uint32(10) {
		export(n)
	}
	func() {
		defer func() { _ = recover() }()
		p.site.cards.Load().Read(0, func([]bpf.ABIPostcard) { panic("killed") })
	}()
	if got := numbers(p.readSamples(t).postcards); len(got) != 10 || got[0] != 0 {
		t.Errorf("read %v", got)
	}
}

// TestPostcardRingIsDamaged has a reader's word that programs cannot have made.
func TestPostcardRingIsDamaged(t *testing.T) {
	p, export := exportingEvery(t)
	head, _ := p.site.cards.Load().Of(0)
	for _, damaged := range []uint64{1, 1 << 40, ^uint64(0)} {
		head.Read = head.Written + damaged
		p.readSamples(t)
		export(7)
		if got := numbers(p.readSamples(t).postcards); len(got) != 1 || got[0] != 7 {
			t.Errorf("after %#x: %v", damaged, got)
		}
	}
}

// TestPostcardsWakeTheirReader waits without polling.
func TestPostcardsWakeTheirReader(t *testing.T) {
	p, export := exportingEvery(t)
	list, err := rings.Open(p.maps[bpf.MapRecords], &p.site.cards)
	if err != nil {
		t.Fatal(err)
	}
	defer rings.Close(list)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	came, ended := make(chan time.Time, p.site.set.node.PostcardRoom), make(chan error, 1)
	go func() {
		ended <- list[0].Serve(ctx, func() time.Duration { return 0 }, rings.Taker{
			Sample:    func([]byte, time.Duration) {},
			Postcards: func([]rings.Postcard) { came <- time.Now() },
		})
	}()
	time.Sleep(10 * time.Millisecond) // it has looked
	for n := range p.site.set.node.PostcardRoom / 4 {
		export(n)
	}
	if comes(came, 100*time.Millisecond) {
		t.Error("few postcards woke the reader")
	}
	export(0)
	if !comes(came, patience.Of(time.Second)) {
		t.Error("many postcards did not wake the reader")
	}
	cancel()
	if err := list[0].Poke(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestExportRateIsShared sends from all CPUs: what they take at once never makes
// the node exceed its rate, and is of use to it nearly completely.
func TestExportRateIsShared(t *testing.T) {
	cpus := ebpf.MustPossibleCPU()
	cfg := exportingConfig(model.ExportEvery)
	const perWindow = 3000
	cfg.ExportRate = perWindow*1e9>>27 + 1
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	// in one call, so that a busy machine reaches the rate, too
	batch := &ebpf.RunOptions{Data: numberedPacket(t, 1), Context: &skb{IngressIfindex: 2}, Repeat: 100}
	rate := uint64(p.site.set.node.PostcardRate)
	runtime.LockOSThread()
	before := p.snapshotCounters(t)
	began := time.Now()
	for time.Since(began) < 3<<27 {
		for cpu := range cpus {
			moveTo(t, cpu)
			if _, err := p.tcOut.Run(batch); err != nil {
				t.Fatal(err)
			}
		}
	}
	windows := uint64(time.Since(began)>>27) + 2
	sent := moved(before, p.snapshotCounters(t))[bpf.ABICounterCOUNTER_POSTCARDS]
	if sent > windows*rate || sent < rate {
		t.Errorf("%d postcards in %d windows of %d", sent, windows, rate)
	}
	if p.readSamples(t); moved(before, p.snapshotCounters(t))[bpf.ABICounterCOUNTER_POSTCARDS_SUPPRESSED] == 0 {
		t.Error("the rate was never reached")
	}
}
