// SPDX-License-Identifier: Apache-2.0

package record

import (
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/ipfix"
)

// Measurements that were written in IPFIX are read as they were, except for names of
// nodes, which options records have.
func TestMeasurementsAreRead(t *testing.T) {
	x := newTemplates(t)
	none := func(v ipfix.Value) { t.Errorf("%v is out of range", v) }
	same := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	for _, n := range slices.Concat(goldenLosses(), goldenDelays(), goldenBlocks()) {
		tmpl, octets := encoded(t, x, func(e *Encoding) error { return encodePart(e, n.record, 0, 0) })
		reading := NewReading(tmpl, ipfix.EnterpriseExample)
		read := reading.Read(ipfix.DataRecord{Template: tmpl, Octets: octets}, none)
		kind := map[string]DataKind{KindLoss: DataLoss, KindDelay: DataDelay, KindBlock: DataBlock}[n.record.Kind()]
		if reading.Kind != kind || read.Kind != kind || !reading.IOAM {
			t.Errorf("%+v", reading)
		}
		got, want := read.Value.(Record), n.record
		switch r := want.(type) {
		case *Loss:
			r.Node, r.FromDifference, r.ToDifference = "", "", ""
		case *Delay:
			r.Node = ""
		case *Block:
			r.Node = ""
			if got := got.(*Block); got.Reading() != r.Reading() {
				t.Errorf("%+v, want %+v", got.Reading(), r.Reading())
			}
		}
		// Not available is all ones, so the JSON of both says all.
		if diff := cmp.Diff(string(AppendJSON(nil, want)), string(AppendJSON(nil, got)), same); diff != "" {
			t.Errorf("%s: %s", n.name, diff)
		}
	}
}

// The segments of the path are in the order of the SRH in IPFIX, the last one first.
func TestSIDsInIPFIX(t *testing.T) {
	x := newTemplates(t)
	l := goldenLosses()[0].record.(*Loss)
	tmpl, octets := encoded(t, x, func(e *Encoding) error { return encodePart(e, l, 0, 0) })
	var want []byte
	for _, sid := range slices.Backward(l.SIDs) {
		want = append(want, sid.AsSlice()...)
	}
	if !strings.Contains(string(octets), string(want)) || tmpl == nil {
		t.Errorf("%x has no %x", octets, want)
	}
	l.SIDs = slices.Repeat(l.SIDs, 100) // more than an SRH may have
	tmpl, octets = encoded(t, x, func(e *Encoding) error { return encodePart(e, l, 0, 0) })
	got := NewReading(tmpl, ipfix.EnterpriseExample).Read(ipfix.DataRecord{Template: tmpl, Octets: octets},
		func(v ipfix.Value) { t.Errorf("%v", v) }).Value.(*Loss)
	if !slices.Equal(got.SIDs, l.SIDs[:maxSIDs]) {
		t.Errorf("%d segments", len(got.SIDs))
	}
	template, err := x.Registry.Template(256, "pmVerdict", "srhSegmentIPv6ListSection", "sourceIPv6Address")
	if err != nil {
		t.Fatal(err)
	}
	broken := append([]byte{2, 17}, make([]byte, 17+16)...)
	got = NewReading(template, ipfix.EnterpriseExample).Read(ipfix.DataRecord{Template: template, Octets: broken},
		func(v ipfix.Value) { t.Errorf("%v", v) }).Value.(*Loss)
	if got.SIDs != nil || got.Source.IsValid() || got.Verdict != loss.Measured || got.Ratio.Valid {
		t.Errorf("%+v", got)
	}
}

// RFC 9951 has elements only for delays since the encapsulating node, in microseconds,
// and not for negative ones.
func TestOnPathDelay(t *testing.T) {
	for _, tt := range []struct {
		change func(*Delay)
		want   bool
	}{
		{func(*Delay) {}, true},
		{func(d *Delay) { d.Method = loss.MeanOfSums }, true},
		{func(d *Delay) { d.Method = loss.OneWay }, true},
		{func(d *Delay) { d.Method = loss.TwoWay }, false},
		{func(d *Delay) { d.Method = loss.RoundTrip }, false},
		{func(d *Delay) { d.Scope = OneSegment }, false},
		{func(d *Delay) { d.Min = -1 }, false},
		{func(d *Delay) { d.Mean = 1000 * (math.MaxUint32 + 1) }, false},
		{func(d *Delay) { d.Mean = 1000*(math.MaxUint32+1) - 1 }, true},
	} {
		x, d := newTemplates(t), goldenDelays()[0].record.(*Delay)
		tt.change(d)
		tmpl, octets := encoded(t, x, func(e *Encoding) error { return encodePart(e, d, 0, 0) })
		if got := strings.Contains(strings.Join(said(t, x, tmpl, octets), " "), "pathDelayM"); got != tt.want {
			t.Errorf("%+v: %v", d, got)
		}
	}
}

