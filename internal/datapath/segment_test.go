// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"maps"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/test/craft"
)

// TestSegmentPathMTU checks large TCP packets against a tunnel's path MTU. The
// program-run facility gives them a segment size but not the kind of segment, so
// that the kernel refuses to grow those that may grow.
func TestSegmentPathMTU(t *testing.T) {
	const pathMTU, tcpAt = 1400, 40
	cfg := rightConfig()
	cfg.Encapsulations = []model.Encapsulation{{
		Name: "core", Interface: 1, Mode: model.ModeEncap, PathMTU: pathMTU,
		TunnelSource: addresses[0], TunnelDestination: addresses[3],
		Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24}),
	}}
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	node, err := reference.NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name      string
		headerLen int // of the TCP header
		length    int // TCP header and payload
		segment   uint32
		outcome   model.Outcome
	}{
		{"up to it", 32, 3000, pathMTU - tcpAt - 32, model.OutcomeEncapSkippedGSO},
		{"beyond it", 32, 3000, pathMTU - tcpAt - 31, model.OutcomeEncapSkippedMTU},
		{"beyond it by options", 36, 3000, pathMTU - tcpAt - 32, model.OutcomeEncapSkippedMTU},
		{"header beyond the packet, up to it", 20, 12, pathMTU - tcpAt - 60, model.OutcomeEncapSkippedGSO},
		{"header beyond the packet, beyond it", 20, 12, pathMTU - tcpAt - 59, model.OutcomeEncapSkippedMTU},
		{"too small to be cut smaller", 20, 3000, 160, model.OutcomeEncapSkippedGSO},
	} {
		segment := craft.Segment(0, 0, 0, make([]byte, test.length)...)[:test.length]
		if len(segment) > 12 {
			segment[12] = byte(test.headerLen / 4 << 4)
		}
		frame := frameOf(craft.TCP, segment)

		before := p.snapshotCounters(t)
		_, err := p.tcOut.Run(&ebpf.RunOptions{
			Data: frame, DataOut: make([]byte, len(frame)+1024),
			Context: &skb{IngressIfindex: 2, GSOSize: test.segment, GSOSegs: 2},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := map[bpf.ABICounter]uint64{bpf.ABICounterCOUNTER_EGRESS + bpf.ABICounter(test.outcome): 1}
		if got := moved(before, p.snapshotCounters(t)); !maps.Equal(got, want) {
			t.Errorf("%s: counters moved by %v, want %v", test.name, got, want)
		}
		expected := node.Egress(
			reference.Frame{Data: frame, Interface: 1, Ingress: 2, Time: fixedTime, GSOSize: test.segment, GSOSegments: 2},
		).Outcome
		if test.outcome == model.OutcomeEncapSkippedMTU != (expected == model.OutcomeEncapSkippedMTU) {
			t.Errorf("%s: the reference node says %v", test.name, expected)
		}
	}
}
