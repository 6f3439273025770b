// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/edgetoedge"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// measuringEdges removes and measures the options of namespace 123.
func measuringEdges(c *model.NodeConfig) {
	c.Namespaces[0].Remove, c.Namespaces[0].EdgeToEdge = true, true
}

// edged is the valid packet with an Edge-to-Edge option of a type, and its fields, in a
// Destination Options header instead of the Hop-by-Hop header.
func edged(kind uint16, fields ...byte) func([]byte) []byte {
	return func([]byte) []byte {
		option := binary.BigEndian.AppendUint16([]byte{0x11, byte(6 + len(fields)), 0, 3, 0, 123}, kind)
		return frameOf(60, craft.Options(craft.UDP, 2, append(option, fields...)), craft.Datagram(4242, 9, []byte("waymark.")...))
	}
}

// unedged is the packet without that header.
func unedged([]byte) []byte {
	return frameOf(craft.UDP, craft.Datagram(4242, 9, []byte("waymark.")...))
}

// edgeBetween is a packet with options of two namespaces in a Destination Options header,
// behind an option of three octets, and before one that is aligned to 8n+1.
func edgeBetween(first, second byte) func([]byte) []byte {
	return func([]byte) []byte {
		header := []byte{17, 5, 0x1e, 1, 9, 0, 1, 0}
		for _, namespace := range []byte{first, second} {
			header = append(header, 0x11, 10, 0, 3, 0, namespace, 0x40, 0, 0, 0, 0, 7)
		}
		header = append(header, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0x3e, 4, 1, 2, 3, 4, 0)
		return frameOf(60, header, craft.Datagram(4242, 9, []byte("waymark.")...))
	}
}

// edgeLeft is the packet with what is left of its Destination Options header.
func edgeLeft(header ...byte) func([]byte) []byte {
	return func([]byte) []byte {
		return frameOf(60, header, craft.Datagram(4242, 9, []byte("waymark.")...))
	}
}

// edgeAfter is a packet with options in its Hop-by-Hop header, and an Edge-to-Edge option of
// namespace 123 before others in the Destination Options header after it.
func edgeAfter(first []byte, others ...byte) func([]byte) []byte {
	return func([]byte) []byte {
		edge := []byte{0x11, 10, 0, 3, 0, 123, 0x40, 0, 0, 0, 0, 7}
		return frameOf(0, craft.Options(60, 0, first), craft.Options(craft.UDP, 2, edge, others), craft.Datagram(4242, 9, []byte("waymark.")...))
	}
}

// skipped are n octets of options that nodes skip.
func skipped(n int) (options []byte) {
	for ; n > 0; n -= min(n, 200) {
		options = append(append(options, 0x1e, byte(min(n, 200)-2)), bytes.Repeat([]byte{7}, min(n, 200)-2)...)
	}
	return options
}

// edgeAfterLeft is the packet with what is left of its headers.
func edgeAfterLeft(headers ...byte) func([]byte) []byte {
	return func([]byte) []byte {
		return frameOf(0, headers, craft.Datagram(4242, 9, []byte("waymark.")...))
	}
}

