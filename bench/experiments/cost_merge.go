// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"net/netip"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// numberingBeside inserts a trace, and an Edge-to-Edge option that needs another header.
const numberingBeside = "edge to edge: beside a trace"

// Options of other protocols, most of them 4 and 8 bytes long.
var (
	routerAlertOption = []byte{5, 2, 0, 0}
	jumboOption       = []byte{0xc2, 6, 0, 1, 0, 0, 0, 0}
	unknownOption     = []byte{0x1e, 2, 0, 0}
	filledOption      = []byte{0x1e, 2, 0xbe, 0xef} // other octets than those that come to its place
	longOption        = append([]byte{0x1e, 248}, make([]byte, 248)...)
	otherOption       = append([]byte{0x1e, 228}, make([]byte, 228)...)
)

// mergeConfigs are the nodes that insert into a header which is there.
func mergeConfigs() map[string]model.NodeConfig {
	c := encapsulation(model.ModeInline, oneNode(typeIDs))
	c.Encapsulations[0].Match = model.Match{Destination: netip.PrefixFrom(harness.Destination, 64).Masked()}
	c.Encapsulations[0].Options = append(c.Encapsulations[0].Options, model.InsertedOption{
		EdgeToEdge: &model.EdgeToEdgeOption{Namespace: namespace, Type: ioam.EdgeToEdgeSequence32}})
	return map[string]model.NodeConfig{numberingBeside: c}
}

// mergeCases measure insertion into a Hop-by-Hop header that holds other options, and removal
// from one.
func mergeCases() []costCase {
	egress := func(detail string, outcome model.Outcome, config string, frame []byte, aim float64) costCase {
		return costCase{datapath.HookEgressTC, detail, outcome, config, frame, harness.ArrivedAt(other), aim}
	}
	one, nine := encapsulating(model.ModeInline, typeIDs, 1), encapsulating(model.ModeInline, typeIDs, mostOptions)
	times := encapsulating(model.ModeInline, typeTimes, 1)
	shared := padded(102, unknownOption)
	ah := harness.With(padded(102), harness.AtNextHeader, 51)
	// a Segment Routing Header (RFC 8754 §2) of one segment, which is left
	segmentsLeft := harness.With(harness.With(harness.Plain(harness.Destination, 142), harness.AtNextHeader, 43),
		harness.EthernetHeader+harness.IPv6Header, harness.NextUDP, 2, 4, 1, 0, 0, 0, 0)
	cases := []costCase{
		egress("into a header, one option of type 0xc00000", model.OutcomeEncapInserted, one, shared, 150),
		egress("into a header, one option with timestamps, type 0xf00000", model.OutcomeEncapInserted, times, shared, 0),
		egress("into a header, and edge to edge after it", model.OutcomeEncapInserted, numberingBeside, padded(102, filledOption), 0),
		egress("", model.OutcomeEncapSkippedHBH, numberingBeside, padded(0, longOption, otherOption), 0),
		egress(
			"",
			model.OutcomeEncapSkippedUnremovable,
			one,
			harness.With(shared, harness.EthernetHeader+harness.IPv6Header, harness.NextHBH),
			0,
		),
		egress("", model.OutcomeEncapSkippedSegments, encapsulating(model.ModeEncap, typeIDs, 1), segmentsLeft, 0),
		egress("", model.OutcomeEncapSkippedAH, one, ah, 0),
		egress("", model.OutcomeEncapSkippedRouterAlert, one, padded(78, routerAlertOption), 0),
		egress("", model.OutcomeEncapSkippedJumbo, one, padded(78, jumboOption), 0),
		egress("too many", model.OutcomeEncapSkippedOptions, nine, shared, 0),
	}
	for _, hook := range []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC} {
		removed := trace(namespaceRemoved, typeIDs)
		cases = append(
			cases,
			costCase{
				hook,
				"before another option, with a record",
				model.OutcomeOptionsRemoved,
				"decapsulate",
				padded(102, removed, unknownOption),
				harness.SKB{},
				0,
			},
			costCase{
				hook,
				"before a trace of another domain, with a record",
				model.OutcomeOptionsRemoved,
				"decapsulate",
				padded(118, removed, trace(namespaceUnknown, typeIDs)),
				harness.SKB{},
				0,
			},
		)
	}
	return cases
}
