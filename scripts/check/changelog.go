// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits on the changelog.
const (
	changeLimit  = 120 // characters of a line
	changesLimit = 30  // lines of a version
)

const (
	versionFile   = "VERSION"
	changelogFile = "CHANGELOG.md"
	unreleased    = "## Unreleased"
)

var (
	versionPattern = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`)
	sectionPattern = regexp.MustCompile(`^## ([^ ]+) - ([0-9-]+)$`)
)

// Changelog checks that the version of the tree has its section in the changelog, the newest
// one with a date, and that each change there is one short line.
func Changelog(root string) ([]Finding, error) {
	content, err := os.ReadFile(filepath.Join(root, versionFile))
	if err != nil {
		return nil, err
	}
	version := strings.TrimSuffix(string(content), "\n")
	if !versionPattern.MatchString(version) {
		return []Finding{{versionFile, 1, fmt.Sprintf("%q is no version; write one line such as 0.1.0", version)}}, nil
	}
	if content, err = os.ReadFile(filepath.Join(root, changelogFile)); err != nil {
		return nil, err
	}
	var c changelog
	for index, line := range strings.Split(strings.TrimSuffix(string(content), "\n"), "\n") {
		c.read(index+1, line)
	}
	if c.newest != version {
		c.add(1, "the newest version is %q, and %s has %s; begin its section with: ## %[3]s - YYYY-MM-DD", c.newest, versionFile, version)
	}
	return c.findings, nil
}

// changelog is what was read of one.
type changelog struct {
	findings []Finding
	newest   string // the first version with a date
	section  string // the heading of the section that is being read
	changes  int    // lines in it
}

func (c *changelog) add(line int, format string, args ...any) {
	c.findings = append(c.findings, Finding{changelogFile, line, fmt.Sprintf(format, args...)})
}

func (c *changelog) read(number int, line string) {
	if length := utf8.RuneCountInString(line); length > changeLimit {
		c.add(number, "%d characters, the limit is %d; shorten the line", length, changeLimit)
	}
	switch {
	case strings.HasPrefix(line, "## "):
		c.begin(number, line)
	case c.section == "" || line == "":
	case !strings.HasPrefix(line, "- "):
		c.add(number, "a change is one line that begins with \"- \"")
	default:
		if c.changes++; c.changes == changesLimit+1 {
			c.add(number, "%q has more than %d lines; drop the least important", strings.TrimPrefix(c.section, "## "), changesLimit)
		}
	}
}

// begin reads a heading.
func (c *changelog) begin(number int, line string) {
	isFirst := c.section == ""
	c.section, c.changes = line, 0
	match := sectionPattern.FindStringSubmatch(line)
	switch {
	case line == unreleased && isFirst:
		return
	case match == nil || !versionPattern.MatchString(match[1]):
		c.add(number, "a section is called VERSION - YYYY-MM-DD, and only the first may be called Unreleased")
		return
	}
	if _, err := time.Parse(time.DateOnly, match[2]); err != nil {
		c.add(number, "%s is no date; write YYYY-MM-DD", match[2])
	}
	if c.newest == "" {
		c.newest = match[1]
	}
}
