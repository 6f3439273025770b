// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// encapsulate is docs/data-plane/encapsulation.md; otherwise is the outcome when no
// rule matches.
func (n *Node) encapsulate(f Frame, p packet, iface *model.Interface, otherwise model.Outcome) Result {
	upper := ipv6.FindUpperLayer(p.ip)
	index, ok := n.ruleFor(p, upper, iface)
	if !ok {
		return unchanged(f, otherwise)
	}
	rule := &n.config.Encapsulations[index]
	inline := rule.Mode == model.ModeInline || rule.Mode == model.ModeAuto && (f.Ingress == 0 || upper.Segments)
	if isControl(p, upper, !inline) {
		return unchanged(f, model.OutcomeEncapSkippedControl)
	}
	if n.exportsTo(p, upper) {
		return unchanged(f, model.OutcomeEncapSkippedExport)
	}
	if !inline && upper.Segments { // they would be bypassed
		return unchanged(f, model.OutcomeEncapSkippedSegments)
	}
	hash := n.flowHash(p, upper)
	if !n.takesFlow(rule, p, hash) || !n.selected(index, rule.Frequency) {
		return unchanged(f, model.OutcomeEncapNotSelected)
	}
	if inline && upper.AH {
		return unchanged(f, model.OutcomeEncapSkippedAH) // its sum covers the headers (RFC 4302 §3.3.3.1.2)
	}
	if inline && !n.isRemovable(p, insertsEdge(rule)) {
		return unchanged(f, model.OutcomeEncapSkippedUnremovable)
	}
	into, outcome, ok := mergingOf(rule, p, inline)
	if !ok {
		return unchanged(f, outcome)
	}
	insertion := into.growth()
	limits := mtus{link: iface.MTU, route: f.PathMTU}
	if inline {
		limits.learned = n.pathMTU(p.destination(), f.Time)
	} else {
		insertion += ipv6.HeaderLen
		limits.tunnel = rule.PathMTU
	}
	if f.GSOSize != 0 && (insertsProof(rule) || insertsEdge(rule)) {
		return unchanged(f, model.OutcomeEncapSkippedGSO) // each segment would have the same number
	}
	gsoSize, outcome, ok := fits(f, p, upper, insertion, limits)
	if !ok {
		return unchanged(f, outcome)
	}
	if !n.affords(index, f, insertion) {
		return unchanged(f, model.OutcomeEncapNotSelected)
	}
	payload := p.payloadLength()
	if payload == 0 {
		payload = len(p.ip) - ipv6.HeaderLen
	}
	if payload += insertion; payload > 0xffff {
		payload = 0 // GSO; fits accepts nothing else
	}
	h := n.departing(f, p, iface)
	v := visit{hop: h, packet: p, hash: hash, postcard: model.Postcard{
		Role: model.RoleEncapsulating, Ingress: f.Ingress, Egress: f.Interface, HopLimit: h.hopLimit, Time: f.Time,
		TransitDelay: ioam.DataUnavailable, QueueDepth: h.queue, BufferOccupancy: h.buffer, Flow: flowOf(p.ip), Length: len(p.ip),
		Ends: endsFlow(p.ip),
	}}
	if !inline {
		v.outer = outerHeader(rule)
	}
	v.room = limits.room(len(p.ip)+insertion, f.GSOSize != 0)
	v.asks = n.asks(index, f, p, inline, into)
	headers, lacking := n.buildHeaders(rule, &v)
	result := Result{Verdict: Pass, GSOSize: gsoSize, Postcards: v.postcards, Asks: v.asks}
	if inline {
		result.Outcome = model.OutcomeEncapInserted
		result.Data = insertInline(p, headers, into, payload)
	} else {
		result.Outcome = model.OutcomeEncapTunneled
		result.Data = insertTunnel(p, headers, payload, rule)
	}
	result.Outcome = max(result.Outcome, lacking)
	return result
}

// ruleFor returns the index of the encapsulation that applies to the packet: the
// longest destination prefix, then configuration order.
func (n *Node) ruleFor(p packet, upper ipv6.UpperLayer, iface *model.Interface) (index int, ok bool) {
	longest := -1
	for i, rule := range n.config.Encapsulations {
		if rule.Interface != iface.Index || !matches(rule.Match, p, upper) {
			continue
		}
		if length := max(rule.Match.Destination.Bits(), 0); length > longest {
			index, longest = i, length
		}
	}
	return index, longest >= 0
}

