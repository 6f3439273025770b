// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"maps"
	"slices"
	"testing"

	"github.com/netsampler/goflow2/v2/decoders/netflow"
)

// ianaTypes are abstract data types as in IANA's registry, most of them from RFC 5102,
// RFC 5477 and RFC 5610; 291 to 293 from RFC 6313, 492 to 502 from RFC 9487, 530 to 533 from RFC 9951.
var ianaTypes = map[DataType][]ElementID{
	OctetArray: {210, 313, 497, 499},
	Unsigned8: {
		4, 5, 29, 30, 52, 53, 60, 61, 136, 192, 193, 195, 214, 215, 339, 344, 492, 498, 500, 501,
	},
	Unsigned16: {6, 7, 11, 36, 37, 58, 139, 145, 216, 217, 303, 304, 345, 493, 502},
	Unsigned32: {
		10, 14, 31, 141, 142, 143, 144, 149, 184, 252, 253, 305, 306, 309, 310, 346, 530, 531, 532,
	},
	Unsigned64: {
		1, 2, 3, 25, 26, 40, 41, 42, 85, 86, 132, 133, 134, 135, 137, 138, 148, 163, 164, 165, 166, 167, 168, 173, 224,
		301, 302, 318, 319, 342, 343, 407, 533,
	},
	Float64:              {311},
	String:               {82, 83, 300, 335, 340, 341},
	DateTimeSeconds:      {150, 151, 322},
	DateTimeMilliseconds: {152, 153, 160, 323},
	DateTimeMicroseconds: {154, 155, 324},
	DateTimeNanoseconds:  {156, 157, 325},
	IPv4Address:          {8, 12, 15, 130, 211},
	IPv6Address:          {27, 28, 62, 131, 212, 494, 495},
	BasicList:            {291, 496},
	SubTemplateList:      {292},
	SubTemplateMultiList: {293},
}

// ianaNames are the names of RFC 9487 and RFC 9951, which goflow2 does not know.
var ianaNames = map[ElementID]string{
	492: "srhFlagsIPv6",
	493: "srhTagIPv6",
	494: "srhSegmentIPv6",
	495: "srhActiveSegmentIPv6",
	496: "srhSegmentIPv6BasicList",
	497: "srhSegmentIPv6ListSection",
	498: "srhSegmentsIPv6Left",
	499: "srhIPv6Section",
	500: "srhIPv6ActiveSegmentType",
	501: "srhSegmentIPv6LocatorLength",
	502: "srhSegmentIPv6EndpointBehavior",
	530: "pathDelayMeanDeltaMicroseconds",
	531: "pathDelayMinDeltaMicroseconds",
	532: "pathDelayMaxDeltaMicroseconds",
	533: "pathDelaySumDeltaMicroseconds",
}

// goflow2Last is the greatest number that goflow2 has a name for.
const goflow2Last ElementID = netflow.IPFIX_FIELD_natThresholdEvent

// Numbers, names and types are IANA's; the names are compared with goflow2, an
// independent implementation.
func TestIANAElements(t *testing.T) {
	types := map[ElementID]DataType{}
	for kind, ids := range ianaTypes {
		for _, id := range ids {
			types[id] = kind
		}
	}
	for _, e := range IANA() {
		name := ianaNames[e.ID]
		if e.ID <= goflow2Last {
			name = netflow.IPFIXTypeToString(uint16(e.ID))
		}
		if e.Name != name {
			t.Errorf("element %d is named %s, want %q", e.ID, e.Name, name)
		}
		if kind, ok := types[e.ID]; !ok || e.Type != kind {
			t.Errorf("element %d is of type %v, want %v (known: %v)", e.ID, e.Type, kind, ok)
		}
		if e.Enterprise != EnterpriseIANA || e.Length != 0 {
			t.Errorf("element %d: enterprise %d, length %d", e.ID, e.Enterprise, e.Length)
		}
		delete(types, e.ID)
	}
	if len(types) > 0 {
		t.Errorf("no elements %v", slices.Sorted(maps.Keys(types)))
	}
}

// enterpriseElements are names by number, and the octets of each.
type enterpriseElements []struct {
	name   string
	octets uint16
}

func (want enterpriseElements) check(t *testing.T, first ElementID, got []Element) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d elements, want %d", len(got), len(want))
	}
	for i, e := range got[:min(len(got), len(want))] {
		if id := first + ElementID(i); e.ID != id || e.Name != want[i].name || e.UsualLength() != want[i].octets {
			t.Errorf("element %d is %s of %d octets, want %d, %s of %d", e.ID, e.Name, e.UsualLength(), id, want[i].name, want[i].octets)
		}
	}
}

