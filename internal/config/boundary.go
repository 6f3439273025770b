// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Boundary is what happens to IOAM at the domain's edge: one word, or a mapping with
// policies of namespaces.
type Boundary struct {
	Default    model.Boundary
	Namespaces []model.NamespacePolicy // by namespace
}

// boundaryKeys is Boundary as a mapping.
type boundaryKeys struct {
	Default    model.Boundary    `key:"default" default:"drop" doc:"The policy for IOAM of namespaces that are not listed, and of options without a namespace. It also decides which tunnels from outside are dropped, and whether the interface is a link of the domain for measured flows."`
	Namespaces namespacePolicies `key:"namespaces" absent:"none" doc:"The policies for IOAM of single namespaces, which need not be under namespaces: {123: ignore, 7: strip}. Of a packet with options of several, the strictest policy decides: drop, then strip, then ignore; strip leaves options with the policy ignore in the packet. Packets that cannot be proven to be free of IOAM are dropped if any policy is drop. At most 4096 in all interfaces."`
}

// namespacePolicies is written as a mapping of numbers to words.
type namespacePolicies []model.NamespacePolicy

// inMapping is what may be, or is, written as a mapping that is no struct.
type inMapping interface {
	// fromMapping reads a value, which is a mapping if the type has a codec.
	fromMapping(d *decoder, node ast.Node, at position, path string)
}

// asMapping is what may have to be written as a mapping.
type asMapping interface{ mapping() (*tree, bool) }

// documented says what a key's value is, and which struct has its keys, if any.
type documented interface {
	document() (text string, keys reflect.Type)
}

func isMapping(node ast.Node) bool {
	return node.Type() == ast.MappingType || node.Type() == ast.MappingValueType
}

// pairsOf are the keys and values of a mapping; ok is false for other values than mappings
// and empty ones.
func pairsOf(node ast.Node) (pairs []*ast.MappingValueNode, ok bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	case *ast.NullNode:
		return nil, true
	}
	return nil, false
}

func (b *Boundary) fromMapping(d *decoder, node ast.Node, at position, path string) {
	var keys boundaryKeys
	d.mapping(node, at, path, reflect.ValueOf(&keys).Elem())
	b.Default, b.Namespaces = keys.Default, keys.Namespaces
}

func (p *namespacePolicies) fromMapping(d *decoder, node ast.Node, at position, path string) {
	const cure = "write a mapping of namespaces to drop, strip or ignore, such as {123: ignore}"
	pairs, ok := pairsOf(node)
	if !ok {
		d.fault(at, path, fmt.Sprintf("%s is %s", named(path), describe(node)), cure)
		return
	}
	first := map[ioam.NamespaceID]int{}
	for _, pair := range pairs {
		keyAt := nodePosition(pair.Key)
		text, _ := scalarText(pair.Key)
		id, err := ParseText[ioam.NamespaceID](text)
		if err != nil {
			d.fault(keyAt, path, fmt.Sprintf("%s has the key %s, which is not a namespace: %v", named(path), strconv.Quote(clip(text)), err), cure)
			continue
		}
		key := join(path, strconv.Itoa(int(id)))
		if line, dup := first[id]; dup {
			d.fault(keyAt, key, fmt.Sprintf("namespace %d of %s is already in line %d", id, named(path), line), "remove one")
			continue
		}
		first[id] = keyAt.line + d.line
		policy := model.NamespacePolicy{Namespace: id}
		d.value(pair.Value, key, reflect.ValueOf(&policy.Boundary).Elem())
		*p = append(*p, policy)
	}
	p.sort()
}

func (p namespacePolicies) sort() {
	slices.SortFunc(p, func(a, b model.NamespacePolicy) int { return cmp.Compare(a.Namespace, b.Namespace) })
}

func (b Boundary) mapping() (*tree, bool) {
	return treeOf(reflect.ValueOf(boundaryKeys{b.Default, b.Namespaces})), len(b.Namespaces) > 0
}

func (p namespacePolicies) mapping() (*tree, bool) {
	t := &tree{}
	for _, policy := range p {
		t.keys = append(t.keys, strconv.Itoa(int(policy.Namespace)))
		t.values = append(t.values, scalar{policy.Boundary.String(), formText})
	}
	return t, true
}

const boundaryWords = "one of drop, strip, ignore"

func (Boundary) document() (string, reflect.Type) {
	return boundaryWords + "; or a mapping", reflect.TypeFor[boundaryKeys]()
}

func (namespacePolicies) document() (string, reflect.Type) {
	return "mapping: Namespace-ID to " + boundaryWords, nil
}

func parseBoundary(text string) (b Boundary, err error) {
	err = b.Default.UnmarshalText([]byte(text))
	if err != nil {
		err = fmt.Errorf("%q is not a valid value", text)
	}
	return b, err
}

// String returns the words that set the boundary: the default policy, then "ns ID POLICY"
// for each namespace that has one.
func (b Boundary) String() string {
	words := []string{b.Default.String()}
	for _, p := range b.Namespaces {
		words = append(words, "ns", strconv.Itoa(int(p.Namespace)), p.Boundary.String())
	}
	return strings.Join(words, " ")
}

// MarshalJSON writes a word, or a mapping with the keys of the file.
func (b Boundary) MarshalJSON() ([]byte, error) {
	if t, needed := b.mapping(); needed {
		return t.MarshalJSON()
	}
	return scalar{b.Default.String(), formText}.MarshalJSON()
}

// UnmarshalJSON reads a boundary as strictly as the file.
func (b *Boundary) UnmarshalJSON(data []byte) error { return decodeFragment(data, b) }
