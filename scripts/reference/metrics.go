// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"strings"

	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/problem"
)

//go:embed metrics.md.in
var metricsPage string

// metricsOf are where metrics are declared, and the prefix of names there, by the table of the page.
var metricsOf = map[string]struct {
	directories []string
	prefix      string
}{
	"agent":     {[]string{"agent", "agent/measure", "agent/probe", "agent/queues", "agent/report", "agent/tunnel", "agent/service"}, "waymark_"},
	"reflector": {[]string{"stamp/reflector"}, ""},
	"collector": {[]string{"collect"}, "waymark_collect_"},
	"store":     {[]string{"../collector/internal/daemon", "../collector/internal/events", "collect/pathmetrics"}, ""},
}

const protocols = "../how-to/measure-srv6-protocols.md#what-went-wrong-with-messages"

// metricLinks are what a part of a metric's meaning links to.
var metricLinks = map[string][2]string{
	"waymark_block_answers_total":       {"what they said of the block", protocols},
	"waymark_measurement_replies_total": {"outcome", protocols},
	"waymark_loss_readings_total":       {"whether the computation of loss took them", protocols},
	"waymark_stamp_packets_total":       {"outcome", "../how-to/stamp.md#counters"},
	"waymark_stamp_notes_total":         {"kind", "../how-to/stamp.md#counters"},
	"waymark_events_total":              {"kind of event", "events.md"},
	"waymark_events_begun":              {"kind of event", "events.md"},
}

// metricsReference is the page of metrics.
func metricsReference(root string) ([]byte, error) {
	page := metricsPage
	for table, of := range metricsOf {
		m := declared{prefix: of.prefix}
		for _, directory := range of.directories {
			source, err := parse(root, directory)
			if err != nil {
				return nil, err
			}
			m.source = source
			for _, file := range source.files {
				ast.Inspect(file, m.see)
			}
		}
		if table == "collector" { // its counters have computed names
			m.computed--
			for _, c := range new(collect.Stats).Counts() {
				m.row(of.prefix+c.Name+"_total", nil, c.Meaning)
			}
		}
		if m.computed != 0 || len(m.rows) == 0 {
			return nil, problem.New(
				fmt.Sprintf("%v: %d metrics, %d with computed names", of.directories, len(m.rows), m.computed),
				"declare them with constants",
			)
		}
		text := "| metric | labels | meaning |\n|---|---|---|\n" + strings.Join(m.rows, "\n")
		page = strings.Replace(page, "{{"+table+"}}", text, 1)
	}
	return []byte(page), nil
}

// declared are the metrics that a source declares.
type declared struct {
	source   *source
	prefix   string
	rows     []string
	computed int // metrics with computed names
}

// see takes service.Metric(name, help, labels...), desc(name, help, labels...) and metrics.Desc{...}.
func (d *declared) see(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Name.Name != "desc" && n.Name.Name != "Metric"
	case *ast.CallExpr:
		if f := name(n.Fun); (f == "desc" || f == "service.Metric") && len(n.Args) >= 2 {
			d.add(n.Args[0], n.Args[1], n.Args[2:])
		}
	case *ast.CompositeLit:
		if name(n.Type) == "metrics.Desc" {
			fields := make(map[string]ast.Expr)
			for _, e := range n.Elts {
				pair := e.(*ast.KeyValueExpr)
				fields[name(pair.Key)] = pair.Value
			}
			var labels []ast.Expr
			if list, ok := fields["Labels"].(*ast.CompositeLit); ok {
				labels = list.Elts
			}
			d.add(fields["Name"], fields["Help"], labels)
		}
	}
	return true
}

func (d *declared) add(name, help ast.Expr, labels []ast.Expr) {
	n, known := d.source.text(name)
	h, knownHelp := d.source.text(help)
	var list []string
	for _, each := range labels {
		label, ok := d.source.text(each)
		known = known && ok
		list = append(list, "`"+label+"`")
	}
	if !known || !knownHelp {
		d.computed++
		return
	}
	d.row(d.prefix+n, list, h)
}

func (d *declared) row(name string, labels []string, help string) {
	if link, ok := metricLinks[name]; ok {
		help = strings.Replace(help, link[0], "["+link[0]+"]("+link[1]+")", 1)
	}
	list := "–"
	if len(labels) > 0 {
		list = strings.Join(labels, ", ")
	}
	d.rows = append(d.rows, "| `"+name+"` | "+list+" | "+help+" |")
}
