// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/hex"
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/reference"
)

// forwardingComparison compares one program of an interface that forwards fast with
// the reference node and a router.
type forwardingComparison struct {
	cfg     model.NodeConfig
	routing forward.Routing
	p       *programs
	program *ebpf.Program
	isXDP   bool
	wanted  int // records that have a reader, and were not made yet
	node    *reference.Node
	leaving *reference.Node // the egress of a node that forwards in one program
	always  *reference.Node // gives a packet's growth without counting the packet
	exports *expectedExports
	counted map[bpf.ABICounter]uint64 // what the counters of packets should have moved by

	room, seen int
	mayHaveSum bool // assume the worst for what a program cannot see
}

func newForwardingComparison(
	t *testing.T,
	cfg model.NodeConfig,
	routing forward.Routing,
	p *programs,
	program *ebpf.Program,
	wanted int,
) *forwardingComparison {
	t.Helper()
	node, err := reference.NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	node.TAIOffset = taiUTC.Nanoseconds()
	isXDP := program.Type() == ebpf.XDP
	c := &forwardingComparison{
		cfg: cfg, routing: routing, p: p, program: program, isXDP: isXDP, wanted: wanted, node: node,
		leaving: afterFill(
			t,
			cfg,
			longest(routing),
		), always: everyPacket(t, cfg), exports: newExpectedExports(cfg), counted: make(map[bpf.ABICounter]uint64),
		mayHaveSum: !isXDP && len(cfg.Encapsulations) > 0 && !readsQueues(t),
	}
	c.room, c.seen = headroom(t)
	p.wantNumber(t, wanted)
	p.forgetFlows(t)
	p.forgetProofs(t, cfg, node)
	p.forgetEdges(t)
	p.forgetProofs(t, cfg, c.leaving)
	return c
}

// compare runs both on a frame. It returns whether the packet should be redirected,
// and whether verdict, bytes and postcards are as they should be.
func (c *forwardingComparison) compare(t *testing.T, frame []byte) (forward, same bool) {
	t.Helper()
	in := reference.Frame{Data: frame, Interface: arrivalIndex, Time: fixedTime}
	after := c.node.Ingress(in)
	var removed []model.Postcard
	records, reported := 0, c.wanted == AllRecords
	for layer := &after; layer != nil; layer = layer.Outer {
		c.counted[bpf.ABICounterCOUNTER_INGRESS+bpf.ABICounter(layer.Outcome)]++
		if layer.Record != nil && c.wanted > 0 {
			takeWanted(&c.wanted, layer)
			records++
		}
		removed = append(slices.Clone(layer.Postcards), removed...)
	}
	after.Postcards = removed
	expected, forward := after.Data, !c.mayHaveSum && forwardable(c.cfg, c.routing, frame, after, c.isXDP)
	if forward {
		in.Data, in.Interface, in.Ingress = routed(after.Data), departureIndex, arrivalIndex
		// what an edge filters is for the egress hook, which packets meet after the stack, and in tc
		forward = !c.isXDP || in.Data[14+6] == 0 || !isHeld(c.node.Egress(in))
		inline := slices.ContainsFunc(c.cfg.Encapsulations, func(e model.Encapsulation) bool { return e.Mode != model.ModeEncap })
		if c.isXDP && inline && in.Data[14+6] == 60 {
			forward = false // only the egress hook reads it before it inserts
		}
	}
	if forward {
		if ip := after.Data[14:]; c.isXDP && ip[6] == 0 {
			forward = mostGrowth(c.cfg, ip) <= c.room
		} else if c.isXDP {
			growth := len(c.always.Egress(in).Data) - len(after.Data)
			forward = growth <= 0 || len(after.Data)-14+growth <= longest(c.routing) && growth <= c.room+c.seen*(len(frame)-len(after.Data))
		}
	}
	if forward {
		expected = in.Data
		if c.isXDP {
			in.Arrived = fixedTime
			left := c.leaving.Egress(in)
			expected = left.Data
			c.counted[bpf.ABICounterCOUNTER_FORWARD+bpf.ABICounter(left.Outcome)]++
			after.Postcards = append(after.Postcards, left.Postcards...)
		}
	}
	if !reported {
		after.Postcards = nil
	}
	c.p.hear()
	verdict, out := runOn(t, c.program, frame)
	got := c.p.readSamples(t)
	postcards, wantPostcards := got.postcards, c.exports.add(after.Postcards)
	c.exports.compareEnded(t, got.flows)
	want := map[bool]uint32{true: 4, false: 7}[c.isXDP] // XDP_REDIRECT, TC_ACT_REDIRECT
	if !forward && !c.isXDP {
		expected = tagBeside(frame, expected)
	}
	same = (verdict == want) == forward && bytes.Equal(out, expected) && samePostcards(postcards, wantPostcards) && len(got.records) == records
	if !same {
		t.Errorf(
			"frame\n%s\nthe program: verdict %d, %d records, postcards %+v\n%s\nthe reference: %v, forwarded %v, %d, %+v\n%s",
			hex.Dump(frame),
			int32(verdict),
			len(got.records),
			postcards,
			hex.Dump(out),
			after.Outcome,
			forward,
			records,
			wantPostcards,
			hex.Dump(expected),
		)
	}
	return forward, same
}

