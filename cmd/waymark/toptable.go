// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/record"
)

// topStyle is how a terminal shows text.
type topStyle struct {
	width  int
	ascii  bool // no letters outside of ASCII
	colour bool
}

// leastTopWidth is what a table never falls below.
const leastTopWidth = 40

// fit shortens a text to the width.
func (s topStyle) fit(text string, width int) string {
	if columns.Width(text) <= width {
		return text
	}
	mark := s.pick("…", "~")
	n := 0
	for i, r := range text {
		if n += columns.Width(string(r)); n > width-1 {
			return text[:i] + mark
		}
	}
	return text
}

func (s topStyle) pick(unicode, ascii string) string {
	if s.ascii {
		return ascii
	}
	return unicode
}

// safe is a text of the network as this terminal may show it.
func (s topStyle) safe(text string) string {
	text = record.Printable(text)
	if !s.ascii {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r >= 0x80 {
			return '?'
		}
		return r
	}, text)
}

// sentence is a text that may have a part from the network, without what controls a terminal.
func (s topStyle) sentence(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || s.ascii && r >= 0x80 {
			return '?'
		}
		return r
	}, text)
}

// units has micro as this terminal may show it.
func (s topStyle) units(text string) string { return strings.ReplaceAll(text, "µ", s.pick("µ", "u")) }

// delay is a time in three digits.
func (s topStyle) delay(ns int64) string {
	units := []struct {
		length int64
		name   string
	}{{1, "ns"}, {1e3, s.pick("µs", "us")}, {1e6, "ms"}, {1e9, "s"}}
	for i, u := range units {
		value := float64(ns) / float64(u.length)
		if i == len(units)-1 || math.Round(value) < 1000 && value < 999.5 {
			digits := 0
			if i > 0 && value < 99.95 {
				digits = 1
				if value < 9.995 {
					digits = 2
				}
			}
			return fmt.Sprintf("%.*f%s", digits, value, u.name)
		}
	}
	return ""
}

// quantile is a delay, "-" of none, "~" of what two clocks cannot tell.
func (s topStyle) quantile(q *insight.Quantiles, at func(*insight.Quantiles) *int64) string {
	switch {
	case q == nil:
		return "-"
	case at(q) == nil:
		return "~"
	}
	return s.delay(*at(q))
}

func p50(q *insight.Quantiles) *int64     { return q.P50 }
func p95(q *insight.Quantiles) *int64     { return q.P95 }
func p99(q *insight.Quantiles) *int64     { return q.P99 }
func longest(q *insight.Quantiles) *int64 { return q.Max }

// lossShare is a part of packets in per cent, "-" where that is not known.
func lossShare(l insight.Loss) string {
	ratio, known := l.Ratio()
	switch {
	case !known:
		return "-"
	case ratio > 0 && ratio < 0.00005:
		return "<0.01%"
	case ratio > 0 && ratio < 0.01:
		return fmt.Sprintf("%.2f%%", 100*ratio)
	}
	return fmt.Sprintf("%.1f%%", 100*ratio)
}

// lossOfPath is the same of a whole path.
func lossOfPath(l *insight.Loss) string {
	if l == nil {
		return "-"
	}
	return lossShare(*l)
}

// lossOfHop is the same of a hop: in blocks of which nothing is known, any packet may be lost, so that no losses in the
// others are no zero.
func lossOfHop(h *insight.HopReport) string {
	if h.Uncertain > 0 && h.Loss.Lost == 0 {
		return "-"
	}
	return lossShare(h.Loss)
}

// trend draws the last values, on a scale of ratios: each step is the same factor.
func (s topStyle) trend(series []int64, width int) string {
	series = series[max(0, len(series)-width):]
	least, most := int64(math.MaxInt64), int64(0)
	for _, v := range series {
		if v >= 0 {
			least, most = min(least, max(v, 1)), max(most, v, 1)
		}
	}
	steps := []rune(s.pick("▁▂▃▄▅▆▇█", "_.-=+*%#"))
	var b strings.Builder
	for _, v := range series {
		switch {
		case v < 0:
			b.WriteByte(' ')
		case most < 2*least: // as good as level
			b.WriteRune(steps[1])
		default:
			part := math.Log(float64(max(v, 1))/float64(least)) / math.Log(float64(most)/float64(least))
			b.WriteRune(steps[int(math.Round(part*float64(len(steps)-1)))])
		}
	}
	return b.String()
}

