// SPDX-License-Identifier: Apache-2.0

// Package loss computes packet loss and one-way delay from the counters of alternate
// marking (RFC 9341). It is pure arithmetic: it reads no clock, and its memory is
// bounded.
//
// The first point of a flow, the ingress, marks packets with a colour that changes at
// fixed times. It and the points after it count the packets of each block, and report a
// [Reading] of each closed block. [Compute] compares the readings of one block; an
// [Assembler] brings readings together.
//
// Three things cannot be seen in counters. A packet that is duplicated hides one that is
// lost, unless more come to a point than were sent. A packet that arrives half a block or more too early, or a block less the guard
// too late, counts in another block of its colour. And packets that bypass a transit
// point look lost before it if at least as many are lost after it.
package loss

import (
	"fmt"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
)

// Bounds of the length of a block.
const (
	MinBlock = 100 * time.Millisecond
	MaxBlock = 10 * time.Minute
)

// Timing is the time plan of a flow's blocks (RFC 9341 §5). Times are nanoseconds of UTC
// since 1970, not negative.
type Timing struct {
	Length          time.Duration // L, of a block: MinBlock to MaxBlock
	ClockDifference time.Duration // A: bounds the difference between the clocks of any two points

	// Delays from the ingress to the points after it. Those points change blocks later
	// than the ingress by MinDelay. It must be a lower bound for all of them, so 0 is
	// right where a point is next to the ingress.
	MinDelay, MaxDelay time.Duration
}

// Validate reports why a plan cannot work.
func (t Timing) Validate() error {
	switch {
	case t.Length < MinBlock || t.Length > MaxBlock:
		return fmt.Errorf("blocks of %v: choose a length from %v to %v", t.Length, MinBlock, MaxBlock)
	case t.ClockDifference < 0 || t.MinDelay < 0 || t.MaxDelay < t.MinDelay:
		return fmt.Errorf("clock difference %v, delays from %v to %v: none may be negative, nor the greatest delay be less than the least",
			t.ClockDifference, t.MinDelay, t.MaxDelay)
	case t.ClockDifference > t.Length || t.MaxDelay > t.Length || 2*t.Guard() >= t.Length:
		// Without the first two conditions the sum could overflow.
		return problem.New(
			fmt.Sprintf(
				"blocks of %v are too short for a clock difference of %v and delays from %v to %v: the clock difference plus the spread of the "+
					"delays must be less than half a block, and no delay longer than a block (RFC 9341 §5)",
				t.Length,
				t.ClockDifference,
				t.MinDelay,
				t.MaxDelay,
			),
			"lengthen the blocks",
		)
	}
	return nil
}

// Guard is the time d around each change of colour in which packets of both colours
// arrive: d = A + MaxDelay − MinDelay. With a MinDelay of 0 it is that of RFC 9341 §5.
func (t Timing) Guard() time.Duration { return t.ClockDifference + t.MaxDelay - t.MinDelay }

// Apart is how far two clocks may be apart, whose errors are at most these, in nanoseconds;
// false: it is not known, or further than planned.
func (t Timing) Apart(a, b int64) (time.Duration, bool) {
	allowed := int64(t.ClockDifference)
	if a < 0 || b < 0 || a > allowed || b > allowed-a {
		return 0, false
	}
	return time.Duration(a + b), true
}

// Block is the number of the block in which the ingress marks packets at a time.
func (t Timing) Block(at int64) int64 { return floor(at, int64(t.Length)) }

// Start is the time at which a block begins at the ingress.
func (t Timing) Start(block int64) int64 { return block * int64(t.Length) }

// Colour is the colour of a block's packets, 0 or 1.
type Colour uint8

// ColourOf is the colour of a block.
func ColourOf(block int64) Colour { return Colour(block & 1) }

// Window is the time, by the point's own clock, in which a point reads the counters of a
// closed block: from inclusive, to exclusive. Within it, the block's packets have
// arrived, and the next block of the same colour has not begun (RFC 9341 §5). A point
// that reads at the end notices the most late packets.
func (t Timing) Window(block int64, ingress bool) (from, to int64) {
	change := t.Start(block + 1)
	if !ingress {
		change += int64(t.MinDelay)
	}
	return change + int64(t.Guard()), change + int64(t.Length-t.Guard())
}

// Turn says whether a packet's colour is the one that its time lets expect.
type Turn uint8

const (
	// InTurn: the block is certain, if clocks and delays are as planned.
	InTurn Turn = iota
	// Late: the packet's block ended longer ago than the guard.
	Late
	// OutOfTurn: the time is far from each block of the colour. The packet may be late
	// in the block before, or early in the one after.
	OutOfTurn
)

// Assign finds the block of a packet that a point after the ingress receives. For a
// packet that is OutOfTurn it is the block after; the one two before it is as likely.
func (t Timing) Assign(at int64, colour Colour) (block int64, turn Turn) {
	at -= int64(t.MinDelay)
	length, guard := int64(t.Length), int64(t.Guard())
	now := t.Block(at)
	phase := at - t.Start(now)
	switch {
	case colour == ColourOf(now):
		return now, InTurn
	case phase < guard:
		return now - 1, InTurn
	case phase < length/2:
		return now - 1, Late
	case phase < length-guard:
		return now + 1, OutOfTurn
	}
	return now + 1, InTurn
}

// Around are the blocks to which a packet that a point after the ingress receives may
// belong, if it has no mark: one, or two near a change of colour.
func (t Timing) Around(at int64) (first, last int64) {
	at -= int64(t.MinDelay)
	return t.Block(at - int64(t.Guard())), t.Block(at + int64(t.Guard()))
}

// floor is a/b rounded down.
func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
