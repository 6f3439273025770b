// SPDX-License-Identifier: Apache-2.0

package names

import (
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/waymark-net/waymark/internal/api"
)

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// answers lists the keys of what an agent answers to each method of its client, with their types. The --json of
// `waymark status` and others is such an answer. A type that writes its own JSON, as those of the configuration do, is
// one value; records, which are octets here, have files of their own among what is frozen.
func answers() (list []string, _ error) {
	client := reflect.TypeFor[*api.Client]()
	for method := range client.Methods() {
		for i := range method.Type.NumOut() {
			list = append(list, keys(method.Name, method.Type.Out(i), nil)...)
		}
		for i := range method.Type.NumIn() {
			if in := method.Type.In(i); in.Kind() == reflect.Func && in.NumIn() == 1 { // it gets each of many answers
				list = append(list, keys(method.Name, in.In(0), nil)...)
			}
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the client of the agent's API has no answers")
	}
	return list, nil
}

// keys lists what is in a type, below a path; within are the types around it.
func keys(path string, of reflect.Type, within []reflect.Type) (list []string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if own := reflect.PointerTo(of); own.Implements(jsonMarshaler) || own.Implements(textMarshaler) {
		return nil
	}
	switch of.Kind() {
	case reflect.Slice, reflect.Array:
		return keys(path+"[]", of.Elem(), within)
	case reflect.Map:
		return keys(path+"{}", of.Elem(), within)
	case reflect.Struct:
	default:
		return nil
	}
	for _, outer := range within {
		if outer == of { // a tree
			return nil
		}
	}
	within = append(within, of)
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
			continue
		case name == "" && field.Anonymous:
			list = append(list, keys(path, field.Type, within)...)
			continue
		case name == "":
			name = field.Name
		}
		at := path + "." + name
		list = append(list, at+" "+kind(field.Type))
		list = append(list, keys(at, field.Type, within)...)
	}
	return list
}

// kind is what a program that reads JSON sees of a type.
func kind(of reflect.Type) string {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch own := reflect.PointerTo(of); {
	case own.Implements(jsonMarshaler):
		return "value"
	case own.Implements(textMarshaler):
		return "string"
	}
	switch of.Kind() {
	case reflect.Slice, reflect.Array:
		if of.Elem().Kind() == reflect.Uint8 {
			return "string"
		}
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Interface:
		return "any"
	default:
		return "number"
	}
}
