// SPDX-License-Identifier: Apache-2.0

package record

import (
	"time"

	"github.com/waymark-net/waymark/internal/instant"
)

// Fault is why a decoded record is dropped: its fields contradict each other or have
// impossible values.
type Fault uint8

// Faults.
const (
	NoFault          Fault = iota
	FaultValue             // a value beyond the range of its element
	FaultNamespace         // without Namespace-ID
	FaultRole              // a role that no node has
	FaultTime              // far from the time of the message
	FaultFlow              // a flow whose counts or times contradict each other
	FaultTraceIndex        // a hop after the last one of its trace
	FaultMeasurement       // a loss or a delay whose numbers contradict each other

	// NumFaults is the number of faults; 0 is none.
	NumFaults
)

// faults have names for metrics, and meanings for operators.
var faults = [NumFaults]struct{ name, meaning string }{
	NoFault:          {"none", "nothing is wrong"},
	FaultValue:       {"value_range", "a value is beyond the range of its element"},
	FaultNamespace:   {"namespace_missing", "there is no Namespace-ID"},
	FaultRole:        {"role_unknown", "no node has this role"},
	FaultTime:        {"time_implausible", "its time is more than a day from that of its message"},
	FaultFlow:        {"flow_implausible", "its counts or times contradict each other"},
	FaultTraceIndex:  {"trace_index", "its hop is after the last one of the trace"},
	FaultMeasurement: {"measurement_implausible", "its numbers of loss or delay contradict each other"},
}

// String is the fault's name in JSON and metrics.
func (f Fault) String() string {
	if f >= NumFaults {
		return "unknown"
	}
	return faults[f].name
}

// Meaning is the fault in words.
func (f Fault) Meaning() string {
	if f >= NumFaults {
		return "unknown"
	}
	return faults[f].meaning
}

// TimeSpan is how far the time of an observation may be from that of its message. Both
// are by the exporter's clock, so it bounds how long an exporter may keep a record.
const TimeSpan = 24 * time.Hour

// turned reports whether the times of a flow are impossible.
func turned(first, last instant.Time) bool {
	return !last.IsZero() && last.Before(first.Time) || unwritable(first) || unwritable(last)
}

// unwritable reports a time that RFC 3339 cannot hold, and so no record.
func unwritable(t instant.Time) bool { return !t.IsZero() && instant.Of(t.Time).IsZero() }
