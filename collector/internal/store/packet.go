// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/sha256"
	"database/sql/driver"
	"encoding/binary"
	"net/netip"
	"strconv"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// NoNode is the node id of a node that did not report one.
const NoNode = 1<<64 - 1

// Sources of packets.
const (
	FromPostcards uint8 = iota // joined postcards of Direct Export
	FromTrace                  // a trace that the packet carried
	FromKernel                 // a trace that the kernel's own IOAM filled
)

// packet is a row of the table of packets, and what others have in common with it.
type packet struct {
	time      time.Time
	source    uint8
	namespace uint16
	flow      any // *uint32 or nil
	sequence  any
	reason    record.PathReason
	verdict   record.PathVerdict
	packet    *record.Packet
	delay     *int64
	nodes     []node

	digest []byte // room for what a hash is of
}

// node is a node of a packet's path.
type node struct {
	exporter        netip.Addr
	id              uint64
	role            record.NodeRole
	ingress, egress iface
	hopLimit        int  // -1: not known
	timed           bool // it reported a time
	held            any  // uint32 or nil
	since           any  // int64 or nil
	queue           any  // uint32 or nil

	name string
}

// iface is an interface of a node.
type iface struct {
	index uint32 // the kernel's, and of a trace the id that the node wrote; 0: not known
	name  string
	id    uint32 // what distinguishes it from others of the node
}

// ofPath sets p to a joined path.
func (p *packet) ofPath(r *record.Path) {
	p.time, p.source, p.namespace = r.Time.Time, FromPostcards, uint16(r.Namespace)
	p.flow, p.sequence, p.reason, p.verdict = r.FlowID, r.Sequence, r.Reason, r.Verdict
	p.packet, p.delay, p.nodes = &r.Packet, r.Delay, p.nodes[:0]
	for i := range r.Nodes {
		n := &r.Nodes[i]
		into := newNode(&n.NodeData)
		into.exporter, into.role, into.name = n.Exporter, n.Role, n.Node
		into.ingress = iface{index: uint32(n.IngressIfIndex), name: n.Ingress}
		into.egress = iface{index: uint32(n.EgressIfIndex), name: n.Egress}
		into.identify(&n.NodeData, r.TraceType)
		if n.SincePrevious != nil {
			into.since = *n.SincePrevious
		}
		p.nodes = append(p.nodes, into)
	}
}

// ofTrace sets p to a trace. Its nodes have no exporter of their own, and the interfaces have the ids
// that nodes were configured with.
func (p *packet) ofTrace(r *record.Trace) {
	p.time, p.source, p.namespace = r.Time.Time, FromTrace, uint16(r.Namespace)
	if r.Source == record.SourceKernel {
		p.source = FromKernel
	}
	p.flow, p.sequence, p.reason, p.verdict = nil, nil, record.PathComplete, record.PathArrived
	if r.OnItsWay {
		p.verdict = record.PathUnknown // the trace was seen before the end
	}
	if r.Overflow.Valid && r.Overflow.Value {
		p.reason = record.PathHopMissing // a node found no room
	}
	p.packet, p.delay, p.nodes = &r.Packet, nil, p.nodes[:0]
	var first, before time.Time
	for i := range r.Nodes {
		d := &r.Nodes[i]
		into := newNode(d)
		into.role = record.Transit
		switch i {
		case 0:
			into.role = record.Encapsulating
		case len(r.Nodes) - 1:
			into.role = record.Decapsulating
		}
		into.name = d.NodeName
		into.identify(d, r.TraceType)
		into.ingress.index, into.egress.index = into.ingress.id, into.egress.id
		into.ingress.name, into.egress.name = d.IngressName, d.EgressName
		if d.Timestamp.Valid {
			at := d.Timestamp.Value
			if !before.IsZero() {
				into.since = at.Sub(before).Nanoseconds()
				whole := at.Sub(first).Nanoseconds()
				p.delay = &whole
			} else {
				first, p.time = at, at
			}
			before = at
		}
		p.nodes = append(p.nodes, into)
	}
}

