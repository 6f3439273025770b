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

	"github.com/waymark-net/waymark/bench/experiments"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/docgen"
	"github.com/waymark-net/waymark/test/testnet"
)

func runBench(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestList(t *testing.T) {
	code, out, _ := runBench("list", "--json")
	var list []struct{ Name, Title string }
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != commandline.ExitOK {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	if len(list) != len(experiments.All()) || list[0].Name != "cost" || list[1].Name != "parts" || list[0].Title == "" {
		t.Errorf("%+v", list)
	}
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"run", "NAME is missing; name a benchmark, or run all of them with --short"},
		{"run --rounds 3 --short", "--rounds is for one benchmark; name one, or remove --rounds"},
		{"run cost parts", "waymark-bench run takes one NAME, but got 2"},
		{"run nothing", "there are cost, parts, forwarding"},
		{"nothing", `unknown command "nothing"`},
		{"run cost --duration 0s", "--duration 0s: too short"},
		{"run cost --duration 1ns", "--duration 1ns: too short for 25 rounds; use at least 100ms for each, or fewer --rounds"},
		{"run cost --duration 99ms --rounds 1", "use at least 100ms for each"},
		{"run cost --rounds 0", "--rounds 0: use at least 1, or remove it for 25"},
		{"run cost --setups 2", "--setups: cost has one set-up; remove it"},
		{"run fast --setups 0", "--setups 0: use 1 to 25"},
		{"run fast --rounds 3 --setups 4", "--setups 4: use 1 to 3, the number of rounds"},
		{"run cost --rounds -1", "--rounds -1: use at least 1"},
		{"run cost --rounds 9000000000000000000", "--duration 3m0s: too short"},
		{"compare fast", "--old is missing; name the file of an older waymark-bench"},
		{"compare --old /bin/false", "waymark-bench: NAME is missing"},
		{"compare --old /bin/false nothing", "there are cost, parts, forwarding"},
		{"compare --old /bin/false fast --rounds 0", "--rounds 0: use at least 1, or remove it for 25"},
		{"compare --old /bin/false fast --duration 99ms", "--duration 99ms: use at least 100ms"},
	} {
		if code, _, stderr := runBench(strings.Fields(tt.args)...); code != commandline.ExitUsage || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, %q; want %q", tt.args, code, stderr, tt.want)
		}
	}
}

func TestCompletes(t *testing.T) {
	if _, out, _ := runBench("__complete", "run", ""); !strings.HasPrefix(out, "cost\t") || !strings.Contains(out, "\nforwarding\t") {
		t.Errorf("%q", out)
	}
	if _, out, _ := runBench("__complete", "run", "cost", ""); strings.Contains(out, "forwarding") {
		t.Errorf("a second name: %q", out)
	}
}

