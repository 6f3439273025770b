// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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

// zeros are metrics that are 0 in the lab of make interop, and why. All others have other values there.
var zeros = map[string]string{
	`severity="error"`:                       "nothing is broken",
	"waymark_hook_executed":                  "no other program removes ours",
	"waymark_records_lost_total":             "readers are in time",
	"waymark_export_dropped_total":           "both collectors answer",
	"waymark_collect_socket_dropped_total":   "there are few records, over TCP",
	"waymark_collect_malformed_total":        "agents send what is right",
	"waymark_collect_paths_unknown_total":    "all nodes report",
	"waymark_collect_flows_beyond_threshold": "agents compare the flow's losses, not a collector",
	"waymark_joined_segment_negative_total":  "all nodes have one clock",
	"waymark_collect_output_dropped_total":   "the file can be written",
	"waymark_store_files_removed_total":      "the disk has room",
	"waymark_store_packings_total":           "no hour ends",
}

// A Prometheus that scrapes a lab's agents and collectors answers each query with a value, and with one that is not 0
// unless the lab has no cause for it.
func TestQueriesOfPrometheus(t *testing.T) {
	server := os.Getenv("WAYMARK_PROMETHEUS")
	if server == "" {
		t.Skip("WAYMARK_PROMETHEUS names no server; make interop starts one")
	}
	type answer struct {
		values int
		moved  bool
	}
	ask := func(query string) (a answer) {
		t.Helper()
		reply, err := http.Get(server + "/api/v1/query?query=" + url.QueryEscape(filled(query)))
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		var result struct {
			Status, Error string
			Data          struct{ Result []struct{ Value [2]any } }
		}
		if err := json.NewDecoder(reply.Body).Decode(&result); err != nil || result.Status != "success" {
			t.Errorf("%s: %v %s", query, err, result.Error)
		}
		for _, series := range result.Data.Result {
			text, _ := series.Value[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			a.values, a.moved = a.values+1, a.moved || err == nil && value != 0 && !math.IsNaN(value)
		}
		return a
	}
	quiet := func(query string) bool {
		for part := range zeros {
			if strings.Contains(query, part) {
				return true
			}
		}
		return false
	}
	missing := Queries()
	for end := time.Now().Add(patience.Of(2 * time.Minute)); len(missing) > 0 && time.Now().Before(end); time.Sleep(time.Second) {
		missing = slices.DeleteFunc(missing, func(q string) bool { a := ask(q); return a.moved || quiet(q) && a.values > 0 })
	}
	for _, q := range missing {
		t.Errorf("%d values, and none but 0: %s", ask(q).values, q)
	}
	for part, why := range zeros {
		if !slices.ContainsFunc(Queries(), func(q string) bool { return strings.Contains(q, part) }) {
			t.Errorf("no query has %s, which is 0 because %s", part, why)
		}
	}
}
