// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/prometheustest"
)

var metric = regexp.MustCompile(`\bwaymark_[a-z0-9_]+`)

// What queries name is what agents and collectors report.
func TestQueriesNameWhatExists(t *testing.T) {
	metrics, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := os.ReadFile("../../docs/reference/outcomes.md")
	if err != nil {
		t.Fatal(err)
	}
	label := regexp.MustCompile(`\boutcome=~?"([^"]*)"`)
	queries := Queries()
	for _, p := range pages() {
		queries = append(queries, p.metric)
	}
	for _, q := range queries {
		names := metric.FindAllString(q, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric of ours", q)
		}
		for _, name := range names {
			if row := metricRow(string(metrics), name); row == "" {
				t.Errorf("%s: there is no metric %s", q, name)
			} else {
				labelsExist(t, q, name, row)
			}
		}
		for _, match := range label.FindAllStringSubmatch(q, -1) {
			for outcome := range strings.SplitSeq(match[1], "|") {
				if !bytes.Contains(outcomes, []byte("`"+outcome+"`")) {
					t.Errorf("%s: there is no outcome %s", q, outcome)
				}
			}
		}
	}
}

// metricRow is a metric's row of the reference, "" if there is none.
func metricRow(reference, name string) string {
	for line := range strings.Lines(reference) {
		if strings.HasPrefix(line, "| `"+name+"` |") {
			return line
		}
	}
	return ""
}

// labelsExist checks the labels by which a query sums.
func labelsExist(t *testing.T, query, name, row string) {
	t.Helper()
	by := regexp.MustCompile(`sum by \(([^)]*)\) \((?:rate\()?` + name + `\b`)
	for _, match := range by.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(match[1], ", ") {
			if label != "instance" && !strings.Contains(row, "`"+label+"`") { // Prometheus adds the instance
				t.Errorf("%s: %s has no label %s", query, name, label)
			}
		}
	}
}

// The files are those of the code, and Grafana's JSON has what a dashboard needs.
func TestFilesAreCurrent(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	committed, err := filepath.Glob("../grafana/*.json")
	if err != nil || len(committed) != len(pages()) {
		t.Errorf("%d files for %d dashboards: %q, %v", len(committed), len(pages()), committed, err)
	}
	for _, p := range pages() {
		got, err := os.ReadFile(filepath.Join(dir, p.uid+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if want, err := os.ReadFile("../grafana/" + p.uid + ".json"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("packaging/grafana/%s.json is not current (%v); run: make dashboards", p.uid, err)
		}
		var d struct {
			UID    string `json:"uid"`
			Title  string `json:"title"`
			Panels []struct {
				Type    string `json:"type"`
				GridPos struct{ X, Y, W, H int }
				Targets []struct {
					Expr, RefID string
				}
			}
		}
		if err := json.Unmarshal(got, &d); err != nil {
			t.Fatal(err)
		}
		targets := 0
		for _, one := range d.Panels {
			targets += len(one.Targets)
			if one.GridPos.X+one.GridPos.W > width {
				t.Errorf("%s: a panel is beyond the right edge: %+v", p.uid, one.GridPos)
			}
		}
		wanted := 0
		for _, r := range p.rows {
			for _, one := range r.panels {
				wanted += len(one.queries)
			}
		}
		if d.UID != p.uid || d.Title != p.title || targets != wanted {
			t.Errorf("%s: the JSON has %q, %q and %d queries, want %d", p.uid, d.UID, d.Title, targets, wanted)
		}
	}
}

// filled is a query as Grafana sends it.
func filled(query string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*").Replace(query)
}

// Prometheus' own parser reads each query.
func TestQueriesParse(t *testing.T) {
	promtool := prometheustest.Program(t, "promtool")
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: queries\n    rules:\n")
	for i, q := range Queries() {
		fmt.Fprintf(&rules, "      - record: query_%d\n        expr: %q\n", i, filled(q))
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A Prometheus that scrapes an agent answers each query, and those about any node with a value.
func TestQueriesOfPrometheus(t *testing.T) {
	server := os.Getenv("WAYMARK_PROMETHEUS")
	if server == "" {
		t.Skip("WAYMARK_PROMETHEUS names no server; make interop starts one")
	}
	answers := func(query string) int {
		t.Helper()
		reply, err := http.Get(server + "/api/v1/query?query=" + url.QueryEscape(filled(query)))
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		var result struct {
			Status, Error string
			Data          struct{ Result []any }
		}
		if err := json.NewDecoder(reply.Body).Decode(&result); err != nil || result.Status != "success" {
			t.Errorf("%s: %v %s", query, err, result.Error)
		}
		return len(result.Data.Result)
	}
	// Two scrapes after the first packets make a rate.
	for end := time.Now().Add(patience.Of(time.Minute)); answers(`rate(waymark_packets_total[1m])`) == 0; time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatal("no rate of packets after a minute")
		}
	}
	queries, with := Queries(), 0
	for _, q := range queries {
		if answers(q) > 0 {
			with++
		} else {
			t.Logf("no value of this node: %s", q)
		}
	}
	if t.Logf("%d of %d queries have values", with, len(queries)); with < len(queries)/2 {
		t.Errorf("only %d of %d queries have values", with, len(queries))
	}
}
