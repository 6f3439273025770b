// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
)

// TestFrequencyBlockPassed finds a CPU's numbers past the end of their block, as
// two packets leave them that interrupt each other at the last one (PREEMPT_RT):
// the next packet takes a new block rather than count on by itself for ever.
func TestFrequencyBlockPassed(t *testing.T) {
	onOneCPU(t)
	cfg := exportingConfig(model.ExportEvery)
	cfg.Encapsulations[0].Frequency.K, cfg.Encapsulations[0].Frequency.N = 1, 2
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	const block = uint64(abiFrequencyBoundFREQUENCY_BLOCK)
	passed := make([]abiFrequencyBlock, ebpf.MustPossibleCPU())
	for i := range passed {
		passed[i] = abiFrequencyBlock{Next: block + 1, End: block}
	}
	if err := p.maps[mapFrequencyBlocks].Put(uint32(0), passed); err != nil {
		t.Fatal(err)
	}
	if err := p.maps[mapFrequencies].Put(uint32(0), abiFrequency{Next: 4 * block}); err != nil {
		t.Fatal(err)
	}
	run(t, p.tcOut, plainPacket(1), 0)
	var now []abiFrequencyBlock
	if err := p.maps[mapFrequencyBlocks].Lookup(uint32(0), &now); err != nil {
		t.Fatal(err)
	}
	if got, want := now[0], (abiFrequencyBlock{Next: 4*block + 1, End: 5 * block}); got != want {
		t.Errorf("the block is %+v, want %+v", got, want)
	}
}
