// SPDX-License-Identifier: Apache-2.0

package record

import (
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ipfix"
)

// kind is what is known of a kind of records.
type kind struct {
	name, meaning, from string
	rows                rows
	new                 func() Record
	data                data             // nil: no records of IPFIX
	parts               func(Record) int // data records of a record; nil: one
}

func newKind[R any, P interface {
	*R
	Record
}](name, meaning, from string, t table[P]) *kind {
	return &kind{name: name, meaning: meaning, from: from, rows: t.rows(), new: func() Record { return P(new(R)) }}
}

// withMaker says how a record is made that is read.
func (k *kind) withMaker(make func() Record) *kind {
	k.new = make
	return k
}

// ipfix says how records are in IPFIX.
func (k *kind) ipfix(f data) *kind {
	k.data, k.parts = f, f.known().parts
	return k
}

// byName are the kinds by their names in JSON.
var byName = func() map[string]*kind {
	m := make(map[string]*kind, len(kinds))
	for _, k := range kinds {
		m[k.name] = k
	}
	return m
}()

// kindNamed is nil for a kind that is not known.
func kindNamed(name string) *kind { return byName[name] }

// formats are the kinds of data records.
var formats = func() (list [NumDataKinds]data) {
	for _, k := range kinds {
		if k.data != nil {
			list[k.data.known().kind] = k.data
		}
	}
	return list
}()

// facts are what is known of a kind of data records of IPFIX, besides what to do with one.
type facts struct {
	kind     DataKind
	variants []variant  // for the reference
	markers  []string   // elements of which a template has one
	shared   bool       // records of other kinds may have them, too
	general  conditions // that packets decide; not those of flows and measurements

	namespaced       bool   // about a namespace of IOAM: without one, the record is impossible
	counter, counted string // a collector's counter: its name, and its meaning
	weight           weighing
	parts            func(Record) int // data records of a record; nil: one
}

// variant is a set of conditions with a title in the reference.
type variant struct {
	title string
	has   conditions
}

// known are the facts of a kind, whatever the type of its records.
func (f *facts) known() *facts { return f }

// data is a kind of data records of IPFIX, for code that handles all kinds in the same way. Records
// are pointers.
type data interface {
	known() *facts
	fields() rows
	compile(l *Layout, registry *ipfix.Registry, id ipfix.TemplateID) error
	encode(e *Encoding, r Record, index int, report uint32) error
	read(r *Reading, record ipfix.DataRecord, beyond func(ipfix.Value)) any
	timeOf(r any) instant.Time
	faultOf(r any, in *Reading) Fault
	completed(r any, by Sender)
}

// format is how the data records of a kind are made, written and read: R is a pointer to
// what has the table of their elements. A function that is nil does nothing.
type format[R any] struct {
	facts
	table      table[R]
	conditions func(R) conditions
	encodable  func(R) error                              // why it is not
	lasting    func(R, *origin) bool                      // whether its lasting fields are made from an origin, which it sets
	part       func(r R, of Record, index int, id uint32) // sets r to a part of a record; nil: R is the record
	forget     func(R)                                    // empties a part

	empty        func() R // to be read
	deriveFields func(R, *Reading)
	time         func(R) instant.Time // when it was made, by the exporter's clock
	fault        func(R, *Reading) Fault
	complete     func(R, Sender)
}

func (f *format[R]) fields() rows { return f.table.rows() }

// compile makes the template with the fields of the shape's records, and the steps that
// write a record.
func (f *format[R]) compile(l *Layout, registry *ipfix.Registry, id ipfix.TemplateID) (err error) {
	if l.Template, err = registry.Template(id, f.fields().specs(l.shape.has)...); err != nil {
		return err
	}
	l.steps = f.table.steps(l.shape.has, l.Template.Fields())
	l.from, l.to = f.fields().lasting(l.shape.has)
	return nil
}

func (f *format[R]) encode(e *Encoding, r Record, index int, report uint32) error {
	if f.part == nil {
		p, ok := r.(R)
		if !ok {
			return errNoPart
		}
		return f.write(e, p)
	}
	p, ok := e.part.(R)
	if !ok {
		p = f.empty()
		e.part = p
	}
	f.part(p, r, index, report)
	defer f.forget(p) // keep no reference to the record
	return f.write(e, p)
}

func (f *format[R]) write(e *Encoding, p R) error {
	if f.encodable != nil {
		if err := f.encodable(p); err != nil {
			return err
		}
	}
	if err := e.begin(shape{f.kind, f.conditions(p)}); err != nil {
		return err
	}
	l := e.Layout
	steps := l.steps.([]step[R])
	b := e.Octets[:0]
	if f.lasting == nil {
		e.Octets = follow(b, p, steps)
		return nil
	}
	// The lasting fields may be those of the record before.
	b = follow(b, p, steps[:l.from])
	if f.lasting(p, &e.last) && len(e.lasting) > 0 {
		b = append(b, e.lasting...)
	} else {
		at := len(b)
		b = follow(b, p, steps[l.from:l.to])
		e.lasting = append(e.lasting[:0], b[at:]...)
	}
	e.Octets = follow(b, p, steps[l.to:])
	return nil
}

func follow[R any](b []byte, p R, steps []step[R]) []byte {
	for _, put := range steps {
		b = put(b, p)
	}
	return b
}

func (f *format[R]) read(in *Reading, record ipfix.DataRecord, beyond func(ipfix.Value)) any {
	p := f.empty()
	readInto(p, in.plan, record, beyond)
	if f.deriveFields != nil {
		f.deriveFields(p, in)
	}
	return p
}

func (f *format[R]) timeOf(r any) instant.Time { return f.time(r.(R)) }

func (f *format[R]) faultOf(r any, in *Reading) Fault {
	if f.fault == nil {
		return NoFault
	}
	return f.fault(r.(R), in)
}

func (f *format[R]) completed(r any, by Sender) {
	if f.complete != nil {
		f.complete(r.(R), by)
	}
}

// Sender is what a collector knows of the exporter of a record, besides the record.
type Sender interface {
	Node() string                         // its name; "" if not known
	Interface(index model.IfIndex) string // its name; "" if not known
	Exported() time.Time                  // when the record was sent, by the exporter's clock
}

// dated is a time that is read, or the time of export if there is none.
func dated(at instant.Time, by Sender) instant.Time {
	if at = instant.Of(at.Time); at.IsZero() {
		return instant.Of(by.Exported())
	}
	return at
}
