// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// place is an element in a table.
type place struct{ column, name int }

// placesIn are the elements of a table that records have under conditions.
func placesIn(t rows, has conditions) (list []place) {
	for c := range t {
		for n, e := range t[c].names {
			if !e.foreign && e.spec != "" && has.allow(e.condition) {
				list = append(list, place{c, n})
			}
		}
	}
	return list
}

// swap returns a table in which two fields are exchanged in IPFIX, each with the
// conditions and the readers of the other.
func swap[R any](t table[R], a, b place) table[R] {
	t = cloned(t)
	x, y := &t[a.column].names[a.name], &t[b.column].names[b.name]
	x.spec, y.spec = y.spec, x.spec
	return t
}

// cloned is a table whose rows may be changed.
func cloned[R any](t table[R]) table[R] {
	t = slices.Clone(t)
	for i := range t {
		c := *t[i].row
		c.names = slices.Clone(c.names)
		t[i].row = &c
	}
	return t
}

// values are what a decoder reads from records: sorted, so that only values count.
func values[R any](t testing.TB, x *Templates, in table[R], has func(R) conditions, records []R) (list [][]string) {
	t.Helper()
	for _, r := range records {
		l := &Layout{shape: shape{has: has(r)}}
		if err := (&format[R]{table: in}).compile(l, x.Registry, 300); err != nil {
			t.Fatal(err)
		}
		read := said(t, x, l.Template, follow(nil, r, l.steps.([]step[R])))
		slices.Sort(read)
		list = append(list, read)
	}
	return list
}

// noticed swaps each two fields of equal type and length in IPFIX. The golden
// records have another value in each, so that none stays unnoticed.
func noticed[R any](t *testing.T, in table[R], has func(R) conditions, records []R) {
	t.Helper()
	x := newTemplates(t)
	want, pairs := values(t, x, in, has, records), 0
	places := placesIn(in.rows(), has(records[0]))
	for i, a := range places {
		for _, b := range places[i+1:] {
			first, second := in[a.column].names[a.name].spec, in[b.column].names[b.name].spec
			f, err := x.Registry.Field(first)
			if err != nil {
				t.Fatal(err)
			}
			g, err := x.Registry.Field(second)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := any(records[0]).(*Postcard); ok && first == "observationTimeNanoseconds" && second == "ioamTimestampNanoseconds" {
				continue // a postcard's time is both
			}
			if first == second || f.Length != g.Length || f.Element.Type != g.Element.Type {
				continue
			}
			if a.column == b.column && in[a.column].Form != "object" {
				continue // one value in several elements
			}
			pairs++
			if got := values(t, x, swap(in, a, b), has, records); reflect.DeepEqual(got, want) {
				t.Errorf("%s and %s may be swapped", first, second)
			}
		}
	}
	if pairs == 0 {
		t.Error("no two fields have the same type and length")
	}
}

