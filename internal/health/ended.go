// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
)

// EndedAgent warns that the programs of an agent that has ended still treat
// the packets of interfaces.
func EndedAgent(interfaces []string) Warning {
	return New(
		AgentEnded,
		"",
		fmt.Sprintf(
			"no agent runs in this network namespace, but the programs of the last one still treat the packets on %s; their records "+
				"are lost once the buffers are full",
			strings.Join(interfaces, ", "),
		),
		"start the agent again ('waymark agent run --config FILE', or 'systemctl start waymark'), or remove the programs ('waymark "+
			"agent stop --remove')",
	)
}

// UnaskedAgent warns that an agent could not be asked, so that the absence of
// other warnings means nothing.
func UnaskedAgent(err error) Warning {
	if errors.Is(err, fs.ErrPermission) { // a restart would not help
		return New(AgentUnasked, "",
			"the agent's warnings are not known, nor whether it runs: only root and the agent's own user may ask it",
			"run it as root")
	}
	return New(AgentUnasked, "", fmt.Sprintf("the agent's warnings are not known: %v", err),
		"check whether it runs ('systemctl status waymark'), and its log; restart it if it does not answer")
}

// RemovedTunnelEnds warns that a node whose data plane was removed no longer
// decapsulates, and what this does to other nodes; unknown is why the tunnels
// that ended there are unknown.
func RemovedTunnelEnds(ends []netip.Addr, unknown error) []Warning {
	var text string
	switch {
	case unknown != nil:
		text = fmt.Sprintf(
			"it is not known whether tunnels ended at this node (%v): if so, traced packets of nodes that still tunnel to it are lost",
			unknown,
		)
	case len(ends) == 0:
		return nil
	default:
		names := make([]string, len(ends))
		for i, end := range ends {
			names[i] = end.String()
		}
		text = fmt.Sprintf(noLongerEnds, strings.Join(names, ", "))
	}
	return []Warning{tunnelEndRemoved(text, "start the agent here again")}
}

// RemovedDecapsulation warns that a tunnel no longer ends at a node.
func RemovedDecapsulation(end netip.Addr) Warning {
	return tunnelEndRemoved(
		fmt.Sprintf(noLongerEnds, end),
		fmt.Sprintf("list it under decapsulations here again, or: waymark decapsulation add %s", end),
	)
}

const noLongerEnds = "this node no longer decapsulates packets to %s: traced packets of nodes that still tunnel there are lost"

func tunnelEndRemoved(text, again string) Warning {
	return New(
		TunnelEndRemoved,
		"",
		text,
		"on those nodes, remove the encapsulations with such a tunnel.destination ('waymark route del', or the file and 'waymark "+
			"agent reload'), or "+again,
	)
}
