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

// ours is the module that the others require.
const ours = "github.com/waymark-net/waymark"

// Dependencies checks that docs/dependencies.md gives a reason for every
// module that go.mod, of the root or of a folder there, requires directly.
func Dependencies(root string) ([]Finding, error) {
	files, err := filepath.Glob(filepath.Join(root, "*", "go.mod"))
	if err != nil {
		return nil, err
	}
	document, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(reasons)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var findings []Finding
	for _, file := range append([]string{filepath.Join(root, "go.mod")}, files...) {
		name, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := requirements(filepath.ToSlash(name), content, document)
		if err != nil {
			return nil, err
		}
		findings = append(findings, found...)
	}
	return findings, nil
}

// requirements checks the requirements of one go.mod.
func requirements(name string, module, document []byte) ([]Finding, error) {
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
		if len(fields) == 2 && fields[0] != ours && !bytes.Contains(document, []byte("`"+fields[0]+"`")) {
			findings = append(findings, Finding{name, number,
				fmt.Sprintf("%s has no line in %s; add one with its reason", fields[0], reasons)})
		}
	}
	return findings, lines.Err()
}
