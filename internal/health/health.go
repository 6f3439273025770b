// SPDX-License-Identifier: Apache-2.0

// Package health turns facts about the machine and the node into coded warnings,
// which the command line, the API and the metrics share. The checks are pure
// functions of facts; separate functions read the facts.
package health

import (
	"cmp"
	"slices"

	"github.com/waymark-net/waymark/internal/instant"
)

// Severity says how much a warning matters.
type Severity string

// The severities, lowest first.
const (
	Hint     Severity = "hint"    // works, but could do harm or is advised against: shown only by diagnosis
	Info     Severity = "info"    // works, but not in the best way
	Degraded Severity = "warning" // some packets are not measured, or not well
	Error    Severity = "error"   // does not work, or reports something false
)

func (s Severity) rank() int {
	return slices.Index([]Severity{Hint, Info, Degraded, Error}, s)
}

// Code names a kind of warning; it is stable.
type Code string

// The codes of warnings.
const (
	AgentEnded          Code = "agent_ended"
	AgentUnasked        Code = "agent_unasked"
	BlocksMissed        Code = "blocks_missed"
	BPFFSPrivate        Code = "bpffs_private"
	BPFUnusable         Code = "bpf_unusable"
	BTFMissing          Code = "btf_missing"
	CapabilityMissing   Code = "capability_missing"
	ClockUnsynced       Code = "clock_unsynchronised"
	ClsactMissing       Code = "clsact_missing"
	CollectorAway       Code = "collector_away"
	CollectorsUnknown   Code = "collectors_unknown"
	DecapsulationIdle   Code = "decapsulation_idle"
	DecapsulationOpen   Code = "decapsulation_open"
	DecapRefused        Code = "decapsulation_refused"
	DecapUnreached      Code = "decapsulation_unreached"
	FlowUnmarked        Code = "flow_unmarked"
	GapsUnknown         Code = "gaps_unknown"
	LoopbackSuppressed  Code = "loopback_suppressed"
	NodeIDShared        Code = "node_id_shared"
	NodeIDUnset         Code = "node_id_unset"
	NumbersRestart      Code = "numbers_restarted"
	DroppedAtEdge       Code = "packets_dropped_at_edge"
	EdgeFlowsLeft       Code = "edge_flows_left"
	EncapShadowed       Code = "encapsulation_shadowed"
	EncapSkipped        Code = "encapsulation_skipped"
	ExporterFailing     Code = "exporter_failing"
	ExportsLimited      Code = "exports_limited"
	ExportsSuppressed   Code = "exports_suppressed"
	ExportsUnsecured    Code = "exports_unsecured"
	ExportsUnselective  Code = "exports_unselective"
	ExportsUnsent       Code = "exports_unsent"
	FastRefused         Code = "fast_refused"
	FastSuspended       Code = "fast_suspended"
	FlowDelayHigh       Code = "flow_delay_high"
	FlowDuplicated      Code = "flow_duplicated"
	FlowLossHigh        Code = "flow_loss_high"
	FlowUnmeasured      Code = "flow_unmeasured"
	FlowsUncovered      Code = "flows_uncovered"
	HookBypassed        Code = "hook_bypassed"
	HookDetached        Code = "hook_detached"
	HookDisplaced       Code = "hook_displaced"
	HookPreceded        Code = "hook_preceded"
	HookChanged         Code = "hook_changed"
	InlineForwarded     Code = "inline_forwarded"
	InterfaceDown       Code = "interface_down"
	InterfaceMissing    Code = "interface_missing"
	JITDisabled         Code = "jit_disabled"
	KernelIOAM6         Code = "kernel_ioam6_enabled"
	KeyRenamed          Code = "key_renamed"
	KernelUnheard       Code = "kernel_events_unheard"
	LROEnabled          Code = "lro_enabled"
	MemlockLimited      Code = "memlock_limited"
	MetricsUnavailable  Code = "metrics_unavailable"
	MTUBelowMinimum     Code = "mtu_below_minimum"
	MTUTooSmall         Code = "mtu_too_small"
	NamesUnanswered     Code = "names_unanswered"
	NamespaceUnfilled   Code = "namespace_unfilled"
	NamespaceUnknown    Code = "namespace_unknown"
	NotAnswering        Code = "not_answering"
	OptionUnsupported   Code = "option_unsupported"
	PacketsMalformed    Code = "packets_malformed"
	ProbesBeyondRate    Code = "probes_beyond_rate"
	ProbesLost          Code = "probes_lost"
	ProbesNotInBand     Code = "probes_not_in_band"
	ProbesStopped       Code = "probes_stopped"
	ProbesSuppressed    Code = "probes_suppressed"
	ProbesUnanswered    Code = "probes_unanswered"
	ProbesUnsent        Code = "probes_unsent"
	ProbesUntimed       Code = "probes_untimed"
	ProofsRejected      Code = "proofs_rejected"
	OffloadUnnumbered   Code = "offload_unnumbered"
	OptionsOverLimit    Code = "options_over_limit"
	OrderAtRisk         Code = "order_at_risk"
	PathMTULowered      Code = "path_mtu_lowered"
	PathMTUUnwatched    Code = "path_mtu_unwatched"
	QuestionsRefused    Code = "questions_refused"
	QueueDrops          Code = "queue_drops"
	ReadersUnserved     Code = "readers_unserved"
	RecordsLost         Code = "records_lost"
	RecordsUnread       Code = "records_unreadable"
	ReloadFailed        Code = "reload_failed"
	RemovalFailed       Code = "removal_failed"
	RemovalPartial      Code = "removal_partial"
	RingBufferMissing   Code = "ring_buffer_missing"
	RoutesUnwatched     Code = "routes_unwatched"
	RuntimeChanges      Code = "runtime_changes"
	SegmentsMissing     Code = "segment_routing_missing"
	SelectionAssumed    Code = "selection_assumed"
	SelectionsDiffer    Code = "selections_differ"
	SequenceUnjoined    Code = "sequence_unjoined"
	SessionMissing      Code = "session_missing"
	TAIOffsetZero       Code = "tai_offset_zero"
	TAIUnsupported      Code = "tai_unsupported"
	TCXMissing          Code = "tcx_missing"
	TraceOverflow       Code = "trace_overflow"
	TraceTooSmall       Code = "trace_too_small"
	TunnelEndRemoved    Code = "tunnel_end_removed"
	TunnelErrorsLost    Code = "tunnel_errors_lost"
	TunnelErrorsUnheard Code = "tunnel_errors_unheard"
	TunnelRefused       Code = "tunnel_refused"
	TunnelUnroutable    Code = "tunnel_unroutable"
	XDPCopies           Code = "xdp_copies"
	XDPFallback         Code = "xdp_fallback"
	XDPMissing          Code = "xdp_missing"
)

