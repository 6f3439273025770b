// SPDX-License-Identifier: Apache-2.0

package record

import (
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
)

// Kinds of records, as in JSON.
const (
	KindTrace      = "trace"
	KindPostcard   = "postcard"
	KindFlow       = "flow"
	KindPath       = "path"
	KindTrigger    = "direct-export"
	KindEdgeToEdge = "edge-to-edge"
	KindEdgeFlow   = "edge-flow"
	KindProof      = "proof-of-transit"
	KindOptions    = "options"
	KindOther      = "record"
	KindLost       = "lost"
	KindStatistics = "statistics"
	KindLoss       = "loss"
	KindDelay      = "delay"
	KindBlock      = "block"
	KindWarning    = "warning"
	KindEvent      = "event"
)

// DataKind is a kind of data records of IPFIX.
type DataKind uint8

// Kinds of data records, in the order in which a collector shows how many came.
const (
	DataPostcard DataKind = iota
	DataFlow
	DataEdgeFlow
	DataLoss
	DataDelay
	DataBlock
	DataHop // a node of a trace

	// NumDataKinds is the number of kinds.
	NumDataKinds
)

// Conditions that records of several kinds may meet.
const (
	ofPacket      = 1<<packetKnown | 1<<packetPorts | 1<<lengthKnown
	ofMeasurement = 1<<sidsKnown | 1<<blockNumbered | 1<<onPathDelay | 1<<blockTimed
)

