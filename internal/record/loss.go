// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/internal/loss"
)

// Loss is the packet loss of a flow in one block of alternate marking, between two
// points. Null in JSON is what is not known; a loss is known only if the verdict says
// that the counters are exact.
type Loss struct {
	Measurement
	Verdict                                             loss.Verdict
	FromReasons, ToReasons                              loss.Reasons
	Sent, Received, Lost, Duplicated, LostMin           Field[uint64]
	Ratio                                               Field[float64]
	SentBytes, ReceivedBytes, LostBytes, DuplicateBytes Field[uint64]
	Assumed                                             loss.Assumptions // on which the verdict rests
	FromDifference, ToDifference                        string           // with OtherSelection: how the point's packets differ
	Warning                                             string           // code of the threshold that the block is beyond, or ""
}

// NewLoss makes the record of a segment of a result, or of its whole way. m has the time,
// the node, and what is known of the flow besides its number.
func NewLoss(m Measurement, r *loss.Result, s *loss.Segment) *Loss {
	m.of(r, s)
	l := &Loss{
		Measurement:    m,
		Verdict:        s.Verdict,
		FromReasons:    s.From.Reasons,
		ToReasons:      s.To.Reasons,
		Assumed:        s.Assumed,
		FromDifference: s.From.Difference,
		ToDifference:   s.To.Difference,
	}
	l.Sent, l.Received, l.Lost, l.Duplicated = counters4(&s.Packets)
	if s.Packets.LostMin.Known {
		l.LostMin = NewField(s.Packets.LostMin.Value, true)
	}
	l.SentBytes, l.ReceivedBytes, l.LostBytes, l.DuplicateBytes = counters4(&s.Octets)
	l.deriveNumbers()
	return l
}

func counters4(t *loss.Tally) (sent, received, lost, duplicated Field[uint64]) {
	of := func(n loss.Number) Field[uint64] { return NewField(n.Value, n.Known) }
	return of(t.Sent), of(t.Received), of(t.Lost), of(t.Duplicated)
}

// deriveNumbers sets what follows from other fields.
func (l *Loss) deriveNumbers() {
	l.Measurement.omitUnknownSource()
	if l.Verdict == loss.Measured && l.Received.Value > l.Sent.Value && l.Lost.Valid && l.Lost.Value == 0 { // by an earlier version
		l.Verdict, l.Lost, l.LostMin = loss.Duplicated, Field[uint64]{Present: true}, NewField(uint64(0), true)
		l.LostBytes = Field[uint64]{Present: true}
	}
	tally := loss.Tally{
		Sent: loss.Number{Value: l.Sent.Value, Known: l.Sent.Valid},
		Lost: loss.Number{Value: l.Lost.Value, Known: l.Lost.Valid},
	}
	l.Ratio = NewField(tally.Ratio())
}

func (l *Loss) deriveFields(*Reading) { l.deriveNumbers() }

// fault checks that the numbers agree with each other and with the verdict.
func (l *Loss) fault(*Reading) Fault {
	exact, duplicated := l.Verdict.Exact(), l.Verdict == loss.Duplicated
	wrong := unwritable(l.Start) || l.Lost.Valid != exact || l.Duplicated.Valid != (exact || duplicated) ||
		l.LostMin.Valid != duplicated
	if exact || duplicated {
		wrong = wrong || !l.Sent.Valid || !l.Received.Valid
	}
	if exact {
		wrong = wrong || l.Sent.Value-l.Lost.Value != l.Received.Value-l.Duplicated.Value || l.Lost.Value > l.Sent.Value ||
			l.Lost.Value > 0 && l.Duplicated.Value > 0
	}
	if duplicated {
		wrong = wrong || l.Duplicated.Value == 0 || l.LostMin.Value > l.Sent.Value ||
			l.Received.Value > l.Sent.Value && l.Received.Value-l.Sent.Value > l.Duplicated.Value
	}
	if wrong {
		return FaultMeasurement
	}
	return NoFault
}

// NothingSent reports whether the first point is known to have sent nothing since it began to count, so that nothing was
// lost, whatever later points say or do not say.
func (l *Loss) NothingSent() bool {
	return l.Sent.Valid && l.Sent.Value == 0 && l.Received.Value == 0 && l.FromReasons&^loss.Restarted == 0
}