func matches(m model.Match, p packet, upper ipv6.UpperLayer) bool {
	source, destination, hasPorts := upper.Ports(p.ip)
	return inPrefix(m.Destination, p.destination()) &&
		inPrefix(m.Source, p.source()) &&
		(m.NextHeader == nil || *m.NextHeader == upper.Next) &&
		inRange(m.SourcePort, source, hasPorts) &&
		inRange(m.DestinationPort, destination, hasPorts) &&
		(m.TrafficClass == nil || *m.TrafficClass == p.trafficClass()) &&
		(m.FlowLabel == nil || *m.FlowLabel == p.flowLabel())
}

func inPrefix(prefix netip.Prefix, address [16]byte) bool {
	return !prefix.IsValid() || prefix.Contains(netip.AddrFrom16(address))
}

func inRange(r *model.PortRange, port uint16, known bool) bool {
	if r == nil || *r == (model.PortRange{}) {
		return true
	}
	return known && r.From <= port && port <= r.To
}

// isControl reports whether the packet keeps the network itself working, and so
// must arrive even where IOAM does not, or whether the end of the tunnel would
// refuse it.
func isControl(p packet, upper ipv6.UpperLayer, tunnel bool) bool {
	source, destination := p.source(), p.destination()
	if isMulticast(destination) || isLinkLocalUnicast(destination) ||
		isUnspecified(source) || isMulticast(source) || isLinkLocalUnicast(source) {
		return true
	}
	if tunnel && isOfLink(p, upper) {
		return true
	}
	if !upper.Known || upper.Next != ioam.NextHeaderICMPv6 || len(p.ip) <= upper.Offset {
		return false
	}
	kind := p.ip[upper.Offset]
	return kind < 128 || isLinkMessage(kind) // errors (RFC 4443 §2.1)
}

// takesFlow reports whether the rule selects the packet's flow, given its hash.
func (n *Node) takesFlow(rule *model.Encapsulation, p packet, hash uint32) bool {
	if rule.Flows <= 1 {
		return true
	}
	if hasLabelAsFlowID(rule) {
		hash = n.labelHash(p)
	}
	return hash < uint32(1<<32/uint64(rule.Flows))
}

// selected counts a matching packet and reports whether it is among the first
// K of every N.
func (n *Node) selected(index int, frequency model.Frequency) bool {
	count := n.matched[index]
	n.matched[index]++
	return frequency.N == 0 || count%uint64(frequency.N) < uint64(frequency.K)
}

// departing is the data of this node about a packet that it encapsulates.
func (n *Node) departing(f Frame, p packet, iface *model.Interface) hop {
	from, _ := n.arrival(f)
	return hop{
		hopLimit:   p.hopLimit(), // an outer header has the same
		ingress:    from,
		egress:     iface,
		time:       f.Time,
		timeKnown:  f.Ingress != 0 || n.config.Compatibility == model.CompatibilityDefault,
		delay:      ioam.DataUnavailable,
		queue:      n.queueDepth(f),
		buffer:     n.bufferOccupancy(f),
		complement: n.complement(),
	}
}

// headers are the extension headers after an IPv6 header, in the order in which they are there
// (RFC 8200 §4.1); nil where there is none.
type headers struct{ hopByHop, destination []byte }

// before makes the headers announce each other and what follows them. It returns them, and
// the type of the first.
func (h headers) before(next ioam.NextHeader) (octets []byte, first ioam.NextHeader) {
	if h.destination != nil {
		h.destination[0], next = byte(next), ioam.NextHeaderDestination
	}
	if h.hopByHop != nil {
		h.hopByHop[0], next = byte(next), ioam.NextHeaderHopByHop
	}
	return append(slices.Clip(h.hopByHop), h.destination...), next
}

// buildHeaders returns the rule's extension headers with this node's data. It uses up
// Sequence Numbers. The outcome is that of traces that lack this node's data, 0 when none
// does.
func (n *Node) buildHeaders(rule *model.Encapsulation, v *visit) (h headers, lacking model.Outcome) {
	var hopByHop, destination []ioam.Option
	for _, o := range rule.Options {
		if o.EdgeToEdge != nil {
			destination = append(destination, n.edgeToEdge(*o.EdgeToEdge, v).Option())
			continue
		}
		option, outcome := insertingModule(o).insert(n, o, v)
		hopByHop = append(hopByHop, option)
		lacking = max(lacking, outcome)
	}
	if len(hopByHop) > 0 {
		h.hopByHop, _ = ioam.AppendExtensionHeader(nil, 0, hopByHop...) // Validate checked the sizes
	}
	if len(destination) > 0 {
		h.destination, _ = ioam.AppendExtensionHeader(nil, 0, destination...)
	}
	return h, lacking
}

