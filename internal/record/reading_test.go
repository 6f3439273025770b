// SPDX-License-Identifier: Apache-2.0

package record

import (
	"slices"
	"testing"

	"github.com/waymark-net/waymark/ipfix"
)

// The same field twice: in a template with room for field 0 and field 8, the one
// that the trace type lacks is all ones.
func TestHopLimitTwice(t *testing.T) {
	x := newTemplates(t)
	template, err := x.Registry.Template(256, "ioamNamespaceId", "ioamHopLimit", "ioamHopLimit")
	if err != nil {
		t.Fatal(err)
	}
	for _, limits := range [][2]uint64{{0xff, 62}, {62, 0xff}} {
		w := template.Record(nil)
		w.Uint(123)
		w.Uint(limits[0])
		w.Uint(limits[1])
		octets, err := w.End()
		if err != nil {
			t.Fatal(err)
		}
		reading := NewReading(template, ipfix.EnterpriseExample)
		p := reading.Read(ipfix.DataRecord{Template: template, Octets: octets},
			func(v ipfix.Value) { t.Errorf("%v is out of range", v) }).Value.(*Postcard)
		if !reading.IOAM || !reading.namespace || p.Namespace != 123 || p.Data.HopLimit != NewField(uint8(62), true) {
			t.Errorf("%v give %+v", limits, p.Data.HopLimit)
		}
	}
}

// Every element that is written is read again, except those that only repeat others.
func TestWhatIsWrittenIsRead(t *testing.T) {
	repeated := map[string]bool{"observationPointId": true, "flowStartMilliseconds": true, "flowEndMilliseconds": true,
		"pathDelayMinDeltaMicroseconds": true, "pathDelayMaxDeltaMicroseconds": true}
	for _, f := range DataFormats() {
		var takes map[string]bool
		for kind, of := range formats {
			if slices.ContainsFunc(of.known().variants, func(v variant) bool { return v.title == f.Record }) {
				takes = names(takeData[kind])
			}
		}
		if f.Record == "Delay" || f.Record == "Flow from edge to edge" {
			takes["pathDelayMeanDeltaMicroseconds"] = true // repeats nanoseconds
		}
		for _, field := range f.Fields {
			if name := elementName(field.Spec); !takes[name] && (!repeated[name] || f.Record == "Flow" && name != "observationPointId") {
				t.Errorf("%s: %s is written, and not read", f.Record, name)
			}
		}
	}
}

func names(takes map[string]taking) map[string]bool {
	m := map[string]bool{}
	for name := range takes {
		m[name] = true
	}
	return m
}

// A time of zero is not known (RFC 5905 §6): it is neither 1970 nor 2036.
func TestTimeOfZero(t *testing.T) {
	x := newTemplates(t)
	template, err := x.Registry.Template(256, "ioamNamespaceId", "observationTimeNanoseconds", "ioamTimestampNanoseconds")
	if err != nil {
		t.Fatal(err)
	}
	reading := NewReading(template, ipfix.EnterpriseExample)
	octets := append([]byte{0, 123}, make([]byte, 16)...)
	p := reading.Read(ipfix.DataRecord{Template: template, Octets: octets},
		func(v ipfix.Value) { t.Errorf("%v is out of range", v) }).Value.(*Postcard)
	if !p.Time.IsZero() || p.Data.Timestamp.Valid {
		t.Errorf("%+v, node %+v", p.Time, p.Data.Timestamp)
	}
}
