// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/waymark-net/waymark/ipfix"
)

// table declares the fields of records of type R, each once, in the order of JSON.
type table[R any] []column[R]

// column is a field of records of type R.
type column[R any] struct{ *row }

// rows are the fields of a table, without the type of its records.
type rows []*row

// row is a field: its JSON key, its description, its IPFIX elements, and how its value
// is found in a record.
type row struct {
	Column
	quoted []byte // "key":
	absent func(*opaque) bool
	null   bool
	append func([]byte, *opaque) []byte
	parse  func(*opaque, []byte) error

	blank   func(*opaque) // makes a value that is not available absent
	lasting bool          // see column.lasting
	section section
	names   []element                                    // of IPFIX, in the order in which they are written
	put     func(conditions, []ipfix.Field) step[opaque] // for the names that conditions allow
}

// element is an information element that a field is written into, or read from.
type element struct {
	spec    string    // as ipfix.Registry.Field reads it
	when    condition // records have it
	foreign bool      // other exporters send it; we do not
	unread  bool      // repeats another element, and is not read
	taking
}

// taking is how a value is read.
type taking struct {
	take func(*opaque, ipfix.Value)
	most int // octets; 0: no limit
}

// Column describes a field for the reference.
type Column struct {
	Key      string // of JSON; "" when only IPFIX has the field
	Form     string // of the value in JSON
	Unit     string
	Meaning  string
	Elements []string // of IPFIX
	Columns  []Column // of an object, or of the objects in a list
}

// section is a part of an IPFIX record. JSON has the fields of a record in another
// order; both orders are a contract.
type section uint8

const (
	sectionTime   section = iota // when it was observed
	sectionPacket                // of which packet
	sectionPlace                 // at which interfaces
	sectionHeader                // fields of the IOAM option
	sectionHop                   // of a trace: which of its nodes, and that node's data
)

// field declares a field that both JSON and IPFIX may have. at finds its value.
func field[R, V any](key, unit, meaning string, at func(*R) *V, as codec[V]) column[R] {
	return column[R]{newRow(Column{Key: key, Unit: unit, Meaning: meaning}, blindAt(at), blindCodec(as))}
}

func newRow(c Column, at func(*opaque) *opaque, as codec[opaque]) *row {
	c.Form, c.Columns = as.form, as.columns
	out := &row{
		Column: c,
		quoted: []byte(`"` + c.Key + `":`),
		null:   as.null,
		append: func(b []byte, r *opaque) []byte { return as.append(b, at(r)) },
		parse:  func(r *opaque, raw []byte) error { return as.parse(at(r), raw) },
	}
	if as.absent != nil {
		out.absent = func(r *opaque) bool { return as.absent(at(r)) }
	}
	if as.blank != nil {
		out.blank = func(r *opaque) { as.blank(at(r)) }
	}
	if as.put != nil {
		out.put = func(_ conditions, fields []ipfix.Field) step[opaque] {
			put := as.put(fields)
			if len(fields) > 1 && !as.joint {
				put = repeated(as, fields)
			}
			return func(b []byte, r *opaque) []byte { return put(b, at(r)) }
		}
		out.names = []element{{taking: taking{take: func(r *opaque, v ipfix.Value) { as.take(at(r), v) }}}} // the prototype of those that ipfix names
	}
	return out
}

// repeated writes a value into each of several fields.
func repeated(as codec[opaque], fields []ipfix.Field) step[opaque] {
	puts := make([]step[opaque], len(fields))
	for i := range fields {
		puts[i] = as.put(fields[i : i+1])
	}
	return func(b []byte, v *opaque) []byte {
		for _, put := range puts {
			b = put(b, v)
		}
		return b
	}
}

// hidden declares a field that only IPFIX has.
func hidden[R, V any](at func(*R) *V, as codec[V]) column[R] { return field("", "", "", at, as) }

// ipfix names the elements that the field is written into, in order.
func (c column[R]) ipfix(in section, specs ...string) column[R] {
	c.row.elements(in, specs)
	return c
}

func (r *row) elements(in section, specs []string) {
	take := r.names[0].taking
	r.section, r.names = in, nil
	for _, spec := range specs {
		r.names = append(r.names, element{spec: spec, taking: take})
	}
	r.list()
}

// list notes the elements for the reference.
func (r *row) list() {
	r.Elements = nil
	for _, e := range r.names {
		if !e.foreign {
			r.Elements = append(r.Elements, e.spec)
		}
	}
}

// listed adds the elements of the field's parts to the reference.
func (c column[R]) listed() column[R] {
	c.row.list()
	return c
}

// carriedBy notes, for the reference, an element that another field is written into, and
// this one with it.
func (c column[R]) carriedBy(name string) column[R] {
	c.row.Elements = []string{name}
	return c
}

// when says which records have the elements.
func (c column[R]) when(w condition) column[R] {
	for i := range c.names {
		c.names[i].when = w
	}
	return c
}

// firstRead says that only the first element is read: the others repeat it for
// collectors that know only those.
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

// lasting says that most records have the value of the record before: postcards with
// the same origin have it in common.
func (c column[R]) lasting() column[R] {
	c.row.lasting = true
	return c
}

// unread says that the elements repeat what others say.
func (c column[R]) unread() column[R] {
	for i := range c.names {
		c.names[i].unread = true
	}
	return c
}

