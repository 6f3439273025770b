// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"
)

// Cures of nodes that do not say what they select, where points are asked and where a collector
// compares them.
const (
	AtIngress = "if a node does not say what it selects, update its agent, or give it stamp: {allow: …} with exchange: " +
		"twamp-light or rfc6374; for a node of another kind, compare by hand and set selection: assumed"
	AtCollector = "if a node does not say what it selects, update its agent; meanwhile, compare by hand and collect with --assume-selection"
)

// SelectionDiffers warns of a flow of which some nodes count other packets than its ingress, or do
// not say which ones; ends are these nodes, each with the difference.
func SelectionDiffers(flow string, ends []string, silent string) Warning {
	return New(
		SelectionsDiffer,
		"",
		fmt.Sprintf(
			"the loss of flow %s is not known: not all nodes are known to select the packets that its ingress selects; %s",
			flow,
			strings.Join(ends, "; "),
		),
		"compare 'waymark flow show' of both nodes, with the flows that select some of its packets by more (dst, tclass, "+
			"flowlabel), and measurement: {block, carrier, mask, even, odd}; "+silent,
	)
}

// SelectionAssumption says whose loss rests on what was not checked.
func SelectionAssumption(flows []string) Warning {
	what := "the flow " + flows[0]
	if len(flows) > 1 {
		what = fmt.Sprintf("%d flows, such as %s,", len(flows), flows[0])
	}
	return New(SelectionAssumed, "",
		fmt.Sprintf("selection: assumed of %s: nodes that do not say which packets they select are taken to select those of this node", what),
		"compare the flow at all its nodes after each change; remove the setting where all nodes run agents that say it")
}
