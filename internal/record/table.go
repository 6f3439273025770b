// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/waymark-net/waymark/ipfix"
)

// table declares the fields of records of type R, each once, in the order that
// JSON has them.
type table[R any] []column[R]

// column is a field: its JSON key, what it is for readers, its IPFIX elements, and
// how its value is found in a record.
type column[R any] struct {
	Column
	quoted []byte // "key":
	absent func(*R) bool
	null   bool
	append func([]byte, *R) []byte
	parse  func(*R, []byte) error

	blank   func(*R) // makes a value that is not available absent
	section section
	names   []element[R]                            // of IPFIX, in the order in which they are written
	put     func(conditions, []ipfix.Field) step[R] // for those names that conditions let in
}

// element is an information element that a field is written into, or read from.
type element[R any] struct {
	spec    string    // as ipfix.Registry.Field reads it
	when    condition // records have it
	foreign bool      // other exporters send it; we do not
	unread  bool      // says what another element says; it is not read
	taking[R]
}

// taking is how a value is read.
type taking[R any] struct {
	take func(*R, ipfix.Value)
	most int // octets; 0: as many as there are
}

// Column is what the reference says of a field.
type Column struct {
	Key      string // of JSON; "" when only IPFIX has the field
	Form     string // of the value in JSON
	Unit     string
	Meaning  string
	Elements []string // of IPFIX
	Columns  []Column // of an object, or of the objects in a list
}

// section is a part of an IPFIX record. JSON has the fields of a record in another
// order, and both orders are a contract.
type section uint8

const (
	sectionTime   section = iota // when it was observed
	sectionPacket                // of which packet
	sectionPlace                 // at which interfaces
	sectionHeader                // what the IOAM option says
	sectionHop                   // of a trace: which of its nodes, and what belongs to that
)

// field declares a field that both JSON and IPFIX may have. at finds its value.
func field[R, V any](key, unit, meaning string, at func(*R) *V, as codec[V]) column[R] {
	c := column[R]{
		Column: Column{Key: key, Form: as.form, Unit: unit, Meaning: meaning, Columns: as.columns},
		quoted: []byte(`"` + key + `":`),
		null:   as.null,
		append: func(b []byte, r *R) []byte { return as.append(b, at(r)) },
		parse:  func(r *R, raw []byte) error { return as.parse(at(r), raw) },
	}
	if as.absent != nil {
		c.absent = func(r *R) bool { return as.absent(at(r)) }
	}
	if as.blank != nil {
		c.blank = func(r *R) { as.blank(at(r)) }
	}
	if as.put != nil {
		c.put = func(_ conditions, fields []ipfix.Field) step[R] {
			put := as.put(fields)
			if len(fields) > 1 && !as.joint {
				put = repeated(as, fields)
			}
			return func(b []byte, r *R) []byte { return put(b, at(r)) }
		}
		c.names = []element[R]{{taking: taking[R]{take: func(r *R, v ipfix.Value) { as.take(at(r), v) }}}} // the model of those that ipfix names
	}
	return c
}

// repeated writes a value into each of several fields.
func repeated[V any](as codec[V], fields []ipfix.Field) step[V] {
	puts := make([]step[V], len(fields))
	for i := range fields {
		puts[i] = as.put(fields[i : i+1])
	}
	return func(b []byte, v *V) []byte {
		for _, put := range puts {
			b = put(b, v)
		}
		return b
	}
}

// hidden declares a field that only IPFIX has.
func hidden[R, V any](at func(*R) *V, as codec[V]) column[R] { return field("", "", "", at, as) }

// ipfix names the elements that the field is written into, one after another.
func (c column[R]) ipfix(in section, specs ...string) column[R] {
	take := c.names[0].taking
	c.section, c.names = in, nil
	for _, spec := range specs {
		c.names = append(c.names, element[R]{spec: spec, taking: take})
	}
	return c.list()
}

// list notes the elements for the reference.
func (c column[R]) list() column[R] {
	c.Elements = nil
	for _, e := range c.names {
		if !e.foreign {
			c.Elements = append(c.Elements, e.spec)
		}
	}
	return c
}

// when says which records have the elements.
func (c column[R]) when(w condition) column[R] {
	c.names = slices.Clone(c.names)
	for i := range c.names {
		c.names[i].when = w
	}
	return c
}

// firstRead says that only the first element is read: the others repeat it for
// collectors that know no more.
func (c column[R]) firstRead() column[R] {
	for i := range c.names[1:] {
		c.names[1+i].unread = true
	}
	return c
}

// lastRead is firstRead with the last element.
func (c column[R]) lastRead() column[R] {
	for i := range c.names[:len(c.names)-1] {
		c.names[i].unread = true
	}
	return c
}

// unread says that the elements repeat what others say.
func (c column[R]) unread() column[R] {
	for i := range c.names {
		c.names[i].unread = true
	}
	return c
}

// also names elements of other exporters that say the same.
func (c column[R]) also(names ...string) column[R] {
	for _, name := range names {
		c.names = append(c.names, element[R]{spec: name, foreign: true, taking: c.names[0].taking})
	}
	return c
}

// atMost bounds the octets that are read.
func (c column[R]) atMost(octets int) column[R] {
	for i := range c.names {
		c.names[i].most = octets
	}
	return c
}

// written are the elements that records have under conditions.
func (c *column[R]) written(has conditions) (list []element[R]) {
	for _, e := range c.names {
		if !e.foreign && e.spec != "" && has.allow(e.when) {
			list = append(list, e)
		}
	}
	return list
}

