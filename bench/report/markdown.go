// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
)

const intro = `# Benchmarks

What Waymark costs, measured in one run of each benchmark on one machine, in network namespaces whose
source, nodes and sink share a CPU. Forwarded packets have 1236 bytes (SRv6: 78), and links one queue.
Ratios are easier to transfer to other machines than the figures.

`

const figure = `
![Rates of the kernel, of its own IOAM, and of fast forwarding with each treatment](benchmarks/summary.svg)
`

const repeat = `
[All benchmarks and more figures](benchmarks/results.md) · [missed aims](benchmarks/missed-aims.md) · [how they are measured](benchmarks/method.md)

## How to repeat

` + "```sh" + `
make bench                        # all benchmarks briefly, in less than ten minutes
make benchmarks                   # in full, about an hour and a half: writes bench/results and these pages
bin/waymark-bench run fast        # one of them, as a table
scripts/compare.sh COMMIT fast    # an older commit and this tree in turns
` + "```" + `

Run it as root on an otherwise idle machine. The pages show results of one machine and one commit: after
a change, record all of them again.
`

// Markdown is docs/benchmarks.md for the results: the few figures that a reader wants. It links to
// the Pages and Figures in benchmarks.
func Markdown(results []Result) []byte {
	var b strings.Builder
	b.WriteString(intro)
	if len(results) > 0 {
		r := results[0]
		fmt.Fprintf(&b, "Waymark %s on %s, %s, %s.\n\n", r.Versions["waymark"], r.processor(), r.hardware(), r.Kernel)
	}
	b.WriteString("| what | figure | compared with | benchmark |\n|---|---|---|---|\n")
	for _, s := range summary() {
		if r, p, ok := s.find(results); ok {
			fmt.Fprintf(&b, "| %s | %s | %s | `%s` |\n", s.what, p.short(), s.compared(p), r.Name)
		}
	}
	if _, ok := summaryFigure(results); ok {
		b.WriteString(figure)
	}
	b.WriteString(repeat)
	b.WriteString(generated)
	return []byte(b.String())
}

// processor is the machine's processor, without trade marks.
func (r Result) processor() string {
	name, _, _ := strings.Cut(r.Machine, ",")
	return strings.TrimSuffix(strings.ReplaceAll(name, "(R)", ""), " Processor")
}

// hardware is what the machine is besides its processor.
func (r Result) hardware() string {
	_, rest, _ := strings.Cut(r.Machine, ", ")
	return rest
}

// origin is what all results of a page have in common: the machine, and the programs.
func (r Result) origin() string {
	text := fmt.Sprintf("%s, %s", r.Machine, buildNumber.ReplaceAllString(r.Kernel, ""))
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		text += fmt.Sprintf("; %s %s", name, r.Versions[name])
	}
	return text
}

// SameOrigin reports whether two results may stand in one table: one machine measured both, with
// the same programs.
func (r Result) SameOrigin(other Result) bool { return r.origin() == other.origin() }

// OneOrigin returns an error unless one machine measured all results with the same programs.
func OneOrigin(results []Result) error {
	names := make(map[string][]string)
	for _, r := range results {
		names[r.origin()] = append(names[r.origin()], r.Name)
	}
	if len(names) < 2 {
		return nil
	}
	var list []string
	for _, origin := range slices.Sorted(maps.Keys(names)) {
		list = append(list, fmt.Sprintf("%s (%s)", strings.Join(names[origin], ", "), origin))
	}
	return problem.New(
		fmt.Sprintf("results of %d machines or commits cannot stand in one table: %s", len(names), strings.Join(list, "; ")),
		"record all of them with: make benchmarks, or name the files of one",
	)
}

// aims counts aims, returns the points that missed theirs, and counts those of which
// the run cannot tell.
func (r Result) aims() (n int, beyond []Point, undecided int) {
	for _, p := range r.Points {
		if p.Aim == 0 && p.PlainAim == 0 && p.BareAim == 0 {
			continue
		}
		n++
		switch r.verdict(p) {
		case missed:
			beyond = append(beyond, p)
		case inNoise:
			undecided++
		}
	}
	return n, beyond, undecided
}
