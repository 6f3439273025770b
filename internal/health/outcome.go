// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/model"
)

// Class says what an operator loses by an outcome or by what a counter counts.
type Class uint8

// The classes.
const (
	Harmless Class = iota + 1 // nothing, or what is missing has an outcome of its own
	Missing                   // data of this node, or of packets that go on
	Lost                      // packets or records
	Dropped                   // packets, by a policy of the configuration
)

// String is the class in documents.
func (c Class) String() string {
	return [...]string{"", "harmless", "data missing", "lost", "dropped by policy"}[c]
}

// Meaning is what an outcome means for an operator. All but harmless ones have a kind of
// warning, which is given above a rate.
type Meaning struct {
	Class   Class
	Warning Code

	why, cure string // for the kinds of noted; "" where another function words the warning
}

func harmless() Meaning { return Meaning{Class: Harmless} }

// skipped is the meaning of packets without the header of an encapsulation.
func skipped(why, cure string) Meaning {
	return Meaning{Class: Missing, Warning: EncapSkipped, why: why, cure: cure}
}

func malformed(why string) Meaning {
	return Meaning{Class: Missing, Warning: PacketsMalformed, why: why,
		cure: "find the sender, or the node on the way that spoils them: " +
			"'tcpdump -i IF -w FILE ip6' and 'waymark decode FILE' show their headers"}
}

const (
	byTunnel  = "use mode: encap, or auto with a tunnel, which leaves the packet itself as it is"
	alsoOther = "remove the other options where they are inserted, or end the domain where nothing else shares the header; with " +
		"boundary: drop nothing leaves"
)

// meanings has every outcome; a test fails for one without a class.
var meanings = [model.NumOutcomes]Meaning{
	model.OutcomeNotIPv6:          harmless(),
	model.OutcomeNoIOAM:           harmless(),
	model.OutcomeUntouched:        harmless(), // where the packet arrived, its own outcome says why
	model.OutcomeDirectExport:     harmless(),
	model.OutcomeIncrementalTrace: harmless(),
	model.OutcomeE2EMeasured:      harmless(),
	model.OutcomePotUpdated:       harmless(),
	model.OutcomePotAccepted:      harmless(),
	model.OutcomeTraceFilled:      harmless(),
	model.OutcomeTraceGrown:       harmless(),
	model.OutcomeOptionUnsupported: {
		Missing,
		OptionUnsupported,
		"of an option-type that it does not process",
		"find the node that inserts them; no change is needed if other nodes are to process them",
	},
	model.OutcomeNamespaceUnknown: {Missing, NamespaceUnknown, "of a namespace that is not configured here",
		"add it: waymark ioam namespace add ID (or namespaces in the file); 'tcpdump -i IF -w FILE ip6' and 'waymark decode FILE' show its id. No change is needed if this node is to leave it alone"},
	model.OutcomeOverflowSet:   {Missing, TraceOverflow, "that an earlier node has marked as full", enlarge},
	model.OutcomeTraceOverflow: {Missing, TraceOverflow, "without room for its data", enlarge},

	model.OutcomePotTooOld:   {Missing, ProofsRejected, "", ""},
	model.OutcomePotAhead:    {Missing, ProofsRejected, "", ""},
	model.OutcomePotReplayed: {Missing, ProofsRejected, "", ""},
	model.OutcomePotInvalid:  {Missing, ProofsRejected, "", ""},
	model.OutcomePotRejected: {Missing, ProofsRejected, "", ""},
	model.OutcomePotDropped:  {Dropped, ProofsRejected, "", ""},

	model.OutcomeEncapNotSelected:    harmless(), // the configuration selects
	model.OutcomeEncapSkippedControl: harmless(), // never measured
	model.OutcomeEncapSkippedExport:  harmless(), // RFC 9326 §3.1.2 demands it
	model.OutcomeEncapSkippedSegments: skipped(
		"they have SRv6 segments left, which a tunnel would skip",
		"use mode auto or inline there; or end the tunnel after the last segment, and insert it before the segments",
	),
	model.OutcomeEncapSkippedUnremovable: skipped(
		"the options could not be removed from their headers again (a second Hop-by-Hop header, or a malformed IOAM option)",
		byTunnel,
	),
	model.OutcomeEncapSkippedHBH:         skipped("their Hop-by-Hop header is too long to insert an Edge-to-Edge option after it", byTunnel),
	model.OutcomeEncapSkippedAH:          skipped("they have an Authentication header", byTunnel),
	model.OutcomeEncapSkippedRouterAlert: skipped("they have a Router Alert", byTunnel),
	model.OutcomeEncapSkippedJumbo:       skipped("they are jumbograms", byTunnel),
	model.OutcomeEncapSkippedOptions:     skipped("their header has no room for more options", byTunnel+"; or insert less"),
	model.OutcomeEncapSkippedMTU: skipped(
		"they would have exceeded the MTU",
		"raise the MTU of the path by what the encapsulation adds, or let sources send smaller packets",
	),
	model.OutcomeEncapSkippedGSO: skipped(
		"their offload state (GSO) forbids it",
		"ethtool -K IF gro off where they arrive, or -K IF tso off gso off if this machine sends them",
	),
	model.OutcomeEncapSkippedHeadroom: skipped(
		"the kernel gave no room in their buffers",
		"with forwarding: fast, try forwarding: stack on the interface of arrival; if 'dmesg' shows a lack of memory, give the machine more",
	),
	model.OutcomeEncapInserted: harmless(),
	model.OutcomeEncapTunneled: harmless(),
	model.OutcomeEncapUnfilled: {Missing, NamespaceUnfilled, "", ""},
	model.OutcomeEncapOverflow: {Missing, TraceTooSmall, "", ""},

	model.OutcomeRemovalPartial:     {Missing, RemovalPartial, "another option shares their header, which cannot be taken apart", alsoOther},
	model.OutcomeDecapFailed:        {Lost, RemovalFailed, "", ""},
	model.OutcomeDecapRefusedSource: {Lost, DecapRefused, "", ""},
	model.OutcomeDecapRefusedBare:   {Lost, DecapRefused, "", ""},
	model.OutcomeDecapRefusedInner: {Lost, DecapRefused, "a packet inside that belongs to one link only",
		"find the encapsulating node: it must not put neighbour discovery, MLD or link-local addresses into a tunnel"},
	model.OutcomeOptionsRemoved:     harmless(),
	model.OutcomeInlineRemoved:      harmless(),
	model.OutcomeTunnelDecapsulated: harmless(),
	model.OutcomeActiveTerminated:   harmless(), // a probe at its end, with a record
	model.OutcomeLoopbackReceived:   harmless(), // a copy at its end, with a record

	model.OutcomeBoundaryIgnored: harmless(), // the policy is to do nothing
	model.OutcomeBoundaryStripPartial: {
		Missing,
		RemovalPartial,
		"another option shares their header, which is too long to be taken apart, they are jumbograms, or their IOAM is in a Destination Options header after another one",
		alsoOther,
	},
	model.OutcomeBoundaryStripped:        harmless(), // the policy is to remove it, and the packet goes on
	model.OutcomeBoundaryDropped:         {Dropped, DroppedAtEdge, "", ""},
	model.OutcomeBoundaryUnprovenDropped: {Dropped, DroppedAtEdge, "", ""},
	model.OutcomeBoundaryTunnelDropped:   {Dropped, DroppedAtEdge, "", ""},

	model.OutcomeMalformedIPv6:            malformed("a truncated IPv6 header, or a wrong version"),
	model.OutcomeMalformedHeader:          malformed("a Hop-by-Hop header or option beyond its end"),
	model.OutcomeMalformedTooManyOptions:  malformed("too many options"),
	model.OutcomeMalformedTunnel:          malformed("a tunnel with a cut packet in it"),
	model.OutcomeMalformedAlignment:       malformed("an IOAM option that is not aligned"),
	model.OutcomeMalformedOptionLength:    malformed("an IOAM option that is too short"),
	model.OutcomeMalformedNodeLength:      malformed("a NodeLen that contradicts the trace type"),
	model.OutcomeMalformedRemainingLength: malformed("a RemainingLen beyond the option"),
	model.OutcomeMalformedSequences:       malformed("two Sequence Numbers in an Edge-to-Edge option"),
	model.OutcomeMalformedNodeData:        malformed("an incremental trace that ends within node data"),
}

