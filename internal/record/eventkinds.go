// SPDX-License-Identifier: Apache-2.0

package record

import "slices"

// EventKind describes the events of a name.
type EventKind struct {
	Name     string
	Severity Severity // the usual one
	Meaning  string
	Labels   string   // what the keys of its labels are, for the reference
	Values   string   // and of its values
	Ends     []string // the events that this one ends; no others begin anything
}

// Names of events.
const (
	EventProbeLoss       = "probe_loss"
	EventProbeRecovered  = "probe_recovered"
	EventProbePathChange = "probe_path_change"
	EventProbeUnanswered = "probe_unanswered"

	EventSegmentSlow   = "segment_slow"
	EventSegmentUsual  = "segment_usual"
	EventHeldLong      = "held_long"
	EventHeldUsual     = "held_usual"
	EventQueueSlow     = "queue_slow"
	EventQueueUsual    = "queue_usual"
	EventQueueDrops    = "queue_drops"
	EventQueueDropsEnd = "queue_drops_ended"
	EventLoss          = "loss_began"
	EventLossEnded     = "loss_ended"

	EventFlowUnmeasured = "flow_unmeasured"
	EventFlowMeasured   = "flow_measured"

	EventPathsMoved   = "paths_moved"
	EventNodeSilent   = "node_silent"
	EventNodeHeard    = "node_heard"
	EventNodeIDShared = "node_id_shared"
	EventNodeIDUnique = "node_id_unique"
	EventNotSeen      = "not_seen"
)

