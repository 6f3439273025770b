// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Outcomes by what they do to a packet.
var (
	ingressOutcomes = []model.Outcome{
		model.OutcomeNotIPv6, model.OutcomeNoIOAM, model.OutcomeOptionUnsupported, model.OutcomeNamespaceUnknown, model.OutcomeOverflowSet, model.OutcomeDirectExport,
		model.OutcomeTraceFilled, model.OutcomeTraceOverflow, model.OutcomeRemovalPartial, model.OutcomeOptionsRemoved, model.OutcomeInlineRemoved, model.OutcomeTunnelDecapsulated,
		model.OutcomeDecapRefusedSource, model.OutcomeDecapRefusedBare, model.OutcomeDecapRefusedInner,
		model.OutcomeBoundaryIgnored, model.OutcomeBoundaryStripPartial, model.OutcomeBoundaryStripped, model.OutcomeBoundaryDropped, model.OutcomeBoundaryUnprovenDropped, model.OutcomeBoundaryTunnelDropped,
		model.OutcomeMalformedIPv6, model.OutcomeMalformedHeader, model.OutcomeMalformedTooManyOptions, model.OutcomeMalformedTunnel, model.OutcomeMalformedAlignment,
		model.OutcomeMalformedOptionLength, model.OutcomeMalformedNodeLength, model.OutcomeMalformedRemainingLength, model.OutcomeMalformedNodeData,
		model.OutcomePotUpdated, model.OutcomePotAccepted, model.OutcomePotInvalid, model.OutcomePotRejected, model.OutcomePotDropped,
		model.OutcomeIncrementalTrace,
	}
	// rareOutcomes need what earlier packets left, and nodes here see one packet, which may
	// have a proof twice.
	rareOutcomes   = []model.Outcome{model.OutcomePotReplayed, model.OutcomePotTooOld}
	egressOutcomes = []model.Outcome{
		model.OutcomeNotIPv6, model.OutcomeNoIOAM, model.OutcomeUntouched, model.OutcomeOptionUnsupported, model.OutcomeNamespaceUnknown, model.OutcomeOverflowSet,
		model.OutcomeDirectExport, model.OutcomeTraceFilled, model.OutcomeEncapNotSelected, model.OutcomeEncapSkippedControl, model.OutcomeEncapSkippedExport, model.OutcomeEncapSkippedMTU,
		model.OutcomeEncapSkippedAH, model.OutcomeEncapSkippedRouterAlert, model.OutcomeEncapSkippedJumbo, model.OutcomeEncapSkippedOptions,
		model.OutcomeEncapSkippedSegments, model.OutcomeEncapSkippedUnremovable,
		model.OutcomeEncapSkippedGSO, model.OutcomeEncapInserted, model.OutcomeEncapTunneled, model.OutcomeEncapUnfilled, model.OutcomeEncapOverflow,
		model.OutcomeBoundaryIgnored, model.OutcomeBoundaryStripPartial, model.OutcomeBoundaryStripped, model.OutcomeBoundaryDropped, model.OutcomeBoundaryUnprovenDropped,
		model.OutcomeMalformedIPv6, model.OutcomeMalformedHeader, model.OutcomeMalformedTooManyOptions, model.OutcomeMalformedAlignment,
		model.OutcomeMalformedOptionLength, model.OutcomeMalformedNodeLength, model.OutcomeMalformedRemainingLength, model.OutcomeMalformedNodeData,
		model.OutcomeTraceGrown, model.OutcomeTraceOverflow,
	}
	added   = []model.Outcome{model.OutcomeEncapInserted, model.OutcomeEncapTunneled, model.OutcomeEncapUnfilled, model.OutcomeEncapOverflow}
	inPlace = []model.Outcome{
		model.OutcomeOptionUnsupported, model.OutcomeNamespaceUnknown, model.OutcomeOverflowSet, model.OutcomeDirectExport,
		model.OutcomeTraceFilled, model.OutcomeTraceOverflow, model.OutcomeRemovalPartial,
		model.OutcomeIncrementalTrace, model.OutcomePotUpdated, model.OutcomePotAccepted, model.OutcomePotTooOld, model.OutcomePotReplayed, model.OutcomePotInvalid, model.OutcomePotRejected, model.OutcomePotDropped,
	}
	kernelDrops = []model.Outcome{
		model.OutcomeMalformedAlignment, model.OutcomeMalformedOptionLength, model.OutcomeMalformedNodeLength,
		model.OutcomeMalformedRemainingLength,
	}
)

