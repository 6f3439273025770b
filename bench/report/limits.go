// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"regexp"
)

// Limit is what keeps a variant from its aim, as references to measured figures: rates for a
// rate, and times for a time.
type Limit struct {
	Why   string      `json:"why"`            // what sets the limit
	Floor Reference   `json:"floor,omitzero"` // packets that pay all of that, or all except Plus; none for rates that are kept
	Plus  []Reference `json:"plus,omitempty"` // times that come on top of the floor
	Ours  []Reference `json:"ours,omitempty"` // times of our programs beyond all that, caches warm
	Rest  string      `json:"rest,omitempty"` // what is beyond all that, where it is not measured
}

// Reference names a figure; without a benchmark, one of the same result, and
// without an x, at the same x.
type Reference struct {
	Benchmark string     `json:"benchmark,omitempty"`
	Variant   Dimensions `json:"variant"`
	X         float64    `json:"x,omitempty"`
}

// measured are the results that a reference may point to.
type measured []Result

// find finds the point of a reference, at the same x. Times that are not there at this x are
// found at any, because their frames have their own lengths. Results of other machines are
// skipped.
func (m measured) find(from Result, r Reference, x float64) (at Point, found bool) {
	if r.X != 0 {
		x = r.X
	}
	for _, other := range m {
		same := other.Name == r.Benchmark || r.Benchmark == "" && other.Name == from.Name
		if !same || !sameMachine(other, from) {
			continue
		}
		for _, p := range other.Points {
			switch {
			case p.Dimensions != r.Variant:
			case p.X == x:
				return p, true
			case p.NS != nil && !found:
				at, found = p, true
			}
		}
	}
	return at, found
}

// buildNumber is what the kernels of a provider add to version and flavour.
var buildNumber = regexp.MustCompile(`-v?[0-9]+$`)

// sameMachine reports whether times of two results may be added up: those of
// machines of one model, with kernels of one version and flavour. The number at the
// end counts builds of the same sources, and changes between two runs whenever a
// provider starts the machine anew. All before it counts: other versions and
// flavours, such as one with PREEMPT_RT, take other times.
func sameMachine(a, b Result) bool {
	return a.Machine == b.Machine && buildNumber.ReplaceAllString(a.Kernel, "") == buildNumber.ReplaceAllString(b.Kernel, "")
}

// sum adds up times; false when one was not measured.
func (m measured) sum(from Result, list []Reference) (ns float64, ok bool) {
	for _, each := range list {
		p, found := m.find(from, each, 0)
		if !found || p.NS == nil {
			return 0, false
		}
		ns += *p.NS
	}
	return ns, true
}

// unknown ends a sentence about an aim that was missed, where no limit was measured.
const unknown = ": not reached; nothing that was measured sets a limit."

// distances has a line for each variant among the points: a sentence for each x.
func (r Result) distances(missed []Point, m measured) (lines []string) {
	at := make(map[Dimensions]int)
	for _, p := range missed {
		if i, ok := at[p.Dimensions]; ok {
			lines[i] += fmt.Sprintf(" With %v %s, it ", p.X, r.xName()) + r.distance(p, p.Limit, m)
			continue
		}
		at[p.Dimensions] = len(lines)
		lines = append(lines, fmt.Sprintf("*%s* (%v %s) ", p.Variant, p.X, r.xName())+r.distance(p, p.Limit, m))
	}
	return lines
}

// distance says how far a point is from its aim and from the limit that may keep
// it from that: the rest of a sentence about it.
func (r Result) distance(p Point, l *Limit, m measured) string {
	if p.Lossless {
		return r.shortfall(p, l, m)
	}
	if p.PPS == nil {
		return r.distanceOfValue(p, l, m)
	}
	own := 1e9 / *p.PPS
	ratio := func(q Point) float64 { return q.Ratio }
	aim := p.Aim
	if p.PlainAim != 0 && p.PlainRatio < p.PlainAim {
		ratio, aim = func(q Point) float64 { return q.PlainRatio }, p.PlainAim
	}
	base := own * ratio(p)
	text := fmt.Sprintf("takes %.0f ns a packet where the aim allows %.0f", own, base/aim)
	if l == nil {
		return text + unknown
	}
	floor, ok := m.find(r, l.Floor, p.X)
	plus, measuredToo := m.sum(r, l.Plus)
	if !ok || !measuredToo || ratio(floor) <= 0 {
		return text + unknown
	}
	return text + l.words(own, base/ratio(floor)+plus, base/aim, r, m)
}

