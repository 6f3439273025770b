// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
	"github.com/waymark-net/waymark/ioam"
)

// Condition is an expression on the fields of packets. One question uses it.
type Condition struct {
	program *recordfilter.Program
}

// keptFields are the fields of a path or a trace that the store keeps.
var keptFields = []string{"kind", "time", "namespace", "flow_id", "sequence", "packet", "complete", "reason", "verdict", "nodes", "delay_ns", "source"}

// NewCondition reads an expression, as of waymark collect --where. Fields that are not kept are an error.
func NewCondition(text string) (*Condition, error) {
	program, err := recordfilter.Filter{Where: text}.Compile()
	if err != nil {
		return nil, err
	}
	for _, name := range program.Names() {
		if !slices.Contains(keptFields, name) {
			return nil, fmt.Errorf("%s is not kept of a packet; kept are %s", name, strings.Join(keptFields, ", "))
		}
	}
	return &Condition{program}, nil
}

// mostSearched is how many packets are compared with a condition for one question.
const mostSearched = 100_000

// searched is how far a search came.
type searched struct {
	answer *Answer
	left   int
}

func newSearch(a *Answer) *searched { return &searched{a, mostSearched} }

// selects compares a packet with the condition; more is false when enough have been.
func (c *Condition) selects(s *searched, p *Packet) (is, more bool) {
	if s.left == 0 {
		s.answer.Cut = &Cut{"search", fmt.Sprintf("only the latest %d packets that the other parameters select were compared with the condition; ask for less time or fewer addresses", mostSearched)}
		return false, false
	}
	s.left--
	is, err := c.program.Match(recordOf(p))
	if err != nil {
		s.answer.Undecided++
	}
	return is, true
}

// recordOf is a packet as the record that it was, with what was kept of it.
func recordOf(p *Packet) record.Record {
	of := record.Packet{
		Source: addressIn(p.From), Destination: addressIn(p.To), NextHeader: ioam.NextHeader(p.NextHeader), SourcePort: p.SourcePort, DestinationPort: p.DestinationPort,
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
	r := &record.Path{Time: p.Time, Namespace: ioam.NamespaceID(p.Namespace), Packet: of, Complete: p.Reason == record.PathComplete.String(), Delay: p.Delay, Nodes: []record.PathNode{}}
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

// gathered are the packets of one path for which a condition is true.
type gathered struct {
	path  Path
	delay exponential.Delays
	hops  []struct{ held, since exponential.Delays }
}

// add counts a packet.
func (g *gathered) add(p *Packet) {
	one := &g.path
	one.Packets, one.Bytes = one.Packets+1, one.Bytes+uint64(p.Length)
	if p.Reason != record.PathComplete.String() {
		one.Incomplete++
	}
	if p.Verdict == record.PathLost.String() {
		one.Lost++
	}
	if one.First.IsZero() || p.Time.Before(one.First.Time) {
		one.First = p.Time
	}
	if p.Time.After(one.Last.Time) {
		one.Last = p.Time
	}
	if p.Delay != nil {
		if *p.Delay < 0 {
			one.Negative++
		} else {
			g.delay.Add(*p.Delay)
		}
	}
	for i := range p.Nodes[:min(len(p.Nodes), len(g.hops))] {
		n := &p.Nodes[i]
		if n.Held != nil {
			g.hops[i].held.Add(int64(*n.Held))
		}
		if n.Since != nil && *n.Since < 0 {
			one.Hops[i].Negative++
		} else if n.Since != nil {
			g.hops[i].since.Add(*n.Since)
		}
	}
}

// pathsWhere are the paths of packets for which the condition is true.
func pathsWhere(ctx context.Context, r *store.Reading, ask *PathsQuestion, a *Paths) error {
	known, err := namesIn(ctx, r)
	if err != nil {
		return err
	}
	byPath := map[ID]*gathered{}
	search := newSearch(&a.Answer)
	seek := &PacketsQuestion{Range: ask.Range, Flows: ask.Flows, Where: ask.Where, Limit: mostSearched}
	for i := len(r.Files) - 1; i >= 0 && a.Cut == nil; i-- { // the latest first
		one := &store.Reading{DB: r.DB, Files: r.Files[i : i+1]}
		err := visitPackets(ctx, one, seek, known, func(p *Packet, d *definition) bool {
			is, more := ask.Where.selects(search, p)
			if is {
				g := byPath[p.Path]
				if g == nil {
					g = &gathered{path: Path{ID: p.Path, Namespace: d.namespace, Complete: d.complete, Hops: d.describe(known)}}
					g.hops = make([]struct{ held, since exponential.Delays }, len(g.path.Hops))
					byPath[p.Path] = g
				}
				g.add(p)
				a.Packets++
			}
			return more
		})
		if err != nil {
			return err
		}
	}
	list := []*gathered{}
	for _, g := range byPath {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *gathered) int {
		return cmp.Or(cmp.Compare(b.path.Packets, a.path.Packets), cmp.Compare(a.path.ID, b.path.ID))
	})
	if len(list) > ask.Limit {
		list = list[:ask.Limit]
		if a.Cut == nil {
			a.Cut = cutAt(ask.Limit)
		}
	}
	for _, g := range list {
		g.path.Share, g.path.Delay = float64(g.path.Packets)/float64(a.Packets), delaysOf(&g.delay)
		a.Paths = append(a.Paths, g.path)
	}
	sum := newTotals(a.Paths)
	for k, g := range list {
		hops := a.Paths[k].Hops
		for i := range hops {
			hops[i].Held, hops[i].Since = delaysOf(&g.hops[i].held), delaysOf(&g.hops[i].since)
			sum.held(&hops[i], &g.hops[i].held)
			if i > 0 {
				sum.since(&hops[i-1], &g.hops[i].since, hops[i].Negative)
			}
		}
	}
	a.Nodes, a.Segments = sum.list()
	return nil
}
