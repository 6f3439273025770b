// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/loss"
)

// takers finds the flows of one direction that take packets from other flows: of two flows that select
// a packet, the one that compares more fields has it.
type takers struct {
	flows         []selecting
	out           bool
	ownMonitorIDs bool // with carrier: option, flows may take only the packets with their own FlowMonIDs
	lists         map[listKey]*sharers
	results       map[takenKey]*taken
	seed          maphash.Seed
}

// listKey is what packets have in common that may be of several flows. Flows that do not compare
// the last entry of the list have it with others by the entries before.
type listKey struct {
	source netip.Addr
	list   string
	tail   bool // without the last entry
}

// sharers are the flows with one list.
type sharers struct {
	byComparison map[comparison][]int // flows
	byValues     map[projection][]int
}

// comparison is which fields select flows; flows of one comparison differ in values alone.
type comparison struct{ compared, narrow fields }

// projection is flows of one comparison that have the same values of some fields.
type projection struct {
	comparison
	fields
	values
}

// taken is what is taken from flows, and by which.
type taken struct {
	takers []int
	sum    uint64 // of by
	digest uint32
}

// takenKey names flows from which the same is taken.
type takenKey struct {
	*sharers
	own   comparison
	lists uint32
	values
}

// newTakers finds the flows that select by several comparisons: only those can share packets.
func newTakers(flows []selecting, out, option bool) *takers {
	t := &takers{
		flows:         flows,
		out:           out,
		ownMonitorIDs: option,
		lists:         make(map[listKey]*sharers),
		results:       make(map[takenKey]*taken),
		seed:          maphash.MakeSeed(),
	}
	comparisons, toAny := make(map[fields]bool), false
	for i := range flows {
		if flows[i].out == out {
			comparisons[flows[i].compared] = true
			toAny = toAny || flows[i].compared&toAnyone != 0
		}
	}
	if len(comparisons) < 2 {
		return t
	}
	for i := range flows {
		f := &flows[i]
		if f.out != out {
			continue
		}
		for _, form := range f.forms {
			if f.compared&toAnyone == 0 {
				t.add(listKey{f.source, form, false}, i)
				form = form[min(addressLen, len(form)):]
			}
			if toAny {
				t.add(listKey{f.source, form, true}, i)
			}
		}
	}
	return t
}

func (t *takers) add(k listKey, flow int) {
	s := t.lists[k]
	if s == nil {
		s = &sharers{byComparison: make(map[comparison][]int), byValues: make(map[projection][]int)}
		t.lists[k] = s
	}
	c := t.flows[flow].comparison()
	s.byComparison[c] = append(s.byComparison[c], flow)
}

func (s *selecting) comparison() comparison { return comparison{s.compared, s.narrow} }

// setTaken sets what is taken from each flow.
func (t *takers) setTaken(list []loss.Selection) {
	if len(t.lists) == 0 {
		return
	}
	for i := range t.flows {
		f := &t.flows[i]
		if f.out != t.out {
			continue
		}
		var first *taken
		for n, form := range f.forms {
			each := t.takenFrom(i, form)
			switch {
			case n == 0:
				first = each
				if list[i].Takers == 0 {
					list[i].Takers = each.digest
				}
			case each.sum != first.sum:
				// Nodes of the way see different forms, so other flows have the packets here than there.
				list[i].Takers = loss.Partial
				for _, by := range [][]int{each.takers, first.takers} {
					for _, taker := range by {
						if !slices.Contains(each.takers, taker) || !slices.Contains(first.takers, taker) {
							list[taker].Takers = loss.Partial
						}
					}
				}
			}
		}
	}
}

