// SPDX-License-Identifier: Apache-2.0

package known

import (
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Verdict is what became of a packet.
type Verdict struct {
	Fate record.PathVerdict
	Next join.Exporter // after the last node, if only one is known; the zero Exporter if not
	// Silent is how many nodes between the last one and a next one reported nothing of other
	// packets: a lost packet may have passed them.
	Silent int
	Doubt  []Doubtful // why the fate is not known
}

// Doubtful is an exporter, or none, and why it leaves the fate unknown.
type Doubtful struct {
	Exporter join.Exporter
	Answer
}

// maxDoubts bounds how many exporters are named.
const maxDoubts = 8

// Question is about a packet that no decapsulating node reported.
type Question struct {
	Key      FlowKey
	Sequence uint32
	Last     Stop          // the last node that reported the packet
	Slack    time.Duration // how much later or earlier than before it may be at the next nodes
}

// LostAfter says whether the packet was lost after its last node: all exporters that are
// known to be after that node must have reported the time of the packet without a gap,
// and one of them must be a decapsulating node.
func LostAfter(q Question, routes *Routes, base *Base) Verdict {
	v := Verdict{Fate: record.PathUnknown}
	doubt := func(e join.Exporter, a Answer) {
		if len(v.Doubt) < maxDoubts {
			v.Doubt = append(v.Doubt, Doubtful{e, a})
		}
	}
	after, all := routes.After(q.Key, q.Last.Exporter)
	next, ends := 0, false
	for _, e := range after {
		if ends = ends || e.End; e.Next {
			v.Next = e.Exporter
			v.Silent = max(v.Silent, e.Silent)
			next++
		}
	}
	if next != 1 {
		v.Next = join.Exporter{}
	}
	switch {
	case q.Last.Time.IsZero():
		doubt(join.Exporter{}, Answer{Doubt: record.DoubtTime})
	case len(after) == 0:
		doubt(join.Exporter{}, Answer{Doubt: record.DoubtNoneAfter})
	case !all:
		doubt(join.Exporter{}, Answer{Doubt: record.DoubtTooMany})
	case !ends:
		doubt(join.Exporter{}, Answer{Doubt: record.DoubtNoEnd})
	default:
		for _, e := range after {
			if a := base.reported(&q, &e); a.Doubt != record.DoubtNone {
				doubt(e.Exporter, a)
			}
		}
		if len(v.Doubt) == 0 {
			v.Fate = record.PathLost
		}
	}
	return v
}

// reported says whether an exporter would have reported the packet, and all that it
// reported came.
func (b *Base) reported(q *Question, e *Expected) Answer {
	from, to := q.Last.Time.Add(e.Least-q.Slack), q.Last.Time.Add(e.Most+q.Slack)
	a := b.Of(e.Exporter, q.Key.Namespace, from, to)
	last, ok := b.last(e.Exporter, q.Key.Namespace)
	switch {
	case a.Doubt != record.DoubtNone || !ok:
		return a
	case e.Seen.IsZero():
		return Answer{Doubt: record.DoubtTime}
	case q.Sequence%last.Sampling != 0:
		return Answer{Doubt: record.DoubtSampled}
	case e.Seen.Before(last.Served):
		return Answer{record.DoubtChanged, last.Served}
	}
	return a
}

// Pair is two nodes, of which the second one reported packets next after the first. The
// zero Exporter is a node that is not known.
type Pair struct {
	Namespace ioam.NamespaceID
	From, To  join.Exporter
}

// Totals are the packets that the first node of a pair reported.
type Totals struct{ Packets, Lost, Unknown uint64 }

// maxPairs bounds how many pairs are counted; the packets of further ones are in one sum.
const maxPairs = 1 << 12

// Pairs counts packets by pair of nodes.
type Pairs struct {
	Of   map[Pair]*Totals
	Rest Totals // of pairs beyond the limit
}

// NewPairs makes Pairs without packets.
func NewPairs() *Pairs { return &Pairs{Of: map[Pair]*Totals{}} }

func (p *Pairs) of(pair Pair) *Totals {
	t := p.Of[pair]
	switch {
	case t != nil:
	case len(p.Of) >= maxPairs:
		t = &p.Rest
	default:
		t = &Totals{}
		p.Of[pair] = t
	}
	return t
}

// Count counts a path: its nodes in order, and what became of it.
func (p *Pairs) Count(ns ioam.NamespaceID, stops []Stop, v Verdict) {
	for i := 1; i < len(stops); i++ {
		p.of(Pair{ns, stops[i-1].Exporter, stops[i].Exporter}).Packets++
	}
	if v.Fate == record.PathArrived {
		return
	}
	t := p.of(Pair{ns, stops[len(stops)-1].Exporter, v.Next})
	if t.Packets++; v.Fate == record.PathLost {
		t.Lost++
	} else {
		t.Unknown++
	}
}
