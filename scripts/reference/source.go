// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// source is a package of the product, as it is written.
type source struct {
	place *token.FileSet
	files []*ast.File
	texts map[string]ast.Expr // constants and variables, by name
}

// parse reads the package in a directory below internal.
func parse(root, directory string) (*source, error) {
	names, err := filepath.Glob(filepath.Join(root, "internal", directory, "*.go"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("internal/%s has no Go files (%v)", directory, err)
	}
	s := &source{place: token.NewFileSet(), texts: make(map[string]ast.Expr)}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(s.place, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, file)
		ast.Inspect(file, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
				for i, name := range v.Names {
					s.texts[name.Name] = v.Values[i]
				}
			}
			return true
		})
	}
	return s, nil
}

// text is a string of the source; false: it is computed.
func (s *source) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.Ident:
		if value := s.texts[e.Name]; value != nil {
			return s.text(value)
		}
	case *ast.BinaryExpr:
		left, ok := s.text(e.X)
		right, also := s.text(e.Y)
		return left + right, ok && also
	}
	return "", false
}

// name is an identifier, with that of its package; "": the expression is none.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if of := name(e.X); of != "" {
			return of + "." + e.Sel.Name
		}
	}
	return ""
}
