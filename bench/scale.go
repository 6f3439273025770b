// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"net/netip"
	"runtime"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// counts are how many of a thing a node has, or meets, where that is varied, and
// destinations how many of those.
var (
	counts       = []int{1, 3, 10, 30, 100, 300, 1000}
	destinations = []int{1, 10, 100, 1000, 4096, 16384, 65536}
)

// What nodes that forward fast remember for each CPU: the default, and as many
// as there are destinations at most.
const (
	defaultNextHops = 16384
	manyNextHops    = 65536
)

// Where the 16 bits are that tell flows, namespaces and destinations apart.
const (
	atSource          = ethernetHeader + 8 + 14 // the last 16 bits of the source address
	atNamespace       = atOption + 4
	atSubnet          = ethernetHeader + 24 + 6 // the last 16 bits of the destination's /64
	firstNamespace    = 2000
	firstSubnet       = 0x100
	manyFlows         = 64
	sizeOfScale       = 256 // bytes of a plain frame
	prefixOfSubnets   = "2001:db8:2::"
	everySubnetPrefix = "2001:db8:2::/48"
)

// coresExperiment is one and more CPUs with one flow and several.
func coresExperiment() experiment {
	e := experiment{
		x: "CPUs", axis: "CPUs that send, forward and receive",
		baseline: "the same packets on as many CPUs, forwarded by the kernel: no program, no IOAM",
		notes: []string{
			"A flow is a source address. Each CPU sends all of them. Who reads the records of decapsulation needs a CPU, too.",
			"Fast forwarding ends in a sink in XDP, and so does the kernel's forwarding that it is compared with. " +
				"On two CPUs, that kernel forwarding gains nothing from the second one, which a sink in tc lets it do: with two CPUs, compare the packets per second.",
		},
	}
	for cores := 1; cores <= min(runtime.NumCPU(), 2); cores++ {
		for _, flows := range []int{1, manyFlows} {
			e.variants = append(e.variants, coresVariants(cores, flows)...)
		}
	}
	return e
}

func coresVariants(cores, flows int) (list []*variant) {
	const size = 78
	tunnel := carried{model.ModeEncap, always, pathInEach(1, typeIDs)}
	sampled := tunnel
	sampled.frequency.N = 100
	add := func(d report.Dimensions, v, against *variant) *variant {
		d.Flows = flows
		v.send.senders = cores
		v.send = v.send.varied(flows, 2, atSource)
		list = append(list, v.at(d, float64(cores), against))
		return v
	}
	base := add(kernelForwards(""), untreatedPackets(report.Dimensions{}, 0, plain(destination, size), 1), nil)
	add(ofNode("encapsulation in a tunnel", 0), tunnel.encapsulating(size), base)
	add(ofNode("encapsulation of 1 in 100", 0), sampled.encapsulating(size), base)
	traced := add(kernelForwards("traced packets"), untreatedPackets(report.Dimensions{}, 0, tunnel.packet(size, 1), 1), nil)
	add(report.Dimensions{Treatment: theKernelsTransit, By: report.ByKernelIOAM}, tunnel.transiting(size, kernelOwn), traced)
	add(ofNode(ourTransit, 0), tunnel.transiting(size, transit(datapath.AttachXDP)), traced)
	add(ofNode("decapsulation", 0), tunnel.decapsulating(size), traced)
	unread := tunnel.decapsulating(size)
	unread.line[0] = decapsulate(tunnel.mode, false)
	add(report.Dimensions{Treatment: "decapsulation", Format: "nobody wants records"}, unread, traced)

	inXDP := func(format string, frame []byte) *variant {
		v := untreatedPackets(report.Dimensions{}, 0, frame, 1)
		v.sinkInXDP = true
		d := kernelForwards(format)
		d.Sink = sinkXDP
		return add(d, v, nil)
	}
	base, traced = inXDP("", plain(destination, size)), inXDP("traced packets", tunnel.packet(size, 1))
	fast := func(d report.Dimensions, v, against *variant, wants ...want) {
		v.line[0], v.sinkInXDP, v.wants = v.line[0].forwardingFast(), true, wants
		d.Way = report.WayFast
		add(d, v, against)
	}
	fast(ofNode("encapsulation in a tunnel", 0), tunnel.encapsulating(size), base, has(0, hookForwarded, model.OutcomeEncapTunneled))
	fast(ofNode("encapsulation of 1 in 100", 0), sampled.encapsulating(size), base,
		want{hook: hookForwarded, outcome: model.OutcomeEncapTunneled, share: sampled.share()})
	fast(ofNode("transit", 0), tunnel.transiting(size, transit(datapath.AttachXDP)), traced, has(0, hookForwarded, model.OutcomeTraceFilled))
	unread = tunnel.decapsulating(size)
	unread.line[0] = decapsulate(tunnel.mode, false)
	fast(report.Dimensions{Treatment: "decapsulation", Format: "nobody wants records"}, unread, traced,
		has(0, datapath.HookIngressXDP, model.OutcomeTunnelDecapsulated), has(0, hookForwarded, model.OutcomeNoIOAM))
	return list
}

