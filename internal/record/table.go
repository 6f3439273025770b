// SPDX-License-Identifier: Apache-2.0

package record

import (
	"slices"

	"github.com/waymark-net/waymark/ipfix"
)

// table declares the fields of records, each once, in the order of JSON. R is the type of a
// pointer to one: see codec.
type table[R any] []column[R]

// column is a field of records.
type column[R any] struct {
	*row
	put func(conditions, []ipfix.Field) step[R] // writes the names that conditions allow; nil: IPFIX cannot
}

// rows are the fields of a table, without the type of its records.
type rows []*row

// row is a field: its description, how its value is found in a record, what it is to
// encodings, and its elements of IPFIX.
type row struct {
	Column
	coding
	at func(any) any // the value in a record, both pointers

	lasting bool // see column.lasting
	section section
	names   []element // of IPFIX, in the order in which they are written
}

// rows are the table's fields.
func (t table[R]) rows() rows {
	list := make(rows, len(t))
	for i := range t {
		list[i] = t[i].row
	}
	return list
}

// element is an information element that a field is written into, or read from.
type element struct {
	spec      string    // as ipfix.Registry.Field reads it
	condition condition // records have it
	foreign   bool      // other exporters send it; we do not
	unread    bool      // repeats another element, and is not read
	taking
}

// taking is how a value is read into a record, a pointer.
type taking struct {
	readValue func(any, ipfix.Value)
	most      int // octets; 0: no limit
}

// Column describes a field, for encodings and for the reference.
type Column struct {
	Key      string // in JSON; "" when only IPFIX has the field
	Form     string // of the value in JSON
	Unit     string
	Meaning  string
	Elements []string // of IPFIX
	Instead  string   // the key of the field to read instead of this one, which is deprecated
	Columns  []Column // of an object, or of the objects in a list
	Null     bool     // the value may be null in JSON
	Optional bool     // the key may be absent in JSON

	quoted []byte // "key":
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
func field[R, V any](key, unit, meaning string, at func(R) V, as codec[V]) column[R] {
	c := column[R]{row: newRow(key, unit, meaning, func(r any) any { return at(r.(R)) }, as.coding, as.readValue)}
	if as.put != nil {
		c.put = func(_ conditions, fields []ipfix.Field) step[R] {
			put := as.into(fields)
			return func(b []byte, r R) []byte { return put(b, at(r)) }
		}
	}
	return c
}

func newRow(key, unit, meaning string, at func(any) any, as coding, setValue func(any, ipfix.Value) bool) *row {
	out := &row{
		Column: *newColumn(key),
		coding: as, at: at,
	}
	out.Unit, out.Meaning, out.Form, out.Columns = unit, meaning, as.form, as.columns
	out.Null, out.Optional = as.null, as.absent != nil
	if setValue != nil { // the prototype of those that ipfix names
		out.names = []element{{taking: taking{readValue: func(r any, v ipfix.Value) { setValue(at(r), v) }}}}
	}
	return out
}

func newColumn(key string) *Column {
	return &Column{Key: key, quoted: append(appendString(nil, key), ':')}
}

// hidden declares a field that only IPFIX has.
func hidden[R, V any](at func(R) V, as codec[V]) column[R] { return field("", "", "", at, as) }

// ipfix names the elements that the field is written into, in order.
func (c column[R]) ipfix(in section, specs ...string) column[R] {
	c.row.elements(in, specs)
	return c
}

func (r *row) elements(in section, specs []string) {
	prototype := r.names[0].taking
	r.section, r.names = in, nil
	for _, spec := range specs {
		r.names = append(r.names, element{spec: spec, taking: prototype})
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

// deprecatedFor names the field that has replaced this one. The deprecated field stays for programs that read it.
func (c column[R]) deprecatedFor(key string) column[R] {
	c.row.Instead = key
	return c
}

// when says which records have the elements.
func (c column[R]) when(w condition) column[R] {
	for i := range c.names {
		c.names[i].condition = w
	}
	return c
}

// firstRead says that only the first element is read: the others repeat its value, for
// collectors that do not know the first.
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
		if !e.foreign && e.spec != "" && has.allow(e.condition) {
			list = append(list, e)
		}
	}
	return list
}

// order is the order of the fields in IPFIX.
func (t rows) order() []int {
	list := make([]int, len(t))
	for i := range list {
		list[i] = i
	}
	slices.SortStableFunc(list, func(a, b int) int { return int(t[a].section) - int(t[b].section) })
	return list
}

// inOrder are the fields in the order of IPFIX.
func (t rows) inOrder() rows {
	sorted := make(rows, len(t))
	for to, from := range t.order() {
		sorted[to] = t[from]
	}
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
func (t table[R]) steps(has conditions, fields []ipfix.Field) (list []step[R]) {
	for _, i := range t.rows().order() {
		if n := len(t[i].written(has)); n > 0 {
			list = append(list, t[i].put(has, fields[:n]))
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
	blank func(any)
}

// omissions are the omissions of all fields that have conditions.
func (t rows) omissions() (list []omission) {
	asked := map[string]conditions{} // by element: several fields may share one
	for _, c := range t {
		for _, e := range c.names {
			asked[e.spec] |= 1 << e.condition
		}
	}
	for _, c := range t {
		if c.blank != nil && c.Key != "" && len(c.names) > 0 {
			list = append(list, omission{asked[c.names[0].spec], func(r any) { c.blank(c.at(r)) }})
		}
	}
	return list
}

// within declares an object, including the IPFIX elements of its fields. To write fields, from
// finds the object in a record; to read them, at does.
func within[R, P any](c column[R], t table[P], in section, from, at func(R) P) column[R] {
	c.row.contain(t.rows(), in, func(r any) any { return at(r.(R)) })
	c.put = func(has conditions, fields []ipfix.Field) step[R] {
		steps := t.steps(has, fields)
		return func(b []byte, r R) []byte {
			p := from(r)
			for _, put := range steps {
				b = put(b, p)
			}
			return b
		}
	}
	return c
}

func (r *row) contain(t rows, in section, at func(any) any) {
	r.section, r.names = in, nil
	for _, inner := range t.inOrder() {
		for _, e := range inner.names {
			if e.spec != "" {
				r.names = append(r.names, e.of(at))
			}
		}
	}
}

// of turns an element of a part into one of the whole.
func (e element) of(at func(any) any) element {
	setValue := e.readValue
	e.readValue = func(r any, v ipfix.Value) { setValue(at(r), v) }
	return e
}

// part turns the columns of a part of R into columns of R.
func part[R, P any](t table[P], at func(R) P) table[R] {
	of := func(r any) any { return at(r.(R)) }
	out := make(table[R], len(t))
	for i, c := range t {
		out[i].row = c.row.of(of)
		if c.put != nil {
			out[i].put = func(has conditions, fields []ipfix.Field) step[R] {
				put := c.put(has, fields)
				return func(b []byte, r R) []byte { return put(b, at(r)) }
			}
		}
	}
	return out
}

// of turns a field of a part into one of the whole.
func (r *row) of(at func(any) any) *row {
	whole, within := *r, r.at
	whole.at = func(r any) any { return within(at(r)) }
	whole.lasting, whole.names = false, nil
	for _, e := range r.names {
		whole.names = append(whole.names, e.of(at))
	}
	return &whole
}

// describe is the table for the reference.
func (t rows) describe() []Column {
	list := make([]Column, len(t))
	for i := range t {
		list[i] = t[i].Column
	}
	return list
}
