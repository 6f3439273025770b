// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"

	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/ipfix"
)

// Elements that are looked at by themselves.
const (
	elementFlowEndReason ipfix.ElementID = 136
	elementNodeRole      ipfix.ElementID = 17
)

// delayOverflow is the transit delay that says 2³¹ ns or more (RFC 9197
// §4.4.2.5); what is greater is not available.
const delayOverflow = 1 << 31

// maxSnapshot is how many octets the length of an opaque state snapshot can tell:
// 8 bits count units of 4 octets (RFC 9197 §4.4.2.13).
const maxSnapshot = 4 * 255

// iana takes a value of IANA's elements.
func (r *reading) iana(v ipfix.Value) {
	switch v.Field.ID {
	case 1: // octetDeltaCount
		counted(&r.octets, v)
	case 2: // packetDeltaCount
		counted(&r.packets, v)
	case 4: // protocolIdentifier
		plain(&r.packet.NextHeader, v)
	case 7: // sourceTransportPort
		transportPort(&r.packet.SourcePort, v)
	case 8, 27: // sourceIPv4Address, sourceIPv6Address
		address(&r.packet.Source, v)
	case 10: // ingressInterface
		plain(&r.ingress, v)
	case 11: // destinationTransportPort
		transportPort(&r.packet.DestinationPort, v)
	case 12, 28: // destinationIPv4Address, destinationIPv6Address
		address(&r.packet.Destination, v)
	case 14: // egressInterface
		plain(&r.egress, v)
	case 31: // flowLabelIPv6
		plain(&r.packet.FlowLabel, v)
	case 52: // minimumTTL
		plain(&r.flow.HopLimit.Min, v)
	case 53: // maximumTTL
		plain(&r.flow.HopLimit.Max, v)
	case 82: // interfaceName
		if name, ok := v.Text(); ok {
			r.interfaceName = name
		}
	case elementFlowEndReason:
		plain(&r.flow.EndReason, v)
	case 149: // observationDomainId
		counted(&r.domain, v)
	case 150, 152, 154, 156: // flowStartSeconds, flowStartMilliseconds, flowStartMicroseconds, flowStartNanoseconds
		moment(&r.flow.First.Time, v)
	case 151, 153, 155, 157: // flowEndSeconds, flowEndMilliseconds, flowEndMicroseconds, flowEndNanoseconds
		moment(&r.flow.Last.Time, v)
	case 224: // ipTotalLength
		plain64(&r.packet.Length, v)
	case 300: // observationDomainName
		if name, ok := v.Text(); ok {
			r.domainName = name
		}
	case 322, 323, 324, 325: // observationTimeSeconds, observationTimeMilliseconds, observationTimeMicroseconds, observationTimeNanoseconds
		moment(&r.at, v)
	case 530: // pathDelayMeanDeltaMicroseconds: of a trace, that of its packet
		counted(&r.pathDelay, v)
	}
}

// published takes a value of the published exporter's elements.
func (r *reading) published(v ipfix.Value) {
	d := &r.data
	switch v.Field.ID {
	case 0: // ioamNamespaceId
		counted(&r.namespace, v)
	case 1: // ioamHopLimit
		// Field 0 and field 8 have one each; a template with room for both fills
		// the one that the trace lacks with ones.
		if n, ok := v.Uint(); ok && (!d.HopLimit.Present || d.HopLimit.Value == 0xff) {
			d.HopLimit = export.NewField(uint8(n), true)
		}
	case 2: // ioamNodeId
		number(&d.NodeID, v, 1<<24-1)
	case 3: // ioamIngressInterfaceId
		number(&d.IngressID, v, 1<<16-1)
	case 4: // ioamEgressInterfaceId
		number(&d.EgressID, v, 1<<16-1)
	case 5: // ioamTimestampSeconds
		number(&r.seconds, v, 1<<32-1)
	case 6: // ioamTimestampFraction
		number(&d.TimestampFraction, v, 1<<32-1)
	case 7: // ioamNamespaceData
		number(&d.NamespaceData, v, 1<<32-1)
	case 8: // ioamQueueDepth
		number(&d.QueueDepth, v, 1<<32-1)
	case 9: // ioamNodeIdWide
		number(&d.NodeIDWide, v, 1<<56-1)
	case 10: // ioamIngressInterfaceIdWide
		number(&d.IngressIDWide, v, 1<<32-1)
	case 11: // ioamEgressInterfaceIdWide
		number(&d.EgressIDWide, v, 1<<32-1)
	case 12: // ioamNamespaceDataWide
		number(&d.NamespaceDataWide, v, 1<<64-1)
	case 13: // ioamSchemaId
		number(&r.schema, v, 1<<24-1)
	case 14: // ioamOpaqueStateSnapshot
		if len(v.Octets) > maxSnapshot {
			r.note(FaultValue)
			return
		}
		r.snapshot = bytes.Clone(v.Octets)
	case 15: // ioamDexFlowId
		counted(&r.flowID, v)
	case 16: // ioamDexSequenceNumber
		counted(&r.sequence, v)
	}
}

