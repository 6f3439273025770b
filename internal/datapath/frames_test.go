// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"net/netip"

	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// The pools are small, so that random packets often match random configurations.
var (
	addresses = []netip.Addr{
		netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:2::1"),
		netip.MustParseAddr("2001:db8:2:1::1"), netip.MustParseAddr("2001:db8:3::1"),
		netip.MustParseAddr("fe80::1"), netip.MustParseAddr("ff02::1"), netip.MustParseAddr("::"),
	}
	namespaceIDs = []uint16{0, 1, 123, 456, 0xffff}
	upperLayers  = []byte{6, 17, 58, 59, 132, 41, 43, 44, 51, 60, 0, 253}
)

// generator makes random frames, valid and broken ones.
type generator struct{ *rand.Rand }

func (g generator) address() netip.Addr {
	// configurations use the first ones
	if g.IntN(4) > 0 {
		return addresses[g.IntN(4)]
	}
	return addresses[g.IntN(len(addresses))]
}

func (g generator) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

// frame is an Ethernet frame of a random kind.
func (g generator) frame() []byte {
	tags := make([]craft.Tag, max(g.IntN(6)-3, 0))
	if g.IntN(40) == 0 {
		tags = make([]craft.Tag, 3+g.IntN(2))
	}
	for i := range tags {
		tags[i] = craft.Tag{Type: []uint16{0x8100, 0x88a8}[g.IntN(2)], Control: uint16(g.Uint32())}
	}
	if g.IntN(6) == 0 {
		return g.nearMiss()
	}
	frame := craft.Ethernet(g.bytes(6), g.bytes(6), nil, tags...)
	if g.IntN(50) == 0 {
		binary.BigEndian.PutUint16(frame[len(frame)-2:], 0x0800)
	}
	if g.IntN(8) == 0 {
		return append(frame, g.tunnel()...)
	}
	if g.IntN(20) == 0 {
		return g.damage(append(frame, g.returnedCopy()...))
	}
	if g.IntN(12) == 0 {
		return g.damage(append(frame, g.edgesBehind()...))
	}
	frame = append(frame, g.packet(0)...)
	if g.IntN(20) == 0 {
		frame = append(frame, g.bytes(g.IntN(20))...) // Ethernet's padding
	}
	return g.damage(frame)
}

// tunnel is a valid IPv6-in-IPv6 packet to an address where tunnels may end.
func (g generator) tunnel() []byte {
	inner := g.packet(1)
	if g.IntN(3) > 0 { // addresses to forward to
		copy(inner[8:], addresses[g.IntN(4)].AsSlice())
		copy(inner[24:], addresses[g.IntN(4)].AsSlice())
	}
	body, next := inner, byte(41)
	if g.IntN(3) == 0 {
		body, next = append(g.destinationOptions(next), body...), 60
	}
	if g.IntN(3) > 0 {
		body, next = append(g.hopByHop(next), body...), 0
	}
	header := craft.IPv6{Class: uint8(g.IntN(4)), Next: next, HopLimit: 64, Source: g.address(), Destination: addresses[1+2*g.IntN(2)]}
	return header.With(body)
}

// damage breaks some frames.
func (g generator) damage(frame []byte) []byte {
	switch g.IntN(10) {
	case 0:
		frame = frame[:14+g.IntN(len(frame)-13)]
	case 1, 2:
		for range 1 + g.IntN(3) {
			frame[12+g.IntN(min(len(frame)-12, 120))] = byte(g.Uint32())
		}
	}
	return frame
}

// packet is an IPv6 packet, some with extension headers and packets inside.
func (g generator) packet(depth int) []byte {
	next := upperLayers[g.IntN(len(upperLayers))]
	if next == 41 && depth > 1 {
		next = 17
	}
	body := g.upper(next, depth)
	for range max(g.IntN(6)-3, 0) {
		next, body = g.extension(next, body)
	}
	if g.IntN(4) == 0 {
		body = append(g.destinationOptions(next), body...)
		next = 60
	}
	if g.IntN(3) > 0 {
		body = append(g.hopByHop(next), body...)
		next = 0
	}
	header := craft.IPv6{Class: uint8(g.IntN(4)), Label: uint32(g.IntN(3)), Next: next}
	length := len(body)
	if g.IntN(40) == 0 {
		length = 0
	} else if depth > 0 && g.IntN(8) == 0 {
		length = max(length+g.IntN(9)-4, 0)
	}
	header.HopLimit = []byte{0, 1, 64, 255}[g.IntN(4)]
	header.Source, header.Destination = g.address(), g.address()
	return append(header.Header(length), body...)
}

