// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/hex"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/testnet"
)

// The tables' valid packet: Ethernet, IPv6, a Hop-by-Hop header with one trace of
// node and interface ids and room for three nodes, and UDP. The offsets are those
// of its fields.
const (
	atEtherType = 12
	atIPv6      = 14
	atLength    = atIPv6 + 4
	atNext      = atIPv6 + 6
	atHopLimit  = atIPv6 + 7
	atHBH       = atIPv6 + 40
	atOption    = atHBH + 4
	atTrace     = atOption + 4
	atData      = atTrace + 8
	atUDP       = atHBH + 40
	atInner     = atUDP // of a tunnelled packet
)

func rightPacket() []byte {
	trace := append([]byte{0x31, 34, 0, 0, 0, 123, 0x10, 6, 0xc0, 0, 0, 0}, make([]byte, 24)...)
	return frameOf(craft.HopByHop, craft.Options(craft.UDP, 2, trace), craft.Datagram(4242, 9, []byte("waymark.")...))
}

// frameOf is a frame with another payload between the same addresses.
func frameOf(next byte, payload ...[]byte) []byte {
	address := bytes.Repeat([]byte{2}, 6)
	header := craft.IPv6{Next: next, HopLimit: 64, Source: addresses[0], Destination: addresses[1]}
	return craft.Ethernet(address, address, header.With(payload...))
}

// carrying is a frame with a Direct Export option before its upper layer.
func carrying(t testing.TB, d ioam.DirectExport, next byte, upper []byte) []byte {
	t.Helper()
	header, err := ioam.AppendExtensionHeader(nil, ioam.NextHeader(next), d.Option(0))
	if err != nil {
		t.Fatal(err)
	}
	return frameOf(craft.HopByHop, header, upper)
}

func rightConfig() model.NodeConfig {
	both := model.RoleIngress | model.RoleEgress
	return model.NodeConfig{
		ID: 2, IDWide: 22222222,
		Interfaces: []model.Interface{
			{Index: 1, Name: "eth0", ID: 201, IDWide: 201201, Roles: both, MTU: 65536},
			{Index: 2, Name: "eth1", ID: 202, IDWide: 202202, Roles: both, MTU: 65536},
			{Index: 3, Name: "edge", ID: 203, IDWide: 203203, MTU: 65536},
		},
		Namespaces: []model.Namespace{{ID: 123}, {ID: 7, Remove: true}},
	}
}

// mutation is the valid packet with one thing changed.
type mutation struct {
	name    string
	on      model.IfIndex // 1 when zero
	config  func(*model.NodeConfig)
	change  func(f []byte) []byte
	outcome model.Outcome
	drop    bool
	want    func(f []byte) []byte // the frame that goes on, from the changed one; nil = unchanged
	also    model.Outcome         // outcome of an option, besides the packet's; 0: none
	records uint64
}

func set(offset int, values ...byte) func([]byte) []byte {
	return func(f []byte) []byte {
		copy(f[offset:], values)
		return f
	}
}

func filled(f []byte) []byte {
	return set(atData+16, 63, 0, 0, 2, 0, 201, 0xff, 0xff)(set(atTrace+3, 4)(f))
}

func stripped(f []byte) []byte {
	f = append(append(f[:atHBH:atHBH], f[atUDP:]...), nil...)
	return set(atLength, 0, 16, 17)(f)
}

// sharedOptions are a trace and an option of others, which fill the header; sharedStripped is
// the packet without the trace.
var sharedOptions = []byte{0x31, 26, 0, 0, 0, 123, 0x10, 4, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3e, 6, 1, 2,
	3, 4, 5, 6}

func sharedStripped(f []byte) []byte {
	return set(atLength, 0, 32)(slices.Concat(f[:atHBH], []byte{17, 1, 1, 4, 0, 0, 0, 0, 0x3e, 6, 1, 2, 3, 4, 5, 6}, f[atUDP:]))
}

func mainline(c *model.NodeConfig) { c.Compatibility = model.CompatibilityMainline }

// fragmentHeader is the Fragment header of an unfragmented packet, before a
// Hop-by-Hop header.
var fragmentHeader = []byte{0, 0, 0, 0, 0, 0, 0, 1}

// destinationOptions are n headers of padding, before UDP.
func destinationOptions(n int) (headers []byte) {
	for range n {
		headers = append(headers, 60, 0, 1, 4, 0, 0, 0, 0)
	}
	headers[len(headers)-8] = 17
	return headers
}

// after puts headers between the IPv6 and the Hop-by-Hop header.
func after(first byte, headers []byte) func([]byte) []byte {
	return func(f []byte) []byte {
		f = slices.Insert(f, atHBH, headers...)
		f[atNext], f[atLength+1] = first, f[atLength+1]+byte(len(headers))
		return f
	}
}

func boundary(b model.Boundary) func(*model.NodeConfig) {
	return func(c *model.NodeConfig) { c.Interfaces[2].Boundary = b }
}

func decapsulating(c *model.NodeConfig) {
	c.Decapsulations = []model.Decapsulation{{TunnelDestination: addresses[1]}}
}