// own takes a value of our own elements.
func (r *reading) own(v ipfix.Value) {
	d := &r.data
	switch v.Field.ID {
	case 1: // ioamOptionType
		counted(&r.option, v)
	case 2: // ioamTraceType
		counted(&r.traceType, v)
	case 3: // ioamTraceFlags
		counted(&r.traceFlags, v)
	case 4: // ioamRemainingLength
		counted(&r.remaining, v)
	case 5: // ioamHopIndex
		counted(&r.hopIndex, v)
	case 6: // ioamTransitDelayNanoseconds
		if n, ok := v.Uint(); ok {
			d.TransitDelay = export.NewField(uint32(n), n < delayOverflow)
			d.TransitDelayOverflow = n == delayOverflow
		}
	case 7: // ioamChecksumComplement
		number(&d.ChecksumComplement, v, 1<<32-1)
	case 8: // ioamBufferOccupancy
		number(&d.BufferOccupancy, v, 1<<32-1)
	case elementNodeRole:
		counted(&r.role, v)
	case 18: // ioamExtensionFlags
		counted(&r.extension, v)
	case 19: // ioamTimestampNanoseconds
		at, ok := v.Time()
		d.Timestamp = export.NewField(at, ok && !unset(v.Octets))
	case 20: // ioamHopCount
		counted(&r.hopCount, v)
	case 21: // ioamReportId
		counted(&r.report, v)
	case 25: // ioamRecordSource
		plain(&r.source, v)
	case 26: // ioamDirectExportFlags
		plain(&r.dexFlags, v)
	default:
		r.ownFlow(v)
	}
}

// ownFlow takes a value of those elements of ours that flows have.
func (r *reading) ownFlow(v ipfix.Value) {
	f := &r.flow
	if v.Field.ID >= 9 && v.Field.ID <= 12 && f.TransitDelay == nil {
		f.TransitDelay = &export.Delays{}
	}
	switch v.Field.ID {
	case 9: // ioamTransitDelayMinNanoseconds
		plain(&f.TransitDelay.Min, v)
	case 10: // ioamTransitDelayMaxNanoseconds
		plain(&f.TransitDelay.Max, v)
	case 11: // ioamTransitDelaySumNanoseconds
		plain(&f.TransitDelay.Sum, v)
	case 12: // ioamTransitDelayDeltaCount
		plain(&f.TransitDelay.Count, v)
	case 13: // ioamSequenceGapDeltaCount
		counted(&f.SequenceGaps, v)
	case 14: // ioamReorderedPacketDeltaCount
		counted(&f.Reordered, v)
	}
}

// plain64 reads a length, which has no more than 32 bits.
func plain64(f *int, v ipfix.Value) {
	if n, ok := v.Uint(); ok && n < 1<<32 {
		*f = int(n)
	}
}

// unset tells whether octets are all 0 or all 1: no time.
func unset(octets []byte) bool {
	for _, b := range octets {
		if b != octets[0] || b != 0 && b != 0xff {
			return false
		}
	}
	return true
}
