// SPDX-License-Identifier: Apache-2.0

package docgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// elements documents the information elements of package ipfix.
func elements() []byte {
	var b strings.Builder
	b.WriteString(`# IPFIX information elements

The information elements that package ` + "`ipfix`" + ` knows by name, with data types,
semantics and units of RFC 7012. A field has the number of octets that is given
here unless its template says otherwise: integers may have fewer (RFC 7011 §6.2),
octets and strings a fixed number.
`)
	for _, group := range []struct {
		title, about string
		elements     []ipfix.Element
	}{
		{"IANA", "As in IANA's registry.", ipfix.IANA()},
		{fmt.Sprintf("IOAM, enterprise %d", ipfix.EnterpriseIOAM),
			"The elements of the published exporter of IOAM data; IANA has none for IOAM. All\nones mean \"not available\" (RFC 9197 §4.4.2).", ipfix.IOAM()},
		{"Waymark, your enterprise", "Elements that neither IANA nor the published exporter has, under the enterprise\nnumber of the exporter's operator. The numbers do not change.", ipfix.Waymark(ipfix.EnterpriseExample)},
	} {
		fmt.Fprintf(
			&b,
			"\n## %s\n\n%s\n\n| number | element | type | octets | semantics | units | range | meaning |\n|---|---|---|---|---|---|---|---|\n",
			group.title,
			group.about,
		)
		slices.SortFunc(group.elements, func(a, b ipfix.Element) int { return cmp.Compare(a.ID, b.ID) })
		for _, e := range group.elements {
			fmt.Fprintf(&b, "| %d | `%s` | %s | %s | %s | %s | %s | %s |\n",
				e.ID, e.Name, e.Type, octets(e), e.Semantics, units(e), bounds(e), e.Description)
		}
	}
	records(&b)
	return []byte(b.String())
}

// records documents the templates of the exporter.
func records(b *strings.Builder) {
	b.WriteString(`
## Records

The records of ` + "`export: [{kind: ipfix}]`" + `. Templates of data records are made as
needed: one for each kind of record and set of fields, with numbers from 300 on.
If packets need more than 64 of these sets, further ones share a template with all
fields; those that the trace type, the flags and the packet lack are "not
available". Node data are as in the packet, in the order of the trace type's bits.
A number in brackets is a field's octets.
`)
	for _, f := range append(record.DataFormats(), record.OptionsFormats()...) {
		fmt.Fprintf(b, "\n### %s\n\n| field | when |\n|---|---|\n", f.Record)
		for _, field := range f.Fields {
			fmt.Fprintf(b, "| `%s` | %s |\n", field.Spec, field.When)
		}
	}
}

func octets(e ipfix.Element) string {
	if n := e.UsualLength(); n != ipfix.VariableLength {
		return fmt.Sprint(n)
	}
	return "variable"
}

func units(e ipfix.Element) string {
	if e.Units == ipfix.NoUnits {
		return ""
	}
	return e.Units.String()
}

func bounds(e ipfix.Element) string {
	if e.Range == (ipfix.Range{}) {
		return ""
	}
	return fmt.Sprintf("%d–%d", e.Range.Min, e.Range.Max)
}
