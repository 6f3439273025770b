// SPDX-License-Identifier: Apache-2.0

package model

import "fmt"

// outcomeTexts has each outcome's name, as it appears in status, metrics and
// records; the page and heading of docs/data-plane that say when a packet has it;
// and its meaning.
var outcomeTexts = [NumOutcomes]struct{ name, section, meaning string }{
	OutcomeNotIPv6:                  {"not_ipv6", "parsing.md#what-ends-parsing", "not an IPv6 packet"},
	OutcomeNoIOAM:                   {"no_ioam", "ingress.md#step-2-no-ioam", "IPv6 without IOAM, and nothing to insert"},
	OutcomeUntouched:                {"untouched", "egress.md#step-2-completion", "IOAM that this node did not fill: unchanged"},
	OutcomeOptionUnsupported:        {"option_unsupported", "ingress.md#step-5-every-option", "IOAM option-type that this node does not process: unchanged"},
	OutcomeNamespaceUnknown:         {"namespace_unknown", "ingress.md#step-5-every-option", "namespace not configured: unchanged"},
	OutcomeOverflowSet:              {"overflow_set", "ingress.md#step-5-every-option", "the overflow flag was already set: unchanged"},
	OutcomeDirectExport:             {"direct_export", "ingress.md#step-5-every-option", "Direct Export: read, unchanged"},
	OutcomeIncrementalTrace:         {"incremental_trace", "ingress.md#step-5-every-option", "incremental trace, at ingress: unchanged; it grows where the packet leaves"},
	OutcomeE2EMeasured:              {"e2e_measured", "edge-to-edge.md#options-that-are-removed", "Edge-to-Edge: counted in its flow, and removed"},
	OutcomePotUpdated:               {"pot_updated", "proof-of-transit.md#on-arrival", "proof of transit: this node's share added"},
	OutcomePotAccepted:              {"pot_accepted", "proof-of-transit.md#on-arrival", "proof of transit: right; the packet passed every node of the path once"},
	OutcomeTraceFilled:              {"trace_filled", "ingress.md#step-5-every-option", "node data written (ingress) or completed (egress)"},
	OutcomeTraceGrown:               {"trace_grown", "incremental-traces.md#when-they-grow", "incremental trace: the packet has grown by the node data"},
	OutcomeTraceOverflow:            {"trace_overflow", "ingress.md#step-5-every-option", "no room for the node data, in the trace or, where it grows, in the packet: overflow flag set"},
	OutcomePotTooOld:                {"pot_too_old", "proof-of-transit.md#on-arrival", "proof of transit: right, but its number is older than the window in which replayed packets are found"},
	OutcomePotAhead:                 {"pot_ahead", "proof-of-transit.md#on-arrival", "proof of transit: right, but its number is of a time that is ahead of this node's clock by more than clock-difference"},
	OutcomePotReplayed:              {"pot_replayed", "proof-of-transit.md#on-arrival", "proof of transit: right, but its number was accepted before"},
	OutcomePotInvalid:               {"pot_invalid", "proof-of-transit.md#on-arrival", "proof of transit: a number that no node of the profile writes: unchanged"},
	OutcomePotRejected:              {"pot_rejected", "proof-of-transit.md#on-arrival", "proof of transit: wrong; the packet skipped a node or passed one twice, or the nodes' keys do not belong together"},
	OutcomeEncapNotSelected:         {"encap_not_selected", "encapsulation.md#which-packets", "matched an encapsulation, but is not of a selected flow, is not among the first k of n, or is beyond the budget"},
	OutcomeEncapSkippedControl:      {"encap_skipped_control", "encapsulation.md#which-packets", "not encapsulated: ICMPv6 error, neighbour discovery, MLD, link-local or multicast"},
	OutcomeEncapSkippedExport:       {"encap_skipped_export", "encapsulation.md#which-packets", "not encapsulated: addressed to a collector that this node knows"},
	OutcomeEncapSkippedSegments:     {"encap_skipped_segments", "encapsulation.md#which-packets", "not encapsulated: has segments left in a Routing header, such as SRv6, which the tunnel would bypass (mode encap)"},
	OutcomeEncapSkippedHBH:          {"encap_skipped_hbh", "encapsulation.md#which-packets", "not encapsulated: with an Edge-to-Edge option, its Hop-by-Hop and Destination Options headers would be too long to be taken apart again (inline)"},
	OutcomeEncapSkippedAH:           {"encap_skipped_ah", "encapsulation.md#which-packets", "not encapsulated: has an Authentication header (inline)"},
	OutcomeEncapSkippedRouterAlert:  {"encap_skipped_router_alert", "encapsulation.md#which-packets", "not encapsulated: has a Router Alert option (inline)"},
	OutcomeEncapSkippedJumbo:        {"encap_skipped_jumbo", "encapsulation.md#which-packets", "not encapsulated: has a Jumbo Payload option (inline)"},
	OutcomeEncapSkippedOptions:      {"encap_skipped_options", "encapsulation.md#which-packets", "not encapsulated: its Hop-by-Hop or Destination Options header has no room for more options (inline)"},
	OutcomeEncapSkippedUnremovable:  {"encap_skipped_unremovable", "encapsulation.md#which-packets", "not encapsulated: its headers are such that the options could not be removed again: a second Hop-by-Hop header, or a malformed IOAM option (inline)"},
	OutcomeEncapSkippedMTU:          {"encap_skipped_mtu", "encapsulation.md#what-fits", "not encapsulated: would exceed the egress MTU"},
	OutcomeEncapSkippedGSO:          {"encap_skipped_gso", "encapsulation.md#what-fits", "not encapsulated: offload state that an insertion would break"},
	OutcomeEncapSkippedHeadroom:     {"encap_skipped_headroom", "encapsulation.md#which-packets", "not encapsulated: the kernel gave no room in the buffer"},
	OutcomeEncapInserted:            {"encap_inserted", "encapsulation.md#which-packets", "Hop-by-Hop header inserted inline"},
	OutcomeEncapTunneled:            {"encap_tunneled", "encapsulation.md#which-packets", "outer IPv6 header and Hop-by-Hop header added"},
	OutcomeEncapUnfilled:            {"encap_unfilled", "encapsulation.md#the-prebuilt-header", "header added, with a trace whose namespace is not configured: others fill it"},
	OutcomeEncapOverflow:            {"encap_overflow", "encapsulation.md#the-prebuilt-header", "header added, with a trace too small for this node's own data: overflow flag set"},
	OutcomeRemovalPartial:           {"removal_partial", "ingress.md#step-6-removal", "another option shares the headers that should be removed: they stay"},
	OutcomeDecapFailed:              {"decap_failed", "ingress.md#step-6-removal", "the kernel refused to shrink the packet, for lack of memory or its offload state: the header stays, and an inline one goes on"},
	OutcomeDecapRefusedSource:       {"decap_refused_source", "tunnel-ends.md#what-is-accepted", "tunnel that ends here, from a source that is not in its sources: left to the kernel, which discards it unless it has a tunnel of its own"},
	OutcomeDecapRefusedBare:         {"decap_refused_bare", "tunnel-ends.md#what-is-accepted", "tunnel that ends here, without IOAM of a namespace of this node: left to the kernel, which discards it unless it has a tunnel of its own"},
	OutcomeDecapRefusedInner:        {"decap_refused_inner", "tunnel-ends.md#what-is-accepted", "tunnel that ends here, with a packet that belongs to a link only (neighbour discovery, MLD, addresses that are not forwarded): left to the kernel, which discards it unless it has a tunnel of its own"},
	OutcomeOptionsRemoved:           {"options_removed", "ingress.md#step-6-removal", "options removed from headers of which something stays; traces are recorded"},
	OutcomeInlineRemoved:            {"inline_removed", "ingress.md#step-6-removal", "Hop-by-Hop header removed and recorded"},
	OutcomeTunnelDecapsulated:       {"tunnel_decapsulated", "ingress.md#step-6-removal", "outer IPv6 header and Hop-by-Hop header removed and recorded"},
	OutcomeActiveTerminated:         {"active_terminated", "loopback-and-active.md#active", "probe with the Active flag, where its trace was to be removed: recorded, and dropped by policy"},
	OutcomeLoopbackReceived:         {"loopback_received", "loopback-and-active.md#copies", "returned copy of a packet on which this node had set the Loopback flag: recorded and dropped"},
	OutcomeBoundaryIgnored:          {"boundary_ignored", "edge.md#what-decides", "IOAM at the domain's edge, passed unchanged by policy"},
	OutcomeBoundaryStripPartial:     {"boundary_strip_partial", "edge.md#stripping", "IOAM at the domain's edge, not or not wholly stripped: another option shares the header, which is too long, or that of a jumbogram; or a Destination Options header is out of reach"},
	OutcomeBoundaryStripped:         {"boundary_stripped", "edge.md#stripping", "IOAM at the domain's edge, removed by policy: a header, or options of one that others share"},
	OutcomeBoundaryDropped:          {"boundary_dropped", "edge.md#what-decides", "IOAM at the domain's edge, dropped by policy"},
	OutcomeBoundaryUnprovenDropped:  {"boundary_unproven_dropped", "edge.md#what-decides", "at the domain's edge, not proven to be free of IOAM, dropped by policy"},
	OutcomeBoundaryTunnelDropped:    {"boundary_tunnel_dropped", "tunnel-ends.md#what-the-edge-refuses", "tunnel from outside to a tunnel destination of the domain, dropped by policy"},
	OutcomePotDropped:               {"pot_dropped", "proof-of-transit.md#drop", "its proof of transit is too old, replayed, invalid or rejected: dropped by policy"},
	OutcomeMalformedIPv6:            {"malformed_ipv6", "parsing.md#what-ends-parsing", "truncated IPv6 header or wrong version"},
	OutcomeMalformedHeader:          {"malformed_header", "parsing.md#what-ends-parsing", "Hop-by-Hop header beyond the packet, or an option beyond the header"},
	OutcomeMalformedTooManyOptions:  {"malformed_too_many_options", "parsing.md#what-ends-parsing", "more options in the Hop-by-Hop header than the limit"},
	OutcomeMalformedTunnel:          {"malformed_tunnel", "tunnel-ends.md#what-is-accepted", "tunnel that ends here, cut short, or with a longer packet in it: unchanged"},
	OutcomeMalformedAlignment:       {"malformed_alignment", "ingress.md#step-3-validation", "IOAM option not aligned to 4 bytes"},
	OutcomeMalformedOptionLength:    {"malformed_option_length", "ingress.md#step-3-validation", "IOAM option too short for its header"},
	OutcomeMalformedNodeLength:      {"malformed_node_length", "ingress.md#step-3-validation", "NodeLen inconsistent with the trace type"},
	OutcomeMalformedRemainingLength: {"malformed_remaining_length", "ingress.md#step-3-validation", "RemainingLen beyond the option"},
	OutcomeMalformedSequences:       {"malformed_sequences", "edge-to-edge.md#reading", "Edge-to-Edge option with Sequence Numbers of 64 and of 32 bits"},
	OutcomeMalformedNodeData:        {"malformed_node_data", "ingress.md#step-3-validation", "incremental trace that ends within the data of a node"},
}

