// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/waymark-net/waymark/internal/problem"
)

// decoder fills structs from a YAML tree and collects every error on the way.
type decoder struct {
	source source
	faults Faults
	bad    map[string]bool // paths that have an error

	split bool      // take long lists out of a large file
	lists []section // that were
	line  int       // of the file before the text that is being decoded
}

func newDecoder(file string) *decoder {
	return &decoder{
		source: source{file: file, at: map[string]position{}},
		bad:    map[string]bool{},
	}
}

// full reports whether no more errors are counted.
func (d *decoder) full() bool { return len(d.faults) >= mostCounted }

// fault reports an error at a place in the file.
func (d *decoder) fault(at position, path, problem, cure string) {
	if d.full() {
		return
	}
	d.bad[path] = true
	f := newFault(d.source.file, path, problem, cure)
	f.Line, f.Column = at.line+d.line, at.column
	d.faults = append(d.faults, f)
}

// join extends a path by a key.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// named is how an error names the value at path.
func named(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// field is one key of a struct.
type field struct {
	index       []int  // for reflect.Value.FieldByIndex
	of          string // the value of the kind key that has this key; "" for any
	key, doc    string
	def, absent string
	hasDefault  bool
	required    bool
}

// absentAny is the meaning of an absent key that would restrict something.
const absentAny = "any"

// differsEmpty reports whether an empty list differs from an absent one. A key without
// a value counts as an empty list only where absence means any: its author wanted to
// restrict something, and may have commented out the items.
func (f field) differsEmpty(node ast.Node) bool {
	switch node.Type() {
	case ast.SequenceType:
		return f.absent != ""
	case ast.NullType:
		return f.absent == absentAny
	default:
		return false
	}
}

// fieldsOf has the fields of each type, because reading tags takes long where there are many flows.
var fieldsOf sync.Map // of []field, by reflect.Type

// fields lists the keys of a struct type in the file's order, including those of inner
// structs that belong to one value of the key kind. The caller must not change them.
func fields(t reflect.Type) []field {
	if list, ok := fieldsOf.Load(t); ok {
		return list.([]field)
	}
	list := readFields(t)
	fieldsOf.Store(t, list)
	return list
}

func readFields(t reflect.Type) []field {
	var list []field
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		if of, ok := tag.Lookup("of"); ok {
			for _, f := range fields(t.Field(i).Type) {
				f.index, f.of = append([]int{i}, f.index...), of
				list = append(list, f)
			}
		}
		key, ok := tag.Lookup("key")
		if !ok {
			continue
		}
		f := field{index: []int{i}, key: key, doc: tag.Get("doc"), absent: tag.Get("absent"), required: tag.Get("required") == "true"}
		f.def, f.hasDefault = tag.Lookup("default")
		list = append(list, f)
	}
	return list
}

// value decodes a node into dst, which does not change when the node is wrong.
func (d *decoder) value(node ast.Node, path string, dst reflect.Value) {
	at := nodePosition(node)
	d.source.at[path] = at
	if what := refusedNode(node); what != "" {
		d.fault(at, path, fmt.Sprintf("%s uses %s, which is not supported here", named(path), what), "write the value itself")
		return
	}
	if dst.Kind() == reflect.Pointer {
		v := reflect.New(dst.Type().Elem())
		if d.value(node, path, v.Elem()); !d.bad[path] {
			dst.Set(v)
		}
		return
	}
	c, ok := codecs[dst.Type()]
	if m, is := dst.Addr().Interface().(inMapping); is && (!ok || isMapping(node)) {
		m.fromMapping(d, node, at, path)
		return
	}
	switch {
	case ok:
		d.scalar(node, at, path, c, dst)
	case dst.Kind() == reflect.Slice:
		d.sequence(node, at, path, dst)
	default:
		d.mapping(node, at, path, dst)
	}
}

func hasCodec(t reflect.Type) bool {
	_, ok := codecs[t]
	return ok
}

