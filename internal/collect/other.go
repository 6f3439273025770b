// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// newOther copies a record.
func newOther(from origin, node string, data ipfix.DataRecord, now time.Time) *record.Other {
	lists := from.session.Lists(from.feed.Domain, now)
	return &record.Other{
		Time: instant.Of(from.at), Node: node, Exporter: from.exporter.Addr, Domain: from.exporter.Domain,
		Template: data.Template.ID(), Options: data.Template.Scope() > 0, Elements: elementsOf(data, lists, 0),
	}
}

// maxDepth is how deep lists in lists are read. Deeper ones are shown as octets.
const maxDepth = 4

func elementsOf(data ipfix.DataRecord, lists ipfix.ListReader, depth int) []record.ElementValue {
	list := []record.ElementValue{}
	for v := range data.Values() {
		name := fmt.Sprintf("%d/%d", v.Field.Enterprise, v.Field.ID)
		if v.Field.Element != nil {
			name = v.Field.Element.Name
		}
		list = append(list, record.ElementValue{Name: name, Value: valueOf(v, lists, depth)})
	}
	return list
}

// valueOf is a value for JSON. Lists (RFC 6313) have values, or records with their
// elements.
func valueOf(v ipfix.Value, lists ipfix.ListReader, depth int) any {
	if depth >= maxDepth {
		return plainValue(v)
	}
	if l, ok := lists.Values(v); ok {
		values := []any{}
		for each := range l.Values() {
			values = append(values, valueOf(each, lists, depth+1))
		}
		return values
	}
	if l, ok := lists.Records(v); ok && l.Template != nil {
		return recordsOf([]any{}, l, lists, depth)
	}
	if l, ok := lists.Sets(v); ok && !slices.ContainsFunc(l.Sets, func(set ipfix.RecordList) bool { return set.Template == nil }) {
		records := []any{}
		for _, set := range l.Sets {
			records = recordsOf(records, set, lists, depth)
		}
		return records
	}
	return plainValue(v)
}

func recordsOf(records []any, l ipfix.RecordList, lists ipfix.ListReader, depth int) []any {
	for data := range l.Records() {
		records = append(records, elementsOf(data, lists, depth+1))
	}
	return records
}

// plainValue is a value that is no list.
func plainValue(v ipfix.Value) any {
	if n, ok := v.Uint(); ok {
		return n
	}
	if n, ok := v.Int(); ok {
		return n
	}
	if f, ok := v.Float(); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
		return f
	}
	if b, ok := v.Bool(); ok {
		return b
	}
	if a, ok := v.Addr(); ok {
		return a.String()
	}
	if m, ok := v.MAC(); ok {
		return net.HardwareAddr(m[:]).String()
	}
	if s, ok := v.Text(); ok {
		return s
	}
	if t, ok := v.Time(); ok && t.Year() <= 9999 {
		if len(bytes.Trim(v.Octets, "\x00")) == 0 {
			return nil // the exporter does not know it
		}
		return instant.Format(t)
	}
	return hex.EncodeToString(v.Octets)
}
