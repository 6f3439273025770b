// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"reflect"
	"strings"
	"sync"

	"github.com/goccy/go-yaml/ast"
)

// Field is one key of a struct.
type Field struct {
	Index        []int  // for reflect.Value.FieldByIndex
	Of           string // the value of the kind key that has this key; "" for any
	Key          string
	Was          string // the key's name before, which is still accepted; "": none
	Default      string
	HasDefault   bool
	Required     bool
	Optional     bool // without the key, the file means what no value expresses
	Unrestricted bool // and that is: any
}

// absentAny is the meaning of an absent key that would restrict something.
const absentAny = "any"

// differsEmpty reports whether an empty list differs from an absent one. A key without
// a value counts as an empty list only where absence means any: its author wanted to
// restrict something, and may have commented out the items.
func (f Field) differsEmpty(node ast.Node) bool {
	switch node.Type() {
	case ast.SequenceType:
		return f.Optional
	case ast.NullType:
		return f.Unrestricted
	default:
		return false
	}
}

// fieldsOf has the fields of each type, because reading tags takes long where there are many flows.
var fieldsOf sync.Map // of []Field, by reflect.Type

// Fields lists the keys of a struct type in the file's order, including those of inner
// structs that belong to one value of the key kind. The caller must not change them.
func Fields(t reflect.Type) []Field {
	if list, ok := fieldsOf.Load(t); ok {
		return list.([]Field)
	}
	list := readFields(t)
	fieldsOf.Store(t, list)
	return list
}

func readFields(t reflect.Type) []Field {
	var list []Field
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		if of, ok := tag.Lookup("of"); ok {
			for _, f := range Fields(t.Field(i).Type) {
				f.Index, f.Of = append([]int{i}, f.Index...), of
				list = append(list, f)
			}
		}
		key, ok := tag.Lookup("key")
		if !ok {
			continue
		}
		f := Field{
			Index:        []int{i},
			Key:          key,
			Was:          tag.Get("was"),
			Required:     tag.Get("required") == "true",
			Optional:     tag.Get("optional") != "",
			Unrestricted: tag.Get("optional") == absentAny,
		}
		f.Default, f.HasDefault = tag.Lookup("default")
		list = append(list, f)
	}
	return list
}

func keyList(known []Field) string { return strings.Join(keys(known), ", ") }

func keys(known []Field) []string {
	list := make([]string, len(known))
	for i, f := range known {
		list[i] = f.Key
	}
	return list
}
