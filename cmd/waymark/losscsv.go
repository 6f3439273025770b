// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/record"
)

// lossColumn is a column of comma-separated values; nil: records of the kind do not have it.
type lossColumn struct {
	name  string
	loss  func(*record.Loss) string
	delay func(*record.Delay) string
}

// lossValues are the columns of comma-separated values, for programs: names, units and times
// are those of records in JSON. What is not known, or not of the kind of record, is empty.
var lossValues = []lossColumn{
	{"kind", func(r *record.Loss) string { return r.Kind() }, func(r *record.Delay) string { return r.Kind() }},
	both("flow", func(m *record.Measurement) string { return m.Flow }),
	both("block", func(m *record.Measurement) string { return numberText(m.Block) }),
	both("start", func(m *record.Measurement) string { return m.Start.String() }),
	both("length_ns", func(m *record.Measurement) string { return unsignedText(m.Length) }),
	both("from", func(m *record.Measurement) string { return strconv.Itoa(int(m.From)) }),
	both("to", func(m *record.Measurement) string { return strconv.Itoa(int(m.To)) }),
	{"verdict", func(r *record.Loss) string { return r.Verdict.String() }, nil},
	{"sent", func(r *record.Loss) string { return numberText(r.Sent) }, nil},
	{"received", func(r *record.Loss) string { return numberText(r.Received) }, nil},
	{"lost", func(r *record.Loss) string { return numberText(r.Lost) }, nil},
	{"duplicated", func(r *record.Loss) string { return numberText(r.Duplicated) }, nil},
	{"ratio", func(r *record.Loss) string { return ratioText(r, -1) }, nil},
	{"sent_bytes", func(r *record.Loss) string { return numberText(r.SentBytes) }, nil},
	{"received_bytes", func(r *record.Loss) string { return numberText(r.ReceivedBytes) }, nil},
	{"lost_bytes", func(r *record.Loss) string { return numberText(r.LostBytes) }, nil},
	{"duplicated_bytes", func(r *record.Loss) string { return numberText(r.DuplicateBytes) }, nil},
	{"method", nil, func(r *record.Delay) string { return r.Method.String() }},
	{"samples", nil, func(r *record.Delay) string { return unsignedText(r.Samples) }},
	{"min_ns", nil, func(r *record.Delay) string { return signedText(r.Min) }},
	{"mean_ns", nil, func(r *record.Delay) string { return signedText(r.Mean) }},
	{"p95_ns", nil, func(r *record.Delay) string { return signedText(r.P95) }},
	{"jitter_ns", nil, func(r *record.Delay) string { return numberText(r.Jitter) }},
	{"from_clock_error_ns", nil, func(r *record.Delay) string { return numberText(r.FromClockError) }},
	{"to_clock_error_ns", nil, func(r *record.Delay) string { return numberText(r.ToClockError) }},
	{"from_reasons", func(r *record.Loss) string { return r.FromReasons.String() }, nil},
	{"to_reasons", func(r *record.Loss) string { return r.ToReasons.String() }, nil},
	{"warning", func(r *record.Loss) string { return r.Warning }, func(r *record.Delay) string { return r.Warning }},
	both("from_node", func(m *record.Measurement) string { return m.FromNode }),
	both("to_node", func(m *record.Measurement) string { return m.ToNode }),
	{"assumed", func(r *record.Loss) string { return strings.Join(r.Assumed.Names(), ",") }, nil},
	{"from_difference", func(r *record.Loss) string { return r.FromDifference }, nil},
	{"to_difference", func(r *record.Loss) string { return r.ToDifference }, nil},
	{"lost_min", func(r *record.Loss) string { return numberText(r.LostMin) }, nil},
}

// both is a column that records of loss and of delay have.
func both(name string, value func(*record.Measurement) string) lossColumn {
	return lossColumn{
		name,
		func(r *record.Loss) string { return value(&r.Measurement) },
		func(r *record.Delay) string { return value(&r.Measurement) },
	}
}

// lossNames are the names of the columns.
func lossNames() (names []string) {
	for _, c := range lossValues {
		names = append(names, c.name)
	}
	return names
}

// valuesOf are the columns of a record; nil if it is of another kind.
func valuesOf(r record.Record) (values []string) {
	for _, c := range lossValues {
		text := ""
		switch r := r.(type) {
		case *record.Loss:
			if c.loss != nil {
				text = c.loss(r)
			}
		case *record.Delay:
			if c.delay != nil {
				text = c.delay(r)
			}
		default:
			return nil
		}
		values = append(values, text)
	}
	return values
}

func unsignedText(n uint64) string { return strconv.FormatUint(n, 10) }

func signedText(n int64) string { return strconv.FormatInt(n, 10) }
