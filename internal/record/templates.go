// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// shape decides which fields a data record has.
type shape struct {
	kind DataKind
	has  conditions
}

// general is the shape with every field that a record of s may have. Fields that the
// record lacks are then "not available". Packets do not decide the fields of flows and
// measurements, so these need no general shape.
func (s shape) general() shape {
	s.has |= formats[s.kind].known().general
	return s
}

// Templates of data records have numbers from firstDataTemplate on.
const firstDataTemplate ipfix.TemplateID = 300

// MaxShapes bounds templates for specific trace types, because packets decide which
// trace types occur. Further ones share the general templates.
const MaxShapes = 64

// Layout is how records of a shape are written.
type Layout struct {
	Index    uint16 // among the layouts of its Templates
	Template *ipfix.Template

	shape  shape
	places places
	steps  any // []step[R] for the kind's type: they write a record

	from, to int // of the steps that write lasting fields
}

// Templates has a template for each shape of record so far, shared by all sinks with
// the same encoder.
type Templates struct {
	Registry *ipfix.Registry

	known atomic.Pointer[map[shape]*Layout]
	mu    sync.Mutex // of making one
	list  atomic.Pointer[[]*Layout]
}

// NewTemplates makes templates, with our own elements under an enterprise number.
func NewTemplates(enterprise ipfix.Enterprise) (*Templates, error) {
	registry, err := ipfix.NewRegistry(ipfix.IANA(), ipfix.IOAM(), ipfix.Waymark(enterprise))
	if err != nil {
		return nil, fmt.Errorf("enterprise number %d: %w", enterprise, err)
	}
	t := &Templates{Registry: registry}
	t.known.Store(&map[shape]*Layout{})
	t.list.Store(&[]*Layout{})
	return t, nil
}

// Layouts are the layouts so far, by index.
func (t *Templates) Layouts() []*Layout { return *t.list.Load() }

// of is the layout for records of a shape.
func (t *Templates) of(s shape) (*Layout, error) {
	if l := (*t.known.Load())[s]; l != nil {
		return l, nil
	}
	return t.make(s)
}

// make adds a shape: data that is read without a lock is replaced by a changed copy.
func (t *Templates) make(s shape) (*Layout, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, list := *t.known.Load(), *t.list.Load()
	if l := known[s]; l != nil {
		return l, nil
	}
	if general := s.general(); len(list) >= MaxShapes && s != general {
		if l := known[general]; l != nil {
			return l, nil
		}
		s = general
	}
	l := &Layout{shape: s, Index: uint16(len(list))}
	id := firstDataTemplate + ipfix.TemplateID(l.Index)
	if err := formats[s.kind].compile(l, t.Registry, id); err != nil {
		return nil, err
	}
	l.places = placesOf(l.Template)
	next := make(map[shape]*Layout, len(known)+1)
	for k, v := range known {
		next[k] = v
	}
	next[s] = l
	longer := append(list[:len(list):len(list)], l)
	t.list.Store(&longer)
	t.known.Store(&next)
	return l, nil
}

// Encoding encodes records one after another, in one goroutine.
type Encoding struct {
	Layout *Layout // of the last record
	Octets []byte  // the last record

	templates *Templates
	kind      *kind // of the last record
	part      any   // memory for a part of a record
	last      origin
	lasting   []byte // the lasting fields of the last postcard, in Layout
}

// Encoding makes an Encoding.
func (t *Templates) Encoding() *Encoding { return &Encoding{templates: t} }

// Parts is how many data records of IPFIX a record is, 0 if there are none of its kind, and
// whether they have a number in common.
func (e *Encoding) Parts(r Record) (count int, joined bool) {
	if name := r.Kind(); e.kind == nil || e.kind.name != name {
		e.kind = kindNamed(name)
	}
	switch {
	case e.kind == nil || e.kind.data == nil:
		return 0, false
	case e.kind.parts != nil:
		return e.kind.parts(r), true
	}
	return 1, false
}

// Encode encodes one of the parts of the record that Parts was last asked about. By its
// number, a collector distinguishes the joined parts of a record from those of others.
func (e *Encoding) Encode(r Record, index int, number uint32) error {
	if e.kind == nil || e.kind.data == nil {
		return errNoPart
	}
	return e.kind.data.encode(e, r, index, number)
}

// errNoPart: only a mistake in a program can cause it.
var errNoPart = errors.New("IPFIX has no such part of this record")

// begin finds the layout of a shape.
func (e *Encoding) begin(s shape) (err error) {
	if e.Layout == nil || e.Layout.shape != s {
		e.lasting = e.lasting[:0]
		e.Layout, err = e.templates.of(s)
	}
	return err
}

// errData: the node data are not as long as the trace type says.
var errData = errors.New("the node data do not have the length that their trace type says")

// hasAllFields reports whether node data have all the fields of their type, except a snapshot.
func hasAllFields(d *ioam.NodeData) bool { return len(d.Bytes) >= 4*(d.Type&typeFixed).NodeLen() }
