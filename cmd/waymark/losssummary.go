// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// What a summary shows of the past.
const (
	trendSteps = 10
	trendStep  = time.Minute
)

// stretch is a flow between two of its points, in its last block, and its loss before.
type stretch struct {
	flow, from, to string
	last           *record.Loss
	delay          *record.Delay // of all packets, else of those with a second mark
	sent, lost     [trendSteps]uint64
}

// lossSummary says how each flow fares: the worst first.
type lossSummary struct {
	flow  string // only this one; "" for all
	now   time.Time
	list  []*stretch
	trend bool // there is a past
}

func (s *lossSummary) of(m *record.Measurement) *stretch {
	row := about(m)
	flow, from, to := row[0], row[3], row[4]
	for _, one := range s.list {
		if one.flow == flow && one.from == from && one.to == to {
			return one
		}
	}
	one := &stretch{flow: flow, from: from, to: to}
	s.list = append(s.list, one)
	return one
}

// add takes a record of the last block.
func (s *lossSummary) add(line []byte) error {
	r, err := record.Parse(line)
	if err != nil {
		return fmt.Errorf("unknown record from the agent: %w", err)
	}
	switch r := r.(type) {
	case *record.Loss:
		if s.flow == "" || r.Flow == s.flow {
			s.of(&r.Measurement).last = r
		}
	case *record.Delay:
		if s.flow != "" && r.Flow != s.flow {
			return nil
		}
		if x := s.of(&r.Measurement); x.delay == nil || x.delay.Method == loss.DoubleMarking {
			x.delay = r
		}
	}
	return nil
}

// addPast takes a record of an earlier block, of a stretch that is shown.
func (s *lossSummary) addPast(line []byte) error {
	r, err := record.Parse(line)
	if err != nil {
		return fmt.Errorf("unknown record from the agent: %w", err)
	}
	l, ok := r.(*record.Loss)
	if !ok || !l.Sent.Valid || !l.Lost.Valid || s.flow != "" && l.Flow != s.flow {
		return nil
	}
	ago := s.now.Sub(l.Start.Time)
	if ago < 0 || ago >= trendSteps*trendStep {
		return nil
	}
	row := about(&l.Measurement)
	for _, one := range s.list {
		if one.flow == row[0] && one.from == row[3] && one.to == row[4] {
			at := trendSteps - 1 - int(ago/trendStep)
			one.sent[at] += l.Sent.Value
			one.lost[at] += l.Lost.Value
			s.trend = true
		}
	}
	return nil
}

// latest asks for the last block of each flow, and for the last minutes. An agent that cannot tell
// the past does not prevent the rest.
func (s *lossSummary) latest(ctx context.Context, c *api.Client) error {
	lines, err := c.Loss(ctx, api.RecordFilter{})
	if err != nil {
		return err
	}
	for _, line := range lines {
		if err := s.add(line); err != nil {
			return err
		}
	}
	if len(s.list) > 0 {
		_ = c.LossHistory(ctx, trendSteps*trendStep, api.RecordFilter{Flow: s.flow}, func(string) {}, s.addPast)
	}
	return nil
}

// badness is greater for what a reader should see first: a warning, then more loss, then an unknown loss, then none, and
// at last a flow that sent nothing.
func (x *stretch) badness() float64 {
	bad := 0.0
	if x.last == nil {
		return -1
	}
	if x.last.Warning != "" || x.delay != nil && x.delay.Warning != "" {
		bad += 2
	}
	switch {
	case x.last.Ratio.Valid:
		return bad + x.last.Ratio.Value
	case x.last.Verdict == loss.Idle:
		return bad - 0.5
	}
	return bad + 1e-12
}

