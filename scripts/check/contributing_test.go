// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The files that recipes name exist, and the recipe for commands names the list of each program.
func TestRecipesNameFiles(t *testing.T) {
	const root = "../.."
	contributing, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, m := range regexp.MustCompile("`([a-z]+/[^` ]*)`").FindAllStringSubmatch(string(contributing), -1) {
		path := strings.TrimSuffix(m[1], "/...")
		top, _, _ := strings.Cut(path, "/")
		if _, err := os.Stat(filepath.Join(root, top)); err != nil || top == "build" || top == "bin" {
			continue // it is no path of this tree, or of what is made in it
		}
		named = append(named, path)
		if found, err := filepath.Glob(filepath.Join(root, path)); err != nil || len(found) == 0 {
			t.Errorf("CONTRIBUTING.md names %s, which does not exist (%v)", path, err)
		}
	}
	lists := 0
	for _, pattern := range []string{"cmd/*/*.go", "*/cmd/*/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(content), "\troot.AddCommand(\n") {
				continue
			}
			lists++
			if path, err := filepath.Rel(root, file); err != nil || !slices.Contains(named, path) {
				t.Errorf("the recipe for commands does not name %s, which has a program's list of commands", path)
			}
		}
	}
	if lists < 4 {
		t.Errorf("%d lists of commands, want one for each program", lists)
	}
}
