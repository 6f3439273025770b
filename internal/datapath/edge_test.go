// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/testnet"
)

// egressed gives a frame to the egress program as if it had arrived at interface
// 1, and checks verdict, bytes, and the one counter that changed.
func egressed(t *testing.T, p *programs, frame, want []byte, outcome model.Outcome, drop bool) {
	t.Helper()
	before := p.snapshotCounters(t)
	verdict, out := run(t, p.tcOut, frame, 1)
	if dropped(p.tcOut, verdict) != drop {
		t.Errorf("verdict %d", int32(verdict))
	}
	if !bytes.Equal(out, want) {
		t.Errorf("\n%swant\n%s", hex.Dump(out), hex.Dump(want))
	}
	counters := map[bpf.ABICounter]uint64{bpf.ABICounterCOUNTER_EGRESS + bpf.ABICounter(outcome): 1}
	if got := moved(before, p.snapshotCounters(t)); !maps.Equal(got, counters) {
		t.Errorf("counters moved by %v, want %v (%s)", got, counters, outcome)
	}
}

// TestEdgeMutations checks the egress program against the edge's rules, which are
// the same in both directions except for tunnels.
func TestEdgeMutations(t *testing.T) {
	testnet.NeedRoot(t)
	all, loaded := t, make(map[string]*programs)
	for _, m := range slices.Concat(ingressMutations, authenticatedMutations) {
		frame := rightPacket()
		if m.change != nil {
			frame = m.change(frame)
		}
		if m.on != 3 || len(frame) < atHBH { // the facility refuses a shorter skb
			continue
		}
		if m.outcome == model.OutcomeBoundaryTunnelDropped { // tunnel ends are guarded only at ingress
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			cfg := rightConfig()
			if m.config != nil {
				m.config(&cfg)
			}
			key := fmt.Sprintf("%+v", cfg)
			if loaded[key] == nil {
				loaded[key] = loadPrograms(all, cfg, 3, fixedTime, hookEgressTC)
			}
			want := frame
			if m.want != nil {
				want = m.want(slices.Clone(frame))
			}
			egressed(t, loaded[key], frame, want, m.outcome, m.drop)
		})
	}
	if len(loaded) < 3 {
		t.Errorf("%d configurations were tried, want the three policies", len(loaded))
	}
}

// TestCompletionMutations: a node that ends tunnels completes only data that are
// clearly its own and not yet complete; a node that ends none completes what it
// filled.
func TestCompletionMutations(t *testing.T) {
	both := loadPrograms(t, rightConfig(), 2, fixedTime, hookEgressTC)
	cfg := rightConfig()
	decapsulating(&cfg)
	ending := loadPrograms(t, cfg, 2, fixedTime, hookEgressTC)
	cfg = rightConfig()
	decapsulating(&cfg)
	cfg.ID, cfg.IDWide = ioam.NodeIDUnavailable, ioam.NodeIDWideUnavailable
	nameless := loadPrograms(t, cfg, 2, fixedTime, hookEgressTC)
	ids := func(node byte, egress ...byte) func([]byte) []byte {
		return func(f []byte) []byte {
			return set(atData+16, append([]byte{63, 0, 0, node, 0, 201}, egress...)...)(filled(f))
		}
	}
	// interface ids only, of one node, after room for two
	noID := func(f []byte) []byte {
		return set(atData+20, 0, 201, 0xff, 0xff)(set(atTrace+2, 8, 5, 0x40)(f))
	}
	for _, tt := range []struct {
		name     string
		p        *programs
		change   func([]byte) []byte
		complete int // offset of the egress id that is written; 0 = none
	}{
		{"own", both, ids(2, 0xff, 0xff), atData + 22},
		{"own, ending tunnels", ending, ids(2, 0xff, 0xff), atData + 22},
		{"own, of an earlier pass", ending, ids(2, 0, 203), 0},
		{"another node's", ending, ids(3, 0xff, 0xff), 0},
		{"no id in the type", both, noID, atData + 22},
		{"no id in the type, ending tunnels", ending, noID, 0},
		{"id not available", nameless, func(f []byte) []byte { return set(atData+17, 0xff, 0xff, 0xff)(ids(0xff, 0xff, 0xff)(f)) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			frame := tt.change(rightPacket())
			want, outcome := slices.Clone(frame), model.OutcomeUntouched
			if tt.complete > 0 {
				want, outcome = set(tt.complete, 0, 202)(want), model.OutcomeTraceFilled
			}
			egressed(t, tt.p, frame, want, outcome, false)
		})
	}
}
