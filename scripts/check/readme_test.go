// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"strings"
	"testing"
)

// Before its first make command, the README says how to get the source, from where the module is.
func TestReadmeGetsTheSource(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(readme), "\nmake ")
	clone := "\ngit clone https://" + strings.TrimSuffix(module, "/") + " && cd waymark\n"
	if !found || !strings.Contains(before, clone) {
		t.Errorf("no line %q before the first make command", strings.TrimSpace(clone))
	}
}