// also names elements of other exporters with the same meaning.
func (c column[R]) also(names ...string) column[R] {
	for _, name := range names {
		c.names = append(c.names, element{spec: name, foreign: true, taking: c.names[0].taking})
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

// written lists the elements that records with these conditions have.
func (c *row) written(has conditions) (list []element) {
	for _, e := range c.names {
		if !e.foreign && e.spec != "" && has.allow(e.when) {
			list = append(list, e)
		}
	}
	return list
}

// inOrder are the columns in the order of IPFIX.
func (t rows) inOrder() rows {
	sorted := slices.Clone(t)
	slices.SortStableFunc(sorted, func(a, b *row) int { return int(a.section) - int(b.section) })
	return sorted
}

// specs are the field specifications of a template.
func (t rows) specs(has conditions) (list []string) {
	for _, c := range t.inOrder() {
		for _, e := range c.written(has) {
			list = append(list, e.spec)
		}
	}
	return list
}

// steps write a record into the fields of a template that has these specs.
func (t rows) steps(has conditions, fields []ipfix.Field) (list []step[opaque]) {
	for _, c := range t.inOrder() {
		if n := len(c.written(has)); n > 0 {
			list = append(list, c.put(has, fields[:n]))
			fields = fields[n:]
		}
	}
	return list
}

// lasting are the first consecutive steps whose fields last.
func (t rows) lasting(has conditions) (from, to int) {
	n := 0
	for _, c := range t.inOrder() {
		if len(c.written(has)) == 0 {
			continue
		}
		switch {
		case c.lasting && to == 0:
			from, to = n, n+1
		case c.lasting && to == n:
			to = n + 1
		}
		n++
	}
	return from, to
}

// takes are the functions that read the elements, by name.
func (t rows) takes() map[string]taking {
	m := map[string]taking{}
	for _, c := range t {
		for _, e := range c.names {
			if e.spec != "" && !e.unread {
				m[elementName(e.spec)] = e.taking
			}
		}
	}
	return m
}

// omission makes a field absent from records that meet none of the conditions.
type omission struct {
	asked conditions
	blank func(*opaque)
}

// omissions are the omissions of all fields that have conditions.
func (t rows) omissions() (list []omission) {
	asked := map[string]conditions{} // by element: several fields may share one
	for _, c := range t {
		for _, e := range c.names {
			asked[e.spec] |= 1 << e.when
		}
	}
	for _, c := range t {
		if c.blank != nil && c.Key != "" && len(c.names) > 0 {
			list = append(list, omission{asked[c.names[0].spec], c.blank})
		}
	}
	return list
}

// object is a value with fields of its own.
func object[P any](t table[P]) codec[P] { return sighted[P](t.rows().object()) }

func (t rows) object() codec[opaque] {
	return codec[opaque]{
		form: "object", columns: t.describe(),
		append: func(b []byte, p *opaque) []byte { return t.appendJSON(b, "", p) },
		parse:  func(p *opaque, raw []byte) error { return t.parseJSON(p, raw) },
	}
}

// within declares an object, including the IPFIX elements of its fields. from finds the
// object to write them, at finds it to read them.
func within[R, P any](c column[R], t table[P], in section, from, at func(*R) *P) column[R] {
	c.row.contain(t.rows(), in, blindAt(from), blindAt(at))
	return c
}

func (r *row) contain(t rows, in section, from, at func(*opaque) *opaque) {
	r.section, r.names = in, nil
	for _, inner := range t.inOrder() {
		for _, e := range inner.names {
			if e.spec != "" {
				r.names = append(r.names, e.at(at))
			}
		}
	}
	r.put = func(has conditions, fields []ipfix.Field) step[opaque] {
		steps := t.steps(has, fields)
		return func(b []byte, r *opaque) []byte {
			p := from(r)
			for _, put := range steps {
				b = put(b, p)
			}
			return b
		}
	}
}

// at turns an element of a part into one of the whole.
func (e element) at(at func(*opaque) *opaque) element {
	take := e.take
	e.take = func(r *opaque, v ipfix.Value) { take(at(r), v) }
	return e
}

// part turns the columns of a part of R into columns of R.
func part[R, P any](t table[P], at func(*R) *P) table[R] {
	return ofRows[R](t.rows().part(blindAt(at)))
}

func (t rows) part(at func(*opaque) *opaque) rows {
	out := make(rows, len(t))
	for i, c := range t {
		o := &row{
			Column: c.Column, quoted: c.quoted, null: c.null, section: c.section,
			append: func(b []byte, r *opaque) []byte { return c.append(b, at(r)) },
			parse:  func(r *opaque, raw []byte) error { return c.parse(at(r), raw) },
		}
		if c.absent != nil {
			o.absent = func(r *opaque) bool { return c.absent(at(r)) }
		}
		if c.put != nil {
			o.put = func(has conditions, fields []ipfix.Field) step[opaque] {
				put := c.put(has, fields)
				return func(b []byte, r *opaque) []byte { return put(b, at(r)) }
			}
		}
		for _, e := range c.names {
			o.names = append(o.names, e.at(at))
		}
		out[i] = o
	}
	return out
}

// appendJSON writes a record of the table's type.
func (t table[R]) appendJSON(b []byte, kind string, r *R) []byte {
	return t.rows().appendJSON(b, kind, blind(r))
}

// parseJSON reads what appendJSON wrote.
func (t table[R]) parseJSON(r *R, raw []byte) error { return t.rows().parseJSON(blind(r), raw) }

// appendJSON writes a record, or without a kind an object.
func (t rows) appendJSON(b []byte, kind string, r *opaque) []byte {
	b = append(b, '{')
	begin := len(b)
	if kind != "" {
		b = append(append(append(b, `"kind":"`...), kind...), '"')
	}
	for _, c := range t {
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
func (t rows) parseJSON(r *opaque, raw []byte) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return err
	}
	for _, c := range t {
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
func (t rows) describe() []Column {
	list := make([]Column, len(t))
	for i := range t {
		list[i] = t[i].Column
	}
	return list
}
