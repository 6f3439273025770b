// SPDX-License-Identifier: Apache-2.0

// Package edgetoedge measures flows from edge to edge: it computes what became of the packets
// that an encapsulating node has numbered and stamped (RFC 9197 §4.6), from the numbers
// that arrive at the decapsulating node. It has no clock, no input and no output. The BPF
// programs compute the same (bpf/lib/option/e2e.h).
package edgetoedge

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/ioam"
)

const (
	// groupBits is how many numbers a group has, as a power of two.
	groupBits = 6
	// Window is how many groups of numbers a flow remembers: the group of the highest number, and
	// the groups before it.
	Window = 16
	// MostAhead is how far above the highest number the next one may be.
	MostAhead = 1 << 30
	// MostDelay bounds one-way delays: beyond it, clocks do not agree on the time at all.
	MostDelay = time.Duration(1 << 36)
	// Repeated is how many numbers at least were given out before a 0 and a 1 that come
	// again, one right after the other, mean that numbers began again.
	Repeated = 16
)

// Key is what the packets have in common that share numbers.
type Key struct {
	Namespace   ioam.NamespaceID
	Type        ioam.EdgeToEdgeType // which fields the options have
	Source      netip.Addr          // of the packet inside the tunnel, if it is in one
	Destination netip.Addr
	FlowLabel   uint32
	Tunnel      uint64 // TunnelHash of the outer header, 0 when there is none
}

// TunnelHash tells tunnels apart, by the addresses of an outer header. It is the same at
// both ends, and never 0.
func TunnelHash(source, destination [16]byte) uint64 {
	word := binary.LittleEndian.Uint64
	h := word(source[:8])*0x9e3779b97f4a7c15 + word(source[8:])*0xbf58476d1ce4e5b9 +
		word(destination[:8])*0x94d049bb133111eb + word(destination[8:])*0xd6e8feb86659fd93
	return max(h, 1)
}

// Totals are what was counted of a flow.
type Totals struct {
	Packets    uint64
	Expected   uint64 // numbers from the lowest to the highest one that came
	Unique     uint64 // of these, how many came
	Duplicates uint64 // numbers that came again
	Reordered  uint64 // numbers that came, for the first time, after a higher one
	Late       uint64 // numbers below the window or far ahead, of which it is not known whether they came before
	Restarts   uint64 // how often the numbers began again
	Delays     uint64 // packets whose delay is known
	DelaySum   time.Duration
	DelayMin   time.Duration // negative where the clocks differ by more than the delay
	DelayMax   time.Duration
}

// Flow counts the packets of a flow. The zero value has counted none.
type Flow struct {
	Totals
	numbered         bool
	highest, lowest  uint64
	restartNumber    uint64 // if mayHaveRestarted, the number that would mean that numbers began again
	mayHaveRestarted bool
	seen             map[uint64]bool // numbers of the window, and older ones
}

// Add counts a packet with an option, and its delay if that is known.
func (f *Flow) Add(option ioam.EdgeToEdge, delay time.Duration, known bool) {
	f.Packets++
	switch number := option.Sequence; {
	case option.Type.Has(ioam.EdgeToEdgeSequence64):
		f.number(number)
	case option.Type.Has(ioam.EdgeToEdgeSequence32) && f.numbered:
		// where it is nearest to the highest one
		f.number(f.highest + uint64(int64(int32(uint32(number)-uint32(f.highest)))))
	case option.Type.Has(ioam.EdgeToEdgeSequence32):
		f.number(number | 1<<32) // so that the first may come late
	}
	if !known {
		return
	}
	if f.Delays == 0 || delay < f.DelayMin {
		f.DelayMin = delay
	}
	if f.Delays == 0 || delay > f.DelayMax {
		f.DelayMax = delay
	}
	f.DelaySum += delay
	f.Delays++
}

