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

// Encoder encodes records as IPFIX data records, each only once for all collectors. A
// trace is one data record for each of its nodes, which share a report id; everything
// else is one data record.
type Encoder struct {
	templates *record.Templates
	options   *record.Options
	report    atomic.Uint32 // the last one
	scratch   sync.Pool     // of *encoding
}

// NewEncoder makes an encoder with Waymark's own elements under an enterprise number.
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
	x.scratch.New = func() any { return &encoding{Encoding: t.Encoding()} }
	return x, nil
}

// Open makes the sink of a collector. Sinks with the same enterprise number share an
// encoder.
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

// encoding is the memory of one call of offer. It is used again.
type encoding struct {
	*record.Encoding
	batch block
}

// batchLimit is how many octets are encoded before queues get them.
const batchLimit = 16 << 10

// offer encodes records and puts them into the queues of sinks, all made with this
// encoder. It keeps no reference to the records, and never waits.
func (x *Encoder) offer(records []record.Record, to []*Sink) {
	e := x.scratch.Get().(*encoding)
	defer x.scratch.Put(e)
	for _, r := range records {
		count, joined := e.Parts(r)
		var number uint32
		if joined {
			number = x.report.Add(1)
		}
		for i := range count {
			e.addToBatch(to, r, i, e.Encode(r, i, number))
		}
		if len(e.batch.data) > batchLimit {
			e.queue(to)
		}
	}
	e.queue(to)
}

// addToBatch adds the encoded record to the batch, or counts that it could not be encoded.
func (e *encoding) addToBatch(to []*Sink, r record.Record, index int, err error) {
	if err == nil {
		e.batch.append(e.Layout.Index, e.Octets)
		return
	}
	for _, s := range to {
		s.refused(err, record.Weigh(r, index))
	}
}

// queue puts the batch into the queues of sinks.
func (e *encoding) queue(to []*Sink) {
	if e.batch.records == 0 {
		return
	}
	for _, s := range to {
		s.queue.put(&e.batch)
	}
	e.batch.data, e.batch.records = e.batch.data[:0], 0
}

// Offer encodes records and queues them.
func (c *Sink) Offer(records ...record.Record) { c.shared.offer(records, []*Sink{c}) }

// Group returns a function that encodes records once for all sinks with the same
// encoder.
func (c *Sink) Group(others []sink.Sink) (offer func(...record.Record), rest []sink.Sink) {
	group := []*Sink{c}
	for _, o := range others {
		if s, ok := o.(*Sink); ok && s.shared == c.shared {
			group = append(group, s)
		} else {
			rest = append(rest, o)
		}
	}
	return func(records ...record.Record) { c.shared.offer(records, group) }, rest
}

// Close does nothing: a sink that does not run has no connection.
func (c *Sink) Close() {}