func (g generator) upper(next byte, depth int) []byte {
	switch next {
	case 41:
		return g.packet(depth + 1)
	case 58:
		kind := []byte{1, 2, 128, 129, 135, 143, 149, 153, 160, byte(g.Uint32())}[g.IntN(10)]
		return craft.Message(kind, 0, g.bytes(4+g.IntN(30))...)
	}
	body := binary.BigEndian.AppendUint16(nil, uint16(4240+g.IntN(4)))
	body = binary.BigEndian.AppendUint16(body, uint16(9+g.IntN(3)))
	size := g.IntN(60)
	if g.IntN(6) == 0 {
		size = 1000 + g.IntN(400) // too large for some paths after it has grown
	}
	return append(body, g.bytes(size)...)
}

// tooBig is a frame with a Packet Too Big message, mostly about a packet that has
// grown inline.
func (g generator) tooBig() []byte {
	next := []byte{craft.HopByHop, craft.DestinationOptions}[g.IntN(2)]
	grown := craft.IPv6{Next: next, HopLimit: 64, Source: g.address(), Destination: g.address()}
	begins := [][]byte{{1, 0, 0x31, 10, 0, 0}, {1, 0, 0x11, 10, 0, 0}, {1, 4, 0, 0, 0, 0}}[g.IntN(3)]
	quoted := append(grown.Header(1240+g.IntN(300)), append([]byte{17, 1}, begins...)...)
	if g.IntN(4) == 0 {
		quoted[[]int{0, 6, 8 + g.IntN(16), 42, 43, 44}[g.IntN(6)]] ^= 1 << g.IntN(8)
	}
	message := binary.BigEndian.AppendUint32(craft.Message(2, 0), uint32(1270+g.IntN(200)))
	if g.IntN(10) == 0 {
		message[0] ^= 1 << g.IntN(8)
	}
	if g.IntN(10) == 0 {
		message[4+g.IntN(4)] ^= 1 << g.IntN(8)
	}
	message = append(message, quoted...)
	message = append(message, g.bytes(g.IntN(3)*100)...)
	header := craft.IPv6{Next: craft.ICMPv6, HopLimit: 64, Source: addresses[0], Destination: grown.Source}
	frame := craft.Ethernet(g.bytes(6), g.bytes(6), header.With(message))
	if g.IntN(10) == 0 {
		frame = frame[:atHBH+g.IntN(len(message))]
	}
	return frame
}

func (g generator) extension(next byte, body []byte) (byte, []byte) {
	kind := []byte{43, 60, 44, 51}[g.IntN(4)]
	if kind == 60 && g.IntN(2) == 0 {
		return kind, append(g.destinationOptions(next), body...)
	}
	header := append([]byte{next, 0}, g.bytes(6)...)
	switch kind {
	case 43, 60:
		header[1] = byte(g.IntN(3))
		header = append(header, g.bytes(8*int(header[1]))...)
	case 44:
		if g.IntN(2) == 0 {
			header[2], header[3] = 0, 1
		}
	case 51:
		header[1] = 1
		header = append(header, g.bytes(4)...)
	}
	return kind, append(header, body...)
}

// hopByHop is a Hop-by-Hop header, mostly with IOAM in it.
func (g generator) hopByHop(next byte) []byte {
	if g.IntN(4) == 0 {
		return g.otherOptions(next)
	}
	pad := []int{2, 2, 2, 2, 6}[g.IntN(5)] // 6: a trace has grown
	if g.IntN(20) == 0 {
		pad = 0
	}
	var options []byte
	for range g.IntN(4) {
		switch g.IntN(16) {
		case 0:
			// router alert, and unknown options
			options = append(options, []byte{5, 0x1e, 0x5e, 0x9e, 0xde}[max(g.IntN(8)-3, 0)], 2, 0, 0)
		case 1:
			options = append(options, 0x11, 10, 0, byte(g.IntN(6)))
			options = append(options, g.bytes(8)...)
		case 2:
			options = append(options, make([]byte, g.IntN(6))...)
		case 3:
			options = append(options, 0x31, 2, 0, byte(g.IntN(5)))
			options = append(options, g.foreignIOAM()...)
		case 4, 5, 6:
			options = append(options, g.directExport()...)
		case 7, 8, 9:
			options = append(options, g.proof()...)
		case 10, 11, 12:
			options = append(options, g.incremental()...)
		default:
			options = append(options, g.trace()...)
		}
	}
	for range max(g.IntN(12)-9, 0) * 4 {
		options = append(options, 0x31, 2, 0, 9)
	}
	if g.IntN(30) == 0 {
		options = append(options, make([]byte, 25+g.IntN(15))...) // as many as the programs read, or more
	}
	return craft.Options(next, pad, options)
}

