// SPDX-License-Identifier: Apache-2.0

package browsertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// wanted is what the packets say, counted one by one.
type wanted struct {
	all, lost int
	routes    map[string]int     // packets
	earlier   map[string]int     // of them, in the first half of the time
	lostOn    map[string]int     // of them
	delays    map[string][]int64 // of whole paths
	pairs     map[string]int     // packets from a first node to a last one
	between   map[string][]int64 // their delays
	held      map[string][]int64 // by node

	packet *record.Path          // number 1000 of the second flow
	links  map[string][2][]int64 // times from a node to the next one, in the first half of the time and in the second
}

func count(packets []*record.Path) *wanted {
	w := &wanted{
		routes:  map[string]int{},
		earlier: map[string]int{},
		lostOn:  map[string]int{},
		delays:  map[string][]int64{},
		pairs:   map[string]int{},
		between: map[string][]int64{},
		held:    map[string][]int64{},
		links:   map[string][2][]int64{},
	}
	for _, p := range packets {
		w.all++
		r := route(p)
		part := 1 // of the time
		if p.Time.Before(begin.Add(5 * time.Minute)) {
			part, w.earlier[r] = 0, w.earlier[r]+1
		}
		if p.FlowID == 2 && p.Sequence == 1000 {
			w.packet = p
		}
		for i := range p.Nodes[1:] {
			link := p.Nodes[i].Node + " → " + p.Nodes[i+1].Node
			both := w.links[link]
			both[part] = append(both[part], *p.Nodes[i+1].SincePrevious)
			w.links[link] = both
		}
		w.routes[r]++
		for _, n := range p.Nodes {
			w.held[n.Node] = append(w.held[n.Node], int64(n.TransitDelay.Value))
		}
		first, last := p.Nodes[0].Node, "not seen to leave"
		if p.Verdict == record.PathLost {
			w.lost++
			w.lostOn[r]++
		} else {
			last = p.Nodes[len(p.Nodes)-1].Node
			w.delays[r] = append(w.delays[r], *p.Delay)
			w.between[first+" "+last] = append(w.between[first+" "+last], *p.Delay)
		}
		w.pairs[first+" "+last]++
	}
	return w
}

func (w *wanted) paths(t *testing.T, s *seen) {
	wants(t, "the heading", s.Heading, fmt.Sprintf("%s packets on %d paths, %d lost", spacedText(w.all), len(w.routes), w.lost))
	rows := s.rows(t)
	wants(t, "the number of paths", len(rows), len(w.routes))
	for _, row := range rows {
		path := row["Path"]
		wants(t, "packets on "+path, row["Packets"], w.routes[path])
		wants(t, "lost on "+path, row["Lost"], w.lostOn[path])
		if list := w.delays[path]; len(list) > 0 && !near(number(t, row["p99"]), exact(list, 0.99)) {
			t.Errorf("p99 of %s is %s, not %v", path, row["p99"], exact(list, 0.99))
		}
	}
	if !strings.Contains(s.Text, hostile) {
		t.Errorf("the page has no node called %s: %s", hostile, s.Text)
	}
}

func (w *wanted) changes(t *testing.T, s *seen) {
	rows := s.rows(t)
	if len(rows) != 1 {
		t.Fatalf("%v", rows)
	}
	row := rows[0]
	wants(t, "the heading", s.Heading, "One pair of addresses moved to another path")
	wants(t, "the pair", row["Source"]+" "+row["Destination"], fmt.Sprint(sourceOf(1), " ", destinationOf(1)))
	wants(t, "the move", row["Moved"], 1)
	for title, node := range map[string]string{"From": "porthos", "To": "dartagnan"} {
		if !strings.Contains(row[title], node) {
			t.Errorf("%s is %q, and should have %s", title, row[title], node)
		}
	}
}

func (w *wanted) segments(t *testing.T, s *seen) {
	packets, lost := map[string]int{}, 0
	for _, row := range s.rows(t) {
		node, rest, ok := strings.Cut(row["Segment"], " eth1 → ")
		if !ok {
			node, rest = strings.TrimSuffix(row["Segment"], ", the last node"), ""
		}
		packets[node] += int(number(t, row["Packets"]))
		if rest == "not seen further" {
			lost += int(number(t, row["Lost after"]))
		} else {
			wants(t, "lost after "+row["Segment"], row["Lost after"], 0)
		}
	}
	for node, list := range w.held {
		wants(t, "packets of "+node, packets[node], len(list))
	}
	wants(t, "all that is lost", lost, w.lost)
	first := s.rows(t)[0]
	if !strings.HasPrefix(first["Segment"], "dartagnan") || !strings.HasPrefix(s.Heading, "dartagnan holds packets longest: p99 5.") ||
		number(t, first["Held p99"]) < 5e6 {
		t.Errorf("%s: %v", s.Heading, first)
	}
}