func TestSwappedFieldsAreNoticed(t *testing.T) {
	var cards []*Postcard
	for _, n := range goldenPostcards(t)[:2] {
		cards = append(cards, n.record.(*Postcard))
	}
	t.Run("postcard", func(t *testing.T) { noticed(t, postcards, (*Postcard).conditions, cards) })
	flow := goldenFlows()[0].record.(*Flow)
	t.Run("flow", func(t *testing.T) { noticed(t, flows, (*Flow).conditions, []*Flow{flow}) })
	trace := goldenTraces(t)[0].record.(*Trace)
	hop := &Hop{}
	trace.hop(hop, 1, 9)
	t.Run("trace", func(t *testing.T) { noticed(t, hops, (*Hop).conditions, []*Hop{hop}) })
	lost, delayed := goldenLosses()[0].record.(*Loss), goldenDelays()[0].record.(*Delay)
	lost.Lost, lost.Duplicated, lost.Ratio = NewField[uint64](110, true), NewField[uint64](11, true), NewField(0.11, true)
	lost.LostBytes, lost.DuplicateBytes = NewField[uint64](14_080, true), NewField[uint64](1408, true)
	lost.Verdict = loss.Idle // Assumed is 1
	t.Run("loss", func(t *testing.T) { noticed(t, blockLosses, (*Loss).conditions, []*Loss{lost}) })
	t.Run("delay", func(t *testing.T) { noticed(t, pathDelays, (*Delay).conditions, []*Delay{delayed}) })
	counted := goldenBlocks()[0].record.(*Block)
	t.Run("block", func(t *testing.T) { noticed(t, blocks, (*Block).conditions, []*Block{counted}) })
	across := goldenEdgeFlows()[3].record.(*EdgeFlow)
	t.Run("edge flow", func(t *testing.T) { noticed(t, edgeFlows, (*EdgeFlow).conditions, []*EdgeFlow{across}) })
	jsonSwapsAreNoticed(t, "edge flow in JSON", edgeFlows, across)
	jsonSwapsAreNoticed(t, "block in JSON", blocks, counted)
	jsonSwapsAreNoticed(t, "loss in JSON", blockLosses, lost)
	jsonSwapsAreNoticed(t, "delay in JSON", pathDelays, delayed)
	jsonSwapsAreNoticed(t, "postcard in JSON", postcards, cards[0])
	jsonSwapsAreNoticed(t, "flow in JSON", flows, flow)
	jsonSwapsAreNoticed(t, "trace in JSON", traces, trace)
	data := ReadNodeData(goldenData(t, 0), Clock{})
	jsonSwapsAreNoticed(t, "node data in JSON", nodeTable, &data)
}

// jsonSwapsAreNoticed swaps each two keys of one form in JSON.
func jsonSwapsAreNoticed[R any](t *testing.T, name string, in table[R], r R) {
	t.Run(name, func(t *testing.T) {
		read := func(in table[R]) (m map[string]any) {
			w := jsonWriter{[]byte{'{'}}
			in.rows().visit(&w, r)
			if err := json.Unmarshal(append(w.b, '}'), &m); err != nil {
				t.Fatal(err)
			}
			return m
		}
		want := read(in)
		for i := range in {
			for j := i + 1; j < len(in); j++ {
				a, b := in[i], in[j]
				if a.Key == "" || b.Key == "" || a.Form != b.Form || want[a.Key] == nil || want[b.Key] == nil {
					continue
				}
				swapped := cloned(in)
				swapped[i].quoted, swapped[j].quoted = b.quoted, a.quoted
				if reflect.DeepEqual(read(swapped), want) {
					t.Errorf("%s and %s may be swapped", a.Key, b.Key)
				}
			}
		}
	})
}

// The elements of a bit of the trace type have as many octets as its field, so that
// node data are a part of a record unchanged.
func TestNodeDataWidths(t *testing.T) {
	x := newTemplates(t)
	for n := range 12 {
		length := 0
		for _, spec := range nodeTable.rows().specs(1 << bit(n)) {
			f, err := x.Registry.Field(spec)
			if err != nil {
				t.Fatal(err)
			}
			if f.Element.Type != ipfix.DateTimeNanoseconds { // before the data
				length += int(f.Length)
			}
		}
		if want := 4 * (ioam.TraceType(1) << (23 - n)).NodeLen(); length != want {
			t.Errorf("bit %d: %d octets, want %d", n, length, want)
		}
	}
}

// Every record that is written as JSON is read again as it was, and written again
// in the same way.
func TestGoldenRecordsAreRead(t *testing.T) {
	for _, n := range goldenAll(t) {
		line := AppendJSON(nil, n.record)
		back, err := Parse(line)
		if err != nil || back == nil || back.Kind() != n.record.Kind() {
			t.Errorf("%s: %v, %v", n.name, back, err)
			continue
		}
		if again := AppendJSON(nil, back); string(again) != string(line) {
			t.Errorf("%s:\ngot  %s\nwant %s", n.name, again, line)
		}
	}
}
