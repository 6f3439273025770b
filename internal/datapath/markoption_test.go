// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
	"github.com/waymark-net/waymark/test/craft"
)

// optionConfig marks flows with the AltMark option.
func optionConfig(hopByHop bool, flows ...model.MeasuredFlow) model.NodeConfig {
	cfg := measuringConfig(flows...)
	cfg.Measurement.Marking = model.OptionMarking(hopByHop)
	return cfg
}

// withOption is a frame as a node sends it that inserts the option (RFC 9343 §3.1).
func withOption(frame []byte, header uint8, monitor uint32, loss, delay bool) []byte {
	const ip6 = 14
	option := []byte{frame[ip6+6], 0, 0x12, 4, byte(monitor >> 12), byte(monitor >> 4), byte(monitor << 4), 0}
	if loss {
		option[6] |= 0x08
	}
	if delay {
		option[6] |= 0x04
	}
	out := slices.Insert(slices.Clone(frame), ip6+40, option...)
	out[ip6+6] = header
	binary.BigEndian.PutUint16(out[ip6+4:], binary.BigEndian.Uint16(out[ip6+4:])+8)
	return out
}

// TestOptionInserted checks the packets that leave, octet for octet, and that nodes that
// they pass count them, in every form that the kernel gives them.
func TestOptionInserted(t *testing.T) {
	block := blockOf(fixedTime, time.Second)
	id := uint32(0xabcde)
	first := model.MeasuredFlow{Direction: model.DirectionOut, Path: srv6.Path{Segments: measuredPath(1)}}
	p := loadPrograms(t, optionConfig(true, first), 1, fixedTime, hookEgressTC, hookIngressTC, hookIngressXDP)
	for _, header := range []uint8{craft.HopByHop, craft.DestinationOptions} {
		for name, tt := range map[string]struct {
			path  srv6.Path
			frame []byte
		}{
			"encap":        {srv6.Path{Segments: measuredPath(3)}, measuredPacket(t, measuredPath(3)[0], reversed(measuredPath(3)), 2)},
			"reduced":      {srv6.Path{Segments: measuredPath(3), Mode: srv6.ModeReduced}, measuredPacket(t, measuredPath(3)[0], reversed(measuredPath(3)[1:]), 2)},
			"without SRH":  {srv6.Path{Segments: measuredPath(1), Mode: srv6.ModeReduced}, measuredPacket(t, measuredPath(1)[0], nil, 0)},
			"sixteen SIDs": {srv6.Path{Segments: measuredPath(16)}, measuredPacket(t, measuredPath(16)[0], reversed(measuredPath(16)), 15)},
		} {
			out := model.MeasuredFlow{Name: "out", Direction: model.DirectionOut, Path: tt.path, MonitorID: &id}
			in := model.MeasuredFlow{Name: "in", Direction: model.DirectionIn, Path: tt.path}
			p.measure(t, optionConfig(header == craft.HopByHop, out, in))
			p.forget("out")
			p.forget("in")
			for i := range 2 { // the first packet of the block has a delay mark
				_, sent := run(t, p.tcOut, tt.frame, 0)
				if want := withOption(tt.frame, header, id, block&1 == 1, i == 0); !slices.Equal(sent, want) {
					t.Errorf("%s, header %d, packet %d:\n%x, want\n%x", name, header, i, sent, want)
				}
				run(t, p.tcIn, sent, 0)
				run(t, p.xdp, sent, 0)
				run(t, p.xdp, tt.frame, 0)
			}
			octets := uint64(2 * (len(tt.frame) + 8 - 14))
			a, b := p.counts(t, "out", block), p.counts(t, "in", block)
			if a.Packets != 2 || a.Octets != octets || a.DelayPackets != 1 || a.Unmarked != 0 {
				t.Errorf("%s, header %d: out %+v", name, header, a)
			}
			if b.Packets != 4 || b.Octets != 2*octets || b.DelayPackets != 2 || b.Unmarked != 2 {
				t.Errorf("%s, header %d: in %+v", name, header, b)
			}
		}
	}
}