// write writes the table.
func (s *lossSummary) write(w io.Writer, screen columns.Screen) error {
	slices.SortStableFunc(s.list, func(a, b *stretch) int { return cmp.Compare(b.badness(), a.badness()) })
	t := columns.Table{Columns: []columns.Column{
		{Name: "FLOW"}, {Name: "FROM"}, {Name: "TO"}, {Name: "LOST", AlignRight: true}, {Name: "SHARE", AlignRight: true},
		{Name: "DELAY", AlignRight: true},
		{Name: "PACKETS/S", Rank: 3, AlignRight: true}, {Name: "TREND", Rank: 2}, {Name: "NOTE", CutTo: 15},
	}}
	var newest *record.Loss
	var below lossNotes
	for _, x := range s.list {
		t.Add(x.cells(screen)...)
		if x.last == nil {
			continue
		}
		below.add(x.last)
		if newest == nil || x.last.Start.After(newest.Start.Time) {
			newest = x.last
		}
	}
	var head string
	if newest != nil {
		head = fmt.Sprintf("last block %s UTC, %s", newest.Start.UTC().Format(time.TimeOnly), time.Duration(newest.Length))
		if s.trend {
			head += fmt.Sprintf("; trend: loss of the last %d minutes", trendSteps)
		}
		head = columns.Fold(head+"\n\n", screen.Width, "  ")
	}
	out := screen.Writer(w)
	if _, err := io.WriteString(out, head); err != nil {
		return err
	}
	text := t.String(screen)
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	var notes strings.Builder
	notes.WriteString(s.cutNotes(text))
	if err := below.flush(&notes); err != nil {
		return err
	}
	_, err := io.WriteString(out, columns.Fold(notes.String(), screen.Width, "  "))
	return err
}

// mostNoted is of how many stretches a line below the table names those of a note.
const mostNoted = 4

// cutNotes has the notes for which the table has no room, a line for each.
func (s *lossSummary) cutNotes(table string) string {
	var order []string
	of := make(map[string][]string)
	for _, x := range s.list {
		text := x.remarks()
		if strings.Contains(table, text) {
			continue
		}
		if len(of[text]) == 0 {
			order = append(order, text)
		}
		of[text] = append(of[text], fmt.Sprintf("%s (%s to %s)", x.flow, x.from, x.to))
	}
	var lines strings.Builder
	for _, text := range order {
		names := of[text]
		if more := len(names) - mostNoted; more > 1 {
			names = append(names[:mostNoted:mostNoted], fmt.Sprintf("%d more", more))
		}
		fmt.Fprintf(&lines, "%s: %s\n", text, strings.Join(names, ", "))
	}
	return lines.String()
}

// remarks say what a reader should know of a stretch: "" if there is nothing.
func (x *stretch) remarks() string {
	var notes []string
	if l := x.last; l != nil {
		if l.Verdict != loss.Measured {
			notes = append(notes, l.Verdict.String())
		}
		notes = append(notes, (l.FromReasons | l.ToReasons).Names()...)
		for _, name := range l.Assumed.Names() {
			notes = append(notes, name+"_assumed")
		}
		if l.Warning != "" {
			notes = append(notes, l.Warning)
		}
	}
	if d := x.delay; d != nil {
		if d.Warning != "" {
			notes = append(notes, d.Warning)
		}
		if clocks := clocksOf(d); clocks > time.Duration(d.Mean).Abs() {
			notes = append(notes, "clocks ±"+columns.Duration(clocks))
		}
	}
	return strings.Join(notes, ", ")
}

// cells are the row of a stretch.
func (x *stretch) cells(screen columns.Screen) []string {
	row := []string{x.flow, x.from, x.to, "", "", "", "", x.trend(), x.remarks()}
	if l := x.last; l != nil {
		if row[3] = numberText(l.Lost); l.LostMin.Valid {
			row[3] = atLeast + numberText(l.LostMin)
		}
		if l.Ratio.Valid {
			row[4] = columns.Percent(l.Ratio.Value)
		}
		if l.Lost.Value > 0 || l.LostMin.Value > 0 {
			row[3], row[4] = screen.Paint(columns.Red, row[3]), screen.Paint(columns.Red, row[4])
		}
		if l.Sent.Valid && l.Length > 0 {
			row[6] = columns.Count(uint64(float64(l.Sent.Value) * float64(time.Second) / float64(l.Length)))
		}
	}
	if d := x.delay; d != nil {
		if row[5] = columns.Duration(time.Duration(d.Mean)); d.Method == loss.MeanAtLeast {
			row[5] = atLeast + row[5]
		}
	}
	return row
}

// trend are the shares of lost packets, a letter for each step; "" if none is known.
func (x *stretch) trend() string {
	shares, known := make([]float64, trendSteps), false
	for i := range shares {
		if shares[i] = math.NaN(); x.sent[i] > 0 {
			shares[i], known = float64(x.lost[i])/float64(x.sent[i]), true
		}
	}
	if !known {
		return ""
	}
	return columns.Sparkline(shares)
}
