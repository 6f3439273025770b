// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/internal/stamp/query"
	"github.com/waymark-net/waymark/stamp"
)

// stampExchange asks by STAMP: many flows in a private TLV, or one flow with a session, for
// which a Direct Measurement TLV says the same to other implementations.
type stampExchange struct {
	meter  *LossMeter
	client *query.Client
	others map[flowPoint]runningCount // what other implementations said
}

// flowPoint is a point of a flow.
type flowPoint struct {
	flow  string
	point int
}

// runningCount is a counter that runs on, as it was after a block.
type runningCount struct {
	block   uint64
	packets uint64
}

func openStamp(m *LossMeter, key []byte) (exchange, error) {
	client, err := query.Open(query.NewStamp(key), 0, &m.replies)
	if err != nil {
		return nil, err
	}
	return &stampExchange{meter: m, client: client, others: make(map[flowPoint]runningCount)}, nil
}

func (s *stampExchange) close() { s.client.Close() }

func (s *stampExchange) names(uint64) bool { return true }

// questions are those of a block, of several flows each.
func (s *stampExchange) questions(b *closedBlock) (list []*asked) {
	open := make(map[netip.AddrPort]*asked)
	for i := range b.measurement.Flows {
		f := &b.measurement.Flows[i]
		for point, peer := range f.Points {
			q := open[peer]
			alone := f.Session != 0 || f.Probes.InBand()
			if alone || q == nil || len(q.flows) == blocks.MostTogether {
				q = &asked{Question: query.Question{Peer: peer, Session: f.Session}, block: b, client: s.client}
				list = append(list, q)
				if alone {
					s.meter.way(q, f, point)
				} else {
					open[peer] = q
				}
			}
			q.flows, q.points = append(q.flows, f), append(q.points, point+1)
		}
	}
	for _, q := range list {
		q.Value = s.tlvs(q)
	}
	return list
}

func (s *stampExchange) tlvs(q *asked) (tlvs []byte) {
	b := q.block
	message := blocks.Message{Length: b.measurement.Block, Block: b.number, ClockError: loss.UnknownClock}
	for _, f := range q.flows {
		c := b.counts[f.Name]
		message.Entries = append(message.Entries, blocks.Entry{Flow: blocks.KeyOf(f.Name), Sent: c.Packets, SentBytes: c.Octets})
	}
	add := func(t stamp.Type, value []byte) {
		tlvs, _ = stamp.AppendTLV(tlvs, stamp.FlagUnrecognized, t, value) // none is too long
	}
	if q.Session != 0 {
		add(stamp.TypeDirectMeasurement, stamp.DirectMeasurement{SenderTransmitted: uint32(b.sums[q.flows[0].Name])}.Append(nil))
	}
	add(blocks.Type, message.Append(nil))
	add(blocks.SelectionsType, selectionsOf(q))
	if asksInBand(q.flows[0], q) {
		tlvs = query.AppendReturn(tlvs, q.flows[0].Return)
	}
	return tlvs
}

func (s *stampExchange) acceptAnswer(q *asked) (final bool) {
	direct, counters := false, []byte(nil)
	var count stamp.DirectMeasurement
	s.meter.takeSelections(q)
	for t, err := range stamp.TLVs(q.Answer) {
		switch {
		case err != nil || t.Flags() != 0:
		case t.Type() == stamp.TypeDirectMeasurement:
			count, err = stamp.DecodeDirectMeasurement(t.Value())
			direct = err == nil
		case t.Type() == blocks.Type:
			counters = t.Value()
		}
	}
	if counters != nil {
		return s.takeBlocks(q, counters)
	}
	if !direct || q.Session == 0 || q.again {
		s.meter.countAnswer(answerNothing, len(q.flows))
		return true // the other node does not know our TLV
	}
	s.meter.countAnswer(answerDirect, len(q.flows))
	s.takeDirect(q, count)
	return true
}

// takeBlocks takes the answer of an agent.
func (s *stampExchange) takeBlocks(q *asked, value []byte) (final bool) {
	message, err := blocks.Decode(value)
	switch {
	case err != nil:
		s.meter.countAnswer(answerMalformed, len(q.flows))
		return false
	case !isAbout(&message, q):
		s.meter.countAnswer(answerOther, len(q.flows))
		return false
	}
	final = true
	for i := range message.Entries {
		s.meter.countAnswer(answerFromState(message.Entries[i].State), 1)
		switch e := &message.Entries[i]; e.State {
		case blocks.Answered:
			s.meter.add(q.block, q.flows[i], q.points[i], answered{Counters: e.Counters, known: true, clock: message.ClockError})
		case blocks.NotYet:
			final = false
		}
	}
	return final
}

// isAbout reports whether a message is about the block and the flows of a question.
func isAbout(m *blocks.Message, q *asked) bool {
	if m.Block != q.block.number || m.Length != q.block.measurement.Block || len(m.Entries) != len(q.flows) {
		return false
	}
	for i, f := range q.flows {
		if m.Entries[i].Flow != blocks.KeyOf(f.Name) {
			return false
		}
	}
	return true
}

// takeDirect takes the answer of another implementation. It was counted at another time than
// the block's end, so the block stays uncertain: the numbers are a hint.
func (s *stampExchange) takeDirect(q *asked, count stamp.DirectMeasurement) {
	b, at := q.block, flowPoint{q.flows[0].Name, q.points[0]}
	before, ok := s.others[at]
	s.others[at] = runningCount{b.number, uint64(count.ReflectorReceived)}
	if ok && before.block+1 == b.number {
		grown := loss.Width32.Difference(uint64(count.ReflectorReceived), before.packets)
		s.meter.add(
			b,
			q.flows[0],
			q.points[0],
			answered{Counters: blocks.Counters{Packets: grown, Unsized: 1, Complete: true}, known: true, otherTime: true, clock: loss.UnknownClock},
		)
	}
}