// String returns the outcome's name, such as "trace_filled".
func (o Outcome) String() string {
	if o < NumOutcomes {
		return outcomeTexts[o].name
	}
	return fmt.Sprintf("outcome_%d", uint8(o))
}

// Meaning returns a phrase for readers.
func (o Outcome) Meaning() string {
	if o < NumOutcomes {
		return outcomeTexts[o].meaning
	}
	return ""
}

// Section returns where docs/data-plane explains the outcome, such as
// "edge.md#stripping".
func (o Outcome) Section() string {
	if o < NumOutcomes {
		return outcomeTexts[o].section
	}
	return ""
}

// MarshalText is [Outcome.String]; an unknown value is an error.
func (o Outcome) MarshalText() ([]byte, error) {
	if o >= NumOutcomes {
		return nil, fmt.Errorf("%d is not an outcome", uint8(o))
	}
	return []byte(o.String()), nil
}

// UnmarshalText reads an outcome's name.
func (o *Outcome) UnmarshalText(text []byte) error {
	for candidate := range NumOutcomes {
		if outcomeTexts[candidate].name == string(text) {
			*o = candidate
			return nil
		}
	}
	return fmt.Errorf("%q is not an outcome", text)
}

// Malformed reports whether the outcome is one of the malformed_… ones.
func (o Outcome) Malformed() bool { return o >= OutcomeMalformedIPv6 && o < NumOutcomes }

// Drops reports whether the node drops the packet by policy, and not only with compatibility mainline.
func (o Outcome) Drops() bool {
	switch o {
	case OutcomeActiveTerminated, OutcomeLoopbackReceived, OutcomeBoundaryDropped, OutcomeBoundaryUnprovenDropped,
		OutcomeBoundaryTunnelDropped, OutcomePotDropped:
		return true
	}
	return false
}

// Outcomes returns every outcome in numerical order.
func Outcomes() []Outcome {
	all := make([]Outcome, 0, NumOutcomes)
	for o := range NumOutcomes {
		all = append(all, o)
	}
	return all
}

// Removed reports whether the packet lost its header, or its tunnel.
func (o Outcome) Removed() bool {
	return o == OutcomeInlineRemoved || o == OutcomeTunnelDecapsulated
}
