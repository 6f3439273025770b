// SPDX-License-Identifier: Apache-2.0

package check

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Newcomers and continuous integration rely on these targets by name.
var promised = []string{"build", "generate", "check", "test", "test-short", "bench", "demo", "fuzz", "docs", "picture", "help"}

// makeWord is a target in running text or in a block of commands.
var makeWord = regexp.MustCompile("(?m)(?:^|`)make ([a-z]+(?:-[a-z]+)*)")

// Every target that is promised, or that a document or message tells users to
// make, exists, and `make help` lists it.
func TestMakeTargets(t *testing.T) {
	const root = "../.."
	out, err := exec.Command("make", "-s", "-C", root, "help").CombinedOutput()
	if err != nil {
		t.Fatalf("make help: %v\n%s", err, out)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "make" {
			t.Errorf("make help prints %q", line)
			continue
		}
		listed[words[1]] = true
		if out, err := exec.Command("make", "-n", "-C", root, words[1]).CombinedOutput(); err != nil {
			t.Errorf("make %s: %v\n%s", words[1], err, out)
		}
	}
	named := map[string]string{}
	for _, target := range promised {
		named[target] = "this test"
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && (entry.Name() == "node_modules" || path == filepath.Join(root, "build")) {
			return filepath.SkipDir
		}
		if err != nil || entry.IsDir() || !slices.Contains([]string{".md", ".sh"}, filepath.Ext(path)) {
			return err
		}
		content, err := os.ReadFile(path)
		for _, m := range makeWord.FindAllStringSubmatch(string(content), -1) {
			named[m[1]] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for target, by := range named {
		if !listed[target] {
			t.Errorf("%s names make %s, which make help does not list", by, target)
		}
	}
	if named["soak"] == "" {
		t.Error("no document names make soak; are they still read?")
	}
}

// Continuous integration runs the README's test command.
func TestContinuousIntegration(t *testing.T) {
	script, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat("../../.ci/run"); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf(".ci/run cannot be executed (%v)", err)
	}
	if !strings.Contains(string(script), "\nexec make test") {
		t.Error(".ci/run does not run make test")
	}
}

// Every fuzz target has a committed corpus (testdata is committed).
func TestFuzzCorpora(t *testing.T) {
	const root = "../.."
	target := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)
	found := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, m := range target.FindAllStringSubmatch(string(content), -1) {
			found++
			corpus := filepath.Join(filepath.Dir(path), "testdata", "fuzz", m[1])
			if files, err := os.ReadDir(corpus); err != nil || len(files) == 0 {
				t.Errorf("%s has no corpus in %s (%v)", m[1], corpus, err)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("there is no fuzz target")
	}
}
