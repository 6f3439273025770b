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
}
