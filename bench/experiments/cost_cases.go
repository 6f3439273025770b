// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// The interfaces of the node under test; the programs run on the first one.
const (
	ours  = model.IfIndex(1)
	other = model.IfIndex(2)
)

const (
	namespace        = 123
	namespaceRemoved = 456
	namespaceUnknown = 789
)

// Trace types that are measured.
const (
	typeIDs     ioam.TraceType = 0xc00000
	typeTimes   ioam.TraceType = 0xf00000
	typeDelay   ioam.TraceType = 0xf80000
	typeAll     ioam.TraceType = 0xfff002
	typeNodeID  ioam.TraceType = 0x800000
	mostOptions                = model.MaxOptionsPerPacket
)

// Aims, in ns: a trace with ids, and one with timestamps.
const (
	filledAim = 30
	timedAim  = 75
)

// oneTrace is insertion of the smallest common header.
const oneTrace = "one option, type 0xc00000"

// costCase is one packet with one outcome at one hook.
type costCase struct {
	hook    datapath.Hook
	detail  string
	outcome model.Outcome
	config  string
	frame   []byte
	in      harness.SKB
	aim     float64
}

func (c costCase) is() report.Dimensions {
	return report.Dimensions{Hook: string(c.hook), Outcome: c.outcome.String(), Format: c.detail}
}

// records reports whether the outcome writes a record; the rings hold a few
// thousand.
func (c costCase) records() bool {
	return c.outcome == model.OutcomeInlineRemoved || c.outcome == model.OutcomeOptionsRemoved ||
		c.outcome == model.OutcomeTunnelDecapsulated ||
		c.outcome == model.OutcomeLoopbackReceived || c.outcome == model.OutcomeActiveTerminated || writesPostcards(c.config)
}

// plain is the packet to compare with: as long, and without IOAM or a matching
// rule.
func (c costCase) plain() []byte { return harness.Plain(harness.Elsewhere, max(len(c.frame), 62)) }

// nodeConfig is a transit node with two interfaces, and with as many namespaces
// as a packet can have options.
func nodeConfig() model.NodeConfig {
	both := model.RoleIngress | model.RoleEgress
	c := model.NodeConfig{
		ID: 2, IDWide: 22222222,
		Interfaces: []model.Interface{
			{Index: ours, Name: "eth0", ID: 201, IDWide: 201201, Roles: both, MTU: 1500},
			{Index: other, Name: "eth1", ID: 202, IDWide: 202202, Roles: both, MTU: 1500},
		},
	}
	for i := range ioam.NamespaceID(mostOptions) {
		c.Namespaces = append(c.Namespaces, model.Namespace{ID: namespace + i, Data: 0xdeadbeef, DataWide: 0xcafec0caf00dc0de})
	}
	return c
}

