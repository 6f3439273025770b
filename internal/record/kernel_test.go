// SPDX-License-Identifier: Apache-2.0

package record

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// kernelTrace is a trace of two nodes as the kernel reports it.
func kernelTrace(t *testing.T) *Trace {
	t.Helper()
	trace := ioam.Trace{Namespace: 123, NodeLen: 2, Type: 0xa00000, Data: craft.Hex(t, "3e000003 6a5f7f7c 3f000002 ffffffff")}
	r, err := NewKernelTrace(time.Date(2026, 11, 21, 5, 21, 0, 1, time.UTC), trace, Clock{})
	if err != nil {
		t.Fatal(err)
	}
	r.Node = "porthos"
	return &r
}

// Fields that the kernel does not report are absent: in JSON, in text and in IPFIX.
func TestKernelTrace(t *testing.T) {
	const want = `{"kind":"trace","time":"2026-11-21T05:21:00.000000001Z","node":"porthos","source":"kernel","option":"pre-allocated",` +
		`"namespace":123,"trace_type":"0xa00000","nodes":[{"hop_limit":63,"node_id":2,"timestamp":null},` +
		`{"hop_limit":62,"node_id":3,"timestamp":"2026-07-21T14:17:32.000000000Z"}]}`
	record := kernelTrace(t)
	line := AppendJSON(nil, record)
	if string(line) != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
	back, err := Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(back, Record(record), cmpopts.IgnoreFields(Trace{}, "Raw"), cmpopts.EquateComparable(Packet{})); diff != "" {
		t.Errorf("read from JSON: %s", diff)
	}
	const text = "2026-11-21T05:21:00.000000001Z  porthos  unknown packet, namespace 123, type 0xa00000, reported by the kernel\n" +
		"    node 2  hop limit 63  -\n" +
		"    node 3  hop limit 62  at 14:17:32.000000000\n"
	if got := record.Text(); got != text {
		t.Errorf("got\n%swant\n%s", got, text)
	}
	timed := kernelTrace(t)
	timed.Nodes[0].Timestamp = NewField(timed.Nodes[1].Timestamp.Value.Add(-time.Millisecond), true)
	if got := timed.Text(); !strings.Contains(got, ", reported by the kernel, 1ms to here\n") {
		t.Errorf("got\n%s, want the time to here", got)
	}
	empty := kernelTrace(t)
	empty.Nodes, empty.Raw = []NodeData{}, nil
	for _, tt := range []struct {
		trace *Trace
		index int
		want  string
	}{
		{record, 0, "ioamHopIndex=0 ioamHopCount=2 ioamRecordSource=1 ioamTimestampNanoseconds=1900-01-01 ioamHopLimit=63 ioamNodeId=2 ioamTimestampSeconds=4294967295"},
		{record, 1, "ioamHopIndex=1 ioamHopCount=2 ioamRecordSource=1 ioamTimestampNanoseconds=2026-07-21T14:17:32Z ioamHopLimit=62 ioamNodeId=3 ioamTimestampSeconds=1784643452"},
		{empty, 0, "ioamHopIndex=0 ioamHopCount=0 ioamRecordSource=1 ioamTimestampNanoseconds=1900-01-01 ioamHopLimit=255 ioamNodeId=16777215 ioamTimestampSeconds=4294967295"},
	} {
		x := newTemplates(t)
		tmpl, octets := encoded(t, x, func(e *Encoding) error { return encodePart(e, tt.trace, tt.index, 9) })
		got := strings.Replace(strings.Join(said(t, x, tmpl, octets), " "), "2036-02-07T06:28:16Z", "1900-01-01", 1)
		if want := saidTime + "ioamOptionType=0 ioamNamespaceId=123 ioamTraceType=10485760 ioamReportId=9 " + tt.want; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Templates for the kernel's traces are bounded like others.
func TestKernelTemplatesAreBounded(t *testing.T) {
	x := newTemplates(t)
	e := x.Encoding()
	for n := range 1024 {
		r := kernelTrace(t)
		r.TraceType = ioam.TraceType(n) << 12
		r.Raw = []ioam.NodeData{{Type: r.TraceType, Bytes: make([]byte, 4*r.TraceType.NodeLen())}}
		r.Nodes = r.Nodes[:1]
		if err := encodePart(e, r, 0, 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(x.Layouts()); n > MaxShapes+1 || e.Layout.shape != (shape{DataHop, 1 << kernelIOAM}).general() {
		t.Errorf("%d templates; the last record has %+v", n, e.Layout.shape)
	}
}
