// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	jsonata "github.com/xiatechs/jsonata-go"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// Each query of the page about Grafana gives rows, and its columns have values of their types. Grafana's Infinity data
// source takes the rows by GJSON if there is something at that path, else by JSONata, and the columns by GJSON; the same
// libraries do it here. Its own backend is asked by scripts/interop/infinity.sh.
func TestInfinity(t *testing.T) {
	list := append(steadily(start, 1200), lossy()...)
	for i, r := range list {
		if p, ok := r.(*record.Path); ok {
			p.Nodes[0].Node, p.Nodes[1].Node = "athos", []string{"porthos", "milady"}[i%2]
		}
	}
	list = append(
		list,
		&record.Event{Time: instant.Of(start), Node: "athos", Name: "probe_loss", Severity: record.SeverityWarning, Facts: "probes are lost"},
	)
	s := serve(t, start, list)
	page, err := os.ReadFile("../../../docs/how-to/grafana.md")
	if err != nil {
		t.Fatal(err)
	}
	queries := regexp.MustCompile("(?m)^\\| ([^|]+) \\| `(/v1/[^`]+)` \\| `([^`]+)` \\| (.+) \\|$").FindAllStringSubmatch(string(page), -1)
	if len(queries) < 11 {
		t.Fatalf("%d queries", len(queries))
	}
	variables := strings.NewReplacer(
		"${__from:date:iso}",
		"2026-11-21T11:00:00.000Z",
		"${__to:date:iso}",
		"2026-11-21T14:00:00.000Z",
		"${source}",
		"::/0",
		"${flow}",
		"gold",
	)
	for _, q := range queries {
		response, err := http.Get(s.URL + variables.Replace(q[2]))
		if err != nil {
			t.Fatal(err)
		}
		var answer any
		err = json.NewDecoder(response.Body).Decode(&answer)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %v %v", q[1], response.StatusCode, answer, err)
			continue
		}
		rows, err := rowsAt(answer, q[3])
		if err != nil {
			t.Errorf("%s: %v", q[1], err)
			continue
		}
		columns := regexp.MustCompile("`([^`]+)` (string|number|timestamp)").FindAllStringSubmatch(q[4], -1)
		if len(columns) < 3 || strings.Count(q[4], "`") != 2*len(columns) {
			t.Errorf("%s: %s", q[1], q[4])
		}
		judgeRows(t, q[1], rows, columns)
		if times := rows.Get("#.time").Array(); strings.Contains(q[1], "over time") && !slices.IsSortedFunc(times, func(a, b gjson.Result) int {
			return strings.Compare(a.String(), b.String())
		}) {
			t.Errorf("%s: rows are not in the order of their time", q[1])
		}
	}
}

// rowsAt are the rows at a root, as the data source takes them.
func rowsAt(answer any, root string) (gjson.Result, error) {
	text, err := json.Marshal(answer)
	if err != nil {
		return gjson.Result{}, err
	}
	if found := gjson.GetBytes(text, root); found.Exists() {
		return found, nil
	}
	expression, err := jsonata.Compile(root)
	if err != nil {
		return gjson.Result{}, err
	}
	found, err := expression.Eval(answer)
	if err != nil {
		return gjson.Result{}, err
	}
	text, err = json.Marshal(found)
	return gjson.ParseBytes(text), err
}

// judgeRows looks at the columns of rows: those of one have one type, and some value.
func judgeRows(t *testing.T, query string, rows gjson.Result, columns [][]string) {
	t.Helper()
	if !rows.IsArray() || len(rows.Array()) == 0 {
		t.Errorf("%s: no rows: %.300s", query, rows.Raw)
	}
	for _, column := range columns {
		values := 0
		for _, row := range rows.Array() {
			v := row.Get(column[1])
			if !v.Exists() || v.Type == gjson.Null {
				continue
			}
			values++
			_, err := time.Parse(time.RFC3339Nano, v.String())
			if is := map[string]bool{"number": v.Type == gjson.Number, "string": v.Type == gjson.String, "timestamp": v.Type == gjson.String &&
				err == nil}; !is[column[2]] {
				t.Errorf("%s: %s is %s, not a %s", query, column[1], v.Raw, column[2])
				break
			}
		}
		if values == 0 || column[2] == "timestamp" && values < len(rows.Array()) {
			t.Errorf("%s: %d of %d rows have %s", query, values, len(rows.Array()), column[1])
		}
	}
}
