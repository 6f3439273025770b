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
	dataLoss
	dataDelay
	dataBlock
	dataEdgeFlow
)

// shape decides which fields a data record has.
type shape struct {
	kind dataKind
	has  conditions
}

// general is the shape with every field that a record of s may have. Fields that the
// record lacks are then "not available". Packets do not decide the fields of flows and
// measurements, so these need no general shape.
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

// MaxShapes bounds templates for specific trace types, because packets decide which
// trace types occur. Further ones share the general templates.
const MaxShapes = 64

// Layout is how records of a shape are written.
type Layout struct {
	Index    uint16 // among the layouts of its Templates
	Template *ipfix.Template

	shape  shape
	places places
	steps  []step[opaque] // write a record

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
	var err error
	switch s.kind {
	case dataPostcard:
		err = l.compile(t.Registry, id, postcards.rows())
	case dataHop:
		err = l.compile(t.Registry, id, hops.rows())
	case dataFlow:
		err = l.compile(t.Registry, id, flows.rows())
	case dataLoss:
		err = l.compile(t.Registry, id, blockLosses.rows())
	case dataDelay:
		err = l.compile(t.Registry, id, pathDelays.rows())
	case dataBlock:
		err = l.compile(t.Registry, id, blocks.rows())
	case dataEdgeFlow:
		err = l.compile(t.Registry, id, edgeFlows.rows())
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

// compile makes the template with the fields of the shape's records, and the steps that
// write a record.
func (l *Layout) compile(registry *ipfix.Registry, id ipfix.TemplateID, t rows) (err error) {
	if l.Template, err = registry.Template(id, t.specs(l.shape.has)...); err != nil {
		return err
	}
	l.steps = t.steps(l.shape.has, l.Template.Fields())
	l.from, l.to = t.lasting(l.shape.has)
	return nil
}

// Encoding encodes records one after another, in one goroutine.
type Encoding struct {
	Layout *Layout // of the last record
	Octets []byte  // the last record

	templates *Templates
	hop       Hop
	last      origin
	lasting   []byte // the lasting fields of the last postcard, in Layout
}

// Encoding makes an Encoding.
func (t *Templates) Encoding() *Encoding { return &Encoding{templates: t} }

// errData: the node data are not as long as the trace type says.
var errData = errors.New("the node data do not have the length that their trace type says")

// whole reports whether node data have all the fields of their type, except a snapshot.
func whole(d *ioam.NodeData) bool { return len(d.Bytes) >= 4*(d.Type&typeFixed).NodeLen() }

// begin finds the layout of a shape.
func (e *Encoding) begin(s shape) (err error) {
	if e.Layout == nil || e.Layout.shape != s {
		e.lasting = e.lasting[:0]
		e.Layout, err = e.templates.of(s)
	}
	return err
}

// write writes a record of the layout's kind.
func (e *Encoding) write(r *opaque) { e.Octets = write(e.Octets[:0], r, e.Layout.steps) }

func write(b []byte, r *opaque, steps []step[opaque]) []byte {
	for _, put := range steps {
		b = put(b, r)
	}
	return b
}

// writeLasting is write for a record of which the lasting fields may be those of the
// record before.
func (e *Encoding) writeLasting(r *opaque, of origin) {
	l := e.Layout
	b := write(e.Octets[:0], r, l.steps[:l.from])
	if at := len(b); len(e.lasting) > 0 && of == e.last {
		b = append(b, e.lasting...)
	} else {
		b = write(b, r, l.steps[l.from:l.to])
		e.lasting, e.last = append(e.lasting[:0], b[at:]...), of
	}
	e.Octets = write(b, r, l.steps[l.to:])
}

// Postcard encodes a postcard.
func (e *Encoding) Postcard(p *Postcard) error {
	if err := p.encodable(); err != nil {
		return err
	}
	if err := e.begin(shape{dataPostcard, p.conditions()}); err != nil {
		return err
	}
	e.writeLasting(blind(p), p.origin())
	return nil
}

// Flow encodes a flow.
func (e *Encoding) Flow(f *Flow) error {
	if err := e.begin(shape{dataFlow, f.conditions()}); err != nil {
		return err
	}
	e.write(blind(f))
	return nil
}

// Loss encodes a loss.
func (e *Encoding) Loss(l *Loss) error {
	if err := e.begin(shape{dataLoss, l.conditions()}); err != nil {
		return err
	}
	e.write(blind(l))
	return nil
}

// Delay encodes a delay.
func (e *Encoding) Delay(d *Delay) error {
	if err := e.begin(shape{dataDelay, d.conditions()}); err != nil {
		return err
	}
	e.write(blind(d))
	return nil
}

// Block encodes a block.
func (e *Encoding) Block(b *Block) error {
	if err := e.begin(shape{dataBlock, b.conditions()}); err != nil {
		return err
	}
	e.write(blind(b))
	return nil
}

// EdgeFlow encodes a flow from edge to edge.
func (e *Encoding) EdgeFlow(f *EdgeFlow) error {
	if err := e.begin(shape{dataEdgeFlow, f.conditions()}); err != nil {
		return err
	}
	e.write(blind(f))
	return nil
}

// Hop encodes what the node at an index of a trace wrote. report distinguishes the
// traces of an exporter.
func (e *Encoding) Hop(r *Trace, index int, report uint32) error {
	r.hop(&e.hop, index, report)
	defer func() { e.hop = Hop{} }() // keep no reference to the record
	if err := e.hop.encodable(); err != nil {
		return err
	}
	if err := e.begin(shape{dataHop, e.hop.conditions()}); err != nil {
		return err
	}
	e.write(blind(&e.hop))
	return nil
}
