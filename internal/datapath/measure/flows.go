// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"fmt"
	"iter"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/srv6"
)

// Flows is the measured flows of a generation, and how they are marked.
type Flows struct {
	marking bpf.ABIMarking // without seeds, room and places
	flows   []selectedFlow
	seeds   [2]uint64 // of the keys, once they are made
}

// selectedFlow is a flow and what selects it; address words as in a packet.
type selectedFlow struct {
	name        string
	direction   uint32
	selection   uint8
	source      [2]uint64
	destination [2]uint64
	classLabel  uint32
	monitor     uint32 // FlowMonID
	packets     loss.Selection
	forms       [][][2]uint64 // of its segment list, masked as programs do

	keys     []segmentKey // by hash; a form has one
	bySource segmentKey   // by its source alone
}

// Next headers before the header with the AltMark option (RFC 8200 §4).
const (
	nextHopByHop    = 0
	nextDestination = 60
)

// fewestFlows is the minimum room for counters, so that a few changes need no other
// table.
const fewestFlows = 64

// room is how many flows there are notes for.
func (m *Flows) room() uint32 { return max(bpf.PowerOfTwo(uint(len(m.flows))), fewestFlows) }

// InsertsMark reports whether packets that leave get the AltMark option.
func (m *Flows) InsertsMark() bool {
	return m.marking.Carrier == uint8(bpf.ABICarrierCARRIER_OPTION) && m.marking.Selected[bpf.ABIDirectionDIRECTION_OUT] > 0
}

// Any reports whether some flow is measured.
func (m *Flows) Any() bool { return len(m.flows) > 0 }

// CountArrivals reports whether some flow is measured where its packets arrive.
func (m *Flows) CountArrivals() bool { return m.marking.Selected[bpf.ABIDirectionDIRECTION_IN] > 0 }

// clears reports whether packets from a flow's source that are of no flow lose their
// mark.
func (m *Flows) clears(f *selectedFlow) bool {
	return m.marking.Clears != 0 && f.direction == uint32(bpf.ABIDirectionDIRECTION_OUT)
}

// each visits the keys of all flows, after hash.
func (m *Flows) each() iter.Seq[segmentKey] {
	return func(yield func(segmentKey) bool) {
		for i := range m.flows {
			f := &m.flows[i]
			for _, k := range f.keys {
				if !yield(k) {
					return
				}
			}
			if m.clears(f) && !yield(f.bySource) {
				return
			}
		}
	}
}

// keys is the number of different keys.
func (m *Flows) keys() uint32 {
	n, sources := 0, make(map[segmentKey]bool)
	for i := range m.flows {
		n += len(m.flows[i].keys)
		if f := &m.flows[i]; m.clears(f) {
			sources[f.bySource] = true
		}
	}
	return uint32(n + len(sources))
}

// mostPlaces is how many times as large as usual a table of keys may get. Keys that spread
// like random ones fit at once, or in the next size.
const mostPlaces = 16

// places is the size of a table of keys that has room for them, and is at most half
// full.
func (m *Flows) places() (uint32, error) {
	usual := 2 * max(bpf.PowerOfTwo(uint(m.keys())), fewestFlows)
	for n := usual; n <= mostPlaces*usual; n *= 2 {
		if m.fits(emptyKeyTable(n)) {
			return n, nil
		}
	}
	return 0, problem.New(
		fmt.Sprintf("the hashes of %d measured flows collide too often for any table", len(m.flows)),
		"remove some of the flows",
	)
}

// fits reports whether every key finds a place.
func (m *Flows) fits(t keyTable) bool {
	for k := range m.each() {
		if _, ok := t.find(k); ok {
			continue
		}
		place, ok := t.vacancy(k)
		if !ok {
			return false
		}
		t.enter(place, k, 0)
	}
	return true
}

// Compile makes the flows of a valid configuration.
func Compile(cfg model.Measurement) (m Flows) {
	if len(cfg.Flows) == 0 {
		return m
	}
	cfg = cfg.WithDefaults()
	k := cfg.Marking
	m.marking = bpf.ABIMarking{
		Length: uint64(cfg.Block), Guard: uint64(cfg.Guard), Carrier: uint8(bpf.ABICarrierCARRIER_CLASS), Mask: k.Mask, Octet: k.Octet,
		Unmarked: k.None, Values: [4]uint8{k.Colours[0], k.Colours[1]}, Clears: bpf.Boolean(cfg.Clear), Sums: bpf.Boolean(cfg.MeanDelay),
	}
	if k.Delay != nil {
		m.marking.MarksDelay, m.marking.Values[2], m.marking.Values[3] = 1, k.Delay[0], k.Delay[1]
	}
	classMask := uint8(0xfc) // DSCP
	switch k.Carrier {
	case model.CarrierArgument:
		m.marking.Carrier = uint8(bpf.ABICarrierCARRIER_ARGUMENT)
		var argument [16]byte
		argument[k.Octet] = k.Mask
		m.marking.Argument = bpf.AddressWords(netip.AddrFrom16(argument))
	case model.CarrierOption:
		m.marking.Carrier, m.marking.Header = uint8(bpf.ABICarrierCARRIER_OPTION), nextDestination
		if k.HopByHop {
			m.marking.Header = nextHopByHop
		}
	default:
		classMask &^= k.Mask
	}
	m.marking.ClassMask = bpf.BigEndian32(uint32(classMask) << 20)
	var used [bpf.ABIDirectionNUM_DIRECTIONS][]uint8
	selections := cfg.Selections()
	for i, f := range cfg.Flows {
		s := m.selected(f)
		s.packets = selections[i]
		m.flows = append(m.flows, s)
		if !slices.Contains(used[s.direction], s.selection) {
			used[s.direction] = append(used[s.direction], s.selection)
		}
	}
	for d, list := range used {
		slices.SortFunc(list, moreSpecific)
		m.marking.Selected[d] = uint8(
			copy(m.marking.Selections[d*int(bpf.ABIMarkingBoundMARKING_SELECTIONS):][:bpf.ABIMarkingBoundMARKING_SELECTIONS], list),
		)
	}
	return m
}

