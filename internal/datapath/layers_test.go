// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/testnet"
)

// traced is a Hop-by-Hop header with a trace of node ids and room for one node.
func traced(next, namespace byte) []byte {
	return craft.Options(next, 2, []byte{0x31, 14, 0, 0, 0, namespace, 0x08, 1, 0x80, 0, 0, 0, 0, 0, 0, 0})
}

// around puts packets into tunnels to an address, each with a trace of namespace 123.
func around(packet []byte, tunnels int) []byte {
	for range tunnels {
		header := craft.IPv6{Next: craft.HopByHop, HopLimit: 64, Source: addresses[0], Destination: addresses[1]}
		packet = header.With(traced(craft.IPv6InIPv6, 123), packet)
	}
	return craft.Ethernet(bytes.Repeat([]byte{2}, 6), bytes.Repeat([]byte{2}, 6), packet)
}

// TestLayers: the headers of a packet that was in a tunnel are treated as those of a packet that
// arrives: tunnels that end here, too, are removed, and inline options removed or filled.
func TestLayers(t *testing.T) {
	testnet.NeedRoot(t)
	cfg := rightConfig()
	decapsulating(&cfg)
	p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP, hookIngressTC)
	datagram := craft.Datagram(4242, 9, []byte("waymark.")...)
	inner := craft.IPv6{Next: craft.HopByHop, HopLimit: 64, Source: addresses[2], Destination: addresses[0]}
	filled, plain := inner.With(traced(craft.UDP, 123), datagram), inner
	plain.Next = craft.UDP
	written := slices.Clone(filled)
	copy(written[40+4+7:], []byte{0})
	copy(written[40+4+12:], []byte{63, 0, 0, 2})
	for _, tt := range []struct {
		name         string
		packet, want []byte
		outcomes     map[model.Outcome]uint64
		records      int
	}{
		{"an inline trace to be removed", around(inner.With(traced(craft.UDP, 7), datagram), 1), around(plain.With(datagram), 0),
			map[model.Outcome]uint64{model.OutcomeTunnelDecapsulated: 1, model.OutcomeInlineRemoved: 1}, 2},
		{"an inline trace to be filled", around(filled, 1), around(written, 0),
			map[model.Outcome]uint64{model.OutcomeTunnelDecapsulated: 1, model.OutcomeTraceFilled: 1}, 1},
		{"a tunnel in a tunnel", around(plain.With(datagram), 2), around(plain.With(datagram), 0),
			map[model.Outcome]uint64{model.OutcomeTunnelDecapsulated: 2}, 2},
		{"four tunnels", around(plain.With(datagram), 4), around(plain.With(datagram), 0),
			map[model.Outcome]uint64{model.OutcomeTunnelDecapsulated: 4}, 4},
		{"five tunnels: the stack gets the last", around(plain.With(datagram), 5), around(plain.With(datagram), 1),
			map[model.Outcome]uint64{model.OutcomeTunnelDecapsulated: 4}, 4},
	} {
		for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
			before := p.snapshotCounters(t)
			verdict, out := run(t, program, tt.packet, 0)
			if dropped(program, verdict) || !bytes.Equal(out, tt.want) {
				t.Errorf("%s, %v: verdict %d\n%x, want\n%x", tt.name, program.Type(), int32(verdict), out, tt.want)
			}
			want := map[bpf.ABICounter]uint64{bpf.ABICounterCOUNTER_RECORDS_WRITTEN: uint64(tt.records)}
			for o, n := range tt.outcomes {
				want[bpf.ABICounterCOUNTER_INGRESS+bpf.ABICounter(o)] = n
			}
			got := moved(before, p.snapshotCounters(t))
			maps.DeleteFunc(got, func(c bpf.ABICounter, _ uint64) bool {
				return c >= bpf.ABICounterCOUNTER_INGRESS_OPTIONS && c < bpf.ABICounterCOUNTER_EGRESS_OPTIONS
			})
			if !maps.Equal(got, want) {
				t.Errorf("%s, %v: counters moved by %v, want %v", tt.name, program.Type(), got, want)
			}
			if records := p.readRecords(t); len(records) != tt.records {
				t.Errorf("%s, %v: %d records, want %d", tt.name, program.Type(), len(records), tt.records)
			}
		}
	}
}
