// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
)

// usedBefore is how programs note in a table that an entry was used that long ago.
func usedBefore(t *testing.T, ago time.Duration) uint32 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &now); err != nil {
		t.Fatal(err)
	}
	return uint32((now.Nano() - ago.Nanoseconds()) >> 26)
}

// silences are times without packets after which a flow gives way to a new one, before
// one that was used just now.
var silences = []time.Duration{time.Second, 27 * 24 * time.Hour, 53 * 24 * time.Hour, 1000 * 24 * time.Hour}

// TestLeastRecentlyUsedSequence: the flow that has been silent leaves its set, wherever it
// stands there and however long it has been silent; another CPU's clock may be ahead.
func TestLeastRecentlyUsedSequence(t *testing.T) {
	p := loadPrograms(t, exportingConfig(model.ExportNone), 1, fixedTime, hookEgressTC)
	const namespace, label = 123, uint32(1)
	hash := label * 0x9e3779b1 >> 16
	for _, silence := range silences {
		for silent := range 2 {
			t.Run(fmt.Sprint(silence, silent), func(t *testing.T) {
				var set bpf.ABISequenceSet
				for i := range set.Ways {
					set.Ways[i].Word = uint64(5)<<32 | uint64(1000+i)
					set.Ways[i].Used = usedBefore(t, -100*time.Millisecond)
				}
				set.Ways[silent].Used = usedBefore(t, silence)
				if err := p.maps[bpf.MapSequences].Put(hash^namespace, &set); err != nil {
					t.Fatal(err)
				}
				run(t, p.tcOut, plainPacket(label), 0)
				if err := p.maps[bpf.MapSequences].Lookup(hash^namespace, &set); err != nil {
					t.Fatal(err)
				}
				if got := uint32(set.Ways[silent].Word); got != label {
					t.Errorf("the silent flow's place has flow %d: %+v", got, set)
				}
				if age := int32(usedBefore(t, 0) - set.Ways[silent].Used); age < 0 || age > 100 {
					t.Errorf("used %d units ago", age)
				}
			})
		}
	}
}

// TestLeastRecentlyUsedEdge is the same for the flows of Edge-to-Edge options.
func TestLeastRecentlyUsedEdge(t *testing.T) {
	p := pairOf(t, 0x4000, false, false).first
	m := p.maps[bpf.MapE2ENumbers]
	keys := numbersUpTo(m.MaxEntries())
	const silent = 2
	for _, silence := range silences {
		t.Run(fmt.Sprint(silence), func(t *testing.T) {
			sets := make([]bpf.ABIE2eNumberSet, len(keys))
			for s := range sets {
				for i := range sets[s].Ways {
					e := &sets[s].Ways[i].Entry
					e.Key.FlowLabel, e.Taken, e.Used = uint32(1000+i), 1, usedBefore(t, -100*time.Millisecond)
				}
				sets[s].Ways[silent].Entry.Used = usedBefore(t, silence)
			}
			if _, err := m.BatchUpdate(keys, sets, nil); err != nil {
				t.Fatal(err)
			}
			run(t, p.tcOut, plainPacket(7), 0)
			taken := 0
			for _, key := range keys {
				var set bpf.ABIE2eNumberSet
				if err := m.Lookup(key, &set); err != nil {
					t.Fatal(err)
				}
				for i, way := range set.Ways {
					if way.Next == 0 {
						continue
					}
					if taken++; i != silent {
						t.Errorf("the new flow has place %d: %+v", i, set)
					}
				}
			}
			if taken != 1 {
				t.Errorf("%d new flows", taken)
			}
		})
	}
}
