// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/commandlinetest"
	"github.com/waymark-net/waymark/internal/docgen"
)

var program = commandlinetest.Program{Name: "waymark", Run: run, Root: func() *cobra.Command { return newRoot(newOptions()) }}

func TestCommandsAreDocumented(t *testing.T) {
	program.Documented(t)
	program.Reference(t, "../../docs/reference", docgen.Pages(program.Root()))
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
