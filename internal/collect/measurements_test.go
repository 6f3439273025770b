// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"math"
	"math/rand/v2"
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
	send(
		x.message(
			start,
			0,
			measuredLoss(),
			measuredDelay().without("observationTimeNanoseconds"),
			measuredDelay().with(num("pmDelayJitterNanoseconds", 9)),
		),
	)
	m := record.Measurement{
		Time: instant.Of(start.Add(10 * time.Second)), Node: "aramis", Flow: "blue", FlowID: 7, Scope: record.WholeWay, From: 1, To: 3,
		Block: record.NewField[uint64](42, true), Start: instant.Of(start), Length: 1000,
	}
	undated := m
	undated.Time = instant.Of(start) // that of the message
	known := func(n uint64) record.Field[uint64] { return record.NewField(n, true) }
	want := []record.Record{
		&record.Loss{
			Measurement: m,
			Verdict:     loss.Measured,
			Sent:        known(100),
			Received:    known(75),
			Lost:        known(25),
			Duplicated:  known(0),
			Ratio:       record.NewField(0.25, true),
		},
		&record.Delay{Measurement: undated, Method: loss.TwoWay, Samples: 4, Jitter: record.NewField[uint64](math.MaxUint64, false)},
		&record.Delay{Measurement: m, Method: loss.TwoWay, Samples: 4, Jitter: known(9)},
	}
	if diff := cmp.Diff(want, out.all(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if s := c.Stats(); s.Data != [record.NumDataKinds]uint64{record.DataLoss: 1, record.DataDelay: 2} {
		t.Errorf("%+v", s)
	}
}

// duplicatedLoss is of a block of which more packets came than were sent.
func duplicatedLoss() fields {
	return append(
		measuredLoss().with(num("pmVerdict", 4), num("pmReceivedPacketDeltaCount", 105), num("pmLostPacketDeltaCount", math.MaxUint64),
			num("pmDuplicatedPacketDeltaCount", 5)),
		num("pmLostMinPacketDeltaCount", 3),
	)
}

// What an earlier version called measured is not, if more came than were sent: how many were
// lost is not known.
func TestDuplicatesOfEarlierVersions(t *testing.T) {
	for name, r := range map[string]fields{
		"now": duplicatedLoss(),
		"earlier": measuredLoss().with(num("pmReceivedPacketDeltaCount", 105), num("pmLostPacketDeltaCount", 0),
			num("pmDuplicatedPacketDeltaCount", 5)),
	} {
		_, out, send := offline(t, Config{}, ipfix.UDP)
		send(newExporter(t, ipfix.UDP, 1).message(start, 0, r))
		list := out.all()
		if len(list) != 1 {
			t.Fatalf("%s: %d records", name, len(list))
		}
		l := list[0].(*record.Loss)
		if l.Verdict != loss.Duplicated || l.Lost.Valid || l.Ratio.Valid || l.Duplicated.Value != 5 || !l.LostMin.Valid || l.LostMin.Value > 3 ||
			l.Received.Value != 105 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func TestImpossibleMeasurements(t *testing.T) {
	for name, tt := range map[string]struct {
		record fields
		want   record.Fault
	}{
		"lost is not what is missing":    {measuredLoss().with(num("pmLostPacketDeltaCount", 24)), record.FaultMeasurement},
		"more lost than sent":            {measuredLoss().with(num("pmSentPacketDeltaCount", 24), num("pmReceivedPacketDeltaCount", math.MaxUint64-1)), record.FaultMeasurement},
		"lost and duplicated":            {measuredLoss().with(num("pmLostPacketDeltaCount", 26), num("pmDuplicatedPacketDeltaCount", 1)), record.FaultMeasurement},
		"exact without the lost":         {measuredLoss().without("pmLostPacketDeltaCount"), record.FaultMeasurement},
		"exact without the sent":         {measuredLoss().with(num("pmSentPacketDeltaCount", math.MaxUint64)), record.FaultMeasurement},
		"uncertain with a loss":          {measuredLoss().with(num("pmVerdict", 1)), record.FaultMeasurement},
		"duplicates with a loss":         {measuredLoss().with(num("pmVerdict", 4)), record.FaultMeasurement},
		"duplicates without a bound":     {duplicatedLoss().without("pmLostMinPacketDeltaCount"), record.FaultMeasurement},
		"no duplicates":                  {duplicatedLoss().with(num("pmDuplicatedPacketDeltaCount", 0)), record.FaultMeasurement},
		"too few duplicates":             {duplicatedLoss().with(num("pmDuplicatedPacketDeltaCount", 4)), record.FaultMeasurement},
		"more lost at least than sent":   {duplicatedLoss().with(num("pmLostMinPacketDeltaCount", 101)), record.FaultMeasurement},
		"no verdict of ours":             {measuredLoss().with(num("pmVerdict", 5)), record.FaultValue},
		"no scope of ours":               {measuredLoss().with(num("pmScope", 3)), record.FaultValue},
		"loss a day from its message":    {measuredLoss().with(field{"observationTimeNanoseconds", start.Add(25 * time.Hour)}), record.FaultTime},
		"delay of nothing":               {measuredDelay().without("pmDelaySampleDeltaCount"), record.FaultMeasurement},
		"no method of ours":              {measuredDelay().with(num("pmDelayMethod", 6)), record.FaultValue},
		"delay two days before it":       {measuredDelay().with(field{"observationTimeNanoseconds", start.Add(-48 * time.Hour)}), record.FaultTime},
		"minimum greater than the mean":  {append(measuredDelay(), field{"pmDelayMinNanoseconds", int64(2)}, field{"pmDelayMeanNanoseconds", int64(1)}, field{"pmDelayP95Nanoseconds", int64(3)}), record.FaultMeasurement},
		"minimum greater than the share": {append(measuredDelay(), field{"pmDelayMinNanoseconds", int64(2)}, field{"pmDelayMeanNanoseconds", int64(3)}, field{"pmDelayP95Nanoseconds", int64(1)}), record.FaultMeasurement},
	} {
		c, out, send := offline(t, Config{}, ipfix.UDP)
		send(newExporter(t, ipfix.UDP, 1).message(start, 0, tt.record))
		if s := c.Stats(); s.Faults[tt.want] != 1 || len(out.all()) != 0 || s.Data != [record.NumDataKinds]uint64{} {
			t.Errorf("%s: %v, %d records", name, s.Faults, len(out.all()))
		}
	}
}

// randomMeasurement is the record of a loss or of a delay, of random readings.
func randomMeasurement(r *rand.Rand, at time.Time) record.Record {
	m := record.Measurement{Time: instant.Of(at), Node: "porthos"}
	if r.IntN(2) == 0 {
		m.Flow, m.Source = "blue", netip.MustParseAddr("2001:db8::1")
		for range 1 + r.IntN(3) {
			m.SIDs = append(m.SIDs, netip.AddrFrom16([16]byte{0x20, 1, 15: byte(r.Uint32())}))
		}
	}
	flow := loss.Flow{
		ID:      loss.FlowID(r.Uint32()),
		Assumed: true,
		Points:  []loss.PointID{1, 2, 3},
		Timing:  loss.Timing{Length: time.Second, ClockDifference: 20 * time.Millisecond, MaxDelay: time.Millisecond},
	}
	reports := make([]loss.Report, 3)
	for i := range reports {
		reports[i].Present, reports[i].Contradicting = r.IntN(4) > 0, r.IntN(10) == 0
		reports[i].Reading = loss.Reading{
			Packets: r.Uint64N(3), Octets: r.Uint64N(1000), UnsureOctets: r.Uint64N(8) / 7, Late: r.Uint64N(8) / 7, Unmarked: r.Uint64N(8) / 7,
			Timed: true, TimeSum: r.Int64() - r.Int64(), ClockError: r.Int64N(11_000_000) - 10,
			DoubleMarked: loss.Marked{Packets: r.Uint64N(2), TimeSum: r.Int64N(1000) - r.Int64N(1000)},
		}
	}
	result := loss.Compute(&flow, flow.Timing.Block(at.UnixNano()), reports)
	segment := append(result.Segments, result.Whole)[r.IntN(3)]
	if delays := record.NewBlockDelays(m, &result, &segment); len(delays) > 0 && r.IntN(2) == 0 {
		return delays[r.IntN(len(delays))]
	}
	if r.IntN(4) == 0 {
		var p loss.Period
		for n := range 1 + r.Uint32N(5) {
			p.AddDelay(loss.RoundTrip, n, time.Duration(r.Int64N(int64(time.Second))), r.Int64N(100)-10, r.Int64N(100))
		}
		m.FlowID, m.Scope, m.From, m.To, m.Start, m.Length = flow.ID, record.WholeWay, 1, 3, m.Time, uint64(time.Second)
		return record.NewDelay(m, &p, loss.RoundTrip)
	}
	return record.NewLoss(m, &result, &segment)
}

// randomBlock is what a point counted, of random counters.
func randomBlock(r *rand.Rand, at time.Time) record.Record {
	b := counted([]string{"", "red"}[r.IntN(2)], at.UnixNano()/int64(blockLength), loss.PointID(r.IntN(3)), 2, r.Uint64())
	b.Time, b.Node, b.Late, b.Flags, b.ClockError = instant.Of(at), "porthos", r.Uint64N(2), loss.Flags(
		r.IntN(8),
	), record.NewField(
		r.Uint64N(9),
		true,
	)
	if r.IntN(2) == 0 {
		b.Source, b.SIDs, b.TimeSum, b.ClockError = netip.Addr{}, nil, record.NewField(
			r.Int64()-r.Int64(),
			true,
		), record.Field[uint64]{
			Present: true,
		}
	}
	return b
}
