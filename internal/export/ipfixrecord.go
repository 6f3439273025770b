// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// IPFIX encodes records as IPFIX data records (RFC 7011), each once for however
// many collectors. A postcard or a flow is one data record; a trace is one for
// each of its nodes, which share a report id.
type IPFIX struct {
	templates *templates
	report    atomic.Uint32 // the last one
	scratch   sync.Pool     // of *encoding
}

// NewIPFIX makes the encoder of records whose elements of our own are under an
// enterprise number.
func NewIPFIX(enterprise ipfix.Enterprise) (*IPFIX, error) {
	t, err := newTemplates(enterprise)
	if err != nil {
		return nil, err
	}
	x := &IPFIX{templates: t}
	x.scratch.New = func() any { return &encoding{templates: t} }
	return x, nil
}

// Offer encodes a record and puts it into the queues of collectors, all made
// with this encoder. It keeps nothing of the record, and never waits.
func (x *IPFIX) Offer(r Record, to []*Collector) {
	e := x.scratch.Get().(*encoding)
	defer x.scratch.Put(e)
	switch r := r.(type) {
	case *Postcard:
		e.give(to, r, 0, e.postcard(r))
	case *Flow:
		e.give(to, r, 0, e.flow(r))
	case *TraceRecord:
		report := x.report.Add(1)
		for i := range max(len(r.Raw), 1) { // a trace without nodes has a record too
			e.give(to, r, i, e.hop(r, i, report))
		}
	}
}

// encoding is where one goroutine encodes.
type encoding struct {
	templates *templates
	layout    *layout // of the last record
	buf       []byte  // the last record
}

// give hands on what was encoded of a record, or that it was not.
func (e *encoding) give(to []*Collector, r Record, index int, err error) {
	for _, c := range to {
		if err != nil {
			c.refused(err, weigh(r, index))
		} else {
			c.queue.put(e.layout.index, e.buf)
		}
	}
}

// errData: the node data are not as long as the trace type says.
var errData = errors.New("the node data do not have the length that their trace type says")

// begin finds the layout of a shape and begins a record.
func (e *encoding) begin(s shape) (w ipfix.RecordWriter, err error) {
	if e.layout == nil || e.layout.shape != s {
		if e.layout, err = e.templates.of(s); err != nil {
			return w, err
		}
	}
	return e.layout.template.Record(e.buf[:0]), nil
}

func (e *encoding) end(w *ipfix.RecordWriter) (err error) {
	e.buf, err = w.End()
	return err
}

func packetShape(p *Packet) uint8 {
	switch {
	case !p.Source.Is6() || !p.Destination.Is6():
		return packetUnknown
	case p.SourcePort == nil || p.DestinationPort == nil:
		return packetPortless
	}
	return packetPorts
}

// packet writes what is known of the packet, with its length unless it is a
// flow's.
func packet(w *ipfix.RecordWriter, s shape, p *Packet) {
	if s.packet == packetUnknown {
		return
	}
	w.Addr(p.Source)
	w.Addr(p.Destination)
	w.Uint(uint64(p.NextHeader))
	w.Uint(uint64(p.FlowLabel))
	if s.packet == packetPorts {
		w.Uint(uint64(*p.SourcePort))
		w.Uint(uint64(*p.DestinationPort))
	}
	if s.kind != kindFlow {
		w.Uint(uint64(p.Length))
	}
}

func (e *encoding) postcard(p *Postcard) error {
	s := shape{
		kind: kindPostcard, packet: packetShape(&p.Packet), flowID: p.FlowID.Present, sequence: p.Sequence.Present,
		traceType: p.TraceType & typeFields,
	}
	if p.Raw.Type != p.TraceType {
		return errData
	}
	w, err := e.begin(s)
	if err != nil {
		return err
	}
	for range 3 { // observed, start, end
		moment(&w, p.Time.Time)
	}
	packet(&w, s, &p.Packet)
	w.Uint(uint64(point(p.Role, p.IngressIfIndex, p.EgressIfIndex)))
	w.Uint(uint64(p.IngressIfIndex))
	w.Uint(uint64(p.EgressIfIndex))
	w.Uint(uint64(p.Role))
	w.Uint(uint64(ioam.IOAMDirectExport))
	w.Uint(uint64(p.Namespace))
	w.Uint(uint64(p.TraceType))
	w.Uint(uint64(p.Flags))
	w.Uint(uint64(p.ExtensionFlags))
	if e.layout.shape.flowID {
		w.Uint(uint64(p.FlowID.Value))
	}
	if e.layout.shape.sequence {
		w.Uint(uint64(p.Sequence.Value))
	}
	if err := e.data(&w, p.Raw, p.Time.Time); err != nil {
		return err
	}
	return e.end(&w)
}