// checkedRun runs a frame through one hook of a node and checks the invariants
// that hold for any packet.
func checkedRun(t *testing.T, config model.NodeConfig, f Frame, egress bool) Result {
	t.Helper()
	run := func() Result {
		node := mustNode(t, config)
		for i := range node.matched {
			node.matched[i] = uint64(f.Time) // so that every position in the n occurs
		}
		if egress {
			return node.Egress(f)
		}
		return node.Ingress(f)
	}
	before := bytes.Clone(f.Data)
	result := run()
	if !bytes.Equal(before, f.Data) {
		t.Fatal("the node changed its input")
	}
	if again := run(); !reflect.DeepEqual(result, again) {
		t.Fatalf("twice the same frame gave\n%+v and\n%+v", result, again)
	}

	allowed := ingressOutcomes
	if egress {
		allowed = egressOutcomes
	}
	if !slices.Contains(allowed, result.Outcome) && (egress || !slices.Contains(rareOutcomes, result.Outcome)) {
		t.Fatalf("outcome %v at this hook", result.Outcome)
	}
	mayDrop := result.Outcome == model.OutcomeBoundaryDropped || result.Outcome == model.OutcomeBoundaryUnprovenDropped ||
		result.Outcome == model.OutcomeBoundaryTunnelDropped ||
		result.Outcome == model.OutcomePotDropped ||
		!egress && config.Compatibility == model.CompatibilityMainline && slices.Contains(kernelDrops, result.Outcome)
	if (result.Verdict == Drop) != mayDrop {
		t.Fatalf("%v of %v", result.Verdict, result.Outcome)
	}
	checkBytes(t, config, f, result)
	checkTold(t, config, f, result, egress)
	return result
}

// checkTold checks that a removed trace gives a record, and that each Direct
// Export that this node inserted, passed on or removed gives an export if its
// namespace exports.
func checkTold(t *testing.T, config model.NodeConfig, f Frame, result Result, egress bool) {
	t.Helper()
	var carrier packet
	var role model.NodeRole
	switch {
	case result.Outcome == model.OutcomeInlineRemoved || result.Outcome == model.OutcomeTunnelDecapsulated:
		carrier, role = mustParse(t, f.Data, f.Link), model.RoleDecapsulating
	case result.Outcome == model.OutcomeOptionsRemoved:
		carrier, role = mustParse(t, f.Data, f.Link), model.RoleDecapsulating
		n := mustNode(t, config)
		carrier.options = slices.DeleteFunc(carrier.options, func(o ioam.Option) bool { return !n.removable(o) })
	case slices.Contains(added, result.Outcome):
		carrier, role = mustParse(t, result.Data, f.Link), model.RoleEncapsulating
		if was := mustParse(t, f.Data, f.Link); was.header != nil && !bytes.HasSuffix(carrier.ip, was.ip) { // merged
			carrier.options = carrier.options[:len(carrier.options)-len(was.options)]
		}
	case egress && (f.Ingress == ifIngress || f.Ingress == ifEgress) &&
		(result.Outcome == model.OutcomeUntouched || result.Outcome == model.OutcomeTraceGrown || slices.Contains(inPlace, result.Outcome)):
		carrier, role = mustParse(t, result.Data, f.Link), model.RoleTransit
	}
	isTrace := func(o ioam.Option) bool {
		return isPreallocatedTrace(o) || isIncrementalTrace(o) && soundModuleOf(o) != nil
	}
	if removed := role == model.RoleDecapsulating && slices.ContainsFunc(carrier.options, isTrace); removed != (result.Record != nil) {
		t.Fatalf("%v: removed %v, record %+v", result.Outcome, removed, result.Record)
	}
	var want []ioam.DirectExport
	for _, option := range carrier.options {
		o, _ := option.IOAM()
		d, err := o.DirectExport()
		if i := slices.IndexFunc(config.Namespaces, func(ns model.Namespace) bool { return ns.ID == d.Namespace }); err == nil && i >= 0 &&
			config.Namespaces[i].Export != model.ExportNone {
			want = append(want, d)
		}
	}
	if len(result.Postcards) != len(want) {
		t.Fatalf("%v: %d exports, want %d", result.Outcome, len(result.Postcards), len(want))
	}
	for i, e := range result.Postcards {
		if e.Option != want[i] || e.Role != role || e.Time != f.Time || e.Length < ipv6.HeaderLen || e.Length > len(f.Data) ||
			!e.Flow.Source.IsValid() || !e.Flow.Destination.IsValid() {
			t.Fatalf("%v: export %+v of %+v", result.Outcome, e, want[i])
		}
		if e.TransitDelay != ioam.DataUnavailable && (role != model.RoleTransit || f.Arrived == 0 || !e.Option.Type.Has(ioam.BitTransitDelay)) ||
			e.QueueDepth != ioam.DataUnavailable && (!f.QueueKnown || !egress || !e.Option.Type.Has(ioam.BitQueueDepth)) ||
			e.BufferOccupancy != ioam.DataUnavailable && (!f.BufferKnown || !egress || !e.Option.Type.Has(ioam.BitBufferOccupancy)) {
			t.Fatalf("%v: measured %+v", result.Outcome, e)
		}
	}
}

