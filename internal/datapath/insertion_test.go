// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/craft"
)

// inserting are the programs of a node that inserts an option at interface 2.
func inserting(t *testing.T, e model.Encapsulation) *programs {
	t.Helper()
	cfg := rightConfig()
	e.Name, e.Interface = "all", 2
	if e.Mode != model.ModeInline {
		e.TunnelSource, e.TunnelDestination = netip.MustParseAddr("2001:db8:aa::1"), netip.MustParseAddr("2001:db8:bb::1")
	}
	cfg.Encapsulations = []model.Encapsulation{e}
	return loadPrograms(t, cfg, 2, fixedTime, hookEgressTC)
}

// routing is a Segment Routing Header of one segment before UDP, and a datagram.
func routing(left byte) []byte {
	header := slices.Concat([]byte{craft.UDP, 2, 4, left, 0, 0, 0, 0}, addresses[2].AsSlice())
	return slices.Concat(header, craft.Datagram(4242, 9, []byte("waymark.")...))
}

// A tunnel would bypass the segments that a packet has left: mode auto inserts inline, and mode
// encap inserts nothing. After the last segment, both make a tunnel of what is forwarded.
func TestInsertionAndSegments(t *testing.T) {
	trace := model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24})
	for _, tt := range []struct {
		name    string
		mode    model.Mode
		left    byte
		outcome model.Outcome
	}{
		{"auto, one left", model.ModeAuto, 1, model.OutcomeEncapInserted},
		{"auto, none left", model.ModeAuto, 0, model.OutcomeEncapTunneled},
		{"encap, one left", model.ModeEncap, 1, model.OutcomeEncapSkippedSegments},
		{"encap, none left", model.ModeEncap, 0, model.OutcomeEncapTunneled},
		{"inline, one left", model.ModeInline, 1, model.OutcomeEncapInserted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, frame := inserting(t, model.Encapsulation{Mode: tt.mode, Options: trace}), frameOf(craft.Routing, routing(tt.left))
			before := p.snapshotCounters(t)
			_, out := run(t, p.tcOut, frame, 1)
			at := bpf.ABICounterCOUNTER_EGRESS + bpf.ABICounter(tt.outcome)
			if got := moved(before, p.snapshotCounters(t)); got[at] != 1 {
				t.Errorf("counters moved by %v, want %v", got, tt.outcome)
			}
			inline := tt.outcome == model.OutcomeEncapInserted
			if grown := len(out) > len(frame); grown != (tt.outcome != model.OutcomeEncapSkippedSegments) ||
				inline && !bytes.Equal(out[atIPv6+24:atHBH], frame[atIPv6+24:atHBH]) {
				t.Errorf("%x became\n%x", frame, out)
			}
		})
	}
}

// Options are inserted only where the domain's exit can remove them again.
func TestInsertionOfRemovableOptions(t *testing.T) {
	trace := model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24})
	edge := []model.InsertedOption{{EdgeToEdge: &model.EdgeToEdgeOption{Namespace: 123, Type: 0x4000}}}
	padding := craft.Options(craft.UDP, 0, []byte{0x1e, 4, 0, 0, 0, 0})
	followed := craft.Options(craft.HopByHop, 0, []byte{0x1e, 4, 0, 0, 0, 0})
	upper := craft.Datagram(4242, 9, []byte("waymark.")...)
	edgeOf := func(option ...byte) []byte { return craft.Options(craft.UDP, 2, option) }
	before := func(header []byte) []byte {
		return append(craft.Options(60, 0, []byte{0x1e, 4, 0, 0, 0, 0}), header...)
	}
	inline := inserting(t, model.Encapsulation{Mode: model.ModeInline, Options: trace})
	numbers := inserting(t, model.Encapsulation{Mode: model.ModeInline, Options: edge})
	tunnel := inserting(t, model.Encapsulation{Mode: model.ModeEncap, Options: trace})
	short, unaligned := edgeOf(0x11, 6, 0, 3, 3, 0xe7, 0x40, 0), edgeOf(0x1e, 0, 0x31, 4, 0, 3, 3, 0xe7)
	for name, tt := range map[string]struct {
		p       *programs
		next    byte
		headers []byte
		outcome model.Outcome // 0: options are inserted
	}{
		"a second Hop-by-Hop header":                           {inline, craft.HopByHop, append(slices.Clone(followed), padding...), model.OutcomeEncapSkippedUnremovable},
		"a second Hop-by-Hop header, edge to edge":             {numbers, craft.HopByHop, append(slices.Clone(followed), padding...), model.OutcomeEncapSkippedUnremovable},
		"Destination Options before a Hop-by-Hop header":       {numbers, 60, append(slices.Clone(followed), padding...), model.OutcomeEncapSkippedUnremovable},
		"the same, a trace":                                    {inline, 60, append(slices.Clone(followed), padding...), 0},
		"a short Edge-to-Edge option":                          {inline, 60, short, model.OutcomeEncapSkippedUnremovable},
		"a short Edge-to-Edge option after the header":         {inline, craft.HopByHop, before(short), model.OutcomeEncapSkippedUnremovable},
		"a short Edge-to-Edge option, edge to edge":            {numbers, 60, short, model.OutcomeEncapSkippedUnremovable},
		"IOAM in Destination Options that is not aligned":      {inline, 60, unaligned, model.OutcomeEncapSkippedUnremovable},
		"a sound Edge-to-Edge option":                          {inline, 60, edgeOf(0x11, 10, 0, 3, 3, 0xe7, 0x40, 0, 0, 0, 0, 7), 0},
		"a short Edge-to-Edge option, a tunnel":                {tunnel, 60, short, 0},
		"a second Hop-by-Hop header, a tunnel":                 {tunnel, craft.HopByHop, append(slices.Clone(followed), padding...), model.OutcomeEncapTunneled},
		"Destination Options of 512 bytes before which to add": {numbers, 60, craft.Options(craft.UDP, 0, skipped(500)), model.OutcomeEncapSkippedOptions},
		"a header of others too long to be taken apart":        {inline, craft.HopByHop, craft.Options(craft.UDP, 0, skipped(480)), model.OutcomeEncapSkippedOptions},
	} {
		t.Run(name, func(t *testing.T) {
			frame := frameOf(tt.next, tt.headers, upper)
			before := tt.p.snapshotCounters(t)
			_, out := run(t, tt.p.tcOut, frame, 1)
			if tt.outcome == 0 {
				if len(out) <= len(frame) {
					t.Errorf("nothing was inserted: counters moved by %v", moved(before, tt.p.snapshotCounters(t)))
				}
				return
			}
			at := bpf.ABICounterCOUNTER_EGRESS + bpf.ABICounter(tt.outcome)
			if got := moved(before, tt.p.snapshotCounters(t)); got[at] != 1 || tt.outcome != model.OutcomeEncapTunneled && !bytes.Equal(out, frame) {
				t.Errorf("counters moved by %v, want %v; %x became\n%x", got, tt.outcome, frame, out)
			}
		})
	}
}
