// SPDX-License-Identifier: Apache-2.0

// Package delays reads the histograms of delays that the programs count (docs/data-plane/delays.md).
package delays

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Kind is what delays are of.
type Kind uint8

// The kinds of delays.
const (
	// Held is the time from the ingress hook of one interface to the egress hook of another.
	Held = Kind(bpf.ABIDelayKindDELAY_HELD)
	// Segment is the time between the timestamps of two nodes that follow each other in a trace.
	Segment = Kind(bpf.ABIDelayKindDELAY_SEGMENT)
	// Path is the time from the first timestamp of a trace to its removal at this node.
	Path = Kind(bpf.ABIDelayKindDELAY_PATH)
)

func (k Kind) String() string {
	switch k {
	case Held:
		return "held"
	case Segment:
		return "segment"
	case Path:
		return "path"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Kinds are all kinds.
var Kinds = []Kind{Held, Segment, Path}

// Buckets is how many there are, those of seconds at exponential.DelayScale. Number i holds delays above
// 2^((i-1)/16-30) s and not above 2^(i/16-30) s.
const Buckets = int(bpf.ABIDelayBoundDELAY_BUCKETS)

// below is how many buckets of the programs lie below that of OTLP's index 0, which begins at a second.
const below = 30<<exponential.DelayScale + 1

// Key says what the delays of a series have in common. The series of what found no place has the
// kind alone.
type Key struct {
	Kind            Kind
	Other           bool          // of all that found no place
	Ingress, Egress model.IfIndex // of a node that holds
	// From and To are nodes, by their wide ids if Wide; without ids in the traces, a path has neither.
	From, To  uint64
	Wide      bool
	Namespace ioam.NamespaceID
}

// Series is what was counted since the data plane began.
type Series struct {
	Key
	Sum      uint64 // of the delays in Zero and Buckets, ns
	Zero     uint64 // delays of 0
	Negative uint64 // times before those that they follow: clocks differ
	Longer   uint64 // delays beyond the last bucket
	// Incomplete counts traces without a first time, or which some node had no room in.
	Incomplete uint64
	Buckets    [Buckets]uint64
}

// Count is how many delays are in the buckets, and zero.
func (s *Series) Count() uint64 {
	n := s.Zero
	for _, c := range s.Buckets {
		n += c
	}
	return n
}

// Counted reports whether anything was counted.
func (s *Series) Counted() bool { return s.Count()+s.Negative+s.Longer+s.Incomplete > 0 }

// Includes reports whether a series may be part of this one: none of its counts is greater.
func (s *Series) Includes(o *Series) bool {
	if s.Sum < o.Sum || s.Zero < o.Zero || s.Negative < o.Negative || s.Longer < o.Longer || s.Incomplete < o.Incomplete {
		return false
	}
	for i, n := range o.Buckets {
		if s.Buckets[i] < n {
			return false
		}
	}
	return true
}

// Add adds what another series has counted.
func (s *Series) Add(o *Series) { s.combine(o, 1) }

// Sub takes away what another series has counted, which is part of this one.
func (s *Series) Sub(o *Series) { s.combine(o, math.MaxUint64) }

// combine adds a multiple of another series, modulo 2^64.
func (s *Series) combine(o *Series, times uint64) {
	s.Sum += times * o.Sum
	s.Zero += times * o.Zero
	s.Negative += times * o.Negative
	s.Longer += times * o.Longer
	s.Incomplete += times * o.Incomplete
	for i, n := range o.Buckets {
		s.Buckets[i] += times * n
	}
}

// Histogram has the delays in seconds, as OTLP and Prometheus count them.
func (s *Series) Histogram() *exponential.Histogram {
	h := &exponential.Histogram{Scale: exponential.DelayScale, Zero: s.Zero}
	for i, n := range s.Buckets {
		if n > 0 {
			h.Buckets = append(h.Buckets, exponential.Bucket{Index: i - below, Count: n})
		}
	}
	return h
}

// seriesOf is what one CPU has counted.
func seriesOf(e *bpf.ABIDelaySeries) *Series {
	return &Series{Sum: e.Sum, Zero: e.Zero, Negative: e.Negative, Longer: e.Longer, Incomplete: e.Incomplete, Buckets: e.Buckets}
}

// keyOf is the key of an entry of the map.
func keyOf(e *bpf.ABIDelaySeries) Key {
	k := Key{
		Kind:      Kind(e.Label >> uint32(bpf.ABIDelayLabelDELAY_KIND_SHIFT) & 3),
		Namespace: ioam.NamespaceID(e.Label),
		Wide:      e.Label&uint32(bpf.ABIDelayLabelDELAY_WIDE) != 0,
	}
	if k.Kind == Held {
		k.Ingress, k.Egress, k.Namespace = model.IfIndex(e.From), model.IfIndex(e.To), 0
	} else {
		k.From, k.To = e.From, e.To
	}
	return k
}

// labelAt is where an entry has its label.
const labelAt = 16

// Memory is a table of histograms in this process. It stays readable when the table is replaced.
type Memory struct {
	of      *ebpf.Memory
	size    int64 // of an entry
	entries uint32
}

// Map maps a table of histograms.
func Map(m *ebpf.Map) (*Memory, error) {
	memory, err := m.Memory()
	if err != nil {
		return nil, fmt.Errorf("map the histograms of delays: %w", err)
	}
	return &Memory{of: memory, size: int64(m.ValueSize()), entries: m.MaxEntries()}, nil
}

// Read adds up what all CPUs have counted, in the order of kinds, interfaces and ids. The programs go
// on counting, so that a packet may be in a series' sum, and not in its buckets yet.
func (m *Memory) Read() ([]Series, error) {
	defer runtime.KeepAlive(m.of) // what is mapped
	memory, size := m.of, m.size
	const room = uint32(bpf.ABIDelayBoundDELAY_ROOM)
	all := make(map[Key]*Series)
	raw := make([]byte, size)
	for i := range m.entries {
		at := int64(i) * size
		kind := i % room // of the series of the rest, at the beginning of a CPU's part
		if kind >= uint32(bpf.ABIDelayBoundDELAY_KINDS) {
			if _, err := memory.ReadAt(raw[:4], at+labelAt); err != nil {
				return nil, fmt.Errorf("read map %s: %w", bpf.MapDelays, err)
			}
			if binary.NativeEndian.Uint32(raw) == 0 {
				continue
			}
		}
		if _, err := memory.ReadAt(raw, at); err != nil {
			return nil, fmt.Errorf("read map %s: %w", bpf.MapDelays, err)
		}
		var e bpf.ABIDelaySeries
		if _, err := binary.Decode(raw, binary.NativeEndian, &e); err != nil {
			return nil, fmt.Errorf("read map %s: %w", bpf.MapDelays, err)
		}
		key := keyOf(&e)
		if kind < uint32(bpf.ABIDelayBoundDELAY_KINDS) {
			key = Key{Kind: Kind(kind), Other: true}
		}
		if all[key] == nil {
			all[key] = &Series{Key: key}
		}
		all[key].Add(seriesOf(&e))
	}
	return sorted(all), nil
}

// sorted leaves out series in which nothing was counted.
func sorted(all map[Key]*Series) []Series {
	list := make([]Series, 0, len(all))
	for _, s := range all {
		if s.Counted() {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(a, b Series) int {
		return cmp.Or(
			cmp.Compare(a.Kind, b.Kind),
			compareBool(a.Other, b.Other),
			cmp.Compare(a.Namespace, b.Namespace),
			compareBool(a.Wide, b.Wide),
			cmp.Compare(a.Ingress, b.Ingress),
			cmp.Compare(a.Egress, b.Egress),
			cmp.Compare(a.From, b.From),
			cmp.Compare(a.To, b.To),
		)
	})
	return list
}

func compareBool(a, b bool) int { return cmp.Compare(bpf.Boolean(a), bpf.Boolean(b)) }

// HasIDs reports whether the traces have node ids.
func (k *Key) HasIDs() bool { return !k.Other && k.Kind != Held && (!k.Wide || k.From|k.To != 0) }
