// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A release is refused when version, changelog, manifests, documents, frozen data and tree do not agree.
func TestReleaseChecks(t *testing.T) {
	script, err := os.ReadFile("../release.sh")
	if err != nil {
		t.Fatal(err)
	}
	const changelog = "# Changelog\n\n## 1.2.0 - 2026-11-28\n- **More:** of it\n\n## 1.1.0 - 2026-10-01\n- **First**\n"
	for _, tt := range []struct {
		name  string
		spoil func(root string)
		want  string // "" passes
	}{
		{"in order", func(string) {}, ""},
		{"no section", func(root string) { write(t, root, "VERSION", "1.3.0\n") }, "has no section of 1.3.0"},
		{"empty section", func(root string) {
			write(t, root, "CHANGELOG.md", strings.Replace(changelog, "- **More:** of it\n", "", 1))
		}, "the section of 1.2.0 in CHANGELOG.md is empty"},
		{"unreleased changes", func(root string) {
			write(t, root, "CHANGELOG.md", strings.Replace(changelog, "# Changelog\n", "# Changelog\n\n## Unreleased\n- **New**\n", 1))
		}, "changes under Unreleased"},
		{"a manifest of another version", func(root string) {
			write(t, root, "packaging/kubernetes/waymark.yaml", "image: waymark:1.1.0\n")
			git(t, root, "add", ".")
		}, "packaging/kubernetes/waymark.yaml:1:"},
		{"a document of a longer version", func(root string) {
			write(t, root, "docs/install.md", "apt install ./waymark_1.2.01-1_amd64.deb\n")
			git(t, root, "add", ".")
		}, "docs/install.md:1:"},
		{"nothing frozen", func(root string) {
			if err := os.RemoveAll(filepath.Join(root, "test")); err != nil {
				t.Fatal(err)
			}
		}, "run: scripts/freeze.sh"},
		{"a changed file", func(root string) { write(t, root, "test/compatibility/testdata/1.2.0/records.jsonl", "{}\n") }, "the tree has changes"},
		{"a file that is not committed", func(root string) { write(t, root, "new.go", "package new\n") }, "the tree has changes"},
		{"released", func(root string) { git(t, root, "tag", "v1.2.0") }, "the tag v1.2.0 exists"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, "VERSION", "1.2.0\n")
			write(t, root, "CHANGELOG.md", changelog)
			write(t, root, "scripts/release.sh", string(script))
			write(t, root, "test/compatibility/testdata/1.2.0/records.jsonl", "")
			write(t, root, "packaging/kubernetes/waymark.yaml", "image: waymark:1.2.0\n")
			write(t, root, "packaging/helm/waymark/Chart.yaml", "version: 1.2.0\nappVersion: 1.2.0\n")
			write(t, root, "docs/install.md", "apt install ./waymark_1.2.0-1_amd64.deb # or WAYMARK_VERSION:-1.2.0\n")
			git(t, root, "init", "-q")
			git(t, root, "add", ".")
			git(t, root, "-c", "user.name=test", "-c", "user.email=test@example.net", "commit", "-qm", "all")
			tt.spoil(root)
			out, err := exec.Command("bash", filepath.Join(root, "scripts/release.sh"), "--check").CombinedOutput()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(string(out), tt.want)) {
				t.Errorf("%v: %s\nwant %q", err, out, tt.want)
			}
		})
	}
}

func git(t *testing.T, root string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}
