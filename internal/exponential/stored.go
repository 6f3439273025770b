// SPDX-License-Identifier: Apache-2.0

package exponential

// Restored makes a histogram of what was kept of one: its sum and greatest delay, how many were not above 0,
// and the buckets that are not empty, in any order. What cannot be a histogram of delays is an error.
func Restored(sum uint64, greatestDelay int64, zero uint64, buckets []Bucket) (Delays, error) {
	out := Delays{count: zero, zero: zero, sum: sum, max: greatestDelay}
	for _, b := range buckets {
		if b.Index < -1 || b.Index > greatest || out.count+b.Count < out.count {
			return Delays{}, errBuckets
		}
		if b.Count == 0 {
			continue
		}
		out.count += b.Count
		*out.slot(b.Index) += b.Count
	}
	return out, nil
}
