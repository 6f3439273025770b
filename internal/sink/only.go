// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"slices"

	"github.com/waymark-net/waymark/internal/record"
)

// only is a Sink that gets the records of some kinds.
type only struct {
	Sink
	kinds []string
}

// Only makes a sink that passes only records of these kinds on to another one.
func Only(to Sink, kinds ...string) Sink { return &only{to, kinds} }

// Offer passes on what is wanted.
func (o *only) Offer(records ...record.Record) {
	wanted := func(r record.Record) bool { return slices.Contains(o.kinds, r.Kind()) }
	first := slices.IndexFunc(records, func(r record.Record) bool { return !wanted(r) })
	if first < 0 {
		o.Sink.Offer(records...)
		return
	}
	rest := slices.Clone(records[:first]) // the caller uses its memory again
	for _, r := range records[first:] {
		if wanted(r) {
			rest = append(rest, r)
		}
	}
	if len(rest) > 0 {
		o.Sink.Offer(rest...)
	}
}

// Report passes on until when postcards were offered, if they are.
func (o *only) Report(r Report) {
	if to, ok := o.Sink.(Reporter); ok && slices.Contains(o.kinds, record.KindPostcard) {
		to.Report(r)
	}
}