// from decapsulates packets from prefixes only.
func from(prefixes ...string) func(*model.NodeConfig) {
	return func(c *model.NodeConfig) {
		decapsulating(c)
		c.Decapsulations[0].Bare = true
		for _, p := range prefixes {
			c.Decapsulations[0].Sources = append(c.Decapsulations[0].Sources, netip.MustParsePrefix(p))
		}
	}
}

// guarding configures tunnels that end elsewhere.
func guarding(c *model.NodeConfig) {
	c.TunnelDestinations = []netip.Addr{addresses[3], addresses[1]}
}

// bare is a tunnel without a Hop-by-Hop header.
func bare(f []byte) []byte {
	f = tunnelled(f)
	f = append(f[:atHBH:atHBH], f[atInner:]...)
	return set(atLength, 0, 48, 41)(f)
}

func then(changes ...func([]byte) []byte) func([]byte) []byte {
	return func(f []byte) []byte {
		for _, change := range changes {
			f = change(f)
		}
		return f
	}
}

// tunnelled puts an IPv6 packet after the Hop-by-Hop header.
func tunnelled(f []byte) []byte {
	inner := craft.IPv6{Next: craft.UDP, HopLimit: 9, Source: addresses[2], Destination: addresses[0]}
	f = append(f[:atUDP:atUDP], inner.With(craft.Datagram(0x0102, 0x0304))...)
	return set(atHBH, 41)(set(atLength, 0, 88)(f))
}

// shortExport replaces the option by a Direct Export without a trace type,
// followed by a trace with a NodeLen.
func shortExport(nodeLen byte) func([]byte) []byte {
	return set(atOption, 0x31, 6, 0, 4, 0, 123, 0, 0, 0x31, 26, 0, 0, 0, 123, nodeLen, 2, 0xc0, 0, 0, 0)
}

// snapshots is an incremental trace of two nodes with hop limit, id and a snapshot; that of the
// second has some 4-byte units, and room for none.
func snapshots(units byte) []byte {
	return []byte{0x31, 34, 0, 1, 0, 123, 0x08, 4, 0x80, 0, 2, 0, 63, 0, 0, 3, 2, 0, 3, 9, 1, 2, 3, 4, 5, 6, 7, 8, 64, 0, 0, 4, units, 0, 3, 9}
}

// sharedWith gives the trace less room, and the header another option.
func sharedWith(kind byte) func([]byte) []byte {
	return set(atOption, 0x31, 26, 0, 0, 0, 123, 0x10, 2, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kind, 6, 0, 0, 0, 0,
		0, 0)
}

// traceBefore puts one-byte options after the trace.
func traceBefore(count int) func([]byte) []byte {
	return func(f []byte) []byte {
		count := (count + 7) / 8 * 8
		header := append(append([]byte(nil), f[atHBH:atUDP]...), make([]byte, count)...)
		header[1] += byte(count / 8)
		f = append(append(f[:atHBH:atHBH], header...), f[atUDP:]...)
		return set(atLength, 0, byte(56+count))(f)
	}
}

// tagged puts VLAN tags in front of the packet.
func tagged(tags int) func([]byte) []byte {
	return func(f []byte) []byte {
		return append(append(f[:12:12], bytes.Repeat([]byte{0x81, 0, 0, 7}, tags)...), f[12:]...)
	}
}