// number counts a number. Two consecutive numbers that are below the window, or far ahead, and come
// one right after the other, mean that the encapsulating node began the flow's numbers again: the flow
// had left its table. So do 0 and 1, if both came before.
func (f *Flow) number(n uint64) {
	ahead := int64(n - f.highest)
	inside := ahead <= 0 && f.highest>>groupBits-n>>groupBits < Window
	switch {
	case !f.numbered:
		f.numbered, f.highest, f.lowest = true, n, n
		f.seen = map[uint64]bool{n: true}
		f.Expected++
		f.Unique++
	case ahead > 0 && ahead <= MostAhead:
		f.highest, f.mayHaveRestarted = n, false
		f.mark(n)
		f.Expected += uint64(ahead)
		f.Unique++
	case f.mayHaveRestarted && n == f.restartNumber && (!inside || uint32(n) == 1):
		f.seen = map[uint64]bool{n - 1: true, n: true}
		f.highest, f.lowest, f.mayHaveRestarted = n, n-1, false
		f.Expected += 2
		f.Unique += 2
		f.Restarts++
	case inside:
		f.mayHaveRestarted = false
		if f.seen[n] {
			f.Duplicates++
			if uint32(n) == 0 && ahead <= -Repeated {
				f.restartNumber, f.mayHaveRestarted = n+1, true
			}
			return
		}
		f.mark(n)
		f.Unique++
		f.Reordered++
		if int64(n-f.lowest) < 0 {
			f.Expected += f.lowest - n
			f.lowest = n
		}
	default:
		f.restartNumber, f.mayHaveRestarted = n+1, true
		f.Late++
	}
}

// mark notes a number, and now and then forgets those below the window.
func (f *Flow) mark(n uint64) {
	f.seen[n] = true
	if len(f.seen) <= 4*Window<<groupBits {
		return
	}
	for old := range f.seen {
		if f.highest>>groupBits-old>>groupBits >= Window {
			delete(f.seen, old)
		}
	}
}

// Delay is how long a packet took, given its option's timestamp and when it arrived, in
// nanoseconds of TAI; taiOffset is TAI − UTC in nanoseconds. Both nodes have one timestamp
// format (RFC 9197 §5) and clocks that agree; where these differ by more than the delay,
// it is negative. It is not known without seconds and fraction, or beyond MostDelay.
func Delay(option ioam.EdgeToEdge, format ioam.TimestampFormat, tai, taiOffset int64) (delay time.Duration, known bool) {
	const (
		both      = ioam.EdgeToEdgeTimestampSeconds | ioam.EdgeToEdgeTimestampFraction
		unknown   = 1<<32 - 1 // RFC 9197 §4.6; both 0: RFC 5905 §6
		second    = uint64(time.Second)
		ntpEpoch  = 2_208_988_800 // from 1900-01-01 to 1970-01-01, s (RFC 8877 §4.2.1)
		era       = int64(second << 32)
		mostDelay = int64(MostDelay)
	)
	if !option.Type.Has(both) || option.Seconds == unknown || option.Fraction == unknown || option.Seconds|option.Fraction == 0 {
		return 0, false
	}
	now, fraction := uint64(tai), uint64(option.Fraction)
	switch format {
	case ioam.TimestampNTP:
		now += ntpEpoch*second - uint64(taiOffset)
		fraction = fraction * second >> 32
	case ioam.TimestampPOSIX:
		now -= uint64(taiOffset)
		fraction *= 1000
	}
	took := int64(now - uint64(option.Seconds)*second - fraction)
	switch { // seconds of 32 bits wrap around
	case took > era/2:
		took -= era
	case took < -era/2:
		took += era
	}
	return time.Duration(took), took > -mostDelay && took < mostDelay
}

// Losses computes how many packets of flows are lost, interval by interval. Numbers that
// come in a later interval than the following ones were reported as lost; they make up
// for later losses. The zero value is ready.
type Losses struct {
	balance map[Key]int64 // of packets that came although they had been reported as lost, negative
	kept    map[Key]int64
}

// AddTotals adds what a flow counted in an interval, and returns how many packets it has lost
// in it.
func (l *Losses) AddTotals(key Key, t Totals) (lost uint64) {
	balance := l.balance[key] + int64(t.Expected) - int64(t.Unique)
	if balance > 0 {
		return uint64(balance)
	}
	if balance < 0 {
		if l.kept == nil {
			l.kept = make(map[Key]int64)
		}
		l.kept[key] = balance
	}
	return 0
}

// EndInterval forgets the flows of which no totals were added since it was last called.
func (l *Losses) EndInterval() { l.balance, l.kept = l.kept, nil }
