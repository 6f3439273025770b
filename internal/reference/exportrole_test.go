// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

func labelledUDP() []byte {
	packet := ipv6Packet(ioam.NextHeaderUDP, udp(10))
	copy(packet, []byte{0x60, 0x0a, 0xbc, 0xde})
	return packet
}

func TestExportsEncapsulating(t *testing.T) {
	packet := labelledUDP()
	for _, test := range []struct {
		name    string
		mode    model.Mode
		kind    ioam.TraceType
		change  func(*model.NodeConfig, *Frame)
		exports bool
		want    func(*model.Postcard)
	}{
		{"inline", model.ModeInline, 0xc00000, nil, true, nil},
		{"encap", model.ModeEncap, 0xc00000, nil, true, nil},
		{"queue", model.ModeEncap, 0x020000, nil, true, func(e *model.Postcard) { e.QueueDepth = 7 }},
		{"queue not known", model.ModeEncap, 0x020000, func(_ *model.NodeConfig, f *Frame) { f.QueueKnown = false }, true, nil},
		{"queue of mainline", model.ModeEncap, 0x020000, func(c *model.NodeConfig, _ *Frame) { c.Compatibility = model.CompatibilityMainline }, true, func(e *model.Postcard) { e.QueueDepth = 0x2a00 }},
		{"buffer", model.ModeEncap, 0x001000, nil, true, func(e *model.Postcard) { e.BufferOccupancy = 0x2b00 }},
		{"buffer not known", model.ModeEncap, 0x001000, func(_ *model.NodeConfig, f *Frame) { f.BufferKnown = false }, true, nil},
		{"buffer of mainline", model.ModeEncap, 0x001000, func(c *model.NodeConfig, _ *Frame) { c.Compatibility = model.CompatibilityMainline }, true, nil},
		{"delay", model.ModeEncap, 0x080000, func(_ *model.NodeConfig, f *Frame) { f.Arrived = f.Time - 5 }, true, nil},
		{"local", model.ModeEncap, 0xc00000, func(_ *model.NodeConfig, f *Frame) { f.Ingress = 0 }, true, func(e *model.Postcard) { e.Ingress = 0 }},
		{"from an unserved interface", model.ModeEncap, 0xc00000, func(_ *model.NodeConfig, f *Frame) { f.Ingress = ifOther }, true, func(e *model.Postcard) { e.Ingress = ifOther }},
		{"no export", model.ModeInline, 0xc00000, func(c *model.NodeConfig, _ *Frame) { c.Namespaces[0].Export = model.ExportNone }, false, nil},
		{"aggregate", model.ModeInline, 0xc00000, func(c *model.NodeConfig, _ *Frame) { c.Namespaces[0].Export = model.ExportAggregate }, true, nil},
		{"not inserted", model.ModeInline, 0xc00000, func(_ *model.NodeConfig, f *Frame) { f.Interface = ifIngress }, false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := dexConfig(test.mode, model.DirectExportOption{Type: test.kind, ExtensionFlags: bothExtensions})
			frame := egressFrame(ethernet(packet, etherTypeVLAN))
			frame.Link = LinkEthernet
			if test.change != nil {
				test.change(&config, &frame)
			}
			result := mustNode(t, config).Egress(frame)
			want := model.Postcard{
				Role: model.RoleEncapsulating, Ingress: ifIngress, Egress: ifEgress, HopLimit: 64, Time: testTime,
				Option:       ioam.DirectExport{Namespace: 123, Flags: 0, ExtensionFlags: bothExtensions, Type: test.kind, FlowID: 0, Sequence: 0},
				TransitDelay: ioam.DataUnavailable, QueueDepth: ioam.DataUnavailable, BufferOccupancy: ioam.DataUnavailable, Flow: flowUDP,
				Length: len(packet),
			}
			p, _, _ := parse(packet, LinkNone)
			want.Option.FlowID = mustNode(t, config).flowHash(p, ipv6.FindUpperLayer(p.ip))
			if test.want != nil {
				test.want(&want)
			}
			checkExports(t, result, test.exports, want)
		})
	}
}

func checkExports(t *testing.T, result Result, exports bool, want ...model.Postcard) {
	t.Helper()
	if !exports {
		want = nil
	}
	if !slices.Equal(result.Postcards, want) {
		t.Errorf("%v\n%+v, want\n%+v", result.Outcome, result.Postcards, want)
	}
}

// dexHeader is a Direct Export of namespace 123 with both fields and an unknown
// one, asking for ids, delay and queue. Offsets of its fields are from the IPv6
// header: option type 44, namespace 48, Extension-Flags 51, trace type 52, PadN
// 68.
const dexHeader = "11030100 11160004 007b00e0 ca000000 0a0b0c0d 00000007 eeeeeeee 01020000"

