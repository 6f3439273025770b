// SPDX-License-Identifier: Apache-2.0

package record

import (
	"time"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// Reading reads the records of a template with any fields in any order. A collector
// makes one for each template.
type Reading struct {
	IOAM bool // there is an element that only IOAM uses
	Hop  bool // the records are of a node of a trace
	Flow bool // the records are of flows

	// The records are of loss, of delay, of a block's counters, or of flows from edge to
	// edge. Without any of these six they are postcards.
	Loss, Delay, Block, EdgeFlow bool

	Reporting bool // options records say until when postcards were reported
	Namespace bool // there is a Namespace-ID
	Packets   bool // there is a number of packets

	traceType, extensions bool
	data                  []taking // of a data record
	domain, iface, report []taking // of options records
}

// Functions that read each kind of records, by element.
var (
	takePostcard  = postcards.rows().takes()
	takeHop       = hops.rows().takes()
	takeFlow      = flows.rows().takes()
	takeLoss      = blockLosses.rows().takes()
	takeDelay     = pathDelays.rows().takes()
	takeBlock     = blocks.rows().takes()
	takeEdgeFlow  = edgeFlows.rows().takes()
	takeDomain    = domainNames.rows().takes()
	takeInterface = interfaceNames.rows().takes()
	takeReporting = reportings.rows().takes()
)

// NewReading makes the Reading of a template. enterprise is the number of our own
// elements.
func NewReading(t *ipfix.Template, enterprise ipfix.Enterprise) *Reading {
	r := &Reading{}
	has := func(name string) bool {
		for _, f := range t.Fields() {
			if ours(f, enterprise) && f.Element.Name == name {
				return true
			}
		}
		return false
	}
	for _, f := range t.Fields() {
		r.IOAM = r.IOAM || f.Element != nil && (f.Enterprise == ipfix.EnterpriseIOAM || f.Enterprise == enterprise)
	}
	r.Namespace, r.traceType, r.extensions = has("ioamNamespaceId"), has("ioamTraceType"), has("ioamExtensionFlags")
	r.Hop = has("ioamHopIndex")
	r.Packets = has("packetDeltaCount")
	r.Loss, r.Delay, r.Block, r.EdgeFlow = has("pmVerdict"), has("pmDelayMethod"), has("pmPointId"), has("ioamEdgeToEdgeType")
	r.Flow = !r.Hop && !r.Loss && !r.Delay && !r.Block && !r.EdgeFlow && (r.Packets || has("octetDeltaCount"))
	switch {
	case t.Scope() > 0:
		r.domain, r.iface = plan(t, enterprise, takeDomain), plan(t, enterprise, takeInterface)
		if r.Reporting = has("ioamReportedUntilNanoseconds"); r.Reporting {
			r.report = plan(t, enterprise, takeReporting)
		}
	case r.Hop:
		r.data = plan(t, enterprise, takeHop)
	case r.Flow:
		r.data = plan(t, enterprise, takeFlow)
	case r.Loss:
		r.data = plan(t, enterprise, takeLoss)
	case r.Delay:
		r.data = plan(t, enterprise, takeDelay)
	case r.Block:
		r.data = plan(t, enterprise, takeBlock)
	case r.EdgeFlow:
		r.data = plan(t, enterprise, takeEdgeFlow)
	default:
		r.data = plan(t, enterprise, takePostcard)
	}
	return r
}

// ours reports whether records may have an element: under another enterprise, its
// number may be one that we know by another name.
func ours(f ipfix.Field, enterprise ipfix.Enterprise) bool {
	return f.Element != nil && (f.Enterprise == ipfix.EnterpriseIANA || f.Enterprise == ipfix.EnterpriseIOAM || f.Enterprise == enterprise)
}

// plan says how to read each field of a template; take is nil for a field that is not
// read.
func plan(t *ipfix.Template, enterprise ipfix.Enterprise, takes map[string]taking) []taking {
	list := make([]taking, len(t.Fields()))
	for i, f := range t.Fields() {
		if ours(f, enterprise) {
			list[i] = takes[f.Element.Name]
		}
	}
	return list
}

// read reads a record. Values beyond the range of their elements are not read, but
// passed to beyond.
func read(plan []taking, record ipfix.DataRecord, r *opaque, beyond func(ipfix.Value)) {
	i := 0
	for v := range record.Values() {
		as, e := plan[i], v.Field.Element
		i++
		switch {
		case e != nil && e.Range != (ipfix.Range{}) && !v.InRange(), as.most > 0 && len(v.Octets) > as.most:
			beyond(v)
		case as.take != nil:
			as.take(r, v)
		}
	}
}

// Postcard reads a postcard.
func (r *Reading) Postcard(record ipfix.DataRecord, beyond func(ipfix.Value)) *Postcard {
	p := &Postcard{Option: ioam.IOAMDirectExport.String()}
	read(r.data, record, blind(p), beyond)
	// The flags say what the option had, where a template has room for more.
	if r.extensions && p.ExtensionFlags&extensionFlowID == 0 {
		p.FlowID = Field[uint32]{}
	}
	if r.extensions && p.ExtensionFlags&extensionSequence == 0 {
		p.Sequence = Field[uint32]{}
	}
	r.settle(&p.Data, p.TraceType)
	return p
}

// Extension-Flags (RFC 9326 §3.2).
const (
	extensionFlowID   = 0x80
	extensionSequence = 0x40
)

// HopOf reads a record of one hop of a trace.
func (r *Reading) HopOf(record ipfix.DataRecord, beyond func(ipfix.Value)) *Hop {
	h := &Hop{Trace: &Trace{Option: ioam.IOAMPreallocatedTrace.String()}}
	read(r.data, record, blind(h), beyond)
	r.settle(&h.Data, h.TraceType)
	return h
}

// FlowOf reads a flow.
func (r *Reading) FlowOf(record ipfix.DataRecord, beyond func(ipfix.Value)) *Flow {
	f := &Flow{}
	read(r.data, record, blind(f), beyond)
	if f.Reordered.Present && !f.SequenceGaps.Present {
		f.SequenceGaps.Present = true // there are numbers, but the number of missing packets is unknown
	}
	if f.TransitDelay != nil && f.TransitDelay.Count == 0 {
		f.TransitDelay = nil
	}
	return f
}

// LossOf reads a loss.
func (r *Reading) LossOf(record ipfix.DataRecord, beyond func(ipfix.Value)) *Loss {
	l := &Loss{}
	read(r.data, record, blind(l), beyond)
	l.settle()
	return l
}

// DelayOf reads a delay.
func (r *Reading) DelayOf(record ipfix.DataRecord, beyond func(ipfix.Value)) *Delay {
	d := &Delay{}
	read(r.data, record, blind(d), beyond)
	d.settle()
	return d
}

// BlockOf reads a block.
func (r *Reading) BlockOf(record ipfix.DataRecord, beyond func(ipfix.Value)) *Block {
	b := &Block{}
	read(r.data, record, blind(b), beyond)
	b.settle()
	return b
}

// EdgeFlowOf reads a flow from edge to edge.
func (r *Reading) EdgeFlowOf(record ipfix.DataRecord, beyond func(ipfix.Value)) *EdgeFlow {
	f := &EdgeFlow{}
	read(r.data, record, blind(f), beyond)
	f.settle()
	return f
}

// Names reads the names in an options record.
func (r *Reading) Names(record ipfix.DataRecord) (domain DomainName, iface InterfaceName) {
	none := func(ipfix.Value) {}
	read(r.domain, record, blind(&domain), none)
	read(r.iface, record, blind(&iface), none)
	return domain, iface
}

// ReportingOf reads what an exporter says of its postcards; false means that it lacks a
// part.
func (r *Reading) ReportingOf(record ipfix.DataRecord) (p Reporting, ok bool) {
	read(r.report, record, blind(&p), func(ipfix.Value) {})
	return p, r.Namespace && !p.Since.IsZero() && !p.Until.IsZero() && !p.Counted.IsZero() && !p.Served.IsZero() && p.Sampling > 0
}

// settle sets fields that depend on several elements.
func (r *Reading) settle(d *NodeData, t ioam.TraceType) {
	if d.HopLimit.Value == 0xff && (d.NodeID.Present || d.NodeIDWide.Present) && !d.NodeID.Valid && !d.NodeIDWide.Valid {
		d.HopLimit.Valid = false // like the rest of its field
	}
	if !d.Timestamp.Present && d.TimestampSeconds.Present {
		d.Timestamp = d.posix()
	}
	d.TimestampSeconds = Field[uint32]{}
	if !d.Snapshot.Present {
		d.Snapshot = Field[Snapshot]{}
	}
	if r.traceType {
		d.omit(t)
	}
	if d.Timestamp.Present {
		d.TimestampFraction = Field[uint32]{} // the timestamp includes it
	}
}

// posix reads seconds and fraction as POSIX time, which the nodes of the published
// exporter write; templates do not give the format.
func (d *NodeData) posix() Field[time.Time] {
	fraction := d.TimestampFraction
	if !fraction.Valid {
		fraction.Value = 0
	}
	at, ok := ioam.TimestampPOSIX.Time(d.TimestampSeconds.Value, fraction.Value, 0)
	return NewField(at, ok && d.TimestampSeconds.Valid)
}

// nodeOmissions remove the fields that the trace type lacks.
var nodeOmissions = nodeTable.rows().omissions()

// omit removes the fields that the template has room for, but the trace type lacks.
func (d *NodeData) omit(t ioam.TraceType) {
	has := bitsOf(t)
	for _, o := range nodeOmissions {
		if o.asked&has == 0 {
			o.blank(blind(d))
		}
	}
}
