// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/ioam"
)

// Count is a counter by name.
type Count struct {
	Name, Meaning string // Meaning is "" when read from JSON
	Value         uint64
}

// Statistics are a collector's counters.
type Statistics struct {
	Counts     []Count
	Paths      []Count // by reason
	Malformed  []Count // messages and their parts, by cause
	Impossible []Count // records that were dropped, by cause
	Waiting    int     // packets that wait for postcards
	Pairs      []Pair
}

// Kind is "statistics".
func (s *Statistics) Kind() string { return KindStatistics }

// statistics declares the fields of statistics.
var statistics = table[*Statistics]{
	field(
		"counts",
		"",
		"What arrived and what became of it, by name: those of the metrics.",
		func(s *Statistics) *[]Count { return &s.Counts },
		counters(),
	),
	field("paths", "", "How many paths ended, by reason.", func(s *Statistics) *[]Count { return &s.Paths }, counters()),
	field(
		"malformed",
		"",
		"What was wrong with messages and their parts, by cause.",
		func(s *Statistics) *[]Count { return &s.Malformed },
		counters(),
	),
	field("impossible", "", "Records that were dropped, by cause.", func(s *Statistics) *[]Count { return &s.Impossible }, counters()),
	field("waiting", "packets", "Packets that wait for postcards.", func(s *Statistics) *int { return &s.Waiting }, integer[int]()),
	field(
		"pairs",
		"",
		"Packets with joined postcards, by the nodes that reported them one after the other.",
		func(s *Statistics) *[]Pair { return &s.Pairs },
		filled(list(object(pairTable))),
	),
}

// counters are an object with a number for each name.
func counters() codec[*[]Count] {
	byName := func(a, b Count) int { return cmp.Compare(a.Name, b.Name) }
	return codec[*[]Count]{coding: coding{
		form: "object of numbers",
		show: func(v Visitor, c *Column, p any) {
			v.BeginObject(c)
			for _, each := range slices.SortedFunc(slices.Values(*p.(*[]Count)), byName) {
				v.Uint(newColumn(each.Name), each.Value)
			}
			v.EndObject()
		},
		fill: func(p any, from Input) error {
			values, err := from.Object()
			if err != nil {
				return err
			}
			var counts []Count
			for name, value := range values {
				n, err := value.Uint(64)
				if err != nil {
					return err
				}
				counts = append(counts, Count{Name: name, Value: n})
			}
			slices.SortFunc(counts, byName)
			*p.(*[]Count) = counts
			return nil
		},
	}}
}

// Text is the record as readable text: a line for each counter that is not 0.
func (s *Statistics) Text() string {
	var b strings.Builder
	write := func(prefix string, counts []Count) {
		for _, c := range counts {
			if c.Value > 0 {
				fmt.Fprintf(&b, "%12d  %s%s: %s\n", c.Value, prefix, c.Name, c.Meaning)
			}
		}
	}
	write("", s.Counts)
	write("path ", s.Paths)
	write("malformed ", s.Malformed)
	write("impossible ", s.Impossible)
	for i := range s.Pairs {
		b.WriteString(s.Pairs[i].text())
	}
	if b.Len() == 0 {
		return "statistics: nothing has arrived\n"
	}
	return "statistics\n" + b.String()
}

// Lost marks a place in a stream where records are missing: Count of them did not fit
// the observer's queue.
type Lost struct {
	Count uint64
}

// Kind is "lost".
func (l *Lost) Kind() string { return KindLost }

// losses declares the fields of lost records.
var losses = table[*Lost]{
	field(
		"count",
		"records",
		"Records that did not fit the observer's queue of 4096, at this place of the stream.",
		func(l *Lost) *uint64 { return &l.Count },
		number[uint64](),
	),
}

// Text is the loss as a line of readable text.
func (l *Lost) Text() string {
	return fmt.Sprintf("%d records were lost: this observer is too slow\n", l.Count)
}

// Pair counts the packets that one node reported and another one, From and To, reported next.
type Pair struct {
	Namespace                ioam.NamespaceID
	From, To                 string // names; "" if not known
	FromExporter, ToExporter netip.Addr
	Packets, Lost, Unknown   uint64
}

var pairTable = table[*Pair]{
	field("namespace", "", meaningNamespace, func(p *Pair) *ioam.NamespaceID { return &p.Namespace }, number[ioam.NamespaceID]()),
	field("from", "", "The first node's name, if its exporter sent it.", func(p *Pair) *string { return &p.From }, present(textual())),
	field(
		"from_exporter",
		"",
		"Address from which its records came. Absent, as is the second one, in the sum of the pairs beyond 4096.",
		func(p *Pair) *netip.Addr { return &p.FromExporter },
		present(address()),
	),
	field(
		"to",
		"",
		"The node that reported the packets next, or should have; absent if it is not known.",
		func(p *Pair) *string { return &p.To },
		present(textual()),
	),
	field("to_exporter", "", "Address from which its records came.", func(p *Pair) *netip.Addr { return &p.ToExporter }, present(address())),
	field("packets", "packets", "Packets that the first node reported.", func(p *Pair) *uint64 { return &p.Packets }, number[uint64]()),
	field(
		"lost",
		"packets",
		"Of these, those that are known to be lost after it.",
		func(p *Pair) *uint64 { return &p.Lost },
		number[uint64](),
	),
	field("unknown", "packets", "Of these, those of which that is not known.", func(p *Pair) *uint64 { return &p.Unknown }, number[uint64]()),
}

// text is a line for the pair.
func (p *Pair) text() string {
	if !p.FromExporter.IsValid() {
		return fmt.Sprintf("%12d  packets between further nodes, %d lost, %d unknown\n", p.Packets, p.Lost, p.Unknown)
	}
	return fmt.Sprintf("%12d  packets %s > %s in namespace %d, %d lost, %d unknown\n",
		p.Packets, pairEnd(p.From, p.FromExporter), pairEnd(p.To, p.ToExporter), p.Namespace, p.Lost, p.Unknown)
}

func pairEnd(name string, exporter netip.Addr) string {
	switch {
	case name != "":
		return Printable(name)
	case exporter.IsValid():
		return exporter.String()
	}
	return "?"
}