// scalar decodes one value. Quoted text may be a number too, because JSON has no
// hexadecimal numbers.
func (d *decoder) scalar(node ast.Node, at position, path string, c codec, dst reflect.Value) {
	text, kind := scalarText(node)
	ok := false
	switch c.form {
	case formBool:
		ok = kind == ast.BoolType
	case formText:
		ok = kind == ast.StringType || kind == ast.LiteralType
	case formNumber, formHex:
		ok = kind == ast.IntegerType || kind == ast.FloatType || kind == ast.StringType
	}
	if !ok {
		cure := "write " + c.wants
		if dst.Kind() == reflect.String && text != "" {
			cure += fmt.Sprintf("; as text, %s needs quotes", text)
		}
		if c.form == formText && (kind == ast.MappingType || kind == ast.MappingValueType) {
			cure += ", in quotes" // its colons make it a mapping
		}
		d.fault(at, path, fmt.Sprintf("%s is %s", named(path), describe(node)), cure)
		return
	}
	v, err := c.parse(text)
	if err != nil {
		text, cure := problem.Of(err)
		d.fault(at, path, named(path)+": "+text, cmp.Or(cure, "write "+c.wants))
		return
	}
	dst.Set(reflect.ValueOf(v))
}

func (d *decoder) sequence(node ast.Node, at position, path string, dst reflect.Value) {
	if node.Type() == ast.NullType {
		return
	}
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		cure := "write a list: - before each item"
		if text, _ := scalarText(node); text != "" {
			cure = listCure(text, codecs[dst.Type().Elem()])
		}
		d.fault(at, path, fmt.Sprintf("%s is %s", named(path), describe(node)), cure)
		return
	}
	if len(seq.Values) == 0 {
		return
	}
	list := reflect.MakeSlice(dst.Type(), len(seq.Values), len(seq.Values))
	seen := map[any]bool{}
	for i, item := range seq.Values {
		itemPath := fmt.Sprintf("%s[%d]", path, i)
		d.value(item, itemPath, list.Index(i))
		if v := list.Index(i); hasCodec(v.Type()) && !d.bad[itemPath] {
			if seen[v.Interface()] {
				d.fault(nodePosition(item), itemPath, fmt.Sprintf("%s lists %s twice", path, codecs[v.Type()].text(v.Interface())), "remove one")
			}
			seen[v.Interface()] = true
		}
	}
	dst.Set(list)
}

// listCure says how to write a list in place of a single value, which may not be a
// valid item.
func listCure(text string, c codec) string {
	if c.parse == nil {
		return "write a list: - before each item"
	}
	if _, err := c.parse(text); err != nil {
		return "write a list, each item " + c.wants
	}
	return fmt.Sprintf("write a list: [%s]", scalar{text, c.form}.yaml())
}