// edgeMutations are changes of a packet with an Edge-to-Edge option.
var edgeMutations = []mutation{
	{name: "edge to edge, measured and removed", config: measuringEdges, change: edged(0x4000, 0, 0, 0, 7), outcome: model.OutcomeInlineRemoved, also: model.OutcomeE2EMeasured, want: unedged},
	{name: "edge to edge, wide number and time", config: measuringEdges, change: edged(0xb000, make([]byte, 16)...), outcome: model.OutcomeInlineRemoved, also: model.OutcomeE2EMeasured, want: unedged},
	{name: "edge to edge, removed, not measured", config: func(c *model.NodeConfig) { c.Namespaces[0].Remove = true }, change: edged(0x4000, 0, 0, 0, 7),
		outcome: model.OutcomeInlineRemoved, also: model.OutcomeOptionUnsupported, want: unedged},
	{name: "edge to edge that stays", change: edged(0x4000, 0, 0, 0, 7), outcome: model.OutcomeNoIOAM},
	{name: "edge to edge, undefined bits", config: measuringEdges, change: edged(0x4001, 0, 0, 0, 7), outcome: model.OutcomeInlineRemoved, also: model.OutcomeE2EMeasured, want: unedged},
	{name: "edge to edge, two numbers", config: measuringEdges, change: edged(0xc000, make([]byte, 12)...), outcome: model.OutcomeMalformedSequences},
	{name: "edge to edge, too short for its number", config: measuringEdges, change: edged(0x8000, 0, 0, 0, 7), outcome: model.OutcomeMalformedOptionLength},
	{name: "edge to edge, not aligned", config: measuringEdges, change: then(edged(0x4000, 0, 0, 0, 7), set(atHBH+2, 0, 0x31, 10, 0, 3)), outcome: model.OutcomeMalformedAlignment},
	{name: "edge to edge, an option beyond the header after it", config: measuringEdges, change: then(edged(0x3000, make([]byte, 8)...), set(atHBH+20, 5, 3)), outcome: model.OutcomeMalformedHeader},
	{name: "edge to edge, another option beside it", config: measuringEdges, change: then(edged(0x3000, make([]byte, 12)...), set(atOption+1, 14), set(atHBH+20, 0x1e, 2)), outcome: model.OutcomeOptionsRemoved, also: model.OutcomeE2EMeasured,
		want: edgeLeft(17, 0, 1, 0, 0x1e, 2, 0, 0)},
	{name: "edge to edge, before one that stays", config: measuringEdges, change: edgeBetween(123, 124), outcome: model.OutcomeOptionsRemoved, also: model.OutcomeE2EMeasured,
		want: edgeLeft(17, 3, 0x1e, 1, 9, 1, 5, 0, 0, 0, 0, 0, 0x11, 10, 0, 3, 0, 124, 0x40, 0, 0, 0, 0, 7, 0, 0x3e, 4, 1, 2, 3, 4, 0)},
	{name: "edge to edge, behind one that stays", config: measuringEdges, change: edgeBetween(124, 123), outcome: model.OutcomeOptionsRemoved, also: model.OutcomeE2EMeasured,
		want: edgeLeft(17, 3, 0x1e, 1, 9, 1, 1, 0, 0x11, 10, 0, 3, 0, 124, 0x40, 0, 0, 0, 0, 7, 1, 3, 0, 0, 0, 0x3e, 4, 1, 2, 3, 4, 0)},
	{name: "edge to edge, one that stays, an unknown length", config: measuringEdges, change: then(edgeBetween(123, 124), set(atLength, 0, 0)), outcome: model.OutcomeRemovalPartial},
	{name: "edge to edge, alone after other options", config: measuringEdges, change: edgeAfter([]byte{0x1e, 4, 1, 2, 3, 4}), outcome: model.OutcomeOptionsRemoved, also: model.OutcomeE2EMeasured,
		want: edgeAfterLeft(17, 0, 0x1e, 4, 1, 2, 3, 4)},
	{name: "edge to edge, alone after much padding", config: measuringEdges, change: edgeAfter(make([]byte, 14)), outcome: model.OutcomeOptionsRemoved, also: model.OutcomeE2EMeasured,
		want: edgeAfterLeft(17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)},
	{name: "edge to edge, before others, after other options", config: measuringEdges, change: edgeAfter([]byte{0x1e, 4, 1, 2, 3, 4}, 0x1e, 2, 5, 6), outcome: model.OutcomeOptionsRemoved, also: model.OutcomeE2EMeasured,
		want: edgeAfterLeft(60, 0, 0x1e, 4, 1, 2, 3, 4, 17, 1, 1, 4, 0, 0, 0, 0, 0x1e, 2, 5, 6, 1, 2, 0, 0)},
	{name: "edge to edge, after 496 bytes of others", config: measuringEdges, change: edgeAfter(skipped(494)), outcome: model.OutcomeOptionsRemoved, also: model.OutcomeE2EMeasured,
		want: edgeAfterLeft(append([]byte{17, 61}, skipped(494)...)...)},
	{name: "edge to edge, after 504 bytes of others", config: measuringEdges, change: edgeAfter(skipped(502)), outcome: model.OutcomeRemovalPartial},
	{name: "edge to edge, after other options, an unknown length", config: measuringEdges, change: then(edgeAfter([]byte{0x1e, 4, 1, 2, 3, 4}), set(atLength, 0, 0)), outcome: model.OutcomeRemovalPartial},
	{name: "no IOAM, an option beyond the header", config: measuringEdges, change: then(edged(0x4000, 0, 0, 0, 7), set(atOption, 5, 99)), outcome: model.OutcomeNoIOAM},
}

