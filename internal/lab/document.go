// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/waymark-net/waymark/internal/problem"
)

// Fault is one mistake in a topology.
type Fault struct {
	Line   int // from 1
	Column int // from 1
	problem.Problem
}

// Faults are all the mistakes found in a topology.
type Faults struct {
	File   string
	Faults []Fault
}

func (f *Faults) Error() string {
	lines := make([]string, len(f.Faults))
	for i, fault := range f.Faults {
		lines[i] = fmt.Sprintf("%s:%d:%d: %s", f.File, fault.Line, fault.Column, fault.Error())
	}
	return strings.Join(lines, "\n")
}

// position is a place in a topology; line and column count from 1.
type position struct{ line, column int }

// document reads a syntax tree and collects its errors, so that one run names every
// mistake, but not the errors that follow from it.
type document struct {
	source []byte
	faults []Fault

	// Some node or link could not be read, so no missing one may be reported.
	nodesDoubtful, linksDoubtful bool
}

// fault notes a mistake.
func (d *document) fault(at position, format string, args ...any) {
	d.problem(at, "", format, args...)
}

// problem notes a mistake, and what to do about it.
func (d *document) problem(at position, cure, format string, args ...any) {
	d.faults = append(d.faults, Fault{at.line, at.column, *problem.New(fmt.Sprintf(format, args...), cure)})
}

// refused notes the error of a value, after the words that name the value.
func (d *document) refused(at position, what string, err error) {
	text, cure := problem.Of(err)
	d.problem(at, cure, "%s%s", what, text)
}

// err returns the errors in the order of their places.
func (d *document) err(file string) error {
	if len(d.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(d.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Faults{File: file, Faults: slices.Compact(d.faults)}
}

// placeOf is where a value begins.
func placeOf(n ast.Node) position {
	switch m := n.(type) {
	case nil:
		return position{1, 1}
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return placeOf(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return placeOf(m.Key)
	}
	return placeOfToken(n.GetToken())
}

func placeOfToken(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}

// keys are the keys of a mapping.
type keys struct {
	has   map[string]bool
	sound bool // every key is known and has a value
}

// lacks reports whether a key is missing; false when a wrong key may have been meant
// instead.
func (k keys) lacks(key string) bool { return k.sound && !k.has[key] }

// entries are the pairs of a mapping; false when the node is not a mapping.
func entries(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	}
	return nil, false
}

// mapping reads a mapping; a key without a reader is an error.
func (d *document) mapping(n ast.Node, what string, readers map[string]func(ast.Node)) keys {
	values, ok := entries(n)
	if !ok {
		d.fault(placeOf(n), "%s must be a mapping of keys to values", what)
		return keys{}
	}
	found := keys{has: map[string]bool{}, sound: true}
	for _, v := range values {
		key := v.Key.GetToken().Value
		read, ok := readers[key]
		if !ok {
			d.problem(placeOf(v.Key), fmt.Sprintf("it has %s", strings.Join(slices.Sorted(maps.Keys(readers)), ", ")), "%s has no key %q", what, key)
			found.sound = false
			continue
		}
		if _, null := v.Value.(*ast.NullNode); null {
			d.problem(placeOf(v.Key), "give one or remove the key", "%s: %s has no value", what, key)
			found.sound = false
			continue
		}
		found.has[key] = true
		read(v.Value)
	}
	return found
}

// sequence reads a list of at most limit entries; false when it could not.
func (d *document) sequence(n ast.Node, what string, limit int, read func(ast.Node)) bool {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fault(placeOf(n), "%s must be a list", what)
		return false
	}
	if len(s.Values) > limit {
		d.problem(placeOf(n), fmt.Sprintf("the limit is %d", limit), "%s has %d entries", what, len(s.Values))
		return false
	}
	for _, v := range s.Values {
		read(v)
	}
	return true
}

// oneOrMore reads one value, or a list of them.
func (d *document) oneOrMore(n ast.Node, what string, limit int, read func(ast.Node)) {
	if _, ok := n.(ast.ScalarNode); ok {
		read(n)
		return
	}
	d.sequence(n, what, limit, read)
}

// text reads any scalar as written.
func (d *document) text(n ast.Node, what string) (string, bool) {
	if _, ok := n.(ast.ScalarNode); !ok {
		// In a list inside braces, the parser reads the colons of an address as a
		// mapping.
		d.fault(placeOf(n), "%s must be one value (quote an address inside braces or brackets)", what)
		return "", false
	}
	return n.GetToken().Value, true
}

// name reads a name that is safe in a path and as an interface name. An invalid name is
// returned, too, so that references to it are not errors as well.
func (d *document) name(n ast.Node, what string, limit int) string {
	s, ok := d.text(n, what)
	if err := checkName(s, limit); ok && err != nil {
		d.refused(placeOf(n), what+" ", err)
	}
	return s
}

func checkName(s string, limit int) error {
	bad := strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" || strings.HasPrefix(s, "-")
	if s == "" || len(s) > limit || bad {
		return problem.New(fmt.Sprintf("%q is not a name", s), fmt.Sprintf("use at most %d letters, digits, - and _", limit))
	}
	return nil
}

func (d *document) boolean(n ast.Node, what string) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		d.fault(placeOf(n), "%s must be true or false", what)
		return false
	}
	return b.Value
}

// integer reads a number; otherwise replaces an invalid one.
func (d *document) integer(n ast.Node, what string, low, high, otherwise int64) int64 {
	s, ok := d.text(n, what)
	if !ok {
		return otherwise
	}
	v, err := strconv.ParseInt(s, 0, 64)
	if err != nil || v < low || v > high {
		d.fault(placeOf(n), "%s must be a whole number from %d to %d", what, low, high)
		return otherwise
	}
	return v
}

func (d *document) duration(n ast.Node, what string, high time.Duration) time.Duration {
	s, ok := d.text(n, what)
	if !ok {
		return 0
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 || v > high {
		d.fault(placeOf(n), "%s must be a duration up to %v, such as 100ms", what, high)
		return 0
	}
	return v
}

func (d *document) address(n ast.Node, what string) netip.Addr {
	s, ok := d.text(n, what)
	if !ok {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Is4In6() || a.Zone() != "" {
		d.problem(placeOf(n), "write one such as 2001:db8::1", "%s %q is not an IPv6 address", what, s)
		return netip.Addr{}
	}
	return a
}

func (d *document) prefix(n ast.Node, what string) netip.Prefix {
	s, ok := d.text(n, what)
	if !ok {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is6() || p.Addr().Is4In6() {
		d.problem(placeOf(n), "write one such as 2001:db8::1/64", "%s %q is not an IPv6 address with a prefix length", what, s)
		return netip.Prefix{}
	}
	return p
}
