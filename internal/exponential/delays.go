// SPDX-License-Identifier: Apache-2.0

package exponential

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// DelayScale is the scale of Delays: 16 buckets for each power of two, so that a quantile is at most
// 2.2% from the value that it stands for.
const DelayScale = 4

const (
	perPower = 1 << DelayScale
	greatest = 63*perPower - 1
)

// mantissas are the bounds of the buckets of one power of two, times 2^63: fixed point numbers, so
// that a delay finds its bucket without floating point.
var mantissas = func() (all [perPower]uint64) {
	for i := range all {
		all[i] = uint64(math.Ldexp(ratios[DelayScale][i], 63))
	}
	return all
}()

// guesses are, for the first bits of a mantissa, the last bucket with a bound below the smallest
// mantissa with these bits. The right one is this or the next: buckets are wider than a guess.
var guesses = func() (all [1 << guessBits]uint8) {
	for i := range all {
		smallest := 1<<63 | uint64(i)<<(63-guessBits)
		for k, bound := range mantissas {
			if bound <= smallest {
				all[i] = uint8(k)
			}
		}
	}
	return all
}()

const guessBits = 6 // 1/64 of a power of two: less than the narrowest bucket, 1/23

// Delays is a histogram of delays in nanoseconds, of scale 4, that is cheap to add to: its counts are
// a row from the first bucket to the last one with a value. The zero value is empty. It is not for
// several goroutines at once.
type Delays struct {
	count, zero, sum uint64
	max              int64
	first            int      // index of counts[0]
	counts           []uint64 // 8 bytes for each bucket between the least and the greatest delay
}

// Add counts a delay. Negative ones are not delays: the caller leaves them out; here they count as 0.
func (d *Delays) Add(ns int64) { d.AddN(ns, 1) }

// AddN counts n equal delays.
func (d *Delays) AddN(ns int64, n uint64) {
	d.count += n
	if ns <= 0 {
		d.zero += n
		return
	}
	d.sum += uint64(ns) * n
	d.max = max(d.max, ns)
	*d.slot(delayIndex(uint64(ns))) += n
}

// delayIndex is IndexOf(ns, DelayScale) for a whole number from 1 on.
func delayIndex(ns uint64) int {
	shift := bits.LeadingZeros64(ns)
	mantissa := ns << shift
	k := int(guesses[mantissa>>(63-guessBits)&(1<<guessBits-1)])
	if k+1 < perPower && mantissa > mantissas[k+1] {
		k++
	}
	if mantissa <= mantissas[k] {
		k-- // a bound belongs to the bucket below it
	}
	return (63-shift)*perPower + k
}

// slot is the count of a bucket.
func (d *Delays) slot(index int) *uint64 {
	switch at := index - d.first; {
	case len(d.counts) == 0:
		d.first = index
		d.counts = append(d.counts, 0)
		return &d.counts[0]
	case at < 0:
		d.counts = slices.Insert(d.counts, 0, make([]uint64, -at)...)
		d.first = index
		return &d.counts[0]
	case at >= len(d.counts):
		d.counts = append(d.counts, make([]uint64, at+1-len(d.counts))...)
		return &d.counts[at]
	default:
		return &d.counts[at]
	}
}

// Merge counts what another histogram counts.
func (d *Delays) Merge(o *Delays) {
	d.count += o.count
	d.zero += o.zero
	d.sum += o.sum
	d.max = max(d.max, o.max)
	if len(o.counts) == 0 {
		return
	}
	d.slot(o.first)
	d.slot(o.first + len(o.counts) - 1)
	mine := d.counts[o.first-d.first:]
	for i, n := range o.counts {
		mine[i] += n
	}
}

// Since is what came since an earlier copy of it, whose buckets it has. Its maximum is that of all.
func (d *Delays) Since(o *Delays) Delays {
	out := d.Clone()
	if o.count == 0 || o.count > d.count {
		return out // it was emptied since
	}
	out.count -= o.count
	out.zero -= min(o.zero, out.zero)
	out.sum -= min(o.sum, out.sum)
	for i, n := range o.counts {
		if at := o.first + i - out.first; at >= 0 && at < len(out.counts) {
			out.counts[at] -= min(n, out.counts[at])
		}
	}
	return out
}