// directExport is a Direct Export option, mostly valid.
func (g generator) directExport() []byte {
	flags := []byte{0, 0x80, 0x40, 0xc0, 0xc0, byte(g.Uint32())}[g.IntN(6)]
	extensions := 4 * bits.OnesCount8(flags)
	if g.IntN(20) == 0 {
		extensions = 4 * g.IntN(9)
	}
	option := []byte{[]byte{0x11, 0x31}[g.IntN(2)], byte(10 + extensions), 0, 4}
	option = binary.BigEndian.AppendUint16(option, namespaceIDs[g.IntN(len(namespaceIDs))])
	option = append(option, byte(g.IntN(3)), flags)
	option = binary.BigEndian.AppendUint32(option, uint32(g.traceType())<<8|uint32(g.IntN(2)))
	return append(option, g.smallWords(extensions/4)...)
}

// smallWords are small numbers, which often repeat.
func (g generator) smallWords(n int) []byte {
	var b []byte
	for range n {
		b = binary.BigEndian.AppendUint32(b, g.Uint32N(4))
	}
	return b
}

// trace is a pre-allocated trace option, mostly valid.
func (g generator) trace() []byte {
	kind := g.traceType()
	nodeLen := kind.NodeLen()
	size := 4 * g.IntN(20)
	if g.IntN(3) > 0 {
		size = min(4*nodeLen*(1+g.IntN(3)), 240)
	}
	remaining := g.IntN(size/4 + 1)
	if g.IntN(2) == 0 {
		remaining = size / 4
	}
	remaining = min(remaining, 127)
	flags := []int{0, 0, 0, 8, 4, 2, 6, 1}[g.IntN(8)]
	if g.IntN(30) == 0 {
		nodeLen = g.IntN(32)
	}
	if g.IntN(30) == 0 {
		remaining = g.IntN(128)
	}
	option := []byte{0x31, byte(10 + size), 0, 0}
	option = binary.BigEndian.AppendUint16(option, namespaceIDs[g.IntN(len(namespaceIDs))])
	option = binary.BigEndian.AppendUint16(option, uint16(nodeLen<<11|flags<<7|remaining))
	option = binary.BigEndian.AppendUint32(option, uint32(kind)<<8|uint32(g.IntN(2)))
	data := g.bytes(size)
	if g.IntN(4) > 0 && len(data) >= 4*remaining+4 {
		// data that this node may have written at ingress
		copy(data[4*remaining:], []byte{63, 0, 0, 2})
		if g.IntN(2) == 0 { // and not completed at egress
			for i := range data[4*remaining+4:] {
				data[4*remaining+4+i] = 0xff
			}
		}
	}
	return append(option, data...)
}

func (g generator) traceType() ioam.TraceType {
	switch g.IntN(5) {
	case 0:
		return ioam.TraceType(g.Uint32() & 0xffffff)
	case 1:
		return 1 << g.IntN(24)
	case 2:
		return 0xfff002
	case 3:
		return ioam.TraceType(0x800000 | g.Uint32()&0x7ff002)
	}
	return []ioam.TraceType{0x800000, 0xc00000, 0xf00000, 0xf80000, 0x008000, 0}[g.IntN(6)]
}

