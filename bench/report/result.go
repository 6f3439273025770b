// SPDX-License-Identifier: Apache-2.0

// Package report holds the results of benchmarks, and makes tables, figures and
// docs/benchmarks.md from them. It measures nothing.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/problem"
)

// NewPoint is a variant's point at an x, without figures.
func NewPoint(d Dimensions, x float64) Point { return Point{Variant: d.String(), Dimensions: d, X: x} }

// Result is one run of a benchmark. Fields may be added, never changed.
type Result struct {
	Name     string  `json:"name"`
	Title    string  `json:"title,omitempty"`
	Machine  string  `json:"machine"`
	Kernel   string  `json:"kernel"`
	Baseline string  `json:"baseline"`
	Points   []Point `json:"points"`

	Time   instant.Time `json:"time"`
	Rounds int          `json:"rounds"`      // how often each variant and its baseline took turns
	Setups int          `json:"setups"`      // how often everything was raised anew
	Axis   string       `json:"axis"`        // what x is
	X      string       `json:"x,omitempty"` // short form of Axis; bytes when absent
	Notes  []string     `json:"notes,omitempty"`

	// Versions are those of waymark, with its commit, of Go, and of ip.
	Versions map[string]string `json:"versions,omitempty"`
}

// Read reads results from files.
func Read(files []string) (results []Result, err error) {
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var r Result
		if err = json.Unmarshal(content, &r); err == nil && r.Name == "" {
			err = errors.New("no benchmark is named")
		}
		if err != nil {
			return nil, problem.Wrap(
				fmt.Errorf("%s has no result: %w", name, err),
				"make one with: waymark-bench run NAME --json",
			)
		}
		results = append(results, r)
	}
	return results, nil
}

// WriteJSON writes a result with a line for each point, so that a difference of two is short.
func (r Result) WriteJSON(w io.Writer) error {
	points := r.Points
	r.Points = nil
	content, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for i, p := range points {
		line, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if i > 0 {
			lines.WriteByte(',')
		}
		fmt.Fprintf(&lines, "\n  %s", line)
	}
	const absent = `"points": null` // no string before it has it: quotes in strings are escaped
	content = bytes.Replace(content, []byte(absent), fmt.Appendf(nil, "\"points\": [%s\n ]", lines.Bytes()), 1)
	_, err = w.Write(append(content, '\n'))
	return err
}

// Point is one variant. It has one of three figures: NS is nanoseconds, per
// packet beyond the baseline's or to get ready; PPS is packets per second; Bytes
// is memory. Ratio compares the time, rate or memory with the baseline's.
type Point struct {
	Variant string  `json:"variant"` // the sentence for the dimensions
	X       float64 `json:"x"`

	Dimensions Dimensions `json:"dimensions"`

	NS    *float64 `json:"ns,omitempty"`
	PPS   *float64 `json:"pps,omitempty"`
	Bytes *float64 `json:"bytes,omitempty"`
	Ratio float64  `json:"ratio"`

	// Spread is the distance between the quartiles: of NS, or of Ratio; for a
	// variant that is its own baseline, of the rate as a fraction of its median.
	// A single round has none.
	Spread *float64 `json:"spread,omitempty"`
	// Reference is what the baseline took in the same run: ns or packets per second.
	Reference float64 `json:"reference"`
	// PlainRatio compares with plain packets of the same length that no program
	// sees; 0 without such a comparison.
	PlainRatio float64 `json:"plain_ratio,omitempty"`
	// BareRatio compares with a bare prototype of the same work in the same turns; 0
	// without one.
	BareRatio float64 `json:"bare_ratio,omitempty"`
	// Setups is the range of the set-ups' medians: of PlainRatio, or without it of
	// Ratio; nil with one set-up.
	Setups *Range `json:"setups,omitempty"`
	// Restore is how long restoring the frame's length took, already subtracted
	// from NS.
	Restore float64 `json:"restore_ns,omitempty"`
	// Instructions is how many instructions the kernel's verifier processed.
	Instructions uint32 `json:"verified_instructions,omitempty"`
	// Aim is the greatest NS or Bytes, or the least Ratio, that the project
	// wants.
	Aim float64 `json:"aim,omitempty"`
	// PlainAim is the least PlainRatio that the project wants.
	PlainAim float64 `json:"plain_aim,omitempty"`
	// BareAim is the least BareRatio that the project wants.
	BareAim float64 `json:"bare_aim,omitempty"`
	// Offered is how many packets per second were sent, where a rate is kept:
	// Reference is the rate to keep. 0: no rate is kept.
	Offered float64 `json:"offered,omitempty"`
	// Lossless says that the aim also wants every export to be sent, at the whole
	// rate.
	Lossless bool `json:"lossless,omitempty"`
	// Limit is what may keep the variant from its aim.
	Limit *Limit `json:"limit,omitempty"`
	// Exports is what happened to exports meanwhile; nil when none were made.
	Exports *Exports `json:"exports,omitempty"`
}

