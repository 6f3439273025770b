// SPDX-License-Identifier: Apache-2.0

package harness

import "github.com/waymark-net/waymark/bench/report"

// point summarizes what was measured of a variant: medians over the rounds.
func (s *series) point(v *Variant) report.Point {
	against := s.against
	if v.Against == nil {
		against = s.own
	}
	ratios, added := make([]float64, len(s.own)), make([]float64, len(s.own))
	for i, own := range s.own {
		ratios[i], added[i] = own/against[i], own-against[i]
	}
	p := report.NewPoint(v.Is, v.X)
	p.Aim, p.PlainAim, p.Ratio, p.Reference = v.Aim, v.PlainAim, report.Round(Median(ratios), 4), report.Round(Median(against), 0)
	if v.Aim != 0 || v.PlainAim != 0 {
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
	if v.Plain == nil {
		if base := v.Against; base == nil || len(base.Line) == 0 || base.Line[0].Config == nil {
			p.PlainRatio = p.Ratio
		}
		return p
	}
	for i, own := range s.own {
		ratios[i] = own / s.plain[i]
	}
	p.PlainRatio = report.Round(Median(ratios), 4)
	return p
}

func Figure(v float64, digits int) *float64 {
	v = report.Round(v, digits)
	return &v
}
