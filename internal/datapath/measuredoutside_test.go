// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
	"github.com/waymark-net/waymark/test/craft"
)

// bothWays are a flow that leaves and one that arrives, of the same packets.
func bothWays() (out, in model.MeasuredFlow) {
	out = model.MeasuredFlow{Name: "out", Direction: model.DirectionOut, Path: srv6.Path{Segments: measuredPath(3)}}
	in = out
	in.Name, in.Direction = "in", model.DirectionIn
	return out, in
}

// TestMeasuredOutside checks that packets of a flow count only where they arrive from the
// domain, or leave into it: whatever an outsider sends, in whichever colour. An interface
// without the role of a direction is outside, unless its policy is to ignore what passes.
func TestMeasuredOutside(t *testing.T) {
	const both = model.RoleIngress | model.RoleEgress
	block := blockOf(fixedTime, time.Second)
	colour := model.DefaultMarking().Colours[block&1]
	for _, tt := range []struct {
		roles       model.Role
		boundary    model.Boundary
		arrive, out bool
	}{
		{both, model.BoundaryDrop, true, true},
		{0, model.BoundaryDrop, false, false}, {0, model.BoundaryStrip, false, false}, {0, model.BoundaryIgnore, true, true},
		{model.RoleIngress, model.BoundaryDrop, true, false}, {model.RoleEgress, model.BoundaryStrip, false, true},
	} {
		out, in := bothWays()
		cfg := measuringConfig(out, in)
		cfg.Interfaces[0].Roles, cfg.Interfaces[0].Boundary = tt.roles, tt.boundary
		p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP, hookIngressTC, hookEgressTC)
		for _, clears := range []bool{false, true} {
			name := fmt.Sprintf("roles %v, %v, clear %v", tt.roles, tt.boundary, clears)
			cfg.Measurement.Clear = clears
			p.measure(t, cfg)
			p.forget("out")
			p.forget("in")
			frame := measuredPacket(t, measuredPath(3)[2], reversed(measuredPath(3)), 0)
			coloured := classed(frame, 0xb9&^0x0c|colour)
			for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
				for _, f := range [][]byte{coloured, frame, classed(frame, 0xb9&^0x0c|model.DefaultMarking().Colours[1-block&1])} {
					run(t, program, f, 0)
				}
			}
			want := measure.BlockCounts{Packets: 2, Unmarked: 2}
			if !tt.arrive {
				want = measure.BlockCounts{}
			}
			if got := p.counts(t, "in", block); got.Packets != want.Packets || got.Unmarked != want.Unmarked {
				t.Errorf("%s: arrived %+v, want %+v", name, got, want)
			}
			_, sent := run(t, p.tcOut, frame, 0)
			after := frame
			if tt.out {
				after = coloured
			} else if clears {
				after = classed(frame, 0xb9&^0x0c|model.DefaultMarking().None)
			}
			if got := p.counts(t, "out", block); !slices.Equal(sent, after) || got.Packets != map[bool]uint64{true: 1}[tt.out] {
				t.Errorf("%s: left %+v as\n%x, want\n%x", name, got, sent, after)
			}
		}
	}
}

// classed is a frame with a traffic class.
func classed(frame []byte, class byte) []byte {
	frame = slices.Clone(frame)
	frame[14], frame[15] = 0x60|class>>4, class<<4|frame[15]&15
	return frame
}

// TestMeasuredAndDropped checks that a packet which this node drops for its options is not
// received: neither in its block nor with its delay mark, nor as one without a colour.
func TestMeasuredAndDropped(t *testing.T) {
	keys := testKeys(t, 1)
	block := blockOf(fixedTime, time.Second)
	marking := model.Marking{Mask: 0x1c, Colours: [2]uint8{0x04, 0x0c}, Delay: &[2]uint8{0x14, 0x1c}}
	trace := []byte{0x31, 18, 0, 0, 0, 123, 0x08, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for _, tt := range []struct {
		name   string
		config func(*model.NodeConfig)
		option []byte
		drop   bool
	}{
		{"passes", func(*model.NodeConfig) {}, trace, false},
		{"malformed", func(*model.NodeConfig) {}, set(6, 0x10)(slices.Clone(trace)), false},
		{"malformed, mainline", func(c *model.NodeConfig) { c.Compatibility = model.CompatibilityMainline }, set(6, 0x10)(slices.Clone(trace)), true},
		{"proof", func(c *model.NodeConfig) { c.Namespaces[0].Proof = &model.Proof{Key: keys[3]} }, append([]byte{0x31, 22, 0, 2, 0, 123, 0, 0}, make([]byte, 16)...), false},
		{"proof, rejected", func(c *model.NodeConfig) {
			c.Namespaces[0].Proof = &model.Proof{Key: keys[3], DropRejected: true}
		}, append([]byte{0x31, 22, 0, 2, 0, 123, 0, 0}, make([]byte, 16)...), true},
		{"probe", func(c *model.NodeConfig) { c.Namespaces[1].TerminateActive = true }, set(5, 7, 0x09)(slices.Clone(trace)), true},
	} {
		out, in := bothWays()
		cfg := measuringConfig(out, in)
		cfg.Measurement.MeanDelay, cfg.Measurement.Marking = true, marking
		tt.config(&cfg)
		p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP, hookIngressTC)
		for _, mark := range []uint8{0, marking.Colours[block&1], marking.Delay[block&1]} {
			p.forget("in")
			plain := measuredPacket(t, measuredPath(3)[2], reversed(measuredPath(3)), 0)
			outer := craft.Between(measuredFrom, measuredPath(3)[2].String(), 0)
			frame := craft.Ethernet(plain[:6], plain[6:12], outer.With(craft.Options(srv6.NextHeaderRouting, 2, tt.option), plain[14+40:]))
			frame = classed(frame, mark)
			for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
				verdict, _ := run(t, program, frame, 0)
				if dropped(program, verdict) != tt.drop {
					t.Fatalf("%s: verdict %d", tt.name, verdict)
				}
			}
			got, want := p.counts(t, "in", block), measure.BlockCounts{Flow: "in", Block: block}
			if !tt.drop {
				into := uint64(fixedTime-taiUTC.Nanoseconds()) % uint64(time.Second)
				want.Packets, want.Octets, want.TimeSum = 2, 2*uint64(len(frame)-14), 2*into
				switch mark {
				case 0:
					want = measure.BlockCounts{Flow: "in", Block: block, Unmarked: 2}
				case marking.Delay[block&1]:
					want.DelayPackets, want.DelayTimeSum = 2, 2*into
				}
			}
			got.Complete, got.Selection = false, loss.Selection{}
			if got != want {
				t.Errorf("%s: %+v, want %+v", tt.name, got, want)
			}
		}
	}
}
