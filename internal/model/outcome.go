// SPDX-License-Identifier: Apache-2.0

package model

// Outcome is what a hook did with a packet. Every packet that a hook sees has
// exactly one. If several apply, for example when a packet carries several
// options, the numerically greatest is the packet's outcome.
//
// The numbers are those of enum outcome in bpf/abi.h; a test compares them.
type Outcome uint8

const (
	OutcomeNotIPv6 Outcome = iota // not an IPv6 packet
	OutcomeNoIOAM                 // IPv6 without IOAM, and nothing to insert

	// What happened to options that arrived.
	OutcomeUntouched         // egress: IOAM that this node's ingress did not fill: untouched
	OutcomeOptionUnsupported // IOAM option-type this node does not process: untouched
	OutcomeNamespaceUnknown  // namespace not configured: untouched
	OutcomeOverflowSet       // the overflow flag was set before: untouched
	OutcomeDirectExport      // Direct Export: read, unchanged
	OutcomeIncrementalTrace  // incremental trace: left to the egress hook, where it may grow
	OutcomeE2EMeasured       // Edge-to-Edge: counted in its flow; its header is removed
	OutcomePotUpdated        // proof of transit: this node's share added
	OutcomePotAccepted       // proof of transit: right, and its number is new
	OutcomeTraceFilled       // ingress: node data written; egress: completed
	OutcomeTraceGrown        // incremental trace: the packet has grown by the node data
	OutcomeTraceOverflow     // no room for the node data: overflow flag set
	OutcomePotTooOld         // proof of transit: right, but its number is older than the window
	OutcomePotAhead          // proof of transit: right, but its number is of a later time than clocks explain
	OutcomePotReplayed       // proof of transit: right, but its number was accepted before
	OutcomePotInvalid        // proof of transit: a number that is no element of the field: untouched
	OutcomePotRejected       // proof of transit: wrong

	// Why a packet that matched an encapsulation passed unchanged.
	OutcomeEncapNotSelected        // its flow is not selected, or it is not among the first k of n, or beyond the budget
	OutcomeEncapSkippedControl     // ICMPv6 error, neighbour discovery, MLD, link-local or multicast
	OutcomeEncapSkippedExport      // addressed to a collector that this node knows
	OutcomeEncapSkippedHBH         // inline: an Edge-to-Edge option is to be inserted after a Hop-by-Hop header that is too long for that
	OutcomeEncapSkippedAH          // inline: the packet has an Authentication header
	OutcomeEncapSkippedRouterAlert // inline: the Hop-by-Hop header has a Router Alert
	OutcomeEncapSkippedJumbo       // inline: the Hop-by-Hop header has a Jumbo Payload option
	OutcomeEncapSkippedOptions     // inline: the header that is there has no room for the options
	OutcomeEncapSkippedMTU         // the result would exceed the egress MTU
	OutcomeEncapSkippedGSO         // offload state that an insertion would break
	OutcomeEncapSkippedHeadroom    // the kernel gave no room in the buffer
	OutcomeEncapInserted           // header inserted inline
	OutcomeEncapTunneled           // outer IPv6 header and Hop-by-Hop header added
	OutcomeEncapUnfilled           // one of these, with a trace whose namespace is not configured: left to others to fill
	OutcomeEncapOverflow           // one of these, with a trace too small for this node's own data: overflow flag set

	// Removal of headers and tunnels.
	OutcomeRemovalPartial     // something else shares the header: unchanged but for the node data
	OutcomeDecapFailed        // the kernel refused to shrink the packet: unchanged but for the node data
	OutcomeDecapRefusedSource // a tunnel that ends here, from a source that it does not accept: unchanged
	OutcomeDecapRefusedBare   // a tunnel that ends here, without IOAM of a namespace of this node: unchanged
	OutcomeDecapRefusedInner  // a tunnel that ends here, with a link-local packet inside: unchanged
	OutcomeOptionsRemoved     // options removed from headers of which something stays
	OutcomeInlineRemoved      // Hop-by-Hop header removed
	OutcomeTunnelDecapsulated // outer IPv6 header and extension header removed
	OutcomeActiveTerminated   // a probe whose header, or trace, was to be removed: dropped, by policy (RFC 9322 §5)
	OutcomeLoopbackReceived   // a copy of a packet that this node had sent with the Loopback flag: dropped (RFC 9322 §4.4)

	// The domain's edge.
	OutcomeBoundaryIgnored         // passed unchanged, by policy
	OutcomeBoundaryStripPartial    // policy strip, but something else shares a header that cannot be taken apart: unchanged
	OutcomeBoundaryStripped        // IOAM removed, by policy, and the Hop-by-Hop header if it held nothing else
	OutcomeBoundaryDropped         // IOAM: dropped, by policy
	OutcomeBoundaryUnprovenDropped // not proven to be free of IOAM: dropped, by policy
	OutcomeBoundaryTunnelDropped   // an outsider's tunnel to one of the domain's tunnel destinations: dropped, by policy

	// Proofs of transit.
	OutcomePotDropped // its proof is too old, replayed, invalid or rejected: dropped, by policy

	// Malformed packets: forwarded unchanged (compatibility mainline drops those
	// that the kernel drops).
	OutcomeMalformedIPv6            // truncated header or wrong version
	OutcomeMalformedHeader          // Hop-by-Hop header beyond the packet, or an option beyond the header
	OutcomeMalformedTooManyOptions  // more options than MaxOptionsPerHeader, or more IOAM options than MaxOptionsPerPacket
	OutcomeMalformedTunnel          // tunnel that ends here, truncated, or with an inner packet longer than the outer one
	OutcomeMalformedAlignment       // IOAM option not aligned to 4n
	OutcomeMalformedOptionLength    // option too short for its IOAM header
	OutcomeMalformedNodeLength      // NodeLen inconsistent with the trace type
	OutcomeMalformedRemainingLength // RemainingLen beyond the option
	OutcomeMalformedSequences       // Edge-to-Edge option with two Sequence Numbers
	OutcomeMalformedNodeData        // incremental trace that ends within the data of a node

	// NumOutcomes is the number of outcomes.
	NumOutcomes
)

// The outcomes of options that a hook treats are numbered from FirstOptionOutcome
// to below NumOptionOutcomes. They are also a packet's outcome if nothing else
// happens to it. OutcomeUntouched is not among them, because packets whose
// options no hook read have it, too.
const (
	FirstOptionOutcome = OutcomeOptionUnsupported
	NumOptionOutcomes  = OutcomePotRejected + 1
)
