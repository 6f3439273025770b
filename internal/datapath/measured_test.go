// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
	"github.com/waymark-net/waymark/test/craft"
)

const measuredFrom = "2001:db8:a::1"

// measuredPath is n SIDs.
func measuredPath(n int) (list []netip.Addr) {
	for i := range n {
		list = append(list, netip.MustParseAddr(fmt.Sprintf("2001:db8:5:%x::e0", i+1)))
	}
	return list
}

// measuredPacket is an encapsulated packet whose SRH has the entries of a list; without
// any, it has no SRH.
func measuredPacket(t testing.TB, destination netip.Addr, list []netip.Addr, left int, leading ...byte) []byte {
	t.Helper()
	inner := craft.Between("2001:db8:1::1", "2001:db8:2::2", craft.UDP).With(craft.Datagram(1, 2, 0, 0))
	next := byte(41)
	if len(list) > 0 {
		b, err := srv6.SRH{NextHeader: next, SegmentsLeft: uint8(left), Segments: list}.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		inner, next = append(b, inner...), srv6.NextHeaderRouting
	}
	for _, kind := range slices.Backward(leading) {
		inner, next = append([]byte{next, 0, 1, 4, 0, 0, 0, 0}, inner...), kind
	}
	outer := craft.Between(measuredFrom, destination.String(), next)
	outer.Class = 0xb9
	return craft.Ethernet([]byte{2, 0, 0, 0, 0, 1}, []byte{2, 0, 0, 0, 0, 2}, outer.With(inner))
}