// edgePair is an encapsulating node and the programs of the decapsulating one.
type edgePair struct {
	first, last *programs
}

// pairOf loads both; they use a tunnel, or insert inline, and a trace besides where wanted.
func pairOf(t testing.TB, kind ioam.EdgeToEdgeType, tunnel, trace bool) edgePair {
	t.Helper()
	cfg := rightConfig()
	e := model.Encapsulation{Name: "a", Interface: 1, Mode: model.ModeInline,
		Options: []model.InsertedOption{{EdgeToEdge: &model.EdgeToEdgeOption{Namespace: 123, Type: kind}}}}
	end := rightConfig()
	measuringEdges(&end)
	if tunnel {
		e.Mode, e.TunnelSource, e.TunnelDestination = model.ModeEncap, netip.MustParseAddr(
			"2001:db8:aa::1",
		), netip.MustParseAddr(
			"2001:db8:bb::1",
		)
		end.Decapsulations = []model.Decapsulation{{TunnelDestination: e.TunnelDestination}}
	}
	if trace {
		e.Options = append(e.Options, model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 12})...)
	}
	cfg.Encapsulations = []model.Encapsulation{e}
	return edgePair{
		first: loadPrograms(t, cfg, 1, fixedTime, hookEgressTC),
		last:  loadPrograms(t, end, 1, fixedTime+int64(3*time.Millisecond), hookIngressXDP, hookIngressTC),
	}
}

func (p edgePair) flows(t testing.TB) map[edgetoedge.Key]edgetoedge.Totals {
	t.Helper()
	all := make(map[edgetoedge.Key]edgetoedge.Totals)
	if _, err := flows.ReadEdges(p.last.maps[bpf.MapE2EFlows], 0, func(f flows.EdgeFlow) { all[f.Key] = f.Totals }); err != nil {
		t.Fatal(err)
	}
	return all
}

// optionsPacket is a packet with options of others in a Hop-by-Hop header, and in a Destination
// Options header after it, if wanted.
func optionsPacket(destination bool) func(label uint32) []byte {
	return func(label uint32) []byte {
		next, behind := byte(craft.UDP), []byte(nil)
		if destination {
			next, behind = 60, craft.Options(craft.UDP, 0, []byte{0x3e, 1, 3, 0x3e, 1, 4})
		}
		return labelled(
			label,
			frameOf(0, craft.Options(next, 0, []byte{0x1e, 4, 1, 2, 3, 4}), behind, craft.Datagram(4242, 9, []byte("waymark.")...)),
		)
	}
}

