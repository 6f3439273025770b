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

// dataKind is a kind of data records of IPFIX.
type dataKind uint8

const (
	dataPostcard dataKind = iota
	dataHop
	dataFlow
)

// shape is what decides which fields a data record has.
type shape struct {
	kind dataKind
	has  conditions
}

// general is the shape that has every field that a record of s may have. What the
// record lacks is "not available" then. Packets do not decide what flows have, so
// they need none.
func (s shape) general() shape {
	switch s.kind {
	case dataPostcard:
		s.has |= bitsOf(typeFields) | 1<<flowIDThere | 1<<sequenceThere
	case dataHop:
		s.has |= bitsOf(typeFields)
	}
	return s
}

// Templates of data records have numbers from firstDataTemplate on.
const firstDataTemplate ipfix.TemplateID = 300

// MaxShapes bounds templates for trace types of their own: packets decide which
// trace types there are. Others share the general templates.
const MaxShapes = 64

// Layout is how records of a shape are written.
type Layout struct {
	Index    uint16 // among those of its Templates
	Template *ipfix.Template

	shape  shape
	places places
	// steps of one of these kinds write a record.
	postcard []step[Postcard]
	hop      []step[Hop]
	flow     []step[Flow]
}

// Templates has a template for each shape of record that there was, the same for
// all who share an encoder.
type Templates struct {
	Registry *ipfix.Registry

	known atomic.Pointer[map[shape]*Layout]
	mu    sync.Mutex // of making one
	list  atomic.Pointer[[]*Layout]
}

// NewTemplates makes templates whose elements of our own are under an enterprise
// number.
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

// Layouts are those that there are, by index.
func (t *Templates) Layouts() []*Layout { return *t.list.Load() }

// of is the layout for records of a shape.
func (t *Templates) of(s shape) (*Layout, error) {
	if l := (*t.known.Load())[s]; l != nil {
		return l, nil
	}
	return t.make(s)
}

// make adds a shape: what is read without a lock is copied.
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
	var err error
	switch s.kind {
	case dataPostcard:
		l.Template, l.postcard, err = compile(t.Registry, id, postcards, s.has)
	case dataHop:
		l.Template, l.hop, err = compile(t.Registry, id, hops, s.has)
	case dataFlow:
		l.Template, l.flow, err = compile(t.Registry, id, flows, s.has)
	}
	if err != nil {
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

// compile makes a template of the fields that records have under conditions, and
// what writes a record of it.
func compile[R any](registry *ipfix.Registry, id ipfix.TemplateID, t table[R], has conditions) (*ipfix.Template, []step[R], error) {
	template, err := registry.Template(id, t.specs(has)...)
	if err != nil {
		return nil, nil, err
	}
	return template, t.steps(has, template.Fields()), nil
}

// Encoding is where one goroutine encodes records, one after another.
type Encoding struct {
	Layout *Layout // of the last record
	Octets []byte  // the last record

	templates *Templates
	hop       Hop
}

// Encoding makes a place to encode in.
func (t *Templates) Encoding() *Encoding { return &Encoding{templates: t} }

// errData: the node data are not as long as the trace type says.
var errData = errors.New("the node data do not have the length that their trace type says")

// whole reports whether node data have all that their type says, but for a
// snapshot.
func whole(d *ioam.NodeData) bool { return len(d.Bytes) >= 4*(d.Type&typeFixed).NodeLen() }

// begin finds the layout of a shape.
func (e *Encoding) begin(s shape) (err error) {
	if e.Layout == nil || e.Layout.shape != s {
		e.Layout, err = e.templates.of(s)
	}
	return err
}

// write writes a record.
func write[R any](e *Encoding, steps []step[R], r *R) {
	b := e.Octets[:0]
	for _, put := range steps {
		b = put(b, r)
	}
	e.Octets = b
}

// Postcard encodes a postcard.
func (e *Encoding) Postcard(p *Postcard) error {
	if err := p.encodable(); err != nil {
		return err
	}
	if err := e.begin(shape{dataPostcard, p.conditions()}); err != nil {
		return err
	}
	write(e, e.Layout.postcard, p)
	return nil
}

// Flow encodes a flow.
func (e *Encoding) Flow(f *Flow) error {
	if err := e.begin(shape{dataFlow, f.conditions()}); err != nil {
		return err
	}
	write(e, e.Layout.flow, f)
	return nil
}

// Hop encodes what the node at an index of a trace wrote. report tells the traces
// of an exporter apart.
func (e *Encoding) Hop(r *Trace, index int, report uint32) error {
	r.hop(&e.hop, index, report)
	defer func() { e.hop = Hop{} }() // keeps nothing of the record
	if err := e.hop.encodable(); err != nil {
		return err
	}
	if err := e.begin(shape{dataHop, e.hop.conditions()}); err != nil {
		return err
	}
	write(e, e.Layout.hop, &e.hop)
	return nil
}
