// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// measured is what records of loss and of delay have in common.
func measured() fields {
	return fields{
		{"observationTimeNanoseconds", start.Add(10 * time.Second)}, {"pmFlowName", "blue"}, num("flowId", 7), num("pmScope", 1),
		num("pmFromPointId", 1), num("pmToPointId", 3), num("pmBlockNumber", 42), {"pmStartNanoseconds", start}, num("pmLengthNanoseconds", 1000),
	}
}

func measuredLoss() fields {
	return append(measured(), num("pmVerdict", 2), num("pmSentPacketDeltaCount", 100), num("pmReceivedPacketDeltaCount", 75),
		num("pmLostPacketDeltaCount", 25), num("pmDuplicatedPacketDeltaCount", 0))
}

func measuredDelay() fields {
	return append(measured(), num("pmDelayMethod", 3), num("pmDelaySampleDeltaCount", 4), num("pmDelayJitterNanoseconds", math.MaxUint64))
}

func TestMeasurements(t *testing.T) {
	c, out, send := offline(t, Config{}, ipfix.UDP)
	x := newExporter(t, ipfix.UDP, 1)
	send(x.message(start, 1, fields{num("observationDomainId", 1), {"observationDomainName", "aramis"}}))
	send(x.message(start, 0, measuredLoss(), measuredDelay().without("observationTimeNanoseconds"), measuredDelay().with(num("pmDelayJitterNanoseconds", 9))))
	m := record.Measurement{
		Time: instant.Of(start.Add(10 * time.Second)), Node: "aramis", Flow: "blue", FlowID: 7, Scope: record.WholeWay, From: 1, To: 3,
		Block: record.NewField[uint64](42, true), Start: instant.Of(start), Length: 1000,
	}
	undated := m
	undated.Time = instant.Of(start) // that of the message
	known := func(n uint64) record.Field[uint64] { return record.NewField(n, true) }
	want := []record.Record{
		&record.Loss{Measurement: m, Verdict: loss.Measured, Sent: known(100), Received: known(75), Lost: known(25), Duplicated: known(0), Ratio: record.NewField(0.25, true)},
		&record.Delay{Measurement: undated, Method: loss.TwoWay, Samples: 4, Jitter: record.NewField[uint64](math.MaxUint64, false)},
		&record.Delay{Measurement: m, Method: loss.TwoWay, Samples: 4, Jitter: known(9)},
	}
	if diff := cmp.Diff(want, out.all(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if s := c.Stats(); s.Losses != 1 || s.Delays != 2 || s.Postcards != 0 {
		t.Errorf("%+v", s)
	}
}

func TestImpossibleMeasurements(t *testing.T) {
	for name, tt := range map[string]struct {
		record fields
		want   Fault
	}{
		"lost is not what is missing":    {measuredLoss().with(num("pmLostPacketDeltaCount", 24)), FaultMeasurement},
		"more lost than sent":            {measuredLoss().with(num("pmSentPacketDeltaCount", 24), num("pmReceivedPacketDeltaCount", math.MaxUint64-1)), FaultMeasurement},
		"lost and duplicated":            {measuredLoss().with(num("pmLostPacketDeltaCount", 26), num("pmDuplicatedPacketDeltaCount", 1)), FaultMeasurement},
		"exact without the lost":         {measuredLoss().without("pmLostPacketDeltaCount"), FaultMeasurement},
		"exact without the sent":         {measuredLoss().with(num("pmSentPacketDeltaCount", math.MaxUint64)), FaultMeasurement},
		"uncertain with a loss":          {measuredLoss().with(num("pmVerdict", 1)), FaultMeasurement},
		"no verdict of ours":             {measuredLoss().with(num("pmVerdict", 4)), FaultValue},
		"no scope of ours":               {measuredLoss().with(num("pmScope", 3)), FaultValue},
		"loss a day from its message":    {measuredLoss().with(field{"observationTimeNanoseconds", start.Add(25 * time.Hour)}), FaultTime},
		"delay of nothing":               {measuredDelay().without("pmDelaySampleDeltaCount"), FaultMeasurement},
		"no method of ours":              {measuredDelay().with(num("pmDelayMethod", 5)), FaultValue},
		"delay two days before it":       {measuredDelay().with(field{"observationTimeNanoseconds", start.Add(-48 * time.Hour)}), FaultTime},
		"minimum greater than the mean":  {append(measuredDelay(), field{"pmDelayMinNanoseconds", int64(2)}, field{"pmDelayMeanNanoseconds", int64(1)}, field{"pmDelayP95Nanoseconds", int64(3)}), FaultMeasurement},
		"minimum greater than the share": {append(measuredDelay(), field{"pmDelayMinNanoseconds", int64(2)}, field{"pmDelayMeanNanoseconds", int64(3)}, field{"pmDelayP95Nanoseconds", int64(1)}), FaultMeasurement},
	} {
		c, out, send := offline(t, Config{}, ipfix.UDP)
		send(newExporter(t, ipfix.UDP, 1).message(start, 0, tt.record))
		if s := c.Stats(); s.Faults[tt.want] != 1 || len(out.all()) != 0 || s.Losses+s.Delays != 0 {
			t.Errorf("%s: %v, %d records", name, s.Faults, len(out.all()))
		}
	}
}
