// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// TemplateID is the number of a template in its transport session and
// observation domain (RFC 7011 §3.4.1).
type TemplateID uint16

// MinTemplateID is the least number of a template; smaller ones name kinds of
// sets.
const MinTemplateID TemplateID = 256

// Sets of templates (RFC 7011 §3.3.2).
const (
	setTemplates        = 2
	setOptionsTemplates = 3
)

// VariableLength as the length of a field means that each value has its own (RFC 7011
// §7).
const VariableLength uint16 = 65535

// Field is a field specifier of a template (RFC 7011 §3.2).
type Field struct {
	Enterprise Enterprise
	ID         ElementID
	Length     uint16   // octets, or VariableLength
	Element    *Element // nil: unknown, or of a length that its type cannot have; the values are octets
}

func (f Field) same(g Field) bool {
	return f.Enterprise == g.Enterprise && f.ID == g.ID && f.Length == g.Length
}

// name is the field's name in error messages.
func (f Field) name() string {
	if f.Element != nil {
		return f.Element.Name
	}
	return fmt.Sprintf("element %d of enterprise %d", f.ID, f.Enterprise)
}

// Template is a template, or with a scope an options template (RFC 7011 §3.4).
// It does not change, so goroutines may share it.
type Template struct {
	id      TemplateID
	scope   int
	fields  []Field
	slots   []slot // what encoding needs of fields, in compact form
	minimum int    // octets of the shortest record
	fixed   bool   // all records have that length
	encoded []byte // the template record
}

// slot is a field for the encoder.
type slot struct {
	kind   DataType
	class  class
	length uint16
}

// NewTemplate makes a template of fields with known elements; if scope is not 0, the
// first scope fields are the scope of an options template.
func NewTemplate(id TemplateID, scope int, fields ...Field) (*Template, error) {
	if id < MinTemplateID {
		return nil, fmt.Errorf("template %d: use a number from %d on (RFC 7011 §3.4.1)", id, MinTemplateID)
	}
	if len(fields) == 0 || scope < 0 || scope > len(fields) {
		return nil, fmt.Errorf(
			"template %d: %d fields with a scope of %d; give at least one field, and a scope of at most their number",
			id,
			len(fields),
			scope,
		)
	}
	for _, f := range fields {
		if f.Element == nil || f.Element.key() != (elementKey{f.Enterprise, f.ID}) || !f.Element.Type.Allows(f.Length) {
			return nil, fmt.Errorf(
				"template %d: no values can be encoded for %s in %d octets; take fields from Registry.Field",
				id,
				f.name(),
				f.Length,
			)
		}
	}
	t := newTemplate(id, scope, slices.Clone(fields))
	t.encoded = t.appendTo(nil)
	if longest := maxMessage - headerLen - setHeaderLen; t.minimum > longest || len(t.encoded) > longest {
		return nil, fmt.Errorf("template %d: does not fit a message; use fewer or shorter fields", id)
	}
	return t, nil
}

// newTemplate computes what follows from the fields, and keeps the slice.
func newTemplate(id TemplateID, scope int, fields []Field) *Template {
	t := &Template{id: id, scope: scope, fields: fields, slots: make([]slot, len(fields)), fixed: true}
	for i, f := range fields {
		kind := OctetArray
		if f.Element != nil {
			kind = f.Element.Type
		}
		t.slots[i] = slot{kind, kind.class(), f.Length}
		if f.Length == VariableLength {
			t.fixed = false
			t.minimum++ // an empty value's length (RFC 7011 §7)
		} else {
			t.minimum += int(f.Length)
		}
	}
	return t
}

// ID is the template's number.
func (t *Template) ID() TemplateID { return t.id }

// Scope is how many of the first fields are the scope; 0: not an options template.
func (t *Template) Scope() int { return t.scope }

// Fields are the fields in their order, and must not be changed.
func (t *Template) Fields() []Field { return t.fields }

// MinRecordLen is the length in octets of the shortest record.
func (t *Template) MinRecordLen() int { return t.minimum }

// Same reports whether two templates have the same number, kind and fields.
func (t *Template) Same(u *Template) bool {
	return t.id == u.id && t.scope == u.scope && slices.EqualFunc(t.fields, u.fields, Field.same)
}

// setID is the kind of set that the template is sent in.
func (t *Template) setID() uint16 {
	if t.scope > 0 {
		return setOptionsTemplates
	}
	return setTemplates
}

// appendTo appends the template record (RFC 7011 §3.4.1, §3.4.2.2).
func (t *Template) appendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(t.id))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(t.fields)))
	if t.scope > 0 {
		dst = binary.BigEndian.AppendUint16(dst, uint16(t.scope))
	}
	for _, f := range t.fields {
		dst = f.appendTo(dst)
	}
	return dst
}

// appendTo appends the field specifier (RFC 7011 §3.2).
func (f Field) appendTo(dst []byte) []byte {
	if f.Enterprise == EnterpriseIANA {
		dst = binary.BigEndian.AppendUint16(dst, uint16(f.ID))
		return binary.BigEndian.AppendUint16(dst, f.Length)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(f.ID)|enterpriseBit)
	dst = binary.BigEndian.AppendUint16(dst, f.Length)
	return binary.BigEndian.AppendUint32(dst, uint32(f.Enterprise))
}

// enterpriseBit is the first bit of a field specifier (RFC 7011 §3.2).
const enterpriseBit = 0x8000

// has reports whether the template has this scope and these fields.
func (t *Template) has(scope int, fields []Field) bool {
	return t.scope == scope && slices.EqualFunc(t.fields, fields, Field.same)
}
