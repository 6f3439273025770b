// SPDX-License-Identifier: Apache-2.0

package query

import "reflect"

// RecordTexts are those of answers about aggregated flows and measured delays.
var RecordTexts = Texts{
	reflect.TypeFor[AggregatedFlows](): {
		"flows": "The flows by node and role, in the order that was asked for. Each node of a path reports the same flow: compare nodes, do not add them up.",
	},
	reflect.TypeFor[AggregatedFlow](): {
		"node":                "Name of the node that reported it, or its address.",
		"role":                "Its role: encapsulating, transit or decapsulating.",
		"namespace":           "IOAM Namespace-ID.",
		"flow_id":             "Flow-ID of the option; absent without one.",
		"source_address":      "Source address; absent when it is not known.",
		"destination_address": "Destination address; absent when it is not known.",
		"next_header":         "Protocol of the upper layer.",
		"source_port":         "Absent when the protocol has none.",
		"destination_port":    "Absent when the protocol has none.",
		"flow_label":          "IPv6 flow label.",
		"series":              "The same in steps, if step or buckets are given, by the times of records. A step without a record is not in it.",
	},
	reflect.TypeFor[FlowSums](): {
		"records":         "Records of the aggregated flow.",
		"postcards":       "Single postcards of its packets, which are in no path because they lack Flow-ID, Sequence Number or role. They are in no other sum of packets or bytes.",
		"packets":         "Packets, by the records.",
		"bytes":           "Their bytes, from the IPv6 header on.",
		"first":           "When the first of these packets was seen, by the clock of the node.",
		"last":            "When the last of them was seen.",
		"held":            "How long the node held packets; absent when nothing says it. Of single postcards only if no record of the flow says it.",
		"missing":         "Packets that are missing, by their Sequence Numbers; absent when no record says it.",
		"missing_unknown": "Records that do not say how many are missing, though packets have Sequence Numbers.",
		"late":            "Packets that came after one with a later Sequence Number; absent without Sequence Numbers.",
	},
	reflect.TypeFor[HeldFor](): {
		"count":   "Packets of which it was measured.",
		"min_ns":  "The shortest time.",
		"mean_ns": "The mean.",
		"max_ns":  "The longest time.",
	},
	reflect.TypeFor[FlowPoint](): {
		"time": "Begin of the step.",
	},
	reflect.TypeFor[MeasuredDelays](): {
		"delays": "The delays by flow, segment and method, the greatest mean first.",
	},
	reflect.TypeFor[MeasuredDelay](): {
		"method": "mean-of-sums: one-way, of blocks that lost no packet; mean-at-least: one-way, a lower bound, of blocks that lost some; " +
			"double-marking: one-way, of packets with a second mark. With test packets: one-way, two-way (without the time at the other node), round-trip (with it).",
		"warnings": "How far a delay by two clocks is to be trusted, each in a sentence with what to do. No delay is corrected by it.",
		"before":   "The same of the other time that was asked for by compare; absent when there was nothing.",
		"series":   "The same in steps, if step or buckets are given. A step without a record is not in it.",
	},
	reflect.TypeFor[DelaySums](): {
		"records":             "Records, of a block or of a period with test packets each.",
		"samples":             "Delays that were measured: of blocks, or of test packets.",
		"min_ns":              "The least one. One-way delays are differences of two clocks, and may be negative.",
		"mean_ns":             "The mean, by samples.",
		"p95_ns":              "95th percentile of the records' 95th percentiles, by samples, within 2.2%: of blocks, which have one sample each, that of all delays.",
		"p95_max_ns":          "The greatest 95th percentile of a record, exactly.",
		"jitter_ns":           "Mean difference between the delays of consecutive blocks or test packets; absent when no two followed one another.",
		"from_clock_error_ns": "Greatest error of the first point's clock; absent when no record says it.",
		"to_clock_error_ns":   "Greatest error of the second point's clock; absent when no record says it.",
		"clock_unknown":       "Records that lack one of both errors.",
		"beyond":              "Records beyond the flow's threshold for delay.",
	},
	reflect.TypeFor[DelayPoint](): {
		"time": "Begin of the step.",
	},
	reflect.TypeFor[Instead](): {
		"flow_records": "Records of aggregated flows.",
		"postcards":    "Single postcards that are in no path, because they lack Flow-ID, Sequence Number or role.",
		"text":         "The same in a sentence.",
		"cure":         "What to do to see them, or to get paths.",
	},
}