var dexOption = ioam.DirectExport{Namespace: 123, Flags: 0, ExtensionFlags: 0xe0, Type: 0xca0000, FlowID: 0x0a0b0c0d, Sequence: 7}

// carrying is a labelled packet with a Hop-by-Hop header.
func carrying(t testing.TB, header string) []byte {
	packet := labelledUDP()
	carries := ipv6Packet(ioam.NextHeaderHopByHop, append(craft.Hex(t, header), packet[40:]...))
	copy(carries[:4], packet)
	return carries
}

// tunnelCarrying is a labelled packet in a tunnel to this node, with outer hop
// limit 60.
func tunnelCarrying(t testing.TB, header string) []byte {
	outer := withDestination(ipv6Packet(ioam.NextHeaderHopByHop, append(craft.Hex(t, header), labelledUDP()...)), tunnelDestination)
	outer[40], outer[7] = byte(ioam.NextHeaderIPv6), 60
	return outer
}

func TestExportsTransit(t *testing.T) {
	inline, tunnel := func(t testing.TB) []byte { return carrying(t, dexHeader) },
		func(t testing.TB) []byte { return tunnelCarrying(t, dexHeader) }
	for _, test := range []struct {
		name    string
		packet  func(testing.TB) []byte
		change  func(*model.NodeConfig, *Frame)
		exports bool
		want    func(*model.Postcard)
		outcome model.Outcome
	}{
		{"inline", inline, nil, true, nil, model.OutcomeDirectExport},
		{"tunnel", tunnel, nil, true, func(e *model.Postcard) { e.HopLimit = 60 }, model.OutcomeDirectExport},
		{"0x31", func(t testing.TB) []byte { return set(44, 0x31)(carrying(t, dexHeader)) }, nil, true, nil, model.OutcomeDirectExport},
		{"by a master", inline, func(c *model.NodeConfig, f *Frame) {
			c.Uppers, f.Ingress = []model.Upper{{Index: ifOther, Roles: model.RoleIngress}}, ifOther
		}, true, func(e *model.Postcard) { e.Ingress = ifOther }, model.OutcomeDirectExport},
		{"delay", inline, func(_ *model.NodeConfig, f *Frame) { f.Arrived = f.Time - 1234 }, true, func(e *model.Postcard) { e.TransitDelay = 1234 }, model.OutcomeDirectExport},
		{"delay of 0", inline, func(_ *model.NodeConfig, f *Frame) { f.Arrived = f.Time }, true, func(e *model.Postcard) { e.TransitDelay = 0 }, model.OutcomeDirectExport},
		{"longest delay", inline, func(_ *model.NodeConfig, f *Frame) { f.Arrived = f.Time - (1<<31 - 1) }, true, func(e *model.Postcard) { e.TransitDelay = 1<<31 - 1 }, model.OutcomeDirectExport},
		{"too long", inline, func(_ *model.NodeConfig, f *Frame) { f.Arrived = f.Time - 1<<40 }, true, func(e *model.Postcard) { e.TransitDelay = 1 << 31 }, model.OutcomeDirectExport},
		{"delay in mainline", inline, func(c *model.NodeConfig, f *Frame) {
			c.Compatibility, f.Arrived = model.CompatibilityMainline, f.Time-1
		}, true,
			func(e *model.Postcard) { e.QueueDepth = 0x2a00 }, model.OutcomeDirectExport},
		{"delay and queue not asked for", func(t testing.TB) []byte { return set(52, 0xc0)(carrying(t, dexHeader)) },
			func(_ *model.NodeConfig, f *Frame) { f.Arrived = f.Time - 1 }, true,
			func(e *model.Postcard) { e.QueueDepth, e.Option.Type = ioam.DataUnavailable, 0xc00000 }, model.OutcomeDirectExport},
		{"local", inline, func(_ *model.NodeConfig, f *Frame) { f.Ingress = 0 }, false, nil, model.OutcomeUntouched},
		{"arrived at an unserved interface", inline, func(_ *model.NodeConfig, f *Frame) { f.Ingress = ifOther }, false, nil, model.OutcomeUntouched},
		{"arrived at the edge", inline, func(_ *model.NodeConfig, f *Frame) { f.Ingress = ifEdge }, false, nil, model.OutcomeUntouched},
		{"leaves the domain", inline, func(_ *model.NodeConfig, f *Frame) { f.Interface = ifEdge }, false, nil, model.OutcomeBoundaryDropped},
		{"stripped", inline, func(c *model.NodeConfig, f *Frame) {
			f.Interface, c.Interfaces[2].Boundary = ifEdge, model.BoundaryStrip
		}, false, nil, model.OutcomeBoundaryStripped},
		{"ignored", inline, func(c *model.NodeConfig, f *Frame) {
			f.Interface, c.Interfaces[2].Boundary = ifEdge, model.BoundaryIgnore
		}, false, nil, model.OutcomeBoundaryIgnored},
		{"unknown namespace", func(t testing.TB) []byte { return set(49, 7)(carrying(t, dexHeader)) }, nil, false, nil, model.OutcomeNamespaceUnknown},
		{"no export", inline, func(c *model.NodeConfig, _ *Frame) { c.Namespaces[0].Export = model.ExportNone }, false, nil, model.OutcomeDirectExport},
		{"too short", func(t testing.TB) []byte { return set(51, 0xf0)(carrying(t, dexHeader)) }, nil, false, nil, model.OutcomeMalformedOptionLength},
	} {
		t.Run(test.name, func(t *testing.T) {
			config, frame := exporting(testConfig()), egressFrame(test.packet(t))
			if test.change != nil {
				test.change(&config, &frame)
			}
			result := mustNode(t, config).Egress(frame)
			want := model.Postcard{
				Role: model.RoleTransit, Ingress: ifIngress, Egress: ifEgress, HopLimit: 64, Time: testTime, Option: dexOption,
				TransitDelay: ioam.DataUnavailable, QueueDepth: 7, BufferOccupancy: ioam.DataUnavailable, Flow: flowUDP, Length: len(labelledUDP()),
			}
			if test.want != nil {
				test.want(&want)
			}
			checkExports(t, result, test.exports, want)
			if result.Outcome != test.outcome || result.Outcome != model.OutcomeBoundaryStripped && !bytes.Equal(result.Data, frame.Data) {
				t.Errorf("%v, want %v; went on as\n%x", result.Outcome, test.outcome, result.Data)
			}
		})
	}
}

