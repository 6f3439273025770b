// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/docgen"
)

func TestReferenceIsCurrent(t *testing.T) {
	for name, want := range docgen.Pages(newRoot(newOptions())) {
		got, err := os.ReadFile(filepath.Join("../../docs/reference", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/reference/%s is not current (%v); run: make docs", name, err)
		}
	}
}

// Every command in the help has a description, and does something.
func TestCommandsAreDocumented(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || c.RunE == nil {
			t.Errorf("%q: Short %q, RunE set: %v", c.CommandPath(), c.Short, c.RunE != nil)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(newOptions()))
}

func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	t.Setenv("SOURCE_DATE_EPOCH", "1795000000")
	if code, _, stderr := runCLI(t, "", "man", dir); code != commandline.ExitOK {
		t.Fatal(stderr)
	}
	page, err := os.ReadFile(filepath.Join(dir, "waymark-config-check.1"))
	heading := `.TH "WAYMARK\-CONFIG\-CHECK" "1" "2026-11-18" "Waymark ` + commandline.Version() + `" "Waymark manual"`
	if err != nil || !bytes.HasPrefix(page, []byte(heading+"\n")) || !bytes.Contains(page, []byte("Report every error")) {
		t.Errorf("%v: want %s in\n%s", err, heading, page)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	if code, _, stderr := runCLI(t, "", "man", dir); code != commandline.ExitUsage || !strings.Contains(stderr, "SOURCE_DATE_EPOCH") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

// Help fits a terminal, and so do grammars in the manual pages, where preformatted
// lines begin in column 10.
func TestLiteralLinesFit(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for line := range strings.SplitSeq(c.Long+"\n"+c.Example, "\n") {
			if n := utf8.RuneCountInString(line); n > 82 || n > 73 && strings.HasPrefix(line, "  ") {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(newOptions()))
}

func TestDocsCommandWritesThePages(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := runCLI(t, "", "docs", dir); code != commandline.ExitOK {
		t.Fatal(stderr)
	}
	for name, want := range docgen.Pages(newRoot(newOptions())) {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from what the test reads: %v", name, err)
		}
	}
}
