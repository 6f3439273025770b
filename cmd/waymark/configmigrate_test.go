// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/commandline"
)

const (
	formerConfig = "node: {id: 5} # trace:\ntrace: # who may ask\n  allow: [any]\n"
	todaysConfig = "node: {id: 5} # trace:\npath-trace: # who may ask\n  allow: [any]\n"
	renamedKey   = `: the key "trace" in the file is now called "path-trace"`
)

func TestConfigMigrate(t *testing.T) {
	file := write(t, "node.yaml", formerConfig)
	code, stdout, stderr := runCLI(t, "", "config", "migrate", file)
	want := file + ":2:1" + renamedKey + "\n" + file + ": 1 key renamed\n"
	if code != commandline.ExitOK || stdout != todaysConfig || stderr != want {
		t.Errorf("code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, want)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != formerConfig {
		t.Errorf("without --write, the file is %q, %v", text, err)
	}
	if code, stdout, _ = runCLI(t, formerConfig, "config", "migrate", "-"); code != commandline.ExitOK || stdout != todaysConfig {
		t.Errorf("standard input: code %d, %q", code, stdout)
	}
	if code, _, stderr = runCLI(t, formerConfig, "config", "migrate", "--write", "-"); code != commandline.ExitUsage ||
		!strings.Contains(stderr, "name the file") {
		t.Errorf("write standard input: code %d, %q", code, stderr)
	}

	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = runCLI(t, "", "config", "migrate", file, "--write")
	want = file + ":2:1" + renamedKey + "\n" + file + ": written, 1 key renamed\n"
	if code != commandline.ExitOK || stdout != want || stderr != "" {
		t.Errorf("code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, want)
	}
	text, err := os.ReadFile(file)
	info, fault := os.Stat(file)
	if err != nil || fault != nil || string(text) != todaysConfig || info.Mode() != 0o640 {
		t.Errorf("%q, mode %v, %v, %v", text, info.Mode(), err, fault)
	}
	if code, stdout, stderr = runCLI(t, "", "config", "check", file); code != commandline.ExitOK || stderr != "" {
		t.Errorf("check: code %d, %q, %q", code, stdout, stderr)
	}
}

// Nothing to do is said, and is no error; the file is not touched.
func TestConfigMigrateNothing(t *testing.T) {
	file := write(t, "node.yaml", todaysConfig)
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	said := file + ": no key has a former name: nothing to do\n"
	code, stdout, stderr := runCLI(t, "", "config", "migrate", file)
	if code != commandline.ExitOK || stdout != todaysConfig || stderr != said {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, stderr = runCLI(t, "", "config", "migrate", file, "--write")
	if code != commandline.ExitOK || stdout != said || stderr != "" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced: %v", err)
	}
}

func TestConfigMigrateJSON(t *testing.T) {
	file := write(t, "node.yaml", formerConfig)
	for _, tt := range []struct {
		flags   string
		renamed int
		written bool
		text    string
	}{
		{"", 1, false, todaysConfig},
		{"--write", 1, true, ""},
		{"--write", 0, false, ""},
		{"", 0, false, todaysConfig},
	} {
		args := append([]string{"--json", "config", "migrate", file}, strings.Fields(tt.flags)...)
		code, stdout, stderr := runCLI(t, "", args...)
		var m migration
		if err := json.Unmarshal([]byte(stdout), &m); err != nil || code != commandline.ExitOK || stderr != "" || !m.OK ||
			len(m.Renamed) != tt.renamed || m.Written != tt.written || m.Text != tt.text || strings.Contains(stdout, "null") {
			t.Errorf("%s: code %d, %s, %q, %v", tt.flags, code, stdout, stderr, err)
		}
	}
}

// A file that is mounted cannot be replaced, so its migration fails. The file then keeps its content, no temporary file is
// left in its folder, and other files there stay as they are.
func TestConfigMigrateFails(t *testing.T) {
	file := write(t, "node.yaml", formerConfig)
	beside := filepath.Join(filepath.Dir(file), "node.yaml.new")
	if err := os.WriteFile(beside, []byte("a draft"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(file, file, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(file, unix.MNT_DETACH) })
	code, _, stderr := runCLI(t, "", "config", "migrate", file, "--write")
	if code != commandline.ExitFailure || !strings.HasPrefix(stderr, "waymark: ") || !strings.Contains(stderr, "; the file is as it was") {
		t.Errorf("code %d, %q", code, stderr)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != formerConfig {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := os.ReadFile(beside); err != nil || string(text) != "a draft" {
		t.Errorf("%q, %v", text, err)
	}
	if left, _ := filepath.Glob(file + ".*"); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
}