// conditions are those of the flow, and whether there is a bound of the loss.
func (l *Loss) conditions() conditions {
	return l.Measurement.conditions().with(lossBounded, l.LostMin.Valid)
}

func (l *Loss) incomplete() bool { return !l.Verdict.Exact() && l.Verdict != loss.Duplicated }

// Kind is "loss".
func (l *Loss) Kind() string { return KindLoss }

// blockLosses declares the fields of a Loss.
var blockLosses = append(part(measurements, func(l *Loss) *Measurement { return &l.Measurement }), table[*Loss]{
	field(
		"verdict",
		"",
		"`measured`: the counters are exact. `idle`: they are, and there was no packet. "+
			"`duplicated`: they are, and more packets came to a point than were sent, so it is not known how many were lost. "+
			"`uncertain`: there are reasons not to trust them. `no-data`: neither point reported.",
		func(l *Loss) *loss.Verdict { return &l.Verdict },
		word[loss.Verdict](),
	).
		ipfix(sectionHeader, "pmVerdict"),
	field(
		"from_reasons",
		"",
		"Why the counters are uncertain because of the first point: `missing` (it did not report in time), "+
			"`contradicting` (it reported two different counts), "+
			"`restarted` (it began or stopped to count in the block), "+
			"`guard_violated` (packets were later than planned, or counters were read at a wrong time), "+
			"`clock_worse` (the clocks may differ by more than planned), `colour_missing` (packets had no mark), "+
			"`colour_out_of_turn` (packets had a mark that did not fit their time), "+
			"`other_path` (the flow took, or may have taken, a path without the point; only if its counters have no other reason), "+
			"`other_selection` (the point selects other packets than the flow's first one, or does not say which ones), "+
			"`interfaces_changed` (an interface was added, removed or attached anew in the block, or is missing), "+
			"`unserved_interface` (packets passed an interface that the node does not count), "+
			"`not_executed` (the program that counts did not run for all packets), `path_unknown` (packets are missing at the point, "+
			"or too many came after it, and the other points do not tell whether they were lost or duplicated, or took a path without it). "+
			"Absent when there are none.",
		func(l *Loss) *loss.Reasons { return &l.FromReasons },
		reasons(),
	).
		ipfix(sectionHeader, "pmFromReasons"),
	field("to_reasons", "", "The same because of the second point.", func(l *Loss) *loss.Reasons { return &l.ToReasons }, reasons()).
		ipfix(sectionHeader, "pmToReasons"),
	field(
		"sent",
		"packets",
		"Packets of the block counted at the first point; `null` if it did not report.",
		func(l *Loss) *Field[uint64] { return &l.Sent },
		counter(),
	).
		ipfix(sectionHeader, "pmSentPacketDeltaCount"),
	field(
		"received",
		"packets",
		"Packets of the block counted at the second point; `null` if it did not report.",
		func(l *Loss) *Field[uint64] { return &l.Received },
		counter(),
	).
		ipfix(sectionHeader, "pmReceivedPacketDeltaCount"),
	field(
		"lost",
		"packets",
		"Packets that are missing at the second point; `null` unless the verdict is `measured` or `idle`.",
		func(l *Loss) *Field[uint64] { return &l.Lost },
		counter(),
	).
		ipfix(sectionHeader, "pmLostPacketDeltaCount"),
	field(
		"lost_min",
		"packets",
		"With the verdict `duplicated`: the least number of packets that did not come to one of the points: they were lost, "+
			"or took a path without it. Absent with other verdicts.",
		func(l *Loss) *Field[uint64] { return &l.LostMin },
		optional(number[uint64]()),
	).
		ipfix(sectionHeader, "pmLostMinPacketDeltaCount").
		when(lossBounded),
	field(
		"duplicated",
		"packets",
		"Packets by which the second point, or one between, counted more than the first, which is the least number that was duplicated. "+
			"`null` with the verdicts `uncertain` and `no-data`. A duplicate hides a lost packet.",
		func(l *Loss) *Field[uint64] { return &l.Duplicated },
		counter(),
	).
		ipfix(sectionHeader, "pmDuplicatedPacketDeltaCount"),
	field(
		"ratio",
		"",
		"`lost` divided by `sent`; `null` if one is not known, or nothing was sent.",
		func(l *Loss) *Field[float64] { return &l.Ratio },
		optional(fraction()),
	),
	field(
		"sent_bytes",
		"bytes",
		"Bytes of the packets in `sent`; `null` also if a point could not count them exactly.",
		func(l *Loss) *Field[uint64] { return &l.SentBytes },
		counter(),
	).
		ipfix(sectionHeader, "pmSentOctetDeltaCount"),
	field(
		"received_bytes",
		"bytes",
		"Bytes of the packets in `received`; `null` in the same cases.",
		func(l *Loss) *Field[uint64] { return &l.ReceivedBytes },
		counter(),
	).
		ipfix(sectionHeader, "pmReceivedOctetDeltaCount"),
	field(
		"lost_bytes",
		"bytes",
		"Bytes that are missing at the second point; `null` if one of the two is, if it counted more, or if `lost` is.",
		func(l *Loss) *Field[uint64] { return &l.LostBytes },
		counter(),
	).
		ipfix(sectionHeader, "pmLostOctetDeltaCount"),
	field(
		"duplicated_bytes",
		"bytes",
		"Bytes by which the second point counted more than the first; `null` if one of them is not known.",
		func(l *Loss) *Field[uint64] { return &l.DuplicateBytes },
		counter(),
	).
		ipfix(sectionHeader, "pmDuplicatedOctetDeltaCount"),
	field(
		"assumed",
		"",
		"What the verdict rests on without a check, because the configuration says that it is so: `selection`, "+
			"that a point which does not say it selects the same packets. Absent when there is nothing.",
		func(l *Loss) *loss.Assumptions { return &l.Assumed },
		wordSet(loss.AssumptionsNamed),
	).
		ipfix(sectionHeader, "pmAssumptions"),
	field(
		"from_difference",
		"",
		"With `other_selection` of the first point: how the packets that it selects differ, in words that may change. Absent without it. "+
			"Not in IPFIX.",
		func(l *Loss) *string { return &l.FromDifference },
		present(textual()),
	),
	field("to_difference", "", "The same of the second point.", func(l *Loss) *string { return &l.ToDifference }, present(textual())),
	field(
		"warning",
		"",
		"Code of the [warning](warnings.md) of the threshold that the block is beyond: `flow_loss_high`, "+
			"`flow_duplicated` or `flow_unmeasured`; `flow_delay_high` if no record of a delay shows it. Absent without one. Not in IPFIX.",
		func(l *Loss) *string { return &l.Warning },
		present(textual()),
	),
}...)

