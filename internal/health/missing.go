// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"
)

// Unmarked warns of packets of measured flows that left without the option that would mark them.
func Unmarked(iface string, packets uint64) []Warning {
	if packets < worthWarning {
		return nil
	}
	return []Warning{New(
		FlowUnmarked,
		iface,
		fmt.Sprintf(
			"%d packets of measured flows left %s in the last minute without their mark: the loss of these blocks is uncertain",
			packets,
			iface,
		),
		"see 'unmarked' in 'waymark status': mtu needs 8 octets more on the path, gso needs offloads off where they arrive, header "+
			"needs another carrier",
	)}
}

// NumbersRestarted warns of flows whose Sequence Numbers begin again, because there are too many.
func NumbersRestarted(iface string, flows uint64) []Warning {
	if flows < worthWarning {
		return nil
	}
	return []Warning{New(
		NumbersRestart,
		iface,
		fmt.Sprintf(
			"the Sequence Numbers of %d flows at %s begin again, because others took their place in the last minute: losses across the "+
				"restart are not known",
			flows,
			iface,
		),
		"number fewer flows at a time: select some of them (flows: 1/n), or narrow match",
	)}
}

// CopiesSuppressed hints at copies by the Loopback flag that a limit suppressed.
func CopiesSuppressed(iface string, packets uint64) []Warning {
	if packets < worthWarning {
		return nil
	}
	return []Warning{New(
		LoopbackSuppressed,
		iface,
		fmt.Sprintf(
			"%d packets at %s were to get the Loopback flag, or to be returned, in the last minute, and were not: the limit was reached",
			packets,
			iface,
		),
		"set a smaller share of packets in the trace's loopback; or raise node.loopback-rate if nodes and links can take more",
	)}
}

// MalformedSRH warns of Segment Routing Headers that cannot be read; faults are their numbers.
func MalformedSRH(iface string, packets uint64, faults []string) []Warning {
	if packets < worthWarning {
		return nil
	}
	return []Warning{New(
		PacketsMalformed,
		iface,
		fmt.Sprintf(
			"%d packets with a malformed Segment Routing Header passed %s in the last minute (%s): they count for no measured flow",
			packets,
			iface,
			strings.Join(faults, ", "),
		),
		fmt.Sprintf("find their sender: tcpdump -i %s 'ip6[6] == 43'", iface),
	)}
}

// OwnIDOfAnother warns that the id of this node is that of another one by the list of names.
func OwnIDOfAnother(id uint64, own, other string) Warning {
	return New(NodeIDShared, "", fmt.Sprintf("node id %d is that of this node, %s, and of %s under names", id, own, other),
		fmt.Sprintf("give each node its own node.id (or net.ipv6.ioam6_id), or write name: %s under names", own))
}

// place says where in a path a node is.
func place(after string) string {
	if after == "" {
		return "first"
	}
	return "after " + after
}

// SharedNodeID warns of a node id that came twice in traces; hopLimits are those of both places, 0
// where the trace has none.
func SharedNodeID(id string, traces uint64, hopLimits [2]uint8, after [2]string) []Warning {
	if traces < worthWarning {
		return nil
	}
	where := ""
	if hopLimits[0] != 0 && hopLimits[1] != 0 {
		where = fmt.Sprintf(", last with the hop limits %d and %d", hopLimits[0], hopLimits[1])
	}
	if after[0] != "" || after[1] != "" {
		where += fmt.Sprintf(" (%s, and %s)", place(after[0]), place(after[1]))
	}
	return []Warning{New(
		NodeIDShared,
		"",
		fmt.Sprintf(
			"node id %s came twice in %d traces of the last minute%s: two nodes have it, the kernel of one fills traces, too, or "+
				"packets pass a node twice",
			id,
			traces,
			where,
		),
		"give each node its own node.id (or net.ipv6.ioam6_id); set net.ipv6.conf.IF.ioam6_enabled to 0 where an agent serves IF; "+
			"if the ids are right, look for a loop in the routes",
	)}
}
