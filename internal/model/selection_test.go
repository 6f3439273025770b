// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/srv6"
)

// shown is a packet as one node sees it.
type shown struct {
	list        []netip.Addr // the last segment first
	destination netip.Addr
	class       uint8
	label       uint32
	monitor     int32 // of the option; -1: none
}

// slowly finds the flow of a packet as the data plane does, flow by flow.
func slowly(m Measurement, out bool, p shown) *MeasuredFlow {
	var best *MeasuredFlow
	rank := [2]int{-1, 0}
	for i := range m.Flows {
		f := &m.Flows[i]
		if (f.Direction == DirectionOut) != out || !isSelected(m, f, p) {
			continue
		}
		number := 0
		for n, by := range []bool{!f.SelectedByFlowMonID(), f.Path.Mode != srv6.ModeInline &&
			f.Destination.IsValid(), f.TrafficClass != nil, f.FlowLabel != nil, f.toAny(), f.SelectedByFlowMonID()} {
			if by {
				number |= 1 << n
			}
		}
		mine := [2]int{bits.OnesCount(uint(number &^ 16)), -number}
		if slices.Compare(mine[:], rank[:]) > 0 {
			best, rank = f, mine
		}
	}
	return best
}

func isSelected(m Measurement, f *MeasuredFlow, p shown) bool {
	mask := uint8(0xfc)
	if m.Marking.Carrier == CarrierClass {
		mask &^= m.Marking.Mask
	}
	if f.TrafficClass != nil && (*f.TrafficClass^p.class)&mask != 0 || f.FlowLabel != nil && *f.FlowLabel != p.label {
		return false
	}
	if f.Path.Mode != srv6.ModeInline && f.Destination.IsValid() && f.Destination != p.destination {
		return false
	}
	if f.SelectedByFlowMonID() {
		return p.monitor == int32(*f.MonitorID)
	}
	path, list := f.Path, p.list
	if path.Mode == srv6.ModeInline {
		path.Destination = f.Destination
	}
	if f.toAny() {
		list = list[1:]
	}
	return slices.ContainsFunc(path.Forms(), func(form []netip.Addr) bool { return slices.Equal(form, list) })
}

// world is what random flows are made of. Packets also have values that no flow has, so that flows
// never cover all of another one together.
type world struct {
	*rand.Rand
	sids []netip.Addr
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 9341))}
	for _, a := range []string{"fc00:1::e", "fc00:2::e", "fc00:3::e", "fc00:4::e"} {
		w.sids = append(w.sids, netip.MustParseAddr(a))
	}
	return w
}

var (
	classes = []uint8{0, 0x20, 0x40}
	someone = netip.MustParseAddr("2001:db8::1")
)

func (w *world) path() (p srv6.Path) {
	for _, i := range w.Perm(3)[:1+w.IntN(3)] {
		p.Segments = append(p.Segments, w.sids[i])
	}
	if p.Mode = srv6.Mode(w.IntN(3)); p.Mode != srv6.ModeInline {
		p.Popped = w.IntN(4) == 0
	}
	return p
}

func (w *world) flow(name string, d Direction, path srv6.Path) MeasuredFlow {
	f := MeasuredFlow{Name: name, Direction: d, Source: someone, Path: path}
	if w.IntN(2) == 0 {
		f.TrafficClass = &classes[w.IntN(2)]
	}
	if w.IntN(3) == 0 {
		label := uint32(5 + w.IntN(2))
		f.FlowLabel = &label
	}
	switch n := len(path.Segments); {
	case w.IntN(4) > 0:
	case path.Mode == srv6.ModeInline:
		f.Destination = w.sids[w.IntN(3)]
	case d == DirectionOut:
		f.Destination = path.Segments[0]
	default:
		f.Destination = path.Segments[n-1]
	}
	return f
}

