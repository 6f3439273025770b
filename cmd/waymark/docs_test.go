// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/docgen"
)

func TestReferenceIsCurrent(t *testing.T) {
	for name, want := range docgen.Pages(newRootCommand()) {
		got, err := os.ReadFile(filepath.Join("../../docs/reference", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/reference/%s is not current (%v); run: make docs", name, err)
		}
	}
}

// Every command that help shows says what it is, and does something.
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
	walk(newRootCommand())
}

func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if code, _, stderr := runCLI(t, "", "man", dir); code != exitOK {
		t.Fatal(stderr)
	}
	page, err := os.ReadFile(filepath.Join(dir, "waymark-config-check.1"))
	if err != nil || !bytes.Contains(page, []byte("Report everything that is wrong")) || bytes.Contains(page, []byte("Auto generated")) {
		t.Errorf("%v: %s", err, page)
	}
}

func TestDocsCommandWritesThePages(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := runCLI(t, "", "docs", dir); code != exitOK {
		t.Fatal(stderr)
	}
	for name, want := range docgen.Pages(newRootCommand()) {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from what the test reads: %v", name, err)
		}
	}
}
