// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/collect"
)

// metricsSource finds the metrics that a package declares.
type metricsSource struct {
	t      *testing.T
	prefix string              // of names that desc() and service.Metric() make
	texts  map[string]ast.Expr // constants, by name
	rows   []string            // as the reference has them
	other  int                 // calls of these with computed names
}

// text is a string of the source; false: it is computed.
func (s *metricsSource) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.Ident:
		if value := s.texts[e.Name]; value != nil {
			return s.text(value)
		}
	}
	return "", false
}

// add adds a row.
func (s *metricsSource) add(name, help ast.Expr, labels []ast.Expr) {
	n, known := s.text(name)
	h, knownHelp := s.text(help)
	if !known || !knownHelp {
		s.other++
		return
	}
	list := "–"
	for i, each := range labels {
		label, ok := s.text(each)
		if !ok {
			s.t.Errorf("%s: a label is computed", n)
		}
		if list = strings.TrimPrefix(list, "–"); i > 0 {
			list += ", "
		}
		list += "`" + label + "`"
	}
	s.rows = append(s.rows, metricsRow(s.prefix+n, list, h))
}

func metricsRow(name, labels, help string) string {
	return "| `" + name + "` | " + labels + " | " + help + " |"
}

// isDeclaration reports whether a function makes a metric of its name, help and labels.
func isDeclaration(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name == "desc"
	case *ast.SelectorExpr:
		in, ok := f.X.(*ast.Ident)
		return ok && in.Name == "service" && f.Sel.Name == "Metric"
	}
	return false
}

// take takes desc(name, help, labels...), service.Metric(name, help, labels...) and
// metrics.Desc{...}.
func (s *metricsSource) take(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Name.Name != "desc" && n.Name.Name != "Metric"
	case *ast.CallExpr:
		if isDeclaration(n.Fun) && len(n.Args) >= 2 {
			s.add(n.Args[0], n.Args[1], n.Args[2:])
		}
	case *ast.CompositeLit:
		if f, ok := n.Type.(*ast.SelectorExpr); ok && f.Sel.Name == "Desc" {
			fields := make(map[string]ast.Expr)
			for _, e := range n.Elts {
				pair := e.(*ast.KeyValueExpr)
				fields[pair.Key.(*ast.Ident).Name] = pair.Value
			}
			var labels []ast.Expr
			if list, ok := fields["Labels"].(*ast.CompositeLit); ok {
				labels = list.Elts
			}
			s.add(fields["Name"], fields["Help"], labels)
		}
	}
	return true
}

// declaredMetrics are the rows of the metrics that a package declares, and how many it has whose
// names are computed.
func declaredMetrics(t *testing.T, directory, prefix string) (rows []string, computed int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("../../internal", directory, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v", directory, err)
	}
	s := &metricsSource{t: t, prefix: prefix, texts: make(map[string]ast.Expr)}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		ast.Inspect(file, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
				for i, name := range v.Names {
					s.texts[name.Name] = v.Values[i]
				}
			}
			return true
		})
	}
	for _, file := range files {
		ast.Inspect(file, s.take)
	}
	return s.rows, s.other
}

// The page of metrics has each metric of the agent, of "waymark stamp reflector" and of "waymark
// collect", with its labels and what it means, and no other.
func TestMetricsPageIsComplete(t *testing.T) {
	agent, computed := declaredMetrics(t, "agent", "waymark_")
	for _, services := range []string{"agent/measure", "agent/report", "agent/service", "agent/tunnel"} {
		rows, more := declaredMetrics(t, services, "waymark_")
		agent, computed = append(agent, rows...), computed+more
	}
	reflector, more := declaredMetrics(t, "stamp/reflector", "")
	collector, counts := declaredMetrics(t, "collect", "waymark_collect_")
	if len(agent) < 40 || len(reflector) < 5 || len(collector) < 6 || computed+more != 0 || counts != 1 {
		t.Fatalf("found %d, %d and %d metrics; %d, %d and %d with computed names", len(agent), len(reflector), len(collector), computed, more, counts)
	}
	for _, c := range new(collect.Stats).Counts() { // which have the computed name
		collector = append(collector, metricsRow("waymark_collect_"+c.Name+"_total", "–", c.Meaning))
	}
	want := slices.Concat(agent, reflector, collector)
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`\[([^]]+)\]\([^)]*\)`).ReplaceAllString(string(page), "$1")
	have := regexp.MustCompile("(?m)^\\| `waymark_[a-z0-9_]+` \\|.*$").FindAllString(text, -1)
	for _, row := range want {
		if !slices.Contains(have, row) {
			t.Errorf("docs/reference/metrics.md lacks\n%s", row)
		}
	}
	for _, row := range have {
		if !slices.Contains(want, row) {
			t.Errorf("docs/reference/metrics.md has\n%s\nwhich no code declares", row)
		}
	}
	if len(have) != len(want) {
		t.Errorf("%d rows, want %d", len(have), len(want))
	}
}
