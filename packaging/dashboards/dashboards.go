// SPDX-License-Identifier: Apache-2.0

// Package dashboards makes the dashboards for Grafana in packaging/grafana. They need no plugin.
package dashboards

//lint:file-ignore SA1019 Grafana before version 12 reads only this format, and later ones read it, too

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// query is one query of a panel, and what its lines are called.
type query struct{ expr, legend string }

// panel shows queries over time, or as one number each.
type panel struct {
	title, meaning, unit string
	number               bool
	queries              []query
}

// page is one dashboard.
type page struct {
	uid, title, meaning string
	metric              string // whose instances can be chosen
	rows                []row
}

type row struct {
	title  string
	panels []panel
}

const (
	width  = 24 // of a dashboard
	height = 8
)

var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${source}")}

// Write writes each dashboard into a directory, as Grafana imports and provisions them.
func Write(directory string) error {
	for _, p := range pages() {
		built, err := p.build()
		if err != nil {
			return fmt.Errorf("%s: %w", p.title, err)
		}
		text, err := json.MarshalIndent(built, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(directory, p.uid+".json"), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Queries are all queries of all dashboards, with the variables of Grafana in them.
func Queries() []string {
	var list []string
	for _, p := range pages() {
		for _, r := range p.rows {
			for _, one := range r.panels {
				for _, q := range one.queries {
					list = append(list, q.expr)
				}
			}
		}
	}
	return list
}

func (p page) build() (dashboard.Dashboard, error) {
	d := dashboard.NewDashboardBuilder(p.title).Uid(p.uid).Description(p.meaning).Tags([]string{"waymark"}).
		Refresh("30s").Time("now-1h", "now").Timezone("browser").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("source").Label("Prometheus").Type("prometheus")).
		WithVariable(dashboard.NewQueryVariableBuilder("instance").Label("Node").Datasource(source).
			Query(dashboard.StringOrMap{String: cog.ToPtr(fmt.Sprintf("label_values(%s, instance)", p.metric))}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Multi(true).IncludeAll(true).AllValue(".*"))
	for _, r := range p.rows {
		d.WithRow(dashboard.NewRowBuilder(r.title))
		span := uint32(width / min(len(r.panels), 4))
		for _, one := range r.panels {
			d.WithPanel(one.build(span))
		}
	}
	return d.Build()
}

func (p panel) build(span uint32) cog.Builder[dashboard.Panel] {
	if p.number {
		b := stat.NewPanelBuilder().Title(p.title).Description(p.meaning).Unit(p.unit).Datasource(source).Span(span).Height(height / 2)
		for _, q := range p.queries {
			b.WithTarget(q.build().Instant())
		}
		return b
	}
	b := timeseries.NewPanelBuilder().Title(p.title).Description(p.meaning).Unit(p.unit).Datasource(source).Span(span).Height(height).Min(0)
	for _, q := range p.queries {
		b.WithTarget(q.build().Range())
	}
	return b
}

func (q query) build() *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).Datasource(source)
}
