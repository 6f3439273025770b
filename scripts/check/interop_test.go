// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The steps that run without arguments are those that are described, and those that exist.
func TestInteropSteps(t *testing.T) {
	out, err := exec.Command("bash", "../interop.sh", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(string(out))
	slices.Sort(listed)
	script, err := os.ReadFile("../interop.sh")
	if err != nil {
		t.Fatal(err)
	}
	for what, form := range map[string]string{"described": `(?m)^#   ([a-z0-9]+) {2,}`, "defined": `(?m)^step_([a-z0-9]+)\(\) \{`} {
		var found []string
		for _, match := range regexp.MustCompile(form).FindAllStringSubmatch(string(script), -1) {
			found = append(found, match[1])
		}
		slices.Sort(found)
		if !slices.Equal(found, listed) {
			t.Errorf("%s: %q\nlisted: %q", what, found, listed)
		}
	}
}
