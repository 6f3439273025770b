// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"
	"slices"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// incrementalModule is the incremental trace (RFC 9197 §4.4). It grows at egress, in
// growAll.
type incrementalModule struct{}

const (
	maxRemaining = 0x7f // RemainingLen has 7 bits
	maxOptionLen = 255
)

// isIncrementalTrace expects an option of at least 2 bytes.
func isIncrementalTrace(option ioam.Option) bool {
	return option.Type == ioam.OptionIOAM && ioam.IOAMType(option.Data[1]) == ioam.IOAMIncrementalTrace
}

// grows reports whether nodes on the path may make an inserted option longer.
func grows(o model.InsertedOption) bool { return o.Trace != nil && o.Trace.Incremental }

func (incrementalModule) check(option ioam.Option) (fault model.Outcome, sound bool) {
	trace, err := ioam.DecodeTrace(option.Data[2:])
	if err != nil {
		return model.OutcomeMalformedOptionLength, false
	}
	if int(trace.NodeLen) != trace.Type.NodeLen() {
		return model.OutcomeMalformedNodeLength, false
	}
	trace.Incremental = true
	if _, err := trace.Nodes(); err != nil {
		return model.OutcomeMalformedNodeData, false
	}
	return 0, true
}

// ingress says what the trace is to this node.
func (incrementalModule) ingress(n *Node, option ioam.Option, _ *visit) model.Outcome {
	_, _, outcome, open := n.knownTrace(option)
	switch {
	case outcome == model.OutcomeNamespaceUnknown:
		return outcome
	case !n.namespaceOf(option).Incremental:
		return model.OutcomeOptionUnsupported
	case !open:
		return outcome
	}
	return model.OutcomeIncrementalTrace
}

func (m incrementalModule) egress(n *Node, option ioam.Option, v *visit) model.Outcome {
	return m.ingress(n, option, v)
}

func (incrementalModule) remove(_ *Node, _ ioam.Option, v *visit) { v.recorded = true }

// insert builds a trace with this node's data alone.
func (incrementalModule) insert(n *Node, o model.InsertedOption, v *visit) (ioam.Option, model.Outcome) {
	t := o.Trace
	own := n.appendNodeData(nil, t.Type, n.namespaces[t.Namespace], v.hop)
	flags := ioam.TraceFlags(0)
	if v.asks && t.Loopback > 0 {
		flags = ioam.FlagLoopback
	}
	trace := ioam.Trace{
		Incremental:  true,
		Namespace:    t.Namespace,
		NodeLen:      uint8(t.Type.NodeLen()),
		Flags:        flags,
		RemainingLen: uint8(min(t.Size-len(own), v.room) / 4),
		Type:         t.Type,
		Data:         own,
	}
	empty := trace
	empty.Data, empty.RemainingLen = nil, trace.RemainingLen+uint8(len(own)/4)
	n.neutralize(ioam.NodeData{Type: t.Type, Bytes: own}, octets(empty.Option()), octets(trace.Option()))
	return trace.Option(), 0
}

// octets are all octets of an option.
func octets(o ioam.Option) []byte {
	return append([]byte{byte(o.Type), byte(len(o.Data))}, o.Data...)
}

// growAll lets the incremental traces grow that may do so, one after the other, and
// changes their outcomes.
func (n *Node) growAll(f Frame, p packet, h hop, outcomes []model.Outcome) (frame []byte, gsoSize uint32) {
	h.ingress, _ = n.arrival(f)
	h.complement = n.complement()
	h.delay = ioam.DataUnavailable
	if f.Arrived != 0 {
		if n.config.Compatibility == model.CompatibilityDefault {
			h.delay = min(uint32(f.Time-f.Arrived), ioam.TransitDelayOverflow)
		}
		h.time = f.Arrived
	}
	for i := range outcomes {
		if outcomes[i] == model.OutcomeIncrementalTrace {
			outcomes[i] = n.grow(&f, &p, i, h)
		}
	}
	return p.frame, f.GSOSize
}

// grow lets one trace grow (docs/data-plane/incremental-traces.md).
func (n *Node) grow(f *Frame, p *packet, index int, h hop) model.Outcome {
	option := p.options[index]
	trace, _ := ioam.DecodeTrace(option.Data[2:])
	own := n.appendNodeData(nil, trace.Type, n.namespaces[trace.Namespace], h)
	if n.isNewest(trace, h) {
		return model.OutcomeUntouched
	}
	whole := grownOption(option, own)
	n.neutralize(ioam.NodeData{Type: trace.Type, Bytes: whole[4+ioam.TraceHeaderLen:][:len(own)]}, octets(option), whole)
	grown, ok := p.growHeader(option, whole)
	summed := ipv6.FindUpperLayer(p.ip).AH // its sum covers the length (RFC 4302 §3.3.3.1.2)
	if summed || trace.RemainingLen == 0 || 4*int(trace.RemainingLen) < len(own) || !ok || !n.takeRoom(f, *p, len(grown)-len(p.header)) {
		trace.Flags |= ioam.FlagOverflow
		copy(option.Data[2:], trace.AppendHeader(nil))
		return model.OutcomeTraceOverflow
	}
	frame := append([]byte{}, p.link...)
	frame = append(frame, p.ip[:ipv6.HeaderLen]...)
	frame = append(frame, grown...)
	frame = append(frame, p.ip[ipv6.HeaderLen+len(p.header):]...)
	if more := len(grown) - len(p.header); more > 0 {
		payload := p.payloadLength() + more
		if payload > 0xffff {
			payload = 0 // GSO; takeRoom accepts nothing else
		}
		setPayloadLength(frame[len(p.link):], payload)
	}
	*p, _, _ = parse(frame, f.Link)
	return model.OutcomeTraceGrown
}

