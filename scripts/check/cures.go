// SPDX-License-Identifier: Apache-2.0

package check

import (
	"go/ast"
	"go/token"
	"strings"
)

// wrappedCures finds formats that write a text after an error: who shows problem and cure apart cannot find the cure
// there.
func wrappedCures(name string, files *token.FileSet, file *ast.File) []Finding {
	var findings []Finding
	ast.Inspect(file, func(node ast.Node) bool {
		if text, ok := node.(*ast.BasicLit); ok && text.Kind == token.STRING && strings.Contains(text.Value, "%w"+"; ") {
			findings = append(findings, Finding{name, files.Position(text.Pos()).Line,
				"a text after an error: give the error a cure with problem.Wrap or problem.Append"})
		}
		return true
	})
	return findings
}
