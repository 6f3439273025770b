// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"fmt"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/delay"
)

// Method is how a delay was measured, with the numbers of IPFIX element pmDelayMethod.
type Method uint8

// Methods of delay measurement.
const (
	MeanOfSums    Method = iota // one-way, mean of all packets of a block (RFC 9341 §3.2.1.1)
	DoubleMarking               // one-way, of packets with a second mark (RFC 9341 §3.2.2)
	OneWay                      // of STAMP's test packets (RFC 8762)
	TwoWay                      // of test packets, without the time at the reflector
	RoundTrip                   // of test packets, with it
	MeanAtLeast                 // one-way, lower bound of the mean of a block's packets, some of which were lost

	// NumMethods is the number of methods.
	NumMethods
)

var methodNames = [NumMethods]string{"mean-of-sums", "double-marking", "one-way", "two-way", "round-trip", "mean-at-least"}

// String is the method's name.
func (m Method) String() string {
	if m >= NumMethods {
		return "unknown"
	}
	return methodNames[m]
}

// UnmarshalText reads a method's name.
func (m *Method) UnmarshalText(text []byte) error {
	i := slices.Index(methodNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is not a method of delay measurement", text)
	}
	*m = Method(i)
	return nil
}

// Totals add up the packets, or the octets, of blocks.
type Totals struct {
	Sent, Received, Lost uint64 // where it is known what was lost
	Duplicated, LostMin  uint64 // at least, where it is not because there were duplicates
}

// Add adds a tally.
func (t *Totals) Add(of *Tally) {
	if of.Lost.Known {
		t.Sent += of.Sent.Value
		t.Received += of.Received.Value
		t.Lost += of.Lost.Value
		return
	}
	if of.Duplicated.Known {
		t.Duplicated += of.Duplicated.Value
		t.LostMin += of.LostMin.Value
	}
}

// Ratio is the share that was lost, 0 to 1, where that is known; false if nothing was sent.
func (t *Totals) Ratio() (float64, bool) {
	if t.Sent == 0 {
		return 0, false
	}
	return float64(t.Lost) / float64(t.Sent), true
}

// Period summarizes the results of one segment over any number of blocks, and the delays
// of test packets between the same points. The zero value is empty.
type Period struct {
	Blocks          [NumVerdicts]uint64
	Packets, Octets Totals
	Reasons         Reasons // of all blocks

	delays [NumMethods]delays
}

// delays are the delays by one method.
type delays struct {
	series   delay.Series
	from, to int64 // the greatest clock errors; negative: unknown
}

// Add adds the result of a block.
func (p *Period) Add(block int64, s *Segment) {
	p.Blocks[min(s.Verdict, NumVerdicts-1)]++
	p.Reasons |= s.Reasons()
	p.Packets.Add(&s.Packets)
	p.Octets.Add(&s.Octets)
	bound := Sample{s.MeanRange.Least, s.MeanRange.Packets}
	if bound.Delay <= 0 {
		bound.Packets = 0 // says nothing
	}
	for method, sample := range map[Method]Sample{MeanOfSums: s.Mean, DoubleMarking: s.DoubleMarked, MeanAtLeast: bound} {
		if sample.Packets > 0 {
			p.AddDelay(method, uint32(block), sample.Delay, s.From.ClockError, s.To.ClockError)
		}
	}
}

// AddDelay adds a delay, with the clock errors of both ends in nanoseconds. number is the
// number of the block or of the test packet, which may wrap: jitter is the difference
// between the delays of numbers that follow one another (RFC 3393 §4.5).
func (p *Period) AddDelay(m Method, number uint32, d time.Duration, from, to int64) {
	if m >= NumMethods {
		return
	}
	at := &p.delays[m]
	at.series.Add(number, d)
	at.from, at.to = worse(at.from, from), worse(at.to, to)
}

// worse is the greater of two clock errors.
func worse(a, b int64) int64 {
	if a < 0 || b < 0 {
		return UnknownClock
	}
	return max(a, b)
}

// Delay summarizes the delays by a method, with the greatest clock errors of both ends in
// nanoseconds, UnknownClock if one is unknown. It is nil if there are none.
func (p *Period) Delay(m Method) (s *delay.Summary, from, to int64) {
	if m >= NumMethods {
		return nil, UnknownClock, UnknownClock
	}
	at := &p.delays[m]
	return at.series.Summary(), at.from, at.to
}