func TestBlockDelays(t *testing.T) {
	flow := loss.Flow{ID: 7, Assumed: true, Points: []loss.PointID{1, 2}, Timing: loss.Timing{Length: loss.MinBlock}}
	report := func(packets uint64, sum int64, doubled loss.Marked) loss.Report {
		return loss.Report{Present: true, Reading: loss.Reading{Packets: packets, TimeSum: sum, Timed: true, DoubleMarked: doubled}}
	}
	for _, tt := range []struct {
		to   loss.Report
		want string
	}{
		{report(2, 60, loss.Marked{Packets: 1, TimeSum: 99}), "mean-of-sums 30, double-marking 88"},
		{report(1, 60, loss.Marked{Packets: 1, TimeSum: 99}), "mean-at-least 60, double-marking 88"}, // the lost one left at the block's start, or later
		{report(1, -60, loss.Marked{Packets: 1, TimeSum: 99}), "double-marking 88"},                  // a bound that says nothing
		{report(3, 60, loss.Marked{Packets: 1, TimeSum: 99}), "double-marking 88"},
		{report(2, 60, loss.Marked{}), "mean-of-sums 30"},
		{loss.Report{}, ""},
	} {
		r := loss.Compute(&flow, 4, []loss.Report{report(2, 0, loss.Marked{Packets: 1, TimeSum: 11}), tt.to})
		var got []string
		for _, d := range NewBlockDelays(Measurement{}, &r, &r.Whole) {
			got = append(got, d.Method.String()+" "+strconv.FormatInt(d.Mean, 10))
			if d.FlowID != 7 || d.Block.Value != 4 || d.Scope != WholeWay || d.Samples != 1 || d.Jitter.Valid || !d.FromClockError.Valid {
				t.Errorf("%+v", d)
			}
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%v, want %s", got, tt.want)
		}
	}
}

// Points have names in JSON, which are read again, and in text, besides their numbers.
func TestNamesOfPoints(t *testing.T) {
	list := []Record{
		&Loss{Measurement: Measurement{Flow: "red", FlowID: 7, From: 0, To: 2}},
		&Delay{Measurement: Measurement{FlowID: 7, From: 1, To: 2}},
	}
	NamePoints(list, func(id loss.PointID) string { return []string{"athos", "", "2001:db8::3"}[id] })
	for i, want := range []struct{ text, json string }{
		{"loss of flow 7 red, points 0 (athos) to 2 (2001:db8::3)", `"from":0,"to":2,"from_node":"athos","to_node":"2001:db8::3"`},
		{"delay of flow 7, points 1 to 2 (2001:db8::3)", `"from":1,"to":2,"to_node":"2001:db8::3"`},
	} {
		line := AppendJSON(nil, list[i])
		if !strings.Contains(list[i].Text(), want.text) || !strings.Contains(string(line), want.json) {
			t.Errorf("%s\n%s", list[i].Text(), line)
		}
		again, err := Parse(line)
		if err != nil || again.Text() != list[i].Text() {
			t.Errorf("%+v, %v", again, err)
		}
	}
}

// Reasons of later versions are skipped; words that are no verdict are errors.
func TestMeasurementWords(t *testing.T) {
	line := AppendJSON(nil, goldenLosses()[0].record)
	got, err := Parse([]byte(strings.Replace(string(line), `"contradicting"`, `"contradicting","of a later version"`, 1)))
	if err != nil || got.(*Loss).FromReasons != loss.Contradicting|loss.ClockWorse {
		t.Errorf("%+v, %v", got, err)
	}
	for _, change := range [][2]string{{`"uncertain"`, `"perhaps"`}, {`"segment"`, `"half"`}, {`["contradicting`, `{"contradicting`}} {
		if _, err := Parse([]byte(strings.Replace(string(line), change[0], change[1], 1))); err == nil {
			t.Errorf("%s is accepted", change[1])
		}
	}
}
