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
	script, versions := script(t, "release.sh"), script(t, "versions.sh")
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
		{"the end of a sentence", func(root string) { document(t, root, "Run waymark:1.2.0.\n") }, ""},
		{"a line of two versions", func(root string) { document(t, root, "from waymark:1.1.0 to waymark:1.2.0\n") }, "docs/new.md:1:waymark:1.1.0"},
		{"a candidate", func(root string) { document(t, root, "image: waymark-collector:1.2.0-rc1\n") }, "waymark-collector:1.2.0-rc1"},
		{"a candidate's package", func(root string) { document(t, root, "waymark_1.2.0~rc1-1_amd64.deb\n") }, "waymark_1.2.0~rc1-1"},
		{"a version of four numbers", func(root string) { document(t, root, "waymark:1.2.0.1\n") }, "waymark:1.2.0.1"},
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
			write(t, root, "scripts/release.sh", script)
			executable(t, root, "scripts/versions.sh", versions)
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

// Between releases, too, manifests, the chart, the role and documents name the version of the tree.
func TestVersions(t *testing.T) {
	if out, err := exec.Command("../versions.sh").CombinedOutput(); err != nil {
		t.Errorf("these name another version than the file VERSION (%v):\n%s", err, out)
	}
}

// script is the text of a script.
func script(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile("../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// executable writes a script that can be run.
func executable(t *testing.T, root, name, content string) {
	t.Helper()
	write(t, root, name, content)
	if err := os.Chmod(filepath.Join(root, filepath.FromSlash(name)), 0o755); err != nil {
		t.Fatal(err)
	}
}

// document commits a document.
func document(t *testing.T, root, text string) {
	t.Helper()
	write(t, root, "docs/new.md", text)
	git(t, root, "add", ".")
	git(t, root, "-c", "user.name=test", "-c", "user.email=test@example.net", "commit", "-qm", "a document")
}

func git(t *testing.T, root string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// A release that fails after its tag was made takes it back; one that is complete keeps it, and has notes.
func TestReleaseTag(t *testing.T) {
	script, versions := script(t, "release.sh"), script(t, "versions.sh")
	// What `make package` would build: programs that say a version, and empty files.
	const build = `set -e
for p in waymark waymark-collector waymark-lab; do
	for a in amd64 arm64; do
		d=$p-1.2.0-linux-$a; mkdir -p build/$d/bin build/packages
		printf '#!/bin/sh\necho %s SAYS\n' $p >build/$d/bin/$p
		tar -C build -czf build/packages/$d.tar.gz $d
		for f in ${p}_1.2.0-1_$a.deb ${p}_1.2.0_$a.spdx.json; do echo x >build/packages/$f; done
	done
	for a in x86_64 aarch64; do echo x >build/packages/$p-1.2.0-1.$a.rpm; done
done
echo x >build/packages/waymark-1.2.0.oci.tar
echo x >build/packages/waymark-collector-1.2.0.oci.tar
cd build/packages; sha256sum * >SHA256SUMS
`
	for _, tt := range []struct{ name, build, want string }{
		{"complete", strings.Replace(build, "SAYS", "1.2.0", 1), ""},
		{"the build fails", "exit 1\n", "the tag was taken back"},
		{"a package is missing", strings.Replace(build, "cd build", "rm build/packages/waymark-lab_1.2.0-1_arm64.deb; cd build", 1), "waymark-lab_1.2.0-1_arm64.deb is missing"},
		{"a program of another version", strings.Replace(build, "SAYS", "1.2.0+20261128.abcdef123456", 1), "waymark says that it is waymark 1.2.0+"},
		{"a wrong sum", strings.Replace(build, "SAYS", "1.2.0", 1) + "echo y >waymark-1.2.0.oci.tar\n", "the checksums are wrong"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, "VERSION", "1.2.0\n")
			write(t, root, "CHANGELOG.md", "# Changelog\n\n## 1.2.0 - 2026-11-28\n- **More:** of it\n")
			write(t, root, "scripts/release.sh", script)
			executable(t, root, "scripts/versions.sh", versions)
			write(t, root, "scripts/check.sh", "#!/bin/sh\n")
			write(t, root, "scripts/version.sh", "#!/bin/sh\ncat VERSION\n")
			write(t, root, "build.sh", tt.build)
			write(t, root, "Makefile", "package:\n\tsh build.sh\n")
			write(t, root, ".gitignore", "build/\n")
			write(t, root, "test/compatibility/testdata/1.2.0/records.jsonl", "")
			for _, name := range []string{"check.sh", "version.sh"} {
				if err := os.Chmod(filepath.Join(root, "scripts", name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			git(t, root, "init", "-q")
			git(t, root, "config", "user.name", "test")
			git(t, root, "config", "user.email", "test@example.net")
			git(t, root, "config", "user.signingkey", "") // nor that of who runs the test
			git(t, root, "add", ".")
			git(t, root, "commit", "-qm", "all")
			out, err := exec.Command("bash", filepath.Join(root, "scripts/release.sh")).CombinedOutput()
			tags, tagErr := exec.Command("git", "-C", root, "tag").Output()
			if tagErr != nil {
				t.Fatal(tagErr)
			}
			if tt.want != "" {
				if err == nil || !strings.Contains(string(out), tt.want) || len(tags) != 0 {
					t.Errorf("%v, tags %q: %s\nwant %q, and no tag", err, tags, out, tt.want)
				}
				return
			}
			notes, readErr := os.ReadFile(filepath.Join(root, "build/packages/NOTES.md"))
			if err != nil || string(tags) != "v1.2.0\n" || !strings.Contains(string(notes), "- **More:** of it\n") {
				t.Errorf("%v, tags %q, notes %q (%v): %s", err, tags, notes, readErr, out)
			}
		})
	}
}
