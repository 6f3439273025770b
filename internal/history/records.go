// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
)

// The answers about records, as far as tables show them.
type (
	// instead is what came though no packet with its path did.
	instead struct{ Text, Cure string }

	flowRecords struct {
		answer
		Flows []flowRecord
	}
	flowRecord struct {
		Node, Role      string
		FlowID          *uint32 `json:"flow_id"`
		From            string  `json:"source_address"`
		To              string  `json:"destination_address"`
		NextHeader      uint8   `json:"next_header"`
		SourcePort      *uint16 `json:"source_port"`
		DestinationPort *uint16 `json:"destination_port"`
		Postcards       uint64
		Packets, Bytes  uint64
		First, Last     time.Time
		Held            *heldFor
		Missing, Late   *uint64
		Unknown         uint64 `json:"missing_unknown"`
	}
	heldFor struct {
		Min  int64 `json:"min_ns"`
		Mean int64 `json:"mean_ns"`
		Max  int64 `json:"max_ns"`
	}

	delayRecords struct {
		answer
		Delays []delayRecord
	}
	delayRecord struct {
		Flow     string
		FlowID   int64 `json:"flow_id"`
		Scope    string
		From, To int64
		FromNode string `json:"from_node"`
		ToNode   string `json:"to_node"`
		Method   string
		delaySums
		Warnings []string
		Before   *delaySums
	}
	delaySums struct {
		Records   uint64
		Samples   uint64
		Min       int64   `json:"min_ns"`
		Mean      int64   `json:"mean_ns"`
		P95       int64   `json:"p95_ns"`
		Jitter    *int64  `json:"jitter_ns"`
		FromClock *uint64 `json:"from_clock_error_ns"`
		ToClock   *uint64 `json:"to_clock_error_ns"`
		Unknown   uint64  `json:"clock_unknown"`
		Beyond    uint64
	}
)

// flowSubject are the flows that nodes aggregate.
var flowSubject = Subject{
	Noun: "flow", Short: "Show what nodes reported of flows in the past, from a collector", path: "/v1/flows", flows: true, limit: 100,
	Long: `Show what nodes reported of flows of packets with Direct Exports, as with
export: aggregate, the one with most packets first: each node of a path reports
the same flow, so compare nodes, and do not add them up. HELD is for how long
the node held packets: the mean, with the shortest and the longest time. MISSING
are packets that are missing by their Sequence Numbers, UNKNOWN records that do
not say how many are, LATE packets that came after one with a later number.
POSTCARDS are single postcards that are in no path, because they lack Flow-ID,
Sequence Number or role.`,
	Examples: "  waymark flow history --source 2001:db8:1::/48 --since 3h\n" +
		"  waymark flow history --order missing --node porthos\n" +
		"  waymark flow history --where 'sequence_gaps > 0' --json",
	parameters: []parameter{
		{flag: "flow-id", name: "flow_id", usage: "only flows with this `NUMBER` as Flow-ID"},
		{flag: "node", name: "node", usage: "only what this `NODE` reported"},
		{flag: "order", name: "order", usage: "sort by this `WORD`: packets, bytes or missing (default packets)"},
		where("records"),
	},
	ask: answering(func(a *flowRecords) *answer { return &a.answer }, (*page).flowRecords),
}

// delaySubject are delays of measured flows.
var delaySubject = Subject{
	Noun: "delay", Short: "Show the delay of measured flows in the past, from a collector", path: "/v1/delay", limit: 100,
	Long: `Show the delays of measured flows, from ingress to egress and by segment, the
greatest mean first. METHOD is mean-of-sums (one-way, of blocks that lost no
packet), mean-at-least (a lower bound, of blocks that lost some), double-marking
(one-way, of packets with a second mark), or with test packets one-way, two-way
and round-trip. CLOCKS is how wrong a one-way delay may be, because it is the
difference of two clocks; warnings about that are below the table. BEYOND are
records beyond the flow's threshold for delay. BEFORE is the mean of the other
time that --compare names.`,
	Examples: "  waymark delay history --since 24h\n  waymark delay history --flow gold --compare 7d\n" +
		"  waymark delay history --where 'mean_ns > 5000000'",
	parameters: []parameter{
		{flag: "flow", name: "flow", usage: "only the measured flow of this `NAME`"},
		{flag: "compare", name: "compare", usage: "compare with the same time so much earlier: `TIME`, such as 7d"},
		where("delays"),
	},
	ask: answering(func(a *delayRecords) *answer { return &a.answer }, (*page).delayRecords),
}

// known is a number that may not be known.
func known(n *uint64) string {
	if n == nil {
		return ""
	}
	return count(*n)
}

