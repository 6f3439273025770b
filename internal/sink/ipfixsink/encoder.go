// SPDX-License-Identifier: Apache-2.0

// Package ipfixsink sends records to IPFIX collectors (RFC 7011).
package ipfixsink

import (
	"sync"
	"sync/atomic"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
)

// Encoder encodes records as IPFIX data records, each once for however many
// collectors. A postcard or a flow is one data record; a trace is one for each of
// its nodes, which share a report id.
type Encoder struct {
	templates *record.Templates
	options   *record.Options
	report    atomic.Uint32 // the last one
	scratch   sync.Pool     // of *record.Encoding
}

// NewEncoder makes the encoder of records whose elements of our own are under an
// enterprise number.
func NewEncoder(enterprise ipfix.Enterprise) (*Encoder, error) {
	t, err := record.NewTemplates(enterprise)
	if err != nil {
		return nil, err
	}
	options, err := record.NewOptions(t.Registry)
	if err != nil {
		return nil, err
	}
	x := &Encoder{templates: t, options: options}
	x.scratch.New = func() any { return t.Encoding() }
	return x, nil
}

// Open makes the sink of a collector. Sinks whose elements of our own are under one
// enterprise number share an encoder.
func Open(config Config, enterprise ipfix.Enterprise, env sink.Environment) (*Sink, error) {
	if shared, ok := env.Shared.Load(enterprise); ok {
		return New(config, shared.(*Encoder), env)
	}
	made, err := NewEncoder(enterprise)
	if err != nil {
		return nil, err
	}
	shared, _ := env.Shared.LoadOrStore(enterprise, made)
	return New(config, shared.(*Encoder), env)
}

// offer encodes a record and puts it into the queues of sinks, all made with this
// encoder. It keeps nothing of the record, and never waits.
func (x *Encoder) offer(r record.Record, to []*Sink) {
	e := x.scratch.Get().(*record.Encoding)
	defer x.scratch.Put(e)
	switch r := r.(type) {
	case *record.Postcard:
		give(e, to, r, 0, e.Postcard(r))
	case *record.Flow:
		give(e, to, r, 0, e.Flow(r))
	case *record.Trace:
		report := x.report.Add(1)
		for i := range max(len(r.Raw), 1) { // a trace without nodes has a record too
			give(e, to, r, i, e.Hop(r, i, report))
		}
	}
}

// give hands on what was encoded of a record, or that it was not.
func give(e *record.Encoding, to []*Sink, r record.Record, index int, err error) {
	for _, s := range to {
		if err != nil {
			s.refused(err, record.Weigh(r, index))
		} else {
			s.queue.put(e.Layout.Index, e.Octets)
		}
	}
}

// Offer encodes a record and queues it.
func (c *Sink) Offer(r record.Record) { c.shared.offer(r, []*Sink{c}) }

// Group gives what encodes a record once for all sinks with the same encoder.
func (c *Sink) Group(others []sink.Sink) (offer func(record.Record), rest []sink.Sink) {
	group := []*Sink{c}
	for _, o := range others {
		if s, ok := o.(*Sink); ok && s.shared == c.shared {
			group = append(group, s)
		} else {
			rest = append(rest, o)
		}
	}
	return func(r record.Record) { c.shared.offer(r, group) }, rest
}

// Close does nothing: a sink that does not run has no connection.
func (c *Sink) Close() {}
