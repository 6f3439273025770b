// SPDX-License-Identifier: Apache-2.0

package names

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every kind is found in the reference of this version, with names that are known to be there.
func TestRead(t *testing.T) {
	for kind, known := range map[string][]string{
		"metrics":  {"waymark_packets_total", "waymark_packets_total{outcome}", "waymark_reloads_total{result}", "waymark_names_learned"},
		"warnings": {"agent_ended", "xdp_missing"},
		"outcomes": {"not_ipv6", "trace_filled"},
		"commands": {"waymark", "waymark --json", "waymark --socket", "waymark agent run", "waymark agent run --config",
			"waymark agent run --one-clock", "waymark-collector", "waymark-collector run --config"},
		"exit-codes": {"waymark: 1 failure, or errors found by a check", "waymark config check: 0 no errors", "waymark-collector: 2 wrong usage",
			"waymark trace: 0 a probe was answered, or the screen of --live was left before"},
		"settings": {"node", "node.id", "interfaces[].boundary", "encapsulations[].match.destination"},
		"api": {"Status.node object", "Status.node.id number", "Status.interfaces[].hooks[].mode string", "Status.started value",
			"Warnings[].code string", "Reload.warnings[].cure string"},
		"collector-settings": {"store", "store.age", "listen", "tls.client-ca"},
		"collector-api":      {"GET /v1/changes", "GET /v1/changes since"},
	} {
		list, err := Read("../../../docs/reference", kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range known {
			if !slices.Contains(list, name) {
				t.Errorf("%s has no %s", kind, name)
			}
		}
		if !slices.IsSorted(list) || !slices.Contains(Kinds, kind) || len(list) != len(slices.Compact(slices.Clone(list))) {
			t.Errorf("%s: %q", kind, list)
		}
	}
	if _, err := Read("../../../docs/reference", "colours"); err == nil {
		t.Error("a kind that there is not is no error")
	}
}

// A document whose layout has changed is an error, not one without names.
func TestReadNothing(t *testing.T) {
	dir := t.TempDir()
	documents := []string{
		"metrics.md", "warnings.md", "outcomes.md", "cli.md", "waymark-collector.md", "configuration.md", "collector-configuration.md",
	}
	for _, name := range documents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("# Nothing\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range Kinds {
		if kind == "api" { // it is in no document
			continue
		}
		if list, err := Read(dir, kind); err == nil || len(list) != 0 {
			t.Errorf("%s: %q, %v", kind, list, err)
		}
	}
}

// Flags belong to the command whose block they are in; examples and other blocks have none.
func TestCommands(t *testing.T) {
	text := strings.ReplaceAll(`# Commands of x

## Flags of every command

'''
      --json   print
               --later is a word of the description
'''

## x run

'''
x run --config FILE
      --no
'''

Flags:

'''
  -c, --config FILE   the
      --all           --one
'''

## x end

'''
      --none
'''
`, "'''", "```")
	got, err := commands(text)
	want := []string{"x", "x --json", "x run", "x run --config", "x run --all", "x end"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s, %v\nwant %s", strings.Join(got, ", "), err, strings.Join(want, ", "))
	}
}
