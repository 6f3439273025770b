// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// incrementalConfigs are nodes with incremental traces.
func incrementalConfigs() map[string]model.NodeConfig {
	grows := nodeConfig()
	for i := range grows.Namespaces {
		grows.Namespaces[i].Incremental = true
	}
	inserts := encapsulation(model.ModeInline, model.TraceOption{Namespace: namespace, Type: typeIDs, Size: 40, Incremental: true})
	inserts.Namespaces[0].Incremental = true
	return map[string]model.NodeConfig{"incremental": grows, "incremental: inserts": inserts}
}

// grownTrace is an incremental trace with the data of some other nodes.
func grownTrace(kind ioam.TraceType, nodes, room int) []byte {
	size := dataSize(kind)
	t := ioam.Trace{
		Incremental:  true,
		Namespace:    namespace,
		NodeLen:      uint8(kind.NodeLen()),
		RemainingLen: uint8(room * size / 4),
		Type:         kind,
		Data:         make([]byte, nodes*size),
	}
	o := t.Option()
	return append([]byte{byte(o.Type), byte(len(o.Data))}, o.Data...)
}

// incrementalCases measure traces that grow.
func incrementalCases() []costCase {
	var cases []costCase
	for _, hook := range []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC} {
		cases = append(
			cases,
			costCase{hook, "", model.OutcomeIncrementalTrace, "incremental", traced(grownTrace(typeIDs, 1, 3)), harness.SKB{}, 0},
		)
	}
	make1 := func(detail string, outcome model.Outcome, config string, frame []byte) costCase {
		return costCase{datapath.HookEgressTC, detail, outcome, config, frame, harness.ArrivedAt(other), 0}
	}
	return append(cases,
		make1("node and interface ids, type 0xc00000", model.OutcomeTraceGrown, "incremental", traced(grownTrace(typeIDs, 1, 3))),
		make1("node ids, padding grows as well", model.OutcomeTraceGrown, "incremental", traced(grownTrace(typeNodeID, 1, 3))),
		make1("with timestamps, type 0xf00000", model.OutcomeTraceGrown, "incremental", traced(grownTrace(typeTimes, 1, 3))),
		make1("every bit, type 0xfff002", model.OutcomeTraceGrown, "incremental", traced(grownTrace(typeAll, 1, 2))),
		make1(
			"two traces of type 0xc00000",
			model.OutcomeTraceGrown,
			"incremental",
			traced(grownTrace(typeIDs, 1, 3), grownTrace(typeIDs, 1, 3)),
		),
		make1("incremental trace", model.OutcomeTraceOverflow, "incremental", traced(grownTrace(typeIDs, 1, 0))),
		make1("incremental trace of type 0xc00000", model.OutcomeEncapInserted, "incremental: inserts", harness.Plain(harness.Destination, 78)))
}
