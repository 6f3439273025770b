// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

var (
	benchmarkRun    = regexp.MustCompile(`waymark-bench run ([a-z0-9-]+)`)
	recordedResults = regexp.MustCompile(`\]\([^()\s]*benchmarks(/results)?\.md(#[^()\s]*)?\)`)
)

// recorded checks that where a document links to the recorded results and names a benchmark in the same paragraph,
// that has a result.
func recorded(root, name string, content []byte) ([]Finding, error) {
	var findings []Finding
	err := prose(content, func(number int, line string) error {
		if !recordedResults.MatchString(line) {
			return nil
		}
		for _, run := range benchmarkRun.FindAllStringSubmatch(line, -1) {
			file := "bench/results/" + run[1] + ".json"
			switch _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); {
			case errors.Is(err, fs.ErrNotExist):
				findings = append(findings, Finding{name, number, fmt.Sprintf(
					"links to recorded results and names %s, but %s is missing: say machine, date and command instead", run[1], file)})
			case err != nil:
				return err
			}
		}
		return nil
	})
	return findings, err
}
