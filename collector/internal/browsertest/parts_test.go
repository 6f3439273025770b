// SPDX-License-Identifier: Apache-2.0

package browsertest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// halves are the packets by path in the second half of the time, and in the first one.
func (w *wanted) halves() (now, before map[string]int) {
	now = map[string]int{}
	for r, n := range w.routes {
		now[r] = n - w.earlier[r]
	}
	return now, w.earlier
}

// compared wants both halves of the time, of which the second flow's path is in the first one only.
func (w *wanted) compared(t *testing.T, s *seen) {
	if !strings.Contains(s.Command, " --compare 5m ") || !strings.Contains(s.Command, " --destination-port 443 ") {
		t.Error(s.Command)
	}
	usual, detour := "athos → porthos → planchet → aramis", "athos → dartagnan → planchet → aramis"
	now, before := w.halves()
	shares := map[string][2]string{}
	for _, row := range s.rows(t) {
		shares[row["Path"]] = [2]string{row["Packets"], row["before"]}
	}
	for _, path := range []string{usual, detour} {
		got := shares[path]
		wants(t, "packets of the second half on "+path, got[0], now[path])
		if want := float64(before[path]) / float64(w.all/2); math.Abs(number(t, got[1])-want) > 1e-9 {
			t.Errorf("the share of %s before is %s, not %v", path, got[1], want)
		}
	}
	wants(t, "the graphs", strings.Count(s.Text, "Before 2026-11-21 11:50:00 – 11:55:00"), 1)
}

// openedChange wants both sides of the change that a key opened, each with all its paths.
func (w *wanted) openedChange(t *testing.T, s *seen) {
	_, part, ok := strings.Cut(s.Text, sourceOf(1)+" → "+destinationOf(1)+" ")
	if !ok || !strings.Contains(s.Address, "change=") {
		t.Fatalf("%s: %s", s.Address, s.Text)
	}
	_, part, ok = strings.Cut(part, "of the packets moved")
	before, after, both := strings.Cut(part, " After ")
	if !ok || !both || !strings.Contains(before, "athos → porthos → planchet → aramis") ||
		!strings.Contains(after, "athos → dartagnan → planchet → aramis") || !strings.Contains(after, "Both windows, node by node") {
		t.Error(part)
	}
}

// baseline wants the 99th percentiles of each link in the second half of the time, compared with those of the first.
func (w *wanted) baseline(t *testing.T, s *seen) {
	compared := 0
	for _, row := range s.rows(t) {
		from, to, ok := strings.Cut(strings.TrimSuffix(row["Segment"], " eth0"), " eth1 → ")
		halves := w.links[from+" → "+to]
		if !ok || len(halves[0]) == 0 || len(halves[1]) == 0 {
			continue
		}
		compared++
		want := exact(halves[1], 0.99) / exact(halves[0], 0.99)
		if got := number(t, row["Link p99 to before"]); math.Abs(got/want-1) > 0.05 {
			t.Errorf("%s is %v of what it was, and should be %v", row["Segment"], got, want)
		}
	}
	if compared < 5 {
		t.Errorf("%d segments are compared: %s", compared, s.CSV)
	}
}

// openedSegment wants the times of a segment over the time, with links to what passed it.
func (w *wanted) openedSegment(t *testing.T, s *seen) {
	for _, want := range []string{"drag over a chart", "Link", "Held", "p50", "p99"} {
		if !strings.Contains(s.Text, want) {
			t.Errorf("there is no %s: %s", want, s.Text)
		}
	}
	if !strings.Contains(s.Address, "open=") {
		t.Error(s.Address)
	}
}

// openedPair wants the paths between two nodes over the time.
func (w *wanted) openedPair(t *testing.T, s *seen) {
	_, part, ok := strings.Cut(s.Text, "by path, the five busiest")
	part, _, ended := strings.Cut(part, "All pairs")
	if !ok || !ended || strings.Count(part, "athos → porthos → planchet → aramis") != 2 ||
		strings.Count(part, "athos → dartagnan → planchet → aramis") != 2 || strings.Contains(part, hostile) {
		t.Error(s.Text)
	}
}