// scaleExperiment is what a packet costs when there is much to choose from.
// Each packet asks for another one than the packet before.
func scaleExperiment() experiment {
	e := experiment{
		x: "number", axis: "how many there are; packets ask for each in turn",
		baseline: "the same packets forwarded by the kernel: no program, no IOAM",
		notes: []string{
			"\"Destinations\" are subnets, all of which one encapsulation matches. What a node that forwards fast remembers is for each CPU; " +
				"it and the kernel that it is compared with end in a sink in XDP.",
		},
	}
	add := func(d report.Dimensions, n int, t treatment, send stream, arrives arrival, wants ...want) {
		send.values = n
		base := untreatedPackets(kernelForwards(""), float64(n), send.frame, 1)
		base.send, base.sinkInXDP = send, t.fast
		v := &variant{line: []treatment{t}, send: send, sinkInXDP: t.fast, arrives: arrives, wants: wants}
		e.variants = append(e.variants, v.at(d, float64(n), base))
	}
	option := oneNode(typeIDs)
	grown := longer(overhead(model.ModeInline, []model.TraceOption{option}))
	inserted := has(0, datapath.HookEgressTC, model.OutcomeEncapInserted)
	traced := stream{frame: padded(sizeOfScale, trace(firstNamespace, typeIDs))}.varied(1, firstNamespace, atNamespace)
	plainTo := stream{frame: plain(netip.MustParseAddr(prefixOfSubnets+"2"), sizeOfScale)}.varied(1, firstSubnet, atSubnet)
	for _, n := range counts {
		add(report.Dimensions{Treatment: "transit", Format: "namespaces"}, n, manyNamespaces(n), traced, filled, transits()...)
		add(report.Dimensions{Treatment: theKernelsTransit, By: report.ByKernelIOAM, Format: "namespaces"}, n, kernelIn(firstNamespace, n), traced, filled)
		add(report.Dimensions{Treatment: "encapsulation", Format: "encapsulations"}, n, manyEncapsulations(n), plainTo, grown, inserted)
	}
	for _, n := range destinations {
		add(report.Dimensions{Treatment: "encapsulation", Format: "destinations"}, n, oneForAll(), plainTo, grown, inserted)
		for _, remembered := range []int{defaultNextHops, manyNextHops} {
			add(report.Dimensions{Treatment: "fast encapsulation", Format: fmt.Sprintf("destinations, %d remembered", remembered)}, n, oneForAll().forwardingFast().remembering(remembered),
				plainTo, grown, has(0, hookForwarded, model.OutcomeEncapInserted))
		}
	}
	e.endsInPassing()
	return e
}

// manyNamespaces is a transit node of n namespaces.
func manyNamespaces(n int) treatment {
	return treatment{name: fmt.Sprintf("transit, %d namespaces", n), attach: datapath.AttachXDP, config: func(in, out model.IfIndex) model.NodeConfig {
		return withNamespaces(place(nodeConfig(), in, out), n)
	}}
}

func withNamespaces(c model.NodeConfig, n int) model.NodeConfig {
	c.Namespaces = nil
	for i := range ioam.NamespaceID(n) {
		c.Namespaces = append(c.Namespaces, model.Namespace{ID: firstNamespace + i, Data: 0xdeadbeef})
	}
	return c
}

// manyEncapsulations is a node with an encapsulation for each of n subnets.
func manyEncapsulations(n int) treatment {
	return treatment{name: fmt.Sprintf("%d encapsulations", n), attach: datapath.AttachTCX, config: func(in, out model.IfIndex) model.NodeConfig {
		return withEncapsulations(place(nodeConfig(), in, out), n)
	}}
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
func oneForAll() treatment {
	return treatment{name: "one encapsulation", attach: datapath.AttachTCX, config: func(in, out model.IfIndex) model.NodeConfig {
		c := withEncapsulations(place(nodeConfig(), in, out), 1)
		c.Encapsulations[0].Match.Destination = netip.MustParsePrefix(everySubnetPrefix)
		return c
	}}
}
