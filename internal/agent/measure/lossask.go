// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/stamp/query"
)

// exchange is a protocol by which other nodes are asked what they counted.
type exchange interface {
	// questions are those about a block.
	questions(*closedBlock) []*asked
	// acceptAnswer uses an answer. False: the question must be asked again.
	acceptAnswer(*asked) (final bool)
	// names reports whether questions about a block name it, and so may be asked later.
	names(block uint64) bool
	close()
}

// asked is a question, and the flows and points that it is about.
type asked struct {
	query.Question
	block  *closedBlock
	again  bool // the block's own time for questions is over
	client *query.Client
	flows  []*model.MeasuredFlow
	points []int // of the flows, numbered along the path
	// selections: it asks what the node selects, and not what it counted; optional: once.
	selections, optional bool
}

// connect opens the exchange again: the key or the protocol may have changed.
func (m *LossMeter) connect(how model.Measurement) (err error) {
	m.disconnect()
	m.key = keyOf(m.d.State.Load())
	key, err := readKey(m.key.file)
	if err != nil {
		return err
	}
	switch how.Exchange {
	case model.ExchangeTWAMPLight:
		m.exchange = newLossQueries(m)
	case model.ExchangeRFC6374:
		m.exchange, err = openLossMessages(m)
	default:
		m.exchange, err = openStamp(m, key)
		return err
	}
	if err == nil {
		m.selectionQuestions, err = openSelectionQuestions(m, key)
	}
	if err != nil {
		m.disconnect()
	}
	return err
}

func (m *LossMeter) disconnect() {
	if m.exchange != nil {
		m.exchange.close()
		m.exchange = nil
	}
	if m.selectionQuestions != nil {
		m.selectionQuestions.close()
		m.selectionQuestions = nil
	}
}

// askAgain is the time after which nodes that had no counters yet are asked again, although
// others have not answered.
const askAgain = time.Second

// askPoints asks all points, until all have answered or the next block is near. Questions that
// were not answered are asked once more, with those of the next block: other nodes can answer
// until then, and an agent that has restarted can say what its programs counted meanwhile.
func (m *LossMeter) askPoints(ctx context.Context, b closedBlock) {
	end := time.Unix(0, int64(b.number+2)*int64(b.measurement.Block)) // one block's time
	open := m.exchange.questions(&b)
	if m.selectionQuestions != nil {
		open = append(open, m.selectionQuestions.questions(&b)...)
	}
	if m.exchange.names(b.number) {
		if soon := time.Now().Add(b.measurement.Block / 4); end.Before(soon) { // this agent has just begun
			end = soon
		}
	}
	open = append(m.earlier(&b), open...)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	// The other nodes read their counters when this one does, by their own clocks.
	for len(open) > 0 && service.Sleep(ctx, min(b.measurement.Guard, b.measurement.Block/8)) {
		m.askOnce(ctx, open)
		open = slices.DeleteFunc(open, func(q *asked) bool { return q.Answer != nil && m.acceptAnswer(q) || q.optional })
	}
	m.pending = open
}

// acceptAnswer uses an answer. False: the question must be asked again.
func (m *LossMeter) acceptAnswer(q *asked) (final bool) {
	if q.selections {
		return m.selectionQuestions.acceptAnswer(q)
	}
	return m.exchange.acceptAnswer(q)
}

// earlier are the open questions about the block before one.
func (m *LossMeter) earlier(b *closedBlock) (list []*asked) {
	for _, q := range m.pending {
		if q.block.number+1 == b.number && m.exchange.names(q.block.number) {
			q.again = true
			list = append(list, q)
		}
	}
	return list
}

// askOnce asks all questions. A question without an answer does not delay the others for long.
func (m *LossMeter) askOnce(ctx context.Context, list []*asked) {
	ctx, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	byClient := make(map[*query.Client][]*query.Question)
	for _, q := range list {
		q.Answer = nil
		byClient[q.client] = append(byClient[q.client], &q.Question)
	}
	var all sync.WaitGroup
	for client, questions := range byClient {
		all.Go(func() { client.Ask(ctx, questions) })
	}
	all.Wait()
	for _, q := range list {
		if q.Path != nil && q.isToLast() {
			m.noPath.recordProblem(m.d.Log, q.flows[0].Name, q.client.Failed())
		}
	}
}

// isToLast reports whether a question about one flow goes to its last point. What is wrong
// with in-band questions is noted for that one: the others' cause is the same.
func (q *asked) isToLast() bool { return q.points[0] == len(q.flows[0].Points) }

// way sets how a question to a point, from 0 on, travels: in-band if the flow's test packets
// do.
func (m *LossMeter) way(q *asked, f *model.MeasuredFlow, point int) {
	if !f.Probes.InBand() {
		return
	}
	path, err := m.paths.to(f, point)
	if err != nil && point == len(f.Points)-1 {
		m.noPath.recordProblem(m.d.Log, f.Name, err)
	}
	q.Path = path // without one, as they are routed
}

// add adds what a point counted of a flow's block.
func (m *LossMeter) add(b *closedBlock, f *model.MeasuredFlow, point int, a answered) {
	m.assembler.Add(reading(m.ids[f.Name], point, int64(b.number), a), time.Now().UnixNano())
}

// selects notes which packets a point counts in a flow's block.
func (m *LossMeter) selects(b *closedBlock, f *model.MeasuredFlow, point int, s loss.Selection) {
	m.assembler.Select(m.ids[f.Name], loss.PointID(point), int64(b.number), s, time.Now().UnixNano())
}
