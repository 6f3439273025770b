// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// TestRuntime restarts an agent while packets are counted, and replaces the flow by another one.
func TestRuntime(t *testing.T) {
	l := raise(t, "encap", string(e2e.TCModes()[0]))
	t.Run("offloaded TCP, restarted", func(t *testing.T) { countThroughRestarts(t, l) })
	t.Run("flow added", func(t *testing.T) { addFlow(t, l) })
}

// addFlow adds a flow to running agents: its ingress compares it with the others,
// by the names that its points have, and warns, until the flow is removed.
func addFlow(t *testing.T, l *lab.Lab) {
	t.Helper()
	const packets = "src 2001:db8:ff::1 segs " + endSID + "," + lastSID + " mode encap"
	const ingress = "green out " + packets + " points '[2001:db8:12::2]:862,beta-side=2001:db8:23::3' probes in-band points-after 0" +
		" metrics max-loss 0.1% max-delay 100ms no-data-after 2"
	for node, words := range map[string]string{"ingress": ingress, "middle": "green transit " + packets, "egress": "green in " + packets} {
		e2e.MustIn(t, l, node, "flow", "del", "red")
		e2e.MustIn(t, l, node, append([]string{"flow", "add"}, strings.Fields(strings.ReplaceAll(words, "'", ""))...)...)
		if shown := e2e.MustIn(t, l, node, "flow", "show", "green", "--wide"); !strings.HasPrefix(shown, words+"\n") {
			t.Errorf("%s shows\n%s\nwant\n%s", node, shown, words)
		}
	}
	if out, err := e2e.In(t, l, "ingress", append([]string{"flow", "add", "again", "out", "session", "9"},
		strings.Fields(packets)...)...); err == nil ||
		!strings.HasPrefix(out, `waymark: flow "again": segments: flow "green" selects the same packets; give one of them`) {
		t.Errorf("the same packets as another flow: %v, %s", err, out)
	}
	r, whole, first, second := observe(t, l), part{"green", 0, 2}, part{"green", 0, 1}, part{"green", 1, 2}
	r.awaitExact(t, whole, first, second)
	began := time.Now()
	const count = 3000
	warned := func(w health.Warning) bool { return w.Code == health.FlowLossHigh }
	// The warning ends when the flow has no packets any more.
	ended := make(chan struct{})
	seen := watchWarning(t, l, ended, warned)
	send(t, l, count, 100, 64, 64, 2)
	r.awaitAfter(t, time.Now(), whole)
	close(ended)
	for p, want := range map[part]uint64{whole: count / 3, first: 0, second: count / 3} {
		if sent, lost, _ := r.sum(t, p, began); sent != count || lost != want {
			t.Errorf("%v: %d of %d lost, want %d of %d", p, lost, sent, want, count)
		}
	}
	if list := r.delaysOf(whole); len(list) == 0 || list[0].ToNode != "beta-side" {
		t.Errorf("no delay by test packets: %+v", list)
	}
	checkNamed(t, l)
	if !<-seen {
		t.Error("no warning of the loss while packets came")
	}

	e2e.MustIn(t, l, "ingress", "flow", "del", "green")
	removed := time.Now()
	if out, err := e2e.In(t, l, "ingress", "loss", "--flow", "green"); err == nil ||
		!strings.Contains(out, `no flow "green" is measured here`) {
		t.Errorf("after flow del: %v, %s", err, out)
	}
	if out := e2e.MustIn(t, l, "ingress", "loss", "--wide", "--flow", "green", "--last", "5m"); !strings.Contains(out, "flow_loss_high") {
		t.Errorf("after flow del, the history has no loss of it: %s", out)
	}
	send(t, l, 300, 100, 64)
	time.Sleep(3 * time.Second)
	for _, each := range r.lossesOf(whole) {
		if each.Start.After(removed) {
			t.Errorf("a block after flow del: %+v", each)
		}
	}
	if ws := e2e.StatusOf(t, l, "ingress").Warnings; slices.ContainsFunc(ws, warned) {
		t.Errorf("the warning is still there: %+v", ws)
	}
}

// checkNamed checks what the results call the nodes in a table, in JSON and in comma-separated
// values.
func checkNamed(t *testing.T, l *lab.Lab) {
	t.Helper()
	table := e2e.MustIn(t, l, "ingress", "loss", "--verbose", "--wide", "--flow", "green")
	if _, row, _ := strings.Cut(table, "\n"); len(strings.Fields(row)) < 5 ||
		!slices.Equal(strings.Fields(row)[3:5], []string{"ingress", "beta-side"}) {
		t.Errorf("the first row is not from ingress to beta-side:\n%s", table)
	}
	if text := e2e.MustIn(t, l, "ingress", "--json", "loss", "--flow", "green"); !strings.Contains(
		text,
		`"from":1,"to":2,"from_node":"2001:db8:12::2","to_node":"beta-side"`,
	) {
		t.Errorf("no nodes in JSON:\n%s", text)
	}
	rows, err := csv.NewReader(strings.NewReader(e2e.MustIn(t, l, "ingress", "loss", "--csv", "--flow", "green"))).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%v: %v", rows, err)
	}
	value := func(column string) string { return rows[1][slices.Index(rows[0], column)] }
	if value("from") != "0" || value("to") != "2" || value("from_node") != "ingress" || value("to_node") != "beta-side" {
		t.Errorf("comma-separated values:\n%v", rows[:2])
	}
}

// watchWarning looks until a warning that names the end of the flow is there, or until ended is closed.
func watchWarning(t *testing.T, l *lab.Lab, ended <-chan struct{}, warned func(health.Warning) bool) <-chan bool {
	seen := make(chan bool, 1)
	go func() {
		for {
			var status struct {
				Warnings []health.Warning `json:"warnings"`
			}
			out, _ := e2e.In(t, l, "ingress", "status", "--json")
			is := json.Unmarshal([]byte(out), &status) == nil && slices.ContainsFunc(status.Warnings, func(w health.Warning) bool {
				return warned(w) && strings.Contains(w.Text, "beta-side (2001:db8:23::3)")
			})
			select {
			case <-ended:
				seen <- is
				return
			case <-time.After(100 * time.Millisecond):
			}
			if is {
				seen <- true
				return
			}
		}
	}()
	return seen
}
