// SPDX-License-Identifier: Apache-2.0

package record

import (
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

// twoNodes is a trace of nodes 2 and 3; node 3 has few values.
const twoNodes = "007b3002 fe000200 00000000 00000000" +
	" 3e000003 ffff00ca 6a5f7f7b 0001e848 80000000 ffffffff 00000005 01000309 7261636b" +
	" 3f000002 00c900ca 6a5f7f7b 0001e460 0000474a deadbeef 00000007 00ffffff"

// wideFields is a trace of one node without the short fields, with overflow.
const wideFields = "007b5400 01f00000 0000abcd 3f000000 0153158e 000311f1 000315da cafec0ca f00dc0de ffffffff"

func textRecord(t *testing.T, trace string) Trace {
	t.Helper()
	decoded := decodeTrace(t, trace)
	decoded.NodeLen = uint8(decoded.Type.NodeLen())
	record, err := NewTrace(time.Date(2026, 7, 21, 14, 17, 31, 125_000_001, time.UTC), decoded, udpPacket(), Clock{})
	if err != nil {
		t.Fatal(err)
	}
	record.Node, record.Interface = "gamma", "eth0"
	return record
}

// fewNames are of node 2 and one of its interfaces.
func fewNames(node, link string) *nodenames.Names {
	return nodenames.New(
		nodenames.Node{
			ID:         2,
			IDWide:     ioam.NodeIDWideUnavailable,
			Name:       node,
			Interfaces: []nodenames.Interface{{ID: 201, IDWide: ioam.InterfaceIDWideUnavailable, Name: link}},
		},
	)
}

func TestText(t *testing.T) {
	const head = "2026-07-21T14:17:31.125000001Z  gamma eth0  [2001:db8:1::2]:4242 > [2001:db8:2::2]:9, UDP, 128 bytes, namespace 123, "
	for _, tt := range []struct{ name, trace, want, line string }{
		{
			"two nodes, the second 1 ms later", twoNodes,
			head + "type 0xfe0002, 8 bytes free, 1ms end to end\n" +
				"    node 2  201 > 202  hop limit 63  at 14:17:31.124000000  held 18.25µs            data 0xdeadbeef  queue 7  schema -\n" +
				"    node 3  - > 202    hop limit 62  +1ms                   held over 2.147483648s  data -           queue 5  schema 777:\"rack\"\n",
			"node(2) in=201 out=202 hop-limit=63 transit-delay=18.25µs data=0xdeadbeef queue=7; " +
				"node(3) in=- out=202 hop-limit=62 hop-delay=1000µs transit-delay=over-2147483.648µs queue=5 schema=777:\"rack\"; end-to-end=1000µs",
		},
		{
			"wide fields and overflow", wideFields,
			head + "type 0x01f000\n" +
				"    node 22222222  201201 > 202202  hop limit 63  data-wide 0xcafec0caf00dc0de  checksum 0x0000abcd  buffer -\n" +
				"    and further nodes, for which the trace had no room\n",
			"node(22222222) in-wide=201201 out-wide=202202 hop-limit=63 data-wide=0xcafec0caf00dc0de checksum=0x0000abcd; overflow",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			record := textRecord(t, tt.trace)
			if got := record.Text(); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if got := record.PathLine(); got != tt.line {
				t.Errorf("got\n%s\nwant\n%s", got, tt.line)
			}
			// A record read from JSON, as by an observer, has the same text.
			var again Trace
			if err := Unmarshal(AppendJSON(nil, &record), &again); err != nil || again.Text() != tt.want {
				t.Errorf("by way of JSON: %v\n%s", err, again.Text())
			}
		})
	}
}

func TestPathNames(t *testing.T) {
	record := textRecord(t, twoNodes)
	record.Name(fewNames("porthos", "eth0"))
	if got, want := record.PathLine(), "porthos(2) in=eth0(201) out=202 hop-limit=63"; !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s …", got, want)
	}
	for _, want := range []string{"    porthos  eth0 > 202  hop limit 63", "\n    node 3   - > 202"} {
		if got := record.PathText(); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if line := string(AppendJSON(nil, &record)); !strings.Contains(line, `"node_id":2,`) ||
		!strings.Contains(line, `"node_name":"porthos","ingress_name":"eth0"}`) {
		t.Error(line)
	}
}

