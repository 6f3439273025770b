// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// TestMeasuredBlocks checks in which block a packet is counted, by its colour and the
// time at which it arrives, from the shortest length of blocks to the longest.
func TestMeasuredBlocks(t *testing.T) {
	for _, length := range []time.Duration{model.MinBlock, time.Second, model.MaxBlock} {
		t.Run(length.String(), func(t *testing.T) { checkBlocks(t, length) })
	}
}

func checkBlocks(t *testing.T, length time.Duration) {
	t.Helper()
	guard := length / 5
	block := blockOf(fixedTime, length)
	delay := [2]uint8{0x14, 0x1c}
	marking := model.Marking{Mask: 0x1c, Colours: [2]uint8{0x04, 0x0c}, Delay: &delay}
	cfg := measuringConfig(model.MeasuredFlow{Direction: model.DirectionIn, Path: srv6.Path{Segments: measuredPath(3)}})
	cfg.Measurement.Marking, cfg.Measurement.Block, cfg.Measurement.Guard = marking, length, guard
	p := loadPrograms(t, cfg, 1, fixedTime, hookIngressTC)
	for _, tt := range []struct {
		into        time.Duration
		other       bool // its colour is the other one
		block       uint64
		late, early uint64
	}{
		{0, false, block, 0, 0},
		{length - 1, false, block, 0, 0},
		{0, true, block - 1, 0, 0},
		{guard, true, block - 1, 0, 0},
		{guard + 1, true, block - 1, 1, 0},
		{length/2 - 1, true, block - 1, 1, 0},
		{length / 2, true, block + 1, 0, 1},
		{length - guard - 1, true, block + 1, 0, 1},
		{length - guard, true, block + 1, 0, 0},
	} {
		p.setTime(t, int64(block)*int64(length)+int64(tt.into))
		for _, delayed := range []bool{false, true} {
			p.forget("red")
			colour := block & 1
			if tt.other {
				colour ^= 1
			}
			class := marking.Colours[colour]
			if delayed {
				class = delay[colour]
			}
			frame := measuredPacket(t, measuredPath(3)[2], reversed(measuredPath(3)), 0)
			frame[14], frame[15] = 0x60|class>>4, class<<4
			run(t, p.tcIn, frame, 0)
			got := p.counts(t, "red", tt.block)
			into := int64(tt.into) + int64(block-tt.block)*int64(length)
			want := measure.BlockCounts{
				Flow:      "red",
				Block:     tt.block,
				Packets:   1,
				Octets:    uint64(len(frame) - 14),
				TimeSum:   uint64(into),
				Late:      tt.late,
				Early:     tt.early,
				Complete:  got.Complete,
				Selection: got.Selection,
			}
			if delayed {
				want.DelayPackets, want.DelayTimeSum = 1, uint64(into)
			}
			if got != want {
				t.Errorf("%v after the begin, other colour %v: %+v, want %+v", tt.into, tt.other, got, want)
			}
		}
	}
}

// setTime has the programs take this for the time of UTC.
func (p *programs) setTime(t *testing.T, utc int64) {
	t.Helper()
	offset := bpf.ABIClockState{TaiOffset: fixedTime - utc}
	remembered := make([]bpf.ABIBlockClock, ebpf.MustPossibleCPU())
	if err := errors.Join(p.maps[bpf.MapClock].Put(uint32(0), offset), p.maps[bpf.MapBlockClocks].Put(uint32(0), remembered)); err != nil {
		t.Fatal(err)
	}
}

// TestDelayMarks checks that the first packet of a block gets a delay mark (double marking,
// RFC 9341 §4.2.2) in bits of the traffic class or of an argument, whatever the block's
// colour, that all others get the colour alone, and that the other end knows it again.
func TestDelayMarks(t *testing.T) {
	argument := model.Marking{
		Carrier: model.CarrierArgument,
		Octet:   13,
		Mask:    0xe0,
		Colours: [2]uint8{0x20, 0x40},
		Delay:   &[2]uint8{0x60, 0x80},
	}
	class := model.Marking{Mask: 0x1c, Colours: [2]uint8{0x04, 0x0c}, Delay: &[2]uint8{0x14, 0x1c}}
	path := srv6.Path{Segments: measuredPath(1)}
	flows := []model.MeasuredFlow{
		{Name: "out", Direction: model.DirectionOut, Path: path},
		{Name: "in", Direction: model.DirectionIn, Path: path},
	}
	p := loadPrograms(t, measuringConfig(flows...), 1, fixedTime, hookEgressTC, hookIngressTC)
	const into = 123_456_789
	for later := range uint64(2) { // the block has one colour, then the other
		block := blockOf(fixedTime, time.Second) + later
		p.setTime(t, int64(block)*int64(time.Second)+into)
		for name, marking := range map[string]model.Marking{"class": class, "argument": argument} {
			cfg := measuringConfig(flows...)
			cfg.Measurement.Marking = marking
			p.measure(t, cfg)
			p.forget("out")
			p.forget("in")
			frame := measuredPacket(t, measuredPath(1)[0], measuredPath(1), 0)
			for i := range 3 {
				value := marking.Colours[block&1]
				if i == 0 {
					value = marking.Delay[block&1]
				}
				want := slices.Clone(frame)
				if marking.Carrier == model.CarrierArgument {
					want[14+40+8+13] |= value
				} else {
					marked := 0xb9&^marking.Mask | value
					want[14], want[15] = 0x60|marked>>4, want[15]&0x0f|marked<<4
				}
				_, sent := run(t, p.tcOut, frame, 0)
				if !slices.Equal(sent, want) {
					t.Errorf("%s, packet %d of block %d: sent\n%x, want\n%x", name, i, block, sent, want)
				}
				run(t, p.tcIn, sent, 0)
			}
			for _, flow := range []string{"out", "in"} {
				if c := p.counts(t, flow, block); c.Packets != 3 || c.DelayPackets != 1 || c.DelayTimeSum != into || c.Unmarked > 0 {
					t.Errorf("%s, %s: %+v", name, flow, c)
				}
			}
		}
	}
}

