// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Where outcomes are listed and explained. The reference is generated from the
// code, so it has every outcome.
const (
	outcomesReference = "docs/reference/outcomes.md"
	dataPlane         = "docs/data-plane"
	outcomesIndex     = dataPlane + "/README.md"
)

var (
	outcomeRow  = regexp.MustCompile(`^\| \d+ \| (?:\[)?` + "`([a-z0-9_]+)`" + `(?:\]\(\.\./data-plane/([^)#]+)#([^)]+)\))?`)
	outcomeLink = regexp.MustCompile("\\[`([a-z0-9_]+)`\\]\\(([^)]+)\\)")
)

// Outcomes checks that each outcome has a link to a section of the data plane's
// specification which names it, and that the index there has the same link.
func Outcomes(root string) ([]Finding, error) {
	reference, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(outcomesReference)))
	if err != nil {
		return nil, err
	}
	index, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(outcomesIndex)))
	if err != nil {
		return nil, err
	}
	listed := map[string]string{}
	for _, link := range outcomeLink.FindAllStringSubmatch(string(index), -1) {
		listed[link[1]] = link[2]
	}
	var findings []Finding
	err = prose(reference, func(number int, line string) error {
		row := outcomeRow.FindStringSubmatch(line)
		if row == nil {
			return nil
		}
		add := func(file, format string, values ...any) {
			findings = append(findings, Finding{file, number, fmt.Sprintf(format, values...)})
		}
		name, page, heading := row[1], row[2], row[3]
		if page == "" {
			add(outcomesReference, "outcome %s has no section of %s; name it in internal/model/outcomename.go", name, dataPlane)
			return nil
		}
		text, err := section(filepath.Join(root, filepath.FromSlash(path.Join(dataPlane, page))), heading)
		if err != nil {
			return err
		}
		if !strings.Contains(text, "`"+name+"`") {
			add(outcomesReference, "outcome %s is not explained in %s/%s#%s", name, dataPlane, page, heading)
		}
		if want := page + "#" + heading; listed[name] != want {
			add(outcomesReference, "outcome %s is not in the index of %s; write [`%s`](%s)", name, outcomesIndex, name, want)
		}
		return nil
	})
	return findings, err
}

// section is what stands below a heading of a document, to the next heading. It
// is empty if there is no such heading.
func section(file, heading string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	within := false
	err = prose(content, func(_ int, line string) error {
		if match := headingPattern.FindStringSubmatch(line); match != nil {
			within = anchor(match[1]) == heading
		} else if within {
			b.WriteString(line + "\n")
		}
		return nil
	})
	return b.String(), err
}
