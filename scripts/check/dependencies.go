// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const reasons = "docs/dependencies.md"

// Dependencies checks that docs/dependencies.md gives a reason for every
// module that go.mod requires directly.
func Dependencies(root string) ([]Finding, error) {
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	document, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(reasons)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var findings []Finding
	block := ""
	lines := bufio.NewScanner(bytes.NewReader(module))
	for number := 1; lines.Scan(); number++ {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 2 && fields[1] == "(":
			block = fields[0]
			continue
		case len(fields) == 1 && fields[0] == ")":
			block = ""
			continue
		case len(fields) == 3 && fields[0] == "require":
			fields = fields[1:]
		case block != "require":
			continue
		}
		// An indirect requirement has the comment as more fields.
		if len(fields) == 2 && !bytes.Contains(document, []byte("`"+fields[0]+"`")) {
			findings = append(findings, Finding{"go.mod", number,
				fmt.Sprintf("%s has no line in %s; add one with its reason", fields[0], reasons)})
		}
	}
	return findings, lines.Err()
}
