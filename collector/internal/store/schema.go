// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/record"
)

// Version is that of the tables in files that are written now. Files of earlier versions stay
// readable: a column that they lack is NULL (see File.Columns).
const Version = 1

// table is a table of a file.
type table struct {
	name    string
	columns []tableColumn
}

type tableColumn struct{ name, kind string }

// Tables that are not those of one kind of record.
const (
	tablePackets    = "packets"
	tableKeys       = "keys"
	tablePaths      = "paths"
	tableSegments   = "segments"
	tableNodes      = "nodes"
	tableInterfaces = "interfaces"
)

// numbered is the first column of all tables of facts: the number of the transaction that wrote the
// row. Rollups are made of the rows with the numbers that they do not have yet.
const numbered = "batch UINTEGER"

// own are the tables that are not those of one kind of record. A packet is a row with the path as a
// number, and arrays with a value for each node of the path. Its time is that of the node at the index
// timed, the first one with a time. What many packets share is in the
// tables of keys, paths and segments of the same file, so that a file explains itself. There each has a
// small number, which is what rows have; the other number, of 64 bits, is the same in all files.
var own = []table{
	newTable(
		tablePackets,
		numbered,
		"time TIMESTAMP_NS",
		"source UTINYINT",
		"namespace USMALLINT",
		"key UINTEGER",
		"flow_id UINTEGER",
		"sequence UINTEGER",
		"path UINTEGER",
		"reason UTINYINT",
		"verdict UTINYINT",
		"length UINTEGER",
		"hop_limit UTINYINT",
		"delay_ns BIGINT",
		"timed UTINYINT",
		"held_ns UINTEGER[]",
		"since_ns BIGINT[]",
		"queue UINTEGER[]",
	),
	newTable(
		tableKeys,
		"number UINTEGER",
		"key UBIGINT",
		"source BLOB",
		"destination BLOB",
		"next_header UTINYINT",
		"source_port USMALLINT",
		"destination_port USMALLINT",
		"flow_label UINTEGER",
	),
	newTable(
		tablePaths,
		"number UINTEGER",
		"path UBIGINT",
		"namespace USMALLINT",
		"complete BOOLEAN",
		"exporter VARCHAR[]",
		"node UBIGINT[]",
		"role UTINYINT[]",
		"ingress UINTEGER[]",
		"egress UINTEGER[]",
		"hops SMALLINT[]",
		"segments UBIGINT[]",
	),
	newTable(
		tableSegments,
		"number UINTEGER",
		"segment UBIGINT",
		"namespace USMALLINT",
		"from_exporter VARCHAR",
		"from_node UBIGINT",
		"egress UINTEGER",
		"to_exporter VARCHAR",
		"to_node UBIGINT",
		"ingress UINTEGER",
		"hops SMALLINT",
	),
	newTable(tableNodes, "exporter VARCHAR", "node UBIGINT", "name VARCHAR"),
	newTable(tableInterfaces, "exporter VARCHAR", "ifindex UINTEGER", "name VARCHAR"),
	newTable("segment_1m", segmentRollup...), newTable("segment_1h", segmentRollup...),
	newTable("path_1m", pathRollup...), newTable("path_1h", pathRollup...),
	newTable("loss_1m", lossRollup...), newTable("loss_1h", lossRollup...),
	newTable("progress", "of VARCHAR", "upto UINTEGER"),
	newTable("about", "version UINTEGER", "opened TIMESTAMP_NS"),
}

// Rollups of a minute and of an hour. Buckets are those of exponential histograms of base 2 and
// scale 4: their index by Prometheus, and below it the one of delays that are not above 0. A minute
// may have several rows, of what came at different times: they are added up. part numbers the
// transactions that wrote them.
var (
	segmentRollup = []string{"part UINTEGER", "minute TIMESTAMP", "segment UINTEGER", "packets UBIGINT", "lost UBIGINT",
		"held_sum DOUBLE", "held_max BIGINT", "held_b SMALLINT[]", "held_n UBIGINT[]",
		"link_negative UBIGINT", "link_sum DOUBLE", "link_max BIGINT", "link_b SMALLINT[]", "link_n UBIGINT[]"}
	pathRollup = []string{
		"part UINTEGER",
		"minute TIMESTAMP",
		"path UINTEGER",
		"packets UBIGINT",
		"incomplete UBIGINT",
		"lost UBIGINT",
		"bytes UBIGINT",
		"delay_negative UBIGINT",
		"delay_sum DOUBLE",
		"delay_max BIGINT",
		"delay_b SMALLINT[]",
		"delay_n UBIGINT[]",
	}
	lossRollup = []string{
		"part UINTEGER",
		"minute TIMESTAMP",
		"flow_id BIGINT",
		"flow VARCHAR",
		"scope VARCHAR",
		"\"from\" BIGINT",
		"\"to\" BIGINT",
		"blocks UBIGINT",
		"measured UBIGINT",
		"sent DOUBLE",
		"lost DOUBLE",
	}
)

func newTable(name string, columns ...string) table {
	t := table{name: name}
	for _, c := range columns {
		at := strings.LastIndex(c, " ")
		t.columns = append(t.columns, tableColumn{strings.Trim(c[:at], `"`), c[at+1:]})
	}
	return t
}

// create is the statement that makes the table in an attached file.
func (t table) create(file string) string {
	var list []string
	for _, c := range t.columns {
		list = append(list, quoted(c.name)+" "+c.kind)
	}
	return "CREATE TABLE IF NOT EXISTS " + file + "." + quoted(t.name) + "(" + strings.Join(list, ", ") + ")"
}

// quoted is a name in SQL.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal is a text in SQL. Only names of files and settings become text in SQL; all that came over
// the network is a parameter or a value of an appender.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// unstored are the kinds of records that have no table of their own: paths are packets, and records
// about something else than IOAM, and the collector's own counters, are not kept.
var unstored = []string{record.KindPath, record.KindOther, record.KindOptions, record.KindStatistics, record.KindLost}

// kinds are the tables of kinds of records, by kind: a column for each field.
var kinds = func() map[string]table {
	all := map[string]table{}
	for _, k := range record.Kinds() {
		if slices.Contains(unstored, k.Name) {
			continue
		}
		t := table{name: strings.ReplaceAll(k.Name, "-", "_"), columns: newTable("", numbered).columns}
		t.columns = append(t.columns, columnsOf(k.Columns, "")...)
		all[k.Name] = t
	}
	return all
}()

// columnsOf are the columns of fields; those of an object have its key before their own.
func columnsOf(fields []record.Column, prefix string) (list []tableColumn) {
	for _, f := range fields {
		switch {
		case f.Key == "":
		case f.Form == "object":
			list = append(list, columnsOf(f.Columns, prefix+f.Key+"_")...)
		default:
			list = append(list, tableColumn{prefix + f.Key, kindOf(f.Form)})
		}
	}
	return list
}

// kindOf is the database's type of a form of JSON. Lists are JSON.
func kindOf(form string) string {
	switch form {
	case "number":
		return "BIGINT"
	case "boolean":
		return "BOOLEAN"
	case "time":
		return "TIMESTAMP_NS"
	case "base64":
		return "BLOB"
	default:
		return "VARCHAR"
	}
}

// tables are all tables of a file.
func tables() []table {
	list := slices.Clone(own)
	for _, k := range record.Kinds() {
		if t, ok := kinds[k.Name]; ok {
			list = append(list, t)
		}
	}
	return list
}