// takenFrom is what other flows take from one that has a form.
func (t *takers) takenFrom(flow int, form string) *taken {
	f := &t.flows[flow]
	at := []*sharers{t.lists[listKey{f.source, form, f.compared&toAnyone != 0}]}
	if f.compared&toAnyone == 0 {
		if tail := t.lists[listKey{f.source, form[min(addressLen, len(form)):], true}]; tail != nil {
			at = append(at, tail)
		}
	}
	key := takenKey{at[0], f.comparison(), f.lists, f.values.only(t.shared(f, at))}
	if known := t.results[key]; known != nil {
		return known
	}
	parts, found := make(map[part]bool), &taken{}
	for n, s := range at {
		for c := range s.byComparison {
			if n > 0 && c.compared&toAnyone == 0 {
				continue // it compares the last entry, too, and was found by the whole list
			}
			other := selecting{compared: c.compared}
			if !other.precedes(f) {
				continue
			}
			for _, i := range t.overlapping(s, c, f) {
				found.takers = append(found.takers, i)
				parts[t.part(i, f, form)] = true
			}
		}
	}
	found.close(parts, t.ownMonitorIDs, t.seed)
	t.results[key] = found
	return found
}

// shared are the fields that a flow has in common with any that may take packets from it.
func (t *takers) shared(f *selecting, at []*sharers) (both fields) {
	for _, s := range at {
		for c := range s.byComparison {
			both |= c.narrow & f.narrow
		}
	}
	return both
}

// overlapping are the flows of one comparison that may have packets of a flow: those with its values of
// the fields that both have.
func (t *takers) overlapping(s *sharers, c comparison, f *selecting) []int {
	both := c.narrow & f.narrow
	if both == 0 {
		return s.byComparison[c]
	}
	empty := projection{c, both, values{}}
	if _, made := s.byValues[empty]; !made {
		s.byValues[empty] = nil
		for _, i := range s.byComparison[c] {
			p := projection{c, both, t.flows[i].values.only(both)}
			s.byValues[p] = append(s.byValues[p], i)
		}
	}
	return s.byValues[projection{c, both, f.values.only(both)}]
}

// part is the packets of a flow that another one takes: those with these values.
type part struct {
	fields
	values
	monitor uint32 // of flows that are apart
}

func (t *takers) part(taker int, f *selecting, form string) part {
	other := &t.flows[taker]
	p := part{fields: other.narrow &^ f.narrow, values: other.values}
	if other.lists != f.lists { // what all packets of one have as destination here, those of the other need not have
		p.fields |= other.compared & byDestination &^ f.narrow
		if p.fields&byDestination&^other.narrow != 0 {
			p.fields |= byOwn
		}
	}
	if f.compared&toAnyone != 0 && other.compared&toAnyone == 0 {
		for _, whole := range other.forms {
			if len(whole) >= addressLen && whole[addressLen:] == form {
				p.fields |= byLast
				copy(p.last[:], whole)
			}
		}
	}
	p.values = p.values.only(p.fields)
	if t.ownMonitorIDs {
		p.monitor = other.monitor
	}
	return p
}

// close makes the digest of the parts. Parts that another part contains are left out, unless apart.
func (t *taken) close(parts map[part]bool, apart bool, seed maphash.Seed) {
	var lines []string
	for p := range parts {
		if apart || !p.isWithin(parts) {
			lines = append(lines, string(p.append(nil)))
		}
	}
	if len(lines) > 0 {
		slices.Sort(lines)
		var b []byte
		for _, line := range lines {
			b = append(b, line...)
		}
		t.digest = digest(b)
	}
	slices.Sort(t.takers)
	t.takers = slices.Compact(t.takers)
	var h maphash.Hash
	h.SetSeed(seed)
	for _, i := range t.takers {
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(i)))
	}
	t.sum = h.Sum64()
}

// isWithin reports whether the part is in a greater one.
func (p part) isWithin(parts map[part]bool) bool {
	for less := (p.fields - 1) & p.fields; p.fields != 0; less = (less - 1) & p.fields {
		if parts[part{fields: less, values: p.values.only(less)}] {
			return true
		}
		if less == 0 {
			return false
		}
	}
	return false
}

func (p part) append(b []byte) []byte {
	b = append(b, byte(p.fields), p.class)
	b = binary.BigEndian.AppendUint32(b, p.label)
	destination := netip.IPv6Unspecified()
	if p.destination.IsValid() {
		destination = p.destination
	}
	b = append(append(b, destination.AsSlice()...), p.last[:]...)
	return binary.BigEndian.AppendUint32(b, p.monitor)
}
