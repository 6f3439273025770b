// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// counts are the numbers of a thing that a node has or receives, and destinations
// the numbers of destinations.
var (
	counts       = []int{1, 3, 10, 30, 100, 300, 1000}
	destinations = []int{1, 10, 100, 1000, 4096, 16384, 65536}
)

// Destinations in each CPU's cache when nodes forward fast: the default, and as
// many as there are at most.
const (
	defaultNextHops = 16384
	manyNextHops    = 65536
)

// Offsets of the 16 bits that distinguish flows, namespaces and destinations.
const (
	atSource          = harness.EthernetHeader + 8 + 14 // the last 16 bits of the source address
	atNamespace       = atOption + 4
	atSubnet          = harness.EthernetHeader + 24 + 6 // the last 16 bits of the destination's /64
	firstNamespace    = 2000
	firstSubnet       = 0x100
	sizeOfScale       = 256 // bytes of a plain frame
	prefixOfSubnets   = "2001:db8:2::"
	everySubnetPrefix = "2001:db8:2::/48"
)

// scaleExperiment measures what a packet costs when a node has many rules,
// namespaces or destinations. Each packet needs a different one from the packet
// before.
func scaleExperiment() harness.Experiment {
	e := harness.Experiment{
		X: "number", Axis: "how many there are; packets ask for each in turn",
		Baseline: "the same packets forwarded by the kernel: no program, no IOAM",
		Notes: []string{
			"\"Destinations\" are subnets, all of which one encapsulation matches. What a node that forwards fast remembers is for each CPU; " +
				"it and the kernel that it is compared with end in a sink in XDP.",
		},
	}
	add := func(d report.Dimensions, n int, t harness.Treatment, send harness.Stream, arrives harness.Arrival, wants ...harness.Want) {
		send.Values = n
		base := untreatedPackets(kernelForwards(""), float64(n), send.Frame, 1)
		base.Send, base.SinkInXDP = send, t.Fast
		v := &harness.Variant{Line: []harness.Treatment{t}, Send: send, SinkInXDP: t.Fast, Arrives: arrives, Wants: wants}
		e.Variants = append(e.Variants, v.At(d, float64(n), base))
	}
	option := oneNode(typeIDs)
	grown := longer(overhead(model.ModeInline, []model.TraceOption{option}))
	inserted := harness.Has(0, datapath.HookEgressTC, model.OutcomeEncapInserted)
	traced := harness.Stream{Frame: padded(sizeOfScale, trace(firstNamespace, typeIDs))}.Varied(1, firstNamespace, atNamespace)
	plainTo := harness.Stream{Frame: harness.Plain(netip.MustParseAddr(prefixOfSubnets+"2"), sizeOfScale)}.Varied(1, firstSubnet, atSubnet)
	for _, n := range counts {
		add(report.Dimensions{Treatment: "transit", Format: "namespaces"}, n, manyNamespaces(n), traced, filled, transits()...)
		add(
			report.Dimensions{Treatment: theKernelsTransit, By: report.ByKernelIOAM, Format: "namespaces"},
			n,
			harness.KernelIn(firstNamespace, n),
			traced,
			filled,
		)
		add(report.Dimensions{Treatment: "encapsulation", Format: "encapsulations"}, n, manyEncapsulations(n), plainTo, grown, inserted)
	}
	for _, n := range destinations {
		add(report.Dimensions{Treatment: "encapsulation", Format: "destinations"}, n, oneForAll(), plainTo, grown, inserted)
		for _, remembered := range []int{defaultNextHops, manyNextHops} {
			add(
				report.Dimensions{Treatment: "fast encapsulation", Format: fmt.Sprintf("destinations, %d remembered", remembered)},
				n,
				forwardingFast(oneForAll()).Remembering(remembered),
				plainTo,
				grown,
				harness.Has(0, harness.HookForwarded, model.OutcomeEncapInserted),
			)
		}
	}
	e.EndsInPassing()
	return e
}

// manyNamespaces is a transit node with n namespaces.
func manyNamespaces(n int) harness.Treatment {
	return harness.Treatment{
		Name:   fmt.Sprintf("transit, %d namespaces", n),
		Attach: datapath.AttachXDP,
		Config: func(in, out model.IfIndex) model.NodeConfig {
			return withNamespaces(place(nodeConfig(), in, out), n)
		},
	}
}

func withNamespaces(c model.NodeConfig, n int) model.NodeConfig {
	c.Namespaces = nil
	for i := range ioam.NamespaceID(n) {
		c.Namespaces = append(c.Namespaces, model.Namespace{ID: firstNamespace + i, Data: 0xdeadbeef})
	}
	return c
}

// manyEncapsulations is a node with an encapsulation for each of n subnets.
func manyEncapsulations(n int) harness.Treatment {
	return harness.Treatment{
		Name:   fmt.Sprintf("%d encapsulations", n),
		Attach: datapath.AttachTCX,
		Config: func(in, out model.IfIndex) model.NodeConfig {
			return withEncapsulations(place(nodeConfig(), in, out), n)
		},
	}
}

func withEncapsulations(c model.NodeConfig, n int) model.NodeConfig {
	c.Encapsulations, c.Namespaces = nil, c.Namespaces[:1]
	for i := range n {
		subnet := netip.MustParseAddr(prefixOfSubnets).As16()
		subnet[6], subnet[7] = byte((firstSubnet+i)>>8), byte(firstSubnet+i)
		c.Encapsulations = append(c.Encapsulations, model.Encapsulation{
			Name: fmt.Sprintf("subnet %d", i), Interface: c.Interfaces[1].Index, Mode: model.ModeInline,
			Match:   model.Match{Destination: netip.PrefixFrom(netip.AddrFrom16(subnet), 64)},
			Options: model.Traces(oneNode(typeIDs)),
		})
	}
	return c
}

// oneForAll is a node with one encapsulation for every subnet.
func oneForAll() harness.Treatment {
	return harness.Treatment{Name: "one encapsulation", Attach: datapath.AttachTCX, Config: func(in, out model.IfIndex) model.NodeConfig {
		c := withEncapsulations(place(nodeConfig(), in, out), 1)
		c.Encapsulations[0].Match.Destination = netip.MustParsePrefix(everySubnetPrefix)
		return c
	}}
}