// checkBytes compares the frame that goes on with the one that arrived.
func checkBytes(t *testing.T, config model.NodeConfig, f Frame, result Result) {
	t.Helper()
	if len(result.Data) > len(f.Data) {
		checkFits(t, config, f, result)
	}
	switch result.Outcome {
	case model.OutcomeInlineRemoved, model.OutcomeTunnelDecapsulated:
		checkRemoved(t, f, result)
	case model.OutcomeBoundaryStripped:
		checkStripped(t, f, result)
	case model.OutcomeOptionsRemoved:
		checkExtracted(t, config, f, result)
	case model.OutcomeEncapInserted, model.OutcomeEncapTunneled, model.OutcomeEncapUnfilled, model.OutcomeEncapOverflow:
		checkInserted(t, f, result)
	default:
		if isAnyGrowing(config, f) && slices.Contains(append(inPlace, model.OutcomeTraceGrown, model.OutcomeUntouched), result.Outcome) {
			checkGrown(t, f, result)
		} else if slices.Contains(inPlace, result.Outcome) {
			checkInPlace(t, config, f, result)
		} else if !bytes.Equal(f.Data, result.Data) {
			t.Fatalf("%v changed\n%x to\n%x", result.Outcome, f.Data, result.Data)
		}
	}
}

// checkFits checks that a packet that grew, or a segment of it, is not larger than the MTU. A
// segment that was larger before may stay as large.
func checkFits(t *testing.T, config model.NodeConfig, f Frame, result Result) {
	t.Helper()
	mtu := 0
	for _, i := range config.Interfaces {
		if i.Index == f.Interface {
			mtu = i.MTU
		}
	}
	was, is := mustParse(t, f.Data, f.Link), mustParse(t, result.Data, f.Link)
	length := len(is.ip)
	if f.GSOSize > 0 {
		grown := len(is.ip) - len(was.ip) + int(result.GSOSize) - int(f.GSOSize)
		if grown <= 0 {
			return
		}
		const udpHeaderLen = 8 // segments of TCP never grow
		upper := ipv6.FindUpperLayer(was.ip)
		if upper.Next != ioam.NextHeaderUDP {
			t.Fatalf("%v: segments of protocol %d grew by %d", result.Outcome, upper.Next, grown)
		}
		length = upper.Offset + udpHeaderLen + int(f.GSOSize) + grown
	}
	if mtu != 0 && length > mtu {
		t.Fatalf("%v made a packet of %d bytes, the MTU is %d", result.Outcome, length, mtu)
	}
}

// mustParse parses a frame that a node passed on.
func mustParse(t *testing.T, frame []byte, link Link) packet {
	t.Helper()
	p, outcome, ok := parse(frame, link)
	if !ok {
		t.Fatalf("%v: %x", outcome, frame)
	}
	return p
}

// checkInPlace checks that only flags, RemainingLen and node data of traces, and the
// Cumulative of proofs, changed, and that the packet is as valid as before.
func checkInPlace(t *testing.T, config model.NodeConfig, f Frame, result Result) {
	t.Helper()
	if len(f.Data) != len(result.Data) {
		t.Fatalf("%v changed the length", result.Outcome)
	}
	was, is := mustParse(t, f.Data, f.Link), mustParse(t, result.Data, f.Link)
	if fault, sound := is.check(config.Compatibility); !sound {
		t.Fatalf("%v made %v", result.Outcome, fault)
	}
	blank := func(p packet) []byte {
		frame := bytes.Clone(p.frame)
		header := frame[len(p.link)+ipv6.HeaderLen:]
		for _, o := range p.options {
			if isPreallocatedTrace(o) {
				data := header[o.Offset+2:][:len(o.Data)]
				data[4] &^= 4   // overflow
				data[5] &= 0x80 // RemainingLen
				clear(data[10:])
			} else if isProofOfTransit(o) && len(o.Data) >= 2+ioam.ProofLen {
				clear(header[o.Offset+2:][2+12 : 2+20])
			}
		}
		return frame
	}
	if !bytes.Equal(blank(was), blank(is)) {
		t.Fatalf("%v changed more than it may:\n%x\n%x", result.Outcome, f.Data, result.Data)
	}
	for i, option := range is.options {
		if !isPreallocatedTrace(option) {
			continue
		}
		before, _ := ioam.DecodeTrace(was.options[i].Data[2:])
		after, _ := ioam.DecodeTrace(option.Data[2:])
		if after.RemainingLen > before.RemainingLen || before.Flags&^after.Flags != 0 {
			t.Fatalf("RemainingLen %d became %d, flags %x became %x", before.RemainingLen, after.RemainingLen, before.Flags, after.Flags)
		}
		// The data of earlier nodes and the free space stay the same.
		if old := 4 * int(before.RemainingLen); f.Ingress == 0 && !bytes.Equal(before.Data[old:], after.Data[old:]) {
			t.Fatal("older node data changed")
		}
		if free := 4 * int(after.RemainingLen); !bytes.Equal(before.Data[:free], after.Data[:free]) {
			t.Fatal("free space changed")
		}
	}
}