// Clone is a copy.
func (d *Delays) Clone() Delays {
	out := *d
	out.counts = slices.Clone(d.counts)
	return out
}

// Reset empties it, and keeps its memory.
func (d *Delays) Reset() { *d = Delays{counts: d.counts[:0]} }

// Count is how many delays it has.
func (d *Delays) Count() uint64 { return d.count }

// Sum is their sum in nanoseconds.
func (d *Delays) Sum() uint64 { return d.sum }

// Max is the greatest one, exactly.
func (d *Delays) Max() int64 { return d.max }

// Size is how many octets of memory it takes beyond itself.
func (d *Delays) Size() int { return 8 * cap(d.counts) }

// Quantile is the delay that is not exceeded by a part q of all, such as 0.99: by the nearest rank, the
// middle of its bucket, so that it is at most 2.2% from it. It is 0 of an empty histogram.
func (d *Delays) Quantile(q float64) int64 {
	if d.count == 0 {
		return 0
	}
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(d.count)))
	rank = min(max(rank, 1), d.count)
	if rank == d.count {
		return d.max
	}
	if rank <= d.zero {
		return 0
	}
	seen := d.zero
	for i, n := range d.counts {
		if seen += n; seen >= rank {
			return min(middle(d.first+i), d.max)
		}
	}
	return d.max
}

// middle is the value in a bucket from which both bounds have the same ratio.
func middle(index int) int64 {
	return int64(math.Round(math.Exp2((float64(index) + 0.5) / perPower)))
}

// Histogram is the same with its buckets alone, for metrics.
func (d *Delays) Histogram() *Histogram {
	return &Histogram{Scale: DelayScale, Zero: d.zero, Buckets: d.buckets()}
}

func (d *Delays) buckets() (list []Bucket) {
	for i, n := range d.counts {
		if n > 0 {
			list = append(list, Bucket{d.first + i, n})
		}
	}
	return list
}

// encoded is a histogram in JSON. The number of delays is the sum of zero and the buckets.
type encoded struct {
	Sum     uint64      `json:"sum_ns"`
	Max     int64       `json:"max_ns"`
	Zero    uint64      `json:"zero,omitempty"`
	Buckets [][2]uint64 `json:"buckets,omitempty"` // index and count; 1 ns has the index -1, written as 0: all are greater by one
}

// MarshalJSON writes the buckets that are not empty, as pairs: its index by Prometheus, so that it
// ends at 2^(index/16) ns, and how many delays it has.
func (d Delays) MarshalJSON() ([]byte, error) {
	e := encoded{Sum: d.sum, Max: d.max, Zero: d.zero}
	for _, b := range d.buckets() {
		e.Buckets = append(e.Buckets, [2]uint64{uint64(b.Index + 1), b.Count})
	}
	return json.Marshal(e)
}

var errBuckets = errors.New("the buckets of a histogram are not in order, or their counts do not add up")

// UnmarshalJSON reads it back, and refuses what cannot be a histogram of delays.
func (d *Delays) UnmarshalJSON(b []byte) error {
	var e encoded
	if err := json.Unmarshal(b, &e); err != nil {
		return fmt.Errorf("a histogram of delays: %w", err)
	}
	out := Delays{count: e.Zero, zero: e.Zero, sum: e.Sum, max: e.Max}
	before := -1
	for _, pair := range e.Buckets {
		if pair[0] > greatest+1 || int(pair[0]) <= before || pair[1] == 0 || out.count+pair[1] < out.count {
			return errBuckets
		}
		before = int(pair[0])
		out.count += pair[1]
		*out.slot(before - 1) = pair[1]
	}
	if n := len(out.counts); n == 0 && (e.Max != 0 || e.Sum != 0) || n > 0 && (e.Max < 1 || delayIndex(uint64(e.Max)) != before-1) {
		return errBuckets
	}
	*d = out
	return nil
}

// IsZero reports whether it is empty, for JSON.
func (d Delays) IsZero() bool { return d.count == 0 }