// Text is the record as readable text: a line for what was measured, and one for the
// result.
func (l *Loss) Text() string {
	var b strings.Builder
	b.WriteString(l.heading("loss") + "\n    " + l.Verdict.String())
	for _, end := range []struct {
		point      loss.PointID
		reasons    loss.Reasons
		difference string
	}{{l.From, l.FromReasons, l.FromDifference}, {l.To, l.ToReasons, l.ToDifference}} {
		if end.reasons != 0 {
			fmt.Fprintf(
				&b,
				", point %d: %s%s",
				end.point,
				strings.ReplaceAll(strings.Join(end.reasons.Names(), " and "), "_", " "),
				inBrackets(end.difference),
			)
		}
	}
	if l.Assumed != 0 {
		b.WriteString(", assumed: " + strings.Join(l.Assumed.Names(), " and "))
	}
	fmt.Fprintf(&b, "  %s sent  %s received  %s lost", amount(l.Sent), amount(l.Received), amount(l.Lost))
	if l.Ratio.Valid {
		fmt.Fprintf(&b, " (%.4g%%)", 100*l.Ratio.Value)
	}
	if l.LostMin.Valid {
		fmt.Fprintf(&b, ", at least %d", l.LostMin.Value)
	}
	if l.Duplicated.Value > 0 {
		fmt.Fprintf(&b, "  at least %d duplicated", l.Duplicated.Value)
	}
	fmt.Fprintf(&b, "  bytes %s, %s, %s", amount(l.SentBytes), amount(l.ReceivedBytes), amount(l.LostBytes))
	b.WriteString(warningText(l.Warning) + "\n")
	return b.String()
}

// warningText is a warning's code after a record's text.
func warningText(code string) string {
	if code == "" {
		return ""
	}
	return "  warning " + Printable(code)
}

// amount is a number, or "-".
func amount(f Field[uint64]) string {
	if !f.Valid {
		return "-"
	}
	return fmt.Sprint(f.Value)
}
