// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"encoding/binary"
	"iter"
	"time"
)

// ListSemantics is how the members of a list relate to what the record is about
// (RFC 6313 §4.4).
type ListSemantics uint8

// Semantics of lists, by their numbers in IANA's registry.
const (
	NoneOf        ListSemantics = 0
	ExactlyOneOf  ListSemantics = 1
	OneOrMoreOf   ListSemantics = 2
	AllOf         ListSemantics = 3
	Ordered       ListSemantics = 4
	ListUndefined ListSemantics = 255
)

// String is the name in RFC 6313.
func (s ListSemantics) String() string {
	switch s {
	case NoneOf:
		return "noneOf"
	case ExactlyOneOf:
		return "exactlyOneOf"
	case OneOrMoreOf:
		return "oneOrMoreOf"
	case AllOf:
		return "allOf"
	case Ordered:
		return "ordered"
	case ListUndefined:
		return "undefined"
	}
	return "unassigned"
}

// ValueList is a list of values of one element (RFC 6313 §4.5.1). It aliases the message.
type ValueList struct {
	Semantics ListSemantics
	Field     Field // of each value; its element is nil if it is not known
	Count     int   // values

	octets []byte // of them
}

// Values iterates over the values in order.
func (l ValueList) Values() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for rest := l.octets; len(rest) > 0; {
			octets, n, ok := cutValue(rest, l.Field.Length)
			if !ok || !yield(Value{&l.Field, octets}) {
				return
			}
			rest = rest[n:]
		}
	}
}

// RecordList is a list of records of one template (RFC 6313 §4.5.2). It aliases the
// message.
type RecordList struct {
	Semantics ListSemantics
	DataSet              // its template is nil if it is not known; then there are no records
	ID        TemplateID // of the template
}

// MultiList is a list of records of several templates (RFC 6313 §4.5.3). It
// aliases the message.
type MultiList struct {
	Semantics ListSemantics
	Sets      []RecordList // in order, each of one template
}

// ListReader reads lists, which are made of elements and of templates. Without a
// registry, no element is known; without templates, no records. It looks at one level:
// values of lists may be lists again. All bounds come from the octets of the value.
type ListReader struct {
	Registry *Registry
	Template func(TemplateID) *Template // nil for one that is not known
}

// Lists is the reader of lists in the records of an observation domain. Templates are
// those that apply when it reads.
func (s *Session) Lists(domain uint32, now time.Time) ListReader {
	return ListReader{s.decoder.registry, func(id TemplateID) *Template {
		s.mu.Lock()
		defer s.mu.Unlock()
		d := s.domains[domain]
		if d == nil {
			return nil
		}
		k, ok := d.templates[id]
		if !ok || s.expired(k, now) {
			return nil
		}
		return k.Template
	}}
}

// listOf returns the octets of a list of a type.
func (v Value) listOf(kind DataType, header int) ([]byte, bool) {
	if v.Field == nil || v.Field.Element == nil || v.Field.Element.Type != kind || len(v.Octets) < header {
		return nil, false
	}
	return v.Octets, true
}

// Values reads a list of values of one element. The last result reports whether the field
// has such values, and the octets are a valid one.
func (r ListReader) Values(v Value) (l ValueList, ok bool) {
	b, ok := v.listOf(BasicList, 5)
	if !ok {
		return l, false
	}
	l.Semantics = ListSemantics(b[0])
	id := binary.BigEndian.Uint16(b[1:])
	l.Field = Field{ID: ElementID(id &^ enterpriseBit), Length: binary.BigEndian.Uint16(b[3:])}
	b = b[5:]
	if id&enterpriseBit != 0 {
		if len(b) < 4 {
			return ValueList{}, false
		}
		l.Field.Enterprise = Enterprise(binary.BigEndian.Uint32(b))
		b = b[4:]
		if l.Field.Enterprise == EnterpriseIANA {
			return ValueList{}, false // the enterprise bit is set, so the element is not IANA's
		}
	}
	if l.Field.Length == 0 {
		return ValueList{}, false // any number of values would fit
	}
	if r.Registry != nil {
		if e, known := r.Registry.Lookup(l.Field.Enterprise, l.Field.ID); known && e.Type.Allows(l.Field.Length) {
			l.Field.Element = e
		}
	}
	l.octets = b
	for rest := b; len(rest) > 0; l.Count++ {
		_, n, whole := cutValue(rest, l.Field.Length)
		if !whole {
			return ValueList{}, false
		}
		rest = rest[n:]
	}
	return l, true
}

