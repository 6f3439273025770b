// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/ioam"
)

// The experiments of the paper on Direct Export in Linux, at its parameters: one
// node on one CPU, packets of 1500 bytes, and an option in some percent of them.

// percents of the packets that have an option.
var percents = []int{1, 10, 100}

// sampleEvery is the n of sampling: the limit that RFC 9326 §3.1.2 recommends.
const sampleEvery = 100

const (
	shortPacket = 78   // bytes of a frame without an option
	longPacket  = 1500 // bytes of a packet with one
)

// Trace types of the paper, of which it finds that they make no difference, and
// one that asks for what it has not.
const (
	typeFraction      ioam.TraceType = 0x100000
	typeNamespaceWide ioam.TraceType = 0x002000
	typeOnlyDelay     ioam.TraceType = 0x080000
)

// atSequence is where the Sequence Number is in a frame with one option.
const atSequence = atOption + 4 + ioam.DirectExportLen + 4

const bothExtensions = ioam.ExtensionFlowID | ioam.ExtensionSequence

// directExport is what a node does with options of Direct Export.
type directExport struct {
	role  ioam.ExportRole
	mode  ioam.Mode
	flags uint8
	kind  ioam.TraceType
	way   ioam.ExportMode
	read  reading
	fast  bool
}

// option is what an encapsulating node inserts.
func (x directExport) option() ioam.InsertedOption {
	return ioam.InsertedOption{DirectExport: &ioam.DirectExportOption{Namespace: namespace, Type: x.kind, ExtensionFlags: x.flags}}
}

// directExportOption is an option in a packet, aligned as hopByHop has it.
func directExportOption(kind ioam.TraceType, flags uint8) []byte {
	d := ioam.DirectExport{Namespace: namespace, ExtensionFlags: flags, Type: kind, FlowID: 0x5eed}
	body := d.Append([]byte{0, byte(ioam.IOAMDirectExport)})
	return append([]byte{byte(ioam.OptionIOAMStatic), byte(len(body))}, body...)
}

// overhead is how many bytes the option adds to a packet.
func (x directExport) overhead() int {
	n := len(hopByHop(nextNone, nil, directExportOption(x.kind, x.flags)))
	if x.mode == ioam.ModeEncap {
		n += ipv6Header
	}
	return n
}

// bare is how long a frame of the size is without an option.
func (x directExport) bare(size int) int {
	if size == longPacket {
		return ethernetHeader + longPacket - x.overhead()
	}
	return size
}

// packets are those that reach the node: with an option in one of n, or with
// none, but sent alike.
func (x directExport) packets(size, n int, carrying bool) stream {
	if x.role == ioam.RoleEncapsulating {
		return stream{frame: plain(destination, x.bare(size))}
	}
	length := x.bare(size) + x.overhead()
	s := stream{frame: plain(destination, length), rest: plain(destination, length), every: n}
	if x.flags&ioam.ExtensionSequence != 0 {
		s.numbered = atSequence
	}
	if !carrying {
		return s
	}
	option := directExportOption(x.kind, x.flags)
	s.frame = padded(length, option)
	if x.mode == ioam.ModeEncap {
		s.frame = tunnelled(plain(destination, x.bare(size))[ethernetHeader:], option)
	}
	return s
}

// node is the treatment; one in n packets is to get an option.
func (x directExport) node(n int) treatment {
	name := fmt.Sprintf("direct export %+v, one in %d", x, n)
	if x.role != ioam.RoleEncapsulating {
		name = fmt.Sprintf("direct export %+v", x)
	}
	t := treatment{name: name, read: x.read, attach: datapath.AttachXDP, config: func(in, out ioam.IfIndex) ioam.NodeConfig {
		return x.config(in, out, n)
	}}
	if x.role == ioam.RoleEncapsulating {
		t.attach = datapath.AttachTCX
	}
	if x.fast {
		return t.forwardingFast()
	}
	return t
}

// config is the node's, without a limit that would be met. Without a way to
// export, nothing in it concerns Direct Export.
func (x directExport) config(in, out ioam.IfIndex, n int) ioam.NodeConfig {
	c := nodeConfig()
	if x.way != ioam.ExportNone {
		c = x.triggered(c, n)
	}
	if x.role == ioam.RoleDecapsulating && x.mode == ioam.ModeEncap {
		c.Decapsulations = []ioam.Decapsulation{{TunnelDestination: tunnelEnd}}
	}
	c = place(c, in, out)
	if x.role == ioam.RoleEncapsulating {
		c.Interfaces = c.Interfaces[1:]
	}
	return c
}