// costConfigs are the nodes under test. Each has only what its cases need,
// because a node's programs leave out what it does not use.
func costConfigs() map[string]model.NodeConfig {
	configs := map[string]model.NodeConfig{"transit": nodeConfig()}

	c := nodeConfig()
	c.Namespaces = append(c.Namespaces, model.Namespace{ID: namespaceRemoved, Remove: true})
	c.Decapsulations = []model.Decapsulation{{TunnelDestination: harness.TunnelEnd}}
	configs["decapsulate"] = c
	c.Decapsulations = []model.Decapsulation{{TunnelDestination: harness.TunnelEnd, Bare: true}}
	configs["decapsulate bare"] = c
	prefix := func(a netip.Addr, bits int) netip.Prefix { return netip.PrefixFrom(a, bits).Masked() }
	sources := []netip.Prefix{
		prefix(harness.TunnelEnd, 128),
		prefix(harness.Source, 64),
		prefix(harness.Destination, 64),
		prefix(harness.TunnelStart, 128),
	}
	c.Decapsulations = []model.Decapsulation{{TunnelDestination: harness.TunnelEnd, Sources: sources, Bare: true}}
	configs["decapsulate sources"] = c
	c.Decapsulations = []model.Decapsulation{{TunnelDestination: harness.TunnelEnd, Sources: sources[:1], Bare: true}}
	configs["decapsulate others"] = c

	for _, policy := range []model.Boundary{model.BoundaryDrop, model.BoundaryStrip, model.BoundaryIgnore} {
		c := nodeConfig()
		c.Interfaces[0].Roles, c.Interfaces[0].Boundary = 0, policy
		configs["edge "+policy.String()] = c
	}
	c = nodeConfig()
	c.Interfaces[0].Roles = 0
	c.TunnelDestinations = []netip.Addr{harness.TunnelStart, harness.TunnelEnd}
	configs["edge guard"] = c
	for _, mode := range []model.Mode{model.ModeInline, model.ModeEncap} {
		for _, kind := range []ioam.TraceType{typeIDs, typeTimes, typeAll} {
			for _, options := range []int{1, mostOptions} {
				configs[encapsulating(mode, kind, options)] = encapsulation(mode, alike(options, oneNode(kind))...)
			}
		}
	}
	c = encapsulation(model.ModeInline, oneNode(typeIDs))
	c.Encapsulations[0].Frequency = model.Frequency{K: 1, N: model.MaxFrequency}
	configs["sample"] = c
	unfilled := oneNode(typeIDs)
	unfilled.Namespace = namespaceUnknown
	configs["unfilled"] = encapsulation(model.ModeInline, unfilled)
	small := oneNode(typeIDs)
	small.Size = 4
	c = encapsulation(model.ModeInline, small)
	c.Compatibility = model.CompatibilityMainline
	configs["too small"] = c
	maps.Copy(configs, exportConfigs())
	maps.Copy(configs, proofConfigs())
	maps.Copy(configs, edgeConfigs())
	maps.Copy(configs, loopbackConfigs())
	maps.Copy(configs, mergeConfigs())
	maps.Copy(configs, incrementalConfigs())
	maps.Copy(configs, namespacesConfigs())
	maps.Copy(configs, delayConfigs())
	return configs
}

func encapsulating(mode model.Mode, kind ioam.TraceType, options int) string {
	return fmt.Sprintf("%s %s %d", mode, kind, options)
}

// encapsulation is a node that inserts options.
func encapsulation(mode model.Mode, options ...model.TraceOption) model.NodeConfig {
	e := model.Encapsulation{
		Name: "measured", Interface: ours, Mode: mode, Options: model.Traces(options...),
		Match: model.Match{Destination: netip.PrefixFrom(harness.Destination, 64).Masked()},
	}
	if mode != model.ModeInline {
		e.TunnelSource, e.TunnelDestination = harness.TunnelStart, harness.TunnelEnd
	}
	c := nodeConfig()
	c.Encapsulations = []model.Encapsulation{e}
	return c
}

// oneNode is a trace with room for the data of one node.
func oneNode(kind ioam.TraceType) model.TraceOption {
	return model.TraceOption{Namespace: namespace, Type: kind, Size: dataSize(kind)}
}

// dataSize is how many bytes a node without a schema writes.
func dataSize(kind ioam.TraceType) int {
	size := 4 * kind.NodeLen()
	if kind.HasSnapshot() {
		size += 4
	}
	return size
}

func alike(n int, o model.TraceOption) []model.TraceOption {
	out := make([]model.TraceOption, n)
	for i := range out {
		out[i] = o
	}
	return out
}

// costCases are all cases.
func costCases() []costCase {
	var cases []costCase
	for _, hook := range []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC} {
		cases = append(cases, bothHooks(hook, harness.SKB{})...)
		cases = append(cases, ingressCases(hook)...)
	}
	cases = append(cases, bothHooks(datapath.HookEgressTC, harness.ArrivedAt(other))...)
	return slices.Concat(
		cases,
		egressCases(),
		exportCases(),
		proofCases(),
		edgeCases(),
		loopbackCases(),
		mergeCases(),
		incrementalCases(),
		namespacesCases(),
		delayCases(),
	)
}

// Offsets in a frame with one option after the first 4 bytes of its Hop-by-Hop
// header.
const (
	atOption      = harness.EthernetHeader + harness.IPv6Header + 4
	atIOAMType    = atOption + 3
	atNodeLen     = atOption + 6
	atRemaining   = atOption + 7
	overflowShift = 2 // shift of the flag in the byte at atNodeLen
)

