// SPDX-License-Identifier: Apache-2.0

package report

// headline is a point that docs/benchmarks.md shows for a benchmark.
type headline struct {
	benchmark string
	variant   Dimensions
	x         float64
}

// headlines are the points in the summary: what readers ask first. All others are
// in the results and figures.
func headlines() []headline {
	long := func(d Dimensions) Dimensions { d.Size = 1236; return d }
	fast := func(treatment, format string) Dimensions {
		return Dimensions{Way: WayFast, Treatment: treatment, Format: format, Sink: "XDP", Queues: 1}
	}
	export := func(treatment string, way Way) Dimensions {
		return Dimensions{Treatment: treatment, Way: way, Size: 1500}
	}
	segments := func(treatment, format, hook string, way Way) Dimensions {
		return Dimensions{Treatment: treatment, Format: format, Hook: hook, Way: way, Queues: 1, Size: 78}
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
		{"forwarding", Dimensions{Treatment: "kernel's own IOAM transit", By: ByKernelIOAM, Format: "ids"}, 1236},
		{"forwarding", Dimensions{Treatment: "hooks alone: programs that do nothing", By: ByEmptyProgram, Hook: "xdp", Format: "ids"}, 1236},
		{"forwarding", Dimensions{Treatment: "our transit", Hook: "xdp", Format: "ids"}, 1236},
		{"forwarding", Dimensions{Treatment: "our encapsulation in a tunnel", Format: "ids"}, 1236},
		{"forwarding", Dimensions{Treatment: "our decapsulation", Hook: "xdp", Format: "no reader of records"}, 1236},
		{"latency", Dimensions{Treatment: "our transit", Hook: "xdp", Format: "with timestamps"}, 1236},
		{"baseline", Dimensions{Treatment: "encapsulating node", Format: "registered, no IOAM"}, 1236},
		{"frequency", long(Dimensions{Treatment: "encapsulating node"}), 1},
		{"frequency", long(Dimensions{Treatment: "encapsulating node"}), 100},
		{"options", long(Dimensions{Treatment: "transit node"}), 9},
		{"namespaces", long(Dimensions{Treatment: "transit node"}), 9},
		{"all-in-one", Dimensions{Treatment: "line of three nodes", Size: 800}, 5},
		{"delay", Dimensions{Treatment: "porthos, transit"}, 1},
		{"fast", fast("plain packets", ""), 1236},
		{"fast", fast("transit", "ids"), 1236},
		{"fast", fast("encapsulation in a tunnel", "ids"), 1236},
	}
	for _, benchmark := range []string{"dex-encap", "dex-transit", "dex-decap"} {
		list = append(list,
			headline{benchmark, export("every, exported as IPFIX", WayStack), 1},
			headline{benchmark, export("every, exported as IPFIX", WayStack), 100},
			headline{benchmark, export("aggregate", WayFast), 100})
	}
	return append(list,
		headline{"srv6-hashed", segments("our counting", "End, flows by segments", "xdp", ""), 1000},
		headline{"srv6-hashed", segments("our counting and colouring", "head end, flows by flow label", "tcx egress", ""), 1000},
		headline{"srv6-fast", segments("our counting", "End, flows by segments", "", WayFast), 1000},
		headline{"srv6-fast", segments("our counting and colouring", "End, flows by segments", "", WayFast), 1000},
		headline{"srv6-fast", segments("our counting and colouring", "End.X", "", WayFast), 1000},
		headline{"srv6-fast", segments("our counting and colouring", "head end, flows by flow label", "", WayFast), 1000},
		headline{"stamp", Dimensions{Treatment: "reflector", Format: "stateful, no TLV, unauthenticated"}, 44},
		headline{"stamp", Dimensions{Treatment: "reflector", Format: "stateful, Class of Service and Direct Measurement TLVs, authenticated"}, 156},
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
