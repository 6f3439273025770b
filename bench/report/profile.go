// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// profiled is a part of a packet's way, before and after a decision made it
// cheaper. The decision has the times, in ns, or those of a whole packet with the
// part and of one without it.
type profiled struct {
	name          string
	decision      string // its file
	before, after times
	now           Reference // the part in recorded results; none where it is not measured alone
}

// times are those of a packet with a part, and of one without it, or of the part
// alone.
type times struct{ with, without float64 }

func (t times) part() float64 { return t.with - t.without }

// Decisions that made parts of a packet's way cheaper.
const (
	commonTraces  = "0018-common-traces-in-one-piece.md"
	postcardRings = "0019-postcard-rings.md"
	commonHeaders = "0021-common-headers.md"
)

// profile lists the parts in the order of the decisions.
func profile() []profiled {
	part := func(name string) Reference {
		return Reference{Benchmark: "parts", Variant: Dimensions{Treatment: name}}
	}
	alone := func(ns float64) times { return times{with: ns} }
	exported := func(name string) Reference {
		return Reference{Benchmark: "exporter", Variant: Dimensions{Treatment: name}}
	}
	asked := part("lookup: next hop asked from the kernel, beyond the cache")
	asked.Variant.By = ByKernel
	return []profiled{
		{"Hop-by-Hop header with one trace, ids written", commonTraces, alone(33), alone(14), part("trace: common header, namespace found, ids written")},
		{"next hop found in the cache", commonTraces, alone(19.5), alone(14.6), part("lookup: next hop found in the cache")},
		{"next hop asked from the kernel, beyond that", commonTraces, alone(155), alone(155), asked},
		{"one encapsulation, matched", commonTraces, alone(17.6), alone(17.0), part("match: one encapsulation, not selected")},
		{"header inserted, without making room", commonTraces, alone(18), alone(11), part("insert: all else of 24 bytes inline")},
		{"tunnel removed, for the stack, no record made", commonTraces, alone(38), alone(41), part("decapsulate: tunnel with a trace removed, no record made")},
		{"at tc egress, ids completed", commonTraces, alone(31), alone(14), part("at egress, complete: the way out's id")},
		{"at tc egress, header inserted, without making room", commonTraces, alone(17), alone(26), part("at egress, insert: all else of 24 bytes inline")},
		{"a postcard, at tc egress", postcardRings, alone(125), alone(93), Reference{}},
		{"a postcard read, encoded and sent, trace type 0x800000", postcardRings, alone(680), alone(306), exported("postcard, trace type 0x800000")},
		{"a trace in each of 9 namespaces", commonHeaders, times{289, 49}, times{199, 48}, part("traces: one in each of 9 namespaces")},
		{"tunnel removed, without the stack, no record made", commonHeaders, times{94, 49}, times{77, 48}, part("remove: tunnel with a trace, without the stack, no record made")},
		{"Direct Export in transit, not exported", commonHeaders, times{74, 49}, times{58, 48}, part("header: one Direct Export, not exported")},
		{"beyond that, added to its flow", commonHeaders, times{124, 74}, times{84, 58}, part("export: a Direct Export in transit, added to its flow")},
		{"instead, a postcard in its ring", commonHeaders, times{195, 74}, times{142, 58}, part("export: a Direct Export in transit, a postcard in its ring")},
	}
}

// Profiled lists the recorded figures that the profile shows.
func Profiled() (list []Reference) {
	for _, p := range profile() {
		if p.now.Benchmark != "" {
			list = append(list, p.now)
		}
	}
	return list
}

// profiledOn is the machine of the decisions' times.
const profiledOn = "Intel Xeon"

// nowOn is the title of the column with recorded values, which names their machines.
func nowOn(results []Result) string {
	title := "now"
	for _, r := range results {
		isShown := slices.ContainsFunc(Profiled(), func(shown Reference) bool { return shown.Benchmark == r.Name })
		if isShown && !strings.Contains(title, r.processor()) {
			title += ", " + r.processor()
		}
	}
	return title
}

// writeProfile writes the parts of a packet's way before and after they were made
// cheaper, and as they were measured last.
func writeProfile(b *strings.Builder, results []Result) {
	b.WriteString(`
## Profile: before and after

Parts of a packet's way through our programs, in ns with warm caches, before and after the
decisions that made them cheaper. Old and new programs took turns on one machine (` + profiledOn + `,
virtual, Linux 6.18); parts of decision 0021 are the differences of two of its packets. "Now" is
the newest recorded value of ` + "`parts`" + `, or of ` + "`exporter`" + ` for what an agent does; – stands where none is
recorded. Times of two machines cannot be compared: each column says of which one it is.
`)
	fmt.Fprintf(b, "\n| part | before, %s | after, %s | %s | decision |\n|---|---|---|---|---|\n", profiledOn, profiledOn, nowOn(results))
	for _, p := range profile() {
		number, _, _ := strings.Cut(p.decision, "-")
		fmt.Fprintf(b, "| %s | %s | %s | %s | [%s](decisions/%s) |\n", p.name, nanoseconds(p.before.part()), nanoseconds(p.after.part()), p.newest(results), number, p.decision)
	}
}

func nanoseconds(ns float64) string { return strconv.FormatFloat(Round(ns, 1), 'f', -1, 64) }

// newest is the recorded value.
func (p profiled) newest(results []Result) string {
	for _, r := range results {
		for _, point := range r.Points {
			if r.Name == p.now.Benchmark && point.Dimensions == p.now.Variant && point.NS != nil {
				return nanoseconds(*point.NS)
			}
		}
	}
	return none
}