// TestEdgeToEdgeOfPath numbers the packets of two flows, loses, doubles and delays some, and
// compares what the last node has measured with what was done.
func TestEdgeToEdgeOfPath(t *testing.T) {
	onOneCPU(t)
	for _, c := range []struct {
		name          string
		kind          ioam.EdgeToEdgeType
		tunnel, trace bool
		packet        func(label uint32) []byte
	}{
		{"inline, 32 bits", 0x4000, false, false, plainPacket}, {"tunnel, 64 bits and time", 0xb000, true, false, plainPacket},
		{"inline behind a trace, 32 bits and time", 0x7000, false, true, plainPacket}, {"tunnel behind a trace, 64 bits", 0x8000, true, true, plainPacket},
		{"after other options, 32 bits", 0x4000, false, false, optionsPacket(false)}, {"between other options, 64 bits and time", 0xb000, false, false, optionsPacket(true)},
		{"after other options and a trace, 32 bits and time", 0x7000, false, true, optionsPacket(false)}, {"between other options, after a trace, 64 bits", 0x8000, false, true, optionsPacket(true)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pairOf(t, c.kind, c.tunnel, c.trace)
			for _, program := range []*ebpf.Program{p.last.xdp, p.last.tcIn} {
				p.first.forgetEdges(t)
				p.last.forgetEdges(t)
				const packets = 100
				var sent [2][][]byte
				for range packets {
					for flow := range sent {
						_, frame := run(t, p.first.tcOut, c.packet(uint32(7+flow)), 0)
						sent[flow] = append(sent[flow], frame)
					}
				}
				for flow, frames := range sent {
					arriving := slices.Delete(slices.Clone(frames), 40, 43) // lost
					arriving = slices.Insert(arriving, 60, arriving[50], arriving[10])
					last := len(arriving) - 1
					arriving[last-5], arriving[last-4] = arriving[last-4], arriving[last-5]
					for _, frame := range arriving {
						if _, out := run(t, program, frame, 0); !bytes.Equal(out, c.packet(uint32(7+flow))) {
							t.Fatalf("%v: went on as %x", program.Type(), out)
						}
					}
				}
				got := p.flows(t)
				if len(got) != len(sent) {
					t.Fatalf("%v: %d flows: %+v", program.Type(), len(got), got)
				}
				want := edgetoedge.Totals{Packets: packets - 3 + 2, Expected: packets, Unique: packets - 3, Duplicates: 2, Reordered: 1}
				if c.kind.Has(ioam.EdgeToEdgeTimestampSeconds) {
					want.Delays, want.DelayMin, want.DelayMax = want.Packets, 3*time.Millisecond, 3*time.Millisecond
					want.DelaySum = 3 * time.Millisecond * time.Duration(want.Packets)
				}
				for key, totals := range got {
					rounded := totals.DelayMin - want.DelayMin // fixedTime has no whole microseconds
					totals.DelaySum -= rounded * time.Duration(totals.Delays)
					totals.DelayMin, totals.DelayMax = totals.DelayMin-rounded, totals.DelayMax-rounded
					if totals != want || rounded < 0 || rounded >= time.Microsecond || (key.Tunnel != 0) != c.tunnel || key.Type != c.kind {
						t.Errorf("%v: %+v: %+v (rounded by %v), want %+v", program.Type(), key, totals, rounded, want)
					}
				}
			}
		})
	}
}

// TestEdgesOfOffloadedPackets: the segments of one would have the same number.
func TestEdgesOfOffloadedPackets(t *testing.T) {
	p := pairOf(t, 0x4000, false, false).first
	frame := plainPacket(7)
	before := p.snapshotCounters(t)
	if _, err := p.tcOut.Run(&ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64),
		Context: &skb{GSOSize: 1000, GSOSegs: 3}}); err != nil {
		t.Fatal(err)
	}
	if got := moved(before, p.snapshotCounters(t)); got[bpf.ABICounterCOUNTER_EGRESS+bpf.ABICounter(model.OutcomeEncapSkippedGSO)] != 1 {
		t.Errorf("counted %v", got)
	}
}