func TestReport(t *testing.T) {
	ns := 12.5
	content, err := json.Marshal(report.Result{Name: "cost", Machine: "a machine", Points: []report.Point{{Variant: "a variant", NS: &ns}}})
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
	pages, figures := t.TempDir(), t.TempDir()
	code, out, _ := runBench("report", "--pages", pages, "--all-figures", figures, good)
	if code != commandline.ExitOK || !strings.Contains(out, "(benchmarks/results.md)") || !strings.Contains(out, "on a machine") {
		t.Errorf("exit code %d: %s", code, out)
	}
	page, err := os.ReadFile(filepath.Join(pages, "results.md"))
	if err != nil || !strings.Contains(string(page), "[JSON](../../bench/results/cost.json)") {
		t.Errorf("%v: %s", err, page)
	}
	for _, name := range []string{filepath.Join(pages, "missed-aims.md"), filepath.Join(figures, "cost.svg")} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	other := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(other, bytes.ReplaceAll(content, []byte("a machine"), []byte("another")), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := runBench("report", good, other)
	if code != commandline.ExitFailure || out != "" || !strings.Contains(stderr, "2 machines or commits") {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	if code, out, _ := runBench("foreign", good, other); code != commandline.ExitOK || out != good+"\n"+other+"\n" {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code, _, stderr := runBench("report", bad); code != commandline.ExitFailure || !strings.Contains(stderr, "waymark-bench run") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestReferenceIsCurrent(t *testing.T) {
	got, err := os.ReadFile("../../../docs/reference/waymark-bench.md")
	if err != nil || !bytes.Equal(got, docgen.Commands(newRoot(&commandline.Options{}))) {
		t.Errorf("docs/reference/waymark-bench.md is not current (%v); run: make docs", err)
	}
}

// Programs take turns: a turn that both have in an order that changes, and one that only
// the newer has by itself. Figures are of what each measured in its turns.
func TestCompareTakesTurns(t *testing.T) {
	directory := t.TempDir()
	log := filepath.Join(directory, "log")
	program := func(name string, ratios []string, turns ...string) string {
		script := "#!/bin/sh\n" + `echo '{"turns":["` + strings.Join(turns, `","`) + `"]}' >&4` + "\n"
		for _, ratio := range ratios {
			for _, turn := range turns {
				script += `echo '{"turn":"` + turn + `"}' >&4; read given <&3; echo ` + name + ` "$given" $@ >>` + log + "\n" +
					`echo '{"points":[{"variant":"` + turn + `","x":78,"dimensions":{"treatment":"` + turn + `"},` +
					`"pps":1000,"ratio":` + ratio + `,"reference":500}]}' >&4` + "\n"
			}
		}
		script += `echo '{"name":"fast","machine":"one","points":[]}'` + "\n"
		file := filepath.Join(directory, name)
		if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		return file
	}
	older, newer := program("old", []string{"1.5", "1.25"}, "transit"), program("new", []string{"3", "2.5"}, "later", "transit")
	code, out, stderr := runBench("compare", "--old", older, "--new", newer, "--rounds", "2", "--duration", "2s", "fast", "--json")
	var c report.BeforeAfter
	if err := json.Unmarshal([]byte(out), &c); err != nil || code != commandline.ExitOK {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	if len(c.Points) != 1 || len(c.OnlyAfter) != 1 || c.Rounds != 2 || c.Points[0].Variant != "transit" || c.Points[0].Change != 2 {
		t.Errorf("%+v", c)
	}
	const each = " run fast --json --rounds 2 --duration 4s\n"
	turn := func(program, name string) string { return program + ` {"turn":"` + name + `"}` + each }
	want := turn(
		"new",
		"later",
	) + turn(
		"new",
		"transit",
	) + turn(
		"old",
		"transit",
	) + turn(
		"new",
		"later",
	) + turn(
		"new",
		"transit",
	) + turn(
		"old",
		"transit",
	)
	if got, err := os.ReadFile(log); err != nil || string(got) != want {
		t.Errorf("%v: %s", err, got)
	}
	for _, tt := range [][2]string{{"/bin/false", "/bin/false run fast"}, {"/bin/true", "/bin/true"}} {
		code, _, stderr := runBench("compare", "--old", tt[0], "--new", newer, "fast")
		if code != commandline.ExitFailure || !strings.Contains(stderr, tt[1]) {
			t.Errorf("%s: exit code %d: %s", tt[0], code, stderr)
		}
	}
}

// An error is a line with the program's name, or an object.
func TestErrors(t *testing.T) {
	if code, stdout, stderr := runBench("run", "nothing"); code != commandline.ExitUsage || stdout != "" ||
		!strings.HasPrefix(stderr, "waymark-bench: no benchmark is called") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, stderr := runBench("run", "nothing", "--json")
	if code != commandline.ExitUsage || !strings.HasPrefix(stdout, `{"kind":"error","ok":false,"error":"no benchmark is called`) ||
		stderr != "" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// What other programs read from a benchmark: every figure with its ratio to the
// baseline of the same run.
func TestRunJSON(t *testing.T) {
	testnet.NeedRoot(t)
	code, out, stderr := runBench("run", "kernel", "--json", "--duration", "100ms", "--rounds", "1")
	var result struct {
		Name, Machine, Kernel, Baseline string
		Points                          []map[string]any
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != commandline.ExitOK {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	if result.Name != "kernel" || result.Machine == "" || result.Kernel == "" || result.Baseline == "" || len(result.Points) == 0 {
		t.Errorf(
			"the result is %q of %q, %q, against %q, with %d points",
			result.Name,
			result.Machine,
			result.Kernel,
			result.Baseline,
			len(result.Points),
		)
	}
	for _, p := range result.Points {
		variant, _ := p["variant"].(string)
		_, hasX := p["x"].(float64)
		_, hasPPS := p["pps"].(float64)
		_, hasRatio := p["ratio"].(float64) // in such a short run it may be any value
		if variant == "" || !hasX || !hasPPS || !hasRatio {
			t.Errorf("a point lacks variant, x, pps or ratio: %v", p)
		}
	}
}
