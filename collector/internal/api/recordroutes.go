// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
)

// Conditions on records.
var (
	onDelays = parameter{
		name: "where",
		form: "text",
		doc: "A condition on the fields of delays (kind delay), as waymark collect --where has it, such as method == 'two-way' or " +
			"mean_ns > 5000000. The answer is made of those for which it is true. It is compared with the latest 100000 that the other " +
			"parameters select; of more, the answer has cut.",
	}
	onFlowRecords = parameter{
		name: "where",
		form: "text",
		doc: "A condition on the fields of records of flows (kind flow) and of single postcards (kind postcard), as waymark collect " +
			"--where has it, such as sequence_gaps > 0 or egress == 'eth1'. The answer is made of those for which it is true. It is " +
			"compared with the latest 100000 that the other parameters select; of more, the answer has cut.",
	}
	seconds = parameter{
		name: "buckets", form: "number", doc: "Also a series, of this many steps, up to 2000. Steps are whole seconds.",
	}
)

// delayRoute answers about measured delays.
var delayRoute = route{
	path: "/v1/delay", name: "delay", summary: "The delays of measured flows, by segment and method, with the errors of the clocks",
	parameters: []parameter{since, from, until, flowNames, onDelays, compare, compareFrom, step, seconds, limit("100")},
	answer:     query.MeasuredDelays{},
	serve: func(v *values) question {
		in := v.times()
		ask := query.DelayQuestion{
			Range:  in,
			Flow:   v.text("flow"),
			Step:   v.step(in, time.Second),
			Before: v.before(in),
			Where:  v.condition(query.OfDelays),
			Limit:  v.limit(),
		}
		return asking(ask, (*query.Queries).Delay)
	},
}

// flowsRoute answers about aggregated flows.
var flowsRoute = route{
	path: "/v1/flows", name: "flows",
	summary: "What nodes reported of flows, as with export: aggregate, and of single packets that are in no path",
	parameters: flows(
		parameter{name: "flow_id", form: "number", doc: "Flow-ID of the option."},
		parameter{name: "node", form: "text", doc: "Name of the node that reported, or its address if it has none."},
		parameter{
			name: "order", form: "word", usual: string(query.FlowsByPackets), words: flowOrderWords(),
			doc: "By what they are sorted, the greatest first: packets, bytes, or the packets that are missing.",
		},
		onFlowRecords, step, seconds, limit("100")),
	answer: query.AggregatedFlows{},
	serve: func(v *values) question {
		in := v.times()
		ask := query.FlowsQuestion{
			Range:  in,
			Flows:  v.flows(),
			FlowID: optional[uint32](v, "flow_id"),
			Node:   v.text("node"),
			Order:  query.FlowOrder(v.word("order")),
			Step:   v.step(in, time.Second),
			Where:  v.condition(query.OfFlowRecords),
			Limit:  v.limit(),
		}
		return asking(ask, (*query.Queries).AggregatedFlows)
	},
}

func flowOrderWords() (list []string) {
	for _, o := range query.FlowOrders {
		list = append(list, string(o))
	}
	return list
}
