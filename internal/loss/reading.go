// SPDX-License-Identifier: Apache-2.0

package loss

import "strings"

// FlowID is the number of a flow, the same at all its points.
type FlowID uint32

// PointID is the number of a point of measurement, such as a node id.
type PointID uint32

// Reading is what a point reports of one closed block of a flow.
type Reading struct {
	Flow  FlowID
	Point PointID
	Block int64

	Packets, Octets uint64 // of the block's colour
	TimeSum         int64  // of the packets' times, see Sum
	Timed           bool   // TimeSum was measured

	DoubleMarked Marked // the packets with a second mark (RFC 9341 §3.2.2)

	// Packets that make the counters uncertain, and are in none of those above.
	Late      uint64 // of the block's colour, longer than the guard after its end; see [Timing.Assign]
	OutOfTurn uint64 // of the block's colour, so far from it that they may belong to another
	Unmarked  uint64 // without a mark, at a time at which they may belong to the block; see [Timing.Around]

	UnsureOctets uint64 // packets whose octets are not known exactly, such as offloaded ones

	Flags      Flags
	ClockError int64 // nanoseconds: the point's clock is no further from UTC; UnknownClock
}

// Marked are packets with a second mark. With one in each block, TimeSum is its time.
type Marked struct {
	Packets uint64
	TimeSum int64
}

// UnknownClock is the clock error of a point that cannot bound it. Any negative number
// means the same.
const UnknownClock int64 = -1

// Sum adds a packet's time, in nanoseconds since the start of its block at the ingress,
// which is negative if the packet came early. Sums wrap, as those of long blocks must.
// Differences of sums are right nevertheless, because packets' delays are small.
func Sum(sum, time int64) int64 { return int64(uint64(sum) + uint64(time)) }

// Flags say how a block was counted. A point counts a block from a guard before its
// beginning until it reads the counters.
type Flags uint8

const (
	// Began: the point began to count in this time.
	Began Flags = 1 << iota
	// Interrupted: the point did not count for a part of this time, or lost its counters.
	Interrupted
	// OutsideWindow: the counters were read too early or too late; see [Timing.Window].
	OutsideWindow
)

// Width is the number of bits of a counter, 1 to 64.
type Width uint8

// Widths of counters.
const (
	Width32 Width = 32 // Direct Measurement of STAMP (RFC 8972 §4.5)
	Width64 Width = 64
)

// Difference is how much a counter that wraps has grown, if by less than its range. Bits
// beyond the width are ignored.
func (w Width) Difference(after, before uint64) uint64 {
	if w == 0 || w >= Width64 {
		return after - before
	}
	return (after - before) & (1<<w - 1)
}

// Verdict says what a block's numbers are worth.
type Verdict uint8

// Verdicts. The numbers are those of IPFIX element amVerdict.
const (
	NoData    Verdict = iota // neither end reported: nothing is known
	Uncertain                // there are reasons not to trust the numbers
	Measured                 // the numbers are exact
	Idle                     // exact, and there was no packet

	// NumVerdicts is the number of verdicts.
	NumVerdicts
)

// String is the verdict in a word.
func (v Verdict) String() string {
	if v >= NumVerdicts {
		return "unknown"
	}
	return [NumVerdicts]string{"no-data", "uncertain", "measured", "idle"}[v]
}

// Exact reports whether the numbers are exact.
func (v Verdict) Exact() bool { return v == Measured || v == Idle }

// Reasons are why the numbers of a point are uncertain: a set of bits, numbered as in
// IPFIX elements amSenderReasons and amReceiverReasons.
type Reasons uint16

const (
	// Missing: the point did not report the block in time.
	Missing Reasons = 1 << iota
	// Contradicting: the point reported the block twice, with different numbers.
	Contradicting
	// Restarted: counting began in the block, or was interrupted.
	Restarted
	// GuardViolated: packets were later than the guard allows, or the counters were read
	// outside their window.
	GuardViolated
	// ClockWorse: the clock of this end is so inaccurate that the clocks of both ends may
	// differ by more than planned.
	ClockWorse
	// ColourMissing: packets of the flow had no mark; something on the way removes it.
	ColourMissing
	// ColourOutOfTurn: packets had a colour that did not fit their time.
	ColourOutOfTurn
	// OtherPath: the flow took, or may have taken, a path without this point.
	OtherPath

	// AllReasons has every reason.
	AllReasons = OtherPath<<1 - 1
)

var reasonNames = [...]string{"missing", "contradicting", "restarted", "guard_violated", "clock_worse", "colour_missing", "colour_out_of_turn", "other_path"}

// Names are the reasons in words, in the order of their bits.
func (r Reasons) Names() (list []string) {
	for i, name := range reasonNames {
		if r>>i&1 != 0 {
			list = append(list, name)
		}
	}
	return list
}

// String is the reasons in words, with commas between them; "" for none.
func (r Reasons) String() string { return strings.Join(r.Names(), ",") }

// reasons are those that a reading shows by itself.
func (r *Reading) reasons() (out Reasons) {
	for _, why := range [...]struct {
		met    bool
		reason Reasons
	}{
		{r.Flags&(Began|Interrupted) != 0, Restarted},
		{r.Late > 0 || r.Flags&OutsideWindow != 0, GuardViolated},
		{r.Unmarked > 0, ColourMissing},
		{r.OutOfTurn > 0, ColourOutOfTurn},
	} {
		if why.met {
			out |= why.reason
		}
	}
	return out
}