// TestMarksInECN checks marks in the ECN field, where they were asked for by name: they are
// written and read as others, and a router that marks congestion (RFC 3168 §5) takes them away.
func TestMarksInECN(t *testing.T) {
	path := srv6.Path{Segments: measuredPath(3)}
	cfg := measuringConfig(
		model.MeasuredFlow{Name: "out", Direction: model.DirectionOut, Path: path},
		model.MeasuredFlow{Name: "in", Direction: model.DirectionIn, Path: path},
	)
	cfg.Measurement.Marking = model.Marking{Mask: 0x03, Colours: [2]uint8{0x01, 0x02}, ECN: true}
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC, hookIngressTC)
	frame := measuredPacket(t, path.Segments[0], reversed(path.Segments), 2)
	for later := range uint64(2) {
		block := blockOf(fixedTime, time.Second) + later
		p.setTime(t, int64(block)*int64(time.Second))
		_, sent := run(t, p.tcOut, frame, 0)
		want := slices.Clone(frame)
		marked := 0xb9&^0x03 | cfg.Measurement.Marking.Colours[block&1]
		want[14], want[15] = 0x60|marked>>4, want[15]&0x0f|marked<<4
		if !slices.Equal(sent, want) {
			t.Errorf("block %d: sent\n%x, want\n%x", block, sent, want)
		}
		run(t, p.tcIn, sent, 0)
		sent[15] |= 0x30
		run(t, p.tcIn, sent, 0)
		if out, in := p.counts(t, "out", block), p.counts(t, "in", block); out.Packets != 1 || in.Packets != 1 || in.Unmarked != 1 {
			t.Errorf("block %d: out %+v, in %+v", block, out, in)
		}
	}
}

// TestMoreFlowsThanByDefault loads more flows than there is room for without a setting, and
// counts packets of the first and the last of them, each in its own flow.
func TestMoreFlowsThanByDefault(t *testing.T) {
	const count = model.DefaultMeasuredFlows + 1000
	pathOf := func(i int) srv6.Path {
		list := measuredPath(3)
		middle := list[1].As16()
		binary.BigEndian.PutUint32(middle[8:], uint32(i))
		list[1] = netip.AddrFrom16(middle)
		return srv6.Path{Segments: list}
	}
	flows := make([]model.MeasuredFlow, count)
	for i := range flows {
		flows[i] = model.MeasuredFlow{Name: fmt.Sprint(i), Direction: model.DirectionIn, Path: pathOf(i)}
	}
	cfg := measuringConfig(flows...)
	if err := cfg.Validate(); err == nil {
		t.Errorf("%d flows are accepted without a setting", count)
	}
	cfg.Measurement.Capacity = count
	p := loadPrograms(t, cfg, 1, fixedTime, hookIngressTC)
	block := blockOf(fixedTime, time.Second)
	want := map[string]uint64{}
	for n, i := range []int{0, 1, model.DefaultMeasuredFlows - 1, model.DefaultMeasuredFlows, count - 1} {
		list := pathOf(i).Segments
		frame := measuredPacket(t, list[2], reversed(list), 0)
		class := model.DefaultMarking().Colours[block&1]
		frame[14], frame[15] = 0x60|class>>4, class<<4
		for range n + 1 {
			run(t, p.tcIn, frame, 0)
		}
		want[fmt.Sprint(i)] = uint64(n + 1)
	}
	list := pathOf(count).Segments // of no flow
	run(t, p.tcIn, measuredPacket(t, list[2], reversed(list), 0), 0)
	got := map[string]uint64{}
	p.site.own.measured.Read(block, nil, func(c measure.BlockCounts) {
		if c.Packets+c.Unmarked > 0 {
			got[c.Flow] = c.Packets
		}
	})
	if !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}
