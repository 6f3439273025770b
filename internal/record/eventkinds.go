// SPDX-License-Identifier: Apache-2.0

package record

// EventKind describes the events of a name.
type EventKind struct {
	Name     string
	Severity Severity // the usual one
	Meaning  string
	Labels   string // what the keys of its labels are, for the reference
	Values   string // and of its values
}

// Names of events.
const (
	EventProbeLoss       = "probe_loss"
	EventProbeRecovered  = "probe_recovered"
	EventProbePathChange = "probe_path_change"
	EventProbeUnanswered = "probe_unanswered"
)

// eventKinds are all events, in the order of the reference. A new one is a constant and a row.
var eventKinds = []EventKind{
	{
		EventProbeLoss, SeverityError,
		"Flows of probes to a destination, which was answering them, are not answered any more. The labels say behind which node they vanish, if that is known.",
		"`destination`; `address`; `path`: its nodes when it was last seen; `after`: the last node that the probes reach; `before`: the next node that answered hop limits before, and does not now; " +
			"`evidence`: `hop-limit` (errors of nodes on the way), `copy` (copies by the Loopback flag), `error` (the node says itself that it cannot deliver, in `error`), `none` (the place is not known)",
		"`flows`: that are not answered; `flows_of`: all of the destination; `unanswered_packets`; `after_hop`: the position of `after`, 0 for this node",
	},
	{
		EventProbeRecovered, SeverityInfo,
		"The flows that had `probe_loss` or `probe_unanswered` are answered again.",
		"`destination`; `address`; `path`: the one that the probes take now",
		"`flows`; `flows_of`; `lasted_ns`; `unanswered_packets`",
	},
	{
		EventProbePathChange, SeverityInfo,
		"Flows of probes take another path than before, because routing moved them. Nothing is said about loss.",
		"`destination`; `address`; `from`, `to`: the nodes of both paths",
		"`flows`: that moved from the one to the other; `flows_of`",
	},
	{
		EventProbeUnanswered, SeverityWarning,
		"No probe to a destination was answered since it is configured: the destination, or the way to it, may never have answered any.",
		"`destination`; `address`; `last`: the last node that was seen on the way; `error`: what a node said",
		"`flows`; `flows_of`; `unanswered_packets`",
	},
}

// EventKinds lists all events, for the reference.
func EventKinds() []EventKind { return eventKinds }
