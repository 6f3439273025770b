// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// TestTap checks that both filters note packets of a flow in every form that it has, and no
// others, take none, and note none of a served interface. That of an interface which is no
// member notes none for another host.
func TestTap(t *testing.T) {
	for _, served := range []bool{false, true} {
		for _, member := range []bool{false, true} {
			cfg := measuringConfig(model.MeasuredFlow{Direction: model.DirectionIn, Path: measuredForms(t)[0].path})
			p, taps, program := loadTapAt(t, &cfg, served, member)
			for _, tt := range measuredForms(t) {
				flow := model.MeasuredFlow{Direction: model.DirectionTransit, Path: tt.path}
				out := flow
				out.Name, out.Direction = "blue", model.DirectionOut
				next := measuringConfig(flow, out)
				next.Interfaces = cfg.Interfaces
				p.measure(t, next)
				for i, frames := range [][][]byte{tt.whole, tt.other} {
					for _, frame := range frames {
						copy(frame, make([]byte, 6)) // the loopback's address
						notes(t, taps, program, frame, i == 0 && !served, tt.name)
						frame[5] = 9
						notes(t, taps, program, frame, i == 0 && !served && member, tt.name+", for another host")
					}
				}
			}
		}
	}
}

// TestTapReach checks how far the filter looks: as far as the ingress hook does where the
// packet is at hand, within 512 octets.
func TestTapReach(t *testing.T) {
	path := measuredPath(14)
	cfg := measuringConfig(model.MeasuredFlow{Direction: model.DirectionIn, Path: srv6.Path{Segments: path}})
	_, taps, program := loadTapAt(t, &cfg, false, false)
	for length, want := range map[int]bool{8: true, 136: true, 240: true, 256: false} { // 40 + 256 + 8 + 14*16 = 528
		frame := measuredPacket(t, path[0], reversed(path), 13)
		copy(frame, make([]byte, 6))
		ip := frame[14:]
		header := append([]byte{ip[6], byte(length/8 - 1), 1, byte(length - 4)}, make([]byte, length-4)...)
		if length == 256 {
			header[3] = 0
		}
		long := slices.Concat(frame[:14+40], header, ip[40:])
		long[14+6] = 0
		binary.BigEndian.PutUint16(long[14+4:], uint16(len(long)-14-40))
		notes(t, taps, program, long, want, fmt.Sprintf("%d octets before the segments", length))
	}
}

// loadTapAt loads a filter where the kernel runs it, which is the loopback.
func loadTapAt(t *testing.T, cfg *model.NodeConfig, served, member bool) (*programs, *measure.Taps, *ebpf.Program) {
	t.Helper()
	const loopback = 1
	cfg.Interfaces = cfg.Interfaces[:2]
	cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = 77, 78
	if served {
		cfg.Interfaces[1].Index = loopback
	}
	p := loadPrograms(t, *cfg, 77, fixedTime)
	p.measure(t, *cfg)
	program, err := p.site.program(tapHook(member))
	if err != nil {
		t.Fatal(err)
	}
	look := func() (*measure.Targets, error) { // it opens no socket
		return &measure.Targets{Names: map[model.IfIndex]string{loopback: "lo"}, Table: p.site.own.measured}, nil
	}
	taps := measure.NewTaps(look, func() *measure.Table { return p.site.own.measured }, p.maps[bpf.MapUnserved])
	if _, err := taps.Follow(time.Time{}); err != nil {
		t.Fatal(err)
	}
	return p, taps, program
}

// notes checks whether a filter notes a packet; it takes none.
func notes(t *testing.T, taps *measure.Taps, program *ebpf.Program, frame []byte, want bool, name string) {
	t.Helper()
	taken, err := program.Run(&ebpf.RunOptions{Data: frame})
	if err != nil {
		t.Fatal(err)
	}
	got := taps.Read()
	if taken != 0 || (len(got) == 1) != want || want && got[0] != (measure.Unserved{Interface: "lo", Flow: "red", Packets: 1}) {
		t.Errorf("%s: took %d, noted %+v, want it noted: %v", name, taken, got, want)
	}
}

// TestNotesOfAnotherTable checks that notes with the numbers of another table's flows are not
// taken for those of this one.
func TestNotesOfAnotherTable(t *testing.T) {
	cfg := measuringConfig(model.MeasuredFlow{Direction: model.DirectionIn, Path: measuredForms(t)[0].path})
	p, taps, program := loadTapAt(t, &cfg, false, false)
	frame := measuredForms(t)[0].whole[0]
	copy(frame, make([]byte, 6))
	table := p.site.own.measured
	defer func() { p.site.own.measured = table }()
	p.site.own.measured = &measure.Table{}
	notes(t, taps, program, frame, false, "another table")
}
