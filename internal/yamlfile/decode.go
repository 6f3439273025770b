// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/waymark-net/waymark/internal/nearword"
	"github.com/waymark-net/waymark/internal/problem"
)

// value decodes a node into dst, which does not change when the node is wrong.
func (r *Reader) value(node ast.Node, path string, dst reflect.Value) {
	at := nodePosition(node)
	r.source.at[path] = at
	if what := refusedNode(node); what != "" {
		r.Fault(at, path, fmt.Sprintf("%s uses %s, which is not supported here", Named(path), what), "write the value itself")
		return
	}
	if dst.Kind() == reflect.Pointer {
		v := reflect.New(dst.Type().Elem())
		if r.value(node, path, v.Elem()); !r.faulty[path] {
			dst.Set(v)
		}
		return
	}
	c, ok := r.format.Scalars[dst.Type()]
	if m, is := dst.Addr().Interface().(FromMapping); is && (!ok || isMapping(node)) {
		m.FromMapping(r, Node{node}, path)
		return
	}
	switch {
	case ok:
		r.scalar(node, at, path, c, dst)
	case dst.Kind() == reflect.Slice:
		r.sequence(node, at, path, dst)
	default:
		r.mapping(node, at, path, dst)
	}
}

// scalar decodes one value. Quoted text may be a number too, because JSON has no
// hexadecimal numbers.
func (r *Reader) scalar(node ast.Node, at Position, path string, c Codec, dst reflect.Value) {
	text, kind := scalarText(node)
	if words, is := wordsOf(node); is && c.List {
		text, kind = words, ast.StringType
	}
	ok := false
	switch c.Form {
	case Bool:
		ok = kind == ast.BoolType || kind == ast.StringType && slices.Contains(c.Names, text)
	case Text:
		ok = kind == ast.StringType || kind == ast.LiteralType
	case Number, Hex:
		ok = kind == ast.IntegerType || kind == ast.FloatType || kind == ast.StringType
	}
	if !ok {
		cure := "write " + c.Wants
		if isWord := len(c.Names) == 0 || slices.Contains(c.Names, text); dst.Kind() == reflect.String && text != "" && isWord {
			cure += fmt.Sprintf("; as text, %s needs quotes", text)
		}
		if c.Form == Text && (kind == ast.MappingType || kind == ast.MappingValueType) {
			cure += ", in quotes" // its colons make it a mapping
		}
		r.Fault(at, path, fmt.Sprintf("%s is %s", Named(path), describe(node)), cure)
		return
	}
	v, err := c.Parse(text)
	if err != nil {
		text, cure := problem.Of(err)
		r.Fault(at, path, Named(path)+": "+text, cmp.Or(cure, "write "+c.Wants))
		return
	}
	if dst.Set(reflect.ValueOf(v)); dst.Kind() == reflect.String {
		dst.SetString(strings.Clone(dst.String())) // may be part of a longer text, which would stay in memory
	}
}

// wordsOf are the words of a list, with commas between them.
func wordsOf(node ast.Node) (string, bool) {
	list, ok := node.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		return "", false
	}
	words := make([]string, len(list.Values))
	for i, item := range list.Values {
		text, kind := scalarText(item)
		if kind != ast.StringType || strings.Contains(text, ",") {
			return "", false
		}
		words[i] = text
	}
	return strings.Join(words, ","), true
}

func (r *Reader) sequence(node ast.Node, at Position, path string, dst reflect.Value) {
	if node.Type() == ast.NullType {
		return
	}
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		cure := "write a list: - before each item"
		if text, _ := scalarText(node); text != "" {
			cure = listCure(text, r.format.Scalars[dst.Type().Elem()])
		}
		r.Fault(at, path, fmt.Sprintf("%s is %s", Named(path), describe(node)), cure)
		return
	}
	if len(seq.Values) == 0 {
		return
	}
	list := reflect.MakeSlice(dst.Type(), len(seq.Values), len(seq.Values))
	seen := map[any]bool{}
	for i, item := range seq.Values {
		itemPath := Item(path, i)
		r.value(item, itemPath, list.Index(i))
		if v := list.Index(i); r.format.isScalar(v.Type()) && !r.faulty[itemPath] {
			if seen[v.Interface()] {
				text := r.format.Scalars[v.Type()].Text(v.Interface())
				r.Fault(nodePosition(item), itemPath, fmt.Sprintf("%s lists %s twice", path, text), "remove one")
			}
			seen[v.Interface()] = true
		}
	}
	dst.Set(list)
}

