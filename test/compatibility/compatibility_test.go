// SPDX-License-Identifier: Apache-2.0

// Package compatibility loads what earlier versions wrote, and what was written for them: see
// docs/compatibility.md. What is in testdata of a released version never changes.
package compatibility

import (
	"bufio"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/compatibility/kept"
	"github.com/waymark-net/waymark/test/compatibility/names"
)

var freeze = flag.String("freeze", "", "write the names of this version into `DIRECTORY`, as scripts/freeze.sh does")

const reference = "../../docs/reference"

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

// without are the kinds of names that a version did not have, or did not freeze.
var without = map[string][]string{"0.1.0": {"exit-codes", "settings", "api", "collector-settings", "collector-api"}}

// What people and programs call by name in an earlier version has that name in this one. More names may be there.
func TestNames(t *testing.T) {
	if *freeze != "" {
		if err := freezeNames(*freeze); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range versions(t) {
		for _, kind := range names.Kinds {
			gone, err := goneNames(filepath.Join(version, "names"), kind)
			if errors.Is(err, fs.ErrNotExist) && slices.Contains(without[filepath.Base(version)], kind) {
				continue
			}
			if err != nil {
				t.Error(err)
			}
			for _, name := range gone {
				t.Errorf("%s of %s: %s is gone", kind, version, name)
			}
		}
	}
}

func freezeNames(directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	for _, kind := range names.Kinds {
		list, err := names.Read(reference, kind)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(directory, kind+".txt"), []byte(strings.Join(list, "\n")+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// goneNames lists the frozen names of a kind that this version has not.
func goneNames(directory, kind string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(directory, kind+".txt"))
	if err != nil {
		return nil, err
	}
	now, err := names.Read(reference, kind)
	frozen := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	return slices.DeleteFunc(frozen, func(name string) bool { return slices.Contains(now, name) }), err
}

// Of each kind that is frozen, one name that is not there any more is found.
func TestGoneNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "names")
	if err := freezeNames(dir); err != nil {
		t.Fatal(err)
	}
	for _, kind := range names.Kinds {
		if gone, err := goneNames(dir, kind); err != nil || len(gone) != 0 {
			t.Errorf("%s: %q, %v", kind, gone, err)
		}
		file := filepath.Join(dir, kind+".txt")
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, append(text, "former name\n"...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if gone, err := goneNames(dir, kind); err != nil || !slices.Equal(gone, []string{"former name"}) {
			t.Errorf("%s: %q, %v; want the former name", kind, gone, err)
		}
	}
}