func reversed(list []netip.Addr) []netip.Addr {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// blockOf is the block of a time in TAI.
func blockOf(tai int64, length time.Duration) uint64 {
	return uint64(tai-taiUTC.Nanoseconds()) / uint64(length)
}

// counts are what a flow counted in a block.
func (p *programs) counts(t testing.TB, flow string, block uint64) (found measure.BlockCounts) {
	t.Helper()
	p.site.own.measured.Read(block, nil, func(c measure.BlockCounts) {
		if c.Flow == flow {
			found = c
		}
	})
	return found
}

// forget clears what a flow counted.
func (p *programs) forget(flow string) {
	p.site.own.measured.Forget(flow)
}

// measure changes the measured flows of running programs.
func (p *programs) measure(t testing.TB, cfg model.NodeConfig) {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	g, err := compile.Node(cfg, 0, attach.Ethernet)
	if err != nil {
		t.Fatal(err)
	}
	change, err := g.Measured.Begin(p.maps, p.site.own.measured, p.site.own.measured, measure.Digest(countingAt(g)), false)
	if err != nil {
		t.Fatal(err)
	}
	change.Finish()
}

func measuringConfig(flows ...model.MeasuredFlow) model.NodeConfig {
	cfg := rightConfig()
	cfg.Measurement = model.Measurement{Block: time.Second, Flows: flows}
	for i := range cfg.Measurement.Flows {
		f := &cfg.Measurement.Flows[i]
		f.Source = netip.MustParseAddr(measuredFrom)
		if f.Name == "" {
			f.Name = "red"
		}
	}
	return cfg
}

// measuredForm is a path, packets of it, and packets that are not.
type measuredForm struct {
	name  string
	path  srv6.Path
	whole [][]byte
	other [][]byte
}

func measuredForms(t testing.TB) []measuredForm {
	container := netip.MustParseAddr("fcbb:bb00:1:2:3:4::")
	return []measuredForm{
		{"encap, 3", srv6.Path{Segments: measuredPath(3)}, [][]byte{
			measuredPacket(t, measuredPath(3)[0], reversed(measuredPath(3)), 2),
			measuredPacket(t, measuredPath(3)[1], reversed(measuredPath(3)), 1),
			measuredPacket(t, measuredPath(3)[2], reversed(measuredPath(3)), 0),
			measuredPacket(t, measuredPath(3)[2], reversed(measuredPath(3)), 0, 0),
			measuredPacket(t, measuredPath(3)[2], reversed(measuredPath(3)), 0, 60),
			measuredPacket(t, measuredPath(3)[2], reversed(measuredPath(3)), 0, 0, 60),
		}, [][]byte{
			measuredPacket(t, measuredPath(3)[0], reversed(measuredPath(3)[1:]), 1),
			measuredPacket(t, measuredPath(4)[0], reversed(measuredPath(4)), 2),
			measuredPacket(t, measuredPath(3)[0], measuredPath(3), 2),
			measuredPacket(t, measuredPath(3)[2], nil, 0),
		}},
		{"encap, 1", srv6.Path{Segments: measuredPath(1)}, [][]byte{
			measuredPacket(t, measuredPath(1)[0], measuredPath(1), 0),
		}, [][]byte{measuredPacket(t, measuredPath(2)[1], nil, 0)}},
		{"encap, 16", srv6.Path{Segments: measuredPath(16)}, [][]byte{
			measuredPacket(t, measuredPath(16)[0], reversed(measuredPath(16)), 15),
			measuredPacket(t, measuredPath(16)[15], reversed(measuredPath(16)), 0),
		}, [][]byte{measuredPacket(t, measuredPath(16)[0], reversed(measuredPath(15)), 14)}},
		{"reduced, 3", srv6.Path{Segments: measuredPath(3), Mode: srv6.ModeReduced}, [][]byte{
			measuredPacket(t, measuredPath(3)[0], reversed(measuredPath(3)[1:]), 2),
			measuredPacket(t, measuredPath(3)[1], reversed(measuredPath(3)[1:]), 1),
			measuredPacket(t, measuredPath(3)[2], reversed(measuredPath(3)[1:]), 0),
		}, [][]byte{measuredPacket(t, measuredPath(4)[3], reversed(measuredPath(3)[1:]), 2)}},
		{"reduced, 1", srv6.Path{Segments: measuredPath(1), Mode: srv6.ModeReduced}, [][]byte{
			measuredPacket(t, measuredPath(1)[0], nil, 0),
			measuredPacket(t, measuredPath(1)[0], nil, 0, 0),
		}, [][]byte{measuredPacket(t, measuredPath(2)[1], nil, 0)}},
		{"PSP", srv6.Path{Segments: measuredPath(2), Popped: true}, [][]byte{
			measuredPacket(t, measuredPath(2)[0], reversed(measuredPath(2)), 1),
			measuredPacket(t, measuredPath(2)[1], nil, 0),
		}, [][]byte{measuredPacket(t, measuredPath(2)[0], nil, 0)}},
		{"inline to one destination", srv6.Path{Segments: measuredPath(2), Mode: srv6.ModeInline}, [][]byte{
			measuredPacket(t, measuredPath(2)[0], append([]netip.Addr{container}, reversed(measuredPath(2))...), 2),
			measuredPacket(t, container, append([]netip.Addr{container}, reversed(measuredPath(2))...), 0),
		}, [][]byte{measuredPacket(t, measuredPath(2)[0], append([]netip.Addr{measuredPath(9)[8]}, measuredPath(2)...), 2)}},
		{"a container", srv6.Path{Segments: []netip.Addr{container}, Mode: srv6.ModeReduced, Compression: srv6.Compression{Block: 32, SID: 16}}, [][]byte{
			measuredPacket(t, container, nil, 0),
			measuredPacket(t, netip.MustParseAddr("fcbb:bb00:2:3:4::"), nil, 0),
			measuredPacket(t, netip.MustParseAddr("fcbb:bb00:4::"), nil, 0),
		}, [][]byte{measuredPacket(t, netip.MustParseAddr("fcbb:bb00:5::"), nil, 0)}},
	}
}

// TestMeasuredForms checks that a flow's packets are counted in every form that they
// have between its two ends, by every hook, and no other packets.
func TestMeasuredForms(t *testing.T) {
	first := model.MeasuredFlow{Direction: model.DirectionOut, Path: srv6.Path{Segments: measuredPath(1)}}
	p := loadPrograms(t, measuringConfig(first), 1, fixedTime, hookIngressXDP, hookIngressTC, hookEgressTC)
	for _, tt := range measuredForms(t) {
		flow := model.MeasuredFlow{Direction: model.DirectionTransit, Path: tt.path}
		out := flow
		out.Name, out.Direction = "blue", model.DirectionOut
		cfg := measuringConfig(flow, out)
		p.measure(t, cfg)
		block := blockOf(fixedTime, time.Second)
		colour := model.DefaultMarking().Colours[block&1]
		packets, unmarked := uint64(0), uint64(0)
		for _, frame := range slices.Concat(tt.whole, tt.other) {
			_, sent := run(t, p.tcOut, frame, 0)
			if isOf := slices.ContainsFunc(tt.whole, func(f []byte) bool { return slices.Equal(f, frame) }); !isOf {
				if !slices.Equal(sent, frame) {
					t.Errorf("%s: another packet was changed", tt.name)
				}
				continue
			} else if got := sent[14]<<4 | sent[15]>>4; got != 0xb9&^0x0c|colour {
				t.Errorf("%s: traffic class %#x", tt.name, got)
			}
			packets++
			run(t, p.xdp, sent, 0)
			run(t, p.tcIn, sent, 0)
			run(t, p.tcIn, frame, 0) // 0xb9 has the value 8, which is no colour
			unmarked++
			if red, blue := p.counts(t, "red", block), p.counts(t, "blue", block); red.Packets != 2*packets || red.Unmarked != unmarked ||
				blue.Packets != packets {
				t.Errorf("%s, packet %d: in %+v, out %+v", tt.name, packets, red, blue)
			}
		}
		into := uint64(fixedTime-taiUTC.Nanoseconds()) % uint64(time.Second)
		red, blue := p.counts(t, "red", block), p.counts(t, "blue", block)
		octets := uint64(0)
		for _, f := range tt.whole {
			octets += uint64(len(f) - 14)
		}
		if red.Packets != 2*packets || red.Octets != 2*octets || red.TimeSum != 2*packets*into || blue.Octets != octets {
			t.Errorf("%s: in %+v, out %+v, want %d packets with %d octets", tt.name, red, blue, packets, octets)
		}
	}
}

// TestMeasuredSegments checks that an offloaded packet counts as those that it will be
// cut into.
func TestMeasuredSegments(t *testing.T) {
	flow := model.MeasuredFlow{Direction: model.DirectionOut, Path: srv6.Path{Segments: measuredPath(3)}}
	p := loadPrograms(t, measuringConfig(flow), 1, fixedTime, hookEgressTC)
	list, err := srv6.SRH{NextHeader: 41, SegmentsLeft: 2, Segments: reversed(measuredPath(3))}.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	segment := craft.Segment(1, 2, 0x10, make([]byte, 2500)...)
	inner := craft.Between("2001:db8:1::1", "2001:db8:2::2", craft.TCP).With(segment)
	packet := craft.Between(measuredFrom, measuredPath(1)[0].String(), srv6.NextHeaderRouting).With(list, inner)
	frame := craft.Ethernet([]byte{2, 0, 0, 0, 0, 1}, []byte{2, 0, 0, 0, 0, 2}, packet)
	if _, err := p.tcOut.Run(&ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64),
		Context: &skb{GSOSize: 1000, GSOSegs: 3}}); err != nil {
		t.Fatal(err)
	}
	headers := len(packet) - 2500
	want := measure.BlockCounts{Flow: "red", Block: blockOf(fixedTime, time.Second), Packets: 3, Octets: uint64(len(packet) + 2*headers)}
	got := p.counts(t, "red", want.Block)
	want.TimeSum, want.Complete, want.Selection = got.TimeSum, got.Complete, got.Selection
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestMeasuredInTunnel checks that packets count that arrive in a tunnel, as an
// encapsulating node of IOAM sends them, and are not marked there.
func TestMeasuredInTunnel(t *testing.T) {
	flow := model.MeasuredFlow{Name: "in", Direction: model.DirectionIn, Path: srv6.Path{Segments: measuredPath(3)}}
	out := flow
	out.Name, out.Direction = "out", model.DirectionOut
	p := loadPrograms(t, measuringConfig(flow, out), 1, fixedTime, hookIngressXDP, hookIngressTC, hookEgressTC)
	inner := measuredPacket(t, measuredPath(3)[2], reversed(measuredPath(3)), 0)
	block := blockOf(fixedTime, time.Second)
	inner[14], inner[15] = 0x60, model.DefaultMarking().Colours[block&1]<<4
	for _, before := range [][]byte{{41, 0, 1, 4, 0, 0, 0, 0}, {41, 9, 1, 0x4c, 79: 0}} {
		outer := craft.Between("2001:db8:f::1", "2001:db8:f::2", 0).With(before, inner[14:])
		frame := craft.Ethernet(inner[:6], inner[6:12], outer)
		run(t, p.tcIn, frame, 0)
		run(t, p.xdp, frame, 0)
		if _, sent := run(t, p.tcOut, frame, 0); !slices.Equal(sent, frame) {
			t.Error("a packet in a tunnel was marked")
		}
	}
	if in, out := p.counts(t, "in", block), p.counts(t, "out", block); in.Packets != 4 || in.Octets != uint64(4*(len(inner)-14)) ||
		out.Packets != 0 {
		t.Errorf("in %+v, out %+v", in, out)
	}
}

