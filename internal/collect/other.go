// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ipfix"
)

// OtherRecord is a data record that is not about IOAM, or an options record:
// its elements as they are. Its JSON names are a contract: they are added to,
// never changed.
type OtherRecord struct {
	Kind     string           `json:"kind"` // "record", "options" for an options record
	Time     instant.Time     `json:"time"` // when it was exported
	Node     string           `json:"node,omitempty"`
	Exporter netip.Addr       `json:"exporter"`
	Domain   uint32           `json:"domain"` // Observation Domain ID
	Template ipfix.TemplateID `json:"template"`
	Elements []ElementValue   `json:"elements"` // in the template's order
}

// ElementValue is a value of an information element: a number, a boolean or a
// text; octets in hexadecimal.
type ElementValue struct {
	Name  string `json:"name"` // ENTERPRISE/NUMBER where the registry has none
	Value any    `json:"value"`
}

// newOtherRecord copies a record.
func newOtherRecord(from origin, node string, record ipfix.DataRecord) *OtherRecord {
	o := &OtherRecord{
		Kind: "record", Time: instant.Of(from.at), Node: node, Exporter: from.exporter.Addr, Domain: from.exporter.Domain,
		Template: record.Template.ID(), Elements: []ElementValue{},
	}
	if record.Template.Scope() > 0 {
		o.Kind = "options"
	}
	for v := range record.Values() {
		name := fmt.Sprintf("%d/%d", v.Field.Enterprise, v.Field.ID)
		if v.Field.Element != nil {
			name = v.Field.Element.Name
		}
		o.Elements = append(o.Elements, ElementValue{name, plainValue(v)})
	}
	return o
}

// plainValue is a value as JSON has it.
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
		return instant.Format(t)
	}
	return hex.EncodeToString(v.Octets)
}

// Text is the record for people, in a line.
func (o *OtherRecord) Text() string {
	var b strings.Builder
	name := o.Node
	if name == "" {
		name = o.Exporter.String()
	}
	fmt.Fprintf(&b, "%s  %s  %s of domain %d, template %d:", o.Time.UTC().Format(time.RFC3339), name, o.Kind, o.Domain, o.Template)
	for _, e := range o.Elements {
		fmt.Fprintf(&b, " %s=%s", e.Name, printable(fmt.Sprint(e.Value)))
	}
	return b.String() + "\n"
}
