// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// FlowBlock is the block of a measured flow that a warning is about.
type FlowBlock struct {
	Flow    string
	Start   time.Time
	Results string // where the results of segments are, a clause
}

func (b FlowBlock) from() string {
	return "in the block from " + b.Start.UTC().Format("2006-01-02T15:04:05.000Z")
}

// FlowLoss warns of a flow that loses more than its threshold allows; where is the
// segment that loses most.
func FlowLoss(b FlowBlock, lost, sent uint64, limit, where string) Warning {
	return New(FlowLossHigh, "",
		fmt.Sprintf("flow %s lost %d of %d packets (%.4g%%) %s, more than max-loss: %s; %s", b.Flow, lost, sent, 100*float64(lost)/float64(max(sent, 1)), b.from(), limit, where),
		fmt.Sprintf("look for the cause there (%s), or raise max-loss", b.Results))
}

// FlowDelay warns of a flow that takes longer than its threshold allows; clocks is how far
// the clocks of both ends may be apart.
func FlowDelay(b FlowBlock, delay, clocks time.Duration, limit string) Warning {
	return New(FlowDelayHigh, "",
		fmt.Sprintf("packets of flow %s took %v on average %s, more than max-delay: %s; the clocks of both ends differ by up to %v", b.Flow, delay, b.from(), limit, clocks),
		fmt.Sprintf("look for full queues and longer ways (%s), or raise max-delay", b.Results))
}

// indistinct warns of flows that the responder of TWAMP Light cannot tell apart.
func indistinct(flows []string) Warning {
	return New(SessionMissing, "",
		fmt.Sprintf("the responder of twamp-light answers about none of the %d flows, such as %s: none has a session, and loss queries carry no name", len(flows), flows[0]),
		"give session: 1206 to the flow that queries from port 1206 mean, and others their own number; or remove the responder")
}

// unmeasuredCures are for the reasons of uncertain blocks, the likeliest first.
var unmeasuredCures = []struct{ reason, cure string }{
	{"missing", "ping that node; if it answers, check there whether the agent runs, has a flow of this name and block length, and allows this node's address (stamp.allow, key-file)"},
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
}

// FlowNotMeasured warns of a flow whose loss has not been known for some blocks. ends are
// the nodes at fault, each with its reasons, and reasons are all of them. blind, if
// there is any, is why no node can be asked, and then the cause of it all.
func FlowNotMeasured(b FlowBlock, blocks uint, ends, reasons []string, blind string) Warning {
	why, cure := strings.Join(ends, "; "), fmt.Sprintf("see 'waymark loss --flow %s', and the log", b.Flow)
	if why == "" || blind != "" {
		problem, own, _ := strings.Cut(blind, "; ")
		why, cure = strings.TrimSuffix("other nodes cannot be asked: "+problem, ": "), cmp.Or(own, cure)
	}
	at := slices.IndexFunc(unmeasuredCures, func(c struct{ reason, cure string }) bool { return slices.Contains(reasons, c.reason) })
	if at >= 0 && blind == "" {
		cure = unmeasuredCures[at].cure
	}
	return New(FlowUnmeasured, "", fmt.Sprintf("the loss of flow %s has not been known for %d blocks; %s: %s", b.Flow, blocks, b.from(), why), cure)
}

// FurtherFlows warns of flows for which there is no warning of their own.
func FurtherFlows(code Code, flows int) Warning {
	return New(code, "", fmt.Sprintf("the same of %d further flows", flows), "list them with: waymark loss")
}
