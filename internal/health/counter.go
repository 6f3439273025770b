// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
)

// Counter is what a metric of the agent counts for an operator, or one value of its label.
// All but harmless ones have a kind of warning.
type Counter struct {
	Metric  string // without waymark_ and _total
	Value   string // of the label that says what happened; "" for all that have no line of their own
	Class   Class
	Warning Code

	text, cure string // of Counted; "" where another function words the warning
}

// counters has every counter of the agent besides the outcomes of packets; a test fails for
// one that is missing.
var counters = slices.Concat([]Counter{
	{"packets", "", Harmless, "", "", ""}, // Meaning has each outcome
	{"options", "", Harmless, "", "", ""}, // as above
	{"forwarding_to_stack", "", Harmless, "", "", ""},
	{"records_written", "", Harmless, "", "", ""},
	{"records_lost", "", Lost, RecordsLost, "", ""},
	{"records_read", "", Harmless, "", "", ""},
	{"records_malformed", "", Missing, RecordsUnread,
		"%d traces of the last minute could not be read completely: nodes are missing in their records",
		"find the node that writes them wrong: 'waymark observe' shows the readable nodes, and 'waymark decode FILE' those of a capture"},
	{"postcards", "", Harmless, "", "", ""},
	{"exports_suppressed", "", Missing, ExportsSuppressed, "", ""},
	{"flows_suppressed", "", Missing, ExportsSuppressed, "", ""},
	{"flows_evicted", "", Harmless, "", "", ""}, // exported early
	{"flows_gaps_unknown", "", Missing, GapsUnknown,
		"the number of missing packets is not known of %d flow records of the last minute",
		"number fewer flows at a time (flows: 1/n), or shorten node.export-interval"},
	{"sequences_evicted", "", Missing, NumbersRestart, "", ""},
	{"e2e_numbers_evicted", "", Missing, NumbersRestart, "", ""},
	{"e2e_flows_evicted", "", Missing, EdgeFlowsLeft, "", ""},
	{"e2e_unrecorded_packets", "", Missing, EdgeFlowsLeft, "", ""},
	{"loopback", "", Harmless, "", "", ""},
	{"loopback", "suppressed", Missing, LoopbackSuppressed, "", ""},
	{"srh_malformed", "", Missing, PacketsMalformed, "", ""},
	{"unmarked", "", Missing, FlowUnmarked, "", ""},
	{"kernel_events", "", Harmless, "", "", ""},
	{"kernel_events_lost", "", Lost, RecordsLost, "", ""},
	{"kernel_events_malformed", "", Missing, RecordsUnread,
		"%d events of the kernel's own IOAM could not be understood in the last minute: there is no record of their traces",
		"use a kernel whose events this version knows, or node: {kernel-events: false}"},
	{"observer_dropped", "", Harmless, "", "", ""},   // the observer gets the number itself
	{"observer_undecided", "", Harmless, "", "", ""}, // as above
	{"history_records", "", Harmless, "", "", ""},
	{"history_records_left_out", "", Harmless, "", "", ""}, // the report says so
	{"queue_untimed_packets", "", Harmless, "", "", ""},
	{"queue_dropped_packets", "", Harmless, "", "", ""}, // QueueDrops has what the kernel counts, also while none is measured
	{"delays_negative", "", Harmless, "", "", ""},       // of clocks that differ
	{"delays_longer", "", Harmless, "", "", ""},
	{"path_delays_incomplete", "", Harmless, "", "", ""},
	{"delays_other", "", Harmless, "", "", ""}, // counted in a series in common
	{"export_written", "", Harmless, "", "", ""},
	{"export_messages", "", Harmless, "", "", ""},
	{"export_octets", "", Harmless, "", "", ""},
	{"export_dropped", "", Lost, ExporterFailing, "", ""},
	{"export_unsure", "", Lost, CollectorAway, "", ""},
	{"export_unacknowledged", "", Harmless, "", "", ""}, // sent again; those that are not count as dropped
	{"hook_repairs", "", Missing, HookDetached, "", ""},
	{"names_questions", "", Harmless, "", "", ""}, // names_unanswered says when none is answered for long
	{"reloads", "", Harmless, "", "", ""},
	{"reloads", "failed", Missing, ReloadFailed, "", ""},

	{"packet_too_big", "", Harmless, "", "", ""},
	{"packet_too_big", "lost", Missing, TunnelErrorsLost, "", ""},
	{"tunnel_errors", "", Harmless, "", "", ""},
	{"tunnel_errors", "lost", Missing, TunnelErrorsLost, "", ""},
	{"tunnel_errors", "limited", Lost, TunnelErrorsLost,
		"%d ICMPv6 errors about tunnelled packets were not relayed to the packets' senders in the last minute: they exceeded the limit",
		"find out why so many packets cause errors (tcpdump icmp6)"},
	{"tunnel_errors", "unsent", Lost, TunnelErrorsLost,
		"%d ICMPv6 errors about tunnelled packets could not be relayed to the packets' senders in the last minute",
		"check the route to the senders"},

	// Results of measurements: what is lost there is what they measure.
	{"e2e_packets", "", Harmless, "", "", ""},
	{"e2e_lost", "", Harmless, "", "", ""},
	{"e2e_lost_unknown", "", Harmless, "", "", ""}, // hooks that do not run have a warning
	{"e2e_duplicates", "", Harmless, "", "", ""},
	{"e2e_reordered", "", Harmless, "", "", ""},
	{"e2e_late", "", Harmless, "", "", ""},
	{"e2e_restarts", "", Harmless, "", "", ""},
	{"loss_packets", "", Harmless, "", "", ""},
	{"flow_packets", "", Harmless, "", "", ""},
	{"flow_octets", "", Harmless, "", "", ""},
	{"flow_loss_packets", "", Harmless, "", "", ""},
	{"measured_packets", "", Harmless, "", "", ""},
	{"measured_octets", "", Harmless, "", "", ""},
	{"delay_probes", "", Harmless, "", "", ""},
	{"delay_probes", "diverted", Missing, ProbesNotInBand, "", ""},
	{"delay_probes", "time_impossible", Missing, ProbesUntimed,
		"%d answers to test packets of flows in the last minute say that the other node held them for a negative time, or longer than the round trip: they have no one-way and no two-way delay",
		"keep the clocks of the flows' last points steady: let chrony or ptp4l slew them; if they are, update what answers there"},
	{"events", "", Harmless, "", "", ""},
	{"events_left_out", "", Harmless, "", "", ""}, // repetitions; the next event of the subject says how many
	{"probe_packets", "", Harmless, "", "", ""},
	{"probe_packets", "suppressed", Missing, ProbesSuppressed,
		"%d probes of the last minute were not sent, because they were beyond probes.budget",
		"raise probes.budget, or send fewer: a longer probes.interval, fewer probes.flows or destinations"},
	{"probe_packets", "skipped", Missing, ProbesSuppressed,
		"%d probes of the last minute were not sent, because the agent was late by more than probes.interval",
		"give the agent more CPU time, or raise probes.interval"},
	{"probe_copies", "", Harmless, "", "", ""},
	{"probe_replies_ignored", "", Harmless, "", "", ""}, // a probe without an answer is lost, and flows without answers have a warning
	{"probe_answered", "", Harmless, "", "", ""},
	{"probe_lost", "", Harmless, "", "", ""},
	{"probe_path_changes", "", Harmless, "", "", ""},
	{"probe_events", "", Harmless, "", "", ""},

	// A block without an exact result is uncertain, and FlowUnmeasured says why.
	{"measured_late_packets", "", Missing, FlowUnmeasured, "", ""},
	{"measured_early_packets", "", Missing, FlowUnmeasured, "", ""},
	{"measured_unmarked_packets", "", Missing, FlowUnmeasured, "", ""},
	{"loss_blocks", "", Missing, FlowUnmeasured, "", ""},
	{"flow_loss_blocks", "", Missing, FlowUnmeasured, "", ""},
	{"loss_readings", "", Missing, FlowUnmeasured, "", ""},
	{"loss_restarts", "", Missing, FlowUnmeasured, "", ""},
	{"block_answers", "", Missing, FlowUnmeasured, "", ""},
	{"measurement_replies", "", Missing, FlowUnmeasured, "", ""},
	{"measurement_unsent", "", Missing, FlowUnmeasured, "", ""},
	{"loss_blocks_skipped", "", Missing, BlocksMissed,
		"%d blocks of flows have no result in the last minute, because the clock leapt forward",
		"keep the clock steady: let chrony or ptp4l slew it"},
	{"measured_blocks_missed", "", Missing, BlocksMissed,
		"%d closed blocks were not compared with other nodes in the last minute, because those before them took too long",
		"give the agent more CPU time, measure fewer flows, or set a longer measurement.block"},
}, copies(), questions("stamp_packets", "test packets of STAMP", "stamp", "hmac_wrong", "sessions_full"),
	questions("responder_queries", "queries of measured flows", "responders", "", ""),
	questions("trace_probes", "probes of 'waymark trace'", "trace", "mac_wrong", ""),
	[]Counter{
		{"stamp_notes", "", Harmless, "", "", ""}, // answered
		{"stamp_reply_octets", "", Harmless, "", "", ""},
		{"responder_queries_repeated", "", Harmless, "", "", ""}, // answered
		noRoom("stamp_socket_dropped", "test packets of STAMP"),
		noRoom("responder_socket_dropped", "queries of measured flows"),
		noRoom("trace_socket_dropped", "probes of 'waymark trace'"),
		{"selection_questions", "", Harmless, "", "", ""},
		{"block_questions", "", Harmless, "", "", ""},
		{"block_questions", "unknown_flow", Missing, QuestionsRefused,
			"other nodes asked about flows that this node does not have, %d times in the last minute: they cannot compute the loss",
			"add the flow here with the same name, or remove this node from the flow's points there"},
		{"block_questions", "other_length", Missing, QuestionsRefused,
			"other nodes asked about flows with another block length, %d times in the last minute: they cannot compute the loss",
			"set the same measurement.block at all nodes"},
	})

