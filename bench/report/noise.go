// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"strings"
)

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
	case !p.metPlain():
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
	p.PlainAim = 0
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

// writeUndecided lists the aims that lie within the noise, a line for each result.
func writeUndecided(b *strings.Builder, results []Result) {
	begun := false
	for _, r := range results {
		var list []string
		for _, p := range r.Points {
			if r.verdict(p) != inNoise {
				continue
			}
			text := fmt.Sprintf("*%s* (%v %s): %s, aim %s, noise %.1f%% between rounds", p.Variant, p.X, r.xName(), percent(p.Ratio), lossText(p.Aim), 100*p.ownNoise())
			if noise := r.lineNoise(p); noise > 0 {
				text += fmt.Sprintf(" and %.1f%% between lines", 100*noise)
			}
			list = append(list, text)
		}
		if len(list) == 0 {
			continue
		}
		if !begun {
			b.WriteString(`
## Aims within noise

These aims allow less loss than what differs between rounds of the run (the distance between the
quartiles), or between two lines with the same node, where the run has a twin of the baseline. The
measured ratio is no further from the aim than that, so the run cannot tell whether it is reached.

`)
			begun = true
		}
		fmt.Fprintf(b, "- %s: %s.\n", r.Name, strings.Join(list, "; "))
	}
}
