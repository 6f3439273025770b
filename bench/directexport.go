// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// sampleEvery is the n of sampling: the limit that RFC 9326 §3.1.2 recommends.
const sampleEvery = 100

const (
	shortPacket = 78   // bytes of a frame without an option
	longPacket  = 1500 // bytes of a packet with one
)

// atSequence is where the Sequence Number is in a frame with one option.
const atSequence = atOption + 4 + ioam.DirectExportLen + 4

const bothExtensions = ioam.ExtensionFlowID | ioam.ExtensionSequence

// directExport is what a node does with options of Direct Export.
type directExport struct {
	role  model.ExportRole
	mode  model.Mode
	flags uint8
	kind  ioam.TraceType
	way   model.ExportMode
	read  reading
	fast  bool

	derived bool // the tunnel's source is the agent's to find
}

// told is what of it a node is configured with; the rest is in packets alone.
func (x directExport) told() directExport {
	inserts := x.role == model.RoleEncapsulating && x.way != model.ExportNone
	if !inserts {
		x.flags, x.kind, x.derived = 0, 0, false
	}
	if !inserts && x.role != model.RoleDecapsulating {
		x.mode = model.ModeInline
	}
	return x
}

// without is the same node with nothing of Direct Export in its configuration.
func (x directExport) without() directExport {
	x.way, x.read = model.ExportNone, unread
	return x.told()
}

// option is what an encapsulating node inserts.
func (x directExport) option() model.InsertedOption {
	return model.InsertedOption{DirectExport: &model.DirectExportOption{Namespace: namespace, Type: x.kind, ExtensionFlags: x.flags}}
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
	if x.mode != model.ModeInline {
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
	if x.role == model.RoleEncapsulating {
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
	if x.mode != model.ModeInline {
		s.frame = tunnelled(plain(destination, x.bare(size))[ethernetHeader:], option)
	}
	return s
}

// node is the treatment; one in n packets is to get an option.
func (x directExport) node(n int) treatment {
	x = x.told()
	name := fmt.Sprintf("direct export %+v, one in %d", x, n)
	if x.role != model.RoleEncapsulating {
		name = fmt.Sprintf("direct export %+v", x)
	}
	t := treatment{name: name, read: x.read, derive: x.derived, attach: datapath.AttachXDP, config: func(in, out model.IfIndex) model.NodeConfig {
		return x.config(in, out, n)
	}}
	if x.role == model.RoleEncapsulating {
		t.attach = datapath.AttachTCX
	}
	if x.fast {
		return t.forwardingFast()
	}
	return t
}

// config is the node's, without a limit that would be met. Without a way to
// export, nothing in it concerns Direct Export.
func (x directExport) config(in, out model.IfIndex, n int) model.NodeConfig {
	c := nodeConfig()
	if x.way != model.ExportNone {
		c = x.triggered(c, n)
	}
	if x.role == model.RoleDecapsulating && x.mode == model.ModeEncap {
		c.Decapsulations = []model.Decapsulation{{TunnelDestination: tunnelEnd}}
	}
	c = place(c, in, out)
	if x.role == model.RoleEncapsulating {
		c.Interfaces = c.Interfaces[1:]
	}
	return c
}

// triggered adds exports to a node, and what makes them.
func (x directExport) triggered(c model.NodeConfig, n int) model.NodeConfig {
	c = exporting(c, x.way)
	switch {
	case x.role == model.RoleEncapsulating:
		e := model.Encapsulation{
			Name: "measured", Interface: ours, Mode: x.mode, Options: []model.InsertedOption{x.option()},
			Match:     model.Match{Destination: netip.PrefixFrom(destination, 64).Masked()},
			Frequency: model.Frequency{K: 1, N: uint32(n)},
		}
		if x.mode != model.ModeInline {
			e.TunnelDestination = tunnelEnd
		}
		if x.mode != model.ModeInline && !x.derived {
			e.TunnelSource = tunnelStart
		}
		c.Encapsulations = []model.Encapsulation{e}
	case x.role == model.RoleDecapsulating && x.mode == model.ModeInline:
		c.Namespaces[0].Remove = true
	}
	return c
}

// arrives is how packets look behind the node.
func (x directExport) arrives() arrival {
	switch x.role {
	case model.RoleEncapsulating:
		return sometimesLonger(x.overhead())
	case model.RoleDecapsulating:
		return sometimesLonger(-x.overhead())
	}
	return unchanged
}

// wants are the outcomes; the first is that of the packets that are exported.
func (x directExport) wants(share float64) []want {
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
		hook = hookForwarded
	}
	list := []want{{hook: hook, outcome: outcome, share: share}}
	if x.fast && x.role == model.RoleDecapsulating {
		list = append(list, has(0, hookForwarded, model.OutcomeNoIOAM))
	}
	return list
}