func checkRemoved(t *testing.T, f Frame, result Result) {
	t.Helper()
	was := mustParse(t, f.Data, f.Link)
	length := len(was.header)
	tunnel := result.Outcome == model.OutcomeTunnelDecapsulated
	if tunnel {
		length += ipv6.HeaderLen
	}
	if len(f.Data)-len(result.Data) != length {
		t.Fatalf("%v took %d bytes, not %d", result.Outcome, len(f.Data)-len(result.Data), length)
	}
	ip := result.Data[len(was.link):]
	if rest := was.ip[ipv6.HeaderLen+len(was.header):]; tunnel {
		if ecn := ip[1] ^ rest[1]; ecn&^0x30 != 0 || !bytes.Equal(ip[2:7], rest[2:7]) || !bytes.Equal(ip[8:], rest[8:]) ||
			ip[7] != min(rest[7], was.hopLimit()) || ip[0] != rest[0] {
			t.Fatalf("inner packet\n%x became\n%x", rest, ip)
		}
	} else if !bytes.Equal(ip[ipv6.HeaderLen:], rest) || ip[6] != was.header[0] || !bytes.Equal(ip[7:40], was.ip[7:40]) {
		t.Fatalf("packet\n%x became\n%x", was.ip, ip)
	}
	r := result.Record
	if r == nil {
		return
	}
	header, err := ioam.DecodeExtensionHeader(r.Header)
	if err != nil || len(header.Bytes) != len(was.header) || r.Outcome != result.Outcome || r.Length != len(ip) ||
		!bytes.Equal(r.Packet, ip[:min(80, len(ip))]) || r.Time != f.Time || r.Interface != f.Interface {
		t.Fatalf("record %+v: %v", r, err)
	}
	ipv6.Summarize(r.Packet)
}

// checkInserted checks that the insertion is well-formed, and that removing it
// restores the packet.
func checkInserted(t *testing.T, f Frame, result Result) {
	t.Helper()
	was, is := mustParse(t, bytes.Clone(f.Data), f.Link), mustParse(t, result.Data, f.Link)
	merged := was.header != nil && !bytes.HasSuffix(is.ip, was.ip)
	pure := is.pure && len(is.header) <= model.MaxHeaderInsertion
	if fault, sound := is.check(model.CompatibilityDefault); !merged && (!sound || len(is.options) == 0 || !pure) {
		t.Fatalf("inserted %x: %v", is.header, fault)
	}
	if is.hopLimit() != was.hopLimit() || is.trafficClass() != was.trafficClass() || is.flowLabel() != was.flowLabel() {
		t.Fatal("the header that carries the option has another hop limit, traffic class or flow label")
	}
	if merged {
		checkMerged(t, was, is)
		return
	}
	header := ioam.ExtensionHeader{Bytes: is.header}
	for option := range header.Options() {
		if option.Type == ioam.OptionPadN && (len(option.Data) > 5 || !bytes.Equal(option.Data, make([]byte, len(option.Data)))) {
			t.Fatalf("padding %x", option.Data) // Linux drops more than 7 bytes, or other than zero
		}
	}
	if is.payloadLength() != 0 && was.payloadLength() != 0 {
		grown := len(is.ip) - len(was.ip)
		if is.payloadLength()-was.payloadLength() != grown {
			t.Fatalf("payload length grew by %d, the packet by %d", is.payloadLength()-was.payloadLength(), grown)
		}
	}
	if len(is.ip)-len(was.ip) > len(is.header) { // a tunnel
		if !bytes.Equal(is.ip[ipv6.HeaderLen+len(is.header):], was.ip) {
			t.Fatal("the inner packet changed")
		}
		return
	}
	back := is.removeHeaders()
	setPayloadLength(back[len(was.link):], was.payloadLength()) // BIG TCP writes 0
	if !bytes.Equal(back, f.Data) {
		t.Fatalf("taking the header away gives\n%x, not\n%x", back, f.Data)
	}
}