// TestOptionRefused checks that packets that cannot get the option leave unchanged, and
// are counted by cause and not as sent.
func TestOptionRefused(t *testing.T) {
	flow := model.MeasuredFlow{Name: "out", Direction: model.DirectionOut, Path: srv6.Path{Segments: measuredPath(3)}}
	p := loadPrograms(t, optionConfig(false, flow), 1, fixedTime, hookEgressTC)
	block := blockOf(fixedTime, time.Second)
	plain := measuredPacket(t, measuredPath(3)[0], reversed(measuredPath(3)), 2)
	long := func(payload int) []byte { // the device of runs takes all that IPv6 can say
		frame := slices.Clone(plain)
		binary.BigEndian.PutUint16(frame[18:], uint16(payload))
		return frame
	}
	authenticated := slices.Clone(plain)
	authenticated[14+40] = 51 // the header after the segments
	unmarked := uint64(0)
	for _, tt := range []struct {
		name  string
		frame []byte
		skb   skb
		cause UnmarkedCause
		parts uint64
	}{
		{"Hop-by-Hop", measuredPacket(t, measuredPath(3)[0], reversed(measuredPath(3)), 2, 0), skb{}, UnmarkedHeader, 1},
		{"Destination Options", measuredPacket(t, measuredPath(3)[0], reversed(measuredPath(3)), 2, 60), skb{}, UnmarkedHeader, 1},
		{"with the option of another node", withOption(plain, craft.DestinationOptions, 1, true, false), skb{}, UnmarkedHeader, 1},
		{"with an Authentication header", authenticated, skb{}, UnmarkedHeader, 1},
		{"as long as packets can be", long(0xffff - 7), skb{}, UnmarkedMTU, 1},
		{"a jumbogram", long(0), skb{}, UnmarkedMTU, 1},
		{"segments as small as the header", plain, skb{GSOSize: 16, GSOSegs: 3}, UnmarkedGSO, 3},
		{"neither TCP nor UDP", plain, skb{GSOSize: 100, GSOSegs: 2}, UnmarkedGSO, 2},
	} {
		before := p.snapshotCounters(t)
		options := &ebpf.RunOptions{Data: tt.frame, DataOut: make([]byte, len(tt.frame)+64), Context: &tt.skb}
		verdict, err := p.tcOut.Run(options)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if dropped(p.tcOut, verdict) || !slices.Equal(options.DataOut, tt.frame) {
			t.Errorf("%s: verdict %d, %d octets of %d, or they were changed", tt.name, verdict, len(options.DataOut), len(tt.frame))
		}
		changed := moved(before, p.snapshotCounters(t))
		if changed[bpf.ABICounterCOUNTER_UNMARKED+bpf.ABICounter(tt.cause)] != 1 {
			t.Errorf("%s: counted %v", tt.name, changed)
		}
		unmarked += tt.parts
		if got := p.counts(t, "out", block); got.Packets != 0 || got.Unmarked != unmarked {
			t.Errorf("%s: %+v, want %d unmarked", tt.name, got, unmarked)
		}
	}
	if _, sent := run(t, p.tcOut, long(0xffff-8), 0); len(sent) != len(plain)+8 {
		t.Errorf("a packet that just fits left with %d octets", len(sent))
	}
}

// TestOptionFound checks where packets may have the option, and which are malformed.
func TestOptionFound(t *testing.T) {
	id := uint32(0x12345)
	byID := model.MeasuredFlow{Name: "in", Direction: model.DirectionIn, Path: srv6.Path{Segments: measuredPath(3)}, MonitorID: &id}
	// what follows the headers, read as the option's data, is of a flow, too
	bad := uint32(0x29020)
	beyond := model.MeasuredFlow{Name: "beyond", Direction: model.DirectionIn, Path: srv6.Path{Segments: measuredPath(2)}, MonitorID: &bad}
	p := loadPrograms(t, optionConfig(false, byID, beyond), 1, fixedTime, hookIngressTC, hookIngressXDP)
	block := blockOf(fixedTime, time.Second)
	mark := byte(0)
	if block&1 == 1 {
		mark = 8
	}
	option := []byte{0x12, 4, 0x12, 0x34, 0x50 | mark, 0}
	padded := func(b ...byte) []byte { return append(b, make([]byte, (8-(len(b)+2)%8)%8)...) }
	for _, tt := range []struct {
		name    string
		headers [][]byte // options, of a header each
		counts  bool
	}{
		{"none", nil, false},
		{"alone", [][]byte{option}, true},
		{"after padding", [][]byte{padded(slices.Concat([]byte{0, 0, 1, 0, 1, 2, 0, 0}, option)...)}, true},
		{"after another option", [][]byte{padded(slices.Concat([]byte{0x3e, 6, 1, 2, 3, 4, 5, 6}, option)...)}, true},
		{"in the second header", [][]byte{padded(0x3e, 2, 1, 2), option}, true},
		{"of another length", [][]byte{padded(0x12, 8, 0x12, 0x34, 0x50, 0, 0, 0, 0, 0)}, false},
		{"of another flow", [][]byte{{0x12, 4, 0x12, 0x34, 0x60 | mark, 0}}, false},
		{"beyond its header", [][]byte{{0x3e, 1, 0, 0, 0x12, 4}}, false},
		{"within another option", [][]byte{padded(0x3e, 8, 0x12, 4, 0x12, 0x34, 0x50|mark, 0, 0, 0)}, false},
		{"after a malformed option", [][]byte{padded(slices.Concat([]byte{0x3e, 200}, option)...)}, false},
	} {
		frame := optionHeaders(t, tt.headers)
		for _, program := range []*ebpf.Program{p.tcIn, p.xdp} {
			before := p.counts(t, "in", block).Packets
			if _, after := run(t, program, frame, 0); !slices.Equal(after, frame) {
				t.Errorf("%s: the packet changed", tt.name)
			}
			if got := p.counts(t, "in", block).Packets - before; (got == 1) != tt.counts {
				t.Errorf("%s: counted %d", tt.name, got)
			}
		}
	}
	for b := block - 1; b <= block+1; b++ {
		if got := p.counts(t, "beyond", b); got.Packets > 0 {
			t.Errorf("an option beyond its header counts: %+v", got)
		}
	}
}

// optionHeaders is a packet of a list with headers of options before it.
func optionHeaders(t *testing.T, headers [][]byte) []byte {
	t.Helper()
	other := measuredPath(9)[8:] // segments do not matter
	frame := measuredPacket(t, netip.Addr(other[0]), other, 0)
	at, next := 14+40, frame[14+6]
	for i, options := range slices.Backward(headers) {
		header := append([]byte{next, byte((len(options)+2)/8 - 1)}, options...)
		frame = slices.Insert(frame, at, header...)
		if next = 60; i == 0 && len(headers) > 1 {
			next = 0
		}
	}
	frame[14+6] = next
	binary.BigEndian.PutUint16(frame[18:], uint16(len(frame)-14-40))
	return frame
}