// compareCounters compares the packets that were counted at ingress, and at egress by
// the outcome there.
func (c *forwardingComparison) compareCounters(t *testing.T, before []uint64) {
	t.Helper()
	got := moved(before, c.p.snapshotCounters(t))
	maps.DeleteFunc(got, func(counter bpf.ABICounter, _ uint64) bool { return counter >= bpf.ABICounterCOUNTER_STACK })
	if !maps.Equal(got, c.counted) {
		t.Errorf("counters moved by %v, want %v", got, c.counted)
	}
}

// routed is a frame after a router's step.
func routed(frame []byte) []byte {
	frame = bytes.Clone(frame)
	copy(frame, neighbourAddress)
	copy(frame[6:], departureAddress)
	frame[14+7]--
	return frame
}

// afterFill is the egress of a node that forwards in one program: a packet from a
// tunnel has no header left, so a header that it sees was filled here.
func afterFill(t *testing.T, cfg model.NodeConfig, mtu int) *reference.Node {
	t.Helper()
	cfg.Interfaces = slices.Clone(cfg.Interfaces)
	cfg.Interfaces[1].MTU = mtu // of the path
	cfg.Decapsulations = nil
	node, err := reference.NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	node.TAIOffset = taiUTC.Nanoseconds()
	return node
}

// everyPacket is a node that encapsulates every matching packet.
func everyPacket(t *testing.T, cfg model.NodeConfig) *reference.Node {
	t.Helper()
	cfg.Encapsulations = slices.Clone(cfg.Encapsulations)
	for i := range cfg.Encapsulations {
		cfg.Encapsulations[i].Frequency, cfg.Encapsulations[i].Budget = model.Frequency{}, model.Budget{}
	}
	node, err := reference.NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// headroom returns the room that the facility leaves in front of a frame, without
// the kernel's own description of a redirected frame, and whether the programs
// see it: then the room that a removal frees counts, too. Otherwise they assume
// 192 bytes.
func headroom(t *testing.T) (room, seen int) {
	t.Helper()
	if !readsQueues(t) {
		return 192, 0
	}
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var frame *btf.Struct
	if err := spec.TypeByName("xdp_frame", &frame); err != nil {
		t.Fatal(err)
	}
	return 256 - int(frame.Size), 1
}

// isHeld reports whether an edge by which a packet leaves found something in it.
func isHeld(r reference.Result) bool {
	switch r.Outcome {
	case model.OutcomeBoundaryIgnored, model.OutcomeBoundaryStripped, model.OutcomeBoundaryStripPartial:
		return true
	}
	return r.Verdict == reference.Drop
}
