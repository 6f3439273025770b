// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
)

// besidePrototype are the rows of the table with a bare prototype, without link and sink.
func besidePrototype() []Dimensions {
	list := []Dimensions{
		{Treatment: "kernel forwarding", By: ByKernel, Format: "plain packets"},
		{Treatment: "kernel forwarding", By: ByKernel, Format: "trace with ids"},
		{Treatment: "plain packets", Way: WayFast},
		{Treatment: "transit", Way: WayFast, Format: "ids"},
		{Treatment: "bare prototype, transit", By: ByBareProgram, Format: "ids"},
	}
	for i := range list {
		list[i].Sink, list[i].Queues = "XDP", 1
	}
	return list
}

// Beside lists the figures in the table that compares Waymark with a bare XDP prototype.
func Beside() (list []Reference) {
	for _, d := range besidePrototype() {
		list = append(list, Reference{Benchmark: "fast", Variant: d, X: besideBytes})
	}
	return list
}

// besideBytes is the length of the table's frames.
const besideBytes = 78

// writePrototype writes the table with a bare prototype, where one is recorded.
func writePrototype(b *strings.Builder, results []Result) {
	for _, r := range results {
		if r.Name != "fast" || !r.any(func(p Point) bool { return p.Dimensions.By == ByBareProgram }) {
			continue
		}
		fmt.Fprintf(b, `
## Fast forwarding and a bare prototype

Links with one queue, frames of %d bytes, a sink in XDP, one CPU, all in one run on %s. The bare
prototype parses packets, fills traces and forwards by a cache of next hops, a hash table of the
kernel. It validates little, counts nothing and has no configuration: what lies between it and Waymark
is the price of these.

| | Mpps | against the kernel's plain packets |
|---|---|---|
`, besideBytes, r.processor())
		for _, d := range besidePrototype() {
			for _, p := range r.Points {
				if p.Dimensions == d && p.X == besideBytes {
					fmt.Fprintf(b, "| %s | %.2f | %.2f times |\n", p.Variant, *p.PPS/1e6, p.PlainRatio)
				}
			}
		}
	}
}