// The published exporter's numbers, with as many octets as IOAM data fields
// have in a packet (RFC 9197 §4.4.2, RFC 9326 §3.2).
func TestIOAMElements(t *testing.T) {
	enterpriseElements{
		{"ioamNamespaceId", 2}, {"ioamHopLimit", 1}, {"ioamNodeId", 3}, {"ioamIngressInterfaceId", 2}, {"ioamEgressInterfaceId", 2},
		{"ioamTimestampSeconds", 4}, {"ioamTimestampFraction", 4}, {"ioamNamespaceData", 4}, {"ioamQueueDepth", 4},
		{"ioamNodeIdWide", 7}, {"ioamIngressInterfaceIdWide", 4}, {"ioamEgressInterfaceIdWide", 4}, {"ioamNamespaceDataWide", 8},
		{"ioamSchemaId", 3}, {"ioamOpaqueStateSnapshot", VariableLength}, {"ioamDexFlowId", 4}, {"ioamDexSequenceNumber", 4},
	}.check(t, 0, IOAM())
	if e := IOAM()[0]; e.Enterprise != 10383 {
		t.Errorf("enterprise %d", e.Enterprise)
	}
}

// Our own numbers do not change: exporter and collector may be of different
// versions.
func TestWaymarkElements(t *testing.T) {
	all := Waymark(EnterpriseExample)
	gap := slices.IndexFunc(all, func(e Element) bool { return e.ID >= 82 }) // numbers before it are reserved
	enterpriseElements{{"pmLostMinPacketDeltaCount", 8}}.check(t, 82, all[gap:gap+1])
	enterpriseElements{{"pmFromNode", VariableLength}, {"pmToNode", VariableLength}}.check(t, 92, all[gap+1:gap+3])
	enterpriseElements{
		{"ioamOptionType", 1}, {"ioamTraceType", 3}, {"ioamTraceFlags", 1}, {"ioamRemainingLength", 1}, {"ioamHopIndex", 1},
		{"ioamTransitDelayNanoseconds", 4}, {"ioamChecksumComplement", 4}, {"ioamBufferOccupancy", 4},
		{"ioamTransitDelayMinNanoseconds", 4}, {"ioamTransitDelayMaxNanoseconds", 4}, {"ioamTransitDelaySumNanoseconds", 8}, {"ioamTransitDelayDeltaCount", 8},
		{"ioamSequenceGapDeltaCount", 8}, {"ioamReorderedPacketDeltaCount", 8}, {"ioamSuppressedRecordTotalCount", 8}, {"ioamLostRecordTotalCount", 8},
		{"ioamNodeRole", 1}, {"ioamExtensionFlags", 1}, {"ioamTimestampNanoseconds", 8}, {"ioamHopCount", 1}, {"ioamReportId", 4},
		{"ioamQueueFullRecordTotalCount", 8}, {"ioamConnectionLostRecordTotalCount", 8}, {"ioamUnencodableRecordTotalCount", 8},
		{"ioamRecordSource", 1}, {"ioamDirectExportFlags", 1},
		{"pmFlowName", VariableLength}, {"pmScope", 1}, {"pmFromPointId", 4}, {"pmToPointId", 4}, {"pmBlockNumber", 8}, {"pmStartNanoseconds", 8},
		{"pmLengthNanoseconds", 8}, {"pmVerdict", 1}, {"pmFromReasons", 2}, {"pmToReasons", 2},
		{"pmSentPacketDeltaCount", 8}, {"pmReceivedPacketDeltaCount", 8}, {"pmLostPacketDeltaCount", 8}, {"pmDuplicatedPacketDeltaCount", 8},
		{"pmSentOctetDeltaCount", 8}, {"pmReceivedOctetDeltaCount", 8}, {"pmLostOctetDeltaCount", 8}, {"pmDuplicatedOctetDeltaCount", 8},
		{"pmDelayMethod", 1}, {"pmDelaySampleDeltaCount", 8}, {"pmDelayMinNanoseconds", 8}, {"pmDelayMeanNanoseconds", 8}, {"pmDelayP95Nanoseconds", 8},
		{"pmDelayJitterNanoseconds", 8}, {"pmFromClockErrorNanoseconds", 8}, {"pmToClockErrorNanoseconds", 8},
		{"pmPointId", 4}, {"pmLastPointId", 4}, {"pmGuardNanoseconds", 8}, {"pmLatePacketDeltaCount", 8}, {"pmOutOfTurnPacketDeltaCount", 8},
		{"pmUnmarkedPacketDeltaCount", 8}, {"pmUnsizedPacketDeltaCount", 8}, {"pmTimeSumNanoseconds", 8}, {"pmDelayMarkedPacketDeltaCount", 8},
		{"pmDelayMarkedTimeSumNanoseconds", 8}, {"pmClockErrorNanoseconds", 8}, {"pmCountingFlags", 1},
		{"pmPacketDeltaCount", 8}, {"pmOctetDeltaCount", 8},
		{"ioamEdgeToEdgeType", 2}, {"ioamDuplicatedPacketDeltaCount", 8}, {"ioamLatePacketDeltaCount", 8}, {"ioamSequenceRestartDeltaCount", 8},
		{"pmDelayMaxNanoseconds", 8}, {"pmDelaySumNanoseconds", 8},
		{"pmSelection", 65535}, {"pmAssumptions", 1},
	}.check(t, 1, all[:gap])
	enterpriseElements{
		{"ioamReportedUntilNanoseconds", 8}, {"ioamReportedSinceNanoseconds", 8}, {"ioamCountedUntilNanoseconds", 8}, {"ioamServedSinceNanoseconds", 8},
		{"ioamPostcardSamplingInterval", 4},
	}.check(t, 87, reportingElements)
}
