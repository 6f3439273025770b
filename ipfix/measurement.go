// SPDX-License-Identifier: Apache-2.0

package ipfix

// measurementElements are ours for performance measurement: loss and delay of a flow
// between two points. All ones in a counter, a jitter or a clock error mean "not
// available". They must never change their numbers, like the other elements of ours.
var measurementElements = []Element{
	{ID: 27, Name: "pmFlowName", Type: String, Description: "Name of the measured flow."},
	{ID: 28, Name: "pmScope", Type: Unsigned8, Semantics: Identifier, Range: Range{1, 2}, Description: "What was measured: 1 the whole way of the flow, from the ingress to the egress; 2 a segment between two neighbouring points."},
	{ID: 29, Name: "pmFromPointId", Type: Unsigned32, Semantics: Identifier, Description: "Point at which packets enter what was measured."},
	{ID: 30, Name: "pmToPointId", Type: Unsigned32, Semantics: Identifier, Description: "Point at which packets leave it."},
	{ID: 31, Name: "pmBlockNumber", Type: Unsigned64, Semantics: Identifier, Description: "Block of alternate marking (RFC 9341 §4.3): the time of its start divided by its length. Of several blocks, the first."},
	{ID: 32, Name: "pmStartNanoseconds", Type: DateTimeNanoseconds, Units: Nanoseconds, Description: "Start of the measured block or period."},
	{ID: 33, Name: "pmLengthNanoseconds", Type: Unsigned64, Units: Nanoseconds, Description: "Length of the measured block or period."},
	{ID: 34, Name: "pmVerdict", Type: Unsigned8, Semantics: Identifier, Range: Range{0, 3}, Description: "What the counters are worth: 0 no data, 1 uncertain, 2 exact, 3 exact and without packets."},
	{ID: 35, Name: "pmFromReasons", Type: Unsigned16, Semantics: Flags, Description: "Why counters are uncertain because of the first point: 1 missing, 2 contradicting, 4 restarted, 8 guard violated, 16 clock worse, 32 colour missing, 64 colour out of turn, 128 other path."},
	{ID: 36, Name: "pmToReasons", Type: Unsigned16, Semantics: Flags, Description: "The same because of the second point."},
	{ID: 37, Name: "pmSentPacketDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets counted at the first point."},
	{ID: 38, Name: "pmReceivedPacketDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets counted at the second point."},
	{ID: 39, Name: "pmLostPacketDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets lost between the points; not available unless the verdict is exact."},
	{ID: 40, Name: "pmDuplicatedPacketDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets by which the second point counted more than the first; not available unless the verdict is exact."},
	{ID: 41, Name: "pmSentOctetDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Octets, Description: "Octets counted at the first point."},
	{ID: 42, Name: "pmReceivedOctetDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Octets, Description: "Octets counted at the second point."},
	{ID: 43, Name: "pmLostOctetDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Octets, Description: "Octets lost between the points; not available unless the verdict is exact."},
	{ID: 44, Name: "pmDuplicatedOctetDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Octets, Description: "Octets by which the second point counted more than the first; not available unless the verdict is exact."},
	{ID: 45, Name: "pmDelayMethod", Type: Unsigned8, Semantics: Identifier, Range: Range{0, 4}, Description: "How a delay was measured: 0 mean of a block's packets (RFC 9341 §3.2.1.1), 1 double marking (RFC 9341 §3.2.2); with test packets (RFC 8762): 2 one-way, 3 two-way, 4 round trip."},
	{ID: 46, Name: "pmDelaySampleDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Description: "Delays that were measured."},
	{ID: 47, Name: "pmDelayMinNanoseconds", Type: Signed64, Units: Nanoseconds, Description: "Minimum delay. A one-way delay is negative if the clocks differ by more than it."},
	{ID: 48, Name: "pmDelayMeanNanoseconds", Type: Signed64, Units: Nanoseconds, Description: "Mean delay."},
	{ID: 49, Name: "pmDelayP95Nanoseconds", Type: Signed64, Units: Nanoseconds, Description: "95th percentile of the delays, exact to 1/256."},
	{ID: 50, Name: "pmDelayJitterNanoseconds", Type: Unsigned64, Units: Nanoseconds, Description: "Mean difference between the delays of consecutive blocks or test packets (RFC 3393 §4.5)."},
	{ID: 51, Name: "pmFromClockErrorNanoseconds", Type: Unsigned64, Units: Nanoseconds, Description: "Greatest error of the first point's clock."},
	{ID: 52, Name: "pmToClockErrorNanoseconds", Type: Unsigned64, Units: Nanoseconds, Description: "Greatest error of the second point's clock."},
	{ID: 53, Name: "pmPointId", Type: Unsigned32, Semantics: Identifier, Description: "Point that counted: its number along the flow's way, 0 for the ingress."},
	{ID: 54, Name: "pmLastPointId", Type: Unsigned32, Semantics: Identifier, Description: "Number of the flow's last point, the egress."},
	{ID: 55, Name: "pmGuardNanoseconds", Type: Unsigned64, Units: Nanoseconds, Description: "How far from its block a packet may arrive: the difference of the clocks plus the spread of the delays (RFC 9341 §5)."},
	{ID: 56, Name: "pmLatePacketDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets of the block's colour that arrived farther after it than the guard."},
	{ID: 57, Name: "pmOutOfTurnPacketDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets of the block's colour that arrived so far from it that they may belong to another."},
	{ID: 58, Name: "pmUnmarkedPacketDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets of the flow that arrived without a mark when they may have belonged to the block."},
	{ID: 59, Name: "pmUnsizedPacketDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets whose octets are not known exactly."},
	{ID: 60, Name: "pmTimeSumNanoseconds", Type: Signed64, Units: Nanoseconds, Description: "Sum of the packets' times since the start of the block; it wraps."},
	{ID: 61, Name: "pmDelayMarkedPacketDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets with a delay mark (RFC 9341 §4.2.2)."},
	{ID: 62, Name: "pmDelayMarkedTimeSumNanoseconds", Type: Signed64, Units: Nanoseconds, Description: "Sum of their times since the start of the block; it wraps."},
	{ID: 63, Name: "pmClockErrorNanoseconds", Type: Unsigned64, Units: Nanoseconds, Description: "Greatest error of the point's clock."},
	{ID: 64, Name: "pmCountingFlags", Type: Unsigned8, Semantics: Flags, Description: "Why the counters are not those of the whole block: 1 counting began in it, 2 it was interrupted, 4 they were read at a wrong time."},
	{ID: 65, Name: "pmPacketDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Packets, Description: "Packets of a block that the point counted."},
	{ID: 66, Name: "pmOctetDeltaCount", Type: Unsigned64, Semantics: DeltaCounter, Units: Octets, Description: "Octets of these packets."},
}