const enlarge = "raise size of the trace, where it is inserted, to the data of one node times the nodes of the path; or use " +
	"fewer bits of the type"

// MeaningOf is what an outcome means.
func MeaningOf(o model.Outcome) Meaning { return meanings[o] }

// notedOutcomes are the outcomes that Noted words.
var notedOutcomes = func() (list []model.Outcome) {
	for _, o := range model.Outcomes() {
		if meanings[o].why != "" {
			list = append(list, o)
		}
	}
	return list
}()

// NotedOutcomes are the outcomes whose recent numbers [Noted] needs, in its order.
func NotedOutcomes() []model.Outcome { return slices.Clone(notedOutcomes) }

// notedTexts begin the text of a kind, after the number of packets and before the reasons.
var notedTexts = map[Code]string{
	OptionUnsupported: "%d IOAM options came to %s in the last minute to which this node added nothing: %s",
	NamespaceUnknown:  "%d IOAM options came to %s in the last minute to which this node added nothing: %s",
	TraceOverflow:     "%d traces came to %s in the last minute in which this node's data are missing: %s",
	EncapSkipped:      "%d packets left without the header of an encapsulation at %s in the last minute: %s",
	DecapRefused:      "%d packets of tunnels that end here were refused at %s in the last minute, and the kernel discards them: %s",
	RemovalPartial:    "%d packets kept IOAM at %s in the last minute that was to be removed: %s",
	PacketsMalformed:  "%d packets with malformed headers came to %s in the last minute; none is measured, and all go on (with compatibility: mainline, those that Linux drops do not): %s",
}

// Noted warns of outcomes for which data of this node are missing; recent are their numbers
// of the last minute, in the order of NotedOutcomes.
func Noted(iface string, recent []uint64) []Warning {
	type counted struct {
		outcome model.Outcome
		n       uint64
	}
	counts := make(map[Code][]counted)
	totals := make(map[Code]uint64)
	for i, o := range notedOutcomes {
		if n := recent[i]; n > 0 {
			code := meanings[o].Warning
			counts[code] = append(counts[code], counted{o, n})
			totals[code] += n
		}
	}
	var ws []Warning
	for code, list := range counts {
		if totals[code] < worthWarning {
			continue
		}
		slices.SortStableFunc(list, func(a, b counted) int { return cmp.Compare(b.n, a.n) })
		var reasons []string
		for _, c := range list {
			reasons = append(reasons, fmt.Sprintf("%s (%v %d)", meanings[c.outcome].why, c.outcome, c.n))
		}
		cure := strings.ReplaceAll(meanings[list[0].outcome].cure, " IF ", " "+iface+" ")
		ws = append(ws, New(code, iface, fmt.Sprintf(notedTexts[code], totals[code], iface, strings.Join(reasons, ", ")), cure))
	}
	Sort(ws)
	return ws
}
