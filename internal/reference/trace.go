// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"
	"slices"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// traceModule is the pre-allocated trace (RFC 9197 §4.4).
type traceModule struct{}

// isPreallocatedTrace expects an option of at least 2 bytes.
func isPreallocatedTrace(option ioam.Option) bool {
	return option.Type == ioam.OptionIOAM && ioam.IOAMType(option.Data[1]) == ioam.IOAMPreallocatedTrace
}

func (traceModule) check(option ioam.Option) (fault model.Outcome, sound bool) {
	trace, err := ioam.DecodeTrace(option.Data[2:])
	if err != nil {
		return model.OutcomeMalformedOptionLength, false
	}
	// "the node MUST NOT add any fields" (RFC 9197 §4.4.1, RemainingLen).
	if len(trace.Data) < 4*int(trace.RemainingLen) {
		return model.OutcomeMalformedRemainingLength, false
	}
	if int(trace.NodeLen) != trace.Type.NodeLen() {
		return model.OutcomeMalformedNodeLength, false
	}
	return 0, true
}

// knownTrace returns the trace of a valid option and its namespace, if the node
// takes part in it and there may be room; otherwise the outcome.
func (n *Node) knownTrace(option ioam.Option) (ioam.Trace, *model.Namespace, model.Outcome, bool) {
	trace, _ := ioam.DecodeTrace(option.Data[2:]) // check verified its length
	namespace, ok := n.namespaces[trace.Namespace]
	if !ok {
		// "the node MUST NOT change the contents" (RFC 9197 §4.4.1).
		return ioam.Trace{}, nil, model.OutcomeNamespaceUnknown, false
	}
	if trace.Flags&ioam.FlagOverflow != 0 {
		return ioam.Trace{}, nil, model.OutcomeOverflowSet, false
	}
	return trace, namespace, 0, true
}

// ingress writes this node's data into the trace (docs/data-plane/ingress.md, step 5).
func (traceModule) ingress(n *Node, option ioam.Option, v *visit) model.Outcome {
	trace, namespace, outcome, ok := n.knownTrace(option)
	if !ok {
		return outcome
	}
	before := slices.Clone(option.Data[2:])
	outcome = record(&trace, n.appendNodeData(nil, trace.Type, namespace, v.hop))
	copy(option.Data[2:], trace.AppendHeader(nil))
	if outcome == model.OutcomeTraceFilled {
		own := ioam.NodeData{Type: trace.Type, Bytes: trace.Data[4*int(trace.RemainingLen):]}
		n.neutralize(own, before, option.Data[2:])
	}
	return outcome
}

// neutralize gives the checksum complement, which the node's own data may have, the
// value that makes all its changes to the trace neutral: the one's complement sum of
// the trace's 16-bit words is the same before and after (RFC 9197 §4.4.2.8, the second
// alternative). The field has 16 zero bits, then the value, which is below 0xffff.
// after contains own.
func (n *Node) neutralize(own ioam.NodeData, before, after []byte) {
	field := own.Field(ioam.BitChecksumComplement)
	if field == nil || n.config.Compatibility != model.CompatibilityDefault {
		return
	}
	value := uint64(binary.BigEndian.Uint16(field)) + uint64(binary.BigEndian.Uint16(field[2:]))
	change := sum(after) + 0xffff - sum(before)
	binary.BigEndian.PutUint32(field, uint32((value+2*0xffff-change%0xffff)%0xffff))
}

// sum is the sum of 16-bit words modulo 0xffff, which is what a one's complement sum
// is (RFC 1071). A last odd byte, which an option may have after its words, is left out.
func sum(data []byte) (sum uint64) {
	for i := 0; i+1 < len(data); i += 2 {
		sum += uint64(binary.BigEndian.Uint16(data[i:]))
	}
	return sum % 0xffff
}

// egress writes into this node's data what is only known at egress.
func (traceModule) egress(n *Node, option ioam.Option, v *visit) model.Outcome {
	trace, namespace, outcome, ok := n.knownTrace(option)
	if !ok {
		return outcome
	}
	// The newest node's data are where RemainingLen points (RFC 9197 §4.4.1).
	start := 4 * int(trace.RemainingLen)
	length := len(n.appendNodeData(nil, trace.Type, namespace, hop{}))
	if start+length > len(trace.Data) {
		return model.OutcomeUntouched
	}
	own := ioam.NodeData{Type: trace.Type, Bytes: trace.Data[start : start+length]}
	if wrote, proven := n.isOwn(own); !wrote || v.unproven && (!proven || !isUnfinished(own)) {
		return model.OutcomeUntouched
	}
	before := slices.Clone(own.Bytes)
	n.complete(own, v.hop)
	if _, ok := own.ChecksumComplement(); ok {
		n.neutralize(own, before, own.Bytes)
	}
	return model.OutcomeTraceFilled
}

