// SPDX-License-Identifier: Apache-2.0

package report

import (
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/ioam"
)

// Recorder makes records of the postcards and flows that programs write.
type Recorder struct {
	name  string // of the node
	node  *reference.Node
	names map[model.IfIndex]string

	batches sync.Pool // of *postcardBatch
}

// NewRecorder makes a Recorder for a node with that name and configuration. taiOffset
// is TAI − UTC in ns.
func NewRecorder(name string, config model.NodeConfig, taiOffset int64) (*Recorder, error) {
	node, err := reference.NewNode(config)
	if err != nil {
		return nil, err
	}
	node.TAIOffset = taiOffset
	x := &Recorder{name: name, node: node, names: make(map[model.IfIndex]string)}
	x.batches.New = func() any { return &postcardBatch{last: x.viewpoint(place{})} }
	for _, i := range config.Interfaces {
		x.names[i.Index] = i.Name
	}
	return x, nil
}

// Postcard is the record of a postcard; its node data is in Raw, not decoded.
func (x *Recorder) Postcard(c datapath.Postcard) *record.Postcard {
	s, v := &postcardSlot{}, x.viewpoint(placeOf(&c))
	s.fill(x, &c, &v)
	return &s.record
}

// Receive adds the node's data to an incremental trace of a removed header.
func (x *Recorder) Receive(t *ioam.Trace, raw datapath.Record) {
	const hopLimitAt = 7
	x.node.Receive(t, raw.Interface, raw.Packet[hopLimitAt], raw.Time.UnixNano()+x.node.TAIOffset)
}

// postcardsTogether is how many records are offered at once.
const postcardsTogether = 64

// postcardSlot is the memory of a record.
type postcardSlot struct {
	record record.Postcard
	ports  [2]uint16
	data   [maxNodeData]byte
}

// maxNodeData is the octets of all bits of a trace type, without a snapshot.
const maxNodeData = 4 * 25

// postcardBatch is the memory of records that are offered together. It is used again.
type postcardBatch struct {
	slots   [postcardsTogether]postcardSlot
	records [postcardsTogether]record.Record
	last    viewpoint
}

// Postcards offers the records of postcards, which are valid until offer returns.
func (x *Recorder) Postcards(cards []datapath.Postcard, clock record.Clock, offer func(...record.Record)) {
	b := x.batches.Get().(*postcardBatch)
	defer x.batches.Put(b)
	for len(cards) > 0 {
		n := min(len(cards), postcardsTogether)
		for i := range cards[:n] {
			c, s := &cards[i], &b.slots[i]
			if at := placeOf(c); at != b.last.place {
				b.last = x.viewpoint(at)
			}
			s.fill(x, c, &b.last)
			s.record.Clock = clock
			b.records[i] = &s.record
		}
		offer(b.records[:n]...)
		cards = cards[n:]
	}
}

// place is where a postcard was made.
type place struct {
	ingress, egress model.IfIndex
	namespace       ioam.NamespaceID
}

func placeOf(c *datapath.Postcard) place { return place{c.Ingress, c.Egress, c.Option.Namespace} }

// viewpoint is what all postcards of a place have in common.
type viewpoint struct {
	place           place
	ingress, egress string
	node            reference.Viewpoint
}

func (x *Recorder) viewpoint(at place) viewpoint {
	return viewpoint{at, x.names[at.ingress], x.names[at.egress], x.node.Viewpoint(at.ingress, at.egress, at.namespace)}
}

// fill makes the record of a postcard in memory that may have another one.
func (s *postcardSlot) fill(x *Recorder, c *datapath.Postcard, v *viewpoint) {
	p := &s.record // field by field: a whole record would be built elsewhere and copied
	p.Time = instant.Time{Time: c.Time}
	p.Node, p.Role = x.name, record.NodeRole(c.Role)
	p.Ingress, p.Egress, p.IngressIfIndex, p.EgressIfIndex = v.ingress, v.egress, c.Ingress, c.Egress
	p.Option, p.Namespace, p.TraceType = directExport, c.Option.Namespace, c.Option.Type
	p.Flags, p.ExtensionFlags = record.Hex8(c.Option.Flags), record.Hex8(c.Option.ExtensionFlags)
	p.FlowID = present(c.Option.FlowID, c.Option.HasFlowID())
	p.Sequence = present(c.Option.Sequence, c.Option.HasSequence())
	describe(&p.Packet, &c.Flow, c.Length, &s.ports)
	p.Raw = x.node.PostcardData(s.data[:0], &c.Postcard, v.node)
}

var directExport = ioam.IOAMDirectExport.String()

// Flow is the record of a flow, as of now.
func (x *Recorder) Flow(f datapath.Flow) *record.Flow {
	out := &record.Flow{
		Time:           instant.Of(time.Now()),
		Node:           x.name,
		Role:           record.NodeRole(f.Role),
		Ingress:        x.names[f.Ingress],
		Egress:         x.names[f.Egress],
		IngressIfIndex: f.Ingress,
		EgressIfIndex:  f.Egress,
		Namespace:      f.Namespace,
		TraceType:      f.Type,
		FlowID:         present(f.FlowID, f.ExtensionFlags&ioam.ExtensionFlowID != 0),
		Packet:         flowPacket(&f.Flow),
		Packets:        f.Packets,
		Bytes:          f.Bytes,
		First:          instant.Of(f.First),
		Last:           instant.Of(f.Last),
		HopLimit:       record.HopLimits{Min: f.HopLimitMin, Max: f.HopLimitMax},
		EndReason:      endReasons[f.End],
	}
	if f.ExtensionFlags&ioam.ExtensionSequence != 0 {
		out.SequenceGaps = record.Field[uint64]{Value: uint64(f.Skipped), Present: true, Valid: !f.SkippedUnknown}
		out.Reordered = record.NewField(uint64(f.Late), true)
	}
	if f.DelayCount > 0 {
		out.TransitDelay = &record.Delays{
			Min: uint32(f.DelayMin), Max: uint32(f.DelayMax), Sum: uint64(f.DelaySum), Count: uint64(f.DelayCount),
		}
	}
	return out
}

var endReasons = map[datapath.FlowEnd]record.EndReason{
	datapath.FlowInterval: record.EndInterval,
	datapath.FlowEnded:    record.EndOfFlow,
	datapath.FlowEvicted:  record.EndEvicted,
}

// present is a field of the option, which may be absent.
func present(v uint32, has bool) record.Field[uint32] {
	return record.Field[uint32]{Value: v, Present: has, Valid: has}
}

func flowPacket(f *model.Flow) (p record.Packet) {
	describe(&p, f, 0, new([2]uint16))
	return p
}

// describe fills in a packet of a flow; ports has its ports.
func describe(p *record.Packet, f *model.Flow, length int, ports *[2]uint16) {
	p.Source, p.Destination = f.Source, f.Destination
	p.NextHeader, p.FlowLabel, p.Length = f.NextHeader, f.FlowLabel, length
	p.SourcePort, p.DestinationPort = nil, nil
	if f.SourcePort|f.DestinationPort != 0 {
		*ports = [2]uint16{f.SourcePort, f.DestinationPort}
		p.SourcePort, p.DestinationPort = &ports[0], &ports[1]
	}
}
