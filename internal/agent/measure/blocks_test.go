// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/test/e2e"
)

// Flows are added and removed at runtime, and their last block is shown.
func TestMeasuredFlowsChange(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, agenttest.BaseConfig+"measurement: {block: 100ms}\n")
	h.Start()
	red := config.Flow{
		Name:      "red",
		Direction: model.DirectionIn,
		Source:    netip.MustParseAddr("2001:db8::1"),
		Segments:  []netip.Addr{netip.MustParseAddr("fc00:2::e")},
	}
	if err := h.Client.AddFlow(ctx, red); err != nil {
		t.Fatal(err)
	}
	if flows := h.Datapath.Running().Node.Measurement.Flows; len(flows) != 1 || flows[0].Name != "red" {
		t.Errorf("%+v", flows)
	}
	e2e.Await(t, "a block", 5*time.Second, func() bool {
		list, err := h.Client.MeasuredFlows(ctx)
		if err != nil || len(list) != 1 || list[0].Flow.Name != "red" {
			t.Fatalf("%+v, %v", list, err)
		}
		b := list[0].Last
		return b != nil && b.Packets == agenttest.FlowPackets && b.Length == "100ms" && b.Start.UnixMilli() == int64(b.Number)*100
	})
	for want, err := range map[string]error{
		`flow "red" exists already`:         h.Client.AddFlow(ctx, red),
		`there is no flow "blue"`:           h.Client.RemoveFlow(ctx, "blue"),
		"is no source of forwarded packets": h.Client.AddFlow(ctx, config.Flow{Name: "x", Source: netip.MustParseAddr("ff02::1"), Segments: red.Segments}),
		"0 segments; list 1 to 16 SIDs":     h.Client.AddFlow(ctx, config.Flow{Name: "x", Source: red.Source}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := h.Client.RemoveFlow(ctx, "red"); err != nil {
		t.Fatal(err)
	}
	if flows := h.Datapath.Running().Node.Measurement.Flows; len(flows) != 0 {
		t.Errorf("%+v", flows)
	}
}

// After a time without an agent, the last two closed blocks are read: more are not kept.
func TestUnread(t *testing.T) {
	for _, tt := range []struct {
		name       string
		read, last uint64
		want       []uint64
	}{
		{"nothing new", 20, 20, nil},
		{"the next", 20, 21, []uint64{21}},
		{"two", 20, 22, []uint64{21, 22}},
		{"after a long time", 20, 40, []uint64{39, 40}},
		{"after the start", 0, 40, []uint64{39, 40}},
		{"longer blocks", 40, 20, []uint64{20}},
	} {
		if got := blocksToRead(tt.read, tt.last); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What is read late is answered, shown and compared as other blocks are, unless the counting
// began after it.
func TestLateBlocks(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	how := model.Measurement{Block: time.Second, Flows: []model.MeasuredFlow{{Name: "red", Points: make([]netip.AddrPort, 1)}}}
	if err := h.Datapath.Apply(datapath.Config{Node: model.NodeConfig{Measurement: how}}); err != nil {
		t.Fatal(err)
	}
	for since, want := range map[uint64]int{0: 2, 21: 1} {
		h.Datapath.CountedSince.Store(since)
		m := NewBlocks(h.d, nil, nil)
		m.read(20, true, how, 0)
		m.read(21, false, how, 0)
		if n := len(m.closed); n != want {
			t.Fatalf("counted since %d: %d blocks to compare, want %d", since, n, want)
		}
		known := want == 2
		if b := <-m.closed; b.readLate != known || known && (<-m.closed).readLate {
			t.Errorf("counted since %d: block %d, late %v", since, b.number, b.readLate)
		}
		q := questionOf(t, 20, time.Second, "red")
		if got, err := blocks.Decode(q.Value()); !m.answer(q) || err != nil || len(got.Entries) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		if got, err := blocks.Decode(q.Value()); err != nil || (got.Entries[0].State == blocks.Answered) != known {
			t.Errorf("counted since %d: %+v, %v", since, got, err)
		}
		if got, ok := m.before["red"]; ok != known || known && got.Block != 20 {
			t.Errorf("counted since %d: the block before is %+v", since, got)
		}
	}
}

func TestLastClosed(t *testing.T) {
	const length = time.Second
	for at, want := range map[time.Duration]uint64{0: 8, length/2 - 1: 8, length / 2: 9, length - 1: 9, length + length/2: 10} {
		block, wait := lastClosed(time.Unix(10, 0).Add(at), length)
		if block != want || wait <= 0 || wait > length+time.Millisecond {
			t.Errorf("%v after block 10 began: block %d, %v to wait", at, block, wait)
		}
	}
}