// Names in JSON that another program wrote may hold anything.
func TestHostileNames(t *testing.T) {
	for _, name := range []string{"\x1b[2Jr2", "r2\u202e", "r2\nfalse line", strings.Repeat("x", 10_000)} {
		r := textRecord(t, twoNodes)
		r.Node, r.Interface, r.Nodes[0].NodeName, r.Nodes[0].IngressName, r.Nodes[0].EgressName = name, name, name, name, name
		card := &Postcard{Node: name, Ingress: name, Egress: name, TraceType: r.TraceType, Raw: r.Raw[0]}
		path := &Path{
			Nodes:    []PathNode{{Node: name, Ingress: name, Egress: name}},
			LastSeen: &LastSeen{Node: name},
			Unknown:  []Doubtful{{Node: name, Doubt: DoubtEnded}},
			Verdict:  PathUnknown,
		}
		flow := &Flow{Node: name, Ingress: name, Egress: name}
		edge := &EdgeFlow{Node: name}
		lost := &Loss{Measurement: Measurement{Node: name, Flow: name, FromNode: name, ToNode: name}}
		slow := &Delay{Measurement: Measurement{Node: name, Flow: name, FromNode: name, ToNode: name}}
		block := &Block{Node: name, Flow: name}
		for _, x := range []Record{&r, card, path, flow, edge, lost, slow, block, &Other{Node: name}} {
			text := x.Text()
			if strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "\nfalse line") || len(text) > 1500 {
				t.Errorf("%s: %q", x.Kind(), text)
			}
		}
	}
}

