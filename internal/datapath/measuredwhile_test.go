// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// TestMeasuredWhileFlowsChange checks that every packet of flows that stay is counted
// while others come and go, in places before and after theirs.
func TestMeasuredWhileFlowsChange(t *testing.T) {
	const stay, most, changes = 8, 36, 150 // all that change twice are as many as there is room for
	random := rand.New(rand.NewPCG(3, 4))
	flows := make([]model.MeasuredFlow, stay)
	for i := range flows {
		flows[i] = colouredFlow(i)
	}
	p := loadPrograms(t, measuringConfig(flows...), 1, fixedTime, hookIngressXDP)
	block := blockOf(fixedTime, time.Second)
	var sent [stay]uint64
	var ended atomic.Bool
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; !ended.Load(); i = (i + 1) % stay {
			list := flows[i].Path.Segments
			frame := measuredPacket(t, list[2], reversed(list), 0)
			frame[14], frame[15] = 0x60, model.DefaultMarking().Colours[block&1]<<4
			if _, err := p.xdp.Run(&ebpf.RunOptions{Data: frame}); err != nil {
				t.Error(err)
				return
			}
			sent[i]++
		}
	})
	for range changes {
		now := slices.Clone(flows)
		for range random.IntN(most - stay) {
			now = append(now, colouredFlow(stay+len(now)*changes+random.IntN(changes)))
		}
		p.measure(t, measuringConfig(now...))
	}
	ended.Store(true)
	running.Wait()
	for i, n := range sent {
		if got := p.counts(t, fmt.Sprint(i), block); got.Packets != n || n == 0 {
			t.Errorf("flow %d: counted %d of %d packets", i, got.Packets, n)
		}
	}
}

// colouredFlow are flows that differ by their second segment.
func colouredFlow(i int) model.MeasuredFlow {
	path := measuredPath(3)
	path[1] = netip.MustParseAddr(fmt.Sprintf("2001:db8:6:%x::e0", i))
	return model.MeasuredFlow{Name: fmt.Sprint(i), Direction: model.DirectionIn, Path: srv6.Path{Segments: path}}
}
