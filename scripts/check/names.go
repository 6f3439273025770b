// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"go/ast"
	"go/token"
)

// bare are words that say neither what a value is nor what a function does to what. An exported noun stands after its
// package, which says of what it is: `reflector.Note`. A reader checks exported methods.
var bare = map[string]string{
	"take":   "name what is done with what (addPacket, useItem), or what is given (consume for a callback)",
	"note":   "name what is written where (countPacket, updateSize), or whom it reaches (notify)",
	"told":   "name what was reported, or to whom (reported, warned)",
	"settle": "name what is closed or waited for (settleFiles, settleTime)",
	"blind":  "name the thing that is not seen, such as unwatched",
	"half":   "name what it is half of (firstHour, halfway)",
}

// bareNames finds declarations that have one of these words as their name: packages' imports, types, functions, methods,
// fields, parameters, variables, constants and labels.
func bareNames(name string, files *token.FileSet, file *ast.File) []Finding {
	var findings []Finding
	declared := func(names ...ast.Node) {
		for _, node := range names {
			if ident, ok := node.(*ast.Ident); ok && ident != nil && bare[ident.Name] != "" {
				findings = append(findings, Finding{name, files.Position(ident.Pos()).Line,
					fmt.Sprintf("%q as a name: %s", ident.Name, bare[ident.Name])})
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			declared(node.Name)
		case *ast.TypeSpec:
			declared(node.Name)
		case *ast.FuncDecl:
			declared(node.Name)
		case *ast.Field:
			for _, ident := range node.Names {
				declared(ident)
			}
		case *ast.ValueSpec:
			for _, ident := range node.Names {
				declared(ident)
			}
		case *ast.AssignStmt:
			if node.Tok == token.DEFINE {
				for _, left := range node.Lhs {
					declared(left)
				}
			}
		case *ast.RangeStmt:
			if node.Tok == token.DEFINE {
				declared(node.Key, node.Value)
			}
		case *ast.LabeledStmt:
			declared(node.Label)
		}
		return true
	})
	return findings
}