// TestEdgesOnAllCPUs numbers and measures on every CPU at once: no number is given twice,
// and every packet is counted once.
func TestEdgesOnAllCPUs(t *testing.T) {
	cpus := onOneCPU(t)
	p := pairOf(t, 0x7000, true, false)
	// CPUs wait for each other before numbers are a window apart, lest one that stood still
	// comes late
	const rounds = 5
	each := (int(bpf.ABIE2eBoundE2E_GROUPS-1) << bpf.ABIE2eBoundE2E_GROUP_BITS) / len(cpus)
	for range rounds {
		var group sync.WaitGroup
		for i, cpu := range cpus {
			group.Go(func() {
				if !stayOn(t, cpu) {
					return
				}
				program := []*ebpf.Program{p.last.xdp, p.last.tcIn}[i%2]
				for range each {
					_, frame := run(t, p.first.tcOut, plainPacket(7), 0)
					run(t, program, frame, 0)
				}
			})
		}
		group.Wait()
	}
	n := uint64(rounds * each * len(cpus))
	for _, totals := range p.flows(t) {
		if totals.Packets != n || totals.Unique != n || totals.Expected != n || totals.Duplicates != 0 || totals.Late != 0 || totals.Delays != n {
			t.Errorf("%d packets: %+v", n, totals)
		}
	}
	if list := len(p.flows(t)); list != 1 {
		t.Errorf("%d flows", list)
	}
}

// TestEdgesEvicted sends more flows than a table holds: the least recently used leave, are
// counted, and begin again without a loss.
func TestEdgesEvicted(t *testing.T) {
	onOneCPU(t)
	p := pairOf(t, 0x4000, false, false)
	before, beforeLast := p.first.snapshotCounters(t), p.last.snapshotCounters(t)
	list := uint32(bpf.ABIE2eBoundE2E_NUMBER_SETS) * uint32(bpf.ABIE2eBoundE2E_WAYS) * 3 / 2
	for label := range list {
		for range 2 {
			_, frame := run(t, p.first.tcOut, plainPacket(label), 0)
			run(t, p.last.xdp, frame, 0)
		}
	}
	evicted := moved(before, p.first.snapshotCounters(t))[bpf.ABICounterCOUNTER_E2E_NUMBERS_EVICTED]
	if evicted < uint64(list)/3 || evicted > uint64(list)*2/5 { // 37% if the hash is as good as chance
		t.Errorf("%d of %d flows gave way to others", evicted, list)
	}
	held := p.flows(t)
	gone := moved(beforeLast, p.last.snapshotCounters(t))[bpf.ABICounterCOUNTER_E2E_FLOWS_EVICTED]
	if uint64(len(held))+gone != uint64(list) {
		t.Errorf("%d flows are measured and %d gave way to others, of %d", len(held), gone, list)
	}
	for key, totals := range held {
		if totals != (edgetoedge.Totals{Packets: 2, Expected: 2, Unique: 2}) {
			t.Fatalf("%+v: %+v", key, totals)
		}
	}
}