// inOrder are the columns in the order of IPFIX.
func (t table[R]) inOrder() table[R] {
	sorted := slices.Clone(t)
	slices.SortStableFunc(sorted, func(a, b column[R]) int { return int(a.section) - int(b.section) })
	return sorted
}

// specs are the field specifications of a template.
func (t table[R]) specs(has conditions) (list []string) {
	for _, c := range t.inOrder() {
		for _, e := range c.written(has) {
			list = append(list, e.spec)
		}
	}
	return list
}

// steps write a record into the fields of a template that has these specs.
func (t table[R]) steps(has conditions, fields []ipfix.Field) (list []step[R]) {
	for _, c := range t.inOrder() {
		if n := len(c.written(has)); n > 0 {
			list = append(list, c.put(has, fields[:n]))
			fields = fields[n:]
		}
	}
	return list
}

// takes are what reads the elements, by name.
func (t table[R]) takes() map[string]taking[R] {
	m := map[string]taking[R]{}
	for _, c := range t {
		for _, e := range c.names {
			if e.spec != "" && !e.unread {
				m[elementName(e.spec)] = e.taking
			}
		}
	}
	return m
}

// omission is what makes a field absent from records that none of the conditions
// are met by.
type omission[R any] struct {
	asked conditions
	blank func(*R)
}

// omissions are those of all fields that have conditions.
func (t table[R]) omissions() (list []omission[R]) {
	asked := map[string]conditions{} // by element: several fields may share one
	for _, c := range t {
		for _, e := range c.names {
			asked[e.spec] |= 1 << e.when
		}
	}
	for _, c := range t {
		if c.blank != nil && c.Key != "" && len(c.names) > 0 {
			list = append(list, omission[R]{asked[c.names[0].spec], c.blank})
		}
	}
	return list
}

// object is a value with fields of its own.
func object[P any](t table[P]) codec[P] {
	return codec[P]{
		form: "object", columns: t.describe(),
		append: func(b []byte, p *P) []byte { return t.appendJSON(b, "", p) },
		parse:  func(p *P, raw []byte) error { return t.parseJSON(p, raw) },
	}
}

// within declares an object, also the IPFIX elements of its fields. Where they are
// written, from finds it; where they are read, at does.
func within[R, P any](c column[R], t table[P], in section, from, at func(*R) *P) column[R] {
	c.section, c.names = in, nil
	for _, inner := range t.inOrder() {
		for _, e := range inner.names {
			if e.spec == "" {
				continue
			}
			c.names = append(c.names, element[R]{spec: e.spec, when: e.when, foreign: e.foreign, unread: e.unread,
				taking: taking[R]{func(r *R, v ipfix.Value) { e.take(at(r), v) }, e.most}})
		}
	}
	c.put = func(has conditions, fields []ipfix.Field) step[R] {
		steps := t.steps(has, fields)
		return func(b []byte, r *R) []byte {
			p := from(r)
			for _, put := range steps {
				b = put(b, p)
			}
			return b
		}
	}
	return c
}

// part makes columns of R of those of a part of it.
func part[R, P any](t table[P], at func(*R) *P) table[R] {
	out := make(table[R], len(t))
	for i, c := range t {
		o := column[R]{
			Column: c.Column, quoted: c.quoted, null: c.null, section: c.section,
			append: func(b []byte, r *R) []byte { return c.append(b, at(r)) },
			parse:  func(r *R, raw []byte) error { return c.parse(at(r), raw) },
		}
		if c.absent != nil {
			o.absent = func(r *R) bool { return c.absent(at(r)) }
		}
		if c.put != nil {
			o.put = func(has conditions, fields []ipfix.Field) step[R] {
				put := c.put(has, fields)
				return func(b []byte, r *R) []byte { return put(b, at(r)) }
			}
		}
		for _, e := range c.names {
			o.names = append(o.names, element[R]{spec: e.spec, when: e.when, foreign: e.foreign, unread: e.unread,
				taking: taking[R]{func(r *R, v ipfix.Value) { e.take(at(r), v) }, e.most}})
		}
		out[i] = o
	}
	return out
}

// appendJSON writes a record, or with no kind an object.
func (t table[R]) appendJSON(b []byte, kind string, r *R) []byte {
	b = append(b, '{')
	begin := len(b)
	if kind != "" {
		b = append(append(append(b, `"kind":"`...), kind...), '"')
	}
	for i := range t {
		c := &t[i]
		if c.Key == "" || c.absent != nil && c.absent(r) {
			continue
		}
		if len(b) > begin {
			b = append(b, ',')
		}
		b = c.append(append(b, c.quoted...), r)
	}
	return append(b, '}')
}

// parseJSON reads what appendJSON wrote. Keys that it does not know are skipped.
func (t table[R]) parseJSON(r *R, raw []byte) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return err
	}
	for i := range t {
		c := &t[i]
		value, ok := values[c.Key]
		if c.Key == "" || !ok || string(value) == "null" && !c.null {
			continue
		}
		if err := c.parse(r, value); err != nil {
			return fmt.Errorf("%s: %w", c.Key, err)
		}
	}
	return nil
}

// describe is the table for the reference.
func (t table[R]) describe() []Column {
	list := make([]Column, len(t))
	for i := range t {
		list[i] = t[i].Column
	}
	return list
}