// config is a random configuration of interfaces 1 and 2 from the same pools.
func (g generator) config() model.NodeConfig {
	cfg := model.NodeConfig{
		ID: 2, IDWide: 22222222,
		TimestampFormat: ioam.TimestampFormat(g.IntN(3)),
		Compatibility:   model.Compatibility(g.IntN(2)),
		Interfaces: []model.Interface{
			{Index: 1, Name: "eth0", ID: 201, IDWide: 201201, Roles: model.Role(g.IntN(4)), Boundary: model.Boundary(g.IntN(3)), MTU: 65536},
			{Index: 2, Name: "eth1", ID: 202, IDWide: 202202, Roles: model.RoleIngress | model.RoleEgress, MTU: 65536},
		},
	}
	if cfg.Compatibility == model.CompatibilityMainline {
		cfg.TimestampFormat = ioam.TimestampPOSIX
	}
	if g.IntN(3) > 0 {
		cfg.Interfaces[0].Roles = model.RoleIngress | model.RoleEgress
	}
	if g.IntN(2) == 0 {
		cfg.Interfaces[0].Policies = g.policies()
	}
	if g.IntN(3) > 0 {
		cfg.Uppers = []model.Upper{{Index: 8, ID: 208, IDWide: 208208, Roles: model.Role(g.IntN(4)) | model.RoleIngress, Proven: g.IntN(2) > 0}}
	}
	for _, id := range namespaceIDs[1:4] {
		ns := model.Namespace{ID: ioam.NamespaceID(id), Data: g.Uint32(), DataWide: g.Uint64(), Remove: g.IntN(4) == 0}
		if ns.Export = model.ExportMode(g.IntN(4)); ns.Export == model.ExportSample {
			ns.Sample = 1 + g.Uint32N(3)
		}
		if g.IntN(2) == 0 {
			ns.Schema = &model.Schema{ID: 777, Data: g.bytes(1 + g.IntN(30))}
		}
		ns.Proof, ns.EdgeToEdge = g.proving(ns.ID), g.IntN(2) == 0
		ns.Loopback, ns.TerminateActive = g.IntN(2) == 0, g.IntN(2) == 0
		ns.Incremental = g.IntN(3) > 0
		cfg.Namespaces = append(cfg.Namespaces, ns)
	}
	cfg.LoopbackLimit, cfg.LoopbackRate = 1, model.MaxLoopbackRate
	cfg.Delays = 1 // what is counted beside changes no packet
	cfg.FlowSeed, cfg.ExportLimit, cfg.ExportRate, cfg.FlowEntries = g.Uint64(), 1, model.MaxExportRate, 16384
	if g.IntN(2) == 0 {
		cfg.Collectors = []model.Collector{{Address: addresses[2], Port: 10, Protocol: 17}, {Address: addresses[1], Port: 9, Protocol: 6}}
	}
	if g.IntN(2) == 0 {
		cfg.Decapsulations = []model.Decapsulation{g.decapsulation(addresses[3]), g.decapsulation(addresses[1])}[:1+g.IntN(2)]
	}
	if g.IntN(2) == 0 {
		cfg.TunnelDestinations = addresses[:4][:1+g.IntN(3)]
	}
	if cfg.Interfaces[0].Roles&model.RoleEgress != 0 {
		for i := range []int{0, 1, 3, 12}[g.IntN(4)] {
			cfg.Encapsulations = append(cfg.Encapsulations, g.encapsulation(i, cfg))
		}
	}
	return cfg
}

// decapsulation accepts packets from any source, or from some.
func (g generator) decapsulation(end netip.Addr) model.Decapsulation {
	d := model.Decapsulation{TunnelDestination: end, Bare: g.IntN(2) == 0}
	for range max(g.IntN(6)-2, 0) {
		d.Sources = append(d.Sources, netip.PrefixFrom(addresses[g.IntN(4)], []int{48, 64, 127, 128}[g.IntN(4)]).Masked())
	}
	return d
}