// placeName names a hop: its node and interfaces, by their names, else by the ids that packets have.
func (s topStyle) placeName(p insight.Place) string {
	var name string
	switch {
	case p.Node != "":
		name = s.safe(p.Node)
	case p.NodeID != 0:
		name = fmt.Sprint(p.NodeID)
	default:
		name = "?"
	}
	link := func(name string, id uint64) string {
		switch {
		case name != "":
			return s.safe(name)
		case id != 0:
			return fmt.Sprint(id)
		}
		return ""
	}
	if in, out := link(p.IngressName, p.IngressID), link(p.EgressName, p.EgressID); in+out != "" {
		return name + " " + in + ">" + out
	}
	return name
}

// nodeName is the same without interfaces.
func (s topStyle) nodeName(p insight.Place) string {
	return s.placeName(insight.Place{Node: p.Node, NodeID: p.NodeID, Wide: p.Wide})
}

// topColumn is a column of a table, with the number of its row in the order in which columns are left out
// where there is no room: 0 never is.
type topColumn struct {
	name  string
	order int
	left  bool // aligned
	want  int  // further columns are shown only if they leave it so much, where it is longer
	least int  // the column may be shortened to this where even that is too long
}

// topTable writes rows in columns that fit the width: the last ones in the order are left out first, then
// the columns that may be are shortened.
func (s topStyle) table(indent string, list []topColumn, rows [][]string) (lines []string) {
	widths := make([]int, len(list))
	for i, c := range list {
		widths[i] = columns.Width(c.name)
		for _, row := range rows {
			widths[i] = max(widths[i], columns.Width(row[i]))
		}
	}
	shown := make([]bool, len(list))
	total := func() int {
		n := len(indent) - 2
		for i := range list {
			if shown[i] {
				n += widths[i] + 2
			}
		}
		return n
	}
	least := len(indent) - 2 // with shortened columns
	byOrder := make([]int, len(list))
	for i := range byOrder {
		byOrder[i] = i
	}
	slices.SortStableFunc(byOrder, func(a, b int) int { return cmp.Compare(list[a].order, list[b].order) })
	for _, i := range byOrder {
		w := widths[i]
		if list[i].want > 0 {
			w = min(w, list[i].want)
		}
		if list[i].order == 0 || least+w+2 <= s.width {
			shown[i] = true
			least += w + 2
		}
	}
	for i, c := range list {
		if over := total() - s.width; over > 0 && shown[i] && c.least > 0 {
			widths[i] = max(min(c.least, widths[i]), widths[i]-over)
		}
	}
	line := func(cells []string) string {
		var b strings.Builder
		b.WriteString(indent)
		first := true
		for i, c := range list {
			if !shown[i] {
				continue
			}
			if !first {
				b.WriteString("  ")
			}
			first = false
			cell := s.fit(cells[i], widths[i])
			pad := strings.Repeat(" ", max(0, widths[i]-columns.Width(cell)))
			if c.left {
				b.WriteString(cell + pad)
			} else {
				b.WriteString(pad + cell)
			}
		}
		return s.fit(strings.TrimRight(b.String(), " "), s.width)
	}
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.name
	}
	lines = append(lines, line(names))
	for _, row := range rows {
		lines = append(lines, line(row))
	}
	return lines
}

// topLine is a line of the display, with the path that it is about.
type topLine struct {
	text string
	path string // key of the path of which it is the first line; "" of others
	bad  bool   // about a hop that has a verdict
}

const queuedColumn = "QUEUED p99"

// columnsOf are the columns of hops: the wait in the queue comes before the trend where a hop has one.
func columnsOf(hops []insight.HopReport) []topColumn {
	list := slices.Clone(hopColumns)
	if slices.ContainsFunc(hops, func(h insight.HopReport) bool { return h.Queued != nil }) {
		list[slices.IndexFunc(list, func(c topColumn) bool { return c.name == queuedColumn })].order = 3
	}
	return list
}