// betweenNodes wants the packets that came from athos to aramis, and none that were lost before.
func (w *wanted) betweenNodes(t *testing.T, s *seen) {
	packets := 0
	for _, row := range s.rows(t) {
		packets += int(number(t, row["Packets"]))
		wants(t, "lost on "+row["Path"], row["Lost"], 0)
	}
	wants(t, "packets from athos to aramis", packets, w.pairs["athos aramis"])
	if !strings.Contains(s.Text, "Only packets of one → nine.") || !strings.Contains(s.Command, " --from-node-id 1 --to-node-id 9") {
		t.Errorf("%s: %s", s.Command, s.Text)
	}
}

// begunAt wants the packets of one first node.
func (w *wanted) begunAt(t *testing.T, s *seen) {
	rows := s.rows(t)
	wants(t, "packets of a first node", len(rows), w.pairs[hostile+" aramis"]+w.pairs[hostile+" not seen to leave"])
	for _, row := range rows {
		if !strings.HasPrefix(row["Path"], hostile) {
			t.Error(row)
		}
	}
}

// events wants each of them, and what is known of the one that a key opened.
func events(t *testing.T, s *seen) {
	wants(t, "the heading", s.Heading, "3 events, 2 of them errors; the last: loss ended")
	var names []string
	for _, row := range s.rows(t) {
		names = append(names, row["Event"])
		wants(t, "what happened", row["What happened"], "packets are lost after "+hostile)
	}
	wants(t, "the events", names, []string{"loss_ended", "segment_slow", "loss_began"})
	_, part, ok := strings.Cut(s.Text, "loss ended 2026-11-21 11:59:00.000, found by keeper")
	if !ok || !strings.Contains(part, "from "+hostile) || !strings.Contains(part, "lost 6") {
		t.Error(s.Text)
	}
}

// waterfall wants each node of a packet with how long it held it, and how long the packet took to come there.
func (w *wanted) waterfall(t *testing.T, s *seen) {
	wants(t, "the heading", s.Heading, "One packet")
	if want := fmt.Sprintf("Flow %d, number %d, namespace 123", w.packet.FlowID, w.packet.Sequence); !strings.Contains(s.Text, want) {
		t.Errorf("there is no %s: %s", want, s.Text)
	}
	rows := s.Tables[len(s.Tables)-1].Rows
	wants(t, "the number of nodes", len(rows), len(w.packet.Nodes))
	for i, row := range rows {
		n := &w.packet.Nodes[i]
		wants(t, "the node", row[0], n.Node)
		wants(t, "its time", row[3], n.Timestamp.Value.UTC().Format("2006-01-02 15:04:05.000000000"))
		wants(t, "its hop limit", row[8], n.HopLimit.Value)
		shows(t, n.Node+" held it for", row[6], int64(n.TransitDelay.Value))
		if i > 0 {
			shows(t, "it took to "+n.Node, row[5], *n.SincePrevious)
		}
	}
}

// shows wants a duration as the console writes it, of three digits.
func shows(t *testing.T, what, text string, ns int64) {
	t.Helper()
	value, unit, _ := strings.Cut(text, " ")
	got, err := strconv.ParseFloat(value, 64)
	if got *= map[string]float64{"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]; err != nil || math.Abs(got/float64(ns)-1) > 0.006 {
		t.Errorf("%s %q, and should be %d ns", what, text, ns)
	}
}

// unknown wants that a screen knows no losses of traces: there is no zero of them, and a word says why.
func unknown(lost string) func(t *testing.T, s *seen) {
	return func(t *testing.T, s *seen) {
		rows := s.rows(t)
		if len(rows) == 0 {
			t.Error("there is nothing")
		}
		for _, row := range rows {
			if text, ok := row[lost]; !ok || text != "" || number(t, row["Packets"]) != mostTraces {
				t.Errorf("%v", row)
			}
		}
		if !strings.Contains(s.Text, "–: what was lost is not known.") {
			t.Error(s.Text)
		}
		for _, one := range s.Tables {
			for column, title := range one.Head {
				for _, row := range one.Rows {
					clean, at := strings.TrimRight(title, "▴▾ "), column+len(row)-len(one.Head) // a matrix has an empty corner
					if (clean == lost || clean == "lost on the way") && row[at] != "–" {
						t.Errorf("%s: %q", title, row)
					}
				}
			}
		}
	}
}