// TestMeasuredMalformed checks that malformed headers are counted, and pass unchanged.
func TestMeasuredMalformed(t *testing.T) {
	out := model.MeasuredFlow{Name: "out", Direction: model.DirectionOut, Path: srv6.Path{Segments: measuredPath(3)}}
	in := out
	in.Name, in.Direction = "in", model.DirectionIn
	p := loadPrograms(t, measuringConfig(out, in), 1, fixedTime, hookIngressXDP, hookIngressTC, hookEgressTC)
	const srh = 14 + 40
	block := blockOf(fixedTime, time.Second)
	tlvs := func(b ...byte) func([]byte) []byte { // after the list
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
		return func(f []byte) []byte {
			f[srh+1] += byte(len(b) / 8)
			return slices.Insert(f, srh+8+3*16, b...)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(f []byte) []byte
		fault  SRHFault
		counts uint64 // in the flow
	}{
		{"sound", func(f []byte) []byte { return f }, NumSRHFaults, 1},
		{"Segments Left beyond the list", func(f []byte) []byte { f[srh+3] = 4; return f }, SRHSegmentsLeft, 0},
		{"Last Entry beyond the header", func(f []byte) []byte { f[srh+4] = 3; return f }, SRHLastEntry, 0},
		{"Last Entry of 255", func(f []byte) []byte { f[srh+4] = 255; return f }, SRHLastEntry, 0},
		{"no room for a segment", func(f []byte) []byte { f[srh+1] = 0; return f }, SRHLastEntry, 0},
		{"cut in the list", func(f []byte) []byte { return f[:srh+40] }, SRHTruncated, 0},
		{"another routing header", func(f []byte) []byte { f[srh+2] = 3; return f }, NumSRHFaults, 0},
		{"cut before the list", func(f []byte) []byte { return f[:srh+4] }, SRHTruncated, 0},
		{"TLVs", tlvs(5, 2, 0, 0, 0, 0, 4, 1, 0), NumSRHFaults, 1},
		{"HMAC", tlvs(append([]byte{5, 38}, make([]byte, 38)...)...), NumSRHFaults, 1},
		{"a TLV beyond the header", tlvs(5, 2, 0, 0, 0, 0, 4, 1), SRHTLV, 1},
		{"a TLV far beyond the header", tlvs(4, 255, 0, 0, 0, 0, 0, 0), SRHTLV, 1},
		{"half a TLV", tlvs(4, 5, 0, 0, 0, 0, 0, 4), SRHTLV, 1},
		{"Pad1 to the end", tlvs(4, 5, 0, 0, 0, 0, 0, 0), NumSRHFaults, 1},
		{"more TLVs than are looked at", tlvs(slices.Repeat([]byte{0}, 24)...), NumSRHFaults, 1},
		{"TLVs beyond the packet", func(f []byte) []byte { f[srh+1] = 200; return f }, SRHTLV, 1},
		{"a header of 2048 octets", func(f []byte) []byte { f[srh+1] = 255; return append(f, make([]byte, 2048)...) }, NumSRHFaults, 1},
	} {
		frame := tt.change(measuredPacket(t, measuredPath(3)[0], reversed(measuredPath(3)), 2))
		want := map[bpf.ABICounter]uint64{}
		if tt.fault < NumSRHFaults {
			want[bpf.ABICounterCOUNTER_SRH_MALFORMED+bpf.ABICounter(tt.fault)] = 1
		}
		for _, hook := range []struct {
			name, flow string
			program    *ebpf.Program
		}{{"XDP", "in", p.xdp}, {"ingress", "in", p.tcIn}, {"egress", "out", p.tcOut}} {
			before, packets := p.snapshotCounters(t), p.counts(t, hook.flow, block)
			verdict, sent := run(t, hook.program, frame, 0)
			bad := moved(before, p.snapshotCounters(t))
			maps.DeleteFunc(bad, func(c bpf.ABICounter, _ uint64) bool {
				return c < bpf.ABICounterCOUNTER_SRH_MALFORMED || c > bpf.ABICounterCOUNTER_SRH_MALFORMED_END
			})
			if !maps.Equal(bad, want) || dropped(hook.program, verdict) || len(sent) != len(frame) || tt.counts == 0 && !slices.Equal(sent, frame) {
				t.Errorf("%s, %s: counted %v, want %v; verdict %d", tt.name, hook.name, bad, want, verdict)
			}
			after := p.counts(t, hook.flow, block)
			if n := after.Packets + after.Unmarked - packets.Packets - packets.Unmarked; n != tt.counts {
				t.Errorf("%s, %s: %d packets in the flow, want %d", tt.name, hook.name, n, tt.counts)
			}
		}
	}
}

// TestMeasuredSelections checks that the most specific flow counts a packet, and that
// packets of no flow keep or lose their mark.
func TestMeasuredSelections(t *testing.T) {
	class, label := uint8(0xb8), uint32(0x12345)
	path := srv6.Path{Segments: measuredPath(3)}
	flows := []model.MeasuredFlow{
		{Name: "any", Direction: model.DirectionOut, Path: path},
		{Name: "class", Direction: model.DirectionOut, Path: path, TrafficClass: &class},
		{Name: "label", Direction: model.DirectionOut, Path: path, FlowLabel: &label},
		{Name: "both", Direction: model.DirectionOut, Path: path, TrafficClass: &class, FlowLabel: &label},
		{Name: "here", Direction: model.DirectionOut, Path: path, Destination: measuredPath(2)[1]},
	}
	p := loadPrograms(t, measuringConfig(flows...), 1, fixedTime, hookEgressTC)
	for _, clears := range []bool{false, true} {
		cfg := measuringConfig(flows...)
		cfg.Measurement.Clear = clears
		p.measure(t, cfg)
		for _, tt := range []struct {
			want  string
			class uint8
			label uint32
			to    int
		}{
			{"any", 0, 0, 0}, {"class", 0xb9, 1, 0}, {"label", 0x20, label, 0}, {"both", 0xbb, label, 0}, {"here", 0, 1, 1},
		} {
			frame := measuredPacket(t, measuredPath(3)[tt.to], reversed(measuredPath(3)), 2-tt.to)
			binary.BigEndian.PutUint32(frame[14:], 6<<28|uint32(tt.class)<<20|tt.label)
			block := blockOf(fixedTime, time.Second)
			before := p.counts(t, tt.want, block).Packets
			run(t, p.tcOut, frame, 0)
			if n := p.counts(t, tt.want, block).Packets - before; n != 1 {
				t.Errorf("%s: counted %d", tt.want, n)
			}
		}
		frame := measuredPacket(t, measuredPath(9)[8], measuredPath(9)[8:], 0)
		_, sent := run(t, p.tcOut, frame, 0)
		if got, want := sent[15]>>4, map[bool]uint8{false: 0x9, true: 0x1}[clears]; got != want {
			t.Errorf("clear %v: the low bits of the class are %#x, want %#x", clears, got, want)
		}
	}
}

// TestMeasuredArgument checks marks in the last SID's argument.
func TestMeasuredArgument(t *testing.T) {
	first := model.MeasuredFlow{Direction: model.DirectionOut, Path: srv6.Path{Segments: measuredPath(1)}}
	p := loadPrograms(t, measuringConfig(first), 1, fixedTime, hookEgressTC, hookIngressTC)
	for i, reduced := range []bool{false, true} { // one flow, in two forms: it keeps its counters
		path := srv6.Path{Segments: measuredPath(1)}
		entries := measuredPath(1)
		if reduced {
			path.Mode, entries = srv6.ModeReduced, nil
		}
		cfg := measuringConfig(
			model.MeasuredFlow{Name: "out", Direction: model.DirectionOut, Path: path},
			model.MeasuredFlow{Name: "in", Direction: model.DirectionIn, Path: path},
		)
		cfg.Measurement.Marking = model.Marking{Carrier: model.CarrierArgument, Octet: 13, Mask: 0x60, Colours: [2]uint8{0x20, 0x40}}
		p.measure(t, cfg)
		frame := measuredPacket(t, measuredPath(1)[0], entries, 0)
		_, sent := run(t, p.tcOut, frame, 0)
		block := blockOf(fixedTime, time.Second)
		want := slices.Clone(frame)
		octet := 14 + 24 + 13
		if !reduced {
			octet = 14 + 40 + 8 + 13
		}
		want[octet] |= cfg.Measurement.Marking.Colours[block&1]
		if !slices.Equal(sent, want) {
			t.Errorf("reduced %v: sent\n%x, want\n%x", reduced, sent, want)
		}
		run(t, p.tcIn, sent, 0)
		if out, in := p.counts(t, "out", block), p.counts(t, "in", block); out.Packets != uint64(i+1) || in.Packets != uint64(i+1) {
			t.Errorf("reduced %v: out %+v, in %+v", reduced, out, in)
		}
	}
}
