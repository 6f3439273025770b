// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/e2e"
)

// Flows are added and removed at runtime, and their last block is shown.
func TestMeasuredFlowsChange(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, baseConfig+"measurement: {block: 100ms}\n")
	h.start()
	red := config.Flow{Name: "red", Direction: model.DirectionIn, Source: mustAddr("2001:db8::1"), Segments: []netip.Addr{mustAddr("fc00:2::e")}}
	if err := h.client.AddFlow(ctx, red); err != nil {
		t.Fatal(err)
	}
	if flows := h.datapath.running().Node.Measurement.Flows; len(flows) != 1 || flows[0].Name != "red" {
		t.Errorf("%+v", flows)
	}
	e2e.Await(t, "a block", 5*time.Second, func() bool {
		list, err := h.client.MeasuredFlows(ctx)
		if err != nil || len(list) != 1 || list[0].Flow.Name != "red" {
			t.Fatalf("%+v, %v", list, err)
		}
		b := list[0].Last
		return b != nil && b.Packets == flowPackets && b.Length == "100ms" && b.Start.UnixMilli() == int64(b.Number)*100
	})
	for want, err := range map[string]error{
		`flow "red" exists already`:         h.client.AddFlow(ctx, red),
		`there is no flow "blue"`:           h.client.RemoveFlow(ctx, "blue"),
		"is no source of forwarded packets": h.client.AddFlow(ctx, config.Flow{Name: "x", Source: mustAddr("ff02::1"), Segments: red.Segments}),
		"0 segments; list 1 to 16 SIDs":     h.client.AddFlow(ctx, config.Flow{Name: "x", Source: red.Source}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := h.client.RemoveFlow(ctx, "red"); err != nil {
		t.Fatal(err)
	}
	if flows := h.datapath.running().Node.Measurement.Flows; len(flows) != 0 {
		t.Errorf("%+v", flows)
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
