// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// limit is what keeps a variant from its aim, in terms of what was measured.
type limit struct {
	why   string      // what sets it
	floor reference   // packets at the same x that meet all of that, or that and what is in plus
	plus  []reference // times that come on top of the floor
	ours  []reference // times of our programs beyond all that, caches warm
}

// reference names a figure; without a benchmark, one of the same result, and
// without an x, at the same x.
type reference struct {
	benchmark, variant string
	x                  float64
}

// figuresOf are figures of one benchmark.
func figuresOf(benchmark string, variants ...string) (list []reference) {
	for _, variant := range variants {
		list = append(list, reference{benchmark: benchmark, variant: variant})
	}
	return list
}

// measured are results that a reference may lead to.
type measured []Result

// find is the point of a reference: at the x, but for times, whose frames have
// lengths of their own. Results of other machines say nothing here.
func (m measured) find(from Result, r reference, x float64) (Point, bool) {
	if r.x != 0 {
		x = r.x
	}
	for _, other := range m {
		same := other.Name == r.benchmark || r.benchmark == "" && other.Name == from.Name
		if !same || other.Machine != from.Machine || other.Kernel != from.Kernel {
			continue
		}
		for _, p := range other.Points {
			if p.Variant == r.variant && (p.X == x || p.NS != nil) {
				return p, true
			}
		}
	}
	return Point{}, false
}

// sum adds times up; false when one was not measured.
func (m measured) sum(from Result, list []reference) (ns float64, ok bool) {
	for _, each := range list {
		p, found := m.find(from, each, 0)
		if !found || p.NS == nil {
			return 0, false
		}
		ns += *p.NS
	}
	return ns, true
}

// limits are those of the benchmark's variants, as its table has them.
func (r Result) limits() map[[2]any]*limit {
	list := make(map[[2]any]*limit)
	b, err := Find(r.Name)
	if err != nil || b.make == nil {
		return list
	}
	for _, v := range b.make().variants {
		l := v.limit
		if l == nil && v.exports != model.ExportNone {
			l = exportLimit(v.name)
		}
		list[[2]any{v.name, v.x}] = l
	}
	return list
}

// exportLimit is for nodes that export: with nobody to export for, they do all
// the rest.
func exportLimit(name string) *limit {
	for _, w := range []exportWay{everyRead, everyExported, aggregated, sampled} {
		if rest, ok := strings.CutPrefix(name, w.name); ok {
			return &limit{why: "the option itself, with nobody to export for", floor: reference{variant: everyUnread.name + rest}}
		}
	}
	return nil
}

// distance says in a sentence how far a point is from its aim, and from the
// limit that keeps it from there.
func (r Result) distance(p Point, l *limit, m measured) string {
	name := fmt.Sprintf("*%s* (%v %s)", p.Variant, p.X, r.xName())
	if p.PPS == nil {
		value, figure := p.NS, p.figure()
		switch {
		case value == nil:
			value = p.Bytes
		case *value < 1000:
			figure = fmt.Sprintf("%.1f ns", *value)
		}
		return fmt.Sprintf("%s takes %s, %.1f%% more than the aim of %s.", name, figure, 100*(*value/p.Aim-1), p.aimFigure())
	}
	own := 1e9 / *p.PPS
	ratio := func(q Point) float64 { return q.Ratio }
	aim := p.Aim
	if p.PlainAim != 0 && p.PlainRatio < p.PlainAim {
		ratio, aim = func(q Point) float64 { return q.PlainRatio }, p.PlainAim
	}
	base := own * ratio(p)
	text := fmt.Sprintf("%s takes %.0f ns a packet where the aim allows %.0f", name, own, base/aim)
	if l == nil {
		return text + "."
	}
	floor, ok := m.find(r, l.floor, p.X)
	plus, measuredToo := m.sum(r, l.plus)
	if !ok || !measuredToo || ratio(floor) <= 0 {
		return text + "."
	}
	least := base/ratio(floor) + plus
	within := "which is within the aim"
	if least > base/aim {
		within = "which alone is beyond the aim"
	}
	text += fmt.Sprintf(": %s, makes it %.0f, %s", l.why, least, within)
	if own-least < 1 {
		return text + "; ours is at that limit."
	}
	text += fmt.Sprintf("; ours is %.0f ns from that limit", own-least)
	if ns, ok := m.sum(r, l.ours); ok && len(l.ours) > 0 {
		text += fmt.Sprintf(", of which our programs take %.0f when all they touch is in the caches", ns)
	}
	return text + "."
}

// With programs that do nothing where ours would be, a packet takes what the
// kernel takes for its hooks.
const (
	whyHooks     = "what the kernel takes for its hooks, with programs that do nothing in them"
	whyDeparture = "what the kernel takes for its hook at egress, with a program that does nothing in it"
)

