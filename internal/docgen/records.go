// SPDX-License-Identifier: Apache-2.0

package docgen

import (
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/internal/record"
)

// fields documents the kinds of records and their fields.
func fields() []byte {
	var b strings.Builder
	b.WriteString(`# Fields of records

Every key of every kind of record, in the order of JSON, with the IPFIX elements
that have the same value. [Records in JSON](../records.md) has examples, and the
meaning of absent keys and ` + "`null`" + `. [IPFIX information elements](ipfix.md#records)
says which IPFIX records have a field. A collector reads the same elements.
[records.schema.json](records.schema.json) is the same as a JSON Schema (2020-12).

| ` + "`kind`" + ` | content | from |
|---|---|---|
`)
	for _, k := range record.Kinds() {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s |\n", k.Name, k.Name, k.Meaning, k.From)
	}
	for _, k := range record.Kinds() {
		fmt.Fprintf(&b, "\n## `%s`\n", k.Name)
		writeColumns(&b, k.Columns)
	}
	b.WriteString("\n## Packet\n\nIn `packet`.\n")
	writeColumns(&b, record.PacketColumns())
	b.WriteString(
		"\n## Node data\n\nIn `data` of a postcard and in `nodes` of a trace and of a path (RFC 9197 §4.4.2). Any of them can be `null`.\n",
	)
	writeColumns(&b, record.NodeDataColumns())
	return []byte(b.String())
}

func writeColumns(b *strings.Builder, columns []record.Column) {
	b.WriteString("\n| key | value | unit | meaning | IPFIX |\n|---|---|---|---|---|\n")
	writeRows(b, "", columns)
}

// writeRows writes a row for each key, also of what is within an object. Packets and
// node data have sections of their own.
func writeRows(b *strings.Builder, within string, columns []record.Column) {
	for _, c := range columns {
		if c.Key == "" {
			continue
		}
		own := c.Key == "packet" || c.Key == "data" && len(c.Columns) > 0 ||
			c.Key == "nodes" && within == "" && c.Columns[0].Key == record.NodeDataColumns()[0].Key
		elements := ""
		if len(c.Columns) == 0 && len(c.Elements) > 0 {
			elements = "`" + strings.Join(c.Elements, "`, `") + "`"
		}
		meaning := c.Meaning
		if c.Instead != "" {
			meaning = "Deprecated: read `" + within + c.Instead + "`. " + meaning
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s | %s | %s |\n", within, c.Key, c.Form, c.Unit, meaning, elements)
		if !own {
			writeRows(b, within+c.Key+".", c.Columns)
		}
	}
}