// Short and wide ids of one node are both shown.
func TestPathOfBothForms(t *testing.T) {
	n := NodeData{NodeID: NewField[ioam.NodeID](2, true), NodeIDWide: NewField[ioam.NodeIDWide](22, true),
		IngressID: NewField[ioam.InterfaceID](201, true), EgressID: NewField[ioam.InterfaceID](0, false),
		IngressIDWide: NewField[ioam.InterfaceIDWide](2001, true), EgressIDWide: NewField[ioam.InterfaceIDWide](2002, true)}
	r := Trace{Nodes: []NodeData{n}}
	if got, want := r.PathText(), "    node 2  wide 22  201 > -  wide 2001 > 2002\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got, want := r.PathLine(), "node(2) node-wide=22 in=201 out=- in-wide=2001 out-wide=2002"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Times that are missing at some nodes, and clocks that differ.
func TestPathTimes(t *testing.T) {
	at := func(us int64) Field[time.Time] { return NewField(time.UnixMicro(us).UTC(), true) }
	unknown := NewField(time.Time{}, false)
	for _, tt := range []struct {
		times []Field[time.Time]
		want  string // the nodes' times, then the whole path's
	}{
		{[]Field[time.Time]{at(1), at(39)}, "at 00:00:00.000001000 +38µs end-to-end=38µs"},
		{[]Field[time.Time]{unknown, at(5), unknown, at(8)}, "- at 00:00:00.000005000 - +3µs first-to-last=3µs"},
		{[]Field[time.Time]{at(5), at(8), unknown}, "at 00:00:00.000005000 +3µs - first-to-last=3µs"},
		{[]Field[time.Time]{at(5), unknown, at(8)}, "at 00:00:00.000005000 - +3µs end-to-end=3µs"},
		{[]Field[time.Time]{at(5), at(3)}, "at 00:00:00.000005000 -2µs end-to-end=-2µs"},
		{[]Field[time.Time]{at(5), at(5)}, "at 00:00:00.000005000 +0s end-to-end=0µs"},
		{[]Field[time.Time]{at(5)}, "at 00:00:00.000005000"},
		{[]Field[time.Time]{unknown, unknown}, "- -"},
		{nil, ""},
	} {
		var r Trace
		for _, f := range tt.times {
			r.Nodes = append(r.Nodes, NodeData{Timestamp: f})
		}
		got := strings.Join(strings.Fields(strings.ReplaceAll(r.PathText(), "node -", "")), " ")
		if parts := strings.Split(r.PathLine(), "; "); strings.Contains(parts[len(parts)-1], "=") && len(parts) > 1 &&
			!strings.HasPrefix(parts[len(parts)-1], "node") {
			got += " " + parts[len(parts)-1]
		}
		if got != tt.want {
			t.Errorf("%s\nwant %s", got, tt.want)
		}
	}
}

// A time is end to end only where the trace ended: not for a packet that was seen on
// its way, however much room its trace had left, nor if a time is missing.
func TestElapsed(t *testing.T) {
	timed := func() Trace {
		var r Trace
		for us := range int64(3) {
			r.Nodes = append(r.Nodes, NodeData{Timestamp: NewField(time.UnixMicro(us), true)})
		}
		return r
	}
	for _, tt := range []struct {
		name   string
		change func(*Trace)
		want   Stretch
		line   string
	}{
		{"taken off", func(*Trace) {}, EndToEnd, "; end-to-end=2µs"},
		{"taken off, with room", func(r *Trace) { r.Remaining = NewField(4, true) }, EndToEnd, "; end-to-end=2µs"},
		{"captured", func(r *Trace) { r.OnItsWay = true }, ToHere, "; to-here=2µs"},
		{"captured, with room", func(r *Trace) { r.OnItsWay, r.Remaining = true, NewField(4, true) }, ToHere, "; to-here=2µs"},
		{"of the kernel", func(r *Trace) { r.Source = SourceKernel }, ToHere, "; to-here=2µs"},
		{"overflow", func(r *Trace) { r.Overflow = NewField(true, true) }, FirstToLast, "; first-to-last=2µs"},
		{"captured, overflow", func(r *Trace) { r.OnItsWay, r.Overflow = true, NewField(true, true) }, FirstToLast, "; first-to-last=2µs"},
		{"first unknown", func(r *Trace) { r.Nodes[0].Timestamp.Valid = false }, FirstToLast, "; first-to-last=1µs"},
		{"the last node wrote it", func(r *Trace) { r.Time.Time = time.Unix(0, 2100) }, EndToEnd, "; end-to-end=2µs"},
		{"ended later", func(r *Trace) { r.Time.Time = time.UnixMicro(105_000) }, EndToEnd, "; end-to-end=105000µs"},
		{"ended later, overflow", func(r *Trace) { r.Time.Time, r.Overflow = time.UnixMicro(105_000), NewField(true, true) }, EndToEnd, "; end-to-end=105000µs"},
		{"ended later, the last unknown", func(r *Trace) { r.Time.Time, r.Nodes[2].Timestamp.Valid = time.UnixMicro(105_000), false }, EndToEnd, "; end-to-end=105000µs"},
		{"ended later, first unknown", func(r *Trace) { r.Time.Time, r.Nodes[0].Timestamp.Valid = time.UnixMicro(105_000), false }, FirstToLast, "; first-to-last=1µs"},
		{"ended at a message's time", func(r *Trace) { r.Time.Time, r.Undated = time.UnixMicro(105_000), true }, ToHere, "; to-here=2µs"},
		{"captured later", func(r *Trace) { r.Time.Time, r.OnItsWay = time.UnixMicro(105_000), true }, ToHere, "; to-here=2µs"},
		{"of the kernel, later", func(r *Trace) { r.Time.Time, r.Source = time.UnixMicro(105_000), SourceKernel }, ToHere, "; to-here=2µs"},
		{"a copy", func(r *Trace) { r.Time.Time, r.Copy = time.UnixMicro(105_000), true }, ThereAndBack, "; there-and-back=105000µs"},
	} {
		r := timed()
		tt.change(&r)
		_, over, ok := r.Elapsed()
		if !ok || over != tt.want || !strings.HasSuffix(r.PathLine(), tt.line) || !strings.Contains(r.Text(), "s "+string(tt.want)+"\n") {
			t.Errorf("%s: %q, %v; %s; %s", tt.name, over, ok, r.PathLine(), r.Text())
		}
	}
}