// mtus are the limits of a packet that grows, in bytes; 0 is no limit.
type mtus struct {
	link, tunnel int
	// These only apply to packets larger than the minimum MTU of IPv6.
	route, learned int
}

// carry reports whether a packet of some length fits all limits.
func (m mtus) carry(length int64) bool {
	fits := func(mtu int) bool { return mtu == 0 || length <= int64(mtu) }
	return fits(m.link) && fits(m.tunnel) && (length <= minimumMTU || fits(m.route) && fits(m.learned))
}

// room is by how much a packet of some length may grow, in bytes. What is to be cut has no
// length yet.
func (m mtus) room(length int, cut bool) (room int) {
	for room < 4*maxRemaining && (cut || m.carry(int64(length+room+4))) {
		room += 4
	}
	return room
}

// fits reports whether the packet may grow, and returns the segment size of GSO
// after that.
func fits(f Frame, p packet, upper ipv6.UpperLayer, insertion int, limits mtus) (gsoSize uint32, outcome model.Outcome, ok bool) {
	if f.GSOSize == 0 {
		payload := p.payloadLength()
		if payload == 0 || payload+insertion > 0xffff || !limits.carry(int64(len(p.ip)+insertion)) {
			return 0, model.OutcomeEncapSkippedMTU, false
		}
		return 0, 0, true
	}
	switch {
	case p.payloadLength() == 0: // BIG TCP: its jumbo option is lost when headers move
	case upper.Known && upper.Next == ioam.NextHeaderTCP:
		// A byte stream may be segmented anywhere: segments shrink by the
		// insertion, so none becomes larger than before.
		if int64(f.GSOSize) <= 2*int64(insertion) {
			return 0, model.OutcomeEncapSkippedGSO, false
		}
		segment := int64(upper.Offset+tcpHeaderLen(p, upper)) + int64(f.GSOSize)
		if limits.tunnel != 0 && segment > int64(limits.tunnel) {
			return 0, model.OutcomeEncapSkippedMTU, false
		}
		return f.GSOSize - uint32(insertion), 0, true
	case upper.Known && upper.Next == ioam.NextHeaderUDP:
		// Segments are datagrams, whose size the sender chose.
		const udpHeaderLen = 8
		if !limits.carry(int64(upper.Offset+udpHeaderLen+insertion) + int64(f.GSOSize)) {
			return 0, model.OutcomeEncapSkippedMTU, false
		}
		return f.GSOSize, 0, true
	}
	return 0, model.OutcomeEncapSkippedGSO, false
}

// tcpHeaderLen is the length of a TCP header with its options (RFC 9293 §3.1), or
// the longest possible when the packet is truncated before it.
func tcpHeaderLen(p packet, upper ipv6.UpperLayer) int {
	const dataOffsetAt, longest = 12, 60
	if len(p.ip) <= upper.Offset+dataOffsetAt {
		return longest
	}
	return int(p.ip[upper.Offset+dataOffsetAt]>>4) * 4
}

// insertInline puts the headers directly after the IPv6 header (RFC 8200 §4.1), or their options
// into those that are there.
func insertInline(p packet, h headers, into merging, payload int) []byte {
	p.behind.header = into.destination.header
	h = headers{into.hopByHop.merge(h.hopByHop), into.destination.merge(h.destination)}
	extension, first := h.before(p.nextAfter())
	frame := slices.Concat(p.link, p.ip[:ipv6.HeaderLen], extension, p.ip[ipv6.HeaderLen+p.headersLen():])
	ip := frame[len(p.link):]
	ip[6] = byte(first)
	setPayloadLength(ip, payload)
	return frame
}

// insertTunnel puts an outer IPv6 header and the headers in front: insertion into
// a forwarded packet is not allowed (RFC 8200 §4).
func insertTunnel(p packet, h headers, payload int, rule *model.Encapsulation) []byte {
	source, destination := rule.TunnelSource.As16(), rule.TunnelDestination.As16()
	extension, first := h.before(ioam.NextHeaderIPv6)
	frame := append([]byte{}, p.link...)
	frame = append(frame, p.ip[:4]...) // version, traffic class, flow label
	frame = append(frame, 0, 0, byte(first), p.hopLimit())
	frame = append(frame, source[:]...)
	frame = append(frame, destination[:]...)
	frame = append(frame, extension...)
	frame = append(frame, p.ip...)

	setPayloadLength(frame[len(p.link):], payload)
	return frame
}
