// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"net/netip"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/internal/stamp/query"
	"github.com/waymark-net/waymark/stamp"
)

// answerSelections fills another node's question about selections in place. False: it is none.
func (m *Blocks) answerSelections(value []byte) bool {
	q, err := blocks.DecodeSelections(value)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.malformed++
		return false
	}
	a, state := m.answersFor(q.Block, q.Length)
	if state == blocks.OtherLength { // what is selected is known, and that blocks differ
		a, q.Length = &m.recent[0], m.recent[0].length
	}
	for i := range q.Entries {
		e := &q.Entries[i]
		e.State, e.Selection = state, loss.Selection{}
		if a != nil {
			if c, ok := a.flows[e.Flow]; ok {
				e.Selection = c.Selection
			} else {
				e.State = blocks.UnknownFlow
			}
		}
		m.selectionQuestions[e.State]++
	}
	q.Append(value[:0])
	return true
}

var descSelectionQuestions = service.Metric(
	"selection_questions_total",
	"Flows of which other nodes asked by STAMP which packets they select here, by what they were told.",
	"answer",
)

// collectSelections is called with m.mu held.
func (m *Blocks) collectSelections(g *metrics.Gatherer) {
	for s := blocks.Answered; s < blocks.NumStates; s++ {
		g.Add(descSelectionQuestions, float64(m.selectionQuestions[s]), s.String())
	}
}

// selectionsOf is the question what the point selects for the flows of another question.
func selectionsOf(q *asked) []byte {
	message := blocks.Selections{Length: q.block.measurement.Block, Block: q.block.number}
	for _, f := range q.flows {
		message.Entries = append(message.Entries, blocks.Selected{Flow: blocks.KeyOf(f.Name)})
	}
	return message.Append(nil)
}

// takeSelections takes what an answer by STAMP says of the packets that the point selects. False:
// it must be asked again.
func (m *LossMeter) takeSelections(q *asked) (final bool) {
	for t, err := range stamp.TLVs(q.Answer) {
		if err != nil || t.Flags() != 0 || t.Type() != blocks.SelectionsType {
			continue
		}
		message, err := blocks.DecodeSelections(t.Value())
		if err != nil || message.Block != q.block.number || len(message.Entries) != len(q.flows) {
			m.countAnswer(answerMalformed, len(q.flows))
			return false
		}
		return m.takeSelected(q, &message)
	}
	m.countAnswer(answerNoSelection, len(q.flows))
	return true
}

func (m *LossMeter) takeSelected(q *asked, message *blocks.Selections) (final bool) {
	final = true
	for i, e := range message.Entries {
		f := q.flows[i]
		switch {
		case e.Flow != blocks.KeyOf(f.Name):
			m.countAnswer(answerMalformed, 1)
			return false
		case e.Selection.Known():
			m.countAnswer(answerSelection, 1)
			m.selects(q.block, f, q.points[i], e.Selection)
		case q.selections: // counters say the rest
			m.countAnswer(answerFromState(e.State), 1)
		}
		final = final && e.State != blocks.NotYet
	}
	return final
}

// selectionQuestions asks by STAMP what other nodes select, for protocols whose messages cannot
// say it.
type selectionQuestions struct {
	meter  *LossMeter
	client *query.Client
}

// stampPort is that of reflectors (RFC 8762).
const stampPort = 862

func openSelectionQuestions(m *LossMeter, key []byte) (*selectionQuestions, error) {
	client, err := query.Open(query.NewStamp(key), 0, &m.replies)
	if err != nil {
		return nil, err
	}
	return &selectionQuestions{m, client}, nil
}

func (s *selectionQuestions) close() { s.client.Close() }

// questions are those of a block, of many flows each. Flows whose points may be silent are asked
// about apart, and once.
func (s *selectionQuestions) questions(b *closedBlock) (list []*asked) {
	type to struct {
		netip.Addr
		optional bool
	}
	open := make(map[to]*asked)
	port := cmp.Or(b.measurement.SelectionPort, stampPort)
	for i := range b.measurement.Flows {
		f := &b.measurement.Flows[i]
		for point, peer := range f.Points {
			at := to{peer.Addr(), f.AssumeSelection}
			q := open[at]
			if q == nil || len(q.flows) == blocks.MostSelections {
				q = &asked{
					Question:   query.Question{Peer: netip.AddrPortFrom(peer.Addr(), port)},
					block:      b,
					client:     s.client,
					selections: true,
					optional:   f.AssumeSelection,
				}
				open[at] = q
				list = append(list, q)
			}
			q.flows, q.points = append(q.flows, f), append(q.points, point+1)
		}
	}
	for _, q := range list {
		q.Value, _ = stamp.AppendTLV(nil, stamp.FlagUnrecognized, blocks.SelectionsType, selectionsOf(q)) // it is not too long
	}
	return list
}

func (s *selectionQuestions) acceptAnswer(q *asked) (final bool) { return s.meter.takeSelections(q) }
