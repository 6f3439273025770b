// SPDX-License-Identifier: Apache-2.0

package ipfix

import "slices"

// IOAM returns the elements of the published exporter of IOAM data, under
// [EnterpriseIOAM]; IANA has none for IOAM. A value of all ones means "not available"
// (RFC 9197 §4.4.2). The caller owns the slice.
func IOAM() []Element {
	list := slices.Clone(ioamElements)
	for i := range list {
		list[i].Enterprise = EnterpriseIOAM
	}
	return list
}

// Waymark returns the elements that neither [IANA] nor [IOAM] has, under the number of
// the enterprise that runs the exporter. The caller owns the slice.
func Waymark(enterprise Enterprise) []Element {
	list := slices.Concat(waymarkElements, measurementElements, reportingElements)
	for i := range list {
		list[i].Enterprise = enterprise
	}
	return list
}

var ioamElements = []Element{
	{ID: 0, Name: "ioamNamespaceId", Type: Unsigned16, Semantics: Identifier, Description: "Namespace-ID (RFC 9197 §4.3)."},
	{ID: 1, Name: "ioamHopLimit", Type: Unsigned8, Units: Hops, Description: "Hop limit at the node."},
	{ID: 2, Name: "ioamNodeId", Type: Unsigned32, Length: 3, Semantics: Identifier, Range: Range{0, 1<<24 - 1}, Description: "Node id."},
	{ID: 3, Name: "ioamIngressInterfaceId", Type: Unsigned16, Semantics: Identifier, Description: "Ingress interface id."},
	{ID: 4, Name: "ioamEgressInterfaceId", Type: Unsigned16, Semantics: Identifier, Description: "Egress interface id."},
	{ID: 5, Name: "ioamTimestampSeconds", Type: Unsigned32, Units: Seconds, Description: "Seconds of the node's timestamp, in the node's format."},
	{ID: 6, Name: "ioamTimestampFraction", Type: Unsigned32, Description: "Fraction of the node's timestamp, in the node's format."},
	{ID: 7, Name: "ioamNamespaceData", Type: Unsigned32, Description: "Namespace specific data."},
	{ID: 8, Name: "ioamQueueDepth", Type: Unsigned32, Semantics: Quantity, Description: "Queue depth."},
	{ID: 9, Name: "ioamNodeIdWide", Type: Unsigned64, Length: 7, Semantics: Identifier, Range: Range{0, 1<<56 - 1}, Description: "Node id, wide."},
	{ID: 10, Name: "ioamIngressInterfaceIdWide", Type: Unsigned32, Semantics: Identifier, Description: "Ingress interface id, wide."},
	{ID: 11, Name: "ioamEgressInterfaceIdWide", Type: Unsigned32, Semantics: Identifier, Description: "Egress interface id, wide."},
	{ID: 12, Name: "ioamNamespaceDataWide", Type: Unsigned64, Description: "Namespace specific data, wide."},
	{ID: 13, Name: "ioamSchemaId", Type: Unsigned32, Length: 3, Semantics: Identifier, Range: Range{0, 1<<24 - 1}, Description: "Schema id of the opaque state snapshot."},
	{ID: 14, Name: "ioamOpaqueStateSnapshot", Type: OctetArray, Description: "Data of the opaque state snapshot."},
	{ID: 15, Name: "ioamDexFlowId", Type: Unsigned32, Semantics: Identifier, Description: "Flow-ID of a Direct Export option (RFC 9326 §3.2)."},
	{ID: 16, Name: "ioamDexSequenceNumber", Type: Unsigned32, Description: "Sequence Number of a Direct Export option (RFC 9326 §3.2)."},
}