var hopColumns = []topColumn{
	{name: "HOP", left: true, want: 24, least: 12},
	{name: "PACKETS", order: 8},
	{name: "HELD p50", order: 7}, {name: "HELD p99", order: 1},
	{name: "QUEUE", order: 5}, {name: queuedColumn, order: 11},
	{name: "NEXT p50", order: 2}, {name: "p95", order: 9}, {name: "p99", order: 0}, {name: "max", order: 6},
	{name: "USUAL p95", order: 10},
	{name: "LOST", order: 0},
	{name: "TREND", order: 4, left: true},
	{name: "VERDICT", order: 0, left: true},
}

// trendWidth is how many intervals a trend shows: the last minute.
const trendWidth = 7

func (s topStyle) hopRow(h *insight.HopReport) []string {
	queue, usual := "-", "-"
	if h.Queue != nil && h.Queue.Count > 0 {
		queue = fmt.Sprint(h.Queue.Max)
	}
	if h.Baseline != nil && h.Baseline.ToNext != nil {
		usual = s.delay(*h.Baseline.ToNext)
	}
	next50 := s.quantile(h.ToNext, p50)
	if h.HeldIncluded && h.ToNext != nil {
		next50 = "+" + next50
	}
	verdict := make([]string, 0, len(h.Verdicts))
	for _, v := range h.Verdicts {
		verdict = append(verdict, strings.ToUpper(string(v)))
	}
	return []string{
		s.placeName(h.Place), fmt.Sprint(h.Packets), s.quantile(h.Held, p50), s.quantile(h.Held, p99), queue, s.quantile(h.Queued, p99),
		next50, s.quantile(h.ToNext, p95), s.quantile(h.ToNext, p99), s.quantile(h.ToNext, longest), usual,
		lossOfHop(h), s.trend(h.Series, trendWidth), strings.Join(verdict, ", "),
	}
}

var pathColumns = []topColumn{
	{name: "PATH", left: true}, {name: "SHARE", order: 0}, {name: "", left: true, want: 36, least: 12},
	{name: "PACKETS", order: 5}, {name: "INCOMPLETE", order: 7}, {name: "p50", order: 1}, {name: "p95", order: 6}, {name: "p99", order: 0}, {name: "max", order: 4},
	{name: "LOST", order: 0},
}

// letter names a path in its pair: A, B, … Z, AA.
func letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return letter(i/26-1) + letter(i%26)
}

func (s topStyle) pathRow(i int, p *insight.PathReport) []string {
	nodes := make([]string, 0, len(p.Hops))
	for _, h := range p.Hops {
		nodes = append(nodes, s.nodeName(h.Place))
	}
	way := strings.Join(nodes, " > ")
	switch {
	case p.Flow != "":
		way = "flow " + s.safe(p.Flow) + ": " + way
	case p.ID == insight.Other:
		way = "further paths"
	}
	return []string{letter(i), fmt.Sprintf("%.0f%%", 100*p.Share), way, fmt.Sprint(p.Packets), fmt.Sprint(p.Incomplete),
		s.quantile(p.Delay, p50), s.quantile(p.Delay, p95), s.quantile(p.Delay, p99), s.quantile(p.Delay, longest), lossOfPath(p.Loss)}
}

// hasVerdict reports whether a hop of the path is slow, loses, or may do so.
func hasVerdict(p *insight.PathReport) bool {
	return slices.ContainsFunc(p.Hops, func(h insight.HopReport) bool { return len(h.Verdicts) > 0 })
}

// hasDelays reports whether something is known of where the time of a path goes.
func hasDelays(p *insight.PathReport) bool {
	known := func(h insight.HopReport) bool { return h.Held != nil || h.ToNext != nil || h.Queued != nil }
	return p.Delay != nil || slices.ContainsFunc(p.Hops, known)
}

// mainPath is the place of the path of a pair whose hops are shown without a verdict: the busiest that
// has delays, else the first.
func mainPath(pair *insight.PairReport) (main int) {
	for i := range pair.Paths {
		p, best := &pair.Paths[i], &pair.Paths[main]
		if hasDelays(p) && (!hasDelays(best) || p.Packets > best.Packets) {
			main = i
		}
	}
	return main
}

func pathKey(pair *insight.PairReport, p *insight.PathReport) string {
	return fmt.Sprintf("%s\x00%s\x00%s\x00%s\x00%d", pair.Source, pair.Destination, p.ID, p.Flow, p.FlowID)
}

