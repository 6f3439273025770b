// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"regexp"
	"strings"
)

// retired are words that read like a translation, with plain ones instead.
var retired = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\b(nobody|whoever|somebody)\b`), "name the person, node or program"},
	{regexp.MustCompile(`(?i)\bso many\b`), "give the number, or write \"this many\""},
	{regexp.MustCompile(`(?i)\bas it should be\b`), "write \"wrong\" or \"right\""},
	{regexp.MustCompile(`(?i)\btaken for\b`), "write \"mistaken for\" or \"treated as\""},
	{regexp.MustCompile(`(?i)\b(told|tells) (of|by|apart|otherwise)\b`), "write \"reported\", \"reports\" or \"distinguished\""},
	{regexp.MustCompile(`(?i)\bbehind (the|a|an|its|their|this|that|it|them)\b`), "write \"after\" or \"beyond\""},
	{regexp.MustCompile(`(?i)\bbeside (the|a|an|its|their|this|that|it|them)\b`), "write \"next to\" or \"besides\""},
	{regexp.MustCompile(`(?i)\bfaults (in|of|with)\b`), "write \"errors\""},
}

// quoting lists documents that quote results, whose names do not change.
var quoting = map[string]bool{"docs/benchmarks.md": true, "docs/benchmarks/results.md": true, "docs/benchmarks/missed-aims.md": true}

// words checks the language of a document's prose, code left out.
func words(name string, content []byte) []Finding {
	if quoting[name] {
		return nil
	}
	var findings []Finding
	_ = prose(content, func(number int, line string) error {
		line = codePattern.ReplaceAllString(line, "")
		for _, r := range retired {
			if word := r.pattern.FindString(line); word != "" {
				findings = append(findings, Finding{name, number, fmt.Sprintf("%q: %s", strings.ToLower(word), r.instead)})
			}
		}
		return nil
	})
	return findings
}