// isNewest reports whether the newest data are what this node writes about this packet: a
// packet may pass the hooks of several devices.
func (n *Node) isNewest(trace ioam.Trace, h hop) bool {
	length := 4 * trace.Type.NodeLen()
	if len(trace.Data) < length {
		return false
	}
	data := ioam.NodeData{Type: trace.Type, Bytes: trace.Data[:length]}
	if field := data.Field(ioam.BitNode); field != nil {
		return binary.BigEndian.Uint32(field) == uint32(h.hopLimit)<<24|uint32(n.config.ID)
	}
	if field := data.Field(ioam.BitNodeWide); field != nil {
		return binary.BigEndian.Uint64(field) == uint64(h.hopLimit)<<56|uint64(n.config.IDWide)
	}
	return false
}

// grownOption is the option of a trace with a node's data in front of the others.
func grownOption(option ioam.Option, own []byte) []byte {
	whole := octets(option)
	whole[1] += byte(len(own))
	trace, _ := ioam.DecodeTrace(whole[4:])
	trace.RemainingLen -= uint8(min(len(own)/4, int(trace.RemainingLen)))
	copy(whole[4:], trace.AppendHeader(nil))
	return slices.Insert(whole, 4+ioam.TraceHeaderLen, own...)
}

// growHeader returns the Hop-by-Hop header with a longer option in the place of one, if it can
// have that. Its length is a multiple of 8, so padding at its beginning becomes 4 bytes longer
// or shorter.
func (p *packet) growHeader(option ioam.Option, grown []byte) (header []byte, ok bool) {
	if len(grown) > 2+maxOptionLen {
		return nil, false
	}
	header = slices.Concat(p.header[:option.Offset], grown, p.header[option.Offset+2+len(option.Data):])
	if len(header)%8 != 0 {
		switch {
		case header[2] == byte(ioam.OptionPadN) && header[3] == 0:
			header[3] = 4
			header = slices.Insert(header, 4, 0, 0, 0, 0)
		case header[2] == byte(ioam.OptionPadN) && header[3] == 4:
			header[3] = 0
			header = slices.Delete(header, 4, 8)
		default:
			return nil, false
		}
	}
	if len(header)+p.destinationLen() > maxExtracted {
		return nil, false // they could not be taken apart again
	}
	header[1] = byte(len(header)/8 - 1)
	return header, true
}

// destinationLen is the length of a Destination Options header right after the Hop-by-Hop
// header, as it says.
func (p *packet) destinationLen() int {
	if behind := p.ip[ipv6.HeaderLen+len(p.header):]; ioam.NextHeader(p.header[0]) == ioam.NextHeaderDestination && len(behind) >= 2 {
		return 8 * (int(behind[1]) + 1)
	}
	return 0
}

// takeRoom reports whether the packet may grow by some bytes, and then makes its segments
// smaller, if it is to be cut.
func (n *Node) takeRoom(f *Frame, p packet, more int) bool {
	if more == 0 {
		return true
	}
	limits := mtus{link: n.interfaces[f.Interface].MTU, route: f.PathMTU, learned: n.pathMTU(p.destination(), f.Time)}
	gsoSize, _, ok := fits(*f, p, cutLayer(p.ip), more, limits)
	if ok {
		f.GSOSize = gsoSize
	}
	return ok
}

// cutLayer is the upper layer of a packet that may have to be cut. In a tunnel, only TCP can
// be cut after the packet has grown.
func cutLayer(ip []byte) ipv6.UpperLayer {
	upper := ipv6.FindUpperLayer(ip)
	if !upper.Known || upper.Next != ioam.NextHeaderIPv6 {
		return upper
	}
	if len(ip) < upper.Offset+ipv6.HeaderLen {
		return ipv6.UpperLayer{}
	}
	inner := ipv6.Walk(ip, ioam.NextHeader(ip[upper.Offset+6]), upper.Offset+ipv6.HeaderLen)
	inner.Known = inner.Known && inner.Next == ioam.NextHeaderTCP
	return inner
}

// Receive adds this node's data to an incremental trace whose header it has removed, as the
// packet did not grow for that. hopLimit is as received, and at is in nanoseconds of TAI. It
// only reads the node, so several goroutines may call it at once.
func (n *Node) Receive(t *ioam.Trace, ingress model.IfIndex, hopLimit uint8, at int64) {
	namespace := n.namespaces[t.Namespace]
	if !t.Incremental || namespace == nil || !namespace.Incremental || t.Flags&ioam.FlagOverflow != 0 {
		return
	}
	h := hop{
		hopLimit: hopLimit - 1, time: at, timeKnown: true, delay: ioam.DataUnavailable,
		queue: ioam.DataUnavailable, buffer: ioam.DataUnavailable, complement: ioam.DataUnavailable,
	}
	h.ingress, _ = n.arrival(Frame{Ingress: ingress})
	own := n.appendNodeData(nil, t.Type, namespace, h)
	if t.RemainingLen == 0 || 4*int(t.RemainingLen) < len(own) {
		t.Flags |= ioam.FlagOverflow
		return
	}
	t.RemainingLen -= uint8(len(own) / 4)
	t.Data = append(own, t.Data...)
}
