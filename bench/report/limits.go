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

// shortfall says how far a point is from its aim, in ns, and from the floor that may keep it from that.
type shortfall struct {
	own, aim           float64
	floor, unexplained *float64 // nil where they were not measured
}

// shortfallOf is that of a rate or a time; false for other figures.
func (r Result) shortfallOf(p Point, m measured) (shortfall, bool) {
	switch {
	case p.Lossless, p.PPS == nil && p.NS == nil:
		return shortfall{}, false
	case p.PPS == nil:
		s := shortfall{own: *p.NS, aim: p.Aim}
		s.above(r, p, m, func(floor Point) (float64, bool) {
			if floor.NS == nil {
				return 0, false
			}
			return *floor.NS, true
		})
		return s, true
	}
	ratio, aim := func(q Point) float64 { return q.Ratio }, p.Aim
	if p.PlainAim != 0 && p.PlainRatio < p.PlainAim {
		ratio, aim = func(q Point) float64 { return q.PlainRatio }, p.PlainAim
	} else if !p.metBare() {
		bare := 1e9 / *p.PPS * p.BareRatio
		return shortfall{own: 1e9 / *p.PPS, aim: bare / p.BareAim, floor: &bare}, true
	}
	own := 1e9 / *p.PPS
	base := own * ratio(p)
	s := shortfall{own: own, aim: base / aim}
	s.above(r, p, m, func(floor Point) (float64, bool) { return base / ratio(floor), ratio(floor) > 0 })
	return s, true
}

// above finds the floor of a shortfall and what is unexplained above it: less the time of our programs,
// where that is measured.
func (s *shortfall) above(r Result, p Point, m measured, took func(floor Point) (float64, bool)) {
	if p.Limit == nil {
		return
	}
	floor, found := m.find(r, p.Limit.Floor, p.X)
	plus, measuredToo := m.sum(r, p.Limit.Plus)
	if !found || !measuredToo {
		return
	}
	ns, ok := took(floor)
	if !ok {
		return
	}
	least := ns + plus
	ours, ok := m.sum(r, p.Limit.Ours)
	if !ok {
		ours = 0
	}
	rest := max(s.own-least-ours, 0)
	s.floor, s.unexplained = &least, &rest
}

// missedCells are what was measured of a point that may have missed its aim, the aim, the floor,
// and what is unexplained.
func (r Result) missedCells(p Point, m measured) [4]string {
	if s, ok := r.shortfallOf(p, m); ok {
		cells := [4]string{nsText(s.own), nsText(s.aim), none, none}
		if s.floor != nil {
			cells[2] = nsText(*s.floor)
		}
		if s.unexplained != nil {
			cells[3] = nsText(*s.unexplained)
		}
		return cells
	}
	if p.Lossless {
		sent := fmt.Sprintf("%.3f Mpps, %s lost", p.Offered/1e6, postcardsLost(p))
		return [4]string{sent, fmt.Sprintf("%.3f Mpps, none lost", p.Reference/1e6), none, none}
	}
	return [4]string{p.figure(), p.aimFigure(), none, none}
}

func nsText(ns float64) string {
	if ns < 100 {
		return fmt.Sprintf("%.1f ns", ns)
	}
	return timeText(ns)
}