func alone(mode datapath.AttachMode, packets string) reference {
	return reference{benchmark: "forwarding", variant: fmt.Sprintf("%s at %s, %s", hooksAlone, mode, packets)}
}

// idleLimit is for programs that pass plain packets.
func idleLimit(mode datapath.AttachMode) *limit {
	l := &limit{why: whyHooks, floor: alone(mode, "plain packets")}
	if mode == datapath.AttachXDP {
		l.ours = figuresOf("parts", partParse, partEgressParse)
	}
	return l
}

// aloneAtDeparture is a program that does nothing where packets leave.
var aloneAtDeparture = reference{benchmark: "forwarding", variant: hooksAlone + atDeparture + ", plain packets"}

// registeredLimit is for nodes that would encapsulate other packets.
func registeredLimit(nodes int) *limit {
	l := &limit{why: whyDeparture, floor: aloneAtDeparture, ours: figuresOf("parts", partEgressParse)}
	if nodes > 1 {
		l.why += fmt.Sprintf(" (as with one node and %d bytes)", sizes[1])
		l.floor.x, l.ours = float64(sizes[1]), nil
	}
	return l
}

// namespacesLimit is for 9 traces, added to plain frames of a size.
func namespacesLimit(outcome model.Outcome, size int) *limit {
	const nine = ", 9 options of type 0xc00000"
	var l *limit
	switch outcome {
	case model.OutcomeTraceFilled:
		l = &limit{why: whyHooks, floor: alone(datapath.AttachXDP, "ids")}
		l.ours = figuresOf("cost", "xdp ingress: trace_filled"+nine, "tc egress: trace_filled"+nine)
	case model.OutcomeEncapTunneled:
		l = encapsulationLimit("encap_tunneled" + nine)
	default:
		l = decapsulationLimit(true)
		l.ours = figuresOf("cost", "xdp ingress: tunnel_decapsulated"+nine+", with a record")
	}
	l.floor.x = float64(size)
	return l
}

// transitLimit is for traces with ids, or with timestamps, too.
func transitLimit(mode datapath.AttachMode, timed bool) *limit {
	l := &limit{why: whyHooks, floor: alone(mode, "ids")}
	switch {
	case mode == datapath.AttachXDP:
		l.ours = figuresOf("parts", partParse, partHeader, partFill, partEgressParse, partComplete)
	case timed:
		l.ours = figuresOf("cost", "tc ingress: trace_filled, with timestamps, type 0xf00000", "tc egress: trace_filled, with timestamps, type 0xf00000")
		return l
	default:
		l.ours = figuresOf("cost", "tc ingress: trace_filled, node and interface ids, type 0xc00000", "tc egress: trace_filled, node and interface ids, type 0xc00000")
	}
	if timed {
		l.readClock()
	}
	return l
}

// readClock is for packets that take the time.
func (l *limit) readClock() {
	l.why += ", and a reading of the clock (`bpf_ktime_get_tai_ns`)"
	l.plus = figuresOf("parts", partClock)
}

// encapsulationLimit is for an outcome at egress.
func encapsulationLimit(outcome string) *limit {
	return &limit{
		why:   whyDeparture + ", and the helper `bpf_skb_adjust_room`",
		floor: aloneAtDeparture,
		plus:  figuresOf("parts", partEgressGrow), ours: figuresOf("cost", "tc egress: "+outcome),
	}
}

// decapsulationLimit is with a record for a reader, or without.
func decapsulationLimit(read bool) *limit {
	l := &limit{why: whyHooks, floor: alone(datapath.AttachXDP, "tunnelled with a trace"), ours: figuresOf("parts", partDecapsulate)}
	if read {
		l.why += ", and the record, without its reader"
		l.plus = figuresOf("parts", partRecord)
	}
	return l
}

// fastLimit is for packets whose next hop is in the cache.
func fastLimit(sink string, outcome model.Outcome, timed bool) *limit {
	l := &limit{why: "forwarding alone, of a packet without IOAM", floor: reference{variant: "fast forwarding, plain packets" + sink}}
	switch outcome {
	case model.OutcomeTraceFilled:
		l.ours = figuresOf("parts", partHeader, partFill)
	case model.OutcomeEncapInserted, model.OutcomeEncapTunneled:
		l.ours = figuresOf("parts", partGrow, partInsert)
	default:
		l.ours = figuresOf("parts", partDecapsulate)
	}
	if timed {
		l.readClock()
	}
	return l
}

// askingLimit is for packets whose next hop the kernel is asked for.
func askingLimit(sink string) *limit {
	return &limit{
		why:   "forwarding alone, of a packet without IOAM and with the helper `bpf_fib_lookup`",
		floor: reference{variant: "fast forwarding, plain packets" + asking + sink},
	}
}