// Kind is what all warnings of one code share.
type Kind struct {
	Code     Code
	Severity Severity
	Title    string
}

var kinds = []Kind{
	{AgentEnded, Error, "no agent runs, but its programs are still attached"},
	{AgentUnasked, Error, "the agent could not be asked"},
	{BPFFSPrivate, Degraded, "pins do not outlive this mount namespace"},
	{BPFUnusable, Error, "the kernel refuses BPF programs"},
	{BTFMissing, Degraded, "the kernel has no BTF"},
	{BlocksMissed, Degraded, "blocks of measured flows have no result"},
	{CapabilityMissing, Error, "a capability is missing (hint if only ports below 1024 need it)"},
	{ClockUnsynced, Degraded, "the clock is not synchronised"},
	{ClsactMissing, Error, "the kernel has neither tcx nor clsact"},
	{CollectorAway, Degraded, "a collector cannot be reached"},
	{CollectorsUnknown, Degraded, "packets to collectors may get a Direct Export"},
	{DecapsulationIdle, Degraded, "a tunnel ends here, but no packet is decapsulated"},
	{DecapsulationOpen, Hint, "a tunnel that ends here accepts packets from any sender"},
	{DecapRefused, Degraded, "packets of a tunnel that ends here are refused"},
	{DecapUnreached, Degraded, "no tunnel or trace can end at this node"},
	{EdgeFlowsLeft, Degraded, "flows measured from edge to edge have given way to others before their record"},
	{EncapShadowed, Degraded, "no packet gets the header of an encapsulation"},
	{EncapSkipped, Degraded, "packets leave without the header of an encapsulation"},
	{ExporterFailing, Degraded, "an exporter loses records"},
	{ExportsLimited, Hint, "not every packet with export: every makes a postcard"},
	{ExportsSuppressed, Degraded, "exports were suppressed in the last minute"},
	{ExportsUnsecured, Hint, "records cross the network without encryption"},
	{ExportsUnselective, Hint, "every packet to a prefix makes a postcard"},
	{ExportsUnsent, Degraded, "this node exports, but has no sink"},
	{FlowDelayHigh, Degraded, "a measured flow is slower than it may be"},
	{FlowDuplicated, Degraded, "packets of a measured flow come more than once, so its loss is not known"},
	{FlowLossHigh, Degraded, "a measured flow loses more than it may"},
	{FlowUnmarked, Degraded, "packets of measured flows leave without their mark"},
	{FlowUnmeasured, Degraded, "the loss of a measured flow is not known"},
	{FlowsUncovered, Degraded, "packets of measured flows may pass an interface uncounted"},
	{GapsUnknown, Degraded, "the number of missing packets of flows is not known"},
	{HookBypassed, Degraded, "a hook sees no packets, though its interface counts them (error at an edge of the domain)"},
	{HookDetached, Degraded, "a program was taken off its hook (error at an edge of the domain)"},
	{HookDisplaced, Degraded, "a program was not in its place among those of others (error at an edge of the domain)"},
	{HookChanged, Info, "programs of others came to a hook, or went, between two looks (error at an edge of the domain)"},
	{HookPreceded, Info, "programs of others run before Waymark's (warning at an edge of the domain)"},
	{InlineForwarded, Degraded, "headers are inserted into forwarded packets"},
	{InterfaceDown, Degraded, "a served interface is down, or has no carrier"},
	{InterfaceMissing, Degraded, "a configured interface is missing (error if it is an edge of the domain)"},
	{JITDisabled, Degraded, "the BPF JIT compiler is off"},
	{KernelUnheard, Degraded, "the events of the kernel's own IOAM are not received"},
	{KernelIOAM6, Error, "the kernel fills IOAM on a served interface, too"},
	{KeyRenamed, Info, "a key of the configuration has a former name"},
	{LROEnabled, Degraded, "large receive offload merges packets"},
	{LoopbackSuppressed, Hint, "packets with the Loopback flag are not returned"},
	{MemlockLimited, Info, "locked memory is limited"},
	{MetricsUnavailable, Degraded, "metrics are not served"},
	{MTUBelowMinimum, Error, "the MTU leaves less than 1280 bytes next to the insertion"},
	{FastRefused, Degraded, "an interface cannot forward fast"},
	{FastSuspended, Degraded, "the stack forwards instead of fast forwarding"},
	{MTUTooSmall, Degraded, "the MTU is too small for full-size packets and the insertion"},
	{NamesUnanswered, Info, "the collector does not answer that tells names of other nodes"},
	{NamespaceUnfilled, Info, "this node inserts traces that it does not fill"},
	{NamespaceUnknown, Degraded, "traces of an unknown namespace pass without data of this node"},
	{NodeIDShared, Degraded, "two nodes have the same id, or packets pass a node twice"},
	{NodeIDUnset, Info, "this node has no id"},
	{NotAnswering, Degraded, "this node does not answer others as configured"},
	{NumbersRestart, Degraded, "Sequence Numbers of flows begin again"},
	{OptionUnsupported, Info, "options of a type pass that this node does not process"},
	{PacketsMalformed, Degraded, "packets with malformed headers are not measured"},
	{ProbesBeyondRate, Degraded, "other nodes send more probes than this one answers"},
	{ProbesLost, Error, "probes to a destination vanish on the way"},
	{ProbesNotInBand, Degraded, "test packets of a flow are not sent through its segments"},
	{ProbesStopped, Error, "the probes of the configuration are not sent"},
	{ProbesSuppressed, Degraded, "probes were not sent, because of their budget or because the agent was late"},
	{ProbesUnanswered, Degraded, "probes to a destination were never answered"},
	{ProbesUnsent, Degraded, "the delay of flows is not measured with test packets"},
	{ProbesUntimed, Degraded, "answers to test packets have times that cannot be"},
	{OffloadUnnumbered, Hint, "offloaded packets leave without proofs of transit and Edge-to-Edge options"},
	{OptionsOverLimit, Degraded, "an encapsulation inserts more options than Linux accepts by default"},
	{OrderAtRisk, Hint, "receive offload may reorder segments of traced TCP flows"},
	{DroppedAtEdge, Degraded, "packets are dropped at an interface without a role"},
	{PathMTULowered, Degraded, "a link on a tunnel's path is too small for full-size packets and the insertion"},
	{PathMTUUnwatched, Degraded, "the path MTU of tunnels is not watched"},
	{ProofsRejected, Degraded, "few proofs of transit are accepted"},
	{QuestionsRefused, Degraded, "datagrams of other nodes are not answered"},
	{QueueDrops, Degraded, "the queue of a served interface drops packets"},
	{ReadersUnserved, Degraded, "the group that may read cannot ask the agent"},
	{RecordsLost, Degraded, "records were lost in the last minute"},
	{RecordsUnread, Degraded, "records could not be read completely"},
	{ReloadFailed, Degraded, "the last reload failed"},
	{RemovalFailed, Degraded, "headers could not be removed from packets"},
	{RemovalPartial, Degraded, "IOAM stays in packets from which it is to be removed"},
	{RingBufferMissing, Error, "the kernel has no BPF ring buffer"},
	{RoutesUnwatched, Degraded, "route watch failed; forwarding falls back to the kernel stack"},
	{RuntimeChanges, Info, "the running configuration differs from the file"},
	{SegmentsMissing, Info, "the kernel has no segment routing"},
	{SelectionAssumed, Hint, "it is not checked that all nodes select the same packets"},
	{SelectionsDiffer, Degraded, "nodes of a flow select different packets"},
	{SequenceUnjoined, Degraded, "Sequence Numbers are sent without their Flow-ID"},
	{SessionMissing, Degraded, "a responder cannot answer about any flow"},
	{TAIOffsetZero, Degraded, "the kernel's TAI offset is 0"},
	{TAIUnsupported, Error, "BPF programs cannot read TAI"},
	{TCXMissing, Info, "the kernel has no tcx"},
	{TraceOverflow, Degraded, "traces are full before all nodes have written into them"},
	{TraceTooSmall, Degraded, "a trace is too small for this node's data"},
	{TunnelEndRemoved, Degraded, "tunnels no longer end here"},
	{TunnelErrorsLost, Degraded, "ICMPv6 errors were lost in the last minute"},
	{TunnelErrorsUnheard, Degraded, "errors about tunnelled packets do not reach their senders"},
	{TunnelRefused, Degraded, "a node refuses packets of a tunnel"},
	{TunnelUnroutable, Degraded, "a tunnel's destination has no route"},
	{XDPCopies, Hint, "native XDP slows TCP down on a veth"},
	{XDPFallback, Info, "native XDP is not used"},
	{XDPMissing, Info, "the kernel has no XDP"},
}

