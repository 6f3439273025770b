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

// blockAnswer is what another node says about a flow's block, in whatever protocol.
type blockAnswer int

const (
	answerCounters    blockAnswer = iota
	answerDirect                  // a counter of Direct Measurement alone: the node does not know our TLV
	answerNotYet                  // the block is not closed there, or its counters are not read yet
	answerGone                    // the counters are no longer there
	answerUnknownFlow             // the flow, or its session, is not known there
	answerOtherLength             // blocks have another length there
	answerRefused                 // an error, or that its counters are not exact
	answerNothing                 // neither counters nor a reason
	answerOther                   // about another block or other flows than was asked
	answerMalformed
	answerSelection   // which packets it selects
	answerNoSelection // an answer that does not say which packets it selects

	numBlockAnswers = iota
)

// String is the name in metrics.
func (t blockAnswer) String() string {
	return [numBlockAnswers]string{"answered", "direct", "not_yet", "gone", "unknown_flow", "other_length", "refused", "nothing",
		"other_block", "malformed", "selection", "no_selection"}[t]
}

// answerByState has the states of our own TLV.
var answerByState = map[blocks.State]blockAnswer{
	blocks.Unanswered: answerNothing, blocks.Answered: answerCounters, blocks.NotYet: answerNotYet, blocks.Gone: answerGone,
	blocks.UnknownFlow: answerUnknownFlow, blocks.OtherLength: answerOtherLength,
}

// answerFromState is what a state says; nodes may send any number.
func answerFromState(s blocks.State) blockAnswer {
	if t, ok := answerByState[s]; ok {
		return t
	}
	return answerMalformed
}

// answerFromCode is what a control code of RFC 6374 says.
func answerFromCode(c rfc6374.ControlCode) blockAnswer {
	switch c {
	case rfc6374.Success:
		return answerCounters
	case rfc6374.TemporarilyUnavailable, rfc6374.Initializing:
		return answerNotYet
	case rfc6374.ConnectionMismatch:
		return answerUnknownFlow
	case rfc6374.ResourceUnavailable:
		return answerGone
	}
	return answerRefused
}

// countAnswer counts the flows that an answer was about.
func (m *LossMeter) countAnswer(t blockAnswer, flows int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers[t] += uint64(flows)
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
	descReplies = service.Metric(
		"measurement_replies_total",
		"Datagrams that reached this node as replies to its questions about measured flows, or to its test packets (to: probes), by outcome.",
		"to",
		"outcome",
	)
	descUnsent = service.Metric(
		"measurement_unsent_total",
		"Questions about measured flows, and test packets (to: probes), that this node could not send, by cause: it has no address "+
			"to send from (no_source), no way through the flow's segments (no_path), or the kernel refused (send_failed).",
		"to",
		"cause",
	)
	descBlockAnswers = service.Metric(
		"block_answers_total",
		"Flows about which this node asked others, by what they said of the block.",
		"answer",
	)
	descReadings = service.Metric(
		"loss_readings_total",
		"Counters of a flow's block, this node's own and those of others, by whether the computation of loss took them.",
		"fate",
	)
	descSkipped  = service.Metric("loss_blocks_skipped_total", "Blocks of flows without a result, because the clock leapt forward.")
	descRestarts = service.Metric("loss_restarts_total", "Flows whose computation of loss began again, because the clock went back.")
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

// collectAnswers adds what became of questions and answers. The caller holds m.mu.
func (m *LossMeter) collectAnswers(g *metrics.Gatherer) {
	collectAsked(g, "questions", &m.replies)
	for t, n := range m.answers {
		g.Add(descBlockAnswers, float64(n), blockAnswer(t).String())
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
	out.Measurement.QuestionReplies, out.Measurement.QuestionsUnsent = service.CountsByName[query.Outcome](
		replies[:],
	), service.CountsByName[query.Cause](
		unsent[:],
	)
	out.Measurement.BlockAnswers = service.CountsByName[blockAnswer](m.answers[:])
	out.Measurement.Readings = service.CountsByName[loss.Fate](m.assembled.Readings[:])
}
