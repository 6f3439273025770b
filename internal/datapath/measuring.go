// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// measuring is the measured flows of a generation, and how they are marked.
type measuring struct {
	marking abiMarking // without seeds and room
	flows   []selectedFlow
}

// selectedFlow is a flow and what selects it; address words as in a packet.
type selectedFlow struct {
	name        string
	direction   uint32
	selection   uint8
	source      [2]uint64
	destination [2]uint64
	classLabel  uint32
	forms       [][][2]uint64 // of its segment list, masked as programs do
}

// fewestFlows is the minimum room for counters, so that a few changes need no other
// table.
const fewestFlows = 64

// room is how many flows a CPU's counters are for; 0 without flows.
func (m *measuring) room() uint32 {
	if len(m.flows) == 0 {
		return 0
	}
	return max(powerOfTwo(uint(len(m.flows))), fewestFlows)
}

// keys is the room for keys: some flows have several forms, and a source has a key.
func (m *measuring) keys() uint32 {
	n := 0
	for _, f := range m.flows {
		n += len(f.forms) + 1
	}
	return max(powerOfTwo(uint(n)), fewestFlows)
}

func compileMeasuring(cfg model.Measurement) (m measuring) {
	if len(cfg.Flows) == 0 {
		return m
	}
	cfg = cfg.WithDefaults()
	k := cfg.Marking
	m.marking = abiMarking{
		Length: uint64(cfg.Block), Guard: uint64(cfg.Guard), Carrier: uint8(abiCarrierCARRIER_CLASS), Mask: k.Mask, Octet: k.Octet,
		Unmarked: k.None, Values: [4]uint8{k.Colours[0], k.Colours[1]}, Clears: boolean(cfg.Clear), Sums: boolean(cfg.MeanDelay),
	}
	if k.Delay != nil {
		m.marking.MarksDelay, m.marking.Values[2], m.marking.Values[3] = 1, k.Delay[0], k.Delay[1]
	}
	classMask := uint8(0xfc) // DSCP
	if k.Carrier == model.CarrierArgument {
		m.marking.Carrier = uint8(abiCarrierCARRIER_ARGUMENT)
		var argument [16]byte
		argument[k.Octet] = k.Mask
		m.marking.Argument = addressWords(netip.AddrFrom16(argument))
	} else {
		classMask &^= k.Mask
	}
	m.marking.ClassMask = be32(uint32(classMask) << 20)
	var used [abiDirectionNUM_DIRECTIONS][]uint8
	for _, f := range cfg.Flows {
		s := m.selected(f)
		m.flows = append(m.flows, s)
		if !slices.Contains(used[s.direction], s.selection) {
			used[s.direction] = append(used[s.direction], s.selection)
		}
	}
	for d, list := range used {
		slices.SortFunc(list, moreSpecific)
		m.marking.Selected[d] = uint8(copy(m.marking.Selections[d*int(abiMarkingBoundMARKING_SELECTIONS):][:abiMarkingBoundMARKING_SELECTIONS], list))
	}
	return m
}

// moreSpecific orders selections: those by more fields come first.
func moreSpecific(a, b uint8) int {
	const inline = uint8(abiSelectionSELECT_INLINE)
	return cmp.Or(cmp.Compare(bits.OnesCount8(b&^inline), bits.OnesCount8(a&^inline)), cmp.Compare(a, b))
}

func (m *measuring) selected(f model.MeasuredFlow) selectedFlow {
	s := selectedFlow{name: f.Name, direction: uint32(abiDirectionDIRECTION_IN), selection: uint8(abiSelectionSELECT_SEGMENTS), source: addressWords(f.Source)}
	if f.Direction == model.DirectionOut {
		s.direction = uint32(abiDirectionDIRECTION_OUT)
	}
	path, word := f.Path, uint32(0)
	if path.Mode == srv6.ModeInline {
		path.Destination = f.Destination
		if !f.Destination.IsValid() {
			s.selection |= uint8(abiSelectionSELECT_INLINE)
		}
	} else if f.Destination.IsValid() {
		s.selection |= uint8(abiSelectionSELECT_DESTINATION)
		s.destination = addressWords(f.Destination)
	}
	if f.TrafficClass != nil {
		s.selection |= uint8(abiSelectionSELECT_CLASS)
		word |= be32(uint32(*f.TrafficClass)<<20) & m.marking.ClassMask
	}
	if f.FlowLabel != nil {
		s.selection |= uint8(abiSelectionSELECT_LABEL)
		word |= be32(*f.FlowLabel & 0xfffff)
	}
	s.classLabel = word
	for _, form := range path.Forms() {
		list := make([][2]uint64, 0, len(form))
		for i, sid := range form {
			words := addressWords(sid)
			if i == 0 && s.selection&uint8(abiSelectionSELECT_INLINE) == 0 {
				words[0] &^= m.marking.Argument[0]
				words[1] &^= m.marking.Argument[1]
			}
			list = append(list, words)
		}
		s.forms = append(s.forms, list)
	}
	return s
}

// segmentMix is SEGMENT_MIX of the programs.
const segmentMix = 0x9fb21c651e98df25

func mix(hash, word uint64) uint64 {
	hash = (hash ^ word) * segmentMix
	return hash ^ hash>>29
}

// key is the hash by which programs find a flow.
func (s *selectedFlow) key(seeds [2]uint64, selection uint8, form [][2]uint64) abiMeasuredKey {
	head, tail := seeds[0]^(uint64(selection)<<8|uint64(s.direction)), seeds[1]
	add := func(words [2]uint64) { head, tail = mix(head, words[0]), mix(tail, words[1]) }
	add(s.source)
	if selection&uint8(abiSelectionSELECT_DESTINATION) != 0 {
		add(s.destination)
	}
	word := uint32(0)
	if selection != 0 {
		word = s.classLabel
	}
	head = mix(head, uint64(word))
	for _, sid := range form {
		add(sid)
	}
	head = mix(head, tail)
	tail = mix(tail, head)
	return abiMeasuredKey{Head: head, Tail: tail}
}

// keysOf are all keys of the flow.
func (s *selectedFlow) keysOf(seeds [2]uint64) []abiMeasuredKey {
	var keys []abiMeasuredKey
	for _, form := range s.forms {
		keys = append(keys, s.key(seeds, s.selection, form))
	}
	return keys
}

// sourceKey is the key of the flow's source alone, by which packets of no flow are
// found that are to lose their mark.
func (s *selectedFlow) sourceKey(seeds [2]uint64) abiMeasuredKey { return s.key(seeds, 0, nil) }
