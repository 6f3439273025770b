// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// listsOf are values of lists: of segments, of one interface, and of that interface in a
// list of several templates; the last one is of a template that the collector does not
// know.
func listsOf(t testing.TB, x *exporter) (sids, interfaces, several, unknown []byte) {
	t.Helper()
	segment, err1 := x.registry.Field("srhSegmentIPv6")
	sids, err2 := ipfix.AppendBasicList(
		nil,
		ipfix.Ordered,
		segment,
		netip.MustParseAddr("2001:db8:a::1").AsSlice(),
		netip.MustParseAddr("2001:db8:b::1").AsSlice(),
	)
	names, err3 := x.registry.Template(256, "interfaceName", "basicList")
	one := names.Record(nil)
	one.Text("eth0")
	one.Octets(sids)
	octets, err4 := one.End()
	interfaces, err5 := ipfix.AppendSubTemplateList(nil, ipfix.AllOf, names, octets)
	several, err6 := ipfix.AppendSubTemplateMultiList(nil, ipfix.AllOf, ipfix.ListRecords{Template: names, Records: [][]byte{octets, octets}})
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		t.Fatal(err)
	}
	return sids, interfaces, several, []byte{3, 1, 0x90, 7}
}

// Lists of other exporters are shown as lists, with the elements of their records; those
// that cannot be read, as octets.
func TestOtherLists(t *testing.T) {
	c, out, send := offline(t, Config{}, ipfix.UDP)
	x := newExporter(t, ipfix.UDP, 1)
	sids, interfaces, several, unknown := listsOf(t, x)
	send(x.message(start, 0, fields{{"interfaceName[v]", "eth1"}, {"basicList", []byte{3, 0, 4, 0, 1, 6, 17}}}))
	send(x.message(start, 0, fields{{"srhSegmentIPv6BasicList", sids}, {"subTemplateList", interfaces}, {"subTemplateMultiList", several}}))
	send(x.message(start, 0, fields{{"subTemplateList", unknown}, {"basicList", []byte{3, 0, 4}}}))
	const segments = `["2001:db8:a::1","2001:db8:b::1"]`
	const row = `[{"name":"interfaceName","value":"eth0"},{"name":"basicList","value":` + segments + `}]`
	for i, want := range []string{
		`[{"name":"interfaceName","value":"eth1"},{"name":"basicList","value":[6,17]}]`,
		`[{"name":"srhSegmentIPv6BasicList","value":` + segments + `},{"name":"subTemplateList","value":[` + row + `]},{"name":"subTemplateMultiList","value":[` + row + `,` + row + `]}]`,
		`[{"name":"subTemplateList","value":"03019007"},{"name":"basicList","value":"030004"}]`,
	} {
		line := record.AppendJSON(nil, out.all()[i])
		if _, got, _ := strings.Cut(string(line), `"elements":`); got != want+"}" {
			t.Errorf("got  %s\nwant %s}", got, want)
		}
		back, err := record.Parse(line)
		if err != nil || !bytes.Equal(record.AppendJSON(nil, back), line) {
			t.Errorf("read and written again: %s, %v", record.AppendJSON(nil, back), err)
		}
	}
	if s := c.Stats(); s.Others != 3 {
		t.Errorf("%+v", s)
	}
}

// Lists deep within lists are shown as octets.
func TestOtherDeepLists(t *testing.T) {
	_, out, send := offline(t, Config{}, ipfix.UDP)
	x := newExporter(t, ipfix.UDP, 1)
	list := []byte{3, 0, 4, 0, 1, 6}
	for range maxDepth {
		list = append([]byte{3, 0x01, 0x23, 0xff, 0xff, byte(len(list))}, list...)
	}
	send(x.message(start, 0, fields{{"basicList", list}}))
	if line := string(record.AppendJSON(nil, out.all()[0])); !strings.Contains(line, `"value":[[[["030004000106"]]]]`) {
		t.Error(line)
	}
}