// distanceOfValue is distance for times and memory.
func (r Result) distanceOfValue(p Point, l *Limit, m measured) string {
	value, figure := p.NS, p.figure()
	switch {
	case value == nil:
		value = p.Bytes
	case *value < 1000:
		figure = fmt.Sprintf("%.1f ns", *value)
	}
	text := fmt.Sprintf("takes %s, %.1f%% more than the aim of %s", figure, 100*(*value/p.Aim-1), p.aimFigure())
	if l == nil || p.NS == nil {
		return text + unknown
	}
	floor, ok := m.find(r, l.Floor, p.X)
	plus, measuredToo := m.sum(r, l.Plus)
	if !ok || !measuredToo || floor.NS == nil {
		return text + unknown
	}
	return text + l.words(*value, *floor.NS+plus, p.Aim, r, m)
}

// words compare a time in ns with the limit's and the aim's. What lies within the aim
// limits nothing: the rest is then unexplained, apart from parts that are measured.
func (l *Limit) words(own, least, aim float64, r Result, m measured) string {
	beyond := max(own-least, 0)
	ours, measuredToo := m.sum(r, l.Ours)
	if measuredToo = measuredToo && len(l.Ours) > 0; !measuredToo {
		ours = 0
	}
	if least <= aim {
		text := fmt.Sprintf(": not reached; %s, makes it %.0f, which is within the aim and so is no limit", l.Why, least)
		if measuredToo {
			text += fmt.Sprintf("; ours takes %.0f ns more, our programs alone %.0f with warm caches%s", beyond, ours, m.largest(r, l.Ours))
		}
		text += fmt.Sprintf("; %.0f ns remain unexplained", max(beyond-ours, 0))
		if l.Rest != "" {
			text += "; they are not measured one by one: " + l.Rest
		}
		return text + "."
	}
	text := fmt.Sprintf(": %s, makes it %.0f, which alone is beyond the aim", l.Why, least)
	if beyond < 1 {
		return text + "; ours is at that limit."
	}
	text += fmt.Sprintf("; ours is %.0f ns from that limit", beyond)
	if measuredToo {
		text += fmt.Sprintf(", of which our programs take %.0f with warm caches", ours) + m.largest(r, l.Ours)
	}
	if l.Rest != "" {
		text += ": " + l.Rest
	}
	return text + "."
}

// largest names the largest of several parts.
func (m measured) largest(from Result, list []Reference) string {
	var most Point
	for _, each := range list {
		if p, ok := m.find(from, each, 0); ok && (most.NS == nil || *p.NS > *most.NS) {
			most = p
		}
	}
	if len(list) < 2 || most.NS == nil {
		return ""
	}
	return fmt.Sprintf(", the largest part: %s (%.0f)", most.Variant, *most.NS)
}

// shortfall says what is missing of exports at a rate that was kept, or to be kept,
// and what reader and exporter have time for.
func (r Result) shortfall(p Point, l *Limit, m measured) string {
	e := p.Exports
	if e == nil {
		return "exports nothing."
	}
	text := fmt.Sprintf("is offered %.3f of %.3f million packets a second", p.Offered/1e6, p.Reference/1e6)
	if !p.kept() {
		text += ", so that the rate was not reached"
	}
	text += fmt.Sprintf("; of %d postcards, %d found no room in their ring, %d none in the exporter's queue, and limits suppressed %d",
		e.Written+e.Lost+e.Suppressed, e.Lost, e.Dropped, e.Suppressed)
	if l == nil || e.Processor <= 0 {
		return text + "."
	}
	text += fmt.Sprintf(": %s takes a CPU %.0f ns for each", l.Why, e.Processor)
	if ns, ok := m.sum(r, l.Ours); ok && len(l.Ours) > 0 {
		text += fmt.Sprintf(", of which the exporter alone takes %.0f", ns)
	}
	return text + fmt.Sprintf("; a CPU has time for %.2f million a second.", 1e3/e.Processor)
}
