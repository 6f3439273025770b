// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"math"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
)

// Delay is the delay of a flow's packets between two points, by one method, over one or
// more blocks or test packets. Times are in nanoseconds.
type Delay struct {
	Measurement
	Method                       loss.Method
	Samples                      uint64
	Min, Mean, P95               int64
	Jitter                       Field[uint64]
	FromClockError, ToClockError Field[uint64]
	Warning                      string // code of the threshold that the block is beyond, or ""
}

// NewDelay makes the record of the delays by one method in a period; nil if there are
// none. m says what was measured, and when.
func NewDelay(m Measurement, p *loss.Period, method loss.Method) *Delay {
	s, from, to := p.Delay(method)
	if s == nil {
		return nil
	}
	d := &Delay{Measurement: m, Method: method, Samples: s.Count, Min: s.Min, Mean: s.Mean, P95: s.P95, Jitter: Field[uint64]{Present: true}}
	if s.Jitter != nil {
		d.Jitter = NewField(uint64(*s.Jitter), true)
	}
	clockError := func(ns int64) Field[uint64] { return NewField(uint64(max(ns, 0)), ns >= 0) }
	d.FromClockError, d.ToClockError = clockError(from), clockError(to)
	return d
}

// NewBlockDelays makes the records of the delays in one block: of all packets, or its lower
// bound, and of those with a second mark, where they are known.
func NewBlockDelays(m Measurement, r *loss.Result, s *loss.Segment) (list []*Delay) {
	m.of(r, s)
	var p loss.Period
	p.Add(r.Block, s)
	for _, method := range []loss.Method{loss.MeanOfSums, loss.MeanAtLeast, loss.DoubleMarking} {
		if d := NewDelay(m, &p, method); d != nil {
			list = append(list, d)
		}
	}
	return list
}

// NewResults makes the records of a result: from ingress to egress first, then between
// neighbours.
func NewResults(m Measurement, r *loss.Result) (list []Record) {
	parts := append([]loss.Segment{r.Whole}, r.Segments...)
	for i := range parts {
		list = append(list, NewLoss(m, r, &parts[i]))
		for _, d := range NewBlockDelays(m, r, &parts[i]) {
			list = append(list, d)
		}
	}
	return list
}

// SetWarnings sets the codes of the thresholds that a block is beyond in the records of its
// whole way; "" are none. Where the delay of the whole way is not known, the greatest one of
// a segment has the code. list is as NewResults makes it.
func SetWarnings(list []Record, ofLoss, ofDelay string) {
	var whole *Loss
	var slowest *Delay
	for _, each := range list {
		switch each := each.(type) {
		case *Loss:
			if each.Scope == WholeWay {
				whole = each
			}
		case *Delay:
			if slowest == nil || slowest.Scope != WholeWay && each.Mean > slowest.Mean { // further ones of the whole way are by other methods
				slowest = each
			}
		}
	}
	switch {
	case slowest != nil:
		slowest.Warning = ofDelay
	case ofLoss == "":
		ofLoss = ofDelay
	}
	if whole != nil {
		whole.Warning = ofLoss
	}
}

// Kind is "delay".
func (d *Delay) Kind() string { return KindDelay }

