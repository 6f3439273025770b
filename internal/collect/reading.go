// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// reading is what a data record says of packets, element by element, whatever
// its template looks like.
type reading struct {
	at               time.Time // of the observation; zero: not told
	packet           export.Packet
	ingress, egress  model.IfIndex
	interfaceName    string
	domain           export.Field[uint32]
	domainName       string
	namespace        export.Field[ioam.NamespaceID]
	role             export.Field[export.NodeRole]
	option           export.Field[ioam.IOAMType]
	traceType        export.Field[ioam.TraceType]
	dexFlags         export.Hex8
	extension        export.Field[export.Hex8]
	flowID, sequence export.Field[uint32]
	seconds          export.Field[uint32] // of the node's timestamp, as it is in the packet
	data             export.TraceNode
	schema           export.Field[ioam.SchemaID]
	snapshot         []byte

	packets, octets export.Field[uint64]
	flow            export.Flow // what only a flow has

	hopIndex, hopCount export.Field[uint8]
	report             export.Field[uint32]
	traceFlags         export.Field[ioam.TraceFlags]
	remaining          export.Field[uint8]
	source             export.Source
	pathDelay          export.Field[uint32]

	ioam  bool  // there is an element that only IOAM has
	fault Fault // the first
}

// read reads a record. enterprise is that of our own elements.
func read(record ipfix.DataRecord, enterprise ipfix.Enterprise) *reading {
	r := &reading{}
	for v := range record.Values() {
		if v.Field.Element == nil {
			continue
		}
		if v.Field.Element.Range != (ipfix.Range{}) && !v.InRange() {
			r.outOfRange(v, enterprise)
			continue
		}
		switch v.Field.Enterprise {
		case ipfix.EnterpriseIANA:
			r.iana(v)
		case ipfix.EnterpriseIOAM:
			r.ioam = true
			r.published(v)
		case enterprise:
			r.ioam = true
			r.own(v)
		}
	}
	r.settle()
	return r
}

// outOfRange notes an impossible value. A flow label of more than 20 bits is
// one; a flowEndReason that is new is not.
func (r *reading) outOfRange(v ipfix.Value, enterprise ipfix.Enterprise) {
	switch {
	case v.Field.Enterprise == ipfix.EnterpriseIANA && v.Field.ID == elementFlowEndReason:
	case v.Field.Enterprise == enterprise && v.Field.ID == elementNodeRole:
		r.note(FaultRole)
	default:
		r.note(FaultValue)
	}
}

func (r *reading) note(f Fault) {
	if r.fault == noFault {
		r.fault = f
	}
}

// settle draws the conclusions that need several elements.
func (r *reading) settle() {
	// The flags tell what the option had, where a template has room for more.
	if r.extension.Valid {
		if r.extension.Value&extensionFlowID == 0 {
			r.flowID = export.Field[uint32]{}
		}
		if r.extension.Value&extensionSequence == 0 {
			r.sequence = export.Field[uint32]{}
		}
	}
	d := &r.data
	if d.HopLimit.Value == 0xff && (d.NodeID.Present || d.NodeIDWide.Present) && !d.NodeID.Valid && !d.NodeIDWide.Valid {
		d.HopLimit.Valid = false // as the rest of its field
	}
	if !d.Timestamp.Present && r.seconds.Present {
		d.Timestamp = r.timestamp()
	}
	if r.schema.Present {
		d.Snapshot = export.NewField(export.Snapshot{Schema: r.schema.Value, Data: r.snapshot}, r.schema.Valid)
	}
	if r.traceType.Valid {
		r.omit(r.traceType.Value)
	}
	if d.Timestamp.Present {
		d.TimestampFraction = export.Field[uint32]{} // is a part of it
	}
	if f := &r.flow; f.Reordered.Present && !f.SequenceGaps.Present {
		f.SequenceGaps.Present = true // there are numbers, and what is missing is not known
	}
	if f := &r.flow; f.TransitDelay != nil && f.TransitDelay.Count == 0 {
		f.TransitDelay = nil
	}
}

// omit takes out the fields that the template has room for, but the trace type
// lacks.
func (r *reading) omit(t ioam.TraceType) {
	d := &r.data
	omit(&d.HopLimit, t.Has(ioam.BitNode) || t.Has(ioam.BitNodeWide))
	omit(&d.NodeID, t.Has(ioam.BitNode))
	omit(&d.IngressID, t.Has(ioam.BitInterfaces))
	omit(&d.EgressID, t.Has(ioam.BitInterfaces))
	omit(&d.Timestamp, t.Has(ioam.BitTimestampSeconds))
	omit(&d.TimestampFraction, t.Has(ioam.BitTimestampFraction))
	omit(&d.TransitDelay, t.Has(ioam.BitTransitDelay))
	omit(&d.NamespaceData, t.Has(ioam.BitNamespaceData))
	omit(&d.QueueDepth, t.Has(ioam.BitQueueDepth))
	omit(&d.ChecksumComplement, t.Has(ioam.BitChecksumComplement))
	omit(&d.NodeIDWide, t.Has(ioam.BitNodeWide))
	omit(&d.IngressIDWide, t.Has(ioam.BitInterfacesWide))
	omit(&d.EgressIDWide, t.Has(ioam.BitInterfacesWide))
	omit(&d.NamespaceDataWide, t.Has(ioam.BitNamespaceDataWide))
	omit(&d.BufferOccupancy, t.Has(ioam.BitBufferOccupancy))
	omit(&d.Snapshot, t.HasSnapshot())
}

func omit[T any](f *export.Field[T], asked bool) {
	if !asked && !f.Valid {
		*f = export.Field[T]{}
	}
}

// timestamp reads seconds and fraction as POSIX time, which is what the
// published exporter's nodes write; a template does not tell.
func (r *reading) timestamp() export.Field[time.Time] {
	fraction := r.data.TimestampFraction
	if !fraction.Valid {
		fraction.Value = 0
	}
	at, ok := ioam.TimestampPOSIX.Time(r.seconds.Value, fraction.Value, 0)
	return export.NewField(at, ok && r.seconds.Valid)
}

// Extension-Flags (RFC 9326 §3.2).
const (
	extensionFlowID   = 0x80
	extensionSequence = 0x40
)

// number reads an unsigned integer into a field; none is "not available".
func number[T ~uint8 | ~uint16 | ~uint32 | ~uint64](f *export.Field[T], v ipfix.Value, none uint64) {
	if n, ok := v.Uint(); ok {
		*f = export.NewField(T(n), n != none)
	}
}

// plain reads an unsigned integer of which every value is one.
func plain[T ~uint8 | ~uint16 | ~uint32 | ~uint64](f *T, v ipfix.Value) {
	if n, ok := v.Uint(); ok {
		*f = T(n)
	}
}

// counted is number without a value for "not available".
func counted[T ~uint8 | ~uint16 | ~uint32 | ~uint64](f *export.Field[T], v ipfix.Value) {
	if n, ok := v.Uint(); ok {
		*f = export.NewField(T(n), true)
	}
}

func address(a *netip.Addr, v ipfix.Value) {
	if addr, ok := v.Addr(); ok {
		*a = addr
	}
}

// moment reads a time; the first of 1970 is none.
func moment(t *time.Time, v ipfix.Value) {
	if at, ok := v.Time(); ok && at.Unix() != 0 {
		*t = at
	}
}

func transportPort(p **uint16, v ipfix.Value) {
	if n, ok := v.Uint(); ok {
		number := uint16(n)
		*p = &number
	}
}