// complete fills in the fields of this node's data that ingress left open.
func (n *Node) complete(own ioam.NodeData, h hop) {
	if field := own.Field(ioam.BitInterfaces); field != nil {
		binary.BigEndian.PutUint16(field[2:], uint16(h.egress.ID))
	}
	if field := own.Field(ioam.BitInterfacesWide); field != nil {
		binary.BigEndian.PutUint32(field[4:], uint32(h.egress.IDWide))
	}
	if field := own.Field(ioam.BitTransitDelay); field != nil && n.config.Compatibility == model.CompatibilityDefault {
		value := binary.BigEndian.Uint32(field)
		if value&ioam.TransitDelayOverflow != 0 && value != ioam.DataUnavailable {
			binary.BigEndian.PutUint32(field, transitDelay(h.time, value))
		}
	}
	if field := own.Field(ioam.BitQueueDepth); field != nil {
		binary.BigEndian.PutUint32(field, h.queue)
	}
	if field := own.Field(ioam.BitBufferOccupancy); field != nil && n.config.Compatibility == model.CompatibilityDefault {
		binary.BigEndian.PutUint32(field, h.buffer)
	}
}

// remove runs after ingress has written the node's data.
func (traceModule) remove(_ *Node, _ ioam.Option, v *visit) { v.recorded = true }

// insert builds a trace with this node's data.
func (traceModule) insert(n *Node, o model.InsertedOption, v *visit) (ioam.Option, model.Outcome) {
	t := o.Trace
	trace := ioam.Trace{
		Namespace:    t.Namespace,
		NodeLen:      uint8(t.Type.NodeLen()),
		RemainingLen: uint8(t.Size / 4),
		Type:         t.Type,
		Data:         make([]byte, t.Size),
	}
	namespace, known := n.namespaces[t.Namespace]
	if !known {
		return trace.Option(), model.OutcomeEncapUnfilled
	}
	empty := append(trace.AppendHeader(nil), trace.Data...)
	if record(&trace, n.appendNodeData(nil, t.Type, namespace, v.hop)) == model.OutcomeTraceOverflow {
		return trace.Option(), model.OutcomeEncapOverflow
	}
	if v.asks && t.Loopback > 0 {
		trace.Flags |= ioam.FlagLoopback
	}
	own := ioam.NodeData{Type: t.Type, Bytes: trace.Data[4*int(trace.RemainingLen):]}
	n.neutralize(own, empty, append(trace.AppendHeader(nil), trace.Data...))
	return trace.Option(), 0
}

// isOwn reports whether node data have this node's id, if their type includes
// one; this is proof unless the id is "not available".
func (n *Node) isOwn(data ioam.NodeData) (wrote, proven bool) {
	if field := data.Field(ioam.BitNode); field != nil {
		return ioam.NodeID(binary.BigEndian.Uint32(field))&ioam.NodeIDUnavailable == n.config.ID, n.config.ID != ioam.NodeIDUnavailable
	}
	if field := data.Field(ioam.BitNodeWide); field != nil {
		return ioam.NodeIDWide(
			binary.BigEndian.Uint64(field),
		)&ioam.NodeIDWideUnavailable == n.config.IDWide, n.config.IDWide != ioam.NodeIDWideUnavailable
	}
	return true, false
}

// isUnfinished reports whether none of the fields that completion writes has a
// value yet.
func isUnfinished(data ioam.NodeData) bool {
	_, egress := data.EgressID()
	_, egressWide := data.EgressIDWide()
	_, queue := data.QueueDepth()
	_, buffer := data.BufferOccupancy()
	delay := data.Field(ioam.BitTransitDelay)
	return !egress && !egressWide && !queue && !buffer && (delay == nil || delay[0]&0x80 != 0)
}

// record writes a node's data into a pre-allocated trace, or sets the overflow
// flag: RFC 9197 §4.4.1, Flags and RemainingLen.
func record(t *ioam.Trace, own []byte) model.Outcome {
	units := len(own) / 4
	if t.RemainingLen == 0 || int(t.RemainingLen) < units {
		t.Flags |= ioam.FlagOverflow
		return model.OutcomeTraceOverflow
	}
	t.RemainingLen -= uint8(units)
	copy(t.Data[4*int(t.RemainingLen):], own)
	return model.OutcomeTraceFilled
}

// transitDelay is the value of field 4 for a packet that stayed in the node from
// a placeholder's time until now, in nanoseconds of TAI (RFC 9197 §4.4.2.5).
func transitDelay(now int64, placeholder uint32) uint32 {
	quarters := (uint32(uint64(now)/4) - placeholder) & 0x7fffffff
	if ns := uint64(quarters) * 4; ns < uint64(ioam.TransitDelayOverflow) {
		return uint32(ns)
	}
	return ioam.TransitDelayOverflow
}

// delayPlaceholder lets a packet carry its time of arrival to the egress hook, in
// units of 4 ns below a top bit that means "overflow" to any reader.
func delayPlaceholder(now int64) uint32 {
	value := ioam.TransitDelayOverflow | uint32(uint64(now)/4)&0x7fffffff
	if value == ioam.DataUnavailable {
		value--
	}
	return value
}
