// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"syscall"

	"github.com/waymark-net/waymark/internal/lossquery"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/internal/stamp/query"
)

// lossQueries asks by loss queries of TWAMP Light. The port from which a query comes says
// which flow it means.
type lossQueries struct {
	meter   *LossMeter
	clients map[uint16]*query.Client
	failed  error // why no port can be opened for questions about this block
}

func newLossQueries(m *LossMeter) exchange {
	return &lossQueries{meter: m, clients: make(map[uint16]*query.Client)}
}

// client opens the port of a flow's session once. Without it, no node can be asked about this
// flow; the next block tries again.
func (l *lossQueries) client(f *model.MeasuredFlow) *query.Client {
	c := l.clients[f.Session]
	if c != nil {
		return c
	}
	if l.failed != nil {
		l.meter.unasked[f.Name] = l.failed
		return nil
	}
	c, err := query.Open(query.NewLossQueries(), f.Session, &l.meter.replies)
	if err != nil {
		err = fmt.Errorf("queries come from port %d, the flow's session: %w", f.Session, err)
		l.meter.unasked[f.Name] = err
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) {
			l.failed = err
			l.close() // as without descriptors: leaves them to the rest of the agent
		}
		return nil
	}
	delete(l.meter.unasked, f.Name)
	l.clients[f.Session] = c
	return c
}

func (l *lossQueries) close() {
	for _, c := range l.clients {
		c.Close()
	}
	clear(l.clients)
}

// names: by eight bits, of which 0 and 1 mean the latest block of a colour.
func (l *lossQueries) names(block uint64) bool { return uint8(block) > 1 }

func (l *lossQueries) questions(b *closedBlock) []*asked {
	l.failed = nil
	return l.meter.each(b, func(f *model.MeasuredFlow, q *asked) {
		if q.client = l.client(f); q.client == nil {
			return
		}
		sent := lossquery.Count{Value: b.counts[f.Name].Packets, Extended: true, Block: uint8(b.number)}
		control := lossquery.OutOfBand
		if asksInBand(f, q) {
			control = lossquery.InBand
		}
		q.Value = lossquery.Query{Transmitted: sent, Control: control}.Append(nil)
	})
}

func (l *lossQueries) acceptAnswer(q *asked) (final bool) {
	r, err := lossquery.DecodeResponse(q.Answer)
	switch {
	case err != nil:
		l.meter.countAnswer(answerMalformed, 1)
		return false
	case r.Control != lossquery.Success:
		l.meter.countAnswer(answerRefused, 1)
		return false // it may be too early; the message does not say why
	}
	l.meter.countAnswer(answerCounters, 1)
	l.meter.add(q.block, q.flows[0], q.points[0], packets(r.Received, q.block.measurement))
	return true
}

// packets is an answer with a number of packets alone. A node gives one only if it trusts the number.
func packets(n uint64, how model.Measurement) answered {
	return answered{Counters: blocks.Counters{Packets: n, Unsized: 1, Complete: true}, known: true, clock: assumedClock(how)}
}

// lossMessages asks by Loss Measurement messages of RFC 6374, whose counters run on.
type lossMessages struct {
	meter  *LossMeter
	client *query.Client
	before map[flowPoint]runningCount
}

// sourceTo finds the source of packets to an address. Each reason why there is none is logged
// once until there is another one.
func sourceTo(log *slog.Logger, system System) query.SourceTo {
	logged := ""
	return func(to netip.Addr) (netip.Addr, error) {
		a, err := system.SourceTo(to)
		if err != nil && err.Error() != logged {
			logged = err.Error()
			log.Warn("another node cannot be asked", "error", err)
		}
		return a, err
	}
}

func openLossMessages(m *LossMeter) (exchange, error) {
	client, err := query.Open(query.NewLossMessages(sourceTo(m.d.Log, m.d.System)), 0, &m.replies)
	if err != nil {
		return nil, err
	}
	return &lossMessages{m, client, make(map[flowPoint]runningCount)}, nil
}

func (l *lossMessages) close() { l.client.Close() }

// names: messages have the time at which they leave.
func (l *lossMessages) names(uint64) bool { return false }

func (l *lossMessages) questions(b *closedBlock) []*asked {
	return l.meter.each(b, func(f *model.MeasuredFlow, q *asked) {
		q.client = l.client
		m := rfc6374.Loss{Header: rfc6374.Header{Control: rfc6374.OutOfBandRequested, Session: rfc6374.SessionID(f.Session)}, Extended: true}
		if asksInBand(f, q) {
			m.Control = rfc6374.InBandRequested
		}
		m.Counters[0] = b.sums[f.Name]
		q.Value = m.Append(nil)
	})
}

// acceptAnswer takes a running counter. Its growth since the block before is what was received in
// this one.
func (l *lossMessages) acceptAnswer(q *asked) (final bool) {
	b := q.block
	m, err := rfc6374.DecodeLoss(q.Answer)
	if err != nil {
		l.meter.countAnswer(answerMalformed, 1)
		return false
	}
	said := answerFromCode(m.Control)
	l.meter.countAnswer(said, 1)
	switch {
	case said == answerNotYet:
		return false
	case m.Control != rfc6374.Success:
		return true // its counters "MUST NOT be used" (RFC 6374 §4.2.5)
	}
	at := flowPoint{q.flows[0].Name, q.points[0]}
	before, ok := l.before[at]
	l.before[at] = runningCount{b.number, m.Counters[3]}
	a := packets(m.Counters[3]-before.packets, b.measurement)
	if !m.Extended {
		a.Packets &= 0xffffffff
	}
	if a.known = ok && before.block+1 == b.number; !a.known {
		a.Packets = 0
	}
	l.meter.add(b, q.flows[0], q.points[0], a)
	return true
}

// asksInBand reports whether the answer to an in-band question is to travel in-band, too: the
// configured way back begins at the last point.
func asksInBand(f *model.MeasuredFlow, q *asked) bool {
	return q.Path != nil && len(f.Return) > 0 && q.isToLast()
}

// each makes a question for each flow and point, if it can be asked: set gives it a client.
func (m *LossMeter) each(b *closedBlock, set func(*model.MeasuredFlow, *asked)) (list []*asked) {
	for i := range b.measurement.Flows {
		f := &b.measurement.Flows[i]
		for point, peer := range f.Points {
			q := &asked{
				Question: query.Question{Peer: peer, Session: f.Session},
				block:    b,
				flows:    []*model.MeasuredFlow{f},
				points:   []int{point + 1},
			}
			m.way(q, f, point)
			if set(f, q); q.client != nil {
				list = append(list, q)
			}
		}
	}
	return list
}
