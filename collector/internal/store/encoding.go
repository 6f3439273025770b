// SPDX-License-Identifier: Apache-2.0

package store

import (
	"database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// row is the encoding of records as rows of their kind's table: a record.Visitor.
type row struct {
	place  map[string]int // of columns, by their names
	values []driver.Value
	prefix string   // of the fields of the objects that are open
	before []string // the prefixes that it had
	list   items    // the list that is open
	column *record.Column
	time   time.Time // the record's, its field of this name
}

func newRow(t table) *row {
	r := &row{place: map[string]int{}, values: make([]driver.Value, len(t.columns))}
	for i, c := range t.columns {
		r.place[c.name] = i
	}
	return r
}

// fill makes the row of a record. It is valid until the next one.
func (r *row) fill(batch uint32, of record.Record) []driver.Value {
	clear(r.values)
	r.values[0], r.time = batch, time.Time{}
	record.Walk(of, r)
	return r.values
}

func (r *row) set(c *record.Column, value driver.Value) {
	if i, ok := r.place[r.prefix+c.Key]; ok {
		r.values[i] = value
	}
}

// Null leaves a value out.
func (r *row) Null(c *record.Column) {
	if r.list.open() {
		r.list.add(c, "null")
	}
}

// Bool is a truth value.
func (r *row) Bool(c *record.Column, v bool) {
	if r.list.open() {
		r.list.add(c, strconv.FormatBool(v))
		return
	}
	r.set(c, v)
}

// Uint is a number; the database's greatest one stands for greater ones.
func (r *row) Uint(c *record.Column, v uint64) {
	if r.list.open() {
		r.list.add(c, strconv.FormatUint(v, 10))
		return
	}
	r.set(c, int64(min(v, math.MaxInt64)))
}

// Int is a number.
func (r *row) Int(c *record.Column, v int64) {
	if r.list.open() {
		r.list.add(c, strconv.FormatInt(v, 10))
		return
	}
	r.set(c, v)
}

// Float is a fraction. Outside of lists it is left out: it is the quotient of two other fields.
func (r *row) Float(c *record.Column, v float64) {
	if r.list.open() {
		r.list.add(c, strconv.FormatFloat(v, 'g', -1, 64))
	}
}

// Text is a text.
func (r *row) Text(c *record.Column, v string) {
	if r.list.open() {
		r.list.text(c, v)
		return
	}
	r.set(c, v)
}

// Hex is a number in hexadecimal, as in JSON.
func (r *row) Hex(c *record.Column, v uint64, digits int) {
	r.Text(c, fmt.Sprintf("0x%0*x", digits, v))
}

// Time is a point in time, if the database has it: from 1677 to 2262.
func (r *row) Time(c *record.Column, v time.Time) {
	if r.list.open() {
		r.list.text(c, instant.Format(v))
		return
	}
	if !storable(v) {
		return
	}
	if r.prefix == "" && c.Key == "time" {
		r.time = v
	}
	r.set(c, v)
}

// storable reports whether nanoseconds since 1970 have room for a time.
func storable(t time.Time) bool { return t.Year() >= 1678 && t.Year() <= 2261 }

// Address is an address as text.
func (r *row) Address(c *record.Column, v netip.Addr) {
	if v.IsValid() {
		r.Text(c, v.String())
	} else {
		r.Null(c)
	}
}

// Octets are bytes.
func (r *row) Octets(c *record.Column, v []byte) {
	if r.list.open() {
		r.list.text(c, base64.StdEncoding.EncodeToString(v))
		return
	}
	r.set(c, v)
}

// BeginObject opens an object. One whose keys depend on the record has a column for itself, in JSON.
func (r *row) BeginObject(c *record.Column) {
	if r.list.open() {
		r.list.begin(c, '{')
		return
	}
	if _, ok := r.place[r.prefix+c.Key]; ok {
		r.column = c
		r.list.begin(nil, '{')
		return
	}
	r.before = append(r.before, r.prefix)
	r.prefix += c.Key + "_"
}

// EndObject closes it.
func (r *row) EndObject() {
	if r.list.open() {
		r.list.end('}')
		r.closed()
		return
	}
	last := len(r.before) - 1
	r.prefix, r.before = r.before[last], r.before[:last]
}

// BeginList opens a list.
func (r *row) BeginList(c *record.Column) {
	if !r.list.open() {
		r.column = c
		r.list.begin(nil, '[')
		return
	}
	r.list.begin(c, '[')
}

// EndList closes it.
func (r *row) EndList() {
	r.list.end(']')
	r.closed()
}

// closed takes the list or object as a value if it is the outermost one.
func (r *row) closed() {
	if !r.list.open() {
		r.set(r.column, string(r.list.octets))
		r.list.octets = r.list.octets[:0]
	}
}

// items is a list in JSON.
type items struct {
	octets []byte
	begun  []bool // of the lists and objects that are open, whether they have something
}

func (l *items) open() bool { return len(l.begun) > 0 }

// add adds a value that is JSON.
func (l *items) add(c *record.Column, value string) {
	if last := len(l.begun) - 1; last >= 0 {
		if l.begun[last] {
			l.octets = append(l.octets, ',')
		}
		l.begun[last] = true
	}
	if c != nil {
		l.octets = append(append(l.octets, asJSON(c.Key)...), ':')
	}
	l.octets = append(l.octets, value...)
}

func (l *items) text(c *record.Column, value string) { l.add(c, asJSON(value)) }

func (l *items) begin(c *record.Column, bracket byte) {
	l.add(c, string(bracket))
	l.begun = append(l.begun, false)
}

func (l *items) end(bracket byte) {
	l.octets = append(l.octets, bracket)
	l.begun = l.begun[:len(l.begun)-1]
}

// asJSON is a text in JSON.
func asJSON(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return `""` // no text is like this
	}
	return string(b)
}
