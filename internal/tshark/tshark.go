// SPDX-License-Identifier: Apache-2.0

// Package tshark reads captures with tshark, which others have written, for
// tests.
package tshark

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// Run gives a line for each packet of a capture that passes a display filter:
// the fields that args ask for ("-e", NAME), with tabs between them.
func Run(t testing.TB, path, filter string, args ...string) []string {
	t.Helper()
	all := append([]string{"-r", path, "-Y", filter, "-T", "fields"}, args...)
	var diagnostics bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "tshark", all...)
	cmd.Stderr = &diagnostics
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark %v: %v (install it with: apt-get install tshark)\n%s", all, err, &diagnostics)
	}
	text := strings.TrimSuffix(string(out), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
