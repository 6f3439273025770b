// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/bench"
)

func runWaymark(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestBenchList(t *testing.T) {
	code, out, _ := runWaymark("bench", "list", "--json")
	var list []struct{ Name, Title string }
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	if len(list) != len(bench.All()) || list[0].Name != "cost" || list[1].Name != "forwarding" || list[0].Title == "" {
		t.Errorf("%+v", list)
	}
}

func TestBenchUsage(t *testing.T) {
	for _, args := range [][]string{
		{"bench", "run"}, {"bench", "run", "nothing"}, {"bench", "nothing"},
		{"bench", "run", "cost", "--duration", "0s"}, {"bench", "run", "cost", "--rounds", "0"},
	} {
		if code, _, stderr := runWaymark(args...); code != exitUsage || stderr == "" {
			t.Errorf("%q: exit code %d, %q", args, code, stderr)
		}
	}
}

func TestBenchReport(t *testing.T) {
	ns := 12.5
	content, err := json.Marshal(bench.Result{Name: "cost", Machine: "a machine", Points: []bench.Point{{Variant: "a variant", NS: &ns}}})
	if err != nil {
		t.Fatal(err)
	}
	good, bad := filepath.Join(t.TempDir(), "good.json"), filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(good, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad, []byte("figures"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, _ := runWaymark("bench", "report", good)
	if code != exitOK || !strings.Contains(out, "| a variant | 0 | 12.5 |") || !strings.Contains(out, "a machine") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code, _, stderr := runWaymark("bench", "report", bad); code != exitFailure || !strings.Contains(stderr, "bench run") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
