// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
)

// FlowBlocks are the blocks of a measured flow that a warning is about.
type FlowBlocks struct {
	Flow        string
	First, Last time.Time // start of the first and of the last block that are beyond the threshold
	Count       uint      // of these blocks
	Results     string    // where the results of segments are, a clause
}

const blockTime = "2006-01-02T15:04:05.000Z"

// last is the block that the numbers are of.
func (b FlowBlocks) last() string { return "in the block from " + b.Last.UTC().Format(blockTime) }

// since is when it began, as the end of a text; "" if the block is the first one.
func (b FlowBlocks) since() string {
	if b.Count < 2 {
		return ""
	}
	return fmt.Sprintf("; so were %d blocks since the one from %s", b.Count, b.First.UTC().Format(blockTime))
}

// FlowLoss warns of a flow that loses more than its threshold allows; where is the
// segment that loses most. With duplicates, lost is how many packets are missing at least.
func FlowLoss(b FlowBlocks, lost, sent uint64, duplicates bool, limit, where string) Warning {
	atLeast := ""
	if duplicates {
		atLeast = "at least "
	}
	return New(
		FlowLossHigh,
		"",
		fmt.Sprintf(
			"flow %s lost %s%d of %d packets (%.4g%%) %s, more than max-loss: %s; %s%s",
			b.Flow,
			atLeast,
			lost,
			sent,
			100*float64(lost)/float64(max(sent, 1)),
			b.last(),
			limit,
			where,
			b.since(),
		),
		fmt.Sprintf("look for the cause there (%s), or raise max-loss", b.Results),
	)
}

// FlowDuplicates warns of a flow of which more packets came than were sent; where is the
// segment with most of them.
func FlowDuplicates(b FlowBlocks, sent, duplicated uint64, where string) Warning {
	return New(
		FlowDuplicated,
		"",
		fmt.Sprintf(
			"at least %d packets of flow %s came twice %s, in which %d were sent, so it is not known how many of these were lost; %s%s",
			duplicated,
			b.Flow,
			b.last(),
			sent,
			where,
			b.since(),
		),
		fmt.Sprintf("look there for what sends packets twice, such as a loop of bridges or a mirrored port (%s)", b.Results),
	)
}

// Slowness is how long packets took on a part of a flow's way.
type Slowness struct {
	Delay   time.Duration
	AtLeast bool          // the mean is not known, but it is no less
	Tested  bool          // of test packets
	Part    string        // such as "between A and B"; "" is the whole way
	Clocks  time.Duration // how far the clocks of both ends may be apart
}

// FlowDelay warns of a flow that takes longer than its threshold allows.
func FlowDelay(b FlowBlocks, s Slowness, limit string) Warning {
	what, took := "packets", fmt.Sprint(s.Delay)
	if s.Tested {
		what = "test packets"
	}
	if s.AtLeast {
		took = "at least " + took
	}
	if s.Part != "" {
		took += " " + s.Part + " alone"
	}
	return New(
		FlowDelayHigh,
		"",
		fmt.Sprintf(
			"%s of flow %s took %s on average %s, more than max-delay: %s; the clocks of both ends differ by up to %v%s",
			what,
			b.Flow,
			took,
			b.last(),
			limit,
			s.Clocks,
			b.since(),
		),
		fmt.Sprintf("look for full queues and longer ways (%s), or raise max-delay", b.Results),
	)
}

// indistinct warns of flows that the responder of TWAMP Light cannot tell apart.
func indistinct(flows []string) Warning {
	return New(
		SessionMissing,
		"",
		fmt.Sprintf(
			"the responder of twamp-light answers about none of the %d flows, such as %s: none has a session, and loss queries carry no name",
			len(flows),
			flows[0],
		),
		"give session: 1206 to the flow that queries from port 1206 mean, and others their own number; or remove the responder",
	)
}

// unmeasuredCures are for the reasons of uncertain blocks, the likeliest first.
var unmeasuredCures = []struct{ reason, cure string }{
	{"missing", "ping that node; if it answers, check there whether the agent runs, has a flow of this name and block length, and allows this node's address (stamp.allow, key-file)"},
	{"other_selection", "compare 'waymark flow show' of that node and this one, and the flows that take packets from it; the warning selections_differ says how they differ"},
	{"not_executed", "on that node, see 'waymark doctor': another program stands before Waymark's, or removed it"},
	{"unserved_interface", "on that node, list under interfaces the one that 'waymark doctor' names there, or route the flow by another"},
	{"interfaces_changed", "on that node, see 'waymark doctor': give it the interface that is missing, or remove that from its file; after a change, the next block is measured"},
	{"restarted", "wait for a block without a restart; if there is none, see that node's log"},
	{"clock_worse", "synchronise that node's clock, or set measurement.clock-error if you know better"},
	{"guard_violated", "set a longer measurement.guard, and block, at all nodes"},
	{"contradicting", "look whether two nodes answer at that address"},
	{"colour_out_of_turn", "compare the clocks of both nodes, and the values of the mark at both (measurement.mask, even, odd)"},
	{"colour_missing", "find the node before it that changes the marked bits, or mark others (measurement.mask)"},
	{"other_path", "list the nodes that the flow passes in points, and no others"},
	{"path_unknown", "correct first what is wrong with other nodes' counters or clocks, or what sends packets twice"},
}

// FlowNotMeasured warns of a flow whose loss has not been known for some blocks. ends are
// the nodes at fault, each with its reasons, and reasons are all of them. cannotAsk, if
// there is any, is why no node can be asked, and then the cause of it all.
func FlowNotMeasured(b FlowBlocks, ends, reasons []string, cannotAsk error) Warning {
	why, cure := strings.Join(ends, "; "), fmt.Sprintf("see 'waymark loss --flow %s', and the log", b.Flow)
	if why == "" || cannotAsk != nil {
		text, own := problem.Of(cannotAsk)
		why, cure = strings.TrimSuffix("other nodes cannot be asked: "+text, ": "), cmp.Or(own, cure)
	}
	at := slices.IndexFunc(unmeasuredCures, func(c struct{ reason, cure string }) bool { return slices.Contains(reasons, c.reason) })
	if at >= 0 && cannotAsk == nil {
		cure = unmeasuredCures[at].cure
	}
	return New(
		FlowUnmeasured,
		"",
		fmt.Sprintf(
			"the loss of flow %s has not been known for %d blocks, since the one from %s; %s: %s",
			b.Flow,
			b.Count,
			b.First.UTC().Format(blockTime),
			b.last(),
			why,
		),
		cure,
	)
}

// FurtherFlows warns of flows for which there is no warning of their own.
func FurtherFlows(code Code, flows int) Warning {
	return New(code, "", fmt.Sprintf("the same of %d further flows", flows), "list them with: waymark loss")
}