// waymarkElements must never change their numbers: exporters and collectors of
// different versions must agree.
var waymarkElements = []Element{
	{ID: 1, Name: "ioamOptionType", Type: Unsigned8, Semantics: Identifier, Description: "IOAM Option-Type (RFC 9197 §4.1)."},
	{ID: 2, Name: "ioamTraceType", Type: Unsigned32, Length: 3, Semantics: Flags, Range: Range{0, 1<<24 - 1}, Description: "IOAM Trace-Type."},
	{ID: 3, Name: "ioamTraceFlags", Type: Unsigned8, Semantics: Flags, Range: Range{0, 15}, Description: "Flags of a trace: 8 overflow, 4 loopback, 2 active."},
	{ID: 4, Name: "ioamRemainingLength", Type: Unsigned8, Units: Words, Range: Range{0, 127}, Description: "RemainingLen of a trace."},
	{ID: 5, Name: "ioamHopIndex", Type: Unsigned8, Semantics: Identifier, Description: "Position of the node in its trace, the first being 0."},
	{ID: 6, Name: "ioamTransitDelayNanoseconds", Type: Unsigned32, Units: Nanoseconds, Description: "Time in the node. 0x80000000: 2^31 or more; greater values: not available."},
	{ID: 7, Name: "ioamChecksumComplement", Type: Unsigned32, Description: "Checksum complement."},
	{ID: 8, Name: "ioamBufferOccupancy", Type: Unsigned32, Semantics: Quantity, Description: "Buffer occupancy."},
	{ID: 9, Name: "ioamTransitDelayMinNanoseconds", Type: Unsigned32, Units: Nanoseconds, Description: "Minimum time in the node since the last report."},
	{ID: 10, Name: "ioamTransitDelayMaxNanoseconds", Type: Unsigned32, Units: Nanoseconds, Description: "Maximum time in the node since the last report."},
	{ID: 11, Name: "ioamTransitDelaySumNanoseconds", Type: Unsigned64, Semantics: DeltaCounter, Units: Nanoseconds, Description: "Sum of the times in the node since the last report."},
	{ID: 12, Name: "ioamTransitDelayDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets whose time in the node is part of the sum."},
	{ID: 13, Name: "ioamSequenceGapDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets of the flow that are missing, by their sequence numbers, since the last report; not in the record if that is not known."},
	{ID: 14, Name: "ioamReorderedPacketDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets that came after one with a later sequence number, since the last report."},
	{ID: 15, Name: "ioamSuppressedRecordTotalCount", Type: Unsigned64, Semantics: TotalCounter, Description: "Records that a rate limit suppressed (RFC 9326 §3.1.2)."},
	{ID: 16, Name: "ioamLostRecordTotalCount", Type: Unsigned64, Semantics: TotalCounter, Description: "Records that were lost on their way to the exporting process, for lack of room."},
	{ID: 17, Name: "ioamNodeRole", Type: Unsigned8, Semantics: Identifier, Range: Range{1, 3}, Description: "Role of the node for the packet: 1 encapsulating, 2 transit, 3 decapsulating node."},
	{ID: 18, Name: "ioamExtensionFlags", Type: Unsigned8, Semantics: Flags, Description: "Extension-Flags of a Direct Export option (RFC 9326 §3.2): 128 Flow-ID, 64 Sequence Number."},
	{ID: 19, Name: "ioamTimestampNanoseconds", Type: DateTimeNanoseconds, Units: Nanoseconds, Description: "The node's timestamp, converted from its format to UTC."},
	{ID: 20, Name: "ioamHopCount", Type: Unsigned8, Units: Hops, Description: "Number of nodes that wrote into the trace. Each has its own record."},
	{ID: 21, Name: "ioamReportId", Type: Unsigned32, Semantics: Identifier, Description: "Number that the records of one trace share. It wraps."},
	{ID: 22, Name: "ioamQueueFullRecordTotalCount", Type: Unsigned64, Semantics: TotalCounter, Description: "Records dropped because the exporter's queue was full."},
	{ID: 23, Name: "ioamConnectionLostRecordTotalCount", Type: Unsigned64, Semantics: TotalCounter, Description: "Records lost because the connection to the collector was lost or the network refused them."},
	{ID: 24, Name: "ioamUnencodableRecordTotalCount", Type: Unsigned64, Semantics: TotalCounter, Description: "Records that could not be encoded."},
	{ID: 25, Name: "ioamRecordSource", Type: Unsigned8, Semantics: Identifier, Description: "Source of the report, if not Waymark's programs: 1 the Linux kernel's own IOAM."},
	{ID: 26, Name: "ioamDirectExportFlags", Type: Unsigned8, Semantics: Flags, Description: "Flags of a Direct Export option, none of which is assigned yet (RFC 9326 §3.1)."},
}
