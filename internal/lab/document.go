// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Fault is one mistake in a topology.
type Fault struct {
	Line int
	Text string // what is wrong and how to mend it
}

// Faults are all the mistakes found in a topology.
type Faults struct {
	File   string
	Faults []Fault
}

func (f *Faults) Error() string {
	lines := make([]string, len(f.Faults))
	for i, fault := range f.Faults {
		lines[i] = fmt.Sprintf("%s:%d: %s", f.File, fault.Line, fault.Text)
	}
	return strings.Join(lines, "\n")
}

// document reads a syntax tree and collects what is wrong with it, so that one
// run names every mistake.
type document struct {
	source []byte
	faults []Fault
}

func (d *document) fault(line int, format string, args ...any) {
	d.faults = append(d.faults, Fault{line, fmt.Sprintf(format, args...)})
}

// err returns the faults in the order of their lines.
func (d *document) err(file string) error {
	if len(d.faults) == 0 {
		return nil
	}
	sort.SliceStable(d.faults, func(i, j int) bool { return d.faults[i].Line < d.faults[j].Line })
	return &Faults{File: file, Faults: slices.Compact(d.faults)}
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	return n.GetToken().Position.Line
}

// mapping reads a mapping; a key without a reader is a fault.
func (d *document) mapping(n ast.Node, what string, readers map[string]func(ast.Node)) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		d.fault(lineOf(n), "%s must be a mapping of keys to values", what)
		return
	}
	for _, v := range values {
		key := v.Key.GetToken().Value
		read, ok := readers[key]
		if !ok {
			known := make([]string, 0, len(readers))
			for k := range readers {
				known = append(known, k)
			}
			sort.Strings(known)
			d.fault(lineOf(v.Key), "%s has no key %q; it has %s", what, key, strings.Join(known, ", "))
			continue
		}
		if _, null := v.Value.(*ast.NullNode); null {
			d.fault(lineOf(v.Key), "%s: %s has no value; give one or remove the key", what, key)
			continue
		}
		read(v.Value)
	}
}

// sequence reads a list of at most limit entries.
func (d *document) sequence(n ast.Node, what string, limit int, read func(ast.Node)) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fault(lineOf(n), "%s must be a list", what)
		return
	}
	if len(s.Values) > limit {
		d.fault(lineOf(n), "%s has %d entries; the limit is %d", what, len(s.Values), limit)
		return
	}
	for _, v := range s.Values {
		read(v)
	}
}

// oneOrMore reads one value, or a list of them.
func (d *document) oneOrMore(n ast.Node, what string, limit int, read func(ast.Node)) {
	if _, ok := n.(ast.ScalarNode); ok {
		read(n)
		return
	}
	d.sequence(n, what, limit, read)
}

// text reads any scalar as it is written.
func (d *document) text(n ast.Node, what string) string {
	if _, ok := n.(ast.ScalarNode); !ok {
		// The parser takes the colons of an address in a list in braces for
		// those of a mapping.
		d.fault(lineOf(n), "%s must be one value (in quotes when it is an address in a list in braces)", what)
		return ""
	}
	return n.GetToken().Value
}

// name reads a name that is safe in a path and as an interface name.
func (d *document) name(n ast.Node, what string, limit int) string {
	s := d.text(n, what)
	if s == "" {
		return ""
	}
	if err := checkName(s, limit); err != nil {
		d.fault(lineOf(n), "%s %v", what, err)
		return ""
	}
	return s
}

func checkName(s string, limit int) error {
	bad := strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" || strings.HasPrefix(s, "-")
	if s == "" || len(s) > limit || bad {
		return fmt.Errorf("%q is not a name; use at most %d letters, digits, - and _", s, limit)
	}
	return nil
}

func (d *document) boolean(n ast.Node, what string) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		d.fault(lineOf(n), "%s must be true or false", what)
		return false
	}
	return b.Value
}

func (d *document) integer(n ast.Node, what string, low, high int64) int64 {
	v, err := strconv.ParseInt(d.text(n, what), 0, 64)
	if err != nil || v < low || v > high {
		d.fault(lineOf(n), "%s must be a whole number from %d to %d", what, low, high)
		return low
	}
	return v
}

func (d *document) duration(n ast.Node, what string, high time.Duration) time.Duration {
	v, err := time.ParseDuration(d.text(n, what))
	if err != nil || v < 0 || v > high {
		d.fault(lineOf(n), "%s must be a duration up to %v, such as 100ms", what, high)
		return 0
	}
	return v
}

func (d *document) address(n ast.Node, what string) netip.Addr {
	s := d.text(n, what)
	if s == "" {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Is4In6() || a.Zone() != "" {
		d.fault(lineOf(n), "%s %q is not an IPv6 address; write one such as 2001:db8::1", what, s)
		return netip.Addr{}
	}
	return a
}

func (d *document) prefix(n ast.Node, what string) netip.Prefix {
	s := d.text(n, what)
	if s == "" {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is6() || p.Addr().Is4In6() {
		d.fault(lineOf(n), "%s %q is not an IPv6 address with a prefix length; write one such as 2001:db8::1/64", what, s)
		return netip.Prefix{}
	}
	return p
}