func (d *decoder) mapping(node ast.Node, at position, path string, dst reflect.Value) {
	known := fields(dst.Type())
	pairs, ok := pairsOf(node)
	if !ok {
		d.fault(at, path, fmt.Sprintf("%s is %s", named(path), describe(node)), "write a mapping with the keys "+keyList(known))
		return
	}
	first := map[string]position{}
	for _, pair := range pairs {
		keyAt := nodePosition(pair.Key)
		key, kind := scalarText(pair.Key)
		if kind != ast.StringType {
			d.fault(keyAt, path, fmt.Sprintf("%s has a key that is not a word", named(path)), "use the keys "+keyList(known))
			continue
		}
		quoted := pair.Key.GetToken().Type == token.DoubleQuoteType // as all keys in JSON are
		i := slices.IndexFunc(known, func(f field) bool { return f.key == key || quoted && f.key == fileKey(key) })
		if i < 0 {
			cure := "use the keys " + keyList(known)
			if meant := meantKey(key, known); meant != "" {
				cure = fmt.Sprintf("did you mean %q?", meant)
				d.bad[join(path, meant)] = true // present, but with an unknown value
			}
			d.fault(keyAt, join(path, key), fmt.Sprintf("unknown key %q in %s", key, named(path)), cure)
			continue
		}
		key = known[i].key
		if before, ok := first[key]; ok {
			d.fault(keyAt, join(path, key), fmt.Sprintf("key %q of %s is already in line %d", key, named(path), before.line+d.line), "remove one")
			continue
		}
		first[key] = keyAt
		v := dst.FieldByIndex(known[i].index)
		d.value(pair.Value, join(path, key), v)
		if v.Kind() == reflect.Slice && v.IsNil() && known[i].differsEmpty(pair.Value) {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
	}
	for _, f := range known {
		if _, ok := first[f.key]; ok {
			continue
		}
		if f.required && !d.bad[join(path, f.key)] {
			d.fault(at, join(path, f.key), fmt.Sprintf("key %q is missing in %s", f.key, named(path)), missingCure(dst.Type().FieldByIndex(f.index).Type))
		}
		setDefault(f, dst.FieldByIndex(f.index))
	}
}

// setDefault gives an absent key its default, in nested structs too. A test reads all
// defaults, so they are valid.
func setDefault(f field, dst reflect.Value) {
	c, ok := codecs[dst.Type()]
	switch {
	case ok && f.hasDefault:
		if v, err := c.parse(f.def); err == nil {
			dst.Set(reflect.ValueOf(v))
		}
	case !ok && dst.Kind() == reflect.Struct:
		for _, inner := range fields(dst.Type()) {
			setDefault(inner, dst.FieldByIndex(inner.index))
		}
	}
}

// missingCure says what to add for a missing key of type t.
func missingCure(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch c, ok := codecs[t]; {
	case ok:
		return "add it: " + c.wants
	case t.Kind() == reflect.Slice:
		return "add it: a list"
	default:
		return "add it, with the keys " + keyList(fields(t))
	}
}

func keyList(known []field) string {
	keys := make([]string, len(known))
	for i, f := range known {
		keys[i] = f.key
	}
	return strings.Join(keys, ", ")
}

// meantKey guesses the key meant by an unknown one, "" when none is similar.
func meantKey(key string, known []field) string {
	plain := strings.NewReplacer("_", "-", " ", "-")
	for _, f := range known {
		if distance(strings.ToLower(plain.Replace(key)), f.key) <= min(len(f.key)/2, 2) {
			return f.key
		}
	}
	return ""
}

// distance counts the letters to insert, remove or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// refusedNode names the unsupported YAML feature that a node is, "" otherwise.
func refusedNode(node ast.Node) string {
	switch node.Type() {
	case ast.AnchorType:
		return "an anchor"
	case ast.AliasType:
		return "an alias"
	case ast.TagType:
		return "a tag"
	default:
		return ""
	}
}

// scalarText is the text of a scalar as it was written (unquoted).
func scalarText(node ast.Node) (string, ast.NodeType) {
	switch n := node.(type) {
	case *ast.LiteralNode:
		return n.Value.Value, ast.LiteralType
	case *ast.StringNode:
		return n.Value, ast.StringType
	case ast.ScalarNode:
		return strings.TrimSpace(n.GetToken().Value), n.Type()
	default:
		return "", node.Type()
	}
}

// describe names the kind and value of a node for an error.
func describe(node ast.Node) string {
	text, kind := scalarText(node)
	switch kind {
	case ast.NullType:
		return "empty"
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return "the number " + clip(text)
	case ast.BoolType:
		return "the truth value " + text
	case ast.StringType, ast.LiteralType:
		return "the text " + strconv.Quote(clip(text))
	case ast.SequenceType:
		return "a list"
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	default:
		return "a " + strings.ToLower(kind.YAMLName())
	}
}

// nodePosition is where a value begins: in a block mapping, at its first key.
func nodePosition(node ast.Node) position {
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return nodePosition(m.Values[0])
	}
	if m, ok := node.(*ast.MappingValueNode); ok {
		return nodePosition(m.Key)
	}
	return tokenPosition(node.GetToken())
}

func tokenPosition(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}