// measurement has some flows, of few paths, the first of which is red.
func (w *world) measurement(d Direction, red MeasuredFlow, paths []srv6.Path) Measurement {
	red.Direction = d
	m := Measurement{Block: time.Second, Marking: DefaultMarking(), Flows: []MeasuredFlow{red}}
	for range w.IntN(4) {
		m.Flows = append(m.Flows, w.flow(string(rune('a'+len(m.Flows))), d, paths[w.IntN(len(paths))]))
	}
	return m
}

func (m Measurement) isValid() bool {
	c := testConfig()
	c.Measurement = m
	return c.Validate() == nil
}

// all are all packets that a node may see.
func (w *world) all(visit func(shown)) {
	var lists [][]netip.Addr
	for _, a := range w.sids {
		lists = append(lists, []netip.Addr{a})
		for _, b := range w.sids {
			lists = append(lists, []netip.Addr{a, b})
			for _, c := range w.sids {
				lists = append(lists, []netip.Addr{a, b, c})
				for _, d := range w.sids {
					lists = append(lists, []netip.Addr{a, b, c, d})
				}
			}
		}
	}
	for _, list := range lists {
		for _, destination := range w.sids {
			for _, class := range classes {
				for label := range uint32(3) {
					visit(shown{list, destination, class, 4 + label, -1})
				}
			}
		}
	}
}

// Nodes of one direction have equal selections exactly if each packet is of the flow at both or at
// neither.
func TestSelectionsAreWhatIsSelected(t *testing.T) {
	equal, different, partial := 0, 0, 0
	for seed := range uint64(400) {
		w := newWorld(seed)
		paths := []srv6.Path{w.path(), w.path()}
		red := w.flow("red", DirectionIn, paths[0])
		a, b := w.measurement(DirectionIn, red, paths), w.measurement(DirectionIn, red, paths)
		if w.IntN(5) == 0 {
			b = w.measurement(DirectionIn, w.flow("red", DirectionIn, paths[w.IntN(2)]), paths)
		}
		if !a.isValid() || !b.isValid() {
			continue
		}
		first, second := a.Selections()[0], b.Selections()[0]
		if first.Takers == loss.Partial || second.Takers == loss.Partial {
			partial++
			continue
		}
		some, same := false, true
		w.all(func(p shown) {
			// What packets of the flow have as destination here is the last segment; others are not of it.
			if f := a.Flows[0]; f.Path.Mode != srv6.ModeInline && p.destination != f.Path.Segments[len(f.Path.Segments)-1] {
				return
			}
			isRed := func(m Measurement) bool { f := slowly(m, false, p); return f != nil && f.Name == "red" }
			some = some || isRed(a) || isRed(b)
			same = same && isRed(a) == isRed(b)
		})
		switch {
		case !some:
		case same != (first == second):
			t.Fatalf(
				"seed %d: the same packets %v, but %+v and %+v (%s)\n%+v\n%+v",
				seed,
				same,
				first,
				second,
				first.Unlike(second),
				a.Flows,
				b.Flows,
			)
		case same:
			equal++
		default:
			different++
		}
	}
	if equal < 30 || different < 30 || partial < 5 {
		t.Errorf("%d equal, %d different, %d partial", equal, different, partial)
	}
}

// journey is a packet at the ingress and at the egress.
func journey(p srv6.Path, class uint8, label uint32, monitor int32, to netip.Addr) (sent, received shown) {
	whole := slices.Clone(p.Segments)
	if p.Mode == srv6.ModeInline {
		whole = append(whole, to)
	}
	slices.Reverse(whole)
	n := len(p.Segments)
	sent = shown{whole, p.Segments[0], class, label, monitor}
	received = sent
	received.destination = whole[0]
	if p.Mode == srv6.ModeReduced && n > 1 {
		received.list = whole[:n-1]
	}
	if p.Popped {
		received.list = whole[:1]
	}
	return sent, received
}

