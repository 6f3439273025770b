// SPDX-License-Identifier: Apache-2.0

package record

import "fmt"

// Field is a value that a record may lack. The zero Field is absent: the trace type
// lacks it. A Field that is present without a value is "not available", null in JSON.
type Field[T any] struct {
	Value   T
	Present bool
	Valid   bool // there is a value
}

// NewField makes a field that is present; ok reports whether it has a value.
func NewField[T any](v T, ok bool) Field[T] {
	return Field[T]{Value: v, Present: true, Valid: ok}
}

// Numbers that are written in hexadecimal.
type (
	Hex8  uint8
	Hex32 uint32
	Hex64 uint64
)

func (v Hex8) String() string  { return fmt.Sprintf("0x%02x", uint8(v)) }
func (v Hex32) String() string { return fmt.Sprintf("0x%08x", uint32(v)) }
func (v Hex64) String() string { return fmt.Sprintf("0x%016x", uint64(v)) }

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
