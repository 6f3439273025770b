// SPDX-License-Identifier: Apache-2.0

package record

import (
	"slices"
	"time"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// Reading reads the records of a template with any fields in any order. A collector
// makes one for each template.
type Reading struct {
	IOAM      bool     // there is an element that only IOAM uses
	Kind      DataKind // of data records
	Reporting bool     // options records say until when postcards were reported

	namespace, traceType, extensions bool // there is one
	packets                          bool // there is a number of packets

	plan                  []taking // of a data record
	domain, iface, report []taking // of options records
}

// Functions that read records, by element: of each kind, and of options.
var (
	takeData = func() (list [NumDataKinds]map[string]taking) {
		for i, f := range formats {
			list[i] = f.fields().takes()
		}
		return list
	}()
	takeDomain    = domainNames.rows().takes()
	takeInterface = interfaceNames.rows().takes()
	takeReporting = reportings.rows().takes()
)

// NewReading makes the Reading of a template. enterprise is the number of our own
// elements.
func NewReading(t *ipfix.Template, enterprise ipfix.Enterprise) *Reading {
	r := &Reading{}
	has := func(name string) bool {
		return slices.ContainsFunc(t.Fields(), func(f ipfix.Field) bool { return ours(f, enterprise) && f.Element.Name == name })
	}
	for _, f := range t.Fields() {
		r.IOAM = r.IOAM || f.Element != nil && (f.Enterprise == ipfix.EnterpriseIOAM || f.Enterprise == enterprise)
	}
	r.namespace, r.traceType, r.extensions = has("ioamNamespaceId"), has("ioamTraceType"), has("ioamExtensionFlags")
	r.packets = has("packetDeltaCount")
	if t.Scope() > 0 {
		r.domain, r.iface = plan(t, enterprise, takeDomain), plan(t, enterprise, takeInterface)
		if r.Reporting = has("ioamReportedUntilNanoseconds"); r.Reporting {
			r.report = plan(t, enterprise, takeReporting)
		}
		return r
	}
	r.Kind = marked(has)
	r.plan = plan(t, enterprise, takeData[r.Kind])
	return r
}

// marked is the kind of data records of a template, by the elements that it has. An element of one
// kind alone decides before one that several kinds have. Without any such element, the records are
// postcards.
func marked(has func(string) bool) DataKind {
	for _, shared := range []bool{false, true} {
		for _, k := range kinds {
			if k.data == nil {
				continue
			}
			if f := k.data.known(); f.shared == shared && slices.ContainsFunc(f.markers, has) {
				return f.kind
			}
		}
	}
	return DataPostcard
}

// Data is a record that was read, or a part of one.
type Data struct {
	Kind  DataKind
	Value any // a Record, or a *Hop
	in    *Reading
}

// Read reads a data record. Values beyond the range of their elements are not read, but
// passed to beyond.
func (r *Reading) Read(record ipfix.DataRecord, beyond func(ipfix.Value)) Data {
	return Data{r.Kind, formats[r.Kind].read(r, record, beyond), r}
}

// Fault is why the record is impossible by itself, or in a message of a time; NoFault if
// it is not.
func (d Data) Fault(exported time.Time) Fault {
	f := formats[d.Kind]
	if f.known().namespaced && !d.in.namespace {
		return FaultNamespace
	}
	if at := f.timeOf(d.Value); !at.IsZero() {
		if span := exported.Sub(at.Time); span > TimeSpan || span < -TimeSpan {
			return FaultTime
		}
	}
	return f.faultOf(d.Value, d.in)
}

// Complete adds what the exporter does not send with each record.
func (d Data) Complete(by Sender) { formats[d.Kind].completed(d.Value, by) }

// Counter is the name and the meaning of a collector's counter for the kind.
func (k DataKind) Counter() (name, meaning string) {
	f := formats[k].known()
	return f.counter, f.counted
}

// ours reports whether records may have an element: under another enterprise, its
// number may be one that we know by another name.
func ours(f ipfix.Field, enterprise ipfix.Enterprise) bool {
	return f.Element != nil && (f.Enterprise == ipfix.EnterpriseIANA || f.Enterprise == ipfix.EnterpriseIOAM || f.Enterprise == enterprise)
}

// plan says how to read each field of a template; readValue is nil for a field that is not
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

// readInto reads into a record, a pointer. Values beyond the range of their elements are
// not read, but passed to beyond.
func readInto(r any, plan []taking, record ipfix.DataRecord, beyond func(ipfix.Value)) {
	i := 0
	for v := range record.Values() {
		as, e := plan[i], v.Field.Element
		i++
		switch {
		case e != nil && e.Range != (ipfix.Range{}) && !v.InRange(), as.most > 0 && len(v.Octets) > as.most:
			beyond(v)
		case as.readValue != nil:
			as.readValue(r, v)
		}
	}
}

// Names reads the names in an options record.
func (r *Reading) Names(record ipfix.DataRecord) (domain DomainName, iface InterfaceName) {
	none := func(ipfix.Value) {}
	readInto(&domain, r.domain, record, none)
	readInto(&iface, r.iface, record, none)
	return domain, iface
}

// ReportingOf reads what an exporter says of its postcards; false means that it lacks a
// part.
func (r *Reading) ReportingOf(record ipfix.DataRecord) (p Reporting, ok bool) {
	readInto(&p, r.report, record, func(ipfix.Value) {})
	return p, r.namespace && !p.Since.IsZero() && !p.Until.IsZero() && !p.Counted.IsZero() && !p.Served.IsZero() && p.Sampling > 0
}

// deriveNodeFields sets fields that depend on several elements.
func (r *Reading) deriveNodeFields(d *NodeData, t ioam.TraceType) {
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
			o.blank(d)
		}
	}
}