// If an ingress and an egress have equal selections, each packet that the ingress marks is of the
// flow at both, or at neither.
func TestSelectionsOfBothEnds(t *testing.T) {
	equal := 0
	for seed := range uint64(4000) {
		w := newWorld(seed)
		paths := []srv6.Path{w.path(), w.path(), w.path()}
		red := w.flow("red", DirectionOut, paths[0])
		red.Destination = netip.Addr{}
		a := w.measurement(DirectionOut, red, paths)
		b := a
		b.Flows = slices.Clone(a.Flows)
		for i := range b.Flows {
			b.Flows[i].Direction = DirectionIn
		}
		if w.IntN(2) == 0 {
			b = w.measurement(DirectionIn, red, paths)
		}
		option := w.IntN(3) == 0
		if option {
			a.Marking = OptionMarking(false)
			b.Marking = a.Marking
			for i := range b.Flows {
				if id := b.Flows[i].FlowMonID(); w.IntN(2) == 0 {
					b.Flows[i].MonitorID = &id
				}
			}
		}
		if !a.isValid() || !b.isValid() || a.Selections()[0] != b.Selections()[0] || a.Selections()[0].Takers == loss.Partial {
			continue
		}
		equal++
		for _, path := range paths {
			if slices.Equal(path.Segments, red.Path.Segments) {
				path = red.Path // the flow is configured as its packets travel
			}
			for _, class := range classes {
				for label := range uint32(3) {
					for _, to := range w.sids {
						sent, received := journey(path, class, label+4, -1, to)
						of := slowly(a, true, sent)
						if of == nil || !slices.Equal(path.Segments, of.Path.Segments) || path.Mode != of.Path.Mode || path.Popped != of.Path.Popped {
							continue // the flow is not configured as these packets travel
						}
						if option {
							received.monitor = int32(of.FlowMonID())
						}
						at := slowly(b, false, received)
						if (of.Name == "red") != (at != nil && at.Name == "red") {
							t.Fatalf("seed %d: of %q at the ingress, and of %+v at the egress\n%+v\n%+v\n%+v", seed, of.Name, at, received, a.Flows, b.Flows)
						}
					}
				}
			}
		}
	}
	if equal < 300 {
		t.Errorf("%d equal", equal)
	}
}

// What is no selection changes nothing.
func TestSelectionsOfLegitimateDifferences(t *testing.T) {
	w := newWorld(1)
	zero, clock, label := uint8(0), time.Millisecond, uint32(9)
	red := MeasuredFlow{Name: "red", Source: someone, Path: srv6.Path{Segments: w.sids[:3], Mode: srv6.ModeReduced, Popped: true}}
	web := red
	web.Name, web.TrafficClass = "web", &zero
	base := Measurement{Block: time.Second, Marking: DefaultMarking(), Flows: []MeasuredFlow{red, web}}
	want := base.Selections()
	if want[0].Takers == 0 || want[1].Takers != 0 || want[0] == want[1] {
		t.Fatalf("%+v", want)
	}
	for name, change := range map[string]func(*Measurement){
		"direction": func(m *Measurement) { m.Flows[0].Direction, m.Flows[1].Direction = DirectionIn, DirectionTransit },
		"names":     func(m *Measurement) { m.Flows[1].Name = "www" },
		"points and thresholds": func(m *Measurement) {
			m.Flows[0].Points, m.Flows[0].Thresholds.NoDataAfter, m.Flows[0].Metrics = make([]netip.AddrPort, 2), 7, true
			m.Flows[0].Session, m.Flows[0].Probes, m.Flows[0].Point, m.Flows[0].LastPoint = 3, ProbesInBand, 1, 2
		},
		"node": func(m *Measurement) {
			m.Guard, m.MeanDelay, m.Clear, m.ClockError, m.Exchange = 7*time.Millisecond, true, true, &clock, ExchangeIPFIX
		},
		"class with marked bits": func(m *Measurement) { marked := uint8(0x0d); m.Flows[1].TrafficClass = &marked },
		"flows of other packets": func(m *Measurement) {
			other, source, short := red, red, red
			other.Path.Segments, source.Source, short.Path = w.sids[1:4], w.sids[3], srv6.Path{Segments: w.sids[:2]}
			other.FlowLabel, source.FlowLabel, short.FlowLabel = &label, &label, &label
			m.Flows = append(m.Flows, other, source, short)
		},
		"a narrower flow of the other direction": func(m *Measurement) {
			other := red
			other.Direction, other.FlowLabel = DirectionIn, &label
			m.Flows = append(m.Flows, other)
		},
		"a flow within a narrower one": func(m *Measurement) {
			other := web
			other.FlowLabel = &label
			m.Flows = append(m.Flows, other)
		},
	} {
		m := base
		m.Flows = slices.Clone(base.Flows)
		change(&m)
		if got := m.Selections(); got[0] != want[0] || name != "a flow within a narrower one" && got[1] != want[1] {
			t.Errorf("%s: %s, %s", name, got[0].Unlike(want[0]), got[1].Unlike(want[1]))
		}
	}
}

