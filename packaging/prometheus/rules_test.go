// SPDX-License-Identifier: Apache-2.0

// Package prometheus has the rules of packages for Prometheus, and tests them.
package prometheus

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/prometheustest"
)

// Prometheus' own tool reads the rules, and evaluates them over series that are written down.
func TestRules(t *testing.T) {
	promtool := prometheustest.Program(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "waymark.rules.yaml"}, {"test", "rules", "waymark.test.yaml"}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// What rules and their tests name is what agents and collectors report: metrics, outcomes, codes.
func TestRulesNameWhatExists(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	events := read("../../docs/reference/events.md")
	metrics, outcomes, warnings := read(
		"../../docs/reference/metrics.md",
	), read(
		"../../docs/reference/outcomes.md",
	), read(
		"../../docs/reference/warnings.md",
	)
	metric, label := regexp.MustCompile(`\bwaymark_[a-z0-9_]+`), regexp.MustCompile(`\b(outcome|code)=~?"([^"]*)"`)
	kind := regexp.MustCompile(`waymark_events_\w+\{[^}]*\bkind=~?"([^"]*)"`)
	named := 0
	for _, file := range []string{"waymark.rules.yaml", "waymark.test.yaml"} {
		text := regexp.MustCompile(`[a-z_]+:waymark_\w+:\w+`).ReplaceAllString(read(file), "") // recorded by rules
		for _, name := range metric.FindAllString(text, -1) {
			named++
			name = strings.TrimSuffix(name, "_bucket") // of a histogram
			if !strings.Contains(metrics, "| `"+name+"` |") {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		for _, match := range label.FindAllStringSubmatch(text, -1) {
			reference := map[string]string{"outcome": outcomes, "code": warnings}[match[1]]
			for value := range strings.SplitSeq(match[2], "|") {
				if named++; !strings.Contains(reference, "`"+value+"`") {
					t.Errorf("%s: there is no %s %s", file, match[1], value)
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d names were found", named)
	}
	for _, file := range []string{"waymark.rules.yaml", "waymark.test.yaml"} {
		for _, match := range kind.FindAllStringSubmatch(read(file), -1) {
			for value := range strings.SplitSeq(match[1], "|") {
				if named++; !strings.Contains(events, "## `"+value+"`\n") {
					t.Errorf("%s: there is no event %s", file, value)
				}
			}
		}
	}
	// Each alert has a test.
	tests := read("waymark.test.yaml")
	for _, match := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(read("waymark.rules.yaml"), -1) {
		if !strings.Contains(tests, match[1]) {
			t.Errorf("no test has the alert %s", match[1])
		}
	}
}
