// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The committed pages are what the source says now.
func TestPagesAreCurrent(t *testing.T) {
	pages, err := pages("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join("../../docs/reference", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/reference/%s is not current (%v); run: make docs", name, err)
		}
	}
}

// All metrics are found, and none is in two rows of a table: agents and collectors may have the same.
func TestMetricsAreFound(t *testing.T) {
	page, err := metricsReference("../..")
	if err != nil {
		t.Fatal(err)
	}
	rows, table := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| metric |") {
			clear(table)
		}
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); ok && strings.HasPrefix(name, "waymark_") {
			if table[name] {
				t.Errorf("%s has two rows", name)
			}
			rows[name], table[name] = true, true
		}
	}
	if len(rows) < 120 {
		t.Errorf("found %d metrics", len(rows))
	}
	for name, link := range metricLinks {
		if !rows[name] || !strings.Contains(string(page), "["+link[0]+"]("+link[1]+")") {
			t.Errorf("%s does not link to %s", name, link[1])
		}
	}
}

// A comment becomes paragraphs of one line each, and code.
func TestMarkdown(t *testing.T) {
	lines := []string{"// Adds", "// one:", "//", "// ```json", `// {"id":1,`, `//  "data":2}`, "// ```", "//", "// Or not."}
	c := &ast.CommentGroup{}
	for _, line := range lines {
		c.List = append(c.List, &ast.Comment{Text: line})
	}
	if got, want := markdown(c), "Adds one:\n\n```json\n{\"id\":1,\n \"data\":2}\n```\n\nOr not."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
