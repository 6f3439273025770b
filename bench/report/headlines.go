// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
)

// headline is a point that a page shows for a benchmark.
type headline struct {
	benchmark string
	variant   Dimensions
	x         float64
}

// find finds a headline's point; false while its benchmark has no result.
func (h headline) find(results []Result) (Result, Point, bool) {
	for _, r := range results {
		for _, p := range r.Points {
			if r.Name == h.benchmark && p.Dimensions == h.variant && p.X == h.x {
				return r, p, true
			}
		}
	}
	return Result{}, Point{}, false
}

// inSummary is a headline of docs/benchmarks.md, in a reader's words.
type inSummary struct {
	headline
	what, with string // with: what it is compared with
}

// compared is a point's ratio to what it is compared with.
func (s inSummary) compared(p Point) string {
	ratio := p.Ratio
	if p.PlainRatio != 0 {
		ratio = p.PlainRatio
	}
	switch {
	case p.PPS == nil:
		return s.with
	case ratio >= 1.5:
		return fmt.Sprintf("%.1f times %s", ratio, s.with)
	}
	return percent(ratio) + " against " + s.with
}

const longBytes = 1236

// fastest is a variant of fast forwarding with the least that others add: one queue, and packets
// that end in XDP.
func fastest(treatment, format string) Dimensions {
	return Dimensions{Way: WayFast, Treatment: treatment, Format: format, Sink: "XDP", Queues: 1}
}

func segmented(treatment, format, hook string, way Way) Dimensions {
	return Dimensions{Treatment: treatment, Format: format, Hook: hook, Way: way, Queues: 1, Size: 78}
}

// summary are the figures of docs/benchmarks.md, at most eight.
func summary() []inSummary {
	const plain, srv6 = "the kernel forwarding plain packets", "the kernel's SRv6, which measures nothing"
	return []inSummary{
		{headline{"forwarding", Dimensions{Treatment: "kernel's own IOAM transit", By: ByKernelIOAM, Format: "ids", Queues: 1}, longBytes},
			"the kernel's own IOAM: node and interface ids in every packet", plain},
		{headline{"forwarding", Dimensions{Treatment: "our transit", Hook: "xdp", Format: "ids", Queues: 1}, longBytes},
			"Waymark through the kernel's stack: the same", plain},
		{headline{"fast", fastest("transit", "ids"), longBytes}, "Waymark with `forwarding: fast`: the same", plain},
		{headline{"fast", fastest("encapsulation in a tunnel", "ids"), longBytes}, "fast: a tunnel and a trace added to every packet", plain},
		{headline{"fast", fastest("Direct Export, transit", "aggregate"), longBytes}, "fast: Direct Export of every packet, by flow", plain},
		{headline{"srv6-fast", segmented("our counting and colouring", "End, flows by segments", "", WayFast), 1000},
			"fast: End of SRv6, with the loss of 1000 flows measured", srv6},
		{headline{"cost", Dimensions{Hook: "xdp ingress", Outcome: "trace_filled", Format: "node and interface ids, type 0xc00000"}, 78},
			"time that writing the ids adds to a packet in XDP", "a packet that is left alone"},
		{headline{"footprint", Dimensions{Treatment: "agent: resident memory, idle"}, 1}, "memory of an idle agent", none},
	}
}

// Shown lists the points that the pages show.
func Shown() (list []Reference) {
	shown := headlines()
	for _, s := range summary() {
		shown = append(shown, s.headline)
	}
	for _, d := range inFigure() {
		shown = append(shown, headline{"fast", d, longBytes})
	}
	for _, h := range shown {
		list = append(list, Reference{Benchmark: h.benchmark, Variant: h.variant, X: h.x})
	}
	return list
}

// inFigure are the bars in the figure of docs/benchmarks.md.
func inFigure() []Dimensions {
	plain, kernels := fastest("kernel forwarding", "plain packets"), fastest("the kernel's own IOAM transit", "ids")
	plain.Way, plain.By = "", ByKernel
	kernels.Way, kernels.By = "", ByKernelIOAM
	return []Dimensions{
		plain, kernels, fastest("plain packets", ""), fastest("transit", "ids"), fastest("encapsulation inline", "ids"),
		fastest("encapsulation in a tunnel", "ids"), fastest("decapsulation", "no reader of records"),
		fastest("Direct Export, transit", "aggregate"),
	}
}

// summaryFigure is what the figure of docs/benchmarks.md shows: fast forwarding next to the kernel,
// all against its plain packets.
func summaryFigure(results []Result) (Result, bool) {
	i := slices.IndexFunc(results, func(r Result) bool { return r.Name == "fast" })
	if i < 0 {
		return Result{}, false
	}
	figure := results[i]
	figure.Title, figure.Points = "what a node forwards, against the kernel's plain forwarding", nil
	figure.Baseline = "the kernel forwarding plain packets of the same length; links have one queue, and packets end in XDP"
	for _, d := range inFigure() {
		if _, p, ok := (headline{"fast", d, longBytes}).find(results); ok {
			p.Ratio, p.Dimensions.Sink, p.Dimensions.Queues = p.PlainRatio, "", 0
			figure.Points = append(figure.Points, p)
		}
	}
	return figure, len(figure.Points) > 0
}