// A destination that all packets have at a node narrows nothing there.
func TestOwnDestination(t *testing.T) {
	w := newWorld(1)
	container := netip.MustParseAddr("fc00:1:2:3::")
	for _, tt := range []struct {
		direction   Direction
		last        netip.Addr
		compression srv6.Compression
		destination string
		own         bool
	}{
		{DirectionOut, w.sids[2], srv6.Compression{}, "fc00:1::e", true},
		{DirectionOut, w.sids[2], srv6.Compression{}, "fc00:3::e", false},
		{DirectionIn, w.sids[2], srv6.Compression{}, "fc00:3::e", true},
		{DirectionIn, w.sids[2], srv6.Compression{}, "fc00:2::e", false},
		{DirectionTransit, w.sids[2], srv6.Compression{}, "fc00:2::e", true},
		{DirectionTransit, w.sids[2], srv6.Compression{}, "fc00:4::e", false},
		{DirectionIn, container, srv6.Compression{Block: 16, SID: 16}, "fc00:3::", true},
		{DirectionIn, container, srv6.Compression{Block: 16, SID: 16}, "fc00:4::", false},
	} {
		f := MeasuredFlow{
			Source:    someone,
			Direction: tt.direction,
			Path:      srv6.Path{Segments: []netip.Addr{w.sids[0], w.sids[1], tt.last}, Compression: tt.compression},
		}
		m := Measurement{Flows: []MeasuredFlow{f}}
		want := m.Selections()[0]
		m.Flows[0].Destination = netip.MustParseAddr(tt.destination)
		if own := m.Selections()[0] == want; own != tt.own {
			t.Errorf("%+v: %v", tt, own)
		}
	}
}

