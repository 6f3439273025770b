// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"bytes"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/craft"
)

// testElements have every data type, numbered and named by it.
func testElements() []Element {
	var list []Element
	for kind := range DataType(len(dataTypes)) {
		list = append(list, Element{Enterprise: EnterpriseExample, ID: ElementID(kind), Name: kind.String(), Type: kind})
	}
	return list
}

// typed makes a template of data types.
func typed(t testing.TB, specs ...string) *Template {
	t.Helper()
	r, err := NewRegistry(testElements())
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := r.Template(256, specs...)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func TestRecordValues(t *testing.T) {
	at := time.Date(2026, 11, 21, 5, 21, 0, 123456789, time.UTC)
	for _, c := range []struct {
		spec  string
		write func(w *RecordWriter)
		want  string
	}{
		{"unsigned8", func(w *RecordWriter) { w.Uint(255) }, "ff"},
		{"unsigned32[3]", func(w *RecordWriter) { w.Uint(0x010203) }, "010203"},
		{"unsigned64[7]", func(w *RecordWriter) { w.Uint(1<<56 - 2) }, "fffffffffffffe"},
		{"unsigned64", func(w *RecordWriter) { w.Uint(math.MaxUint64) }, "ffffffffffffffff"},
		{"signed64[3]", func(w *RecordWriter) { w.Int(-2) }, "fffffe"},
		{"signed16[1]", func(w *RecordWriter) { w.Int(-128) }, "80"},
		{"signed64", func(w *RecordWriter) { w.Int(math.MinInt64) }, "8000000000000000"},
		{"float32", func(w *RecordWriter) { w.Float(1.5) }, "3fc00000"},
		{"float64[4]", func(w *RecordWriter) { w.Float(1.5) }, "3fc00000"},
		{"float64", func(w *RecordWriter) { w.Float(-2) }, "c000000000000000"},
		{"boolean", func(w *RecordWriter) { w.Bool(true) }, "01"},
		{"boolean", func(w *RecordWriter) { w.Bool(false) }, "02"},
		{"macAddress", func(w *RecordWriter) { w.MAC([6]byte{2, 0, 0, 0, 0, 1}) }, "020000000001"},
		{"ipv4Address", func(w *RecordWriter) { w.Addr(netip.MustParseAddr("192.0.2.1")) }, "c0000201"},
		{"ipv4Address", func(w *RecordWriter) { w.Addr(netip.MustParseAddr("::ffff:192.0.2.1")) }, "c0000201"},
		{"ipv6Address", func(w *RecordWriter) { w.Addr(netip.MustParseAddr("2001:db8::1%eth0")) }, "20010db8000000000000000000000001"},
		{"string[4]", func(w *RecordWriter) { w.Text("ab") }, "61620000"},
		{"string", func(w *RecordWriter) { w.Text("") }, "00"},
		{"octetArray[2]", func(w *RecordWriter) { w.Octets([]byte{1, 2}) }, "0102"},
		{"octetArray", func(w *RecordWriter) { w.Octets([]byte{1, 2}) }, "020102"},
		{"basicList", func(w *RecordWriter) { w.Octets([]byte{4}) }, "0104"},
		{"dateTimeSeconds", func(w *RecordWriter) { w.Time(at) }, "6b012a3c"},
		{"dateTimeMilliseconds", func(w *RecordWriter) { w.Time(at) }, ""},
		{"dateTimeMicroseconds", func(w *RecordWriter) { w.Time(at) }, ""},
		{"dateTimeNanoseconds", func(w *RecordWriter) { w.Time(at) }, ""},
	} {
		tmpl := typed(t, c.spec)
		got := record(t, tmpl, c.write)
		if c.want != "" && !bytes.Equal(got, craft.Hex(t, c.want)) {
			t.Errorf("%s: %x, want %s", c.spec, got, c.want)
		}
		// A second way to write the same octets: before and after other fields.
		wide := typed(t, "unsigned64", c.spec, "unsigned64")
		inner := record(t, wide, func(w *RecordWriter) { w.Uint(math.MaxUint64); c.write(w); w.Uint(math.MaxUint64) })
		if !bytes.Equal(inner[8:len(inner)-8], got) || !bytes.Equal(inner[len(inner)-8:], bytes.Repeat([]byte{0xff}, 8)) {
			t.Errorf("%s: between others %x, alone %x", c.spec, inner, got)
		}
	}
}

// Times survive in the resolution of their type, in both eras of NTP.
func TestRecordTimes(t *testing.T) {
	tmpl := typed(t, "dateTimeSeconds", "dateTimeMilliseconds", "dateTimeMicroseconds", "dateTimeNanoseconds")
	resolutions := []time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond}
	for _, at := range []time.Time{
		time.Unix(0, 0), time.Unix(1, 999_999_999), time.Unix(1795238460, 123456789), time.Unix(1795238460, 1),
		time.Unix(1795238460, 999_999_001), time.Date(2036, 2, 7, 6, 28, 15, 999_999_999, time.UTC),
		time.Date(2036, 2, 7, 6, 28, 16, 0, time.UTC), time.Date(2100, 1, 1, 0, 0, 0, 5, time.UTC),
	} {
		b := record(t, tmpl, func(w *RecordWriter) {
			for range resolutions {
				w.Time(at)
			}
		})
		if c := record(t, tmpl, func(w *RecordWriter) {
			for range resolutions {
				w.UnixNano(uint64(at.UnixNano()))
			}
		}); !bytes.Equal(b, c) {
			t.Errorf("%v: Time writes %x, UnixNano %x", at, b, c)
		}
		i := 0
		for v := range (DataRecord{tmpl, b}).Values() {
			if got, ok := v.Time(); !ok || !got.Equal(at.Truncate(resolutions[i])) {
				t.Errorf("%v in %v: read %v", at, resolutions[i], got)
			}
			i++
		}
		// The last 11 bits of microseconds are zero (RFC 7011 §6.1.9).
		if b[18]&7 != 0 || b[19] != 0 {
			t.Errorf("%v: microseconds %x", at, b[12:20])
		}
	}
}

func TestRecordErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		specs []string
		write func(w *RecordWriter)
		field int
		want  error
	}{
		{"too great", []string{"unsigned8", "unsigned32[3]"}, func(w *RecordWriter) { w.Uint(1); w.Uint(1 << 24) }, 1, ErrValueRange},
		{"too small", []string{"signed8"}, func(w *RecordWriter) { w.Int(-129) }, 0, ErrValueRange},
		{"other sign", []string{"signed8"}, func(w *RecordWriter) { w.Int(128) }, 0, ErrValueRange},
		{"signed for unsigned", []string{"unsigned8"}, func(w *RecordWriter) { w.Int(1) }, 0, ErrWrongType},
		{"IPv6 for IPv4", []string{"ipv4Address"}, func(w *RecordWriter) { w.Addr(netip.IPv6Loopback()) }, 0, ErrWrongType},
		{"IPv4 for IPv6", []string{"ipv6Address"}, func(w *RecordWriter) { w.Addr(netip.MustParseAddr("192.0.2.1")) }, 0, ErrWrongType},
		{"no address", []string{"ipv6Address"}, func(w *RecordWriter) { w.Addr(netip.Addr{}) }, 0, ErrWrongType},
		{"too few octets", []string{"octetArray[2]"}, func(w *RecordWriter) { w.Octets([]byte{1}) }, 0, ErrValueLength},
		{"too many octets", []string{"octetArray"}, func(w *RecordWriter) { w.Octets(make([]byte, 65536)) }, 0, ErrValueLength},
		{"too long a string", []string{"string[2]"}, func(w *RecordWriter) { w.Text("abc") }, 0, ErrValueLength},
		{"not UTF-8", []string{"string"}, func(w *RecordWriter) { w.Text("\xff") }, 0, ErrNotUTF8},
		{"missing", []string{"unsigned8", "unsigned8"}, func(w *RecordWriter) { w.Uint(1) }, 1, ErrFieldCount},
		{"one too many", []string{"unsigned8"}, func(w *RecordWriter) { w.Uint(1); w.Uint(1) }, 1, ErrFieldCount},
		{"first error stays", []string{"unsigned8"}, func(w *RecordWriter) { w.Uint(256); w.Bool(true); w.Uint(1) }, 0, ErrValueRange},
	} {
		w := typed(t, c.specs...).Record([]byte("before"))
		c.write(&w)
		b, err := w.End()
		var e *RecordError
		if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Field != c.field || string(b) != "before" ||
			!strings.HasPrefix(err.Error(), "template 256, field ") {
			t.Errorf("%s: %v, buffer %q", c.name, err, b)
		}
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	tmpl := template(t, 256, postcard...)
	buf := make([]byte, 0, 256)
	source := netip.MustParseAddr("2001:db8::1")
	if n := testing.AllocsPerRun(100, func() {
		w := tmpl.Record(buf)
		writePostcard(&w, source, source, 5)
		if _, err := w.End(); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a record", n)
	}
}

func TestRegistry(t *testing.T) {
	r := registry(t)
	if e, ok := r.Lookup(EnterpriseIOAM, 9); !ok || e.Name != "ioamNodeIdWide" || e.UsualLength() != 7 {
		t.Errorf("%+v", e)
	}
	if _, ok := r.Lookup(EnterpriseExample, 1000); ok {
		t.Error("found an element that does not exist")
	}
	for _, c := range []struct{ name, want string }{
		{"", "no element"}, {"octetDeltacount", "no element"}, {"octetDeltaCount[9]", "not a length of unsigned64"},
		{"octetDeltaCount[v]", "not a length"}, {"sourceIPv6Address[8]", "not a length"}, {"interfaceName[0]", "not a length"},
		{"interfaceName[x]", "write a length"}, {"interfaceName[65535]", "write a length"}, {"interfaceName[4", "close the bracket"},
	} {
		if _, err := r.Field(c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.name, err)
		}
	}
	for _, c := range []struct {
		name  string
		group []Element
		want  string
	}{
		{"number", []Element{{ID: 1, Name: "again", Type: Unsigned8}}, "both number 1"},
		{"name", []Element{{Enterprise: 1, ID: 1, Name: "octetDeltaCount", Type: Unsigned8}}, "two elements are named"},
		{"no name", []Element{{Enterprise: 1, ID: 1}}, "has no name"},
		{"16 bits", []Element{{ID: 1 << 15, Name: "x"}}, "more than 15 bits"},
		{"IANA's 0", []Element{{Name: "x"}}, "no number 0"},
		{"type", []Element{{ID: 9, Name: "x", Type: 99}}, "not one of RFC 7012"},
		{"length", []Element{{ID: 9, Name: "x", Type: Unsigned8, Length: 2}}, "not a length of unsigned8"},
		{"range", []Element{{ID: 9, Name: "x", Range: Range{2, 1}}}, "ends before it begins"},
	} {
		if _, err := NewRegistry(IANA(), c.group); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	r := registry(t)
	port, err := r.Field("sourceTransportPort")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		make func() (*Template, error)
		want string
	}{
		{"number", func() (*Template, error) { return r.Template(255, "ipTTL") }, "from 256 on"},
		{"no field", func() (*Template, error) { return r.Template(256) }, "at least one field"},
		{"no scope", func() (*Template, error) { return r.OptionsTemplate(256, nil, "ipTTL") }, "at least one element of its scope"},
		{"more scope than fields", func() (*Template, error) { return NewTemplate(256, 2, port) }, "a scope of at most"},
		{"unknown field", func() (*Template, error) { return NewTemplate(256, 0, Field{ID: 7, Length: 2}) }, "no values can be encoded"},
		{"another's element", func() (*Template, error) { return NewTemplate(256, 0, Field{ID: 8, Length: 2, Element: port.Element}) }, "no values"},
		{"too long", func() (*Template, error) { return r.Template(256, "paddingOctets[65516]") }, "does not fit a message"},
	} {
		if _, err := c.make(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Elements comply with RFC 7012 §3.2: the semantics fit their types, and the ranges fit
// their types and usual lengths.
func TestElements(t *testing.T) {
	for _, e := range registry(t).Elements() {
		unsignedType := e.Type.class() == classUnsigned
		switch e.Semantics {
		case TotalCounter, DeltaCounter, Identifier, Flags:
			if !unsignedType {
				t.Errorf("%s: %v of type %v", e.Name, e.Semantics, e.Type)
			}
		}
		if e.Range != (Range{}) && (!unsignedType || e.Range.Max>>(8*e.UsualLength()) != 0) {
			t.Errorf("%s: range %v of type %v in %d octets", e.Name, e.Range, e.Type, e.UsualLength())
		}
		for _, name := range []string{e.Type.String(), e.Semantics.String(), e.Units.String()} {
			if name == "" || name == "unassigned" {
				t.Errorf("%s: %q", e.Name, name)
			}
		}
		if !strings.HasSuffix(e.Description, ".") {
			t.Errorf("%s: %q is no sentence", e.Name, e.Description)
		}
	}
	if n := len(iana) + len(ioamElements) + len(waymarkElements) + len(measurementElements) + len(reportingElements); len(
		registry(t).Elements(),
	) != n {
		t.Errorf("%d elements, want %d", len(registry(t).Elements()), n)
	}
}

// AppendTime appends the same octets as a RecordWriter.
func TestAppendTime(t *testing.T) {
	registry, err := NewRegistry(IANA())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"observationTimeSeconds", "observationTimeMilliseconds", "observationTimeMicroseconds",
		"observationTimeNanoseconds"} {
		tmpl, err := registry.Template(256, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []time.Time{time.Unix(0, 0), time.Date(2026, 11, 21, 5, 21, 0, 123456789, time.UTC),
			time.Date(2040, 1, 1, 0, 0, 0, 999999999, time.UTC)} {
			w := tmpl.Record(nil)
			w.Time(at)
			want, err := w.End()
			if err != nil {
				t.Fatal(err)
			}
			if got := AppendTime(nil, tmpl.Fields()[0].Element.Type, at.Unix(), uint64(at.Nanosecond())); !bytes.Equal(got, want) {
				t.Errorf("%s of %v: %x, want %x", name, at, got, want)
			}
		}
	}
}