// flowRecords keeps the order of the answer. The addresses, which would seldom fit into columns, are below each row.
func (p *page) flowRecords(a *flowRecords) error {
	if err := p.line("%s by node, %s", columns.Counted(len(a.Flows), "flow"), a.span()); err != nil {
		return err
	}
	right := func(name string, rank int) columns.Column {
		return columns.Column{Name: name, AlignRight: true, Rank: rank}
	}
	t := table(
		columns.Column{Name: "NODE", CutTo: 12}, columns.Column{Name: "ROLE", Rank: 5}, right("PACKETS", 0), right("BYTES", 3),
		right("HELD", 0), right("MIN", 8), right("MAX", 2), right("MISSING", 0), right("UNKNOWN", 1), right("LATE", 4),
		right("POSTCARDS", 1), right("FIRST", 10), right("LAST", 7), right("PROTO", 9), right("FLOW-ID", 6),
	)
	var times []time.Time
	for i := range a.Flows {
		times = append(times, a.Flows[i].First, a.Flows[i].Last)
	}
	layout := a.layout("15:04:05", times...)
	for i := range a.Flows {
		f := &a.Flows[i]
		var held [3]string
		if h := f.Held; h != nil {
			held = [3]string{duration(h.Mean), duration(h.Min), duration(h.Max)}
		}
		t.Add(
			record.Printable(f.Node), record.Printable(f.Role), count(f.Packets), count(f.Bytes), held[0], held[1], held[2],
			known(f.Missing), some(f.Unknown), known(f.Late), some(f.Postcards),
			f.First.UTC().Format(layout), f.Last.UTC().Format(layout), strconv.Itoa(int(f.NextHeader)), number(f.FlowID),
		)
	}
	ends := func(row int) string {
		f := &a.Flows[row]
		return cmp.Or(end(f.From, f.SourcePort), "?") + " > " + cmp.Or(end(f.To, f.DestinationPort), "?")
	}
	return p.pathRows(t, ends, func(int) error { return nil })
}

// mostWarnings is how many warnings are shown one by one.
const mostWarnings = 5

// delayRecords keeps the order of the answer.
func (p *page) delayRecords(a *delayRecords) error {
	if err := p.line("%s of measured flows, %s", columns.Counted(len(a.Delays), "delay"), a.span()); err != nil {
		return err
	}
	right := func(name string, rank int) columns.Column {
		return columns.Column{Name: name, AlignRight: true, Rank: rank}
	}
	list := []columns.Column{
		{Name: "FLOW", CutTo: 10}, {Name: "FROM", CutTo: 10}, {Name: "TO", CutTo: 10}, {Name: "METHOD"}, right("SAMPLES", 2), right("MIN", 5),
		right("MEAN", 0), right("P95", 0), right("JITTER", 3), right("CLOCKS", 1), right("BEYOND", 4), {Name: "SCOPE", Rank: 6},
	}
	compared := slices.ContainsFunc(a.Delays, func(d delayRecord) bool { return d.Before != nil })
	if compared {
		list = append(list, right("BEFORE", 0))
	}
	t := table(list...)
	for i := range a.Delays {
		d := &a.Delays[i]
		row := append(d.names(), record.Printable(d.Method), count(d.Samples), duration(d.Min), duration(d.Mean), duration(d.P95),
			optional(d.Jitter), d.clocks(), some(d.Beyond), record.Printable(d.Scope))
		switch {
		case compared && d.Before != nil:
			row = append(row, duration(d.Before.Mean))
		case compared:
			row = append(row, "")
		}
		t.Add(row...)
	}
	if err := t.Flush(p.out, p.screen); err != nil {
		return err
	}
	return p.delayWarnings(a.Delays)
}

// names are the flow and its two points, by the nodes if these are known.
func (d *delayRecord) names() []string {
	return []string{
		cmp.Or(record.Printable(d.Flow), strconv.FormatInt(d.FlowID, 10)),
		cmp.Or(record.Printable(d.FromNode), strconv.FormatInt(d.From, 10)),
		cmp.Or(record.Printable(d.ToNode), strconv.FormatInt(d.To, 10)),
	}
}

// clocks is how wrong both clocks may be together; "" of a delay by one clock.
func (d *delayRecord) clocks() string {
	switch {
	case d.Method == "two-way" || d.Method == "round-trip":
		return ""
	case d.FromClock == nil || d.ToClock == nil:
		return "unknown"
	}
	text := "±" + duration(int64(min(*d.FromClock, 1<<61)+min(*d.ToClock, 1<<61)))
	if d.Unknown > 0 {
		text += "?"
	}
	return text
}

// delayWarnings writes the warnings about clocks, each with the flow, points and method.
func (p *page) delayWarnings(list []delayRecord) error {
	written, left := 0, 0
	for i := range list {
		d := &list[i]
		for _, text := range d.Warnings {
			if written == mostWarnings {
				left++
				continue
			}
			written++
			names := d.names()
			if err := p.line("%s, %s > %s, %s: %s", names[0], names[1], names[2], record.Printable(d.Method), problem.OneLine(text)); err != nil {
				return err
			}
		}
	}
	if left == 0 {
		return nil
	}
	return p.line("and %s; --json has all", columns.Counted(left, "further warning"))
}

// instead says what came though no packet with its path did, with what to do.
func (p *page) instead(i *instead) error {
	return p.line("%s", fmt.Sprintf("%s; %s", problem.OneLine(i.Text), problem.OneLine(i.Cure)))
}
