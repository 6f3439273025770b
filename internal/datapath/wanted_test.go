// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// TestRecordsAreBounded sends many packets whose traces end, on several CPUs at once: exactly so many records are made
// as are wanted, none counts as lost, and all packets are treated alike.
func TestRecordsAreBounded(t *testing.T) {
	cfg := rightConfig()
	decapsulating(&cfg)
	p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP, hookIngressTC)
	inline := set(atTrace+1, 7)(rightPacket()) // its namespace is removed
	for _, tt := range []struct {
		name    string
		frame   []byte
		outcome model.Outcome
	}{{"tunnel", tunnelled(rightPacket()), model.OutcomeTunnelDecapsulated}, {"inline", inline, model.OutcomeInlineRemoved}} {
		for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
			const wanted, times, senders = 90, 500, 4
			name := tt.name + " " + program.Type().String()
			p.wantNumber(t, wanted)
			before := p.snapshotCounters(t)
			var sending sync.WaitGroup
			for range senders {
				sending.Go(func() {
					for range times {
						if _, err := program.Run(&ebpf.RunOptions{Data: tt.frame}); err != nil {
							t.Errorf("%s: %v", name, err)
						}
					}
				})
			}
			sending.Wait()
			got := moved(before, p.snapshotCounters(t))
			if n := len(p.readRecords(t)); n != wanted || got[bpf.ABICounterCOUNTER_RECORDS_WRITTEN] != wanted ||
				got[bpf.ABICounterCOUNTER_RECORDS_LOST] != 0 {
				t.Errorf("%s: %d records, want %d; counters %v", name, n, wanted, got)
			}
			if n := got[bpf.ABICounterCOUNTER_INGRESS+bpf.ABICounter(tt.outcome)]; n != senders*times {
				t.Errorf("%s: counters %v", name, got)
			}
			var left int32
			if err := p.maps[bpf.MapRecordsWanted].Lookup(uint32(0), &left); err != nil || left > 0 || left < -senders {
				t.Errorf("%s: %d records are left, %v", name, left, err)
			}
		}
	}
}

// TestExportsAreWantedWithAllRecords makes no postcard while only some records are wanted.
func TestExportsAreWantedWithAllRecords(t *testing.T) {
	cfg := laneConfig(nil)
	p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP, hookEgressTC)
	frame := carrying(t, ioam.DirectExport{Namespace: 123, Type: 0x800000}, craft.UDP, craft.Datagram(4242, 9))
	for _, tt := range []struct{ wanted, postcards int }{{10, 0}, {AllRecords, 1}, {0, 0}} {
		p.wantNumber(t, tt.wanted)
		run(t, p.xdp, frame, 0)
		_, _ = run(t, p.tcOut, frame, 1)
		if n := len(p.readSamples(t).postcards); n != tt.postcards {
			t.Errorf("%d records are wanted: %d postcards, want %d", tt.wanted, n, tt.postcards)
		}
	}
}

// takeWanted leaves of a packet's record and postcards what has a reader, and reports whether anything has.
func takeWanted(wanted *int, r *reference.Result) bool {
	if *wanted < AllRecords {
		r.Postcards = nil
		if *wanted == 0 {
			r.Record = nil
		}
		if r.Record != nil {
			*wanted--
		}
		return r.Record != nil
	}
	return true
}

// wanted is how many records of some packets have a reader: often all, else some, or none.
func (g generator) wanted(packets int) int {
	switch g.IntN(5) {
	case 0:
		return 0
	case 1:
		return 1 + g.IntN(packets/20+1)
	}
	return AllRecords
}
