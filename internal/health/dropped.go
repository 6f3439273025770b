// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"
)

// worthWarning is how many packets within a minute are worth a warning: single ones say
// nothing about the configuration.
const worthWarning = 10

// EdgeDrops counts the packets that an interface recently dropped because it has no role
// in their direction, by reason.
type EdgeDrops struct {
	IOAM, Unproven, Tunnel uint64
}

func (d EdgeDrops) sum() uint64 { return d.IOAM + d.Unproven + d.Tunnel }

// reasons lists what was dropped, with the names of the counters.
func (d EdgeDrops) reasons() string {
	var list []string
	for _, r := range []struct {
		n    uint64
		what string
	}{
		{d.IOAM, "with IOAM (boundary_dropped)"},
		{d.Unproven, "that may hold IOAM (boundary_unproven_dropped)"},
		{d.Tunnel, "to tunnel destinations of the domain (boundary_tunnel_dropped)"},
	} {
		if r.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", r.n, r.what))
		}
	}
	return strings.Join(list, ", ")
}

// DroppedOnArrival warns if an interface without the ingress role drops packets. The edge
// of the domain should; an interface inside has the wrong role.
func DroppedOnArrival(iface string, d EdgeDrops) []Warning {
	if d.sum() < worthWarning {
		return nil
	}
	return []Warning{New(DroppedAtEdge, iface,
		fmt.Sprintf("%s dropped %d packets that arrived in the last minute, because it has no ingress role: %s", iface, d.sum(), d.reasons()),
		fmt.Sprintf(
			"if %s is inside the domain: waymark interface set %s role ingress,egress; if it is the edge, find the sender, or set "+
				"boundary for its namespace",
			iface,
			iface,
		),
	)}
}

// DroppedOnDeparture warns if an interface without the egress role drops packets.
func DroppedOnDeparture(iface string, d EdgeDrops) []Warning {
	if d.sum() < worthWarning {
		return nil
	}
	return []Warning{New(
		DroppedAtEdge,
		iface,
		fmt.Sprintf(
			"%s dropped %d packets that were to leave in the last minute, because it has no egress role: %s",
			iface,
			d.sum(),
			d.reasons(),
		),
		fmt.Sprintf(
			"if %s leads into the domain: waymark interface set %s role ingress,egress (or in the file); else end tunnels and traces "+
				"here (decapsulations, remove)",
			iface,
			iface,
		),
	)}
}

// FailedRemovals warns if the kernel recently refused to remove headers that an interface should
// remove. One packet is enough: what it carries may leave the domain.
func FailedRemovals(iface string, packets uint64) []Warning {
	if packets == 0 {
		return nil
	}
	of := "a packet"
	if packets > 1 {
		of = fmt.Sprintf("%d packets", packets)
	}
	return []Warning{New(
		RemovalFailed,
		iface,
		fmt.Sprintf(
			"the kernel refused to remove the header of %s at %s in the last minute (decap_failed): inline ones went on with their "+
				"IOAM; tunnels were discarded",
			of,
			iface,
		),
		"if 'dmesg' shows a lack of memory, give the machine more; if no IOAM may leave the domain, use boundary: drop where it ends",
	)}
}

// LeftEdgeFlows warns of packets that are measured from edge to edge and in no record, in the last
// interval.
func LeftEdgeFlows(packets uint64) []Warning {
	if packets < worthWarning {
		return nil
	}
	return []Warning{New(
		EdgeFlowsLeft,
		"",
		fmt.Sprintf(
			"%d packets of the last interval with Edge-to-Edge options are in no record, only in the sums: their flows gave way to "+
				"others before it ended, and what was lost until they came again is not known",
			packets,
		),
		"measure fewer flows at a time: select some of them at encapsulating nodes (flows: 1/n), or narrow match; "+
			"or shorten node.export-interval",
	)}
}

// SkippedOffloaded hints at offloaded packets (GSO) that recently left without a proof of transit or
// an Edge-to-Edge option of an encapsulation.
func SkippedOffloaded(iface, encapsulation string, packets uint64) []Warning {
	if packets < worthWarning {
		return nil
	}
	return []Warning{New(
		OffloadUnnumbered,
		iface,
		fmt.Sprintf(
			"%d large packets still to be segmented (GSO) left %s in the last minute without a header (encap_skipped_gso): proofs of "+
				"transit and Edge-to-Edge options, as of encapsulation %s, need a number for each segment",
			packets,
			iface,
			encapsulation,
		),
		fmt.Sprintf(
			"ethtool -K IF gro off where they arrive, or -K %s tso off gso off if this machine sends them; or forwarding: fast in native XDP",
			iface,
		),
	)}
}

// Proofs counts the proofs of transit that a node recently verified at an interface, and
// the packets that it dropped for them.
type Proofs struct {
	Accepted, Rejected, Invalid, Replayed, TooOld, Ahead uint64
	Dropped                                              uint64
}

// RejectedProofs warns if few of the proofs that arrive are right.
func RejectedProofs(iface string, p Proofs) []Warning {
	wrong, again := p.Rejected+p.Invalid, p.Replayed+p.TooOld
	if n := wrong + again + p.Ahead; n < worthWarning || n*decapsulatedPerRefusal < p.Accepted {
		return nil
	}
	var counters []string
	for _, c := range []struct {
		name string
		n    uint64
	}{
		{"pot_rejected", p.Rejected}, {"pot_invalid", p.Invalid}, {"pot_replayed", p.Replayed}, {"pot_too_old", p.TooOld}, {"pot_ahead", p.Ahead},
	} {
		if c.n > 0 {
			counters = append(counters, fmt.Sprintf("%s %d", c.name, c.n))
		}
	}
	why, cure := "packets skipped or repeated a node, or keys differ in profile",
		"compare line 2 of all key files ('waymark pot generate' makes new ones), then find the node whose pot_updated does not grow"
	switch {
	case p.Ahead > wrong+again:
		why, cure = "their numbers are ahead of this node's clock by more than clock-difference (default 1 s)",
			"synchronise the clocks of both nodes; if they are, an attacker forges proofs: renew the keys"
	case wrong < again:
		why, cure = "their numbers came before, or are much older than others",
			"find the node that sends packets twice or late, or the sender that replays them"
	}
	fate := "their packets went on"
	if p.Dropped > 0 {
		fate = fmt.Sprintf("%d packets were dropped (pot_dropped)", p.Dropped)
		cure += "; drop-rejected: false lets packets pass"
	}
	return []Warning{New(
		ProofsRejected,
		iface,
		fmt.Sprintf(
			"%s refused %d proofs of transit in the last minute (%s) and accepted %d: %s; %s",
			iface,
			wrong+again+p.Ahead,
			strings.Join(counters, ", "),
			p.Accepted,
			why,
			fate,
		),
		cure,
	)}
}

// DroppedInQueue warns of packets that the queue of an interface dropped, as the kernel counts them. The kind is that of its
// queueing discipline.
func DroppedInQueue(iface, kind string, packets uint64) []Warning {
	if packets < worthWarning {
		return nil
	}
	return []Warning{New(
		QueueDrops,
		iface,
		fmt.Sprintf("the queue of %s (%s) dropped %d packets in the last minute, as the kernel counts them", iface, kind, packets),
		fmt.Sprintf(
			"'waymark queue' shows how long packets wait there, tc -s qdisc show dev %s its limits: send less, or raise its rate or limit",
			iface,
		),
	)}
}