// Each of these is another selection.
func TestSelectionsDiffer(t *testing.T) {
	w := newWorld(1)
	zero, label := uint8(0), uint32(9)
	red := MeasuredFlow{
		Name:   "red",
		Source: someone,
		Path:   srv6.Path{Segments: []netip.Addr{netip.MustParseAddr("fc00:1:2::"), w.sids[1], w.sids[2]}},
	}
	base := Measurement{Block: time.Second, Marking: DefaultMarking(), Flows: []MeasuredFlow{red}}
	seen := map[loss.Selection]string{base.Selections()[0]: "nothing"}
	for name, change := range map[string]func(*Measurement, *MeasuredFlow){
		"block":       func(m *Measurement, _ *MeasuredFlow) { m.Block = 2 * time.Second },
		"mask":        func(m *Measurement, _ *MeasuredFlow) { m.Marking.Mask = 0x1c },
		"colours":     func(m *Measurement, _ *MeasuredFlow) { m.Marking.Colours = [2]uint8{0x0c, 0x04} },
		"delay marks": func(m *Measurement, _ *MeasuredFlow) { m.Marking.Delay = &[2]uint8{0x08, 0x0c} },
		"carrier":     func(m *Measurement, _ *MeasuredFlow) { m.Marking = OptionMarking(true) },
		"octet":       func(m *Measurement, _ *MeasuredFlow) { m.Marking.Carrier, m.Marking.Octet = CarrierArgument, 15 },
		"source":      func(_ *Measurement, f *MeasuredFlow) { f.Source = w.sids[3] },
		"order": func(_ *Measurement, f *MeasuredFlow) {
			f.Path.Segments = []netip.Addr{w.sids[1], f.Path.Segments[0], w.sids[2]}
		},
		"reduced":       func(_ *Measurement, f *MeasuredFlow) { f.Path.Mode = srv6.ModeReduced },
		"popped":        func(_ *Measurement, f *MeasuredFlow) { f.Path.Popped = true },
		"inline":        func(_ *Measurement, f *MeasuredFlow) { f.Path.Mode = srv6.ModeInline },
		"inline to one": func(_ *Measurement, f *MeasuredFlow) { f.Path.Mode, f.Destination = srv6.ModeInline, someone },
		"container": func(_ *Measurement, f *MeasuredFlow) {
			f.Path.Mode, f.Path.Compression = srv6.ModeReduced, srv6.Compression{Block: 16, SID: 16}
		},
		"destination":    func(_ *Measurement, f *MeasuredFlow) { f.Destination = w.sids[3] },
		"class":          func(_ *Measurement, f *MeasuredFlow) { f.TrafficClass = &zero },
		"label":          func(_ *Measurement, f *MeasuredFlow) { f.FlowLabel = &label },
		"narrower class": func(m *Measurement, f *MeasuredFlow) { o := *f; o.TrafficClass = &zero; m.Flows = append(m.Flows, o) },
		"narrower label": func(m *Measurement, f *MeasuredFlow) { o := *f; o.FlowLabel = &label; m.Flows = append(m.Flows, o) },
		"both": func(m *Measurement, f *MeasuredFlow) {
			o, p := *f, *f
			o.FlowLabel, p.TrafficClass = &label, &zero
			m.Flows = append(m.Flows, o, p)
		},
	} {
		m := base
		m.Flows = slices.Clone(base.Flows)
		change(&m, &m.Flows[0])
		s := m.Selections()[0]
		if other, dup := seen[s]; dup {
			t.Errorf("%s is like %s: %+v", name, other, s)
		}
		seen[s] = name
	}
}

// Flows that differ in their first segment alone show one list after it: what one takes from the
// other there it does not take at the ingress.
func TestPartlySharedLists(t *testing.T) {
	w := newWorld(1)
	zero := uint8(0)
	red := MeasuredFlow{Name: "red", Source: someone, Path: srv6.Path{Segments: []netip.Addr{w.sids[0], w.sids[2]}, Mode: srv6.ModeReduced}}
	blue := red
	blue.Name, blue.TrafficClass, blue.Path.Segments = "blue", &zero, []netip.Addr{w.sids[1], w.sids[2]}
	green := red
	green.Name, green.Path = "green", srv6.Path{Segments: []netip.Addr{w.sids[3]}}
	m := Measurement{Flows: []MeasuredFlow{red, blue, green}}
	for i, s := range m.Selections() {
		if (s.Takers == loss.Partial) != (i < 2) {
			t.Errorf("%s: %+v", m.Flows[i].Name, s)
		}
	}
}

// Many flows of one path take no long time.
func BenchmarkSelections(b *testing.B) {
	w := newWorld(1)
	for name, make := range map[string]func(i int) MeasuredFlow{
		"paths": func(i int) MeasuredFlow {
			return MeasuredFlow{Source: someone, Path: srv6.Path{Segments: []netip.Addr{w.sids[0],
				netip.AddrFrom16([16]byte{0xfc, 0, byte(i >> 8), byte(i), 15: 1})}}}
		},
		"labels and classes": func(i int) MeasuredFlow {
			f := MeasuredFlow{Source: someone, Path: srv6.Path{Segments: w.sids[:2]}}
			if class := uint8(i << 2); i < 16 {
				f.TrafficClass = &class
			} else {
				label := uint32(i)
				f.FlowLabel = &label
			}
			return f
		},
	} {
		b.Run(name, func(b *testing.B) {
			m := Measurement{}
			for i := range 1 << 16 {
				m.Flows = append(m.Flows, make(i))
			}
			for b.Loop() {
				m.Selections()
			}
		})
	}
}