// Several options give one export each, in order; a trace next to them is
// completed, and its outcome counts.
func TestExportsOfSeveralOptions(t *testing.T) {
	packet := carrying(
		t,
		"11060100 110a0004 007b0000 80000000 310a0004 00c80000 80000000 110a0004 012c0000 80000000 310e0000 007b0801 80000000 00000000",
	)
	config := exporting(testConfig())
	config.Namespaces[1].Export = model.ExportNone
	config.Namespaces[2].Remove = false
	node := mustNode(t, config)
	in := node.Ingress(Frame{Data: packet, Link: LinkNone, Interface: ifIngress, Time: testTime})
	if in.Outcome != model.OutcomeTraceFilled || len(in.Postcards) != 0 {
		t.Fatalf("ingress: %v, %+v", in.Outcome, in.Postcards)
	}
	result := node.Egress(egressFrame(in.Data))
	var namespaces []ioam.NamespaceID
	for _, e := range result.Postcards {
		namespaces = append(namespaces, e.Option.Namespace)
	}
	if result.Outcome != model.OutcomeTraceFilled || !slices.Equal(namespaces, []ioam.NamespaceID{123, 300}) {
		t.Errorf("%v, exports of %v", result.Outcome, namespaces)
	}
}

func TestExportsDecapsulating(t *testing.T) {
	remove := func(c *model.NodeConfig) { c.Namespaces[0].Remove = true }
	const withTrace = "11030100 110a0004 007b0000 80000000 310e0000 007b0801 80000000 00000000"
	for _, test := range []struct {
		name    string
		packet  []byte
		change  func(*model.NodeConfig)
		outcome model.Outcome
		exports bool
		record  bool
		want    func(*model.Postcard)
	}{
		{"tunnel", tunnelCarrying(t, dexHeader), nil, model.OutcomeTunnelDecapsulated, true, false, func(e *model.Postcard) { e.HopLimit = 59 }},
		{"inline", carrying(t, dexHeader), remove, model.OutcomeInlineRemoved, true, false, nil},
		{"in 0x31", set(44, 0x31)(carrying(t, dexHeader)), remove, model.OutcomeInlineRemoved, true, false, nil},
		{"not marked", carrying(t, dexHeader), nil, model.OutcomeDirectExport, false, false, nil},
		{"with another option", set(68, 5)(carrying(t, dexHeader)), remove, model.OutcomeOptionsRemoved, true, false, nil},
		{"with a trace", carrying(t, withTrace), remove, model.OutcomeInlineRemoved, true, true,
			func(e *model.Postcard) { e.Option = ioam.DirectExport{Namespace: 123, Type: 0x800000} }},
		{"no export", carrying(t, dexHeader), func(c *model.NodeConfig) { remove(c); c.Namespaces[0].Export = model.ExportNone }, model.OutcomeInlineRemoved, false, false, nil},
		{"unknown namespace in a tunnel", set(49, 7)(tunnelCarrying(t, dexHeader)), nil, model.OutcomeDecapRefusedBare, false, false, nil},
		{"unknown namespace in a tunnel that may be bare", set(49, 7)(tunnelCarrying(t, dexHeader)),
			func(c *model.NodeConfig) { c.Decapsulations[0].Bare = true }, model.OutcomeTunnelDecapsulated, false, false, nil},
		{"from another source", tunnelCarrying(t, dexHeader),
			func(c *model.NodeConfig) {
				c.Decapsulations[0].Sources = []netip.Prefix{netip.MustParsePrefix("2001:db8:9::/64")}
			}, model.OutcomeDecapRefusedSource, false, false, nil},
		{"too short", set(51, 0xf0)(carrying(t, dexHeader)), remove, model.OutcomeMalformedOptionLength, false, false, nil},
		{"at the edge", carrying(t, dexHeader), func(c *model.NodeConfig) {
			remove(c)
			c.Interfaces[0].Roles, c.Interfaces[0].Boundary = 0, model.BoundaryStrip
		}, model.OutcomeBoundaryStripped, false, false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := exporting(testConfig())
			if test.change != nil {
				test.change(&config)
			}
			result := mustNode(t, config).Ingress(Frame{Data: test.packet, Link: LinkNone, Interface: ifIngress, Time: testTime})
			want := model.Postcard{
				Role: model.RoleDecapsulating, Ingress: ifIngress, HopLimit: 63, Time: testTime, Option: dexOption,
				TransitDelay: ioam.DataUnavailable, QueueDepth: ioam.DataUnavailable, BufferOccupancy: ioam.DataUnavailable, Flow: flowUDP,
				Length: len(labelledUDP()),
			}
			if test.want != nil {
				test.want(&want)
			}
			checkExports(t, result, test.exports, want)
			if result.Outcome != test.outcome || result.Record != nil != test.record {
				t.Errorf("%v, want %v; record %+v", result.Outcome, test.outcome, result.Record)
			}
			left := labelledUDP()
			if result.Outcome == model.OutcomeTunnelDecapsulated {
				left[7] = 60 // the tunnel's hop limit
			}
			if removed := result.Outcome == model.OutcomeInlineRemoved || result.Outcome == model.OutcomeTunnelDecapsulated; removed &&
				!bytes.Equal(result.Data, left) {
				t.Errorf("went on as\n%x, want\n%x", result.Data, left)
			}
		})
	}
}

