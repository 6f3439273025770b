// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"fmt"
	"reflect"
	"strings"
)

// Reference documents every key of a file, in Markdown; file points to its struct.
func (format *Format) Reference(file any, texts KeyTexts) []byte {
	var b strings.Builder
	format.writeReference(&b, "", reflect.TypeOf(file).Elem(), texts)
	return []byte(b.String())
}

// writeReference documents the keys of a struct, then those of the structs in it.
func (format *Format) writeReference(b *strings.Builder, path string, t reflect.Type, texts KeyTexts) {
	title := "Top level"
	if path != "" {
		title = "`" + path + "`"
	}
	fmt.Fprintf(b, "\n## %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", title)
	type section struct {
		path string
		t    reflect.Type
	}
	var inner []section
	for _, f := range Fields(t) {
		at, typ := Join(path, f.Key), t.FieldByIndex(f.Index).Type
		value, _ := format.describeType(typ)
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Key, cell(value), cell(describeDefault(f, texts[at+absent])), cell(texts[at]))
		if sub, kind := format.section(at, typ); kind != nil {
			inner = append(inner, section{sub, kind})
		}
	}
	for _, s := range inner {
		format.writeReference(b, s.path, s.t, texts)
	}
}

// describeType says what a key's value is, and which struct it holds, if any.
func (format *Format) describeType(t reflect.Type) (text string, inner reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if d, ok := reflect.Zero(t).Interface().(Documented); ok {
		return d.Document()
	}
	if c, ok := format.Scalars[t]; ok {
		return c.Wants, nil
	}
	if t.Kind() == reflect.Slice {
		if c, ok := format.Scalars[t.Elem()]; ok {
			return "list: " + c.Wants, nil
		}
		return "list", t.Elem()
	}
	return "mapping", t
}

func describeDefault(f Field, absent string) string {
	switch {
	case f.Required:
		return "*required*"
	case f.HasDefault:
		return "`" + f.Default + "`"
	case f.Unrestricted:
		return absentAny
	default:
		return absent
	}
}

// cell escapes text for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
