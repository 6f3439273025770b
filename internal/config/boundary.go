// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
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
	Default    model.Boundary    `key:"default" default:"drop"`
	Namespaces namespacePolicies `key:"namespaces" optional:"true"`
}

// boundaryTexts say what the keys of a boundary mean.
var boundaryTexts = yamlfile.KeyTexts{
	"default": "The policy for IOAM of namespaces that are not listed, and of options without a namespace. It also " +
		"decides which tunnels from outside are dropped, and whether the interface is a link of the domain for " +
		"measured flows.",
	"namespaces": "The policies for IOAM of single namespaces, which need not be under namespaces: {123: ignore, 7: " +
		"strip}. Of a packet with options of several, the strictest policy decides: drop, then strip, then ignore; " +
		"strip leaves options with the policy ignore in the packet. Packets that cannot be proven to be free of " +
		"IOAM are dropped if any policy is drop. At most 4096 in all interfaces.",
	"namespaces, absent": "none",
}

// namespacePolicies is written as a mapping of numbers to words.
type namespacePolicies []model.NamespacePolicy

// FromMapping reads the policies of a mapping.
func (b *Boundary) FromMapping(r *yamlfile.Reader, node yamlfile.Node, path string) {
	var keys boundaryKeys
	r.Mapping(node, path, &keys)
	b.Default, b.Namespaces = keys.Default, keys.Namespaces
}

func (p *namespacePolicies) FromMapping(r *yamlfile.Reader, node yamlfile.Node, path string) {
	const cure = "write a mapping of namespaces to drop, strip or ignore, such as {123: ignore}"
	pairs, ok := node.Pairs()
	if !ok {
		r.Fault(node.Position(), path, fmt.Sprintf("%s is %s", yamlfile.Named(path), node.Describe()), cure)
		return
	}
	first := map[ioam.NamespaceID]int{}
	for _, pair := range pairs {
		keyAt, text := pair.Key.Position(), pair.Key.Text()
		id, err := ParseText[ioam.NamespaceID](text)
		if err != nil {
			what := strconv.Quote(yamlfile.Clip(text))
			r.Fault(keyAt, path, fmt.Sprintf("%s has the key %s, which is not a namespace: %v", yamlfile.Named(path), what, err), cure)
			continue
		}
		key := yamlfile.Join(path, strconv.Itoa(int(id)))
		if line, dup := first[id]; dup {
			r.Fault(keyAt, key, fmt.Sprintf("namespace %d of %s is already in line %d", id, yamlfile.Named(path), line), "remove one")
			continue
		}
		first[id] = r.LineOf(keyAt)
		policy := model.NamespacePolicy{Namespace: id}
		r.Value(pair.Value, key, &policy.Boundary)
		*p = append(*p, policy)
	}
	p.sort()
}

func wordOf(b model.Boundary) yamlfile.Scalar {
	return yamlfile.Scalar{Text: b.String(), Form: yamlfile.Text}
}

func (p namespacePolicies) sort() {
	slices.SortFunc(p, func(a, b model.NamespacePolicy) int { return cmp.Compare(a.Namespace, b.Namespace) })
}

// AsMapping is the boundary as a mapping, which it needs for policies of namespaces.
func (b Boundary) AsMapping() (t *yamlfile.Tree, needed bool) {
	return nodeFile.Tree(boundaryKeys{b.Default, b.Namespaces}), len(b.Namespaces) > 0
}

func (p namespacePolicies) AsMapping() (*yamlfile.Tree, bool) {
	t := &yamlfile.Tree{}
	for _, policy := range p {
		t.Keys = append(t.Keys, strconv.Itoa(int(policy.Namespace)))
		t.Values = append(t.Values, wordOf(policy.Boundary))
	}
	return t, true
}

const boundaryWords = "one of drop, strip, ignore"

// Document describes the key in the reference.
func (Boundary) Document() (string, reflect.Type) {
	return boundaryWords + "; or a mapping", reflect.TypeFor[boundaryKeys]()
}

func (namespacePolicies) Document() (string, reflect.Type) {
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
	if t, needed := b.AsMapping(); needed {
		return t.MarshalJSON()
	}
	return wordOf(b.Default).MarshalJSON()
}

// UnmarshalJSON reads a boundary as strictly as the file.
func (b *Boundary) UnmarshalJSON(data []byte) error { return decodeFragment(data, b) }
