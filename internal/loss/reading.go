// SPDX-License-Identifier: Apache-2.0

package loss

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

	_
	_

	// ChangedInterfaces: see [InterfacesChanged].
	ChangedInterfaces
	// PassedUnserved: see [UnservedInterface].
	PassedUnserved
	// NotRun: see [NotExecuted].
	NotRun
)

// uncovered are the flags that say where counting was interrupted.
const uncovered = ChangedInterfaces | PassedUnserved | NotRun

// FlagsOf are the flags of a point that has some of the reasons [Uncovered]. A program that does not
// know these flags reads that counting was interrupted.
func FlagsOf(r Reasons) (f Flags) {
	if r&Uncovered != 0 {
		f |= Interrupted
	}
	if r&InterfacesChanged != 0 {
		f |= ChangedInterfaces
	}
	if r&UnservedInterface != 0 {
		f |= PassedUnserved
	}
	if r&NotExecuted != 0 {
		f |= NotRun
	}
	return f
}

// flagNames are the names of the bits. One without a name is of a later version.
var flagNames = [...]string{"began", "interrupted", "outside_window", "", "", "interfaces_changed", "unserved_interface", "not_executed"}

// Names are the flags in words, in the order of their bits.
func (f Flags) Names() []string { return namesOf(uint16(f), flagNames[:]) }

// FlagsNamed is the inverse of Names; it skips what it does not know.
func FlagsNamed(names []string) Flags { return Flags(bitsNamed(names, flagNames[:])) }

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