// triggered adds exports to a node, and what makes them.
func (x directExport) triggered(c ioam.NodeConfig, n int) ioam.NodeConfig {
	c = exporting(c, x.way)
	switch {
	case x.role == ioam.RoleEncapsulating:
		e := ioam.Encapsulation{
			Name: "measured", Interface: ours, Mode: x.mode, Options: []ioam.InsertedOption{x.option()},
			Match:     ioam.Match{Destination: netip.PrefixFrom(destination, 64).Masked()},
			Frequency: ioam.Frequency{K: 1, N: uint32(n)},
		}
		if x.mode != ioam.ModeInline {
			e.TunnelSource, e.TunnelDestination = tunnelStart, tunnelEnd
		}
		c.Encapsulations = []ioam.Encapsulation{e}
	case x.role == ioam.RoleDecapsulating && x.mode == ioam.ModeInline:
		c.Namespaces[0].Remove = true
	}
	return c
}

// arrives is how packets look behind the node.
func (x directExport) arrives() arrival {
	switch x.role {
	case ioam.RoleEncapsulating:
		return sometimesLonger(x.overhead())
	case ioam.RoleDecapsulating:
		return sometimesLonger(-x.overhead())
	}
	return unchanged
}

// wants are the outcomes; the first is that of the packets that are exported.
func (x directExport) wants(share float64) []want {
	outcome := ioam.OutcomeDirectExport
	hook := datapath.HookEgressTC
	switch {
	case x.role == ioam.RoleEncapsulating && x.mode == ioam.ModeInline:
		outcome = ioam.OutcomeEncapInserted
	case x.role == ioam.RoleEncapsulating:
		outcome = ioam.OutcomeEncapTunneled
	case x.role == ioam.RoleDecapsulating && x.mode == ioam.ModeInline:
		outcome, hook = ioam.OutcomeInlineRemoved, datapath.HookIngressXDP
	case x.role == ioam.RoleDecapsulating:
		outcome, hook = ioam.OutcomeTunnelDecapsulated, datapath.HookIngressXDP
	}
	if x.fast && hook == datapath.HookEgressTC {
		hook = hookForwarded
	}
	list := []want{{hook: hook, outcome: outcome, share: share}}
	if x.fast && x.role == ioam.RoleDecapsulating {
		list = append(list, has(0, hookForwarded, ioam.OutcomeNoIOAM))
	}
	return list
}

// variant is the node with an option in some percent of the packets, beside
// itself without Direct Export and, if asked for, beside the kernel.
func (x directExport) variant(name string, size, percent int, beside bool) *variant {
	n := 100 / percent
	v := &variant{
		line: []treatment{x.node(n)}, send: x.packets(size, n, true), sinkInXDP: x.fast,
		arrives: x.arrives(), wants: x.wants(1 / float64(n)), exports: x.way,
	}
	without := x
	without.way, without.read, without.flags, without.kind = ioam.ExportNone, unread, 0, 0
	base := &variant{
		name: "the same node without Direct Export", line: []treatment{without.node(1)}, send: x.packets(size, n, false),
		sinkInXDP: x.fast, arrives: unchanged,
	}
	if beside {
		v.plain = untreatedPackets("kernel forwarding", 0, base.send.frame, 1)
		v.plain.send, v.plain.sinkInXDP = base.send, x.fast
	}
	return v.is(fmt.Sprintf("%s, %d bytes", name, size), float64(percent), base)
}

// exportWay is a way to export, and who reads.
type exportWay struct {
	name string
	way  ioam.ExportMode
	read reading
}

var exportWays = []exportWay{
	{"nobody wants records", ioam.ExportEvery, unread},
	{"every, postcards read", ioam.ExportEvery, readOnly},
	{"every, " + string(exported), ioam.ExportEvery, exported},
	{"aggregate", ioam.ExportAggregate, exported},
	{"sample of 1 in 100", ioam.ExportSample, exported},
}

// parameter is what differs in an experiment beside the ways to export.
type parameter struct {
	name string
	set  func(*directExport)
}