// kinds are all kinds of records, in the order of the reference. A new kind is a row, and a
// file with its structure, its text and its table.
var kinds = []*kind{
	newKind(
		KindTrace,
		"the trace of one packet, with the data of every node",
		"`observe`, `jsonl`, `collect`, `decode`, `lab demo`",
		traces,
	).ipfix(&format[*Hop]{
		facts: facts{
			kind: DataHop, markers: []string{"ioamHopIndex"}, general: bitsOf(typeFields), namespaced: true,
			counter: "hops", counted: "Records of one hop of a trace.", weight: weighsPacket, parts: func(r Record) int { return max(len(r.(*Trace).Raw), 1) }, // also of no node
			variants: []variant{
				{"Node of a trace", ofPacket | 1<<ownPrograms | 1<<pathDelayKnown},
				{"Node of a trace that the kernel's own IOAM filled", 1 << kernelIOAM},
			},
		},
		table: hops, conditions: (*Hop).conditions, encodable: (*Hop).encodable, part: (*Hop).set, forget: func(h *Hop) { *h = Hop{} },
		empty:        func() *Hop { return &Hop{Trace: &Trace{Option: ioam.IOAMPreallocatedTrace.String()}} },
		deriveFields: (*Hop).deriveFields, time: func(h *Hop) instant.Time { return h.Time }, fault: (*Hop).fault, complete: (*Hop).complete,
	}),
	newKind(
		KindPostcard,
		"one node's report on one packet with a Direct Export option",
		"`observe`, `jsonl`; `collect`, where it cannot be joined or with `--records`",
		postcards,
	).ipfix(&format[*Postcard]{
		facts: facts{
			kind: DataPostcard, general: bitsOf(typeFields) | 1<<flowIDThere | 1<<sequenceThere, namespaced: true,
			counter: "postcards", counted: "All postcards, among them those that are counted below.", weight: weighsPacket,
			variants: []variant{{"Postcard", ofPacket}},
		},
		table: postcards, conditions: (*Postcard).conditions, encodable: (*Postcard).encodable, lasting: (*Postcard).lasts,
		empty:        emptyPostcard,
		deriveFields: (*Postcard).deriveFields, time: func(p *Postcard) instant.Time { return p.Time }, complete: (*Postcard).complete,
	}),
	newKind(KindFlow, "one node's report on the packets of one flow", "`observe`, `jsonl`, `collect`", flows).ipfix(&format[*Flow]{
		facts: facts{
			kind: DataFlow, markers: []string{"packetDeltaCount", "octetDeltaCount"}, shared: true, namespaced: true,
			counter: "flows", counted: "Flow records.", weight: weighsCounts,
			variants: []variant{{"Flow", 1<<packetKnown | 1<<packetPorts | 1<<flowIDThere | 1<<missingKnown | 1<<flowNumbered}},
		},
		table: flows, conditions: (*Flow).conditions,
		empty: func() *Flow { return &Flow{} }, deriveFields: (*Flow).deriveFields, time: func(f *Flow) instant.Time { return f.Time }, fault: (*Flow).fault, complete: (*Flow).complete,
	}),
	newKind(KindPath, "the postcards of one packet, joined", "`collect`, `lab demo`", paths),
	newKind(
		KindLoss,
		"the packet loss of a flow in one block of alternate marking, between two points",
		"`observe`, `jsonl`, `collect`",
		blockLosses,
	).ipfix(&format[*Loss]{
		facts: facts{
			kind: DataLoss, markers: []string{"pmVerdict"}, counter: "losses", counted: "Records of packet loss.",
			variants: []variant{{"Loss", ofMeasurement}},
		},
		table: blockLosses, conditions: (*Loss).conditions,
		empty: func() *Loss { return &Loss{} }, deriveFields: (*Loss).deriveFields, time: func(l *Loss) instant.Time { return l.Time }, fault: (*Loss).fault, complete: (*Loss).complete,
	}),
	newKind(
		KindDelay,
		"the delay of a flow between two points, by one method",
		"`observe`, `jsonl`, `collect`",
		pathDelays,
	).ipfix(&format[*Delay]{
		facts: facts{
			kind: DataDelay, markers: []string{"pmDelayMethod"}, counter: "delays", counted: "Records of delay.",
			variants: []variant{{"Delay", ofMeasurement}},
		},
		table: pathDelays, conditions: (*Delay).conditions,
		empty: func() *Delay { return &Delay{} }, deriveFields: (*Delay).deriveFields, time: func(d *Delay) instant.Time { return d.Time }, fault: (*Delay).fault, complete: (*Delay).complete,
	}),
	newKind(
		KindBlock,
		"what one point counted of a flow in one block of alternate marking",
		"`observe`, `jsonl`, with `exchange: ipfix`; `collect` with `--records`",
		blocks,
	).ipfix(&format[*Block]{
		facts: facts{
			kind: DataBlock, markers: []string{"pmPointId"}, counter: "blocks",
			counted:  "Records of what a point counted of a flow in a block, among them those that are counted below.",
			variants: []variant{{"Block", ofMeasurement}},
		},
		table: blocks, conditions: (*Block).conditions,
		empty: func() *Block { return &Block{} }, deriveFields: (*Block).deriveFields, time: func(b *Block) instant.Time { return b.Time }, fault: (*Block).fault, complete: (*Block).complete,
	}),
	newKind(KindTrigger, "the option of one packet, as found in a capture", "`decode`", triggers),
	newKind(KindEdgeToEdge, "the Edge-to-Edge option of one packet, as found in a capture", "`decode`", edges),
	newKind(
		KindEdgeFlow,
		"what the decapsulating node measured of a flow from the Edge-to-Edge options of its packets",
		"`observe`, `jsonl`, `collect`",
		edgeFlows,
	).ipfix(&format[*EdgeFlow]{
		facts: facts{
			kind: DataEdgeFlow, markers: []string{"ioamEdgeToEdgeType"}, namespaced: true,
			counter: "edge_flows", counted: "Records of flows that are measured from edge to edge.",
			variants: []variant{{"Flow from edge to edge", 1<<flowNumbered | 1<<missingKnown | 1<<delaysKnown | 1<<onPathDelay}},
		},
		table: edgeFlows, conditions: (*EdgeFlow).conditions,
		empty: func() *EdgeFlow { return &EdgeFlow{} }, deriveFields: (*EdgeFlow).deriveFields, time: func(f *EdgeFlow) instant.Time { return f.Time }, fault: (*EdgeFlow).fault, complete: (*EdgeFlow).complete,
	}),
	newKind(KindProof, "the Proof of Transit option of one packet, as found in a capture", "`decode`", proofs),
	newKind(
		KindOptions,
		"an IPFIX options record, element by element",
		"`collect` with `--records`",
		others,
	).withMaker(func() Record { return &Other{Options: true} }),
	newKind(KindOther, "an IPFIX record of something else, element by element", "`collect`", others),
	newKind(
		KindLost,
		"the number of records that are missing here because the reader was too slow",
		"`observe`, on standard error; the API's stream",
		losses,
	),
	newKind(
		KindWarning,
		"a measured flow begins or ceases to be beyond a threshold of a collector",
		"`collect` with `--max-loss` or `--max-delay`, on standard error",
		warnings,
	),
	newKind(KindEvent, "something that happened in the network, as a node found it; not in IPFIX", "`observe`, `jsonl`", events),
	newKind(KindStatistics, "the counters of a collector", "`collect`, on standard error", statistics),
}
