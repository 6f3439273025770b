// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/test/craft"
)

// listValue is a value of a list type.
func listValue(t testing.TB, kind DataType, octets []byte) Value {
	t.Helper()
	f, err := registry(t).Field(kind.String())
	if err != nil {
		t.Fatal(err)
	}
	return Value{&f, octets}
}

// reader knows the elements of IANA and ours, and templates.
func reader(t testing.TB, templates ...*Template) ListReader {
	t.Helper()
	return ListReader{registry(t), func(id TemplateID) *Template {
		for _, tmpl := range templates {
			if tmpl.ID() == id {
				return tmpl
			}
		}
		return nil
	}}
}

func fieldOf(t testing.TB, spec string) Field {
	t.Helper()
	f, err := registry(t).Field(spec)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// shown is a list as text: its semantics, and what it has.
func shown(r ListReader, v Value) string {
	if l, ok := r.Values(v); ok {
		text := fmt.Sprintf("%v of %d:", l.Semantics, l.Count)
		for v := range l.Values() {
			text += " " + shownValue(r, v)
		}
		return text
	}
	if l, ok := r.Records(v); ok {
		return fmt.Sprintf("%v of %d:", l.Semantics, l.Count) + shownRecords(r, l)
	}
	if l, ok := r.Sets(v); ok {
		text := fmt.Sprintf("%v of %d:", l.Semantics, len(l.Sets))
		for _, set := range l.Sets {
			text += fmt.Sprintf(" %d{%s}", set.ID, shownRecords(r, set))
		}
		return text
	}
	return "invalid"
}

func shownRecords(r ListReader, l RecordList) (text string) {
	if l.Template == nil {
		return " not known"
	}
	for record := range l.Records() {
		var values []string
		for v := range record.Values() {
			values = append(values, shownValue(r, v))
		}
		text += " [" + strings.Join(values, " ") + "]"
	}
	return text
}

func shownValue(r ListReader, v Value) string {
	switch {
	case v.Field.Element == nil:
		return fmt.Sprintf("%x", v.Octets)
	case v.Field.Element.Semantics == List:
		return "(" + shown(r, v) + ")"
	}
	return read(v)
}

// names is a template of a list's records; nested has a list in its records.
func listTemplates(t testing.TB) (names, nested *Template) {
	return template(t, 300, "interfaceName", "ingressInterface"), template(t, 301, "protocolIdentifier", "basicList")
}

// Lists as RFC 6313 draws them.
func TestLists(t *testing.T) {
	names, nested := listTemplates(t)
	r := reader(t, names, nested)
	for name, tt := range map[string]struct {
		kind   DataType
		octets string
		want   string
	}{
		"egress interfaces of a multicast packet (RFC 6313 §8.1)": {BasicList, "03 000e 0004 00000001 00000004 00000008", "allOf of 3: 1 4 8"},
		"none":                           {BasicList, "ff 000e 0004", "undefined of 0:"},
		"variable length":                {BasicList, "02 0052 ffff 04 65746830 00 ff0003 6c616e", "oneOrMoreOf of 3: eth0  lan"},
		"an enterprise's":                {BasicList, "04 8000 0002 0000288f 007b 007c", "ordered of 2: 123 124"},
		"an element that is not known":   {BasicList, "01 7fff 0002 0102 0304", "exactlyOneOf of 2: 0102 0304"},
		"a length that it cannot have":   {BasicList, "01 0004 0002 0102", "exactlyOneOf of 1: 0102"},
		"lists in a list":                {BasicList, "03 0123 ffff 07 00 0004 0001 0611 05 04 0004 0001", "allOf of 2: (noneOf of 2: 6 17) (ordered of 0:)"},
		"records":                        {SubTemplateList, "03 012c 04 65746830 00000002 00 00000003", "allOf of 2: [eth0 2] [ 3]"},
		"no record":                      {SubTemplateList, "03 012c", "allOf of 0:"},
		"records of no known template":   {SubTemplateList, "03 0190 0102", "allOf of 0: not known"},
		"records with lists":             {SubTemplateList, "04 012d 06 07 03 000e 0001 01 02", "ordered of 1: [6 (allOf of 2: 1 2)]"},
		"records of several templates":   {SubTemplateMultiList, "03 012c 000d 04 65746830 00000002 0190 0005 ff 012d 000b 11 05 03 0004 0001", "allOf of 3: 300{ [eth0 2]} 400{ not known} 301{ [17 (allOf of 0:)]}"},
		"no template":                    {SubTemplateMultiList, "00", "noneOf of 0:"},
		"semantics that IANA may assign": {SubTemplateMultiList, "05", "unassigned of 0:"},

		"no semantics":                    {BasicList, "", "invalid"},
		"half a header":                   {BasicList, "03 000e 00", "invalid"},
		"half an enterprise":              {BasicList, "03 800e 0004 000028", "invalid"},
		"IANA as an enterprise":           {BasicList, "03 800e 0004 00000000", "invalid"},
		"values without octets":           {BasicList, "03 000e 0000", "invalid"},
		"half a value":                    {BasicList, "03 000e 0004 00000001 0000", "invalid"},
		"a value beyond the list":         {BasicList, "03 0052 ffff 05 65746830", "invalid"},
		"half a number":                   {SubTemplateList, "03 01", "invalid"},
		"a template that cannot be":       {SubTemplateList, "03 00ff", "invalid"},
		"half a record":                   {SubTemplateList, "03 012c 04 65746830 0000", "invalid"},
		"half a set":                      {SubTemplateMultiList, "03 012c 00", "invalid"},
		"a set that ends in its header":   {SubTemplateMultiList, "03 012c 0003 00", "invalid"},
		"a set that ends beyond the list": {SubTemplateMultiList, "03 012c 000e 04 65746830 00000002", "invalid"},
		"octets after a set's records":    {SubTemplateMultiList, "03 012c 000e 04 65746830 00000002 00", "invalid"},
		"no list":                         {OctetArray, "03 000e 0004", "invalid"},
	} {
		v := listValue(t, BasicList, craft.Hex(t, tt.octets))
		if tt.kind == OctetArray {
			f := fieldOf(t, "ipHeaderPacketSection")
			v.Field = &f
		} else {
			v = listValue(t, tt.kind, v.Octets)
		}
		if got := shown(r, v); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	if l, ok := (ListReader{}).Records(listValue(t, SubTemplateList, craft.Hex(t, "03 012c 01"))); !ok || l.Template != nil || l.ID != 300 {
		t.Errorf("without templates: %+v, %v", l, ok)
	}
}

// What is appended is what RFC 6313 draws, or an error and nothing.
func TestAppendLists(t *testing.T) {
	names, _ := listTemplates(t)
	eth0 := record(t, names, func(w *RecordWriter) { w.Text("eth0"); w.Uint(2) })
	long := strings.Repeat("x", 255)
	begin := []byte{0xaa}
	for name, tt := range map[string]struct {
		list func() ([]byte, error)
		want string
		err  error
	}{
		"values": {func() ([]byte, error) {
			return AppendBasicList(begin, AllOf, fieldOf(t, "egressInterface"), []byte{0, 0, 0, 1}, []byte{0, 0, 0, 4})
		}, "aa03000e00040000000100000004", nil},
		"long values": {func() ([]byte, error) {
			return AppendBasicList(begin, Ordered, fieldOf(t, "interfaceName"), []byte("lo"), []byte(long))
		}, "aa040052ffff026c6fff00ff" + strings.Repeat("78", 255), nil},
		"an enterprise's": {func() ([]byte, error) { return AppendBasicList(begin, NoneOf, fieldOf(t, "ioamNamespaceId")) }, "aa00800000020000288f", nil},
		"a short value":   {func() ([]byte, error) { return AppendBasicList(begin, AllOf, fieldOf(t, "egressInterface"), []byte{1}) }, "aa", ErrValueLength},
		"a value too long": {func() ([]byte, error) {
			return AppendBasicList(begin, AllOf, fieldOf(t, "interfaceName"), make([]byte, 65536))
		}, "aa", ErrValueLength},
		"no length": {func() ([]byte, error) { return AppendBasicList(begin, AllOf, Field{ID: 14}) }, "aa", ErrValueLength},
		"records":   {func() ([]byte, error) { return AppendSubTemplateList(begin, AllOf, names, eth0, eth0) }, "aa03012c04657468300000000204657468300000000" + "2", nil},
		"no record": {func() ([]byte, error) { return AppendSubTemplateList(begin, AllOf, names, eth0[1:]) }, "aa", ErrNotRecord},
		"sets": {func() ([]byte, error) {
			return AppendSubTemplateMultiList(begin, ListUndefined, ListRecords{names, [][]byte{eth0}}, ListRecords{names, nil})
		}, "aaff012c000d046574683000000002012c0004", nil},
		"no record in a set": {func() ([]byte, error) {
			return AppendSubTemplateMultiList(begin, AllOf, ListRecords{names, [][]byte{{1}}})
		}, "aa", ErrNotRecord},
		"a set too long": {func() ([]byte, error) {
			return AppendSubTemplateMultiList(begin, AllOf, ListRecords{names, slices.Repeat([][]byte{eth0}, 8000)})
		}, "aa", ErrValueLength},
	} {
		got, err := tt.list()
		if fmt.Sprintf("%x", got) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %x, %v; want %s, %v", name, got, err, tt.want, tt.err)
		}
	}
}

// withLists is a message with a record of each list, and the templates that it needs.
func withLists(t testing.TB) (messages [][]byte, lists *Template) {
	t.Helper()
	names, nested := listTemplates(t)
	lists = template(t, 302, "srhSegmentIPv6BasicList", "subTemplateList", "subTemplateMultiList", "flowId")
	var sids [][]byte
	for _, text := range []string{"2001:db8:a::1", "2001:db8:b::1"} {
		sids = append(sids, netip.MustParseAddr(text).AsSlice())
	}
	eth0 := record(t, names, func(w *RecordWriter) { w.Text("eth0"); w.Uint(2) })
	basic, err1 := AppendBasicList(nil, Ordered, fieldOf(t, "srhSegmentIPv6"), sids...)
	inner := record(t, nested, func(w *RecordWriter) { w.Uint(17); w.Octets(basic) })
	records, err2 := AppendSubTemplateList(nil, AllOf, names, eth0, eth0)
	sets, err3 := AppendSubTemplateMultiList(nil, ExactlyOneOf, ListRecords{names, [][]byte{eth0}}, ListRecords{nested, [][]byte{inner}})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	e := encoder(t, UDP, 1452, names, nested, lists)
	e.Start(nil)
	if err := e.AddTemplates(); err != nil {
		t.Fatal(err)
	}
	messages = append(messages, e.Finish(exportTime))
	return append(messages, message(t, e, lists, record(t, lists, func(w *RecordWriter) {
		w.Octets(basic)
		w.Octets(records)
		w.Octets(sets)
		w.Uint(7)
	}))), lists
}

// A session reads the lists of its own records, with its templates while they apply.
func TestListsOfASession(t *testing.T) {
	messages, _ := withLists(t)
	s := session(t, UDP, Limits{})
	decode(t, s, messages[0])
	m := decode(t, s, messages[1])
	show := func(r ListReader) (text []string) {
		for record := range m.Sets[0].Records() {
			for v := range record.Values() {
				text = append(text, shownValue(r, v))
			}
		}
		return text
	}
	want := []string{
		"(ordered of 2: 2001:db8:a::1 2001:db8:b::1)",
		"(allOf of 2: [eth0 2] [eth0 2])",
		"(exactlyOneOf of 2: 300{ [eth0 2]} 301{ [17 (ordered of 2: 2001:db8:a::1 2001:db8:b::1)]})", "7",
	}
	if got := show(s.Lists(m.Domain, exportTime)); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for name, r := range map[string]ListReader{"another domain": s.Lists(m.Domain+1, exportTime),
		"later": s.Lists(m.Domain, exportTime.AddDate(0, 0, 1))} {
		if got := show(r)[1]; got != "(allOf of 0: not known)" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// tshark reads the messages without a complaint, and the list of records of one template:
// its semantics, its template and its values. It shows the other two kinds as octets.
func TestTsharkReadsLists(t *testing.T) {
	messages, _ := withLists(t)
	path := capture(t, messages...)
	if lines := tshark.Run(t, path, "_ws.expert || _ws.malformed", "-e", "frame.number", "-e", "_ws.expert.message"); len(lines) > 0 {
		t.Errorf("tshark complains: %q", lines)
	}
	lines := tshark.Run(
		t,
		path,
		"frame.number == 2",
		"-e",
		"cflow.subtemplate_semantic",
		"-e",
		"cflow.subtemplate_id",
		"-e",
		"cflow.if_name",
		"-e",
		"cflow.inputint",
		"-e",
		"cflow.protocol",
		"-e",
		"cflow.flow_id",
	)
	const want = "3\t300\teth0,eth0\t2,2\t\t7"
	if len(lines) != 1 || lines[0] != want {
		t.Errorf("tshark has %q, want %q", lines, want)
	}
}

// FuzzLists reads any octets as each kind of list: members lie within the octets, one
// after the other, and our encoding of them is the same list.
func FuzzLists(f *testing.F) {
	messages, _ := withLists(f)
	d := session(f, UDP, Limits{})
	decode(f, d, messages[0])
	for r := range decode(f, d, messages[1]).Sets[0].Records() {
		for v := range r.Values() {
			f.Add(v.Octets)
		}
	}
	f.Add(craft.Hex(f, "03 0123 ffff 07 00 0004 0001 0611 05 04 0004 0001"))
	f.Add(craft.Hex(f, "03 012d 06 07 03 000e 0001 01 02"))
	names, nested := listTemplates(f)
	known := reader(f, names, nested)
	values, records, several := fieldOf(f, "basicList"), fieldOf(f, "subTemplateList"), fieldOf(f, "subTemplateMultiList")
	f.Fuzz(func(t *testing.T, octets []byte) {
		if len(octets) > 65535 {
			return
		}
		again := func(b []byte, err error) {
			t.Helper()
			if err != nil || !bytes.Equal(b, octets) {
				t.Errorf("%x, %v; want %x", b, err, octets)
			}
		}
		if l, ok := known.Values(Value{&values, octets}); ok {
			var each [][]byte
			for v := range l.Values() {
				each = append(each, v.Octets)
			}
			if len(each) != l.Count || l.Count > len(octets) {
				t.Fatalf("%d values, counted %d", len(each), l.Count)
			}
			if b, err := AppendBasicList(nil, l.Semantics, l.Field, each...); err != nil ||
				len(b) <= len(octets) && !bytes.Equal(b, octets) && l.Field.Length != VariableLength {
				t.Errorf("%x, %v; want %x", b, err, octets)
			}
		}
		if l, ok := known.Records(Value{&records, octets}); ok && l.Template != nil {
			again(AppendSubTemplateList(nil, l.Semantics, l.Template, recordsOf(t, l)...))
		}
		if l, ok := known.Sets(Value{&several, octets}); ok {
			var sets []ListRecords
			for _, set := range l.Sets {
				if set.Template == nil {
					return
				}
				sets = append(sets, ListRecords{set.Template, recordsOf(t, set)})
			}
			again(AppendSubTemplateMultiList(nil, l.Semantics, sets...))
		}
	})
}

func recordsOf(t testing.TB, l RecordList) (list [][]byte) {
	t.Helper()
	for r := range l.Records() {
		list = append(list, r.Octets)
	}
	if len(list) != l.Count {
		t.Fatalf("%d records, counted %d", len(list), l.Count)
	}
	return list
}
