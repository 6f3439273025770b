// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"net/netip"
	"testing"

	"github.com/waymark-net/waymark/test/craft"
)

// The examples of RFC 7011 appendix A, with enterprise number 32473 where it
// names none.
const (
	rfcTemplate = "0002 001c 0100 0005 0008 0004 000c 0004 000f 0004 0002 0004 0001 0004"

	rfcEnterpriseTemplate = "0002 0020 0101 0005 0008 0004 000c 0004 800f 0004 00007ed9 0002 0004 0001 0004"

	rfcData = `0100 0040
		c000020c c00002fe c0000201 00001391 00518c81
		c000021b c0000217 c0000202 000002ec 0005ef46
		c0000238 c0000241 c0000203 00000005 00001986`

	rfcOptionsTemplate = "0003 0018 0102 0003 0001 008d 0004 0029 0002 002a 0002 0000"

	rfcEnterpriseOptionsTemplate = "0003 001c 0103 0003 0001 008d 0004 0029 0002 802a 0004 00007ed9 0000"

	rfcEnterpriseScope = "0003 001c 0104 0003 0001 807b 0004 00007ed9 0029 0002 002a 0002 0000"

	rfcScopeData = "0104 0014 00000001 0159 27d9 00000002 02b2 4fb2"
)

// exampleElements are those that the examples use besides IANA's.
func exampleElements(t *testing.T) *Registry {
	t.Helper()
	r, err := NewRegistry(IANA(), []Element{
		{Enterprise: EnterpriseExample, ID: 15, Name: "proprietary", Type: Unsigned32},
		{Enterprise: EnterpriseExample, ID: 42, Name: "flows", Type: Unsigned32},
		{Enterprise: EnterpriseExample, ID: 123, Name: "scope", Type: Unsigned32},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var rfcFlows = []struct {
	source, destination, nextHop string
	packets, octets              uint64
}{
	{"192.0.2.12", "192.0.2.254", "192.0.2.1", 5009, 5344385},
	{"192.0.2.27", "192.0.2.23", "192.0.2.2", 748, 388934},
	{"192.0.2.56", "192.0.2.65", "192.0.2.3", 5, 6534},
}

// body returns the sets of a message that the encoder makes.
func TestRFC7011Encode(t *testing.T) {
	r := exampleElements(t)
	flows, err := r.Template(
		256,
		"sourceIPv4Address",
		"destinationIPv4Address",
		"ipNextHopIPv4Address",
		"packetDeltaCount[4]",
		"octetDeltaCount[4]",
	)
	if err != nil {
		t.Fatal(err)
	}
	proprietary, err := r.Template(
		257,
		"sourceIPv4Address",
		"destinationIPv4Address",
		"proprietary",
		"packetDeltaCount[4]",
		"octetDeltaCount[4]",
	)
	if err != nil {
		t.Fatal(err)
	}
	options := make([]*Template, 3)
	for i, specs := range [][]string{
		{"lineCardId", "exportedMessageTotalCount[2]", "exportedFlowRecordTotalCount[2]"},
		{"lineCardId", "exportedMessageTotalCount[2]", "flows"},
		{"scope", "exportedMessageTotalCount[2]", "exportedFlowRecordTotalCount[2]"},
	} {
		if options[i], err = r.OptionsTemplate(TemplateID(258+i), specs[:1], specs[1:]...); err != nil {
			t.Fatal(err)
		}
	}

	var flowRecords, scopeRecords [][]byte
	for _, f := range rfcFlows {
		flowRecords = append(flowRecords, record(t, flows, func(w *RecordWriter) {
			w.Addr(netip.MustParseAddr(f.source))
			w.Addr(netip.MustParseAddr(f.destination))
			w.Addr(netip.MustParseAddr(f.nextHop))
			w.Uint(f.packets)
			w.Uint(f.octets)
		}))
	}
	for _, v := range [][3]uint64{{1, 345, 10201}, {2, 690, 20402}} {
		scopeRecords = append(scopeRecords, record(t, options[2], func(w *RecordWriter) {
			for _, n := range v {
				w.Uint(n)
			}
		}))
	}

	for _, c := range []struct {
		name, want string
		template   *Template
		records    [][]byte
	}{
		{"A.2.1 and A.3", rfcTemplate + rfcData, flows, flowRecords},
		{"A.2.2", rfcEnterpriseTemplate, proprietary, nil},
		{"A.4.1", rfcOptionsTemplate, options[0], nil},
		{"A.4.2", rfcEnterpriseOptionsTemplate, options[1], nil},
		{"A.4.3 and A.4.4", rfcEnterpriseScope + rfcScopeData, options[2], scopeRecords},
	} {
		e := encoder(t, TCP, 65535, c.template)
		e.Start(nil)
		if err := e.AddTemplates(); err != nil {
			t.Fatal(err)
		}
		for _, b := range c.records {
			if err := e.Add(c.template, b); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := e.Finish(exportTime)[headerLen:], craft.Hex(t, c.want); !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%x, want\n%x", c.name, got, want)
		}
	}
}

// rfcMessage is the message that appendix A describes: 152 octets.
func rfcMessage(t testing.TB) []byte {
	t.Helper()
	return craft.Hex(t, "000a 0098 69200000 00000000 00000001"+rfcTemplate+rfcData+rfcOptionsTemplate+
		"0102 0014 00000001 0159 27d9 00000002 02b2 4fb2")
}

func TestRFC7011Decode(t *testing.T) {
	m := decode(t, session(t, TCP, Limits{}), rfcMessage(t))
	if len(m.Problems) > 0 || m.Domain != 1 || m.Records != 5 || len(m.Sets) != 2 || len(m.Templates) != 2 {
		t.Fatalf("%+v", m)
	}
	i := 0
	for r := range m.Sets[0].Records() {
		var addresses []string
		var counts []uint64
		for v := range r.Values() {
			if a, ok := v.Addr(); ok {
				addresses = append(addresses, a.String())
			} else if n, ok := v.Uint(); ok {
				counts = append(counts, n)
			}
		}
		want := rfcFlows[i]
		if len(addresses) != 3 || addresses[0] != want.source || addresses[1] != want.destination || addresses[2] != want.nextHop ||
			len(counts) != 2 || counts[0] != want.packets || counts[1] != want.octets {
			t.Errorf("record %d: %v %v, want %v", i, addresses, counts, want)
		}
		i++
	}
	if i != 3 {
		t.Errorf("%d flow records", i)
	}
	options := m.Sets[1]
	if options.Template.Scope() != 1 || options.Count != 2 {
		t.Fatalf("options %+v", options)
	}
	var flows []uint64
	for r := range options.Records() {
		v, _ := r.Value(EnterpriseIANA, 42)
		n, _ := v.Uint()
		flows = append(flows, n)
	}
	if len(flows) != 2 || flows[0] != 10201 || flows[1] != 20402 {
		t.Errorf("exportedFlowRecordTotalCount %v", flows)
	}
}

// A.5: values of variable length, below 255 octets and not.
func TestRFC7011VariableLength(t *testing.T) {
	tmpl := template(t, 256, "interfaceName[v]")
	for _, c := range []struct {
		n      int
		prefix string
	}{{5, "05"}, {254, "fe"}, {255, "ff00ff"}, {1000, "ff03e8"}} {
		text := string(bytes.Repeat([]byte("x"), c.n))
		got := record(t, tmpl, func(w *RecordWriter) { w.Text(text) })
		if want := append(craft.Hex(t, c.prefix), text...); !bytes.Equal(got, want) {
			t.Errorf("%d octets: %x", c.n, got[:4])
		}
		m := decode(t, session(t, UDP, Limits{}), message(t, encoder(t, UDP, 65535, tmpl), tmpl, got))
		for r := range m.Sets[0].Records() {
			v, _ := r.Value(EnterpriseIANA, 82)
			if back, ok := v.Text(); !ok || back != text {
				t.Errorf("%d octets: read %d", c.n, len(back))
			}
		}
	}
	// The 3-octet form may be used for short values, too (§7).
	m := decode(
		t,
		session(t, UDP, Limits{}),
		craft.Hex(t, "000a 0028 69200000 00000000 00000007"+"0002 000c 0100 0001 0052 ffff"+"0100 000c ff0005 68656c6c6f"),
	)
	for r := range m.Sets[0].Records() {
		if v, _ := r.Value(EnterpriseIANA, 82); string(v.Octets) != "hello" {
			t.Errorf("%q", v.Octets)
		}
	}
}

// Every prefix and every lengthened copy of a good message is malformed, and has
// no effect.
func TestMalformedHasNoEffect(t *testing.T) {
	good := rfcMessage(t)
	s := session(t, TCP, Limits{})
	for n := range len(good) {
		cut := bytes.Clone(good[:n])
		var p *Problem
		if _, err := s.Decode(cut, exportTime); !errors.As(err, &p) || !p.Cause.Discards() {
			t.Fatalf("%d octets: %v", n, err)
		}
		if n < headerLen {
			continue
		}
		binary.BigEndian.PutUint16(cut[2:], uint16(n))
		_, err := s.Decode(cut, exportTime)
		switch n {
		case 16, 16 + 28, 16 + 28 + 64, 16 + 28 + 64 + 24: // whole sets
			if err != nil {
				t.Fatalf("%d octets: %v", n, err)
			}
			s = session(t, TCP, Limits{})
		default:
			if !errors.As(err, &p) || p.Cause != CauseTruncatedSet || len(s.domains) > 0 || s.templates > 0 || s.decoder.Templates() > 0 {
				t.Fatalf("%d octets: %v, domains %v", n, err, s.domains)
			}
		}
	}
}

// A message that changes templates in every way before its error has no effect but that
// those templates end: an exporter that sent it no longer uses them.
func TestDiscardedAfterChanges(t *testing.T) {
	for _, transport := range []Transport{UDP, TCP} {
		for _, c := range []struct {
			changes string
			end     map[Transport][]TemplateID
		}{
			{"0002 000c 0100 0001 0007 0002", map[Transport][]TemplateID{UDP: {256}, TCP: {256}}},                       // redefined
			{"0002 0008 0100 0000", map[Transport][]TemplateID{TCP: {256}}},                                             // withdrawn
			{"0002 0008 0002 0000" + "0003 0008 0003 0000" + portTemplate, map[Transport][]TemplateID{TCP: {257, 258}}}, // all withdrawn, one back
			{"0002 0008 0100 0000" + "0002 000c 0100 0001 0007 0002", map[Transport][]TemplateID{UDP: {256}, TCP: {256}}},
			{"0002 0014 0103 0001 0007 0002 0104 0001 0007 0002" + "00050004", nil}, // new, and one too many
			{portTemplate, nil},
			{portData, nil},
		} {
			s := session(t, transport, Limits{SessionTemplates: 4})
			decode(t, s, sets(t, 0, portTemplate, nameTemplate, aboutTemplate, portData))
			before := maps.Clone(s.domains[7].templates)
			if _, err := s.Decode(sets(t, 1, c.changes, "0100 0003"), exportTime); !errors.Is(err, CauseTruncatedSet) {
				t.Fatalf("%v: %s: %v", transport, c.changes, err)
			}
			after := snapshot(s)
			for _, k := range before {
				s.put(s.domains[7], k)
			}
			for _, id := range c.end[transport] {
				s.forget(s.domains[7], id)
			}
			if want := snapshot(s); after != want {
				t.Errorf("%v: after %s\n%s, want\n%s", transport, c.changes, after, want)
			}
		}
	}
}
