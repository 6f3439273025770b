// SPDX-License-Identifier: Apache-2.0

package recordfilter

import (
	"sync"

	"github.com/expr-lang/expr/types"

	"github.com/waymark-net/waymark/internal/record"
)

// environment has the names that an expression may use, with their types: the JSON keys of all
// kinds of records, except those that are names of functions. The one that is, count, is that of
// a record about the reader itself.
var environment = sync.OnceValue(func() types.Map {
	all := shapes{"kind": {form: "text"}}
	for _, kind := range record.Kinds() {
		all.add(kind.Columns)
	}
	for _, name := range functions {
		delete(all, name)
	}
	return all.types()
})

// shape is what a value is: its form in JSON, and the fields of an object or of the objects in a
// list.
type shape struct {
	form   string
	fields shapes
}

// shapes are those of fields, by key.
type shapes map[string]*shape

// add joins the fields of two kinds of records. A field whose form differs between both has any form.
func (s shapes) add(columns []record.Column) {
	for _, c := range columns {
		if c.Key == "" {
			continue
		}
		of := s[c.Key]
		if of == nil {
			of = &shape{form: c.Form, fields: shapes{}}
			s[c.Key] = of
		}
		if simple(of.form) != simple(c.Form) {
			of.form = ""
		}
		of.fields.add(c.Columns)
	}
}

// simple is the form of a value in an expression: several are text there.
func simple(form string) string {
	switch form {
	case "hexadecimal", "time", "address", "base64":
		return "text"
	}
	return form
}

func (s shapes) types() types.Map {
	m := types.Map{}
	for key, of := range s {
		m[key] = of.asType()
	}
	return m
}

func (s *shape) asType() types.Type {
	switch simple(s.form) {
	case "number": // whole or not
		return types.Float64
	case "boolean":
		return types.Bool
	case "text":
		return types.String
	case "object":
		if len(s.fields) > 0 {
			return s.fields.types()
		}
	case "list":
		if len(s.fields) > 0 {
			return types.Array(s.fields.types())
		}
		return types.Array(types.Any)
	}
	return types.Any
}
