// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"net"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// newOther copies a record.
func newOther(from origin, node string, data ipfix.DataRecord) *record.Other {
	o := &record.Other{
		Time: instant.Of(from.at), Node: node, Exporter: from.exporter.Addr, Domain: from.exporter.Domain,
		Template: data.Template.ID(), Options: data.Template.Scope() > 0, Elements: []record.ElementValue{},
	}
	for v := range data.Values() {
		name := fmt.Sprintf("%d/%d", v.Field.Enterprise, v.Field.ID)
		if v.Field.Element != nil {
			name = v.Field.Element.Name
		}
		o.Elements = append(o.Elements, record.ElementValue{Name: name, Value: plainValue(v)})
	}
	return o
}

// plainValue is a value for JSON.
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