var ingressMutations = []mutation{
	{name: "none", outcome: model.OutcomeTraceFilled, want: filled},
	{name: "IPv4", change: set(atEtherType, 8, 0), outcome: model.OutcomeNotIPv6},
	{name: "ARP", change: set(atEtherType, 8, 6), outcome: model.OutcomeNotIPv6},
	{name: "version 4", change: set(atIPv6, 0x45), outcome: model.OutcomeMalformedIPv6},
	{name: "cut in the IPv6 header", change: func(f []byte) []byte { return f[:atIPv6+39] }, outcome: model.OutcomeMalformedIPv6},
	{name: "no Hop-by-Hop header", change: set(atNext, 17), outcome: model.OutcomeNoIOAM},
	{name: "another option", change: set(atOption, 0x3e), outcome: model.OutcomeNoIOAM},
	{name: "cut in the Hop-by-Hop header", change: func(f []byte) []byte { return f[:atUDP-1] }, outcome: model.OutcomeMalformedHeader},
	{name: "payload shorter than the header", change: set(atLength, 0, 39), outcome: model.OutcomeMalformedHeader},
	{name: "option beyond the header", change: set(atOption+1, 35), outcome: model.OutcomeMalformedHeader},
	{name: "padding beyond the header", change: set(atHBH+3, 0xff), outcome: model.OutcomeMalformedHeader},
	{name: "36 options", change: func(f []byte) []byte { clear(f[atHBH+2 : atUDP]); return f }, outcome: model.OutcomeMalformedTooManyOptions},
	{name: "option not aligned", change: set(atHBH+2, 0, 0x31, 35), outcome: model.OutcomeMalformedAlignment},
	{name: "option of one byte", change: set(atOption, 0x31, 1, 0, 1, 31, 0), outcome: model.OutcomeMalformedOptionLength},
	{name: "trace of nine bytes", change: set(atOption, 0x31, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 23), outcome: model.OutcomeMalformedOptionLength},
	{name: "NodeLen 3", change: set(atTrace+2, 0x18), outcome: model.OutcomeMalformedNodeLength},
	{name: "RemainingLen 7", change: set(atTrace+3, 7), outcome: model.OutcomeMalformedRemainingLength},
	{name: "mainline, RemainingLen 7", config: mainline, change: set(atTrace+3, 7), outcome: model.OutcomeMalformedRemainingLength, drop: true},
	{name: "mainline, not aligned", config: mainline, change: set(atHBH+2, 0, 0x31, 35), outcome: model.OutcomeMalformedAlignment, drop: true},
	{name: "incremental trace", change: set(atOption+3, 1), outcome: model.OutcomeOptionUnsupported},
	{name: "incremental trace that may grow", config: growing, change: set(atOption+3, 1), outcome: model.OutcomeIncrementalTrace},
	{name: "incremental trace with the overflow flag", config: growing, change: then(set(atOption+3, 1), set(atTrace+2, 0x14)), outcome: model.OutcomeOverflowSet},
	{name: "incremental trace of namespace 124", config: growing, change: then(set(atOption+3, 1), set(atTrace+1, 124)), outcome: model.OutcomeNamespaceUnknown},
	{name: "incremental trace, NodeLen 3", config: growing, change: then(set(atOption+3, 1), set(atTrace+2, 0x18)), outcome: model.OutcomeMalformedNodeLength},
	{name: "incremental trace, within a node's data", config: growing, change: set(atOption, 0x31, 22, 0, 1, 0, 123, 0x10, 4, 0xc0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 10), outcome: model.OutcomeMalformedNodeData},
	{name: "incremental trace of namespace 124, within 4 bytes", change: set(atOption, 0x31, 19, 0, 1, 0, 124, 0x10, 4, 0xc0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 13), outcome: model.OutcomeMalformedNodeData},
	{name: "incremental trace, within a node's data, mainline", config: mainline, change: set(atOption, 0x31, 22, 0, 1, 0, 123, 0x10, 4, 0xc0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 10), outcome: model.OutcomeOptionUnsupported},
	{name: "incremental trace with snapshots", config: growing, change: set(atOption, snapshots(0)...), outcome: model.OutcomeIncrementalTrace},
	{name: "incremental trace, within a snapshot", config: growing, change: set(atOption, snapshots(1)...), outcome: model.OutcomeMalformedNodeData},
	{name: "incremental trace, before a snapshot", config: growing, change: set(atOption, 0x31, 14, 0, 1, 0, 123, 0x08, 4, 0x80, 0, 2, 0, 1, 2, 3, 4, 1, 18), outcome: model.OutcomeMalformedNodeData},
	{name: "incremental trace, a snapshot far beyond the packet", config: growing, change: set(atOption, snapshots(255)...), outcome: model.OutcomeMalformedNodeData},
	{name: "incremental trace without fields, and some data", config: growing, change: set(atOption, 0x31, 15, 0, 1, 0, 123, 0, 4, 0, 0, 0, 0, 1, 2, 3, 4, 5, 1, 17), outcome: model.OutcomeIncrementalTrace},
	{name: "incremental trace of nine bytes", change: set(atOption, 0x31, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 23), outcome: model.OutcomeMalformedOptionLength},
	{name: "incremental trace of nine bytes, mainline", config: mainline, change: set(atOption, 0x31, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 23), outcome: model.OutcomeOptionUnsupported},
	{name: "incremental trace, RemainingLen beyond the option", config: growing, change: then(set(atOption+3, 1), set(atTrace+3, 127)), outcome: model.OutcomeIncrementalTrace},
	{name: "incremental trace to be removed", change: then(set(atOption+3, 1), set(atTrace+1, 7)), outcome: model.OutcomeInlineRemoved, want: stripped, also: model.OutcomeOptionUnsupported, records: 1},
	{name: "incremental trace in a tunnel that ends here", config: decapsulating, change: then(tunnelled, set(atOption+3, 1)), outcome: model.OutcomeTunnelDecapsulated,
		want: func(f []byte) []byte { return append(f[:14:14], f[atUDP:]...) }, also: model.OutcomeOptionUnsupported, records: 1},
	{name: "DEX in 0x11", change: set(atOption, 0x11, 34, 0, 4), outcome: model.OutcomeDirectExport},
	{name: "DEX in 0x31", change: set(atOption, 0x31, 34, 0, 4), outcome: model.OutcomeDirectExport},
	{name: "DEX of namespace 124", change: set(atOption, 0x11, 34, 0, 4, 0, 124), outcome: model.OutcomeNamespaceUnknown},
	{name: "DEX with eight extensions", change: set(atOption, 0x11, 34, 0, 4, 0, 123, 0, 0xff), outcome: model.OutcomeMalformedOptionLength},
	{name: "DEX with six extensions", change: set(atOption, 0x11, 34, 0, 4, 0, 123, 0, 0x3f), outcome: model.OutcomeDirectExport},
	{name: "DEX of nine bytes in 0x11", change: set(atOption, 0x11, 9, 0, 4), outcome: model.OutcomeNoIOAM},
	{name: "DEX of nine bytes in 0x31", change: set(atOption, 0x31, 9, 0, 4), outcome: model.OutcomeMalformedOptionLength},
	{name: "mainline, DEX of nine bytes in 0x31", config: mainline, change: set(atOption, 0x31, 9, 0, 4), outcome: model.OutcomeOptionUnsupported},
	{name: "mainline, DEX of two bytes in 0x31", config: mainline, change: set(atOption, 0x31, 2, 0, 4, 1, 28), outcome: model.OutcomeOptionUnsupported},
	{name: "mainline, DEX of one byte in 0x31", config: mainline, change: set(atOption, 0x31, 1, 0, 1, 31, 0), outcome: model.OutcomeMalformedOptionLength, drop: true},
	{name: "mainline, DEX with eight extensions", config: mainline, change: set(atOption, 0x11, 34, 0, 4, 0, 123, 0, 0xff), outcome: model.OutcomeOptionUnsupported},
	{name: "mainline, short DEX before a trace", config: mainline, change: shortExport(0x10), outcome: model.OutcomeTraceFilled, also: model.OutcomeOptionUnsupported,
		want: func(f []byte) []byte { return set(atData+8, 63, 0, 0, 2, 0, 201, 0xff, 0xff)(set(atTrace+8+3, 0)(f)) }},
	{name: "mainline, short DEX before a faulty trace", config: mainline, change: shortExport(0x18), outcome: model.OutcomeMalformedNodeLength, drop: true},
	{name: "DEX to be removed", change: set(atOption, 0x11, 34, 0, 4, 0, 7), outcome: model.OutcomeInlineRemoved, want: stripped},
	{name: "a shim in 0x11", change: set(atOption, 0x11, 34, 1, 4), outcome: model.OutcomeNoIOAM},
	{name: "namespace 124", change: set(atTrace+1, 124), outcome: model.OutcomeNamespaceUnknown},
	{name: "overflow flag", change: set(atTrace+2, 0x14), outcome: model.OutcomeOverflowSet},
	{name: "no room", change: set(atTrace+3, 1), outcome: model.OutcomeTraceOverflow, want: set(atTrace+2, 0x14)},
	{name: "hop limit 0", change: set(atHopLimit, 0), outcome: model.OutcomeTraceFilled,
		want: func(f []byte) []byte { return set(atData+16, 255)(filled(f)) }},
	{name: "edge, drop", on: 3, outcome: model.OutcomeBoundaryDropped, drop: true},
	{name: "edge, ignore", on: 3, config: boundary(model.BoundaryIgnore), outcome: model.OutcomeBoundaryIgnored},
	{name: "edge, strip", on: 3, config: boundary(model.BoundaryStrip), outcome: model.OutcomeBoundaryStripped, want: stripped},
	{name: "edge, strip, another option too", on: 3, config: boundary(model.BoundaryStrip), change: set(atOption, sharedOptions...),
		outcome: model.OutcomeBoundaryStripped, want: sharedStripped},
	{name: "edge, strip, another option too, not aligned", on: 3, config: boundary(model.BoundaryStrip),
		change: then(set(atOption, sharedOptions...), set(atHBH+2, 0, 0x31, 27)), outcome: model.OutcomeBoundaryStripped, want: sharedStripped},
	{name: "edge, strip, another option too, no length", on: 3, config: boundary(model.BoundaryStrip),
		change: then(set(atOption, sharedOptions...), set(atLength, 0, 0)), outcome: model.OutcomeBoundaryStripPartial},
	{name: "edge, strip, another option between three of IOAM", on: 3, config: boundary(model.BoundaryStrip),
		change:  set(atOption, 0x31, 2, 0, 9, 0x1e, 2, 7, 8, 0x11, 10, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0x31, 2, 0, 2, 1, 6, 0, 0, 0, 0, 0, 0),
		outcome: model.OutcomeBoundaryStripped,
		want: func(f []byte) []byte {
			return set(atLength, 0, 32)(slices.Concat(f[:atHBH], []byte{17, 1, 1, 4, 0, 0, 0, 0, 0x1e, 2, 7, 8, 1, 2, 0, 0}, f[atUDP:]))
		}},
	{name: "edge, 36 options", on: 3, change: func(f []byte) []byte { clear(f[atHBH+2 : atUDP]); return f }, outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, trace and 34 options", on: 3, change: traceBefore(34), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, strip, trace and 34 options", on: 3, config: boundary(model.BoundaryStrip), change: traceBefore(34), outcome: model.OutcomeMalformedTooManyOptions},
	{name: "edge, ignore, trace and 34 options", on: 3, config: boundary(model.BoundaryIgnore), change: traceBefore(34), outcome: model.OutcomeMalformedTooManyOptions},
	{name: "edge, cut in the Hop-by-Hop header", on: 3, change: func(f []byte) []byte { return f[:atUDP-1] }, outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, cut behind the IPv6 header", on: 3, change: func(f []byte) []byte { return f[:atHBH+1] }, outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, payload shorter than the header", on: 3, change: set(atLength, 0, 39), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, option beyond the header", on: 3, change: set(atOption+1, 35), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, no length", on: 3, change: set(atLength, 0, 0), outcome: model.OutcomeBoundaryDropped, drop: true},
	{name: "edge, not aligned", on: 3, change: set(atHBH+2, 0, 0x31, 35), outcome: model.OutcomeBoundaryDropped, drop: true},
	{name: "edge, two tags", on: 3, change: tagged(2), outcome: model.OutcomeBoundaryDropped, drop: true},
	{name: "edge, three tags", on: 3, change: tagged(3), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, four tags", on: 3, change: tagged(4), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, another protocol behind three tags", on: 3, change: func(f []byte) []byte { return set(24, 8, 0)(tagged(3)(f)) }, outcome: model.OutcomeNotIPv6},
	{name: "edge, strip, three tags", on: 3, config: boundary(model.BoundaryStrip), change: tagged(3), outcome: model.OutcomeNotIPv6},
	{name: "three tags", change: tagged(3), outcome: model.OutcomeNotIPv6},
	{name: "edge, cut in the IPv6 header", on: 3, change: func(f []byte) []byte { return f[:atIPv6+39] }, outcome: model.OutcomeMalformedIPv6},
	{name: "edge, version 4", on: 3, change: set(atIPv6, 0x45), outcome: model.OutcomeMalformedIPv6},
	{name: "edge, a shim in 0x11", on: 3, change: set(atOption, 0x11, 34, 1, 4), outcome: model.OutcomeNoIOAM},
	{name: "edge, followed", on: 3, change: set(atHBH, 0), outcome: model.OutcomeBoundaryDropped, drop: true},
	{name: "edge, no IOAM, followed", on: 3, change: set(atHBH, 0, 4, 1, 0, 0x3e), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, strip, followed", on: 3, config: boundary(model.BoundaryStrip), change: set(atHBH, 0), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, strip, no IOAM, followed", on: 3, config: boundary(model.BoundaryStrip), change: set(atHBH, 0, 4, 1, 0, 0x3e), outcome: model.OutcomeNoIOAM},
	{name: "edge, ignore, followed", on: 3, config: boundary(model.BoundaryIgnore), change: set(atHBH, 0), outcome: model.OutcomeBoundaryIgnored},
	{name: "edge, after a fragment header", on: 3, change: after(44, fragmentHeader), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, in a later fragment", on: 3, change: after(44, []byte{0, 0, 0, 8, 0, 0, 0, 1}), outcome: model.OutcomeNoIOAM},
	{name: "edge, after a routing header", on: 3, change: after(43, []byte{0, 0, 4, 0, 0, 0, 0, 0}), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, after destination options", on: 3, change: after(60, []byte{0, 0, 1, 4, 0, 0, 0, 0}), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, after an authentication header", on: 3, change: after(51, make([]byte, 8)), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, eight headers", on: 3, change: after(60, destinationOptions(8)), outcome: model.OutcomeNoIOAM},
	{name: "edge, nine headers", on: 3, change: after(60, destinationOptions(9)), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, cut in another header", on: 3, change: then(set(atNext, 60), func(f []byte) []byte { return f[:atHBH+7] }), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, no IOAM, then a fragment header", on: 3, change: then(set(atHBH, 44, 4, 1, 0, 0x3e), set(atUDP, fragmentHeader...)), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, strip, then a fragment header", on: 3, config: boundary(model.BoundaryStrip), change: then(set(atHBH, 44), set(atUDP, fragmentHeader...)), outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
	{name: "edge, strip, after a fragment header", on: 3, config: boundary(model.BoundaryStrip), change: after(44, fragmentHeader), outcome: model.OutcomeNoIOAM},
	{name: "edge, ignore, after a fragment header", on: 3, config: boundary(model.BoundaryIgnore), change: after(44, fragmentHeader), outcome: model.OutcomeNoIOAM},
	{name: "after a fragment header", change: after(44, fragmentHeader), outcome: model.OutcomeNoIOAM},
	{name: "edge, another option", on: 3, change: set(atOption, 0x3e), outcome: model.OutcomeNoIOAM},
	{name: "edge, no IOAM", on: 3, change: set(atNext, 17), outcome: model.OutcomeNoIOAM},
	{name: "namespace to be removed", change: set(atTrace+1, 7), outcome: model.OutcomeInlineRemoved, want: stripped, also: model.OutcomeTraceFilled, records: 1},
	{name: "namespace to be removed, followed", change: func(f []byte) []byte { return set(atHBH, 0)(set(atTrace+1, 7)(f)) }, outcome: model.OutcomeRemovalPartial, also: model.OutcomeTraceFilled, want: filled},
	{name: "namespace to be removed, another option too",
		change:  set(atOption, 0x31, 26, 0, 0, 0, 7, 0x10, 2, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3e, 6, 0, 0, 0, 0, 0, 0),
		outcome: model.OutcomeOptionsRemoved, also: model.OutcomeTraceFilled, records: 1,
		want: func(f []byte) []byte {
			return set(atLength, 0, 32)(set(atHBH, 17, 1, 1, 4, 0, 0, 0, 0)(slices.Delete(f, atHBH+8, atHBH+32)))
		}},
	{name: "namespace to be removed, another option too, a jumbogram", change: func(f []byte) []byte { return set(atLength, 0, 0)(set(atTrace+1, 7)(sharedWith(0x3e)(f))) },
		outcome: model.OutcomeRemovalPartial, also: model.OutcomeTraceFilled,
		want: func(f []byte) []byte { return set(atData, 63, 0, 0, 2, 0, 201, 0xff, 0xff)(set(atTrace+3, 0)(f)) }},
	{name: "tunnel that ends here", config: decapsulating, change: tunnelled, outcome: model.OutcomeTunnelDecapsulated,
		want: func(f []byte) []byte { return append(f[:14:14], f[atUDP:]...) }, also: model.OutcomeTraceFilled, records: 1},
	{name: "tunnel whose outer hop limit is the lower one", config: decapsulating, outcome: model.OutcomeTunnelDecapsulated,
		change: func(f []byte) []byte { return set(atHopLimit, 3)(tunnelled(f)) },
		want:   func(f []byte) []byte { return set(atHopLimit, 3)(append(f[:14:14], f[atUDP:]...)) }, also: model.OutcomeTraceFilled, records: 1},
	{name: "tunnel without a trace whose outer hop limit is the lower one", config: from(), outcome: model.OutcomeTunnelDecapsulated,
		change: func(f []byte) []byte { return set(atOption, 0x1e)(set(atHopLimit, 3)(tunnelled(f))) },
		want:   func(f []byte) []byte { return set(atHopLimit, 3)(append(f[:14:14], f[atUDP:]...)) }},
	{name: "tunnel with Ethernet padding", config: decapsulating, change: func(f []byte) []byte { return append(tunnelled(f), 0, 0) }, outcome: model.OutcomeTunnelDecapsulated,
		want: func(f []byte) []byte { return append(f[:14:14], f[atUDP:]...) }, also: model.OutcomeTraceFilled, records: 1},
	{name: "tunnel, inner into the padding", config: decapsulating, change: func(f []byte) []byte { return set(atUDP+5, 9)(append(tunnelled(f), 0)) }, outcome: model.OutcomeMalformedTunnel},
	{name: "tunnel, inner beyond the frame", config: decapsulating, change: func(f []byte) []byte { return set(atUDP+5, 9)(tunnelled(f)) }, outcome: model.OutcomeMalformedTunnel},
	{name: "tunnel, no length, inner beyond the frame", config: decapsulating, change: func(f []byte) []byte { return set(atLength, 0, 0)(set(atUDP+5, 9)(tunnelled(f))) }, outcome: model.OutcomeMalformedTunnel},
	{name: "tunnel, beyond the frame", config: decapsulating, change: func(f []byte) []byte { return set(atLength, 0, 89)(tunnelled(f)) }, outcome: model.OutcomeMalformedTunnel},
	{name: "tunnel, ends in the inner header", config: decapsulating, change: func(f []byte) []byte { return set(atLength, 0, 79)(tunnelled(f)) }, outcome: model.OutcomeMalformedTunnel},
	{name: "tunnel, inner shorter", config: decapsulating, change: func(f []byte) []byte { return set(atUDP+5, 0)(tunnelled(f)) }, outcome: model.OutcomeTunnelDecapsulated,
		want: func(f []byte) []byte { return append(f[:14:14], f[atUDP:]...) }, also: model.OutcomeTraceFilled, records: 1},
	{name: "tunnel, no IOAM, discard", config: from(), change: func(f []byte) []byte { return set(atOption, 0x9e)(tunnelled(f)) }, outcome: model.OutcomeRemovalPartial},
	{name: "tunnel, no IOAM, skip", config: from(), change: func(f []byte) []byte { return set(atOption, 0x3e)(tunnelled(f)) }, outcome: model.OutcomeTunnelDecapsulated,
		want: func(f []byte) []byte { return append(f[:14:14], f[atUDP:]...) }},
	{name: "tunnel, trace and discard", config: decapsulating, change: func(f []byte) []byte { return sharedWith(0x5e)(tunnelled(f)) }, outcome: model.OutcomeRemovalPartial, also: model.OutcomeTraceFilled,
		want: func(f []byte) []byte { return set(atData, 63, 0, 0, 2, 0, 201, 0xff, 0xff)(set(atTrace+3, 0)(f)) }},
	{name: "tunnel, trace and skip", config: decapsulating, change: func(f []byte) []byte { return sharedWith(0x1e)(tunnelled(f)) }, outcome: model.OutcomeTunnelDecapsulated,
		want: func(f []byte) []byte { return append(f[:14:14], f[atUDP:]...) }, also: model.OutcomeTraceFilled, records: 1},
	{name: "tunnel behind a second header", config: decapsulating, change: func(f []byte) []byte { return set(atHBH, 0)(tunnelled(f)) }, outcome: model.OutcomeTraceFilled, want: filled},
	{name: "tunnel that ends here, from one of its sources", config: from("2001:db8:7::/64", "2001:db8:1::1/128"), change: tunnelled, outcome: model.OutcomeTunnelDecapsulated,
		want: func(f []byte) []byte { return append(f[:14:14], f[atUDP:]...) }, also: model.OutcomeTraceFilled, records: 1},
	{name: "tunnel that ends here, from another source", config: from("2001:db8:7::/64", "2001:db8:1::2/127"), change: tunnelled, outcome: model.OutcomeDecapRefusedSource},
	{name: "tunnel that ends here, namespace 124", config: decapsulating, change: then(tunnelled, set(atTrace+1, 124)), outcome: model.OutcomeDecapRefusedBare},
	{name: "bare tunnel that ends here", config: decapsulating, change: bare, outcome: model.OutcomeDecapRefusedBare},
	{name: "bare tunnel that ends here, from one of its sources", config: from("2001:db8:1::/64"), change: bare, outcome: model.OutcomeTunnelDecapsulated,
		want: func(f []byte) []byte { return append(f[:14:14], f[atHBH:]...) }},
	{name: "tunnel that ends here, from link-local inside", config: decapsulating, change: then(tunnelled, set(atInner+8, 0xfe, 0x80)), outcome: model.OutcomeDecapRefusedInner},
	{name: "tunnel that ends here, to multicast inside", config: decapsulating, change: then(tunnelled, set(atInner+24, 0xff)), outcome: model.OutcomeDecapRefusedInner},
	{name: "tunnel that ends here, to loopback inside", config: decapsulating, change: then(tunnelled, set(atInner+24, make([]byte, 8)...)), outcome: model.OutcomeDecapRefusedInner},
	{name: "tunnel that ends here, an advertisement inside", config: decapsulating, change: then(tunnelled, set(atInner+6, 58), set(atInner+40, 136)), outcome: model.OutcomeDecapRefusedInner},
	{name: "tunnel that ends here, an advertisement after options inside", config: decapsulating,
		change: then(tunnelled, set(atInner+6, 60), set(atInner+40, 58, 0, 1, 4), func(f []byte) []byte { return append(f, 134, 0, 0, 0) }), outcome: model.OutcomeDecapRefusedInner},
	{name: "tunnel that ends here, an echo request inside", config: decapsulating, change: then(tunnelled, set(atInner+6, 58), set(atInner+40, 128)), outcome: model.OutcomeTunnelDecapsulated,
		want: func(f []byte) []byte { return append(f[:14:14], f[atUDP:]...) }, also: model.OutcomeTraceFilled, records: 1},
	{name: "edge, a tunnel's end", on: 3, config: decapsulating, change: tunnelled, outcome: model.OutcomeBoundaryTunnelDropped, drop: true},
	{name: "edge, one of several tunnels' ends", on: 3, config: guarding, change: bare, outcome: model.OutcomeBoundaryTunnelDropped, drop: true},
	{name: "edge, a fragment to a tunnel's end", on: 3, config: guarding, change: then(bare, set(atNext, 44), set(atHBH, 41, 0, 0, 8)), outcome: model.OutcomeBoundaryTunnelDropped, drop: true},
	{name: "edge, UDP to a tunnel's end", on: 3, config: guarding, change: then(bare, set(atNext, 17)), outcome: model.OutcomeNoIOAM},
	{name: "edge, strip, a tunnel's end", on: 3, config: func(c *model.NodeConfig) { guarding(c); boundary(model.BoundaryStrip)(c) }, change: bare, outcome: model.OutcomeNoIOAM},
	{name: "edge, another tunnel", on: 3, change: bare, outcome: model.OutcomeNoIOAM},
	{name: "proof, updated", config: keyed(1), change: proof(firstNumber, 5), outcome: model.OutcomePotUpdated, want: proofAfter(1, firstNumber, 5)},
	{name: "proof, wrong", config: keyed(3), change: proof(firstNumber, 5), outcome: model.OutcomePotRejected, want: proofAfter(3, firstNumber, 5)},
	{name: "proof, number too large", config: keyed(1), change: proof(pot.Prime, 5), outcome: model.OutcomePotInvalid},
	{name: "proof, sum too large", config: keyed(1), change: proof(5, pot.Prime), outcome: model.OutcomePotInvalid},
	{name: "proof without a key", change: proof(firstNumber, 5), outcome: model.OutcomeOptionUnsupported},
	{name: "proof of an unknown namespace", config: keyed(1), change: then(proof(firstNumber, 5), set(atTrace, 1)), outcome: model.OutcomeNamespaceUnknown},
	{name: "proof of another POT-Type", config: keyed(1), change: then(proof(firstNumber, 5), set(atTrace+2, 1)), outcome: model.OutcomeOptionUnsupported},
	{name: "proof with flags", config: keyed(1), change: then(proof(firstNumber, 5), set(atTrace+3, 0xff)), outcome: model.OutcomePotUpdated, want: proofAfter(1, firstNumber, 5)},
	{name: "proof, too short", config: keyed(1), change: then(proof(firstNumber, 5), set(atOption+1, 18), set(atTrace+16, 1, 2)), outcome: model.OutcomeMalformedOptionLength},
	{name: "proof, too short, mainline", config: func(c *model.NodeConfig) { mainline(c); keyed(1)(c) }, change: then(proof(firstNumber, 5), set(atOption+1, 18), set(atTrace+16, 1, 2)), outcome: model.OutcomeOptionUnsupported},
	{name: "proof in 0x11", config: keyed(1), change: then(proof(firstNumber, 5), set(atOption, 0x11)), outcome: model.OutcomeNoIOAM},
	{name: "proof, refused", config: func(c *model.NodeConfig) { keyed(3)(c); c.Namespaces[0].Proof.DropRejected = true }, change: proof(firstNumber, 5),
		outcome: model.OutcomePotDropped, drop: true, also: model.OutcomePotRejected, want: proofAfter(3, firstNumber, 5)},
	{name: "proof, removed without a record", config: func(c *model.NodeConfig) { keyed(3)(c); c.Namespaces[0].Remove = true }, change: proof(firstNumber, 5),
		outcome: model.OutcomeInlineRemoved, also: model.OutcomePotRejected,
		want: func(f []byte) []byte { return set(atLength, 0, 16, 17)(append(f[:atHBH:atHBH], f[atHBH+32:]...)) }},
	{name: "tunnel of others", change: tunnelled, outcome: model.OutcomeTraceFilled, want: filled},
	{name: "tunnel without a header in it", config: decapsulating, change: func(f []byte) []byte { return tunnelled(f)[:atUDP+39] },
		outcome: model.OutcomeTraceFilled, want: filled},
}

// TestIngressMutations checks both ingress programs: verdict, bytes, records, the
// one counter, and that no other counter changed.
func TestIngressMutations(t *testing.T) {
	testnet.NeedRoot(t)
	type set struct {
		cfg      model.NodeConfig
		on       model.IfIndex
		programs *programs
	}
	all := t         // programs stay loaded as long as it runs
	var loaded []set // loading takes longest
	for _, m := range slices.Concat(ingressMutations, edgeMutations, authenticatedMutations) {
		t.Run(m.name, func(t *testing.T) {
			cfg := rightConfig()
			if m.config != nil {
				m.config(&cfg)
			}
			on := max(m.on, 1)
			known := slices.IndexFunc(loaded, func(s set) bool { return s.on == on && reflect.DeepEqual(s.cfg, cfg) })
			if known < 0 {
				known = len(loaded)
				loaded = append(loaded, set{cfg, on, loadPrograms(all, cfg, on, fixedTime, hookIngressXDP, hookIngressTC)})
			}
			p, frame := loaded[known].programs, rightPacket()
			if m.change != nil {
				frame = m.change(frame)
			}
			want := frame
			if m.want != nil {
				want = m.want(slices.Clone(frame))
			}
			for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
				if program.Type() == ebpf.SchedCLS && len(frame) < atHBH {
					continue // the facility refuses an skb shorter than its protocol's header
				}
				before := p.snapshotCounters(t)
				verdict, out := run(t, program, frame, 0)
				if dropped(program, verdict) != m.drop {
					t.Errorf("%v: verdict %d", program.Type(), int32(verdict))
				}
				if !bytes.Equal(out, want) {
					t.Errorf("%v:\n%swant\n%s", program.Type(), hex.Dump(out), hex.Dump(want))
				}
				counters := map[bpf.ABICounter]uint64{bpf.ABICounterCOUNTER_INGRESS + bpf.ABICounter(m.outcome): 1}
				if m.also != 0 {
					counters[bpf.ABICounterCOUNTER_INGRESS_OPTIONS+bpf.ABICounter(m.also)] = 1
				}
				if m.records > 0 {
					counters[bpf.ABICounterCOUNTER_RECORDS_WRITTEN] = m.records
				}
				if got := moved(before, p.snapshotCounters(t)); !maps.Equal(got, counters) {
					t.Errorf("%v: counters moved by %v, want %v (%s)", program.Type(), got, counters, m.outcome)
				}
				if records := p.readRecords(t); uint64(len(records)) != m.records {
					t.Errorf("%v: %d records, want %d", program.Type(), len(records), m.records)
				}
			}
		})
	}
}

// TestOutcomes compares the programs' numbers with the public ones.
func TestOutcomes(t *testing.T) {
	if int(bpf.ABIOutcomeNUM_OUTCOMES) != int(model.NumOutcomes) {
		t.Fatalf("%d outcomes, want %d", bpf.ABIOutcomeNUM_OUTCOMES, model.NumOutcomes)
	}
	spec, err := bpf.LoadABI()
	if err != nil {
		t.Fatal(err)
	}
	names, err := enumNames(spec, "outcome")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range model.Outcomes() {
		if got := names[uint64(o)]; got != "OUTCOME_"+upper(o.String()) {
			t.Errorf("outcome %d is %s in the programs, %s in Go", o, got, o)
		}
	}
}