// newNode takes what a node wrote.
func newNode(d *record.NodeData) node {
	n := node{id: NoNode, hopLimit: -1}
	switch {
	case d.NodeIDWide.Valid:
		n.id = uint64(d.NodeIDWide.Value)
	case d.NodeID.Valid:
		n.id = uint64(d.NodeID.Value)
	}
	if d.HopLimit.Valid {
		n.hopLimit = int(d.HopLimit.Value)
	}
	n.timed = d.Timestamp.Valid
	if d.TransitDelay.Valid {
		n.held = d.TransitDelay.Value
	}
	if d.QueueDepth.Valid {
		n.queue = d.QueueDepth.Value
	}
	return n
}

// identify sets what distinguishes the interfaces. The ids that a node writes are those of its configuration, and the
// same in traces and postcards; the kernel's indexes, where the option has no ids, change with a reboot.
func (n *node) identify(d *record.NodeData, of ioam.TraceType) {
	n.ingress.id, n.egress.id = n.ingress.index, n.egress.index
	if of.Has(ioam.BitInterfaces) || of.Has(ioam.BitInterfacesWide) {
		n.ingress.id, n.egress.id = InterfaceID(d.IngressID, d.IngressIDWide), InterfaceID(d.EgressID, d.EgressIDWide)
	}
}

// InterfaceID is the id that a node wrote of an interface; 0: it wrote none, or did not know it.
func InterfaceID(id record.Field[ioam.InterfaceID], wide record.Field[ioam.InterfaceIDWide]) uint32 {
	switch {
	case wide.Valid:
		return uint32(wide.Value)
	case id.Valid:
		return uint32(id.Value)
	}
	return 0
}

// IsTraffic reports whether a trace is of a packet of somebody's. Probes, and copies of packets that nodes send back, say
// which ways there are, not which ones are taken (RFC 9322).
func IsTraffic(r *record.Trace) bool { return !r.Active && !r.Copy }

// known are the keys, paths, segments and names that a file has, by their numbers.
type known struct {
	keys, paths, segments map[uint64]uint32 // their numbers in the file
	nodes                 map[nodeName]struct{}
	interfaces            map[interfaceName]struct{}
}

type nodeName struct {
	exporter netip.Addr
	id       uint64
	name     string
}

type interfaceName struct {
	of    string // whose it is, see InterfaceOwner
	index uint32
	name  string
}

// InterfaceOwner is whose interface it is in the table of interfaces: the address of the exporter, whose kernel numbers
// it, or of a trace, whose nodes have none, "node " and the node's id, whose configuration does; "": that is not known.
func InterfaceOwner(exporter netip.Addr, id uint64) string {
	switch {
	case exporter.IsValid():
		return exporter.String()
	case id != NoNode:
		return "node " + strconv.FormatUint(id, 10)
	}
	return ""
}

func newKnown() *known {
	return &known{
		map[uint64]uint32{}, map[uint64]uint32{}, map[uint64]uint32{},
		map[nodeName]struct{}{}, map[interfaceName]struct{}{},
	}
}

// size is how much is known.
func (k *known) size() int {
	return len(k.keys) + len(k.paths) + len(k.segments) + len(k.nodes) + len(k.interfaces)
}

// add adds to a set, and reports whether it was new. A transaction that fails takes it back by undo.
func add[K comparable](w *transaction, set map[K]struct{}, key K) bool {
	if _, ok := set[key]; ok {
		return false
	}
	set[key] = struct{}{}
	w.undo = append(w.undo, func() { delete(set, key) })
	return true
}

// number is the number of something in the file; isNew: it got one now.
func (w *transaction) number(set map[uint64]uint32, of uint64) (number uint32, isNew bool) {
	if number, ok := set[of]; ok {
		return number, false
	}
	number = uint32(len(set))
	set[of] = number
	w.undo = append(w.undo, func() { delete(set, of) })
	return number, true
}