// TestEdgesLeft evicts flows in the interval in which they were counted, before it is read and
// after: each packet is in one flow's interval, or in what is left, once.
func TestEdgesLeft(t *testing.T) {
	onOneCPU(t)
	p := pairOf(t, 0x4000, false, false)
	table, clock := p.last.maps[bpf.MapE2EFlows], p.last.maps[bpf.MapE2EClock]
	list := uint32(bpf.ABIE2eBoundE2E_FLOW_SETS) * uint32(bpf.ABIE2eBoundE2E_WAYS)
	send := func(from, to uint32) {
		for label := from; label < to; label++ {
			for range 2 { // and the second one again
				_, frame := run(t, p.first.tcOut, plainPacket(label), 0)
				run(t, p.last.xdp, frame, 0)
				run(t, p.last.xdp, frame, 0)
			}
		}
	}
	begin := func(epoch uint32) {
		t.Helper()
		var c bpf.ABIE2eClock
		if err := clock.Lookup(uint32(0), &c); err != nil {
			t.Fatal(err)
		}
		c.Epoch = epoch
		if err := clock.Put(uint32(0), c); err != nil {
			t.Fatal(err)
		}
	}
	check := func(epoch uint32, sent uint32) (left edgetoedge.Totals) {
		t.Helper()
		var sum edgetoedge.Totals
		left, err := flows.ReadEdges(table, epoch, func(f flows.EdgeFlow) {
			sum.Packets, sum.Expected, sum.Unique, sum.Duplicates = sum.Packets+f.Packets, sum.Expected+f.Expected, sum.Unique+f.Unique,
				sum.Duplicates+f.Duplicates
		})
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(sent)
		want := edgetoedge.Totals{Packets: 4 * n, Expected: 2 * n, Unique: 2 * n, Duplicates: 2 * n}
		if sum.Packets += left.Packets; sum.Packets != want.Packets || sum.Expected+left.Expected != want.Expected ||
			sum.Unique+left.Unique != want.Unique ||
			sum.Duplicates+left.Duplicates != want.Duplicates {
			t.Errorf("interval %d: %+v, of these left %+v; want %+v", epoch, sum, left, want)
		}
		return left
	}
	send(0, list) // 63% of them fit if the hash is as good as chance
	begin(1)
	if left := check(0, list); left.Packets == 0 {
		t.Error("no flow has left")
	}
	send(list, 3*list/2) // flows leave that were read
	begin(2)
	send(3*list/2, 2*list) // and some that were not
	if left := check(1, list/2); left.Packets == 0 {
		t.Error("no flow of the interval before has left")
	}
	begin(3)
	check(2, list/2)
	begin(4)
	if left := check(3, 0); left != (edgetoedge.Totals{}) {
		t.Errorf("an interval without packets: %+v", left)
	}
	// Flows of the interval before leave, and after them others, with counts of older intervals.
	p.first.forgetEdges(t)
	p.last.forgetEdges(t)
	send(0, list/4)
	begin(6)
	send(list/4, list/2)
	begin(7)
	send(0, list/4)
	send(list/2, 3*list/2)
	if left := check(6, list/4); left.Packets == 0 {
		t.Error("no flow of the interval before has left")
	}
}

// TestEdgesBeginAgain sends packets of flows that have left the first node's table; the last
// node still has them, and calls nothing lost or duplicated.
func TestEdgesBeginAgain(t *testing.T) {
	onOneCPU(t)
	p := pairOf(t, 0x4000, false, false)
	send := func(label uint32, packets int) {
		for range packets {
			_, frame := run(t, p.first.tcOut, plainPacket(label), 0)
			run(t, p.last.xdp, frame, 0)
		}
	}
	wants := map[uint32]edgetoedge.Totals{
		1: {Packets: 3010, Expected: 3010, Unique: 3010, Late: 1, Restarts: 1},
		2: {Packets: 60, Expected: 60, Unique: 60, Duplicates: 1, Restarts: 1}, // within the window
	}
	send(1, 3000)
	send(2, 50)
	p.first.forgetEdges(t)
	send(1, 10)
	send(2, 10)
	list := p.flows(t)
	for key, totals := range list {
		if want := wants[key.FlowLabel]; totals != want {
			t.Errorf("flow %d: %+v, want %+v", key.FlowLabel, totals, want)
		}
	}
	if len(list) != len(wants) {
		t.Errorf("%d flows", len(list))
	}
}

// TestEdgesKeyed reads the keys of the tables' hash: they are as random as they are large,
// and stay.
func TestEdgesKeyed(t *testing.T) {
	keys := func(p *programs) (c bpf.ABIE2eClock) {
		if err := p.maps[bpf.MapE2EClock].Lookup(uint32(0), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	p := pairOf(t, 0x4000, false, false)
	first, last := keys(p.first), keys(p.last)
	seen := map[uint64]bool{0: true}
	for _, k := range slices.Concat(first.Keys[:], last.Keys[:]) {
		if seen[k] {
			t.Errorf("key %#x is not random", k)
		}
		seen[k] = true
	}
	if err := flows.KeyEdges(p.first.maps[bpf.MapE2EClock]); err != nil || keys(p.first) != first {
		t.Errorf("the keys changed: %v", err)
	}
}