// headlines are the points in docs/benchmarks/results.md: what readers ask first. All others are
// in the results.
func headlines() []headline {
	long := func(d Dimensions) Dimensions { d.Size = longBytes; return d }
	export := func(treatment string, way Way) Dimensions {
		return Dimensions{Treatment: treatment, Way: way, Size: 1500}
	}
	list := []headline{
		{"cost", Dimensions{Hook: "xdp ingress", Outcome: "trace_filled", Format: "node and interface ids, type 0xc00000"}, 78},
		{"cost", Dimensions{Hook: "tc egress", Outcome: "encap_inserted", Format: "one option, type 0xc00000"}, 78},
		{"cost", Dimensions{Hook: "xdp ingress", Outcome: "tunnel_decapsulated", Format: "node and interface ids, with a record"}, 142},
		{"cost", Dimensions{Hook: "tc egress", Outcome: "encap_inserted", Format: "into a header, one option of type 0xc00000"}, 102},
		{"cost", Dimensions{Hook: "tc egress", Outcome: "encap_inserted", Format: "into a header, and edge to edge after it"}, 102},
		{"cost", Dimensions{Hook: "tc egress", Outcome: "trace_grown", Format: "node and interface ids, type 0xc00000"}, 78},
		{"cost", Dimensions{Hook: "tc egress", Outcome: "encap_inserted", Format: "edge to edge, a number"}, 78},
		{"cost", Dimensions{Hook: "xdp ingress", Outcome: "pot_updated", Format: "proof of transit"}, 110},
		{"forwarding", Dimensions{Treatment: "kernel's own IOAM transit", By: ByKernelIOAM, Format: "ids"}, longBytes},
		{"forwarding", Dimensions{Treatment: "hooks alone: programs that do nothing", By: ByEmptyProgram, Hook: "xdp", Format: "ids"}, longBytes},
		{"forwarding", Dimensions{Treatment: "our transit", Hook: "xdp", Format: "ids"}, longBytes},
		{"forwarding", Dimensions{Treatment: "our encapsulation in a tunnel", Format: "ids"}, longBytes},
		{"forwarding", Dimensions{Treatment: "our decapsulation", Hook: "xdp", Format: "no reader of records"}, longBytes},
		{"latency", Dimensions{Treatment: "our transit", Hook: "xdp", Format: "with timestamps"}, longBytes},
		{"baseline", Dimensions{Treatment: "encapsulating node", Format: "registered, no IOAM"}, longBytes},
		{"frequency", long(Dimensions{Treatment: "encapsulating node"}), 1},
		{"frequency", long(Dimensions{Treatment: "encapsulating node"}), 100},
		{"options", long(Dimensions{Treatment: "transit node"}), 9},
		{"namespaces", long(Dimensions{Treatment: "transit node"}), 9},
		{"all-in-one", Dimensions{Treatment: "line of three nodes", Size: 800}, 5},
		{"delay", Dimensions{Treatment: "porthos, transit"}, 1},
		{"fast", fastest("plain packets", ""), longBytes},
		{"fast", fastest("transit", "ids"), longBytes},
		{"fast", Dimensions{Treatment: "bare prototype, transit", By: ByBareProgram, Format: "ids", Sink: "XDP", Queues: 1}, longBytes},
		{"fast", fastest("encapsulation in a tunnel", "ids"), longBytes},
	}
	for _, benchmark := range []string{"dex-encap", "dex-transit", "dex-decap"} {
		list = append(list,
			headline{benchmark, export("every, exported as IPFIX", WayStack), 1},
			headline{benchmark, export("every, exported as IPFIX", WayStack), 100},
			headline{benchmark, export("aggregate", WayFast), 100})
	}
	return append(list,
		headline{"srv6-hashed", segmented("our counting", "End, flows by segments", "xdp", ""), 1000},
		headline{"srv6-hashed", segmented("our counting and colouring", "head end, flows by flow label", "tcx egress", ""), 1000},
		headline{"srv6-fast", segmented("our counting", "End, flows by segments", "", WayFast), 1000},
		headline{"srv6-fast", segmented("our counting and colouring", "End, flows by segments", "", WayFast), 1000},
		headline{"srv6-fast", segmented("our counting and colouring", "End.X", "", WayFast), 1000},
		headline{"srv6-fast", segmented("our counting and colouring", "head end, flows by flow label", "", WayFast), 1000},
		headline{"stamp", Dimensions{Treatment: "reflector", Format: "stateful, no TLV, unauthenticated"}, 44},
		headline{
			"stamp",
			Dimensions{Treatment: "reflector", Format: "stateful, Class of Service and Direct Measurement TLVs, authenticated"},
			156,
		},
		headline{"exporter", Dimensions{Treatment: "postcard, trace type 0x800000"}, 1},
		headline{"postcards", Dimensions{Treatment: "postcards of trace type 0x800000"}, 2},
		headline{"kernel", long(Dimensions{Treatment: "the kernel's own IOAM transit", By: ByKernelIOAM}), 8},
		headline{"kernel", long(Dimensions{Treatment: "our transit", Hook: "xdp"}), 8},
		headline{"cores", Dimensions{Treatment: "our transit", Flows: 64}, 2},
		headline{"scale", Dimensions{Treatment: "encapsulation", Format: "encapsulations"}, 1000},
		headline{"scale", Dimensions{Treatment: "fast encapsulation", Format: "destinations, 65536 remembered"}, 65536},
		headline{"footprint", Dimensions{Treatment: "agent: start"}, 1},
		headline{"footprint", Dimensions{Treatment: "agent: resident memory, idle"}, 1},
		headline{"footprint", Dimensions{Treatment: "agent: processor time of an idle second"}, 1})
}