// packet appends the row of a packet, and what is new about it to other tables.
func (w *transaction) packet(p *packet) error {
	key, err := w.key(p)
	if err != nil {
		return err
	}
	path, err := w.path(p)
	if err != nil {
		return err
	}
	held, since, queue := make([]any, len(p.nodes)), make([]any, len(p.nodes)), make([]any, len(p.nodes))
	queues, hopLimit, timed := false, driver.Value(nil), driver.Value(nil)
	for i := range p.nodes {
		n := &p.nodes[i]
		held[i], since[i], queue[i] = n.held, n.since, n.queue
		queues = queues || n.queue != nil
		if i == 0 && n.hopLimit >= 0 {
			hopLimit = uint8(n.hopLimit)
		}
		if n.timed && timed == nil {
			timed = uint8(i)
		}
	}
	var at, delay, depths driver.Value
	if storable(p.time) {
		at = p.time
		w.at(p.time)
	}
	if p.delay != nil {
		delay = *p.delay
	}
	if queues {
		depths = queue
	}
	return w.append(tablePackets, w.batch, at, p.source, p.namespace, key, p.flow, p.sequence, path, uint8(p.reason), uint8(p.verdict),
		uint32(max(p.packet.Length, 0)), hopLimit, delay, timed, held, since, depths)
}

// key is the number of what a packet has in common with those of its flow.
func (w *transaction) key(p *packet) (uint32, error) {
	q := p.packet
	source, destination := q.Source.As16(), q.Destination.As16()
	b := append(append(p.digest[:0], source[:]...), destination[:]...)
	b = binary.BigEndian.AppendUint16(b, p.namespace)
	b = append(b, byte(q.NextHeader))
	var ports [2]driver.Value
	for i, port := range []*uint16{q.SourcePort, q.DestinationPort} {
		if port == nil {
			b = append(b, 0)
			continue
		}
		ports[i] = *port
		b = binary.BigEndian.AppendUint16(append(b, 1), *port)
	}
	b = binary.BigEndian.AppendUint32(b, q.FlowLabel)
	p.digest = b
	key := digest(b)
	number, isNew := w.number(w.file.known.keys, key)
	if !isNew {
		return number, nil
	}
	return number, w.append(
		tableKeys,
		number,
		key,
		octetsOf(q.Source),
		octetsOf(q.Destination),
		uint8(q.NextHeader),
		ports[0],
		ports[1],
		q.FlowLabel,
	)
}

// octetsOf is an address as 16 octets, so that a prefix is a range; nil: it is not known.
func octetsOf(a netip.Addr) driver.Value {
	if !a.IsValid() {
		return nil
	}
	b := a.As16()
	return b[:]
}

// digest is the number of a path, a segment or a key: the begin of a SHA-256, so that nobody can make
// two of the same number.
func digest(b []byte) uint64 {
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// appendTo appends what distinguishes a node of a namespace: its id, which is unique together with the Namespace-ID
// (RFC 9197 §4.3), and without one its exporter.
func (n *node) appendTo(b []byte) []byte {
	var exporter [16]byte
	if n.id == NoNode {
		exporter = n.exporter.As16()
	}
	return binary.BigEndian.AppendUint64(append(b, exporter[:]...), n.id)
}

// PathOf is the number of the path of a record that is kept as a packet, as all files have it; false: it is kept
// otherwise, or not at all.
func PathOf(r record.Record) (path uint64, ok bool) {
	var p packet
	switch r := r.(type) {
	case *record.Path:
		p.ofPath(r)
	case *record.Trace:
		p.ofTrace(r)
	default:
		return 0, false
	}
	return p.pathNumber(), true
}

// pathNumber is the number of a packet's path in all files: of its nodes in their order with their interfaces, and
// how many hops are between them.
func (p *packet) pathNumber() uint64 {
	b := binary.BigEndian.AppendUint16(p.digest[:0], p.namespace)
	for i := range p.nodes {
		n := &p.nodes[i]
		b = append(n.appendTo(b), byte(n.role))
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, n.ingress.id), n.egress.id)
		b = binary.BigEndian.AppendUint16(b, uint16(p.hops(i)))
	}
	p.digest = b
	return digest(b)
}