// bothHooks are the cases that ingress and egress share.
func bothHooks(hook datapath.Hook, in harness.SKB) []costCase {
	ids := traced(trace(namespace, typeIDs))
	routerAlert := []byte{5, 2, 0, 0}
	make1 := func(detail string, outcome model.Outcome, config string, frame []byte, aim float64) costCase {
		return costCase{hook, detail, outcome, config, frame, in, aim}
	}
	return []costCase{
		make1("", model.OutcomeNotIPv6, "transit", harness.With(harness.Plain(harness.Destination, 78), 12, 0x08, 0x06), 0),
		make1("Hop-by-Hop header with a router alert", model.OutcomeNoIOAM, "transit", padded(78, routerAlert), 0),
		make1("node and interface ids, type 0xc00000", model.OutcomeTraceFilled, "transit", ids, filledAim),
		make1("with timestamps, type 0xf00000", model.OutcomeTraceFilled, "transit", traced(trace(namespace, typeTimes)), timedAim),
		make1("with timestamps and delay, type 0xf80000", model.OutcomeTraceFilled, "transit", traced(trace(namespace, typeDelay)), 0),
		make1("every bit, type 0xfff002", model.OutcomeTraceFilled, "transit", traced(trace(namespace, typeAll)), 0),
		make1("9 options of type 0xc00000", model.OutcomeTraceFilled, "transit", traced(repeat(trace(namespace, typeIDs), mostOptions)...), 0),
		make1("", model.OutcomeOptionUnsupported, "transit", harness.With(ids, atIOAMType, 1), 0),
		make1("", model.OutcomeNamespaceUnknown, "transit", traced(trace(namespaceUnknown, typeIDs)), 0),
		make1("", model.OutcomeOverflowSet, "transit", harness.With(ids, atNodeLen, ids[atNodeLen]|1<<overflowShift), 0),
		make1("", model.OutcomeBoundaryIgnored, "edge ignore", ids, 0),
		make1("", model.OutcomeBoundaryStripped, "edge strip", ids, 0),
		make1(
			"",
			model.OutcomeBoundaryStripPartial,
			"edge strip",
			harness.With(traced(routerAlert, trace(namespace, typeIDs)), harness.EthernetHeader+4, 0, 0),
			0,
		), // a jumbogram
		make1("", model.OutcomeBoundaryDropped, "edge drop", ids, 0),
		make1("", model.OutcomeBoundaryUnprovenDropped, "edge drop", harness.With(ids, harness.EthernetHeader+harness.IPv6Header+1, 200), 0),
		make1("", model.OutcomeMalformedIPv6, "transit", harness.With(ids, harness.EthernetHeader, 0x50), 0),
		make1("", model.OutcomeMalformedHeader, "transit", harness.With(ids, harness.EthernetHeader+harness.IPv6Header+1, 200), 0),
		make1("", model.OutcomeMalformedTooManyOptions, "transit", traced(repeat([]byte{0x31, 2, 0, 1}, mostOptions+1)...), 0),
		make1("", model.OutcomeMalformedAlignment, "transit", harness.With(ids, atOption-2, 1, 1, 0, 0x31, 10, 0, 0), 0),
		make1("", model.OutcomeMalformedOptionLength, "transit", harness.With(ids, atOption+1, 1, 0, 1, 15), 0),
		make1("", model.OutcomeMalformedNodeLength, "transit", harness.With(ids, atNodeLen, 3<<3), 0),
		make1("", model.OutcomeMalformedRemainingLength, "transit", harness.With(ids, atRemaining, 50), 0),
		make1(
			"",
			model.OutcomeMalformedNodeData,
			"transit",
			harness.With(traced(traceOption(model.TraceOption{Namespace: namespace, Type: typeIDs, Size: 4}, 0)), atIOAMType, 1),
			0,
		),
	}
}

