// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// warnings say how far a delay by two clocks is to be trusted, each with what to do.
func (d *MeasuredDelay) warnings() (list []string) {
	if d.Method == loss.TwoWay.String() || d.Method == loss.RoundTrip.String() { // by one clock
		return nil
	}
	const cure = "; let chrony or ptp4l synchronise the clocks of both"
	short := func(ns int64) string { return record.Duration(time.Duration(ns)) }
	if d.Min < 0 {
		list = append(list, fmt.Sprintf("the least delay is %s: the clocks of both points differ by more than the delay", short(d.Min))+cure)
	}
	if d.Unknown > 0 {
		list = append(list, fmt.Sprintf("%d of %d records do not say how wrong the clocks of both points may be", d.Unknown, d.Records)+
			cure+", or set measurement.clock-error")
	}
	if d.FromClock == nil || d.ToClock == nil {
		return list
	}
	if together := plus(*d.FromClock, *d.ToClock); together > magnitude(d.Mean) {
		list = append(list, fmt.Sprintf("the clocks of both points may be wrong by %s together, which is more than the mean delay",
			short(int64(together)))+cure)
	}
	return list
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return uint64(-(n + 1)) + 1 // the least number has no positive one
	}
	return uint64(n)
}
