// SPDX-License-Identifier: Apache-2.0

package build

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"
)

// pattern is what documents write for the file of a package of a program.
var pattern = regexp.MustCompile(`waymark[-_][^\s/]*\*[^\s/]*\.(?:deb|rpm|tar\.gz|oci\.tar)`)

// A command of a document finds one file among those of all programs, kinds and architectures.
func TestPatternsOfDocuments(t *testing.T) {
	o := fake(t, time.Now())
	o.Version = "1.2.3" // as of a release
	other := strings.NewReplacer("amd64", "arm64", "x86_64", "aarch64")
	names := map[string]bool{}
	for name := range o.write(t) {
		names[name], names[other.Replace(name)] = true, true
	}
	for document, patterns := range map[string]int{
		"docs/install.md":                 7,
		"docs/how-to/containers.md":       5,
		"docs/how-to/ansible.md":          2,
		"packaging/ansible/inventory.yml": 1,
	} {
		text, err := os.ReadFile("../../" + document)
		if err != nil {
			t.Fatal(err)
		}
		found := pattern.FindAllString(string(text), -1)
		if len(found) != patterns {
			t.Errorf("%s has the patterns %q, want %d", document, found, patterns)
		}
		for _, p := range found {
			var list []string
			for name := range names {
				if is, err := path.Match(p, name); is && err == nil {
					list = append(list, name)
				}
			}
			program := "waymark"
			if strings.HasPrefix(p, "waymark-collector") {
				program = "waymark-collector"
			}
			if len(list) != 1 || !strings.HasPrefix(list[0], program+"-1.2.3") && !strings.HasPrefix(list[0], program+"_1.2.3") {
				t.Errorf("%s: %s matches %q, want one file of %s", document, p, list, program)
			}
		}
	}
}
