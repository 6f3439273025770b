// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"time"

	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

// NodeData is what one node wrote (RFC 9197 §4.4.2).
type NodeData struct {
	HopLimit             Field[uint8]
	NodeID               Field[ioam.NodeID]
	IngressID            Field[ioam.InterfaceID]
	EgressID             Field[ioam.InterfaceID]
	Timestamp            Field[time.Time]
	TimestampFraction    Field[uint32] // raw, only when the trace has no seconds
	TransitDelay         Field[uint32]
	TransitDelayOverflow bool // 2^31 ns or more
	NamespaceData        Field[Hex32]
	QueueDepth           Field[uint32]
	ChecksumComplement   Field[Hex32]
	NodeIDWide           Field[ioam.NodeIDWide]
	IngressIDWide        Field[ioam.InterfaceIDWide]
	EgressIDWide         Field[ioam.InterfaceIDWide]
	NamespaceDataWide    Field[Hex64]
	BufferOccupancy      Field[uint32]
	Snapshot             Field[Snapshot]

	// Names of the ids, if they are known. The packet does not have them.
	NodeName    string
	IngressName string
	EgressName  string

	// TimestampSeconds are as in the packet. Only a record read from IPFIX has them,
	// until its fields are settled.
	TimestampSeconds Field[uint32]
}

// name adds the names of the node and its interfaces, as far as they are known.
func (n *NodeData) name(names *nodenames.Names) {
	if n.NodeID.Valid {
		id := n.NodeID.Value
		n.NodeName = names.Node(id)
		if n.IngressID.Valid {
			n.IngressName = names.Interface(id, n.IngressID.Value)
		}
		if n.EgressID.Valid {
			n.EgressName = names.Interface(id, n.EgressID.Value)
		}
	}
	if n.NodeIDWide.Valid {
		id := n.NodeIDWide.Value
		n.NodeName = cmp.Or(n.NodeName, names.NodeWide(id))
		if n.IngressIDWide.Valid {
			n.IngressName = cmp.Or(n.IngressName, names.InterfaceWide(id, n.IngressIDWide.Value))
		}
		if n.EgressIDWide.Valid {
			n.EgressName = cmp.Or(n.EgressName, names.InterfaceWide(id, n.EgressIDWide.Value))
		}
	}
}

// Label is the node as people call it: its name, else its id.
func (n *NodeData) Label() string { return hop{NodeData: *n}.node("node %s") }

// Snapshot is an opaque state snapshot; its data is base64 in JSON.
type Snapshot struct {
	Schema ioam.SchemaID
	Data   []byte
}

// Clock says how to read the timestamps of a trace, because the packet does not.
type Clock struct {
	Format    ioam.TimestampFormat
	TAIOffset time.Duration // TAI − UTC, for PTP timestamps
}

// ReadNodeData reads what one node wrote: the fields that the trace type asks for.
func ReadNodeData(d ioam.NodeData, clock Clock) NodeData {
	var n NodeData
	shortFields(d, clock, &n)
	if d.Type.Has(ioam.BitNode) || d.Type.Has(ioam.BitNodeWide) {
		n.HopLimit = NewField(d.HopLimit())
	}
	if d.Type.Has(ioam.BitNodeWide) {
		n.NodeIDWide = NewField(d.NodeIDWide())
	}
	if d.Type.Has(ioam.BitInterfacesWide) {
		n.IngressIDWide = NewField(d.IngressIDWide())
		n.EgressIDWide = NewField(d.EgressIDWide())
	}
	if d.Type.Has(ioam.BitNamespaceDataWide) {
		v, ok := d.NamespaceDataWide()
		n.NamespaceDataWide = NewField(Hex64(v), ok)
	}
	if d.Type.Has(ioam.BitBufferOccupancy) {
		n.BufferOccupancy = NewField(d.BufferOccupancy())
	}
	if d.Type.HasSnapshot() {
		s, ok := d.Snapshot()
		n.Snapshot = NewField(Snapshot(s), ok)
	}
	return n
}

// shortFields reads the fields of bits 0 to 7, 4 bytes each.
func shortFields(d ioam.NodeData, clock Clock, n *NodeData) {
	if d.Type.Has(ioam.BitNode) {
		n.NodeID = NewField(d.NodeID())
	}
	if d.Type.Has(ioam.BitInterfaces) {
		n.IngressID = NewField(d.IngressID())
		n.EgressID = NewField(d.EgressID())
	}
	if d.Type.Has(ioam.BitTimestampSeconds) {
		n.Timestamp = NewField(d.Timestamp(clock.Format, clock.TAIOffset))
	} else if d.Type.Has(ioam.BitTimestampFraction) {
		n.TimestampFraction = NewField(d.TimestampFraction())
	}
	if d.Type.Has(ioam.BitTransitDelay) {
		ns, overflow, ok := d.TransitDelay()
		n.TransitDelay = NewField(ns, ok && !overflow)
		n.TransitDelayOverflow = overflow
	}
	if d.Type.Has(ioam.BitNamespaceData) {
		v, ok := d.NamespaceData()
		n.NamespaceData = NewField(Hex32(v), ok)
	}
	if d.Type.Has(ioam.BitQueueDepth) {
		n.QueueDepth = NewField(d.QueueDepth())
	}
	if d.Type.Has(ioam.BitChecksumComplement) {
		v, ok := d.ChecksumComplement()
		n.ChecksumComplement = NewField(Hex32(v), ok)
	}
}
