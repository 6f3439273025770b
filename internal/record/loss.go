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
	Sent, Received, Lost, Duplicated                    Field[uint64]
	Ratio                                               Field[float64]
	SentBytes, ReceivedBytes, LostBytes, DuplicateBytes Field[uint64]
	Warning                                             string // code of the threshold that the block is beyond, or ""
}

// NewLoss makes the record of a segment of a result, or of its whole way. m has the time,
// the node, and what is known of the flow besides its number.
func NewLoss(m Measurement, r *loss.Result, s *loss.Segment) *Loss {
	m.of(r, s)
	l := &Loss{Measurement: m, Verdict: s.Verdict, FromReasons: s.From.Reasons, ToReasons: s.To.Reasons}
	l.Sent, l.Received, l.Lost, l.Duplicated = counters4(&s.Packets)
	l.SentBytes, l.ReceivedBytes, l.LostBytes, l.DuplicateBytes = counters4(&s.Octets)
	l.settle()
	return l
}

func counters4(t *loss.Tally) (sent, received, lost, duplicated Field[uint64]) {
	of := func(n loss.Number) Field[uint64] { return NewField(n.Value, n.Known) }
	return of(t.Sent), of(t.Received), of(t.Lost), of(t.Duplicated)
}

// settle sets what follows from other fields.
func (l *Loss) settle() {
	l.Measurement.settle()
	tally := loss.Tally{Sent: loss.Number{Value: l.Sent.Value, Known: l.Sent.Valid}, Lost: loss.Number{Value: l.Lost.Value, Known: l.Lost.Valid}}
	l.Ratio = NewField(tally.Ratio())
}

// Kind is "loss".
func (l *Loss) Kind() string { return KindLoss }

// blockLosses declares the fields of a Loss.
var blockLosses = append(part(measurements, func(l *Loss) *Measurement { return &l.Measurement }), table[Loss]{
	field("verdict", "", "`measured`: the counters are exact. `idle`: they are, and there was no packet. `uncertain`: there are reasons not to trust them. `no-data`: neither point reported.",
		func(l *Loss) *loss.Verdict { return &l.Verdict }, word[loss.Verdict]()).
		ipfix(sectionHeader, "pmVerdict"),
	field("from_reasons", "", "Why the counters are uncertain because of the first point: `missing` (it did not report in time), `contradicting` (it reported two different counts), "+
		"`restarted` (it began or stopped to count in the block), `guard_violated` (packets were later than planned, or counters were read at a wrong time), "+
		"`clock_worse` (the clocks may differ by more than planned), `colour_missing` (packets had no mark), `colour_out_of_turn` (packets had a mark that did not fit their time), "+
		"`other_path` (the flow took, or may have taken, a path without the point; only if its counters have no other reason), "+
		"`interfaces_changed` (an interface was added, removed or attached anew in the block, or is missing), `unserved_interface` (packets passed an interface that the node does not count), "+
		"`not_executed` (the program that counts did not run for all packets). Absent when there are none.",
		func(l *Loss) *loss.Reasons { return &l.FromReasons }, reasons()).
		ipfix(sectionHeader, "pmFromReasons"),
	field("to_reasons", "", "The same because of the second point.", func(l *Loss) *loss.Reasons { return &l.ToReasons }, reasons()).
		ipfix(sectionHeader, "pmToReasons"),
	field("sent", "packets", "Packets of the block counted at the first point; `null` if it did not report.", func(l *Loss) *Field[uint64] { return &l.Sent }, counter()).
		ipfix(sectionHeader, "pmSentPacketDeltaCount"),
	field("received", "packets", "Packets of the block counted at the second point; `null` if it did not report.", func(l *Loss) *Field[uint64] { return &l.Received }, counter()).
		ipfix(sectionHeader, "pmReceivedPacketDeltaCount"),
	field("lost", "packets", "Packets that are missing at the second point; `null` unless the verdict is `measured` or `idle`.", func(l *Loss) *Field[uint64] { return &l.Lost }, counter()).
		ipfix(sectionHeader, "pmLostPacketDeltaCount"),
	field("duplicated", "packets", "Packets by which the second point counted more than the first; `null` as for `lost`. A duplicate hides a lost packet.",
		func(l *Loss) *Field[uint64] { return &l.Duplicated }, counter()).
		ipfix(sectionHeader, "pmDuplicatedPacketDeltaCount"),
	field("ratio", "", "`lost` divided by `sent`; `null` if one is not known, or nothing was sent.", func(l *Loss) *Field[float64] { return &l.Ratio }, optional(plain[float64]("number"))),
	field("sent_bytes", "bytes", "Bytes of the packets in `sent`; `null` also if a point could not count them exactly.", func(l *Loss) *Field[uint64] { return &l.SentBytes }, counter()).
		ipfix(sectionHeader, "pmSentOctetDeltaCount"),
	field("received_bytes", "bytes", "Bytes of the packets in `received`; `null` in the same cases.", func(l *Loss) *Field[uint64] { return &l.ReceivedBytes }, counter()).
		ipfix(sectionHeader, "pmReceivedOctetDeltaCount"),
	field("lost_bytes", "bytes", "Bytes that are missing at the second point; `null` if one of the two is.", func(l *Loss) *Field[uint64] { return &l.LostBytes }, counter()).
		ipfix(sectionHeader, "pmLostOctetDeltaCount"),
	field("duplicated_bytes", "bytes", "Bytes by which the second point counted more than the first.", func(l *Loss) *Field[uint64] { return &l.DuplicateBytes }, counter()).
		ipfix(sectionHeader, "pmDuplicatedOctetDeltaCount"),
	field("warning", "", "Code of the [warning](warnings.md) of the threshold that the block is beyond: `flow_loss_high`, or `flow_unmeasured`. Absent without one. Not in IPFIX.",
		func(l *Loss) *string { return &l.Warning }, present(textual())),
}...)

// Text is the record as readable text: a line for what was measured, and one for the
// result.
func (l *Loss) Text() string {
	var b strings.Builder
	b.WriteString(l.heading("loss") + "\n    " + l.Verdict.String())
	for _, end := range []struct {
		point   loss.PointID
		reasons loss.Reasons
	}{{l.From, l.FromReasons}, {l.To, l.ToReasons}} {
		if end.reasons != 0 {
			fmt.Fprintf(&b, ", point %d: %s", end.point, strings.ReplaceAll(strings.Join(end.reasons.Names(), " and "), "_", " "))
		}
	}
	fmt.Fprintf(&b, "  %s sent  %s received  %s lost", amount(l.Sent), amount(l.Received), amount(l.Lost))
	if l.Ratio.Valid {
		fmt.Fprintf(&b, " (%.4g%%)", 100*l.Ratio.Value)
	}
	if l.Duplicated.Value > 0 {
		fmt.Fprintf(&b, "  %d duplicated", l.Duplicated.Value)
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