// eventKinds are all events, in the order of the reference. A new one is a constant and a row.
var eventKinds = []EventKind{
	{
		EventProbeLoss, SeverityError,
		"Flows of probes to a destination, which was answering them, are not answered any more. The labels say behind which node they vanish, if that is known.",
		"`destination`; `address`; `path`: its nodes when it was last seen; `after`: the last node that the probes reach; `before`: the next node that answered hop limits before, and does not now; " +
			"`evidence`: `hop-limit` (errors of nodes on the way), `copy` (copies by the Loopback flag), `error` (the node says itself that it cannot deliver, in `error`), `none` (the place is not known)",
		"`flows`: that are not answered; `flows_of`: all of the destination; `unanswered_packets`; `after_hop`: the position of `after`, 0 for this node",
		nil,
	},
	{
		EventProbeRecovered, SeverityInfo,
		"The flows that had `probe_loss` or `probe_unanswered` are answered again.",
		"`destination`; `address`; `path`: the one that the probes take now",
		"`flows`; `flows_of`; `lasted_ns`; `unanswered_packets`",
		[]string{EventProbeLoss, EventProbeUnanswered},
	},
	{
		EventProbePathChange, SeverityInfo,
		"Flows of probes take another path than before, because routing moved them. Nothing is said about loss.",
		"`destination`; `address`; `from`, `to`: the nodes of both paths",
		"`flows`: that moved from the one to the other; `flows_of`",
		nil,
	},
	{
		EventProbeUnanswered, SeverityWarning,
		"No probe to a destination was answered since it is configured: the destination, or the way to it, may never have answered any.",
		"`destination`; `address`; `last`: the last node that was seen on the way; `error`: what a node said",
		"`flows`; `flows_of`; `unanswered_packets`",
		nil,
	},
	{
		EventSegmentSlow, SeverityWarning,
		"Packets take longer than is usual from the egress hook of a node to the arrival at the next one: the wait in the node's queue, and the link. " +
			"In three looks, each at 20 packets or more that were new, or in two intervals of ten seconds one after the other, their 95th percentile was at least twice the usual one, " +
			"100 µs more, and more than the clocks may differ. Where it is not known by how much they differ, no segment is judged.",
		"`from_node`, `egress`: the node and the interface by which packets leave it; `to_node`, `ingress`: the next node and the interface of arrival; `source`, `destination`: the prefixes of the traffic that is slowest; " +
			"`includes`: `held` if the time for which a node held the packets is in it, too",
		"`p95_ns`; `usual_p95_ns`; `packets`: that were looked at",
		nil,
	},
	{
		EventSegmentUsual, SeverityInfo,
		"The segment that had `segment_slow` was not slow in a whole interval of ten seconds, or what was slow is now usual (`because`).",
		"`from_node`, `egress`, `to_node`, `ingress`, `source`, `destination`; `because`: `baseline` if it did not get faster: after ten minutes, what is slow is usual",
		"`p95_ns`; `usual_p95_ns`; `worst_p95_ns`: the greatest meanwhile; `lasted_ns`",
		[]string{EventSegmentSlow},
	},
	{
		EventHeldLong, SeverityWarning,
		"A node holds packets longer than is usual between its ingress and its egress hook, judged as `segment_slow`, but by one clock.",
		"`node_name`, `ingress`, `egress`: the node and its interfaces; `source`, `destination`",
		"`p95_ns`; `usual_p95_ns`; `packets`",
		nil,
	},
	{
		EventHeldUsual, SeverityInfo,
		"The node that had `held_long` did not in a whole interval of ten seconds, or that is now usual.",
		"`node_name`, `ingress`, `egress`, `source`, `destination`; `because`",
		"`p95_ns`; `usual_p95_ns`; `worst_p95_ns`: the greatest meanwhile; `lasted_ns`",
		[]string{EventHeldLong},
	},
	{
		EventQueueSlow, SeverityWarning,
		"Packets wait longer than is usual in the queue of an interface of this node, judged as `held_long`, while queues are measured (`node.queue-delay`, or `waymark queue` runs).",
		"`interface`",
		"`p95_ns`; `usual_p95_ns`; `packets`",
		nil,
	},
	{
		EventQueueUsual, SeverityInfo,
		"The queue that had `queue_slow` was not slow in a whole interval of ten seconds, or that is now usual.",
		"`interface`; `because`",
		"`p95_ns`; `usual_p95_ns`; `worst_p95_ns`: the greatest meanwhile; `lasted_ns`",
		[]string{EventQueueSlow},
	},
	{
		EventQueueDrops, SeverityWarning,
		"The queue of an interface of this node drops packets, while queues are measured: two or more, and 0.1% or more of those that came in ten seconds.",
		"`interface`",
		"`sent_packets`; `lost_packets`; `lost_ratio`",
		nil,
	},
	{
		EventQueueDropsEnd, SeverityInfo,
		"The queue that had `queue_drops` dropped less than that in three intervals of ten seconds one after the other.",
		"`interface`",
		"`lost_packets`: since it began; `lasted_ns`",
		[]string{EventQueueDrops},
	},
	{
		EventLoss, SeverityError,
		"Packets are lost: two or more, and 0.1% or more of those in ten seconds whose fate is known. Both ends of a measured flow's segment counted them, or a Sequence Number is missing.",
		"`from_node`, `egress`: the node after which they are lost; `to_node`, `ingress`: the next one that counts; `source`, `destination`: the prefixes of the traffic; " +
			"of a measured flow, each segment of which has its own events: `flow`, `flow_id`: its name, if it has one, and its number; `from_point`, `to_point`: the numbers of the segment's points along the path, from 0, " +
			"because IPFIX has no names of points; " +
			"`evidence`: `counters` (of both ends of a segment), `sequence` (Sequence Numbers are missing: the hop is not known)",
		"`sent_packets`; `lost_packets`; `lost_ratio`",
		nil,
	},
	{
		EventLossEnded, SeverityInfo,
		"Where `loss_began`, less than 0.1% was lost in three intervals of ten seconds one after the other.",
		"`from_node`, `egress`, `to_node`, `ingress`; `source`, `destination`; `flow`, `flow_id`, `from_point`, `to_point`; `evidence`",
		"`lost_packets`: since it began; `lasted_ns`",
		[]string{EventLoss},
	},
	{
		EventFlowUnmeasured, SeverityWarning,
		"The loss of a measured flow has not been known for `no-data-after` blocks, as when its last node does not answer. All packets may be lost, or none: only an answer tells. " +
			"Where the last node answers that none came, that is `loss_began`. `waymark doctor` has the warning of this name as long as it lasts.",
		"`flow`; `reasons`: why it is not known, as records of the kind `loss` have them; `nodes`: the nodes with their reasons",
		"`blocks`: since it is not known; `sent_packets`: in the last of them",
		nil,
	},
	{
		EventFlowMeasured, SeverityInfo,
		"The loss of the flow that had `flow_unmeasured` is known again, or nothing is sent any more (`because`).",
		"`flow`; `because`: `idle` if its ingress sends nothing",
		"`lasted_ns`",
		[]string{EventFlowUnmeasured},
	},
	{
		EventPathsMoved, SeverityInfo,
		"Packets of flows that took one path take another one now: 20% or more of the packets between two prefixes whose flow was seen before. " +
			"New flows do not count, nor do flows that change in both directions, so that a distribution over equal paths is no event. Nothing is said about loss.",
		"`source`, `destination`: the prefixes; `from`, `to`: the nodes of both paths",
		"`moved_ratio`: of the packets of known flows; `flows`: that moved, of those that are watched; `packets`; " +
			"`p99_change_ns`: of the whole delay of packets on the new path against those on the old one, if both have 20 or more",
		nil,
	},
	{
		EventNodeSilent, SeverityWarning,
		"A node writes nothing into traces any more, although packets still pass it: the hop limits show a gap at its place, between nodes and interfaces that are the same as before. Traces need the ids of interfaces for that; on a link that more than two nodes share, packets may go round it.",
		"`node_name`, `ingress`, `egress`: the node and its interfaces; `from_node`, `to_node`: the nodes before and after it; `source`, `destination`",
		"`packets`: that passed it since",
		nil,
	},
	{
		EventNodeHeard, SeverityInfo,
		"The node that had `node_silent` writes into traces again.",
		"`node_name`, `ingress`, `egress`, `from_node`, `to_node`, `source`, `destination`",
		"`lasted_ns`",
		[]string{EventNodeSilent},
	},
	{
		EventNodeIDShared, SeverityWarning,
		"A node id comes twice in traces: two nodes have it, or packets loop. `waymark doctor` has the warning as long as that lasts.",
		"`node_id`; `name`: of the node here",
		"`packets`: traces in which it came twice",
		nil,
	},
	{
		EventNodeIDUnique, SeverityInfo,
		"The node id that had `node_id_shared` has not come twice for a minute.",
		"`node_id`; `name`",
		"`lasted_ns`",
		[]string{EventNodeIDShared},
	},
	{
		EventNotSeen, SeverityInfo,
		"Nothing shows any more whether what another event began still holds: for a minute, too few packets were seen there; it began before the agent did, and was not seen again; probes to the destination are not sent any more; or the flow is not measured as before.",
		"those of the event that began, and `event`: its name",
		"`lasted_ns`",
		[]string{
			EventSegmentSlow,
			EventHeldLong,
			EventQueueSlow,
			EventQueueDrops,
			EventLoss,
			EventFlowUnmeasured,
			EventNodeSilent,
			EventNodeIDShared,
			EventProbeLoss,
			EventProbeUnanswered,
		},
	},
}

// EventKinds lists all events, for the reference.
func EventKinds() []EventKind { return eventKinds }

// EventKindOf finds the kind of a name, nil of an unknown one.
func EventKindOf(name string) *EventKind {
	for i := range eventKinds {
		if eventKinds[i].Name == name {
			return &eventKinds[i]
		}
	}
	return nil
}

// Begins reports whether another event can end this one.
func (k *EventKind) Begins() bool {
	for i := range eventKinds {
		if slices.Contains(eventKinds[i].Ends, k.Name) {
			return true
		}
	}
	return false
}
