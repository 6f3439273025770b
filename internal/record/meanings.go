// SPDX-License-Identifier: Apache-2.0

package record

// What fields mean that several kinds of records have.
const (
	meaningNode      = "Name of the node that reports; at a collector, absent until its exporter has sent it."
	meaningRole      = "`encapsulating`, `transit` or `decapsulating`."
	meaningIngress   = "Name of the interface at which packets came in; absent where they came from no link."
	meaningEgress    = "Name of the interface at which packets left; absent where it is not known: always at the decapsulating node."
	meaningIfIndex   = "Index of the interface at the node; absent as its name. `ingress_id` and `egress_id` of node data are those of the configuration."
	meaningNamespace = "IOAM Namespace-ID."
	meaningTraceType = "IOAM-Trace-Type, such as `\"0xf80000\"`."
	meaningFlowID    = "Flow-ID of the option (RFC 9326 §3.2), absent when it has none."
	meaningSequence  = "Sequence Number of the option (RFC 9326 §3.2), absent when it has none."
)

// observationTimes are elements of other exporters for the time of an observation.
var observationTimes = []string{"observationTimeSeconds", "observationTimeMilliseconds", "observationTimeMicroseconds"}
