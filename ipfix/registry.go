// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

type elementKey struct {
	enterprise Enterprise
	id         ElementID
}

// Registry is a set of information elements, found by number and by name. It
// does not change, so goroutines may share it.
type Registry struct {
	elements []Element // by enterprise, then number
	byKey    map[elementKey]*Element
	byName   map[string]*Element
}

// NewRegistry makes a registry of groups of elements, such as [IANA], [IOAM] and
// [Waymark]. Each number and each name must belong to one element only.
func NewRegistry(groups ...[]Element) (*Registry, error) {
	r := &Registry{elements: slices.Concat(groups...)}
	slices.SortStableFunc(r.elements, func(a, b Element) int {
		return cmp.Or(cmp.Compare(a.Enterprise, b.Enterprise), cmp.Compare(a.ID, b.ID))
	})
	r.byKey = make(map[elementKey]*Element, len(r.elements))
	r.byName = make(map[string]*Element, len(r.elements))
	for i := range r.elements {
		e := &r.elements[i]
		if err := e.check(); err != nil {
			return nil, err
		}
		if other := r.byKey[e.key()]; other != nil {
			return nil, fmt.Errorf(
				"elements %s and %s are both number %d of enterprise %d; give one of them another number",
				other.Name,
				e.Name,
				e.ID,
				e.Enterprise,
			)
		}
		if r.byName[e.Name] != nil {
			return nil, fmt.Errorf("two elements are named %s; rename one of them", e.Name)
		}
		r.byKey[e.key()], r.byName[e.Name] = e, e
	}
	return r, nil
}

// Elements returns all elements by enterprise and number. The caller owns the slice.
func (r *Registry) Elements() []Element { return slices.Clone(r.elements) }

// Lookup finds an element by its number. The element must not be changed.
func (r *Registry) Lookup(enterprise Enterprise, id ElementID) (*Element, bool) {
	e, ok := r.byKey[elementKey{enterprise, id}]
	return e, ok
}

// Named finds an element by its name. The element must not be changed.
func (r *Registry) Named(name string) (*Element, bool) {
	e, ok := r.byName[name]
	return e, ok
}

// Field reads a field specification: the name of an element, followed by its length in
// brackets if that is not the usual one: a number of octets, or v for variable length,
// as in "octetDeltaCount[4]" and "interfaceName[v]".
func (r *Registry) Field(spec string) (Field, error) {
	name, bracket, sized := strings.Cut(spec, "[")
	e, ok := r.Named(name)
	if !ok {
		return Field{}, fmt.Errorf("field %q: the registry has no element of that name", spec)
	}
	length := e.UsualLength()
	if sized {
		text, closed := strings.CutSuffix(bracket, "]")
		if length = VariableLength; text != "v" {
			n, err := strconv.ParseUint(text, 10, 16)
			if err != nil || n == uint64(VariableLength) {
				return Field{}, fmt.Errorf("field %q: write a length as [4], a variable one as [v]", spec)
			}
			length = uint16(n)
		}
		if !closed {
			return Field{}, fmt.Errorf("field %q: close the bracket", spec)
		}
	}
	if !e.Type.Allows(length) {
		return Field{}, fmt.Errorf("field %q: not a length of %s (RFC 7011 §6.2)", spec, e.Type)
	}
	return Field{Enterprise: e.Enterprise, ID: e.ID, Length: length, Element: e}, nil
}

func (r *Registry) fields(specs []string) ([]Field, error) {
	fields := make([]Field, 0, len(specs))
	for _, spec := range specs {
		f, err := r.Field(spec)
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// Template makes a template from field specifications.
func (r *Registry) Template(id TemplateID, specs ...string) (*Template, error) {
	fields, err := r.fields(specs)
	if err != nil {
		return nil, fmt.Errorf("template %d: %w", id, err)
	}
	return NewTemplate(id, 0, fields...)
}

// OptionsTemplate makes an options template from field specifications, those of the
// scope first (RFC 7011 §3.4.2).
func (r *Registry) OptionsTemplate(id TemplateID, scope []string, specs ...string) (*Template, error) {
	fields, err := r.fields(slices.Concat(scope, specs))
	if err != nil {
		return nil, fmt.Errorf("options template %d: %w", id, err)
	}
	if len(scope) == 0 {
		return nil, fmt.Errorf("options template %d: name at least one element of its scope (RFC 7011 §3.4.2.2)", id)
	}
	return NewTemplate(id, len(scope), fields...)
}
