// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

const (
	shortPacket = 78   // bytes of a frame without an option
	longPacket  = 1500 // bytes of a packet with one
)

// atSequence is where the Sequence Number is in a frame with one option.
const atSequence = atOption + 4 + ioam.DirectExportLen + 4

const bothExtensions = ioam.ExtensionFlowID | ioam.ExtensionSequence

// directExport describes what a node does with Direct Export options.
type directExport struct {
	role  model.NodeRole
	mode  model.Mode
	flags uint8
	kind  ioam.TraceType
	way   model.ExportMode
	read  harness.Reading
	fast  bool

	derived bool // the agent chooses the tunnel's source
}

// configuredPart keeps only what the node's configuration contains; the rest is only in the
// packets.
func (x directExport) configuredPart() directExport {
	inserts := x.role == model.RoleEncapsulating && x.way != model.ExportNone
	if !inserts {
		x.flags, x.kind, x.derived = 0, 0, false
	}
	if !inserts && x.role != model.RoleDecapsulating {
		x.mode = model.ModeInline
	}
	return x
}

// without is the same node without Direct Export in its configuration.
func (x directExport) without() directExport {
	x.way, x.read = model.ExportNone, harness.Unread
	return x.configuredPart()
}

// option is what an encapsulating node inserts.
func (x directExport) option() model.InsertedOption {
	return model.InsertedOption{DirectExport: &model.DirectExportOption{Namespace: namespace, Type: x.kind, ExtensionFlags: x.flags}}
}

// directExportOption is an option in a packet, aligned as hopByHop needs it.
func directExportOption(kind ioam.TraceType, flags uint8) []byte {
	d := ioam.DirectExport{Namespace: namespace, ExtensionFlags: flags, Type: kind, FlowID: 0x5eed}
	body := d.Append([]byte{0, byte(ioam.IOAMDirectExport)})
	return append([]byte{byte(ioam.OptionIOAMStatic), byte(len(body))}, body...)
}

// overhead is how many bytes the option adds to a packet.
func (x directExport) overhead() int {
	n := len(hopByHop(harness.NextNone, nil, directExportOption(x.kind, x.flags)))
	if x.mode != model.ModeInline {
		n += harness.IPv6Header
	}
	return n
}

// bare is the length of a frame of this size without an option.
func (x directExport) bare(size int) int {
	if size == longPacket {
		return harness.EthernetHeader + longPacket - x.overhead()
	}
	return size
}

// packets are what reaches the node: with an option in one of n, or with none but
// otherwise sent the same way.
func (x directExport) packets(size, n int, carrying bool) harness.Stream {
	if x.role == model.RoleEncapsulating {
		return harness.Stream{Frame: harness.Plain(harness.Destination, x.bare(size))}
	}
	length := x.bare(size) + x.overhead()
	s := harness.Stream{Frame: harness.Plain(harness.Destination, length), Rest: harness.Plain(harness.Destination, length), Every: n}
	if x.flags&ioam.ExtensionSequence != 0 {
		s.Numbered = atSequence
	}
	if !carrying {
		return s
	}
	option := directExportOption(x.kind, x.flags)
	s.Frame = padded(length, option)
	if x.mode != model.ModeInline {
		s.Frame = tunnelled(harness.Plain(harness.Destination, x.bare(size))[harness.EthernetHeader:], option)
	}
	return s
}

// node is the treatment; one in n packets gets an option.
func (x directExport) node(n int) harness.Treatment {
	x = x.configuredPart()
	name := fmt.Sprintf("direct export %+v, one in %d", x, n)
	if x.role != model.RoleEncapsulating {
		name = fmt.Sprintf("direct export %+v", x)
	}
	t := harness.Treatment{
		Name:   name,
		Read:   x.read,
		Derive: x.derived,
		Attach: datapath.AttachXDP,
		Config: func(in, out model.IfIndex) model.NodeConfig {
			return x.config(in, out, n)
		},
	}
	if x.role == model.RoleEncapsulating {
		t.Attach = datapath.AttachTCX
	}
	if x.fast {
		return forwardingFast(t)
	}
	return t
}

// config is the node's configuration, with limits that are never reached. Without
// a way to export, it contains nothing of Direct Export.
func (x directExport) config(in, out model.IfIndex, n int) model.NodeConfig {
	c := nodeConfig()
	if x.way != model.ExportNone {
		c = x.triggered(c, n)
	}
	if x.role == model.RoleDecapsulating && x.mode == model.ModeEncap {
		c.Decapsulations = []model.Decapsulation{{TunnelDestination: harness.TunnelEnd}}
	}
	c = place(c, in, out)
	if x.role == model.RoleEncapsulating {
		c.Interfaces = c.Interfaces[1:]
	}
	return c
}

// triggered adds exports to a node, and the rules that cause them.
func (x directExport) triggered(c model.NodeConfig, n int) model.NodeConfig {
	c = exporting(c, x.way)
	switch {
	case x.role == model.RoleEncapsulating:
		e := model.Encapsulation{
			Name: "measured", Interface: ours, Mode: x.mode, Options: []model.InsertedOption{x.option()},
			Match:     model.Match{Destination: netip.PrefixFrom(harness.Destination, 64).Masked()},
			Frequency: model.Frequency{K: 1, N: uint32(n)},
		}
		if x.mode != model.ModeInline {
			e.TunnelDestination = harness.TunnelEnd
		}
		if x.mode != model.ModeInline && !x.derived {
			e.TunnelSource = harness.TunnelStart
		}
		c.Encapsulations = []model.Encapsulation{e}
	case x.role == model.RoleDecapsulating && x.mode == model.ModeInline:
		c.Namespaces[0].Remove = true
	}
	return c
}

// arrives checks packets after the node.
func (x directExport) arrives() harness.Arrival {
	switch x.role {
	case model.RoleEncapsulating:
		return sometimesLonger(x.overhead())
	case model.RoleDecapsulating:
		return sometimesLonger(-x.overhead())
	}
	return unchanged
}

// wants are the expected outcomes; the first is that of the exported packets.
func (x directExport) wants(share float64) []harness.Want {
	outcome := model.OutcomeDirectExport
	hook := datapath.HookEgressTC
	switch {
	case x.role == model.RoleEncapsulating && x.mode == model.ModeInline:
		outcome = model.OutcomeEncapInserted
	case x.role == model.RoleEncapsulating:
		outcome = model.OutcomeEncapTunneled
	case x.role == model.RoleDecapsulating && x.mode == model.ModeInline:
		outcome, hook = model.OutcomeInlineRemoved, datapath.HookIngressXDP
	case x.role == model.RoleDecapsulating:
		outcome, hook = model.OutcomeTunnelDecapsulated, datapath.HookIngressXDP
	}
	if x.fast && hook == datapath.HookEgressTC {
		hook = harness.HookForwarded
	}
	list := []harness.Want{{Hook: hook, Outcome: outcome, Share: share}}
	if x.fast && x.role == model.RoleDecapsulating {
		list = append(list, harness.Has(0, harness.HookForwarded, model.OutcomeNoIOAM))
	}
	return list
}
