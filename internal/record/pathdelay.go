// SPDX-License-Identifier: Apache-2.0

package record

import (
	"math"
	"time"
)

// MeasurePathDelay sets PathDelay, in microseconds: from the timestamp of the
// encapsulating node, the first in the trace, to the time at which the reporting node
// received the packet (RFC 9951). The delay is unknown when that timestamp lacks its
// fraction, when only one node wrote, which may be the reporting one, and when the
// clocks differ so much that it is negative.
func (r *Trace) MeasurePathDelay(received time.Time) {
	if len(r.Raw) == 0 || len(r.Raw) == 1 && !r.Overflow.Value {
		return
	}
	if _, exact := r.Raw[0].TimestampFraction(); !exact || !r.Nodes[0].Timestamp.Valid {
		return
	}
	if us := received.Sub(r.Nodes[0].Timestamp.Value).Microseconds(); us >= 0 && us <= math.MaxUint32 {
		r.PathDelay = NewField(uint32(us), true)
	}
}