func (w *wanted) grid(t *testing.T, s *seen) {
	rows := s.rows(t)
	wants(t, "the number of pairs", len(rows), len(w.pairs))
	for _, row := range rows {
		pair := row["From"] + " " + row["To"]
		wants(t, "packets from "+pair, row["Packets"], w.pairs[pair])
		if list := w.between[pair]; len(list) > 0 && !near(number(t, row["p99"]), exact(list, 0.99)) {
			t.Errorf("p99 of %s is %s, not %v", pair, row["p99"], exact(list, 0.99))
		}
	}
	wants(t, "the heading", s.Heading[:30], "2 pairs of nodes; the slowest ")
	matrix := s.Tables[0]
	wants(t, "the ends", matrix.Head, []string{"aramis", "lost on the way"})
	wants(t, "the begins", len(matrix.Rows), 2)
}

func (w *wanted) losses(t *testing.T, s *seen) {
	wants(t, "the heading", s.Heading, "gold loses 0.56% on porthos → aramis")
	blocks := map[string][4]int{ // all, uncertain, sent, lost
		"gold whole athos → aramis": {60, 6, 5400, 30}, "gold segment athos → porthos": {60, 0, 6000, 0},
		"gold segment porthos → aramis": {60, 6, 5400, 30}, "silver whole athos → aramis": {60, 0, 6000, 0},
	}
	rows := s.rows(t)
	wants(t, "the number of ways", len(rows), len(blocks))
	for _, row := range rows {
		name := row["Flow"] + " " + row["Scope"] + " " + row["Segment"]
		got := [4]int{int(number(t, row["Blocks"])), int(number(t, row["Uncertain"])), int(number(t, row["Sent"])), int(number(t, row["Lost"]))}
		wants(t, name, got, blocks[name])
	}
	lost := s.column(t, "Blocks", "Block", "Lost")
	for at, want := range map[string]string{"11:50:00.000": "?", "11:50:10.000": "1", "11:50:20.000": "0"} {
		if got := lost["2026-11-21 "+at]; got != want && got != "" { // only the latest are in the document
			t.Errorf("the block at %s lost %q, not %s", at, got, want)
		}
	}
	wants(t, "the block before the last", lost["2026-11-21 11:59:50.000"], "1")
	wants(t, "an uncertain block", lost["2026-11-21 11:58:20.000"], "?")
	edges := s.column(t, "Flows from edge to edge", "Source", "Lost")
	wants(t, "what one flow lost", edges[sourceOf(1)], "60")
	wants(t, "what the other flow lost", edges[sourceOf(2)], "?")
	wants(t, "its uncertain records", s.column(t, "Flows from edge to edge", "Source", "Uncertain")[sourceOf(2)], "? 60")
}

func (w *wanted) packets(t *testing.T, s *seen) {
	wants(t, "the heading", s.Heading, fmt.Sprintf("%d packets, %d lost", w.lost, w.lost))
	routes := map[string]int{}
	for _, row := range s.rows(t) {
		routes[row["Path"]]++
		wants(t, "its fate", row["Fate"], "lost")
	}
	wants(t, "the paths of lost packets", routes, w.lostOn)
}

func (w *wanted) live(t *testing.T, s *seen) {
	lost := 0
	rows := s.rows(t)
	for _, row := range rows {
		if row["Became"] == "lost" {
			lost++
		}
	}
	wants(t, "packets, and those that are lost", []int{len(rows), lost}, []int{40, 3})
	lostOf := s.column(t, "Losses of measured flows", "Segment", "Lost")
	wants(t, "blocks of measured flows", fmt.Sprint(lostOf), "map[whole way, ingress → point 1:0 whole way, ingress → point 8:7]")
	if !strings.Contains(s.Text, "2 blocks, 7 packets lost") {
		t.Error(s.Text)
	}
	if !strings.Contains(s.Text, "athos → porthos → aramis, 37") {
		t.Error(s.Text)
	}
}

func (w *wanted) health(t *testing.T, s *seen) {
	wants(t, "the heading", s.Heading, "2 of 3 exporters send; 17 records, messages or packets were lost on their way into the store")
	got := map[string]string{}
	for _, row := range s.rows(t) {
		got[row["Exporter"]] = row["Records"] + " " + row["Missed"]
	}
	wants(t, "records of exporters", got, map[string]string{"athos": "12345 0", "porthos": "2000 0", hostile: "777 42"})
	wants(t, "what the page shows", s.column(t, "Exporters", "Exporter", "Records")["athos"], spacedText(12345))
	if !strings.Contains(s.Text, "porthos") || !strings.Contains(s.Text, "Postcards that came too late.") ||
		!strings.Contains(s.Text, spacedText(w.all+mostTraces)+" packets") {
		t.Error(s.Text)
	}
}

// nothing is what a screen shows of a time without data: no zero.
func nothing(t *testing.T, s *seen) {
	if !strings.Contains(s.Text, "No segments") || !strings.Contains(s.Text, "That nothing is known does not mean that all is well.") ||
		len(s.Tables) > 0 {
		t.Errorf("%s %+v", s.Text, s.Tables)
	}
}

// keys are a shortcut: 3 is the third screen.
func keys(t *testing.T, s *seen) { wants(t, "the address", s.Address, "/segments") }