// Records reads a list of records of one template. The last result reports whether the
// field has such values, and the octets are a valid one.
func (r ListReader) Records(v Value) (l RecordList, ok bool) {
	b, ok := v.listOf(SubTemplateList, 3)
	if !ok {
		return l, false
	}
	if l, ok = r.set(TemplateID(binary.BigEndian.Uint16(b[1:])), b[3:]); !ok {
		return RecordList{}, false
	}
	l.Semantics = ListSemantics(b[0])
	return l, true
}

// Sets reads a list of records of several templates. The last result reports whether the
// field has such values, and the octets are a valid one.
func (r ListReader) Sets(v Value) (l MultiList, ok bool) {
	b, ok := v.listOf(SubTemplateMultiList, 1)
	if !ok {
		return l, false
	}
	l.Semantics = ListSemantics(b[0])
	for b = b[1:]; len(b) > 0; {
		if len(b) < multiHeaderLen {
			return MultiList{}, false
		}
		length := int(binary.BigEndian.Uint16(b[2:])) // with its own header
		if length < multiHeaderLen || length > len(b) {
			return MultiList{}, false
		}
		set, valid := r.set(TemplateID(binary.BigEndian.Uint16(b)), b[multiHeaderLen:length:length])
		if !valid {
			return MultiList{}, false
		}
		set.Semantics = l.Semantics
		l.Sets = append(l.Sets, set)
		b = b[length:]
	}
	return l, true
}

// multiHeaderLen is the octets of a template's number and the length of its records.
const multiHeaderLen = 4

// set counts the records of a template. Lists have no padding.
func (r ListReader) set(id TemplateID, octets []byte) (l RecordList, ok bool) {
	l.ID = id
	if id < MinTemplateID {
		return l, false
	}
	if r.Template == nil {
		return l, true
	}
	t := r.Template(id)
	if t == nil {
		return l, true
	}
	l.DataSet = DataSet{Template: t, octets: octets}
	for rest := octets; len(rest) > 0; l.Count++ {
		n, _, whole := t.cutRecord(rest)
		if !whole || n == 0 {
			return l, false
		}
		rest = rest[n:]
	}
	return l, true
}

// AppendBasicList appends a list of values of one element, each encoded. It is a value of
// a field of type basicList, for [RecordWriter.Octets].
func AppendBasicList(dst []byte, s ListSemantics, f Field, values ...[]byte) ([]byte, error) {
	if f.Length == 0 {
		return dst, ErrValueLength
	}
	out := append(dst, byte(s))
	out = f.appendTo(out)
	for _, v := range values {
		switch {
		case f.Length != VariableLength && len(v) != int(f.Length), len(v) > 65535:
			return dst, ErrValueLength
		case f.Length != VariableLength:
		case len(v) < 255:
			out = append(out, byte(len(v)))
		default:
			out = binary.BigEndian.AppendUint16(append(out, 255), uint16(len(v)))
		}
		out = append(out, v...)
	}
	return out, nil
}

// AppendSubTemplateList appends a list of records of one template, as [RecordWriter.End]
// returns them. It is a value of a field of type subTemplateList.
func AppendSubTemplateList(dst []byte, s ListSemantics, t *Template, records ...[]byte) ([]byte, error) {
	out, ok := t.appendRecords(binary.BigEndian.AppendUint16(append(dst, byte(s)), uint16(t.id)), records)
	if !ok {
		return dst, ErrNotRecord
	}
	return out, nil
}

// ListRecords are records of one template, in a list of several.
type ListRecords struct {
	Template *Template
	Records  [][]byte
}

// AppendSubTemplateMultiList appends a list of records of several templates. It is a value
// of a field of type subTemplateMultiList.
func AppendSubTemplateMultiList(dst []byte, s ListSemantics, sets ...ListRecords) ([]byte, error) {
	out := append(dst, byte(s))
	for _, set := range sets {
		start, ok := len(out), false
		out = binary.BigEndian.AppendUint16(out, uint16(set.Template.id))
		if out, ok = set.Template.appendRecords(append(out, 0, 0), set.Records); !ok {
			return dst, ErrNotRecord
		}
		if len(out)-start > 65535 {
			return dst, ErrValueLength
		}
		binary.BigEndian.PutUint16(out[start+2:], uint16(len(out)-start))
	}
	return out, nil
}

// appendRecords appends records of the template.
func (t *Template) appendRecords(dst []byte, records [][]byte) ([]byte, bool) {
	for _, r := range records {
		if n, _, ok := t.cutRecord(r); !ok || n != len(r) {
			return dst, false
		}
		dst = append(dst, r...)
	}
	return dst, true
}
