// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"unicode/utf8"
)

// columnLimit is the widest line of Go outside tables. A tab counts as one column, like any other character.
const columnLimit = 140

// columns finds lines that are too wide. Rows of tables may be wider, because a table is read down its columns.
func columns(name string, content []byte, files *token.FileSet, file *ast.File) []Finding {
	var findings []Finding
	var rows map[int]bool
	for index, line := range bytes.Split(content, []byte("\n")) {
		width := utf8.RuneCount(line)
		if width <= columnLimit || bytes.HasPrefix(line, []byte("//go:")) { // a directive is one line
			continue
		}
		if rows == nil {
			rows = tableLines(files, file)
		}
		if !rows[index+1] {
			findings = append(findings, Finding{name, index + 1,
				fmt.Sprintf("%d columns, the limit is %d outside tables; name a part of the line, or break it", width, columnLimit)})
		}
	}
	return findings
}

// tableLines are the lines of rows, and what no break can mend: fields with a tag, and text that is quoted with its
// line ends. A row is an element of a literal of a slice, an array or a map, and not on the line on which that begins.
// The body of a function in a row is code again.
func tableLines(files *token.FileSet, file *ast.File) map[int]bool {
	lines := make(map[int]bool)
	mark := func(first, last int, row bool) {
		for line := first; line <= last; line++ {
			lines[line] = row
		}
	}
	ast.Inspect(file, func(node ast.Node) bool { // what is within another comes after it
		if node == nil {
			return true
		}
		first, last := files.Position(node.Pos()).Line, files.Position(node.End()).Line
		switch node := node.(type) {
		case *ast.CompositeLit:
			if isTable(node) {
				for _, element := range node.Elts {
					if line := files.Position(element.Pos()).Line; line > files.Position(node.Lbrace).Line {
						mark(line, files.Position(element.End()).Line, true)
					}
				}
			}
		case *ast.Field:
			if node.Tag != nil {
				mark(first, last, true)
			}
		case *ast.BasicLit:
			if node.Kind == token.STRING && first < last {
				mark(first, last, true)
			}
		case *ast.BlockStmt:
			mark(first+1, last-1, false)
		}
		return true
	})
	return lines
}

// isTable reports whether a literal is of a slice, an array or a map: by its type, or because its elements have none.
func isTable(literal *ast.CompositeLit) bool {
	switch literal.Type.(type) {
	case *ast.ArrayType, *ast.MapType:
		return true
	}
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			element = pair.Value
		}
		if inner, ok := element.(*ast.CompositeLit); ok && inner.Type == nil {
			return true
		}
	}
	return false
}