// Panels of a figure.
const (
	throughStack = "through the stack"
	withoutStack = "fast forwarding"
	byParameter  = "by parameter"
)

func dexExperiment(x directExport, others ...parameter) experiment {
	e := experiment{
		x: "percent", axis: "percent of the packets that have an option", apart: true,
		baseline: "the same node without Direct Export, and packets of the same length without an option",
		notes:    dexNotes,
	}
	for _, size := range []int{shortPacket, longPacket} {
		for _, fast := range []bool{false, true} {
			for _, w := range exportWays {
				e.ways(x, w, size, fast)
			}
		}
	}
	for _, o := range others {
		for _, w := range []exportWay{exportWays[1], exportWays[3]} {
			each := x
			each.way, each.read = w.way, w.read
			o.set(&each)
			for _, percent := range percents {
				v := each.variant(fmt.Sprintf("%s, %s, %s", w.name, o.name, byParameter), longPacket, percent, false)
				e.variants = append(e.variants, v)
			}
		}
	}
	return e
}

var dexNotes = []string{
	"An option is as it is inserted: inline, of trace type 0x800000, with Flow-ID and Sequence Number; \"by parameter\" changes one of these. " +
		"78 bytes are a frame without an option, 1500 a packet with one.",
	"Limits of exports are set so that they are not met. Whoever reads is on another CPU than source, node and sink: postcards are thrown away (\"read\"), " +
		"or encoded as IPFIX, sent over UDP in messages of 1452 octets, and received there, too. \"Aggregate\" and \"sample\" are exported like that, each second.",
	"A postcard that finds no room in its ring costs the node less than one that does: see how many were lost.",
	"Fast forwarding ends in a sink in XDP, and so does the kernel's forwarding beside it (\"against plain packets\").",
}

// ways adds a way to export, with its aims.
func (e *experiment) ways(x directExport, w exportWay, size int, fast bool) {
	x.way, x.read, x.fast = w.way, w.read, fast
	panel := throughStack
	if fast {
		panel = withoutStack
	}
	for _, percent := range percents {
		v := x.variant(fmt.Sprintf("%s, %s", w.name, panel), size, percent, true)
		switch {
		case fast && w.way == ioam.ExportAggregate && percent == 100:
			v.plainAim = 2.5
		case fast || w.read != exported:
		case percent == 1:
			v.aim = 0.995
		case percent == 100 && w.way == ioam.ExportAggregate:
			v.aim = 0.94
		case percent == 100 && w.way == ioam.ExportEvery:
			v.aim = 0.85
		}
		e.variants = append(e.variants, v)
	}
}

func inTunnel(x *directExport) { x.mode = ioam.ModeEncap }
func ofType(kind ioam.TraceType) parameter {
	return parameter{"trace type " + kind.String(), func(x *directExport) { x.kind = kind }}
}

var fewerExtensions = []parameter{
	{"no extension", func(x *directExport) { x.flags = 0 }},
	{"Flow-ID alone", func(x *directExport) { x.flags = ioam.ExtensionFlowID }},
}

// dexEncapsulationExperiment is figures 3 to 5.
func dexEncapsulationExperiment() experiment {
	x := directExport{role: ioam.RoleEncapsulating, flags: bothExtensions, kind: typeNodeID}
	return dexExperiment(x, append(fewerExtensions, ofType(typeFraction), ofType(typeNamespaceWide), parameter{"in a tunnel of given source", inTunnel})...)
}

// dexTransitExperiment is figures 6 and 7.
func dexTransitExperiment() experiment {
	x := directExport{role: ioam.RoleTransit, flags: bothExtensions, kind: typeNodeID}
	return dexExperiment(x, append(fewerExtensions, ofType(typeFraction), ofType(typeNamespaceWide), ofType(typeOnlyDelay))...)
}

// dexDecapsulationExperiment is figures 8 and 9, which have a tunnel.
func dexDecapsulationExperiment() experiment {
	x := directExport{role: ioam.RoleDecapsulating, mode: ioam.ModeEncap, flags: bothExtensions, kind: typeNodeID}
	inline := parameter{"inline", func(x *directExport) { x.mode = ioam.ModeInline }}
	return dexExperiment(x, append(fewerExtensions, ofType(typeFraction), ofType(typeNamespaceWide), inline)...)
}