func ingressCases(hook datapath.Hook) []costCase {
	inner := harness.IPv6(harness.Source, harness.Destination, harness.NextUDP, harness.UDP(24))
	removed := trace(namespaceRemoved, typeIDs)
	make1 := func(detail string, outcome model.Outcome, config string, frame []byte) costCase {
		return costCase{hook, detail, outcome, config, frame, harness.SKB{}, 0}
	}
	full := harness.With(traced(trace(namespace, typeIDs)), atRemaining, 1)
	return []costCase{
		make1("", model.OutcomeTraceOverflow, "transit", full),
		make1("node and interface ids, node also decapsulates", model.OutcomeTraceFilled, "decapsulate", traced(trace(namespace, typeIDs))),
		make1(
			"a jumbogram",
			model.OutcomeRemovalPartial,
			"decapsulate",
			harness.With(traced([]byte{5, 2, 0, 0}, removed), harness.EthernetHeader+4, 0, 0),
		),
		make1("node and interface ids, with a record", model.OutcomeInlineRemoved, "decapsulate", padded(102, removed)),
		make1(
			"node and interface ids, with a record",
			model.OutcomeTunnelDecapsulated,
			"decapsulate",
			tunnelled(inner, trace(namespace, typeIDs)),
		),
		make1("9 options of type 0xc00000, with a record", model.OutcomeTunnelDecapsulated, "decapsulate",
			tunnelled(inner, repeat(trace(namespace, typeIDs), mostOptions)...)),
		make1("with timestamps and a record", model.OutcomeTunnelDecapsulated, "decapsulate", tunnelled(inner, trace(namespace, typeTimes))),
		make1(
			"cut short",
			model.OutcomeMalformedTunnel,
			"decapsulate",
			harness.With(tunnelled(inner, trace(namespace, typeIDs)), harness.EthernetHeader+4, 1, 0),
		),
		make1("no IOAM left in it, no record", model.OutcomeTunnelDecapsulated, "decapsulate bare", tunnelled(inner)),
		make1("from one of four sources, no record", model.OutcomeTunnelDecapsulated, "decapsulate sources", tunnelled(inner)),
		make1("", model.OutcomeDecapRefusedSource, "decapsulate others", tunnelled(inner)),
		make1("", model.OutcomeDecapRefusedBare, "decapsulate", tunnelled(inner)),
		make1(
			"",
			model.OutcomeDecapRefusedInner,
			"decapsulate bare",
			tunnelled(harness.IPv6(harness.Source, harness.Destination, harness.NextICMP, append([]byte{136, 0, 0, 0}, make([]byte, 20)...))),
		),
		make1("", model.OutcomeBoundaryTunnelDropped, "edge guard", tunnelled(inner)),
		make1("at an edge that guards tunnels", model.OutcomeNoIOAM, "edge guard", harness.Plain(harness.Destination, 78)),
	}
}

func egressCases() []costCase {
	packet := harness.Plain(harness.Destination, 78)
	inline := encapsulating(model.ModeInline, typeIDs, 1)
	make1 := func(detail string, outcome model.Outcome, config string, frame []byte) costCase {
		return costCase{datapath.HookEgressTC, detail, outcome, config, frame, harness.ArrivedAt(other), 0}
	}
	error1 := harness.Ethernet(
		harness.IPv6(harness.Source, harness.Destination, harness.NextICMP, append([]byte{1, 0, 0, 0}, make([]byte, 20)...)),
	)
	cases := []costCase{
		make1("", model.OutcomeUntouched, "transit", traced(trace(namespace, typeIDs))),
		make1("", model.OutcomeEncapNotSelected, "sample", packet),
		make1("ICMPv6 error", model.OutcomeEncapSkippedControl, inline, error1),
		make1("", model.OutcomeEncapUnfilled, "unfilled", packet),
		make1("", model.OutcomeEncapOverflow, "too small", packet),
		make1("jumbogram", model.OutcomeEncapSkippedMTU, inline, harness.With(packet, harness.EthernetHeader+4, 0, 0)),
		make1("TCP", model.OutcomeEncapSkippedGSO, inline, harness.With(packet, harness.AtNextHeader, 6)),
	}
	cases[0].in = harness.SKB{}
	cases[len(cases)-1].in.GSOSize, cases[len(cases)-1].in.GSOSegs = 16, 1
	for _, mode := range []model.Mode{model.ModeInline, model.ModeEncap} {
		outcome := model.OutcomeEncapInserted
		if mode == model.ModeEncap {
			outcome = model.OutcomeEncapTunneled
		}
		for _, v := range []struct {
			detail  string
			kind    ioam.TraceType
			options int
		}{
			{oneTrace, typeIDs, 1},
			{"one option with timestamps, type 0xf00000", typeTimes, 1},
			{"one option of every bit, type 0xfff002", typeAll, 1},
			{"9 options of type 0xc00000", typeIDs, mostOptions},
		} {
			c := make1(v.detail, outcome, encapsulating(mode, v.kind, v.options), packet)
			if mode == model.ModeInline && v.kind == typeIDs && v.options == 1 {
				c.aim = 60
			}
			cases = append(cases, c)
		}
	}
	return cases
}