// questions are what becomes of datagrams that this node may answer; forged and full are the names
// of those with a wrong key and without room, if there are any.
func questions(metric, what, setting, forged, full string) []Counter {
	text := "%d " + what + " were not answered in the last minute: "
	list := []Counter{
		{metric, "", Harmless, "", "", ""},
		{metric, "not_allowed", Dropped, QuestionsRefused, text + "they came from outside the allowed prefixes",
			fmt.Sprintf("if these nodes may ask, add their addresses to allow under %s; otherwise find the sender (tcpdump)", setting)},
		{metric, "rate_limited", Dropped, QuestionsRefused, text + "they exceeded the rate",
			fmt.Sprintf("let others ask less often, or raise rate under %s", setting)},
		{metric, "send_failed", Lost, QuestionsRefused, text + "the kernel refused the answer", "check the route back to who asks"},
	}
	if forged != "" {
		list = append(list, Counter{metric, forged, Dropped, QuestionsRefused, text + "their key is wrong",
			fmt.Sprintf("give both ends the same key (key-file under %s)", setting)})
	}
	if full != "" {
		list = append(list, Counter{metric, full, Lost, QuestionsRefused, text + "there is no room for more sessions", "end some of the senders"})
	}
	return list
}

func noRoom(metric, what string) Counter {
	return Counter{
		metric,
		"",
		Lost,
		QuestionsRefused,
		"%d " + what + " were lost in the last minute, because the socket had no room: who sent them counts them as lost",
		"let others ask less often, or give the agent more CPU time",
	}
}