// moreSpecific orders selections: those by more fields come first.
func moreSpecific(a, b uint8) int {
	const inline = uint8(bpf.ABISelectionSELECT_INLINE)
	return cmp.Or(cmp.Compare(bits.OnesCount8(b&^inline), bits.OnesCount8(a&^inline)), cmp.Compare(a, b))
}

func (m *Flows) selected(f model.MeasuredFlow) selectedFlow {
	s := selectedFlow{
		name:      f.Name,
		direction: uint32(bpf.ABIDirectionDIRECTION_IN),
		selection: uint8(bpf.ABISelectionSELECT_SEGMENTS),
		source:    bpf.AddressWords(f.Source),
	}
	if f.Direction == model.DirectionOut {
		s.direction = uint32(bpf.ABIDirectionDIRECTION_OUT)
	}
	s.monitor = f.FlowMonID()
	path, word := f.Path, uint32(0)
	if path.Mode == srv6.ModeInline {
		path.Destination = f.Destination
		if !f.Destination.IsValid() {
			s.selection |= uint8(bpf.ABISelectionSELECT_INLINE)
		}
	} else if f.Destination.IsValid() {
		s.selection |= uint8(bpf.ABISelectionSELECT_DESTINATION)
		s.destination = bpf.AddressWords(f.Destination)
	}
	if f.TrafficClass != nil {
		s.selection |= uint8(bpf.ABISelectionSELECT_CLASS)
		word |= bpf.BigEndian32(uint32(*f.TrafficClass)<<20) & m.marking.ClassMask
	}
	if f.FlowLabel != nil {
		s.selection |= uint8(bpf.ABISelectionSELECT_LABEL)
		word |= bpf.BigEndian32(*f.FlowLabel & 0xfffff)
	}
	s.classLabel = word
	if f.SelectedByFlowMonID() {
		s.selection ^= uint8(bpf.ABISelectionSELECT_SEGMENTS | bpf.ABISelectionSELECT_MONITOR)
		s.forms = [][][2]uint64{nil}
		return s
	}
	for _, form := range path.Forms() {
		list := make([][2]uint64, 0, len(form))
		for i, sid := range form {
			words := bpf.AddressWords(sid)
			if i == 0 && s.selection&uint8(bpf.ABISelectionSELECT_INLINE) == 0 {
				words[0] &^= m.marking.Argument[0]
				words[1] &^= m.marking.Argument[1]
			}
			list = append(list, words)
		}
		s.forms = append(s.forms, list)
	}
	return s
}

// segmentMix is SEGMENT_MIX of the programs, and segmentSpread is FIBONACCI.
const (
	segmentMix    = 0x9fb21c651e98df25
	segmentSpread = 0x9e3779b97f4a7c15
)

func mix(hash, word uint64) uint64 {
	hash = (hash ^ word) * segmentMix
	return hash ^ hash>>29
}

// key is the hash by which programs find a flow.
func (s *selectedFlow) key(seeds [2]uint64, selection uint8, form [][2]uint64) segmentKey {
	const words = uint8(bpf.ABISelectionSELECT_CLASS | bpf.ABISelectionSELECT_LABEL)
	head, tail := seeds[0]^(uint64(selection)<<8|uint64(s.direction)), seeds[1]
	add := func(words [2]uint64) {
		words[0] += words[1] * segmentSpread
		words[1] += words[0] * segmentSpread
		head, tail = mix(head, words[0]), mix(tail, words[1])
	}
	add(s.source)
	if selection&uint8(bpf.ABISelectionSELECT_DESTINATION) != 0 {
		add(s.destination)
	}
	if selection&words != 0 {
		head = mix(head, uint64(s.classLabel))
	}
	if selection&uint8(bpf.ABISelectionSELECT_MONITOR) != 0 {
		head = mix(head, uint64(s.monitor))
	}
	for _, sid := range form {
		add(sid)
	}
	return segmentKey{head: mix(head, bits.RotateLeft64(tail, 32)), tail: uint32(tail >> 32)}
}

// hash makes the keys of all flows.
func (m *Flows) hash(seeds [2]uint64) {
	if m.seeds == seeds {
		return
	}
	m.seeds = seeds
	for i := range m.flows {
		f := &m.flows[i]
		f.keys = f.keys[:0]
		for _, form := range f.forms {
			f.keys = append(f.keys, f.key(seeds, f.selection, form))
		}
		f.bySource = f.key(seeds, 0, nil)
	}
}
