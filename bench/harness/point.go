// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"slices"

	"github.com/waymark-net/waymark/bench/report"
)

// point summarizes what was measured of a variant: medians over the rounds.
func (s *series) point(v *Variant) report.Point {
	against := s.against
	if v.Against == nil {
		against = s.own
	}
	ratios, added := s.ratiosTo(against), make([]float64, len(s.own))
	for i, own := range s.own {
		added[i] = own - against[i]
	}
	p := report.NewPoint(v.Is, v.X)
	p.Aim, p.PlainAim, p.Ratio, p.Reference = v.Aim, v.PlainAim, report.Round(Median(ratios), 4), report.Round(Median(against), 0)
	if v.Aim != 0 || v.PlainAim != 0 || v.BareAim != 0 {
		p.Limit = v.Limit
	}
	if s.exports != (report.Exports{}) {
		p.Exports = &s.exports
	}
	relative := make([]float64, len(s.own))
	for i, own := range s.own {
		relative[i] = own / Median(s.own)
	}
	switch {
	case v.Timed && v.Against == nil:
		p.NS, p.Spread = Figure(Median(s.own), 0), Spread(s.own, 1)
	case v.Timed:
		p.NS, p.Spread = Figure(Median(added), 1), Spread(added, 1)
	case v.Against == nil:
		p.PPS, p.Spread = Figure(Median(s.own), 0), Spread(relative, 4)
	default:
		p.PPS, p.Spread = Figure(Median(s.own), 0), Spread(ratios, 4)
	}
	if s.bare != nil {
		p.BareRatio, p.BareAim = report.Round(Median(s.ratiosTo(s.bare)), 4), v.BareAim
	}
	judged := ratios
	if v.Plain != nil {
		judged = s.ratiosTo(s.plain)
		p.PlainRatio = report.Round(Median(judged), 4)
	} else if base := v.Against; base == nil || len(base.Line) == 0 || base.Line[0].Config == nil {
		p.PlainRatio = p.Ratio
	}
	if v.Against != nil {
		p.Setups = s.medians(judged)
	}
	return p
}

// ratiosTo compares each round's value with that of another variant.
func (s *series) ratiosTo(other []float64) []float64 {
	ratios := make([]float64, len(s.own))
	for i, own := range s.own {
		ratios[i] = own / other[i]
	}
	return ratios
}

// medians is the range of the set-ups' medians; nil: there was one set-up.
func (s *series) medians(values []float64) *report.Range {
	if len(s.setups) == 0 {
		return nil
	}
	var medians []float64
	from := 0
	for _, until := range append(slices.Clone(s.setups), len(values)) {
		medians = append(medians, report.Round(Median(values[from:until]), 4))
		from = until
	}
	return &report.Range{Least: slices.Min(medians), Most: slices.Max(medians)}
}

func Figure(v float64, digits int) *float64 {
	v = report.Round(v, digits)
	return &v
}
