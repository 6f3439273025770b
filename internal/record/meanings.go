// SPDX-License-Identifier: Apache-2.0

package record

// Meanings of fields that several kinds of records share.
const (
	meaningNode      = "Name of the reporting node; at a collector, absent until its exporter has sent it."
	meaningRole      = "`encapsulating`, `transit` or `decapsulating`."
	meaningIngress   = "Name of the interface of arrival; absent if the packets came from no link."
	meaningEgress    = "Name of the interface of departure; absent if it is not known, as always at the decapsulating node."
	meaningIfIndex   = "Index of the interface at the node; absent when its name is. `ingress_id` and `egress_id` of node data are those of the configuration."
	meaningNamespace = "IOAM Namespace-ID."
	meaningTraceType = "IOAM-Trace-Type, such as `\"0xf80000\"`."
	meaningFlowID    = "Flow-ID of the option (RFC 9326 §3.2), absent when it has none."
	meaningSequence  = "Sequence Number of the option (RFC 9326 §3.2), absent when it has none."
)

// observationTimes are elements of other exporters for the time of an observation.
var observationTimes = []string{"observationTimeSeconds", "observationTimeMilliseconds", "observationTimeMicroseconds"}
