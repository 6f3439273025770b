// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Reference is the documentation of every key, in Markdown.
func Reference() []byte {
	var b strings.Builder
	b.WriteString(`# The configuration file

One YAML file describes one node. It is read strictly: unknown keys, keys that
appear twice, values of the wrong type and everything that cannot work are
reported at once, each with its line, its column and a cure
(` + "`waymark config check FILE`" + `). Anchors, aliases, tags and several documents in one
file are refused. ` + "`waymark config show FILE`" + ` prints a file with every default.

Numbers are decimal, or hexadecimal with 0x. Complete files are in
[examples](../../examples).
`)
	writeReference(&b, "", reflect.TypeFor[Config]())
	return []byte(b.String())
}

// writeReference documents the keys of a struct, then those of the structs in it.
func writeReference(b *strings.Builder, path string, t reflect.Type) {
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
	for _, f := range fields(t) {
		value, kind := describeType(t.FieldByIndex(f.index).Type)
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.key, cell(value), cell(describeDefault(f)), cell(f.doc))
		if kind == nil {
			continue
		}
		sub := join(path, f.key)
		if t.FieldByIndex(f.index).Type.Kind() == reflect.Slice {
			sub += "[]"
		}
		inner = append(inner, section{sub, kind})
	}
	for _, s := range inner {
		writeReference(b, s.path, s.t)
	}
}

// describeType says what a key's value is, and which struct it holds, if any.
func describeType(t reflect.Type) (text string, inner reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if d, ok := reflect.Zero(t).Interface().(documented); ok {
		return d.document()
	}
	if c, ok := codecs[t]; ok {
		return c.wants, nil
	}
	if t.Kind() == reflect.Slice {
		if c, ok := codecs[t.Elem()]; ok {
			return "list: " + c.wants, nil
		}
		return "list", t.Elem()
	}
	return "mapping", t
}

func describeDefault(f field) string {
	switch {
	case f.required:
		return "*required*"
	case f.hasDefault:
		return "`" + f.def + "`"
	default:
		return f.absent
	}
}

// cell escapes text for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
