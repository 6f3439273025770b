// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"regexp"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
)

//go:embed api.md.in
var apiPage string

var (
	pattern = regexp.MustCompile(`^(?:GET|POST|PUT|PATCH|DELETE) (/\S*)$`)
	marker  = regexp.MustCompile(`(?m)^\{\{(/\S*)\}\}\n`)
)

// request is one of the API.
type request struct {
	pattern, path string
	text          string
}

// apiReference is the page of the agent's API. A line {{/path}} of its text stands for all requests of
// that path and below, in the order of the source.
func apiReference(root string) ([]byte, error) {
	requests, err := requestsOf(root)
	if err != nil {
		return nil, err
	}
	shown := make(map[string]int)
	page := marker.ReplaceAllStringFunc(apiPage, func(line string) string {
		path := marker.FindStringSubmatch(line)[1]
		var texts []string
		for _, r := range requests {
			if r.path == path || strings.HasPrefix(r.path, path+"/") {
				shown[r.pattern]++
				texts = append(texts, "### `"+r.pattern+"`\n"+r.text+"\n")
			}
		}
		return strings.Join(texts, "\n")
	})
	for _, r := range requests {
		if n := shown[r.pattern]; n != 1 {
			return nil, problem.New(
				fmt.Sprintf("%s is %d times in the API's page", r.pattern, n),
				fmt.Sprintf("scripts/reference/api.md.in needs a line {{%s}}", r.path),
			)
		}
	}
	return []byte(page), nil
}

// requestsOf are the requests that the agent's packages serve: string literals that are patterns, with
// the comment that ends above them.
func requestsOf(root string) (list []request, err error) {
	for _, directory := range metricsOf["agent"].directories {
		s, err := parse(root, directory)
		if err != nil {
			return nil, err
		}
		for _, file := range s.files {
			comments := make(map[int]*ast.CommentGroup) // by the line after it
			for _, c := range file.Comments {
				comments[s.place.Position(c.End()).Line+1] = c
			}
			ast.Inspect(file, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok {
					return true
				}
				text, _ := s.text(literal)
				of := pattern.FindStringSubmatch(text)
				if of == nil {
					return true
				}
				at := s.place.Position(literal.Pos())
				about := comments[at.Line]
				if about == nil {
					err = problem.New(fmt.Sprintf("%v: %s has no text for the API's page", at, text), "write it as a comment above")
					return false
				}
				list = append(list, request{text, of[1], markdown(about)})
				return true
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// markdown is the text of a comment, with a line for each paragraph, and code as it is.
func markdown(c *ast.CommentGroup) string {
	var b strings.Builder
	code, inside := false, false // a paragraph
	for _, line := range c.List {
		text := strings.TrimPrefix(strings.TrimPrefix(line.Text, "//"), " ")
		fence := strings.HasPrefix(text, "```")
		switch {
		case inside && !code && !fence && text != "":
			b.WriteString(" ")
		case b.Len() > 0:
			b.WriteString("\n")
		}
		b.WriteString(text)
		inside = text != ""
		if fence {
			code = !code
		}
	}
	return b.String()
}
