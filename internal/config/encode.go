// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// tree is a struct as it is written: its keys in order, each with a scalar, a
// *tree or a []any of these.
type tree struct {
	keys   []string
	values []any
}

// treeOf lists the keys of a struct that have a value, defaults included.
func treeOf(v reflect.Value) *tree {
	t := &tree{}
	for _, f := range fields(v.Type()) {
		value := v.FieldByIndex(f.index)
		if f.absent != "" && value.IsZero() {
			continue
		}
		t.keys = append(t.keys, f.key)
		t.values = append(t.values, nodeOf(value))
	}
	return t
}

func nodeOf(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return &tree{}
		}
		v = v.Elem()
	}
	if m, ok := v.Interface().(asMapping); ok {
		if t, needed := m.mapping(); needed {
			return t
		}
	}
	if c, ok := codecs[v.Type()]; ok {
		return scalar{c.text(v.Interface()), c.form}
	}
	if v.Kind() == reflect.Slice {
		list := make([]any, v.Len())
		for i := range list {
			list[i] = nodeOf(v.Index(i))
		}
		return list
	}
	return treeOf(v)
}

// Marshal writes the configuration as YAML, with every default.
func (c *Config) Marshal() []byte {
	var b strings.Builder
	writeBlock(&b, treeOf(reflect.ValueOf(c).Elem()), 0)
	return []byte(b.String())
}

// Equal reports whether two configurations say the same.
func (c *Config) Equal(other *Config) bool {
	return alike(reflect.ValueOf(c).Elem(), reflect.ValueOf(other).Elem())
}

// alike compares values key by key, and ends at the first difference: of two lists that is
// mostly their length. An absent value differs from one that is empty.
func alike(a, b reflect.Value) bool {
	if c, ok := codecs[a.Type()]; ok {
		return a.Comparable() && b.Comparable() && a.Equal(b) || c.text(a.Interface()) == c.text(b.Interface())
	}
	switch a.Kind() {
	case reflect.Pointer:
		return a.IsNil() && b.IsNil() || !a.IsNil() && !b.IsNil() && alike(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
			return false
		}
		for i := range a.Len() {
			if !alike(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	for _, f := range fields(a.Type()) {
		if !alike(a.FieldByIndex(f.index), b.FieldByIndex(f.index)) {
			return false
		}
	}
	return true
}

// writeBlock writes a mapping, one key per line.
func writeBlock(b *strings.Builder, t *tree, indent int) {
	for i, key := range t.keys {
		if i > 0 || indent == 0 {
			b.WriteString(strings.Repeat(" ", indent))
		}
		b.WriteString(key + ":")
		switch v := t.values[i].(type) {
		case *tree:
			if len(v.keys) == 0 {
				b.WriteString(" {}\n")
				continue
			}
			b.WriteString("\n" + strings.Repeat(" ", indent+2))
			writeBlock(b, v, indent+2)
		case []any:
			writeList(b, v, indent+2)
		case scalar:
			b.WriteString(" " + v.yaml() + "\n")
		}
	}
}

func writeList(b *strings.Builder, list []any, indent int) {
	if len(list) == 0 {
		b.WriteString(" []\n")
		return
	}
	if _, ok := list[0].(scalar); ok {
		words := make([]string, len(list))
		for i, item := range list {
			words[i] = item.(scalar).listed()
		}
		b.WriteString(" [" + strings.Join(words, ", ") + "]\n")
		return
	}
	b.WriteString("\n")
	for _, item := range list {
		b.WriteString(strings.Repeat(" ", indent) + "- ")
		writeBlock(b, item.(*tree), indent+2)
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
var yamlWords = map[string]bool{"true": true, "false": true, "null": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true}

func (s scalar) yaml() string {
	switch s.form {
	case formText:
		if !isPlain(s.text) || yamlWords[s.text] {
			return strconv.QuoteToGraphic(s.text)
		}
	case formNumber:
		if strings.Contains(s.text, "-") {
			return strconv.Quote(s.text)
		}
	}
	return s.text
}

// listed is yaml for a list in brackets, where the parser reads a prefix without quotes
// as a mapping.
func (s scalar) listed() string {
	if text := s.yaml(); s.form != formText || !strings.Contains(s.text, ":") || text != s.text {
		return text
	}
	return strconv.Quote(s.text)
}

// MarshalJSON writes numbers as numbers, but those that are hexadecimal in YAML as
// text.
func (s scalar) MarshalJSON() ([]byte, error) {
	switch s.form {
	case formBool:
		return []byte(s.text), nil
	case formNumber:
		if _, err := strconv.ParseUint(s.text, 10, 64); err == nil {
			return []byte(s.text), nil
		}
	}
	return json.Marshal(s.text)
}

// jsonKey is a key of the file as spelled in JSON, where all keys have underscores; in
// YAML they have hyphens.
func jsonKey(key string) string { return strings.ReplaceAll(key, "-", "_") }

// fileKey turns a JSON key into the file's key; it accepts the file's spelling too.
func fileKey(key string) string { return strings.ReplaceAll(key, "_", "-") }

// MarshalJSON keeps the order of the keys.
func (t *tree) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, key := range t.keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, jsonKey(key)), ':')
		value, err := json.Marshal(t.values[i])
		if err != nil {
			return nil, err
		}
		b = append(b, value...)
	}
	return append(b, '}'), nil
}

// MarshalJSON writes the configuration with the keys of the file, as jsonKey spells them.
func (c *Config) MarshalJSON() ([]byte, error) { return marshalJSON(c) }

// MarshalJSON writes the namespace with the keys of the file, as jsonKey spells them.
func (n Namespace) MarshalJSON() ([]byte, error) { return marshalJSON(&n) }

// UnmarshalJSON reads a namespace as strictly as the file.
func (n *Namespace) UnmarshalJSON(data []byte) error { return decodeFragment(data, n) }

// MarshalJSON writes the schema with the keys of the file, as jsonKey spells them.
func (s Schema) MarshalJSON() ([]byte, error) { return marshalJSON(&s) }

// UnmarshalJSON reads a schema as strictly as the file.
func (s *Schema) UnmarshalJSON(data []byte) error { return decodeFragment(data, s) }

// MarshalJSON writes the encapsulation with the keys of the file, as jsonKey spells them.
func (e Encapsulation) MarshalJSON() ([]byte, error) { return marshalJSON(&e) }

// UnmarshalJSON reads an encapsulation as strictly as the file.
func (e *Encapsulation) UnmarshalJSON(data []byte) error { return decodeFragment(data, e) }

// MarshalJSON writes the interface with the keys of the file.
func (in Interface) MarshalJSON() ([]byte, error) { return marshalJSON(&in) }

// UnmarshalJSON reads an interface as strictly as the file.
func (in *Interface) UnmarshalJSON(data []byte) error { return decodeFragment(data, in) }

// MarshalJSON writes the decapsulation with the keys of the file.
func (d Decapsulation) MarshalJSON() ([]byte, error) { return marshalJSON(&d) }

// UnmarshalJSON reads a decapsulation as strictly as the file.
func (d *Decapsulation) UnmarshalJSON(data []byte) error { return decodeFragment(data, d) }

// MarshalJSON writes the flow with the keys of the file, as jsonKey spells them.
func (f Flow) MarshalJSON() ([]byte, error) { return marshalJSON(&f) }

// UnmarshalJSON reads a flow as strictly as the file.
func (f *Flow) UnmarshalJSON(data []byte) error { return decodeFragment(data, f) }

func marshalJSON(v any) ([]byte, error) {
	return treeOf(reflect.ValueOf(v).Elem()).MarshalJSON()
}
