// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// only is a Sink that gets the records of some kinds, or of all others.
type only struct {
	Sink
	kinds  []string
	others bool
}

// Only makes a sink that passes only records of these kinds on to another one.
func Only(to Sink, kinds ...string) Sink { return &only{Sink: to, kinds: kinds} }

// Except makes a sink that passes all but records of these kinds on to another one.
func Except(to Sink, kinds ...string) Sink { return &only{Sink: to, kinds: kinds, others: true} }

func (o *only) wants(kind string) bool { return slices.Contains(o.kinds, kind) != o.others }

// Await waits for the other sink.
func (o *only) Await(records int, most time.Duration) bool { return Await(o.Sink, records, most) }

// Offer passes on what is wanted.
func (o *only) Offer(records ...record.Record) {
	first := slices.IndexFunc(records, func(r record.Record) bool { return !o.wants(r.Kind()) })
	if first < 0 {
		o.Sink.Offer(records...)
		return
	}
	rest := slices.Clone(records[:first]) // the caller uses its memory again
	for _, r := range records[first:] {
		if o.wants(r.Kind()) {
			rest = append(rest, r)
		}
	}
	if len(rest) > 0 {
		o.Sink.Offer(rest...)
	}
}

// Report passes on until when postcards were offered, if they are.
func (o *only) Report(r Report) {
	if to, ok := o.Sink.(Reporter); ok && o.wants(record.KindPostcard) {
		to.Report(r)
	}
}
