// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ipfix"
)

// Other is a data record that is not about IOAM, or an options record, with its
// elements as received. Its JSON names are a contract: they are added to, never
// changed.
type Other struct {
	Options  bool         // it is an options record
	Time     instant.Time // when it was exported
	Node     string
	Exporter netip.Addr
	Domain   uint32 // Observation Domain ID
	Template ipfix.TemplateID
	Elements []ElementValue // in the template's order
}

// ElementValue is a value of an information element: a number (uint64, int64 or float64),
// a boolean or a text; octets in hexadecimal; of a list (RFC 6313) a []any of values, or of
// records, each a []ElementValue. Nil is not known.
type ElementValue struct {
	Name  string // ENTERPRISE/NUMBER where the registry has none
	Value any
}

// Kind is "options" for an options record, else "record".
func (o *Other) Kind() string {
	if o.Options {
		return KindOptions
	}
	return KindOther
}

// others declares the fields of an Other.
var others = table[*Other]{
	field("time", "", "When it was exported.", func(o *Other) *instant.Time { return &o.Time }, kept(moment())),
	field("node", "", meaningNode, func(o *Other) *string { return &o.Node }, present(textual())),
	field("exporter", "", "Address from which it came.", func(o *Other) *netip.Addr { return &o.Exporter }, address()),
	field("domain", "", "Observation Domain ID.", func(o *Other) *uint32 { return &o.Domain }, number[uint32]()),
	field("template", "", "Number of its template.", func(o *Other) *ipfix.TemplateID { return &o.Template }, number[ipfix.TemplateID]()),
	field(
		"elements",
		"",
		"Its elements, in the template's order.",
		func(o *Other) *[]ElementValue { return &o.Elements },
		list(object(elementTable)),
	),
}

var elementTable = table[*ElementValue]{
	field(
		"name",
		"",
		"Name of the element; `ENTERPRISE/NUMBER` where it is not known.",
		func(e *ElementValue) *string { return &e.Name },
		textual(),
	),
	field(
		"value",
		"",
		"A number, a boolean or a text; octets in hexadecimal. Of a list (RFC 6313) its values, or its records, each a list of elements.",
		func(e *ElementValue) *any { return &e.Value },
		anything("number, boolean, text or list"),
	),
}

// Text is the record as a line of readable text.
func (o *Other) Text() string {
	var b strings.Builder
	name := Printable(o.Node)
	if name == "" {
		name = o.Exporter.String()
	}
	fmt.Fprintf(&b, "%s  %s  %s of domain %d, template %d:", o.Time.UTC().Format(time.RFC3339), name, o.Kind(), o.Domain, o.Template)
	for _, e := range o.Elements {
		fmt.Fprintf(&b, " %s=%s", e.Name, Printable(fmt.Sprint(e.Value)))
	}
	return b.String() + "\n"
}

// Printable makes a name safe to show: some characters control a terminal.
func Printable(name string) string { return nodenames.Printable(name) }
