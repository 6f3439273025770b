// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"net/netip"
	"strings"
)

// EndedAgent warns that the programs of an agent that has ended still treat
// the packets of interfaces.
func EndedAgent(interfaces []string) Warning {
	return New(AgentEnded, "",
		fmt.Sprintf("no agent runs in this network namespace, but the programs of the last one still treat the packets on %s; what they record is lost once its buffers are full", strings.Join(interfaces, ", ")),
		"start the agent again ('waymark agent run --config FILE', or 'systemctl start waymark'), or take its programs off ('waymark agent stop --remove')")
}

// UnaskedAgent warns that what an agent knows could not be asked, so that the
// warnings that are missing say nothing.
func UnaskedAgent(err error) Warning {
	return New(AgentUnasked, "", fmt.Sprintf("what the agent warns of is not known: %v", err),
		"see whether it runs ('systemctl status waymark'), and its log; start it again where it does not answer")
}

// RemovedTunnelEnds warns that a node whose data plane was removed no longer
// decapsulates, and what that does to others; unknown is why it is not known
// which tunnels ended there.
func RemovedTunnelEnds(ends []netip.Addr, unknown error) []Warning {
	text := "this node no longer decapsulates packets to %s: traced packets of nodes that still tunnel there are lost"
	switch {
	case unknown != nil:
		text = fmt.Sprintf("whether tunnels ended at this node is not known (%v): if so, traced packets of nodes that still tunnel to it are lost", unknown)
	case len(ends) == 0:
		return nil
	default:
		names := make([]string, len(ends))
		for i, end := range ends {
			names[i] = end.String()
		}
		text = fmt.Sprintf(text, strings.Join(names, ", "))
	}
	return []Warning{New(TunnelEndRemoved, "", text,
		"on those nodes, take the encapsulations with such a tunnel.destination away ('waymark route del', or the file and 'waymark agent reload'), or start the agent here again")}
}