// mostListed is how many paths of a pair a table has besides those with a verdict. A screen has all.
const mostListed = 16

// hopsNote is below a table that does not have the hops of all paths.
const hopsNote = "hops: of the busiest path with delays, and where there is a verdict; --json: all"

// lines is the whole display. expanded says for a path whether its hops are shown; nil: of the main path of
// each pair, and of those with a verdict.
func (s topStyle) lines(r *insight.Report, expanded func(key string, byDefault bool) bool) (list []topLine) {
	add := func(bad bool, key string, text string) { list = append(list, topLine{text, key, bad}) }
	without := false // the hops of a path
	for n := range r.Pairs {
		pair := &r.Pairs[n]
		if n > 0 {
			add(false, "", "")
		}
		title := fmt.Sprintf("%s > %s   %d packets", s.safe(pair.Source), s.safe(pair.Destination), pair.Packets)
		if ratio, known := pair.Loss.Ratio(); known && ratio > 0 {
			title += fmt.Sprintf("   %s lost between the ends", lossShare(pair.Loss))
		}
		add(false, "", s.fit(title, s.width))
		rows := make([][]string, len(pair.Paths))
		for i := range pair.Paths {
			rows[i] = s.pathRow(i, &pair.Paths[i])
		}
		if len(rows) == 0 {
			continue
		}
		text := s.table("  ", pathColumns, rows)
		add(false, "", text[0])
		hidden, main := 0, mainPath(pair)
		for i := range pair.Paths {
			path := &pair.Paths[i]
			key := pathKey(pair, path)
			if expanded == nil && i >= mostListed && !hasVerdict(path) {
				hidden++
				continue
			}
			add(false, key, text[i+1])
			byDefault := i == main || hasVerdict(path)
			if len(path.Hops) == 0 || expanded != nil && !expanded(key, byDefault) || expanded == nil && !byDefault {
				without = without || len(path.Hops) > 0
				continue
			}
			hops := make([][]string, len(path.Hops))
			for k := range path.Hops {
				hops[k] = s.hopRow(&path.Hops[k])
			}
			for k, line := range s.table("    ", columnsOf(path.Hops), hops) {
				add(k > 0 && len(path.Hops[k-1].Verdicts) > 0, "", line)
			}
		}
		if hidden > 0 {
			add(false, "", s.fit(fmt.Sprintf("  and %d more without a verdict; --json has all", hidden), s.width))
		}
	}
	if expanded == nil && without {
		add(false, "", s.fit(hopsNote, s.width))
	}
	for _, line := range s.queueLines(r.Queues) {
		add(false, "", line)
	}
	if len(r.Pairs) == 0 {
		add(false, "", s.fit("no packets: no traces end here, no flow is measured from here, or none came", s.width))
	}
	return list
}

// head says what the display is of.
func (s topStyle) head(r *insight.Report) string {
	length := r.Until.Sub(r.Since.Time)
	of := length.Round(time.Second).String()
	if strings.HasSuffix(of, "m0s") {
		of = strings.TrimSuffix(of, "0s")
	}
	text := fmt.Sprintf("waymark top  %s to %s", of, r.Until.UTC().Format("15:04:05Z"))
	if r.Filtered != nil && r.Filtered.Since.After(r.Since.Add(-time.Second)) {
		text += "  selected since " + r.Filtered.Since.UTC().Format("15:04:05Z")
	}
	text += fmt.Sprintf("  %d records", r.Records)
	if r.Filtered != nil && r.Filtered.Undecided > 0 {
		text += fmt.Sprintf("  %d undecided", r.Filtered.Undecided)
	}
	if r.Filtered != nil && r.Filtered.Unexamined > 0 {
		text += fmt.Sprintf("  %d not examined", r.Filtered.Unexamined)
	}
	if length > 0 && r.Watched < int64(length)*99/100 {
		text += fmt.Sprintf("  sampled %.0f%%", 100*float64(r.Watched)/float64(length))
	}
	if r.LeftOut > 0 {
		text += fmt.Sprintf("  %d left out", r.LeftOut)
	}
	if r.ClockError == nil {
		text += "  clocks: error unknown"
	} else {
		text += "  clocks: " + s.pick("±", "+-") + s.delay(*r.ClockError)
	}
	return s.fit(text, s.width)
}