// listCure says how to write a list in place of a single value, which may not be a
// valid item.
func listCure(text string, c Codec) string {
	if c.Parse == nil {
		return "write a list: - before each item"
	}
	if _, err := c.Parse(text); err != nil {
		return "write a list, each item " + c.Wants
	}
	return fmt.Sprintf("write a list: [%s]", Scalar{text, c.Form}.yaml())
}

func (r *Reader) mapping(node ast.Node, at Position, path string, dst reflect.Value) {
	known := Fields(dst.Type())
	pairs, ok := pairsOf(node)
	if !ok {
		r.Fault(at, path, fmt.Sprintf("%s is %s", Named(path), describe(node)), "write a mapping with the keys "+keyList(known))
		return
	}
	first := map[string]Position{}
	for _, pair := range pairs {
		keyAt := nodePosition(pair.Key)
		key, kind := scalarText(pair.Key)
		if kind != ast.StringType {
			r.Fault(keyAt, path, fmt.Sprintf("%s has a key that is not a word", Named(path)), "use the keys "+keyList(known))
			continue
		}
		quoted := pair.Key.GetToken().Type == token.DoubleQuoteType // as all keys in JSON are
		i := slices.IndexFunc(known, func(f Field) bool {
			return f.Key == key || f.Was == key && key != "" || quoted && f.Key == fileKey(key)
		})
		if i < 0 {
			cure := "use the keys " + keyList(known)
			if meant := nearword.Meant(key, keys(known)); meant != "" {
				cure = fmt.Sprintf("did you mean %q?", meant)
				r.faulty[Join(path, meant)] = true // present, but with an unknown value
			}
			r.Fault(keyAt, Join(path, key), fmt.Sprintf("unknown key %q in %s", key, Named(path)), cure)
			continue
		}
		if key == known[i].Was {
			r.rename(keyAt, path, known[i])
		}
		key = known[i].Key
		if before, ok := first[key]; ok {
			r.Fault(keyAt, Join(path, key), fmt.Sprintf("key %q of %s is already in line %d", key, Named(path), before.Line+r.line), "remove one")
			continue
		}
		first[key] = keyAt
		v := dst.FieldByIndex(known[i].Index)
		r.value(pair.Value, Join(path, key), v)
		if v.Kind() == reflect.Slice && v.IsNil() && known[i].differsEmpty(pair.Value) {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
	}
	for _, f := range known {
		if _, ok := first[f.Key]; ok {
			continue
		}
		if f.Required && !r.faulty[Join(path, f.Key)] {
			r.Fault(at, Join(path, f.Key), fmt.Sprintf("key %q is missing in %s", f.Key, Named(path)),
				r.format.missingCure(f.Key, dst.Type().FieldByIndex(f.Index).Type))
		}
		r.format.setDefault(f, dst.FieldByIndex(f.Index))
	}
}

// setDefault gives an absent key its default, in nested structs too. Tests of the
// file types read all defaults, so they are valid.
func (format *Format) setDefault(f Field, dst reflect.Value) {
	c, ok := format.Scalars[dst.Type()]
	switch {
	case ok && f.HasDefault:
		if v, err := c.Parse(f.Default); err == nil {
			dst.Set(reflect.ValueOf(v))
		}
	case !ok && dst.Kind() == reflect.Struct:
		for _, inner := range Fields(dst.Type()) {
			format.setDefault(inner, dst.FieldByIndex(inner.Index))
		}
	}
}

// missingCure says what to add for a missing key of type t.
func (format *Format) missingCure(key string, t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch c, ok := format.Scalars[t]; {
	case ok && c.Wants == Texts.Wants:
		return fmt.Sprintf("add it, as in %q", key+": VALUE")
	case ok:
		return "add it: " + c.Wants
	case t.Kind() == reflect.Slice:
		return "add it: a list"
	default:
		return "add it, with the keys " + keyList(Fields(t))
	}
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
		return "the number " + Clip(text)
	case ast.BoolType:
		return "the truth value " + text
	case ast.StringType, ast.LiteralType:
		return "the text " + strconv.Quote(Clip(text))
	case ast.SequenceType:
		return "a list"
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	default:
		return "a " + strings.ToLower(kind.YAMLName())
	}
}

// nodePosition is where a value begins: in a block mapping, at its first key.
func nodePosition(node ast.Node) Position {
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return nodePosition(m.Values[0])
	}
	if m, ok := node.(*ast.MappingValueNode); ok {
		return nodePosition(m.Key)
	}
	return tokenPosition(node.GetToken())
}

func tokenPosition(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{1, 1}
	}
	return Position{t.Position.Line, t.Position.Column}
}
