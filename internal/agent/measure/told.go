// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/internal/stamp/query"
)

// told is what another node says about a flow's block, in whatever protocol.
type told int

const (
	toldCounters    told = iota
	toldDirect           // a counter of Direct Measurement alone: the node does not know our TLV
	toldNotYet           // the block is not closed there, or its counters are not read yet
	toldGone             // the counters are no longer there
	toldUnknownFlow      // the flow, or its session, is not known there
	toldOtherLength      // blocks have another length there
	toldRefused          // an error, or that its counters are not exact
	toldNothing          // neither counters nor a reason
	toldOther            // about another block or other flows than was asked
	toldMalformed
	toldSelection   // which packets it selects
	toldNoSelection // an answer that does not say which packets it selects

	numTold = iota
)

// String is the name in metrics.
func (t told) String() string {
	return [numTold]string{"answered", "direct", "not_yet", "gone", "unknown_flow", "other_length", "refused", "nothing", "other_block", "malformed", "selection", "no_selection"}[t]
}

// toldBy are the states of our own TLV.
var toldBy = map[blocks.State]told{
	blocks.Unanswered: toldNothing, blocks.Answered: toldCounters, blocks.NotYet: toldNotYet, blocks.Gone: toldGone,
	blocks.UnknownFlow: toldUnknownFlow, blocks.OtherLength: toldOtherLength,
}

// toldInState is what a state says; nodes may send any number.
func toldInState(s blocks.State) told {
	if t, ok := toldBy[s]; ok {
		return t
	}
	return toldMalformed
}

// toldInCode is what a control code of RFC 6374 says.
func toldInCode(c rfc6374.ControlCode) told {
	switch c {
	case rfc6374.Success:
		return toldCounters
	case rfc6374.TemporarilyUnavailable, rfc6374.Initializing:
		return toldNotYet
	case rfc6374.ConnectionMismatch:
		return toldUnknownFlow
	case rfc6374.ResourceUnavailable:
		return toldGone
	}
	return toldRefused
}

// note counts what was said about so many flows.
func (m *LossMeter) note(t told, flows int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told[t] += uint64(flows)
}

// countAssembled notes the counters of all assemblers until now.
func (m *LossMeter) countAssembled() {
	total := m.ended
	if m.assembler != nil {
		total = total.Plus(m.assembler.Counters())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.assembled = total
}

var (
	descReplies      = service.Metric("measurement_replies_total", "Datagrams that reached this node as replies to its questions about measured flows, or to its test packets (to: probes), by outcome.", "to", "outcome")
	descUnsent       = service.Metric("measurement_unsent_total", "Questions about measured flows, and test packets (to: probes), that this node could not send, by cause: it has no address to send from (no_source), no way through the flow's segments (no_path), or the kernel refused (send_failed).", "to", "cause")
	descBlockAnswers = service.Metric("block_answers_total", "Flows about which this node asked others, by what they said of the block.", "answer")
	descReadings     = service.Metric("loss_readings_total", "Counters of a flow's block, this node's own and those of others, by whether the computation of loss took them.", "fate")
	descSkipped      = service.Metric("loss_blocks_skipped_total", "Blocks of flows without a result, because the clock leapt forward.")
	descRestarts     = service.Metric("loss_restarts_total", "Flows whose computation of loss began again, because the clock went back.")
)

// collectAsked adds what became of questions, or of test packets.
func collectAsked(g *metrics.Gatherer, to string, c *query.Counters) {
	for o, n := range c.Counts() {
		g.Add(descReplies, float64(n), to, query.Outcome(o).String())
	}
	for why, n := range c.Unsent() {
		g.Add(descUnsent, float64(n), to, query.Cause(why).String())
	}
}

// collectTold adds what became of questions and answers. The caller holds m.mu.
func (m *LossMeter) collectTold(g *metrics.Gatherer) {
	collectAsked(g, "questions", &m.replies)
	for t, n := range m.told {
		g.Add(descBlockAnswers, float64(n), told(t).String())
	}
	for f, n := range m.assembled.Readings {
		g.Add(descReadings, float64(n), loss.Fate(f).String())
	}
	g.Add(descSkipped, float64(m.assembled.Skipped))
	g.Add(descRestarts, float64(m.assembled.Restarts))
}

func (m *LossMeter) Report(_ *service.State, out *api.Status) {
	replies, unsent := m.replies.Counts(), m.replies.Unsent()
	m.mu.Lock()
	defer m.mu.Unlock()
	out.Measurement.QuestionReplies, out.Measurement.QuestionsUnsent = service.CountsByName[query.Outcome](replies[:]), service.CountsByName[query.Cause](unsent[:])
	out.Measurement.BlockAnswers = service.CountsByName[told](m.told[:])
	out.Measurement.Readings = service.CountsByName[loss.Fate](m.assembled.Readings[:])
}