// pathDelays declares the fields of a Delay.
var pathDelays = append(part(measurements, func(d *Delay) *Measurement { return &d.Measurement }), table[*Delay]{
	field(
		"method",
		"",
		"`mean-of-sums` (one-way, mean of all packets of a block that lost none, RFC 9341 §3.2.1.1), `double-marking` (one-way, "+
			"of packets with a second mark, RFC 9341 §3.2.2); "+
			"`mean-at-least` (one-way, lower bound of the mean of a block's packets, some of which were lost), "+
			"with test packets (RFC 8762): `one-way`, `two-way` (without the time at the reflector), `round-trip` (with it).",
		func(d *Delay) *loss.Method { return &d.Method },
		word[loss.Method](),
	).
		ipfix(sectionHeader, "pmDelayMethod"),
	field(
		"samples",
		"",
		"Delays that were measured: of blocks, or of test packets.",
		func(d *Delay) *uint64 { return &d.Samples },
		number[uint64](),
	).
		ipfix(sectionHeader, "pmDelaySampleDeltaCount"),
	field(
		"min_ns",
		"nanoseconds",
		"Minimum. One-way delays are differences of two clocks, so they may be negative.",
		func(d *Delay) *int64 { return &d.Min },
		signed(),
	).
		ipfix(sectionHeader, "pmDelayMinNanoseconds"),
	field("mean_ns", "nanoseconds", "Mean.", func(d *Delay) *int64 { return &d.Mean }, signed()).
		ipfix(sectionHeader, "pmDelayMeanNanoseconds"),
	field("p95_ns", "nanoseconds", "95th percentile, exact to 1/256.", func(d *Delay) *int64 { return &d.P95 }, signed()).
		ipfix(sectionHeader, "pmDelayP95Nanoseconds"),
	field(
		"jitter_ns",
		"nanoseconds",
		"Mean difference between the delays of consecutive blocks or test packets (RFC 3393 §4.5); `null` if no two followed one another.",
		func(d *Delay) *Field[uint64] { return &d.Jitter },
		counter(),
	).
		ipfix(sectionHeader, "pmDelayJitterNanoseconds"),
	field(
		"from_clock_error_ns",
		"nanoseconds",
		"Greatest error of the first point's clock; `null` if it is not known.",
		func(d *Delay) *Field[uint64] { return &d.FromClockError },
		counter(),
	).
		ipfix(sectionHeader, "pmFromClockErrorNanoseconds"),
	field(
		"to_clock_error_ns",
		"nanoseconds",
		"Greatest error of the second point's clock; `null` if it is not known.",
		func(d *Delay) *Field[uint64] { return &d.ToClockError },
		counter(),
	).
		ipfix(sectionHeader, "pmToClockErrorNanoseconds"),
	field("warning", "", "`flow_delay_high` if the block is beyond the flow's threshold for delay. Absent otherwise. Not in IPFIX.",
		func(d *Delay) *string { return &d.Warning }, present(textual())),
	hidden(
		func(d *Delay) *int64 { return &d.Mean },
		inMicroseconds(),
	).ipfix(sectionHeader, "pathDelayMeanDeltaMicroseconds").
		when(onPathDelay).
		unread(),
	hidden(
		func(d *Delay) *int64 { return &d.Min },
		inMicroseconds(),
	).ipfix(sectionHeader, "pathDelayMinDeltaMicroseconds").
		when(onPathDelay).
		unread(),
}...)

func (d *Delay) deriveFields(*Reading) { d.omitUnknownSource() }

func (d *Delay) fault(*Reading) Fault {
	if unwritable(d.Start) || d.Samples == 0 || d.Min > d.Mean || d.Min > d.P95 {
		return FaultMeasurement
	}
	return NoFault
}

// conditions of a delay: RFC 9951 has elements for one-way delays from the encapsulating
// node, which are not negative.
func (d *Delay) conditions() conditions {
	oneWay := d.Method <= loss.OneWay // a bound is no mean
	return d.Measurement.conditions().with(onPathDelay, oneWay && d.Scope == WholeWay && onPath(d.Min) && onPath(d.Mean))
}

// onPath reports whether the elements of RFC 9951 have room for a delay.
func onPath(ns int64) bool { return ns >= 0 && ns/1000 <= math.MaxUint32 }

// Text is the record as readable text: a line for what was measured, and one for the
// result.
func (d *Delay) Text() string {
	ns := func(f Field[uint64]) string {
		if !f.Valid {
			return "-"
		}
		return nanoseconds(f.Value)
	}
	return fmt.Sprintf(
		"%s\n    %v  min %s  mean %s  p95 %s  jitter %s  of %d  clock errors %s and %s%s\n",
		d.heading("delay"),
		d.Method,
		Duration(
			time.Duration(d.Min),
		),
		Duration(time.Duration(d.Mean)),
		Duration(time.Duration(d.P95)),
		ns(d.Jitter),
		d.Samples,
		ns(d.FromClockError),
		ns(d.ToClockError),
		warningText(d.Warning),
	)
}
