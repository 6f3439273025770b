// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/pot"
)

func TestPotGenerate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "keys")
	code, stdout, stderr := runCLI(t, "", "pot", "generate", "--nodes", "3", "--dir", dir, "--json")
	var made keyFiles
	if err := json.Unmarshal([]byte(stdout), &made); err != nil || code != commandline.ExitOK || len(made.Keys) != 3 || stderr != "" {
		t.Fatalf("code %d, %v, stdout %q, stderr %q", code, err, stdout, stderr)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("the directory of the keys: %v, %v", info, err)
	}
	for i, role := range []string{"encapsulating", "transit", "verifying"} {
		file := made.Keys[i]
		k, err := pot.Read(file.File)
		if err != nil || k.Node != i+1 || k.Nodes != 3 || file.Node != i+1 || file.Role != role || k.Role() != role {
			t.Errorf("%+v has the %v, %v; want node %d", file, k, err, i+1)
		}
		if info, err := os.Stat(file.File); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file.File, info.Mode(), err)
		}
		content, err := os.ReadFile(file.File)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); len(value) == 16 && name != "profile" &&
				strings.Contains(stdout, value) {
				t.Errorf("the output has the %s of node %d", name, i+1)
			}
		}
	}

	// Files are never replaced, and a run that fails leaves none.
	if err := os.Remove(made.Keys[0].File); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(made.Keys[1].File)
	if err != nil {
		t.Fatal(err)
	}
	code, _, stderr = runCLI(t, "", "pot", "generate", "--nodes", "2", "--dir", dir)
	if code != commandline.ExitFailure || !strings.Contains(stderr, made.Keys[1].File+" exists already; remove it") {
		t.Errorf("code %d, %q", code, stderr)
	}
	after, err := os.ReadFile(made.Keys[1].File)
	if err != nil || string(after) != string(before) {
		t.Errorf("a key was replaced; %v", err)
	}
	if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}

	code, stdout, _ = runCLI(t, "", "pot", "generate", "--nodes", "2", "--dir", t.TempDir())
	for _, want := range []string{"node 1  encapsulating", "node 2  verifying", "key-file: FILE", "drop-rejected: true"} {
		if code != commandline.ExitOK || !strings.Contains(stdout, want) {
			t.Errorf("code %d, %q lacks %q", code, stdout, want)
		}
	}
	for _, args := range [][]string{{}, {"--nodes", "1"}, {"--nodes", "65"}, {"--nodes", "many"}} {
		if code, _, stderr := runCLI(t, "", append([]string{"pot", "generate"}, args...)...); code != commandline.ExitUsage || stderr == "" {
			t.Errorf("%q: code %d, %q", args, code, stderr)
		}
	}
}
