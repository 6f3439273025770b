// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each rule of the changelog: one sample that breaks only that rule.
func TestChangelog(t *testing.T) {
	const head = "# Changelog\n\nA rule.\n\n"
	const section = "## 0.1.0 - 2026-11-28\n"
	for _, test := range []struct {
		name, version, changelog string
		want                     string // empty: no finding
	}{
		{"good", "0.1.0\n", head + section + "- a change\n", ""},
		{"after it", "0.1.0\n", head + "## Unreleased\n- a change\n\n" + section + "- a change\n", ""},
		{"an older version, too", "0.2.0\n", head + "## 0.2.0 - 2026-12-24\n- a change\n\n" + section + "- a change\n", ""},
		{"no version", "0.1\n", head + section, `VERSION:1: "0.1" is no version`},
		{"two lines", "0.1.0\n0.2.0\n", head + section, "VERSION:1: "},
		{"as a tag", "v0.1.0\n", head + section, "VERSION:1: "},
		{"no section", "0.1.0\n", head, `CHANGELOG.md:1: the newest version is "", and VERSION has 0.1.0; begin its section with: ## 0.1.0 - YYYY-MM-DD`},
		{"the section of another version", "0.2.0\n", head + section + "- a change\n", `CHANGELOG.md:1: the newest version is "0.1.0", and VERSION has 0.2.0;`},
		{"an older section", "0.1.0\n", head + "## 0.2.0 - 2026-12-24\n" + section, `CHANGELOG.md:1: the newest version is "0.2.0"`},
		{"only unreleased", "0.1.0\n", head + "## Unreleased\n- a change\n", "CHANGELOG.md:1: the newest version is"},
		{"unreleased after a version", "0.1.0\n", head + section + "## Unreleased\n", "CHANGELOG.md:6: a section is called VERSION - YYYY-MM-DD"},
		{"no date", "0.1.0\n", head + section + "## 0.0.9 - 2026-13-01\n", "CHANGELOG.md:6: 2026-13-01 is no date"},
		{"longest line", "0.1.0\n", head + section + "- " + strings.Repeat("ä", changeLimit-2) + "\n", ""},
		{"long line", "0.1.0\n", head + section + "- " + strings.Repeat("ä", changeLimit-1) + "\n", "CHANGELOG.md:6: 121 characters, the limit is 120"},
		{"two lines for a change", "0.1.0\n", head + section + "- a change\n  goes on\n", "CHANGELOG.md:7: a change is one line"},
		{"longest section", "0.1.0\n", head + section + strings.Repeat("- a change\n", changesLimit), ""},
		{"long section", "0.1.0\n", head + section + strings.Repeat("- a change\n", changesLimit+2), `CHANGELOG.md:36: "0.1.0 - 2026-11-28" has more than 30 lines`},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, versionFile, test.version)
			write(t, root, changelogFile, test.changelog)
			findings, err := Changelog(root)
			switch {
			case err != nil:
				t.Error(err)
			case test.want == "" && len(findings) != 0:
				t.Errorf("findings %v, want none", findings)
			case test.want != "" && (len(findings) != 1 || !strings.HasPrefix(findings[0].String(), test.want)):
				t.Errorf("findings %v, want one starting with %q", findings, test.want)
			}
		})
	}
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// A build at the tag has the version alone, and every other one says of which commit it is.
func TestVersionOfBuild(t *testing.T) {
	script, err := os.ReadFile("../version.sh")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	write(t, root, "scripts/version.sh", string(script))
	write(t, root, versionFile, "0.1.0\n")
	write(t, root, "bench/results/cost.json", "{}\n")
	run := func(directory, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = directory
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git := func(args ...string) {
		t.Helper()
		run(root, "git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.net"}, args...)...)
	}
	check := func(directory, want string) {
		t.Helper()
		if got := run(directory, "scripts/version.sh"); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("the version is %q, want %s", got, want)
		}
	}
	const ofCommit = `0\.1\.0\+20[0-9]{6}\.[0-9a-f]{12}`
	check(root, `0\.1\.0\+unknown`)
	git("init", "--quiet")
	check(root, `0\.1\.0\+unknown`) // no commit yet
	git("add", ".")
	git("commit", "--quiet", "--message", "first")
	check(root, ofCommit)
	git("tag", "v0.2.0")
	check(root, ofCommit)
	git("tag", "v0.1.0")
	check(root, `0\.1\.0`)
	write(t, root, "bench/results/cost.json", "{ }\n")
	check(root, `0\.1\.0`)
	write(t, root, versionFile, "0.1.0\n\n")
	check(root, ofCommit+"-dirty")
	git("commit", "--quiet", "--all", "--message", "second")
	check(root, ofCommit)

	shallow := filepath.Join(t.TempDir(), "clone")
	run(root, "git", "clone", "--quiet", "--depth", "1", "file://"+root, shallow)
	check(shallow, ofCommit)

	write(t, root, "vendored/scripts/version.sh", string(script))
	write(t, root, "vendored/VERSION", "0.1.0\n")
	check(filepath.Join(root, "vendored"), `0\.1\.0\+unknown`)
}
