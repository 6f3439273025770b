// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

// named is a collector that answers what is set, or "" with an error.
func named(t *testing.T, answer *atomic.Value) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := answer.Load().(string)
		if user, password, _ := r.BasicAuth(); r.URL.Path != "/v1/names" || user != "r2" || password != "secret" {
			text = ""
		}
		if text == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			text = `{"kind": "error", "error": "\u001b[2Jcome later"}`
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(s.Close)
	return s
}

// Names come from the collector where the file has none, also to the next agent, and while the collector is away.
func TestLearnedNames(t *testing.T) {
	var answer atomic.Value
	s := named(t, &answer)
	password := t.TempDir() + "/password"
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := agenttest.BaseConfig + "names: [{id: 3, name: r3}]\n"
	h := newHarness(t, base+fmt.Sprintf("names-from: {collector: %q, user: r2, password-file: %s, interval: 1s}\n", s.URL, password))
	answer.Store(`{"nodes": [
		{"node_id": 2, "name": "not me", "interfaces": [{"id": 201, "name": "x"}, {"id": 299, "name": "gone0"}]},
		{"node_id": 3, "name": "another", "interfaces": [{"id": 301, "name": "east0", "description": "to r4"}]},
		{"node_id": 7, "name": "\u001b[2Jr7", "interfaces": []}, {"node_id_wide": 77, "name": "r77", "interfaces": [{"id_wide": 5, "name": "w"}]}]}`)
	h.Start()
	names := func() *nodenames.Names {
		list, err := h.Client.Names(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	check := func(when string) {
		t.Helper()
		agenttest.Eventually(t, "names "+when, func() bool { return names().Node(7) != "" })
		n := names()
		got := []string{
			n.Node(2), n.Interface(2, 201), n.Interface(2, 299), n.Node(3), n.Interface(3, 301), n.Description(3, 301), n.Node(7), n.NodeWide(77), n.InterfaceWide(77, 5),
		}
		if text := fmt.Sprint(got); text != `[gamma eth0 gone0 r3 east0 to r4 "\x1b[2Jr7" r77 w]` {
			t.Errorf("%s: %s", when, text)
		}
	}
	check("of an answer")
	series := func(name string) float64 { n, _ := h.Series(name); return n }
	if n := series("waymark_names_learned"); n != 4 {
		t.Errorf("%v ids", n)
	}
	answer.Store(`{"nodes": [{"node_id": 9, "name": "r9", "interfaces": []}]}`) // the collector has begun anew
	agenttest.Eventually(t, "a new node", func() bool { return names().Node(9) == "r9" })
	check("of an answer before")
	answer.Store("")
	agenttest.Eventually(t, "a failed question", func() bool { return series(`waymark_names_questions_total{result="failed"}`) > 0 })
	check("without an answer")
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	if log := h.Log.String(); strings.Contains(log, "\x1b") || !strings.Contains(log, "come later") || strings.Contains(log, "secret") {
		t.Errorf("the log: %s", log)
	}
	s.Close()
	h.Start()
	check("of the next agent")
	learned := only[*learned](h)
	learned.mu.Lock()
	learned.since = time.Now().Add(-time.Hour)
	learned.mu.Unlock()
	agenttest.Eventually(t, "a warning", func() bool { return h.Warned(health.NamesUnanswered) })
	h.Write(base)
	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	if n := names(); n.Node(7) != "" || n.Node(3) != "r3" || h.Warned(health.NamesUnanswered) {
		t.Errorf("after names-from: %+v", n.List())
	}
	if _, err := os.Stat(h.Instance.NamesFile()); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// An answer is bounded, whatever it has; what is no answer changes nothing.
func TestToldNodes(t *testing.T) {
	var text strings.Builder
	text.WriteString(`[{"node_id": 0, "name": "many", "interfaces": [`)
	for i := range 2 * nodenames.MaxInterfaces {
		fmt.Fprintf(&text, `{"id": %d, "name": "i"},`, i%65535)
	}
	text.WriteString(`{}]}`)
	for i := range 3 * nodenames.MaxNodes {
		fmt.Fprintf(&text, `, {"node_id": %d, "name": "n", "interfaces": null}`, i+1)
	}
	var parsed toldNodes
	if err := json.Unmarshal([]byte(text.String()+"]"), &parsed); err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, n := range parsed.names.List() {
		links += len(n.Interfaces)
	}
	if n := len(parsed.names.List()); n != nodenames.MaxNodes || links != nodenames.MaxInterfaces {
		t.Errorf("%d nodes, %d interfaces", n, links)
	}
	for _, wrong := range []string{
		`{}`, `"x"`, `[7]`, `[{"node_id": 16777216, "name": "x"}]`, `[{"node_id": -1}]`, `[{"node_id": 1, "name": "x", "interfaces": {}}]`,
		`[{"node_id": 1, "name": "x", "interfaces": [{"id": 65536}]}]`, `[{"node_id_wide": 72057594037927936}]`,
	} {
		if err := json.Unmarshal([]byte(wrong), &parsed); err == nil {
			t.Errorf("%s is an answer", wrong)
		}
	}
}

func FuzzToldNodes(f *testing.F) {
	f.Add([]byte(`[{"node_id": 2, "name": "r2", "interfaces": [{"id": 201, "name": "east0", "description": "to r3"}]}]`))
	f.Add([]byte(`[{"node_id_wide": 77, "name": "\u001b", "interfaces": [{"id_wide": 5}]}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var parsed toldNodes
		if json.Unmarshal(b, &parsed) != nil {
			return
		}
		for _, n := range parsed.names.List() {
			if nodenames.Printable(n.Name) != n.Name {
				t.Errorf("%q", n.Name)
			}
		}
	})
}

// What answers lack for a day is forgotten, and so is all of it if there is no room.
func TestForgottenNames(t *testing.T) {
	l := newLearned(&core{})
	node := func(id ioam.NodeID, name string) nodenames.Node {
		return nodenames.Node{ID: id, IDWide: ioam.NodeIDWideUnavailable, Name: name}
	}
	l.merge(nodenames.New(node(1, "r1"), node(2, "r2")))
	for i := range forgottenAfter {
		if l.merge(nodenames.New(node(1, "r1"))); len(l.nodes) != 2 || l.names.Node(2) != "r2" {
			t.Fatalf("%d nodes after %d answers", len(l.nodes), i+1)
		}
	}
	if changed := l.merge(nodenames.New(node(1, "r1"))); !changed || len(l.nodes) != 1 || l.names.Node(2) != "" {
		t.Errorf("%v: %+v", changed, l.nodes)
	}
	for round := range 4 { // each names other nodes
		full := nodenames.New()
		for i := range nodenames.MaxNodes {
			id := ioam.NodeID(round*nodenames.MaxNodes + i)
			full.Add(nodenames.Node{ID: id, IDWide: ioam.NodeIDWide(id), Name: "n"})
		}
		if l.merge(full); len(l.nodes) > mostLearned {
			t.Errorf("%d ids", len(l.nodes))
		}
	}
}

// Names that an earlier agent learned are forgotten when the file names no collector any more.
func TestNamesWithoutCollector(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	if err := os.MkdirAll(h.Instance.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	kept := `{"collector": "http://[::1]:4780", "nodes": [{"node_id": 7, "name": "r7", "interfaces": []}]}`
	if err := os.WriteFile(h.Instance.NamesFile(), []byte(kept), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Start()
	if n, ok := h.Series("waymark_names_learned"); n != 0 || !ok {
		t.Errorf("%v ids", n)
	}
	if _, err := os.Stat(h.Instance.NamesFile()); !os.IsNotExist(err) {
		t.Error(err)
	}
}
