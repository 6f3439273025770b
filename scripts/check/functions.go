// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// goRules checks function lengths, columns, names, JSON structures and cures of errors, and that outside
// tests only func main ends the process.
func goRules(name string, content []byte) ([]Finding, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	findings := slices.Concat(columns(name, content, files, file), bareNames(name, files, file))
	test := strings.HasSuffix(name, "_test.go")
	if !test { // tests read what others write, too
		findings = append(findings, jsonRules(name, files, file)...)
		findings = append(findings, wrappedCures(name, files, file)...)
		findings = append(findings, plainCures(name, files, file)...)
	}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok {
			start, end := files.Position(function.Pos()).Line, files.Position(function.End()).Line
			findings = append(findings, functionLength(name, function.Name.Name, start, end)...)
		}
		if test {
			continue
		}
		inMain := ok && file.Name.Name == "main" && function.Recv == nil && function.Name.Name == "main"
		ast.Inspect(declaration, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			if what := ending(call); what != "" && !(inMain && what == "os.Exit") {
				findings = append(findings, Finding{name, files.Position(call.Pos()).Line,
					what + " outside func main; return an error"})
			}
			return true
		})
	}
	return findings, nil
}

// ending names a call that ends the process; it is empty for others.
func ending(call *ast.CallExpr) string {
	switch function := call.Fun.(type) {
	case *ast.Ident:
		if function.Name == "panic" {
			return "panic"
		}
	case *ast.SelectorExpr:
		pkg, ok := function.X.(*ast.Ident)
		if !ok {
			return ""
		}
		what := pkg.Name + "." + function.Sel.Name
		if what == "os.Exit" || strings.HasPrefix(what, "log.Fatal") || strings.HasPrefix(what, "log.Panic") {
			return what
		}
	}
	return ""
}

func functionLength(name, function string, start, end int) []Finding {
	if lines := end - start + 1; lines >= functionLimit {
		return []Finding{{name, start, fmt.Sprintf("%s has %d lines, the limit is below %d; split it by subject",
			function, lines, functionLimit)}}
	}
	return nil
}

// cFunctions measures C functions. clang-format puts only the braces of a
// function's body in column 0.
func cFunctions(name string, content []byte) []Finding {
	var findings []Finding
	start, title, last := 0, "", ""
	for index, line := range bytes.Split(content, []byte("\n")) {
		switch text := string(line); {
		case text == "{":
			start, title = index+1, last
		case text == "}" && start > 0:
			findings = append(findings, functionLength(name, strings.TrimSpace(title), start, index+1)...)
			start = 0
		default:
			last = text
		}
	}
	return findings
}
