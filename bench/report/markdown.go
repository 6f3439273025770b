// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const intro = `# Benchmarks

What the data plane costs on the machine named below. Every figure is a comparison
within one run: a variant and its baseline take turns in alternating order, and the
figures are medians. Absolute figures hold for one machine only; ratios are easier to
transfer: [another machine](benchmarks/other-machines.md) has some of them, too.
[The method](benchmarks/method.md) has its own page. Every benchmark has a figure and
a JSON file with all measured values; this page is the summary. Decisions
[0018](decisions/0018-common-traces-in-one-piece.md),
[0019](decisions/0019-postcard-rings.md) and
[0021](decisions/0021-common-headers.md) say what
[the profiles before and after them](#profile-before-and-after) showed.

## How to repeat

` + "```sh" + `
make bench                        # all benchmarks briefly, in less than ten minutes
make benchmarks                   # in full, about an hour and a half: writes bench/results and this page
make benchmarks NAMES=frequency   # the same, with only one benchmark measured again
scripts/compare.sh COMMIT fast    # an older commit and this tree in turns
bin/waymark-bench run frequency --json --plot frequency.svg
` + "```" + `

` + "`make benchmarks`" + ` continues after a benchmark that fails, and writes the finished
ones when it is interrupted.

Run it as root on an otherwise idle machine. ` + "`--duration`" + ` and ` + "`--rounds`" + ` set how long
and how often to measure. ` + "`--json`" + ` prints every figure with machine, kernel, versions
and commit.

## The benchmarks

An aim is a limit that the project has set itself. Not every benchmark has one.

| name | what it measures | all values | rounds | aims met |
|---|---|---|---|---|
`

// Markdown is docs/benchmarks.md for the results, in their order. It links to the
// figures that Plot draws, in benchmarks/NAME.svg, and to the Pages.
func Markdown(results []Result, comparisons ...BeforeAfter) []byte {
	var b strings.Builder
	b.WriteString(intro)
	for _, r := range results {
		aims, beyond, undecided := r.aims()
		reached := none
		if aims > 0 {
			reached = fmt.Sprintf("%d of %d", aims-len(beyond)-undecided, aims)
		}
		if undecided > 0 {
			reached += fmt.Sprintf(", %d within noise", undecided)
		}
		fmt.Fprintf(&b, "| `%s` | %s | [figure](benchmarks/%s.svg), [JSON](../bench/results/%s.json) | %d | %s |\n", r.Name, r.Title, r.Name, r.Name, r.Rounds, reached)
	}
	writeMachines(&b, results)
	writeHeadlines(&b, results)
	writePrototype(&b, results)
	for _, r := range results {
		r.prices(&b)
	}
	writeProfile(&b, results)
	writeComparisons(&b, comparisons)
	b.WriteString("\n[Aims that were missed, what sets the limit, and aims within noise](benchmarks/missed-aims.md).\n")
	b.WriteString(generated)
	return []byte(b.String())
}

// writeMachines writes where and when results were measured.
func writeMachines(b *strings.Builder, results []Result) {
	names := make(map[string][]string)
	var order []string
	for _, r := range results {
		where := fmt.Sprintf("%s, %s", r.Machine, r.Kernel)
		for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
			where += fmt.Sprintf("; %s %s", name, r.Versions[name])
		}
		if names[where] == nil {
			order = append(order, where)
		}
		names[where] = append(names[where], fmt.Sprintf("%s (%s)", r.Name, r.Time.Format("2006-01-02 15:04")))
	}
	for _, where := range order {
		fmt.Fprintf(b, "\nMeasured on %s: %s.\n", where, strings.Join(names[where], ", "))
	}
}

// comparesWithLess lists the results whose fast forwarding is compared with a kernel that
// was not measured with one queue.
func comparesWithLess(results []Result) (names []string) {
	for _, r := range results {
		isFast := func(p Point) bool {
			return p.Dimensions.Queues != 1 && (p.Dimensions.Way == WayFast || strings.HasPrefix(p.Dimensions.Treatment, "fast "))
		}
		if r.any(isFast) && !r.any(func(p Point) bool { return p.Dimensions.By == ByKernel && p.Dimensions.Queues == 1 }) {
			names = append(names, r.Name)
		}
	}
	return names
}

// writeHeadlines writes a few points of each result.
func writeHeadlines(b *strings.Builder, results []Result) {
	b.WriteString(`
## Key figures

"Against the baseline" compares with the baseline that the benchmark's JSON names:
usually the kernel's forwarding of the same packets without programs. "Against plain
packets" compares with plain packets of the same length. Times are the additional time
of a packet, or the duration of an operation. Figures of two machines cannot be compared.
Links have a queue for each CPU unless the variant says one: the kernel then forwards more
slowly. "Against plain packets", fast forwarding compares with the faster of the kernel's two`)
	if list := comparesWithLess(results); len(list) > 0 {
		fmt.Fprintf(b, "; only\nthe benchmarks %s compare with the kernel on a queue for each CPU, which is less", strings.Join(list, ", "))
	}
	b.WriteString(`.

| benchmark | variant | x | figure | against the baseline | against plain packets | machine |
|---|---|---|---|---|---|---|
`)
	for _, h := range headlines() {
		for _, r := range results {
			for _, p := range r.Points {
				if r.Name == h.benchmark && p.Dimensions == h.variant && p.X == h.x {
					fmt.Fprintf(b, "| %s | %s | %s: %s | %s | %s |\n", r.Name, p.Variant, r.xName(), strconv.FormatFloat(p.X, 'g', -1, 64), p.summary(), r.processor())
				}
			}
		}
	}
}

// processor is the machine's processor, without trade marks.
func (r Result) processor() string {
	name, _, _ := strings.Cut(r.Machine, ",")
	return strings.TrimSuffix(strings.ReplaceAll(name, "(R)", ""), " Processor")
}

// summary is a point's figure and ratios as table cells.
func (p Point) summary() string {
	plain := none
	switch {
	case p.PPS != nil:
		if p.PlainRatio != 0 && p.PlainRatio != p.Ratio {
			plain = percent(p.PlainRatio)
		}
		return fmt.Sprintf("%.3f Mpps | %s | %s", *p.PPS/1e6, percent(p.Ratio), plain)
	case p.NS != nil && *p.NS < 1000:
		return fmt.Sprintf("%.1f ns | %.2f times | %s", *p.NS, p.Ratio, plain)
	}
	return fmt.Sprintf("%s | %.2f times | %s", p.figure(), p.Ratio, plain)
}

// aims counts aims, returns the points that missed theirs, and counts those of which
// the run cannot tell.
func (r Result) aims() (n int, beyond []Point, undecided int) {
	for _, p := range r.Points {
		if p.Aim == 0 && p.PlainAim == 0 {
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

// prices writes the kernel's share of a loss, and the share of our programs
// before anything is exported, with the option in every packet.
func (r Result) prices(b *strings.Builder) {
	for _, p := range r.Points {
		if p.Dimensions.Comparison == AgainstKernel && p.X == 100 && p.Dimensions.By == ByKernel {
			fmt.Fprintf(b, "\n%s, %d bytes, against the kernel's plain forwarding, without Direct Export in the configuration:\n", r.Name, p.Dimensions.Size)
			for _, other := range r.Points {
				if d := other.Dimensions; d.Comparison == AgainstKernel && d.Size == p.Dimensions.Size && other.X == 100 {
					fmt.Fprintf(b, "- %s: %s\n", d.name(), percent(other.Ratio))
				}
			}
		}
	}
}