// Range is from the least to the greatest of some values.
type Range struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// Exports counts what happened to postcards in all rounds of a variant.
type Exports struct {
	Written    uint64 `json:"written"`    // into the rings
	Lost       uint64 `json:"lost"`       // found no room in the rings: their reader was too slow
	Suppressed uint64 `json:"suppressed"` // by export limits
	Dropped    uint64 `json:"dropped"`    // found no room in the exporter's queue
	// Processor is the time of reader and exporter for a record, in ns; 0 where it
	// was not measured.
	Processor float64 `json:"processor_ns,omitempty"`
}

// Add adds other counts; times of processors stay as they are.
func (e *Exports) Add(other Exports) {
	e.Written += other.Written
	e.Lost += other.Lost
	e.Suppressed += other.Suppressed
	e.Dropped += other.Dropped
}

// loss is the share of the postcards that certainly reached no collector.
func (e Exports) loss() float64 {
	if e.Written+e.Lost == 0 {
		return 0
	}
	return float64(e.Lost+e.Dropped) / float64(e.Written+e.Lost)
}

// complete reports whether all exports were sent.
func (e Exports) complete() bool { return e.Lost == 0 && e.Suppressed == 0 && e.Dropped == 0 }

// offeredSlack is the share of a rate that may be missing: on a virtual machine,
// the CPU that keeps it sometimes waits for others.
const offeredSlack = 0.01

// kept reports whether the rate was offered that was asked for.
func (p Point) kept() bool { return p.Offered >= (1-offeredSlack)*p.Reference }

// Met reports whether a point reaches its aims, as measured; a point without an aim
// does.
func (p Point) Met() bool { return p.metPlain() && p.metBare() && p.metAim() }

func (p Point) metPlain() bool { return p.PlainAim == 0 || p.PlainRatio >= p.PlainAim }

func (p Point) metBare() bool { return p.BareAim == 0 || p.BareRatio >= p.BareAim }

// metAim reports whether a point reaches its aim against the baseline.
func (p Point) metAim() bool {
	switch {
	case p.Aim != 0 && p.Lossless && (p.Exports == nil || !p.Exports.complete() || !p.kept()):
		return false
	case p.Aim == 0:
		return true
	case p.NS != nil:
		return *p.NS <= p.Aim
	case p.Bytes != nil:
		return *p.Bytes <= p.Aim
	}
	return p.Ratio >= p.Aim
}

// isBaseline reports whether others are compared with this point.
func (p Point) isBaseline() bool {
	if p.PPS != nil {
		return p.Ratio == 1 && *p.PPS == p.Reference
	}
	return p.NS != nil && p.Ratio == 1 && *p.NS == p.Reference
}

// Round rounds to a number of decimals: those that a measurement supports.
func Round(v float64, digits int) float64 {
	scale := math.Pow(10, float64(digits))
	return math.Round(v*scale) / scale
}
