// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// protobuf is the exposition in Prometheus' protobuf format: messages MetricFamily of
// io/prometheus/client/metrics.proto (github.com/prometheus/client_model), each after its length.
// Histograms have both kinds of buckets. The numbers below are those of that file's fields.
func (g *Gatherer) protobuf() []byte {
	var b []byte
	for _, f := range g.sorted() {
		b = protowire.AppendBytes(b, f.message())
	}
	if g.process {
		var text bytes.Buffer
		writeProcess(&text)
		for _, f := range parseText(text.String()) {
			b = protowire.AppendBytes(b, f.message())
		}
	}
	return b
}

// fields are the fields of a message, as they are on the wire.
type fields []byte

func (b *fields) text(number protowire.Number, s string) {
	*b = protowire.AppendString(protowire.AppendTag(*b, number, protowire.BytesType), s)
}

func (b *fields) inner(number protowire.Number, m fields) {
	*b = protowire.AppendBytes(protowire.AppendTag(*b, number, protowire.BytesType), m)
}

func (b *fields) uint(number protowire.Number, v uint64) {
	*b = protowire.AppendVarint(protowire.AppendTag(*b, number, protowire.VarintType), v)
}

func (b *fields) sint(number protowire.Number, v int64) { b.uint(number, protowire.EncodeZigZag(v)) }

func (b *fields) double(number protowire.Number, v float64) {
	*b = protowire.AppendFixed64(protowire.AppendTag(*b, number, protowire.Fixed64Type), math.Float64bits(v))
}

// message is a MetricFamily.
func (f *family) message() (b fields) {
	b.text(1, f.Name)
	b.text(2, f.Help)
	b.uint(3, uint64(f.kind()))
	for i := range f.series {
		b.inner(4, f.series[i].message(f.kind(), f.Bounds))
	}
	return b
}

// valueFields are the fields of a Metric, by kind.
var valueFields = [...]protowire.Number{counter: 3, gauge: 2, summary: 4, untyped: 5, histogram: 7}

// message is a Metric.
func (s *series) message(k kind, bounds []float64) (b fields) {
	for _, p := range s.pairs {
		var l fields
		l.text(1, p.name)
		l.text(2, p.value)
		b.inner(1, l)
	}
	var v fields
	switch {
	case s.histogram != nil:
		v = s.histogram.message(bounds)
	case s.quantiles != nil:
		v = s.quantiles.message()
	default:
		v.double(1, s.value)
	}
	b.inner(valueFields[k], v)
	return b
}

// message is a Histogram.
func (p *prepared) message(bounds []float64) (b fields) {
	b.uint(1, p.count)
	b.double(2, p.sum)
	for i, n := range p.cumulative {
		var bucket fields
		bucket.uint(1, n)
		bucket.double(2, bounds[i])
		b.inner(3, bucket)
	}
	if p.native == nil {
		return b
	}
	b.sint(5, int64(p.native.Scale))
	b.double(6, p.native.ZeroThreshold)
	b.uint(7, p.native.Zero)
	spans, deltas := nativeSpans(p.native)
	for _, s := range spans {
		var one fields
		one.sint(1, int64(s.offset))
		one.uint(2, uint64(s.length))
		b.inner(12, one)
	}
	for _, d := range deltas {
		b.sint(13, d)
	}
	return b
}

// message is a Summary.
func (q *quantiles) message() (b fields) {
	b.uint(1, q.count)
	b.double(2, q.sum)
	for _, one := range q.list {
		var f fields
		f.double(1, one.quantile)
		f.double(2, one.value)
		b.inner(3, f)
	}
	return b
}