// path is the number that a packet's path has in the file.
func (w *transaction) path(p *packet) (uint32, error) {
	path := p.pathNumber()
	number, isNew := w.number(w.file.known.paths, path)
	if !isNew {
		return number, w.names(p)
	}
	exporters, ids, roles := make([]any, len(p.nodes)), make([]any, len(p.nodes)), make([]any, len(p.nodes))
	ingress, egress, hops, segments := make(
		[]any,
		len(p.nodes),
	), make(
		[]any,
		len(p.nodes),
	), make(
		[]any,
		len(p.nodes),
	), make(
		[]any,
		len(p.nodes),
	)
	complete := len(p.nodes) > 1 && p.nodes[0].role == record.Encapsulating && p.nodes[len(p.nodes)-1].role == record.Decapsulating
	for i := range p.nodes {
		n := &p.nodes[i]
		exporters[i], ids[i], roles[i], hops[i] = textOf(n.exporter), n.id, uint8(n.role), p.hops(i)
		ingress[i], egress[i] = n.ingress.index, n.egress.index
		complete = complete && (i == 0 || p.hops(i) == 1 || p.source != FromPostcards && p.hops(i) < 0)
		segment, err := w.segment(p, i)
		if err != nil {
			return 0, err
		}
		segments[i] = segment
	}
	if err := w.names(p); err != nil {
		return 0, err
	}
	return number, w.append(tablePaths, number, path, p.namespace, complete, exporters, ids, roles, ingress, egress, hops, segments)
}

// textOf is an address as text, or nil.
func textOf(a netip.Addr) any {
	if !a.IsValid() {
		return nil
	}
	return a.String()
}

// hops is how many hops a node is after the one before, by their hop limits; -1: not known.
func (p *packet) hops(i int) int16 {
	if i == 0 || p.nodes[i].hopLimit < 0 || p.nodes[i-1].hopLimit < 0 {
		return -1
	}
	return int16(p.nodes[i-1].hopLimit - p.nodes[i].hopLimit)
}

// segment is the number of the segment from a node to the next one that reported, or after the last one.
func (w *transaction) segment(p *packet, i int) (uint64, error) {
	from := &p.nodes[i]
	b := binary.BigEndian.AppendUint16(nil, p.namespace)
	b = binary.BigEndian.AppendUint32(from.appendTo(b), from.egress.id)
	var toExporter, toNode, ingress, hops driver.Value
	if i+1 < len(p.nodes) {
		to := &p.nodes[i+1]
		b = binary.BigEndian.AppendUint32(to.appendTo(b), to.ingress.id)
		b = binary.BigEndian.AppendUint16(b, uint16(p.hops(i+1)))
		toExporter, toNode, ingress, hops = textOf(to.exporter), to.id, to.ingress.index, p.hops(i+1)
	}
	segment := digest(b)
	number, isNew := w.number(w.file.known.segments, segment)
	if !isNew {
		return segment, nil
	}
	return segment, w.append(
		tableSegments,
		number,
		segment,
		p.namespace,
		textOf(from.exporter),
		from.id,
		from.egress.index,
		toExporter,
		toNode,
		ingress,
		hops,
	)
}

// names appends the names of nodes and interfaces that the file does not have.
func (w *transaction) names(p *packet) error {
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.name != "" && add(w, w.file.known.nodes, nodeName{n.exporter, n.id, n.name}) {
			if err := w.append(tableNodes, textOf(n.exporter), n.id, n.name); err != nil {
				return err
			}
		}
		of := InterfaceOwner(n.exporter, n.id)
		for _, f := range []interfaceName{{of, n.ingress.index, n.ingress.name}, {of, n.egress.index, n.egress.name}} {
			if f.of == "" || f.name == "" || f.index == 0 || !add(w, w.file.known.interfaces, f) {
				continue
			}
			if err := w.append(tableInterfaces, driver.Value(f.of), f.index, f.name); err != nil {
				return err
			}
		}
	}
	return nil
}