// The next two nodes read what one node inserts; all report the same about the
// packet.
func TestExportsAlongAPath(t *testing.T) {
	for _, mode := range []model.Mode{model.ModeInline, model.ModeEncap} {
		config := dexConfig(mode, model.DirectExportOption{ExtensionFlags: bothExtensions})
		first := mustNode(t, config)
		config.Encapsulations = nil
		config.Namespaces[0].Remove = mode == model.ModeInline
		last := mustNode(t, config)
		config.Decapsulations, config.Namespaces[0].Remove = nil, false
		middle := mustNode(t, config)
		packet := labelledUDP()
		for sequence := range uint32(3) {
			inserted := first.Egress(egressFrame(packet))
			passed := middle.Ingress(Frame{Data: inserted.Data, Link: LinkNone, Interface: ifIngress, Time: testTime})
			passed = middle.Egress(egressFrame(passed.Data))
			removed := last.Ingress(Frame{Data: passed.Data, Link: LinkNone, Interface: ifIngress, Time: testTime})
			if !bytes.Equal(passed.Data, inserted.Data) || !bytes.Equal(removed.Data, packet) {
				t.Fatalf("mode %v: sent\n%x, arrived\n%x", mode, packet, removed.Data)
			}
			for role, result := range map[model.NodeRole]Result{model.RoleEncapsulating: inserted, model.RoleTransit: passed,
				model.RoleDecapsulating: removed} {
				if len(result.Postcards) != 1 {
					t.Fatalf("mode %v, %v: %+v", mode, role, result.Postcards)
				}
				e, atInsertion := result.Postcards[0], inserted.Postcards[0]
				if e.Role != role || !reflect.DeepEqual(e.Option, atInsertion.Option) || e.Flow != flowUDP || e.Length != len(packet) ||
					e.Option.Sequence != sequence {
					t.Errorf("mode %v, %v: %+v", mode, role, e)
				}
			}
		}
	}
}
