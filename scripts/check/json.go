// SPDX-License-Identifier: Apache-2.0

package check

import (
	"go/ast"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// jsonKey is the spelling of keys in JSON.
var jsonKey = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)

// jsonRules checks the fields of structures that are written as JSON: the
// spelling of their keys, and that all times have the same width.
func jsonRules(name string, files *token.FileSet, file *ast.File) []Finding {
	var findings []Finding
	ast.Inspect(file, func(node ast.Node) bool {
		field, ok := node.(*ast.Field)
		if !ok || field.Tag == nil {
			return true
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			return true
		}
		key, ok := reflect.StructTag(tag).Lookup("json")
		if key, _, _ = strings.Cut(key, ","); !ok || key == "-" {
			return true
		}
		line := files.Position(field.Pos()).Line
		if key != "" && !jsonKey.MatchString(key) {
			findings = append(findings, Finding{name, line, "key " + strconv.Quote(key) + " in JSON; write lower case and underscores"})
		}
		if isTime(field.Type) {
			findings = append(findings, Finding{name, line, "time.Time in JSON has no fixed number of digits; use instant.Time"})
		}
		return true
	})
	return findings
}

// isTime reports whether a type is time.Time, or a pointer to it.
func isTime(expr ast.Expr) bool {
	if pointer, ok := expr.(*ast.StarExpr); ok {
		expr = pointer.X
	}
	selector, ok := expr.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "time" && selector.Sel.Name == "Time"
}
