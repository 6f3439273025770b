// SPDX-License-Identifier: Apache-2.0

package report

import "math"

// verdict says whether a point reaches its aims.
type verdict string

const (
	met     verdict = "met"
	missed  verdict = "missed"
	inNoise verdict = "within noise" // the run cannot tell
)

// verdict is that of all of a point's aims; a point without an aim meets it.
func (r Result) verdict(p Point) verdict {
	switch {
	case !p.metPlain(), !p.metBare():
		return missed
	case r.cannotTell(p):
		return inNoise
	case p.Met():
		return met
	}
	return missed
}

// verdictOnAim is that of the aim against the baseline alone.
func (r Result) verdictOnAim(p Point) verdict {
	p.PlainAim, p.BareAim = 0, 0
	return r.verdict(p)
}

// mostNoise is the noise beyond which a run is no excuse for a missed aim: it is to be
// recorded again.
const mostNoise = 0.1

// cannotTell reports whether the loss that an aim allows is smaller than the noise of
// the run, and the measured one is no further from it than that.
func (r Result) cannotTell(p Point) bool {
	if p.Aim == 0 || p.PPS == nil || p.Lossless {
		return false
	}
	noise := max(p.ownNoise(), r.lineNoise(p))
	return noise <= mostNoise && noise > math.Abs(1-p.Aim) && math.Abs(p.Ratio-p.Aim) <= noise
}

// ownNoise is the distance between the quartiles of the rounds.
func (p Point) ownNoise() float64 {
	if p.Spread == nil {
		return 0
	}
	return *p.Spread
}

// lineNoise is how much a twin of the point's baseline differs from it: the same node
// and packets, on another line. 0 where there is none.
func (r Result) lineNoise(p Point) (noise float64) {
	for _, other := range r.Points {
		d := other.Dimensions
		if d.By == ByTwin && other.X == p.X && d.Size == p.Dimensions.Size && d.Way == p.Dimensions.Way {
			noise = max(noise, math.Abs(1-other.Ratio))
		}
	}
	return noise
}
