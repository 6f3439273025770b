// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/record"
)

// observedSum is what an observer has seen in all.
type observedSum struct {
	began   time.Time
	kinds   map[string]uint64
	order   []string // of the kinds, as they came first
	took    exponential.Delays
	unknown uint64 // traces whose whole delay is not known
}

func (s *observedSum) add(r record.Record) {
	if s.kinds == nil {
		s.kinds = make(map[string]uint64)
	}
	if s.kinds[r.Kind()]++; s.kinds[r.Kind()] == 1 {
		s.order = append(s.order, r.Kind())
	}
	if trace, is := r.(*record.Trace); is {
		if trace.PathDelay.Valid {
			s.took.Add(int64(trace.PathDelay.Value))
		} else {
			s.unknown++
		}
	}
}

// text sums up several records: how many came of which kind, how many a second, and how long traces took.
// "" is of less than two.
func (s *observedSum) text(now time.Time) string {
	var parts []string
	all := uint64(0)
	for _, kind := range s.order {
		all += s.kinds[kind]
		parts = append(parts, fmt.Sprintf("%s %d", kind, s.kinds[kind]))
	}
	if all < 2 {
		return ""
	}
	took := now.Sub(s.began)
	text := columns.Counted(all, "record") + " in " + columns.Duration(took)
	if took > 0 {
		text += ", " + perSecond(float64(all)/took.Seconds()) + " a second"
	}
	if len(parts) > 1 || s.order[0] != record.KindTrace {
		text += ": " + strings.Join(parts, ", ")
	}
	if s.took.Count() > 0 {
		at := func(q float64) string { return columns.Duration(time.Duration(s.took.Quantile(q))) }
		text += fmt.Sprintf("; end to end p50 %s, p99 %s, max %s", at(0.5), at(0.99), columns.Duration(time.Duration(s.took.Max())))
	}
	if s.unknown > 0 {
		text += fmt.Sprintf("; of %s, the whole delay is not known", columns.Counted(s.unknown, "trace"))
	}
	return text
}