// copies are what becomes of packets whose headers are returned.
func copies() []Counter {
	list := []Counter{{"loopback_copies", "", Harmless, "", "", ""}}
	for _, c := range []struct{ result, why, cure string }{
		{"crowded", "too many came at once", "select fewer packets: a larger n in the trace's loopback"},
		{"late", "the agent read them too late", "give the agent more CPU time"},
		{"malformed", "they are malformed", "find the node on the way that spoils them"},
		{"no_source", "this node has no address to send from", "give the node a global address"},
		{"unsent", "the kernel refused to send them", "check the route to the senders"},
	} {
		list = append(list, Counter{"loopback_copies", c.result, Missing, LoopbackSuppressed,
			"%d packets with the Loopback flag were not returned in the last minute: " + c.why, c.cure})
	}
	return list
}

// Counters lists what the counters of the agent mean.
func Counters() []Counter { return slices.Clone(counters) }

// CountedHere are the counters whose recent growth [Counted] needs, in its order.
func CountedHere() []Counter {
	return slices.DeleteFunc(Counters(), func(c Counter) bool { return c.text == "" })
}

// Counted warns of counters that grew in the last minute, in the order of CountedHere. What
// is lost in single cases only is not worth a warning.
func Counted(recent []uint64) (ws []Warning) {
	for i, c := range CountedHere() {
		if n := recent[i]; n >= worthWarning || c.Warning == BlocksMissed && n > 0 {
			ws = append(ws, New(c.Warning, "", fmt.Sprintf(c.text, n), c.cure))
		}
	}
	return ws
}
