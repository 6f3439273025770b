// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
var statistics = table[Statistics]{
	field("counts", "", "What arrived and what became of it, by name: those of the metrics.", func(s *Statistics) *[]Count { return &s.Counts }, counters()),
	field("paths", "", "How many paths ended, by reason.", func(s *Statistics) *[]Count { return &s.Paths }, counters()),
	field("malformed", "", "What was wrong with messages and their parts, by cause.", func(s *Statistics) *[]Count { return &s.Malformed }, counters()),
	field("impossible", "", "Records that were dropped, by cause.", func(s *Statistics) *[]Count { return &s.Impossible }, counters()),
	field("waiting", "packets", "Packets that wait for postcards.", func(s *Statistics) *int { return &s.Waiting }, integer[int]()),
	field("pairs", "", "Packets with joined postcards, by the nodes that reported them one after the other.", func(s *Statistics) *[]Pair { return &s.Pairs }, filled(list(object(pairTable)))),
}

// counters are an object with a number for each name.
func counters() codec[[]Count] {
	return codec[[]Count]{
		form: "object of numbers",
		append: func(b []byte, counts *[]Count) []byte {
			sorted := slices.Clone(*counts)
			slices.SortFunc(sorted, func(a, b Count) int { return cmp.Compare(a.Name, b.Name) })
			b = append(b, '{')
			for i, c := range sorted {
				if i > 0 {
					b = append(b, ',')
				}
				b = strconv.AppendUint(append(appendString(b, c.Name), ':'), c.Value, 10)
			}
			return append(b, '}')
		},
		parse: func(counts *[]Count, raw []byte) error {
			var values map[string]uint64
			if err := json.Unmarshal(raw, &values); err != nil {
				return err
			}
			*counts = nil
			for name, value := range values {
				*counts = append(*counts, Count{Name: name, Value: value})
			}
			slices.SortFunc(*counts, func(a, b Count) int { return cmp.Compare(a.Name, b.Name) })
			return nil
		},
	}
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
var losses = table[Lost]{
	field("count", "records", "Records that did not fit the observer's queue of 4096, at this place of the stream.", func(l *Lost) *uint64 { return &l.Count }, number[uint64]()),
}

// Text is the loss as a line of readable text.
func (l *Lost) Text() string {
	return fmt.Sprintf("%d records were lost: this observer is too slow\n", l.Count)
}
