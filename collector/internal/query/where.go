// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
	"github.com/waymark-net/waymark/ioam"
)

// Condition is an expression on the fields of records, as of waymark collect --where. It is compared with what the
// store keeps of them, outside of the database, so that nothing of it becomes a part of a statement. One question
// uses it.
type Condition struct {
	program *recordfilter.Program
}

// Subject is what conditions of a question are on: records of some kinds, of which fields are kept.
type Subject struct {
	name   string // one of them
	plural string
	fields []string
}

// The subjects. A question about packets is answered from those for which its condition is true, a question about loss
// from blocks of measured flows, and from what edges measured of flows.
var (
	OfPackets = &Subject{"a packet", "packets", []string{
		"kind", "time", "namespace", "flow_id", "sequence", "packet", "complete", "reason", "verdict", "nodes", "delay_ns", "source",
	}}
	OfLosses = &Subject{"a block of a flow", "blocks and flows", append([]string{"kind"}, keysOf(record.KindLoss, record.KindEdgeFlow)...)}
)

// keysOf are the keys of kinds of records of which all fields are kept.
func keysOf(kinds ...string) (list []string) {
	for _, k := range record.Kinds() {
		if !slices.Contains(kinds, k.Name) {
			continue
		}
		for _, c := range k.Columns {
			if c.Key != "" && !slices.Contains(list, c.Key) {
				list = append(list, c.Key)
			}
		}
	}
	return list
}

// NewCondition reads an expression on the fields of a subject. Fields that are not kept are an error.
func NewCondition(of *Subject, text string) (*Condition, error) {
	program, err := recordfilter.Filter{Where: text}.Compile()
	if err != nil {
		return nil, err
	}
	for _, name := range program.Names() {
		if !slices.Contains(of.fields, name) {
			return nil, fmt.Errorf("%s is not kept of %s; kept are %s", name, of.name, strings.Join(of.fields, ", "))
		}
	}
	return &Condition{program}, nil
}

// mostSearched is how many packets are compared with a condition for one question.
const mostSearched = 100_000

// mostSums is how many histograms of delays one question with a condition keeps. They are outside of the memory that the
// database may take, and one can have 8 kB, though most have less than a tenth of it.
const mostSums = 50_000

// searched is how far a search came.
type searched struct {
	of     *Subject
	answer *Answer
	left   int
	sums   int // histograms that are kept
}

func newSearch(of *Subject, a *Answer) *searched {
	return &searched{of: of, answer: a, left: mostSearched}
}

// selects compares a record, of which more fields may be known, with the condition; more is false when enough have been.
func (c *Condition) selects(s *searched, r record.Record, known map[string]any) (is, more bool) {
	if s.left == 0 {
		s.answer.Cut = newCut("search",
			fmt.Sprintf("only the latest %d %s that the other parameters select were compared with the condition", mostSearched, s.of.plural),
			"")
		return false, false
	}
	if s.sums >= mostSums {
		s.answer.Cut = newCut("search",
			fmt.Sprintf("the latest %d %s that the other parameters select have as many different paths or segments "+
				"as one question keeps, and earlier ones were not compared with the condition", mostSearched-s.left, s.of.plural),
			", or select fewer by where")
		return false, false
	}
	s.left--
	is, err := c.program.MatchWith(r, known)
	if err != nil {
		s.answer.Undecided++
	}
	return is, true
}

// visitWhere calls addPacket for the packets of all files for which a condition is true, the latest first. It says how many
// more histograms it keeps now.
func visitWhere(
	ctx context.Context,
	r *store.Reading,
	seek *PacketsQuestion,
	known *names,
	a *Answer,
	addPacket func(*Packet, *definition) (sums int),
) error {
	search := newSearch(OfPackets, a)
	seek.Limit = mostSearched
	more := true
	for i := len(r.Files) - 1; i >= 0 && more; i-- {
		one := &store.Reading{DB: r.DB, Files: r.Files[i : i+1]}
		err := visitPackets(ctx, one, seek, known, func(p *Packet, d *definition) bool {
			var is bool
			if is, more = seek.Where.selects(search, recordOf(p), shownFields(p)); is {
				search.sums += addPacket(p, d)
			}
			return more
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recordOf is a packet as the record that it was, with what was kept of it.
func recordOf(p *Packet) record.Record {
	of := record.Packet{
		Source: addressIn(
			p.From,
		), Destination: addressIn(p.To), NextHeader: ioam.NextHeader(p.NextHeader), SourcePort: p.SourcePort, DestinationPort: p.DestinationPort,
		FlowLabel: p.FlowLabel, Length: int(p.Length),
	}
	if p.Source != "postcards" {
		t := &record.Trace{Time: p.Time, Namespace: ioam.NamespaceID(p.Namespace), Packet: of, Nodes: []record.NodeData{}}
		if p.Source == "kernel" {
			t.Source = record.SourceKernel
		}
		for i := range p.Nodes {
			d := dataOf(&p.Nodes[i])
			d.NodeName = p.Nodes[i].Name
			t.Nodes = append(t.Nodes, d)
		}
		return t
	}
	r := &record.Path{
		Time:      p.Time,
		Namespace: ioam.NamespaceID(p.Namespace),
		Packet:    of,
		Complete:  p.Reason == record.PathComplete.String(),
		Delay:     p.Delay,
		Nodes:     []record.PathNode{},
	}
	if p.FlowID != nil && p.Sequence != nil {
		r.FlowID, r.Sequence = *p.FlowID, *p.Sequence
	}
	_, _ = r.Reason.UnmarshalText([]byte(p.Reason)), r.Verdict.UnmarshalText([]byte(p.Verdict)) // it was made of one
	for i := range p.Nodes {
		n := &p.Nodes[i]
		into := record.PathNode{Node: n.Name, Exporter: addressIn(n.Exporter), NodeData: dataOf(n), SincePrevious: n.Since}
		_ = into.Role.UnmarshalText([]byte(n.Role)) // it was made of one
		if n.Ingress != nil {
			into.Ingress, into.IngressIfIndex = n.Ingress.Name, model.IfIndex(n.Ingress.Index)
		}
		if n.Egress != nil {
			into.Egress, into.EgressIfIndex = n.Egress.Name, model.IfIndex(n.Egress.Index)
		}
		r.Nodes = append(r.Nodes, into)
	}
	return r
}

// shownFields are the fields that questions show of every packet, though records lack them: a trace says nothing of its
// verdict, and a complete path of its reason.
func shownFields(p *Packet) map[string]any {
	fields := map[string]any{"reason": p.Reason, "verdict": p.Verdict, "complete": p.Reason == record.PathComplete.String()}
	if p.Delay != nil {
		fields["delay_ns"] = int(*p.Delay)
	}
	return fields
}

// dataOf is what a node wrote, as far as it was kept.
func dataOf(n *PacketNode) (d record.NodeData) {
	const mostNarrow = 1<<24 - 1
	switch {
	case n.ID == nil:
	case *n.ID > mostNarrow:
		d.NodeIDWide = record.NewField(ioam.NodeIDWide(*n.ID), true)
	default:
		d.NodeID = record.NewField(ioam.NodeID(*n.ID), true)
	}
	if n.HopLimit != nil {
		d.HopLimit = record.NewField(*n.HopLimit, true)
	}
	if n.Time != nil {
		d.Timestamp = record.NewField(n.Time.Time, true)
	}
	if n.Held != nil {
		d.TransitDelay = record.NewField(*n.Held, true)
	}
	if n.Queue != nil {
		d.QueueDepth = record.NewField(*n.Queue, true)
	}
	return d
}

func addressIn(text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return a
}