// Kinds lists every kind of warning by code.
func Kinds() []Kind { return slices.Clone(kinds) }

// Warning is one problem.
type Warning struct {
	Code      Code     `json:"code"`
	Severity  Severity `json:"severity"`
	Title     string   `json:"title"`
	Interface string   `json:"interface,omitempty"`
	Text      string   `json:"text"`
	Cure      string   `json:"cure"`
	// Degree is how bad it is among warnings of its code, in a unit of theirs: bytes that an MTU
	// lacks. 0: they are not compared.
	Degree int `json:"degree,omitempty"`
	// Since is when an agent that runs first found it; absent where no agent watches.
	Since instant.Time `json:"since,omitzero"`
}

// New makes a warning of a kind. The text states the facts, with numbers; the
// cure says what to do.
func New(code Code, iface, text, cure string) Warning {
	w := Warning{Code: code, Severity: Error, Interface: iface, Text: text, Cure: cure}
	if i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Code == code }); i >= 0 {
		w.Severity, w.Title = kinds[i].Severity, kinds[i].Title
	}
	return w
}

// Sort orders warnings: the most severe first, then by code, degree and interface.
func Sort(ws []Warning) {
	slices.SortStableFunc(ws, func(a, b Warning) int {
		return cmp.Or(
			cmp.Compare(b.Severity.rank(), a.Severity.rank()),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(b.Degree, a.Degree),
			cmp.Compare(a.Interface, b.Interface))
	})
}

// WithoutHints returns the warnings that need action.
func WithoutHints(ws []Warning) []Warning {
	return slices.DeleteFunc(ws, func(w Warning) bool { return w.Severity == Hint })
}

// Worst is the highest severity among warnings, "" without any.
func Worst(ws []Warning) Severity {
	var worst Severity
	for _, w := range ws {
		if w.Severity.rank() > worst.rank() {
			worst = w.Severity
		}
	}
	return worst
}
