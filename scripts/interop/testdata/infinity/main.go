// SPDX-License-Identifier: Apache-2.0

// Command infinity asks a collector each query of docs/how-to/grafana.md with the backend of Grafana's Infinity data
// source, as Grafana does, and looks at the data frames. It is built outside this project's modules; see
// scripts/interop/infinity.sh.
//
//	infinity PAGE URL SECONDS [NAME=VALUE...]
//
// It asks until each query has rows, for SECONDS at most. The arguments after it are variables of the dashboard.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-infinity-datasource/pkg/pluginhost"
	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "infinity:", err)
		os.Exit(1)
	}
}

// query is a row of the page.
type query struct {
	panel, url, root string
	columns          [][]string // name and type
}

var (
	rows    = regexp.MustCompile("(?m)^\\| ([^|]+) \\| `(/v1/[^`]+)` \\| `([^`]+)` \\| (.+) \\|$")
	columns = regexp.MustCompile("`([^`]+)` (string|number|timestamp)")
)

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: infinity PAGE URL SECONDS [NAME=VALUE...]")
	}
	page, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	seconds, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	var list []query
	for _, row := range rows.FindAllStringSubmatch(string(page), -1) {
		q := query{panel: row[1], url: row[2], root: row[3]}
		for _, c := range columns.FindAllStringSubmatch(row[4], -1) {
			q.columns = append(q.columns, c[1:])
		}
		list = append(list, q)
	}
	if len(list) < 11 {
		return fmt.Errorf("%s has only %d queries", args[0], len(list))
	}
	settings, err := json.Marshal(map[string]any{"allowedHosts": []string{args[1]}})
	if err != nil {
		return err
	}
	source, err := pluginhost.NewDataSourceInstance(context.Background(), backend.DataSourceInstanceSettings{URL: args[1], JSONData: settings})
	if err != nil {
		return err
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for {
		var pending []query
		var faults []string
		for _, q := range list {
			found, err := ask(source.(backend.QueryDataHandler), q, args[3:])
			if err != nil {
				pending, faults = append(pending, q), append(faults, fmt.Sprintf("%s: %v", q.panel, err))
				continue
			}
			fmt.Printf("  %s: %d rows\n", q.panel, found)
		}
		if list = pending; len(list) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return errors.New("not as the page says: " + strings.Join(faults, "; "))
		}
		time.Sleep(3 * time.Second)
	}
}

// ask asks a query in each format that the page names for it, and returns how many rows the table has.
func ask(source backend.QueryDataHandler, q query, variables []string) (found int, err error) {
	until := time.Now()
	from := until.Add(-30 * time.Minute)
	const iso = "2006-01-02T15:04:05.000Z" // as Grafana writes ${__from:date:iso}
	url := strings.NewReplacer("${__from:date:iso}", from.UTC().Format(iso), "${__to:date:iso}", until.UTC().Format(iso)).Replace(q.url)
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		url = strings.ReplaceAll(url, "${"+name+"}", value)
	}
	frame, err := frameOf(source, q, url, "table", backend.TimeRange{From: from, To: until})
	if err != nil {
		return 0, err
	}
	if err := judge(frame, q); err != nil || !strings.Contains(q.panel, "over time") {
		return frame.Rows(), err
	}
	series, err := frameOf(source, q, url, "timeseries", backend.TimeRange{From: from, To: until})
	if err != nil {
		return 0, err
	}
	if kind := series.TimeSeriesSchema().Type; kind != data.TimeSeriesTypeWide {
		return 0, fmt.Errorf("as time series, it is %v and not a field for each line", kind)
	}
	return frame.Rows(), nil
}

// frameOf is the data frame of an answer.
func frameOf(source backend.QueryDataHandler, q query, url, format string, times backend.TimeRange) (*data.Frame, error) {
	var list []map[string]string
	for _, c := range q.columns {
		list = append(list, map[string]string{"selector": c[0], "text": c[0], "type": c[1]})
	}
	text, err := json.Marshal(map[string]any{
		"refId": "A", "type": "json", "source": "url", "format": format, "parser": "backend", "url": url,
		"url_options": map[string]string{"method": "GET"}, "root_selector": q.root, "columns": list,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answer, err := source.QueryData(ctx, &backend.QueryDataRequest{Queries: []backend.DataQuery{{RefID: "A", JSON: text, TimeRange: times}}})
	if err != nil {
		return nil, err
	}
	response := answer.Responses["A"]
	switch {
	case response.Error != nil:
		return nil, response.Error
	case len(response.Frames) != 1:
		return nil, fmt.Errorf("%d frames", len(response.Frames))
	}
	return response.Frames[0], nil
}

// judge compares a frame with the page: rows, and columns with values of their types; each row has its time.
func judge(frame *data.Frame, q query) error {
	if frame.Rows() == 0 {
		return errors.New("no rows")
	}
	if len(frame.Fields) != len(q.columns) {
		return fmt.Errorf("%d columns, want %d", len(frame.Fields), len(q.columns))
	}
	kinds := map[string]data.FieldType{
		"string": data.FieldTypeNullableString, "number": data.FieldTypeNullableFloat64, "timestamp": data.FieldTypeNullableTime,
	}
	for _, c := range q.columns {
		field, _ := frame.FieldByName(c[0])
		if field == nil {
			return fmt.Errorf("no column %s", c[0])
		}
		if field.Type() != kinds[c[1]] {
			return fmt.Errorf("%s is of type %v, not a %s", c[0], field.Type(), c[1])
		}
		values := 0
		for i := range field.Len() {
			if value, ok := field.ConcreteAt(i); ok && value != "" {
				values++
			}
		}
		if values == 0 || c[1] == "timestamp" && values < frame.Rows() {
			return fmt.Errorf("%d of %d rows have %s", values, frame.Rows(), c[0])
		}
	}
	return nil
}
