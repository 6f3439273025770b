// SPDX-License-Identifier: Apache-2.0

// Package compatibility loads what earlier versions wrote, and what was written for them: see
// docs/compatibility.md. What is in testdata of a released version never changes.
package compatibility

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/compatibility/kept"
)

func versions(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("testdata/*")
	if err != nil || len(list) == 0 {
		t.Fatalf("no versions: %v", err)
	}
	return list
}

// A file that an earlier version accepted is accepted, and means the same: every key that the
// version showed has that value. Keys that came later may be there.
func TestConfigurations(t *testing.T) {
	for _, version := range versions(t) {
		files, err := filepath.Glob(filepath.Join(version, "config", "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no configurations: %v", version, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := config.Parse(file, text)
			if err != nil {
				t.Errorf("%s is refused: %v", file, err)
				continue
			}
			shown, err := os.ReadFile(filepath.Join(version, "shown", filepath.Base(file)))
			if err != nil {
				t.Fatal(err)
			}
			var then, now any
			if err := yaml.Unmarshal(shown, &then); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(c.Marshal(), &now); err != nil {
				t.Fatal(err)
			}
			for _, lost := range kept.Missing("", then, now) {
				t.Errorf("%s: %s", file, lost)
			}
		}
	}
}

// A record that an earlier version wrote is read, and nothing of it is lost.
func TestRecords(t *testing.T) {
	for _, version := range versions(t) {
		f, err := os.Open(filepath.Join(version, "records.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		kinds := map[string]bool{}
		for number := 1; lines.Scan(); number++ {
			if strings.HasPrefix(lines.Text(), "#") {
				continue
			}
			r, err := record.Parse(lines.Bytes())
			if err != nil || r == nil {
				t.Errorf("%s, line %d: %v, %v", f.Name(), number, r, err)
				continue
			}
			kinds[r.Kind()] = true
			for _, lost := range kept.MissingJSON(lines.Bytes(), record.AppendJSON(nil, r)) {
				t.Errorf("%s, line %d: %s", f.Name(), number, lost)
			}
		}
		if err := lines.Err(); err != nil || len(kinds) < 5 {
			t.Errorf("%s has only kinds %v, %v", version, kinds, err)
		}
	}
}
