// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/model"
)

// withoutMemory makes programs that are loaded from now on get no memory for a VLAN tag.
func withoutMemory(t *testing.T, name hookName) {
	t.Helper()
	usual := hooks[name]
	t.Cleanup(func() { hooks[name] = usual })
	hooks[name] = hook{name, &shared[ebpf.CollectionSpec]{parse: func() (*ebpf.CollectionSpec, error) {
		spec, err := usual.object.parse()
		if err != nil {
			return nil, err
		}
		replaced := 0
		for _, p := range spec.Programs {
			for i, ins := range p.Instructions {
				if ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnSkbVlanPush {
					p.Instructions[i] = asm.Mov.Imm(asm.R0, -12).WithSymbol(ins.Symbol()).WithSource(ins.Source())
					replaced++
				}
			}
		}
		if replaced == 0 {
			t.Errorf("%s puts no tag back", name)
		}
		return spec, nil
	}}}
}

// TestTakenBackAtEgress checks that a packet which the kernel left without its VLAN tag is dropped
// and not counted: neither in its block nor with its delay mark.
func TestTakenBackAtEgress(t *testing.T) {
	block := blockOf(fixedTime, time.Second)
	for _, tt := range []struct {
		name    string
		marking model.Marking
		delayed uint64
	}{
		{"colours", model.DefaultMarking(), 0},
		{"delay marks", model.Marking{Mask: 0x1c, Colours: [2]uint8{0x04, 0x0c}, Delay: &[2]uint8{0x14, 0x1c}}, 1},
		{"option", model.Marking{Carrier: model.CarrierOption}, 0},
	} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, fails %v", tt.name, fails), func(t *testing.T) {
				out, in := bothWays()
				cfg := measuringConfig(out, in)
				cfg.Measurement.Marking = tt.marking
				cfg.Encapsulations = []model.Encapsulation{{Name: "all", Interface: 1, Mode: model.ModeInline,
					Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24})}}
				if fails {
					withoutMemory(t, hookEgressTC)
				}
				p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
				frame := tagged(1)(measuredPacket(t, measuredPath(3)[2], reversed(measuredPath(3)), 0))
				verdict, after := run(t, p.tcOut, frame, 0)
				got, want := p.counts(t, "out", block), measure.BlockCounts{}
				if !fails {
					want.Packets, want.DelayPackets = 1, tt.delayed
				}
				if dropped(p.tcOut, verdict) != fails || len(after) <= len(frame) || got.Packets != want.Packets ||
					got.DelayPackets != want.DelayPackets ||
					got.Unmarked != 0 || fails && (got.Octets != 0 || got.TimeSum != 0 || got.DelayTimeSum != 0) {
					t.Errorf("verdict %d, %+v, want %+v", int32(verdict), got, want)
				}
			})
		}
	}
}
