// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// KeyTexts say what the keys of a file mean, by their path in the reference, such as
// export[].tls.key. The text of "export[].tls, absent" says what the file means without that key, where
// no value expresses it. They are apart from the structs, so that a program that only reads the file
// does not carry them.
type KeyTexts map[string]string

// absent follows a key's path where the text is of its absence.
const absent = ", absent"

// With is these texts and those of a section, whose keys have their paths from there.
func (t KeyTexts) With(section string, more KeyTexts) KeyTexts {
	all := maps.Clone(t)
	for key, text := range more {
		all[Join(section, key)] = text
	}
	return all
}

// CheckTexts lists the keys of a file without a text, and the texts without a key; file points to
// its struct.
func (format *Format) CheckTexts(file any, texts KeyTexts) (problems []string) {
	known := map[string]bool{}
	format.walkKeys("", reflect.TypeOf(file).Elem(), func(path string, f Field) {
		known[path] = true
		if texts[path] == "" {
			problems = append(problems, fmt.Sprintf("the key %s has no text", path))
		}
		if f.Optional && !f.Unrestricted {
			known[path+absent] = true
			if texts[path+absent] == "" {
				problems = append(problems, fmt.Sprintf("no text says what the absence of the key %s means", path))
			}
		}
	})
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		if !known[path] {
			problems = append(problems, fmt.Sprintf("the text of %s has no key", path))
		}
	}
	return problems
}

// walkKeys calls see with each key of a struct, and of the structs in it, and its path.
func (format *Format) walkKeys(section string, t reflect.Type, see func(path string, f Field)) {
	for _, f := range Fields(t) {
		path := Join(section, f.Key)
		see(path, f)
		if inner, kind := format.section(path, t.FieldByIndex(f.Index).Type); kind != nil {
			format.walkKeys(inner, kind, see)
		}
	}
}

// section is the path of the keys below one of the type t, and the struct that has them; nil: it
// has a single value, or several.
func (format *Format) section(path string, t reflect.Type) (inner string, kind reflect.Type) {
	if _, kind = format.describeType(t); kind != nil && t.Kind() == reflect.Slice {
		path += "[]"
	}
	return path, kind
}