// hop encodes what the node at an index of a trace wrote.
func (e *encoding) hop(r *TraceRecord, index int, report uint32) error {
	if len(r.Raw) != len(r.Nodes) {
		return errData
	}
	s := shape{kind: kindHop, packet: packetShape(&r.Packet), traceType: r.TraceType & typeFields}
	if r.Source == SourceKernel {
		s.kind = kindKernelHop
	}
	// Once for each trace, so that collectors count it once.
	s.pathDelay = r.PathDelay.Valid && index == len(r.Raw)-1
	w, err := e.begin(s)
	if err != nil {
		return err
	}
	option, flags := ioam.IOAMPreallocatedTrace, ioam.TraceFlags(0)
	if r.Option == ioam.IOAMIncrementalTrace.String() {
		option = ioam.IOAMIncrementalTrace
	}
	if r.Overflow.Value {
		flags = ioam.FlagOverflow
	}
	raw, at := ioam.NodeData{}, time.Time{}
	if len(r.Raw) > 0 {
		raw, at = r.Raw[index], r.Nodes[index].Timestamp.Value
	}
	for range 3 { // observed, start, end
		moment(&w, r.Time.Time)
	}
	packet(&w, s, &r.Packet)
	if s.kind == kindHop {
		w.Uint(uint64(r.IfIndex))
		w.Uint(uint64(r.IfIndex))
	}
	w.Uint(uint64(option))
	w.Uint(uint64(r.Namespace))
	w.Uint(uint64(r.TraceType))
	w.Uint(uint64(report))
	w.Uint(uint64(index))
	w.Uint(uint64(len(r.Raw)))
	if s.kind == kindHop {
		w.Uint(uint64(flags))
		w.Uint(uint64(r.Remaining.Value))
	} else {
		w.Uint(uint64(r.Source))
	}
	if s.pathDelay {
		for range pathDelayFields {
			w.Uint(uint64(r.PathDelay.Value))
		}
	}
	if err := e.data(&w, raw, at); err != nil {
		return err
	}
	return e.end(&w)
}

func (e *encoding) flow(f *Flow) error {
	s := shape{
		kind: kindFlow, packet: packetShape(&f.Packet), flowID: f.FlowID.Present,
		gaps: f.SequenceGaps.Valid, reordered: f.Reordered.Valid,
	}
	w, err := e.begin(s)
	if err != nil {
		return err
	}
	moment(&w, f.Time.Time)
	packet(&w, s, &f.Packet)
	w.Uint(uint64(point(f.Role, f.IngressIfIndex, f.EgressIfIndex)))
	w.Uint(uint64(f.IngressIfIndex))
	w.Uint(uint64(f.EgressIfIndex))
	w.Uint(uint64(f.Role))
	w.Uint(uint64(f.Namespace))
	w.Uint(uint64(f.TraceType))
	if s.flowID {
		w.Uint(uint64(f.FlowID.Value))
	}
	w.Uint(f.Packets)
	w.Uint(f.Bytes)
	for range 2 { // milliseconds, nanoseconds
		moment(&w, f.First.Time)
		moment(&w, f.Last.Time)
	}
	d := f.TransitDelay
	if d == nil {
		d = &Delays{Min: ioam.DataUnavailable, Max: ioam.DataUnavailable}
	}
	w.Uint(uint64(d.Min))
	w.Uint(uint64(d.Max))
	w.Uint(d.Sum)
	w.Uint(d.Count)
	if s.gaps {
		w.Uint(f.SequenceGaps.Value)
	}
	if s.reordered {
		w.Uint(f.Reordered.Value)
	}
	w.Uint(uint64(f.HopLimit.Min))
	w.Uint(uint64(f.HopLimit.Max))
	w.Uint(uint64(f.EndReason))
	return e.end(&w)
}

// point is the interface at which packets are observed: an encapsulating node
// has them when they leave.
func point(r NodeRole, ingress, egress model.IfIndex) model.IfIndex {
	if r == Encapsulating || ingress == 0 {
		return egress
	}
	return ingress
}

// moment writes a time; the zero one is 1970.
func moment(w *ipfix.RecordWriter, t time.Time) {
	if t.IsZero() {
		w.UnixNano(0)
		return
	}
	w.Time(t)
}

// unavailable is data of which nothing is available, as long as any.
var unavailable = bytes.Repeat([]byte{0xff}, 4*typeFixed.NodeLen())

// data writes a node's data, and before them its timestamp in UTC, all zero when
// it is not available. at is that time.
func (e *encoding) data(w *ipfix.RecordWriter, raw ioam.NodeData, at time.Time) error {
	asked := raw.Type & typeFixed
	length := 4 * asked.NodeLen()
	if len(raw.Bytes) < length {
		return errData
	}
	s := e.layout.shape
	if s.traceType.Has(ioam.BitTimestampSeconds) {
		if _, ok := raw.TimestampSeconds(); ok && !at.IsZero() {
			w.Time(at)
		} else {
			w.Encoded(1, noTime[:])
		}
	}
	switch {
	case asked == s.traceType&typeFixed:
		w.Encoded(e.layout.fixed, raw.Bytes[:length])
	case asked == 0:
		w.Encoded(e.layout.fixed, unavailable[:e.layout.octets])
	default:
		e.spread(w, raw)
	}
	if s.traceType.HasSnapshot() {
		snapshot, ok := raw.Snapshot()
		if !ok {
			snapshot.Schema = ioam.SchemaIDNone
		}
		w.Uint(uint64(snapshot.Schema))
		w.Octets(snapshot.Data)
	}
	return nil
}

var noTime [8]byte

// spread writes a node's data into the fields of the general template.
func (e *encoding) spread(w *ipfix.RecordWriter, raw ioam.NodeData) {
	for bit, specs := range dataFields {
		field := raw.Field(bit)
		if field == nil {
			field = unavailable[:4*(ioam.TraceType(1)<<(23-bit)).NodeLen()]
		}
		w.Encoded(len(specs), field)
	}
}
