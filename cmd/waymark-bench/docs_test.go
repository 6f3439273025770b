// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/docgen"
)

func TestReferenceIsCurrent(t *testing.T) {
	got, err := os.ReadFile("../../docs/reference/waymark-bench.md")
	if err != nil || !bytes.Equal(got, docgen.Commands(newRoot(&commandline.Options{}))) {
		t.Errorf("docs/reference/waymark-bench.md is not current (%v); run: make docs", err)
	}
}

// An error is a line with the program's name, or an object.
func TestErrors(t *testing.T) {
	if code, stdout, stderr := runBench("run", "nothing"); code != commandline.ExitUsage || stdout != "" || !strings.HasPrefix(stderr, "waymark-bench: no benchmark is called") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, stderr := runBench("run", "nothing", "--json")
	if code != commandline.ExitUsage || !strings.HasPrefix(stdout, `{"kind":"error","ok":false,"error":"no benchmark is called`) || stderr != "" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
