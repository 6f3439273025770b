// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// Tree is a struct as it is written: its keys in order, each with a scalar, a
// *Tree or a []any of these.
type Tree struct {
	Keys   []string
	Values []any
}

// treeOf lists the keys of a struct that have a value, defaults included.
func (format *Format) treeOf(v reflect.Value) *Tree {
	t := &Tree{}
	for _, f := range Fields(v.Type()) {
		value := v.FieldByIndex(f.Index)
		if f.Optional && value.IsZero() {
			continue
		}
		t.Keys = append(t.Keys, f.Key)
		t.Values = append(t.Values, format.nodeOf(value))
	}
	return t
}

func (format *Format) nodeOf(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return &Tree{}
		}
		v = v.Elem()
	}
	if m, ok := v.Interface().(AsMapping); ok {
		if t, needed := m.AsMapping(); needed {
			return t
		}
	}
	if c, ok := format.Scalars[v.Type()]; ok {
		return Scalar{c.Text(v.Interface()), c.Form}
	}
	if v.Kind() == reflect.Slice {
		list := make([]any, v.Len())
		for i := range list {
			list[i] = format.nodeOf(v.Index(i))
		}
		return list
	}
	return format.treeOf(v)
}

// Tree is a struct as it is written, for types that are written as a mapping of others.
func (format *Format) Tree(v any) *Tree { return format.treeOf(reflect.ValueOf(v)) }

// Marshal writes a file as YAML, with every default; v points to its struct.
func (format *Format) Marshal(v any) []byte {
	var b strings.Builder
	writeBlock(&b, format.treeOf(reflect.ValueOf(v).Elem()), 0)
	return []byte(b.String())
}

// JSON writes a struct with the keys of the file, as jsonKey spells them; v points to it.
func (format *Format) JSON(v any) ([]byte, error) {
	return format.treeOf(reflect.ValueOf(v).Elem()).MarshalJSON()
}

// Equal reports whether two structs, to which a and b point, say the same.
func (format *Format) Equal(a, b any) bool {
	return format.sameValue(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

// sameValue compares values key by key, and ends at the first difference: of two lists that is
// mostly their length. An absent value differs from one that is empty.
func (format *Format) sameValue(a, b reflect.Value) bool {
	if c, ok := format.Scalars[a.Type()]; ok {
		return a.Comparable() && b.Comparable() && a.Equal(b) || c.Text(a.Interface()) == c.Text(b.Interface())
	}
	switch a.Kind() {
	case reflect.Pointer:
		return a.IsNil() && b.IsNil() || !a.IsNil() && !b.IsNil() && format.sameValue(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
			return false
		}
		for i := range a.Len() {
			if !format.sameValue(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	for _, f := range Fields(a.Type()) {
		if !format.sameValue(a.FieldByIndex(f.Index), b.FieldByIndex(f.Index)) {
			return false
		}
	}
	return true
}

// writeBlock writes a mapping, one key per line.
func writeBlock(b *strings.Builder, t *Tree, indent int) {
	for i, key := range t.Keys {
		if i > 0 || indent == 0 {
			b.WriteString(strings.Repeat(" ", indent))
		}
		b.WriteString(key + ":")
		switch v := t.Values[i].(type) {
		case *Tree:
			if len(v.Keys) == 0 {
				b.WriteString(" {}\n")
				continue
			}
			b.WriteString("\n" + strings.Repeat(" ", indent+2))
			writeBlock(b, v, indent+2)
		case []any:
			writeList(b, v, indent+2)
		case Scalar:
			b.WriteString(" " + v.yaml() + "\n")
		}
	}
}

func writeList(b *strings.Builder, list []any, indent int) {
	if len(list) == 0 {
		b.WriteString(" []\n")
		return
	}
	if _, ok := list[0].(Scalar); ok {
		words := make([]string, len(list))
		for i, item := range list {
			words[i] = item.(Scalar).listed()
		}
		b.WriteString(" [" + strings.Join(words, ", ") + "]\n")
		return
	}
	b.WriteString("\n")
	for _, item := range list {
		b.WriteString(strings.Repeat(" ", indent) + "- ")
		writeBlock(b, item.(*Tree), indent+2)
	}
}

// plainText is text that needs no quotes in YAML, besides words and addresses.
var plainText = regexp.MustCompile(`^[0-9]+/[0-9]+$|^([0-9]+[hms])+$|^[0-9a-f]+:[0-9a-f:]+/[0-9]+$`)

// isPlain reports whether text needs no quotes in YAML. An address that ends in a colon needs
// them: it would be a key. Nearly all text is a word or an address, so these take no regexp.
func isPlain(s string) bool {
	if s == "" {
		return false
	}
	isDigit := func(c byte) bool { return '0' <= c && c <= '9' }
	isHex := func(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' }
	word := 'a' <= s[0] && s[0] <= 'z'
	address := isHex(s[0]) && isHex(s[len(s)-1]) && strings.Contains(s, ":")
	for i := range len(s) {
		word = word && ('a' <= s[i] && s[i] <= 'z' || isDigit(s[i]) || s[i] == '-')
		address = address && (isHex(s[i]) || s[i] == ':')
	}
	return word || address || plainText.MatchString(s)
}

// yamlWords are the plain words that some YAML parsers do not read as text.
var yamlWords = map[string]bool{
	"true": true, "false": true, "null": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true,
}

func (s Scalar) yaml() string {
	switch s.Form {
	case Text:
		if !isPlain(s.Text) || yamlWords[s.Text] {
			return strconv.QuoteToGraphic(s.Text)
		}
	case Number:
		if strings.Contains(s.Text, "-") {
			return strconv.Quote(s.Text)
		}
	}
	return s.Text
}

// listed is yaml for a list in brackets, where the parser reads a prefix without quotes
// as a mapping.
func (s Scalar) listed() string {
	if text := s.yaml(); s.Form != Text || !strings.Contains(s.Text, ":") || text != s.Text {
		return text
	}
	return strconv.Quote(s.Text)
}

// MarshalJSON writes numbers as numbers, but those that are hexadecimal in YAML as
// text.
func (s Scalar) MarshalJSON() ([]byte, error) {
	switch s.Form {
	case Bool:
		if s.Text == "true" || s.Text == "false" {
			return []byte(s.Text), nil
		}
	case Number:
		if _, err := strconv.ParseUint(s.Text, 10, 64); err == nil {
			return []byte(s.Text), nil
		}
	}
	return json.Marshal(s.Text)
}

// jsonKey is a key of the file as spelled in JSON, where all keys have underscores; in
// YAML they have hyphens.
func jsonKey(key string) string { return strings.ReplaceAll(key, "-", "_") }

// fileKey turns a JSON key into the file's key; it accepts the file's spelling too.
func fileKey(key string) string { return strings.ReplaceAll(key, "_", "-") }

// MarshalJSON keeps the order of the keys.
func (t *Tree) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, key := range t.Keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, jsonKey(key)), ':')
		value, err := json.Marshal(t.Values[i])
		if err != nil {
			return nil, err
		}
		b = append(b, value...)
	}
	return append(b, '}'), nil
}
