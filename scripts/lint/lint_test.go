// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/suite/vet"
)

// Every analyzer of this Go's vet is among ours.
func TestVetIsComplete(t *testing.T) {
	out, err := exec.Command("go", "tool", "vet", "help").CombinedOutput()
	if err != nil {
		t.Fatalf("go tool vet help: %v\n%s", err, out)
	}
	ours := map[string]bool{}
	for _, a := range vet.Suite {
		ours[a.Name] = true
	}
	_, list, _ := strings.Cut(string(out), "Registered analyzers:\n\n")
	list, _, _ = strings.Cut(list, "\n\n")
	lines := strings.Split(list, "\n")
	if len(lines) < 30 {
		t.Fatalf("go tool vet help lists %d analyzers:\n%s", len(lines), out)
	}
	for _, line := range lines {
		if name := strings.Fields(line)[0]; !ours[name] {
			t.Errorf("go vet has the analyzer %s, which lint does not run; take a newer golang.org/x/tools", name)
		}
	}
}
