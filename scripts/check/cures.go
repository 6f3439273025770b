// SPDX-License-Identifier: Apache-2.0

package check

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// afterError begins a text after an error.
const afterError = "%w" + "; "

// wrappedCures finds formats that write a text after an error: who shows problem and cure apart cannot find the cure
// there.
func wrappedCures(name string, files *token.FileSet, file *ast.File) []Finding {
	var findings []Finding
	ast.Inspect(file, func(node ast.Node) bool {
		if text, ok := node.(*ast.BasicLit); ok && text.Kind == token.STRING && strings.Contains(text.Value, afterError) {
			findings = append(findings, Finding{name, files.Position(text.Pos()).Line,
				"a text after an error: give the error a cure with problem.Wrap or problem.Append"})
		}
		return true
	})
	return findings
}

// plainErrors are the functions that make errors of one text.
var plainErrors = []string{"errors.New", "fmt.Errorf", "commandline.Usagef", "Usagef"}

// plainCure is a cure in such a text. Two facts may be joined like that, too, so it begins with what is to be done.
var plainCure = regexp.MustCompile(`; (add|ask|change|check|choose|convert|correct|end|give|install|leave|list|look|make|name|` +
	`raise|remove|run|say|see|set|start|stop|take|try|use|wait|want|write)\b`)

// publicPackages import nothing of ours, so their errors are plain.
var publicPackages = []string{"ioam", "ipfix", "srv6", "stamp"}

// plainCures finds errors with a cure that are no problem.Problem; what wrappedCures finds is left to it.
func plainCures(name string, files *token.FileSet, file *ast.File) []Finding {
	if slices.Contains(publicPackages, path.Dir(name)) {
		return nil
	}
	var findings []Finding
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 || !slices.Contains(plainErrors, calledName(call.Fun)) {
			return true
		}
		if cure := plainCure.FindString(strings.ReplaceAll(joinedText(call.Args[0]), afterError, "")); cure != "" {
			findings = append(findings, Finding{name, files.Position(call.Pos()).Line,
				"a cure in the text of an error, after " + strconv.Quote(cure) + ": give it to problem.New or problem.Wrap"})
		}
		return true
	})
	return findings
}

// calledName is the name of a function, with the package or variable before it.
func calledName(function ast.Expr) string {
	switch f := function.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if of, ok := f.X.(*ast.Ident); ok {
			return of.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// joinedText is a literal, or several that are joined; what else is joined to them is left out.
func joinedText(text ast.Expr) string {
	switch t := text.(type) {
	case *ast.BinaryExpr:
		return joinedText(t.X) + joinedText(t.Y)
	case *ast.ParenExpr:
		return joinedText(t.X)
	case *ast.BasicLit:
		if value, err := strconv.Unquote(t.Value); err == nil {
			return value
		}
	}
	return ""
}