func (g generator) encapsulation(number int, cfg model.NodeConfig) model.Encapsulation {
	e := model.Encapsulation{
		Name: string(rune('a' + number)), Interface: 1, Mode: model.Mode(g.IntN(3)),
		TunnelSource: addresses[0], TunnelDestination: addresses[3],
	}
	if e.Mode == model.ModeInline {
		e.TunnelSource, e.TunnelDestination = netip.Addr{}, netip.Addr{}
	}
	if g.IntN(3) == 0 {
		e.PathMTU = 100 + g.IntN(500)
	}
	prefix := func() netip.Prefix {
		return netip.PrefixFrom(addresses[g.IntN(4)], []int{0, 32, 48, 64, 128}[g.IntN(5)]).Masked()
	}
	if g.IntN(5) > 0 {
		e.Match.Destination = prefix()
	}
	if g.IntN(4) == 0 {
		e.Match.Source = prefix()
	}
	if g.IntN(4) == 0 {
		next := ioam.NextHeader(upperLayers[g.IntN(5)])
		e.Match.NextHeader = &next
	}
	carriesPorts := e.Match.NextHeader == nil || *e.Match.NextHeader == 6 || *e.Match.NextHeader == 17
	if carriesPorts && g.IntN(4) == 0 {
		e.Match.SourcePort = &model.PortRange{From: 4240, To: uint16(4240 + g.IntN(3))}
	}
	if carriesPorts && g.IntN(4) == 0 {
		e.Match.DestinationPort = &model.PortRange{From: 9, To: uint16(9 + g.IntN(3))}
	}
	if g.IntN(4) == 0 {
		class := uint8(g.IntN(4))
		e.Match.TrafficClass = &class
	}
	if g.IntN(4) == 0 {
		label := uint32(g.IntN(3))
		e.Match.FlowLabel = &label
	}
	if g.IntN(3) == 0 {
		e.Frequency = model.Frequency{K: uint32(1 + g.IntN(3)), N: uint32(3 + g.IntN(4))}
	}
	if g.IntN(4) == 0 {
		e.Budget = model.Budget{Packets: g.Uint32N(400_000), Octets: []uint32{0, 20_000, 60_000}[g.IntN(3)]}
	}
	if g.IntN(4) == 0 {
		e.Flows = 1 + g.Uint32N(3)
	}
	e.Nested = g.IntN(3) == 0
	e.Options = g.inserted(cfg, e.Flows)
	return e
}

// inserted are the options of an encapsulation.
func (g generator) inserted(cfg model.NodeConfig, flows uint32) (list []model.InsertedOption) {
	namespaces := cfg.Namespaces
	options, largest, looped := 1+g.IntN(3), 120, false
	if g.IntN(3) == 0 {
		options, largest = 4+g.IntN(6), 40
	}
	for i := range options {
		if i < len(namespaces) && g.IntN(4) == 0 { // at most one for each namespace
			list = append(list, model.InsertedOption{EdgeToEdge: &model.EdgeToEdgeOption{Namespace: namespaces[i].ID, Type: g.edgeType()}})
			continue
		}
		if i < len(namespaces) && namespaces[i].Proof != nil && namespaces[i].Proof.Key.Encapsulates() && g.IntN(2) == 0 {
			list = append(list, model.InsertedOption{Proof: &model.ProofOption{Namespace: namespaces[i].ID}})
			continue
		}
		if i <= len(namespaces) && g.IntN(2) == 0 { // at most one Direct Export per namespace
			id := ioam.NamespaceID(namespaceIDs[4])
			if i < len(namespaces) {
				id = namespaces[i].ID
			}
			list = append(list, model.InsertedOption{DirectExport: g.insertedExport(id, flows)})
			continue
		}
		trace := g.insertedTrace(cfg, largest, &looped)
		list = append(list, model.Traces(trace)...)
	}
	return list
}

func (g generator) insertedExport(ns ioam.NamespaceID, flows uint32) *model.DirectExportOption {
	o := &model.DirectExportOption{
		Namespace:      ns,
		Type:           ioam.TraceType(g.Uint32()&0xfef002) | 0x400000,
		ExtensionFlags: byte(g.IntN(4)) << 6,
		FlowID:         model.FlowIDSource{Kind: model.FlowIDKind(g.IntN(3))},
		OptionType:     []ioam.OptionType{0, ioam.OptionIOAM, ioam.OptionIOAMStatic}[g.IntN(3)],
	}
	if o.FlowID.Kind == model.FlowIDFixed {
		if o.FlowID.Fixed = g.Uint32(); flows > 1 {
			o.FlowID = model.FlowIDSource{}
		}
	}
	return o
}

// option is a trace with room for this node's own data, and sometimes for
// others'.
func (g generator) option(ns model.Namespace, kind ioam.TraceType, largest int) model.TraceOption {
	own := 4 * kind.NodeLen()
	if kind.HasSnapshot() {
		own += len(compile.Snapshot(ns.Schema))
	}
	if own > largest {
		kind, own = 0x800000, 4
	}
	return model.TraceOption{Namespace: ns.ID, Type: kind, Size: own + 4*g.IntN((largest-own)/4+1)}
}
