// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// TestFlowEviction has more flows than the table holds. With credit, an evicted
// flow is reported; without credit, packets that find no place are counted as
// suppressed.
func TestFlowEviction(t *testing.T) {
	onOneCPU(t)
	for _, test := range []struct {
		name   string
		credit int64
	}{{"credit", 1 << 40}, {"no credit", 0}} {
		t.Run(test.name, func(t *testing.T) {
			cfg := exportingConfig(model.ExportAggregate)
			cfg.FlowEntries, cfg.ExportLimit = 4, 1000
			p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
			p.setCredit(t, test.credit)
			before := p.snapshotCounters(t)
			const number, rounds = 9, 20
			for range rounds {
				for flow := range number {
					run(t, p.tcOut, plainPacket(uint32(flow)), 0)
				}
			}
			reported := p.readSamples(t).flows
			evicted := len(reported)
			if err := p.flows.Collect(func(f flows.Flow) { reported = append(reported, f) }); err != nil {
				t.Fatal(err)
			}
			sum := uint64(0)
			for _, f := range reported {
				sum += f.Packets
			}
			got := moved(before, p.snapshotCounters(t))
			suppressed := got[bpf.ABICounterCOUNTER_POSTCARDS_SUPPRESSED]
			if sum+suppressed != number*rounds || got[bpf.ABICounterCOUNTER_FLOWS_EVICTED] != uint64(evicted) {
				t.Errorf(
					"%d packets reported and %d suppressed of %d; %d flows came through the ring, %v",
					sum,
					suppressed,
					number*rounds,
					evicted,
					got,
				)
			}
			if test.credit > 0 && (suppressed > 0 || evicted == 0) || test.credit == 0 && (suppressed == 0 || evicted > 0) {
				t.Errorf("%d suppressed, %d evicted", suppressed, evicted)
			}
		})
	}
}

// TestFlowsAreToldOnce collects interval after interval: each packet is in one,
// an interval without packets reports nothing, and a flow that was reported is
// evicted without another report.
func TestFlowsAreToldOnce(t *testing.T) {
	onOneCPU(t)
	cfg := exportingConfig(model.ExportAggregate)
	cfg.FlowEntries = 4
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	collect := func() (list []flows.Flow) {
		t.Helper()
		if err := p.flows.Collect(func(f flows.Flow) { list = append(list, f) }); err != nil {
			t.Fatal(err)
		}
		return list
	}
	for interval := range 5 {
		for range interval {
			run(t, p.tcOut, plainPacket(1), 0)
		}
		list := collect()
		if interval == 0 && len(list) > 0 || interval > 0 && (len(list) != 1 || list[0].Packets != uint64(interval) || list[0].Skipped > 0) {
			t.Fatalf("interval %d: %+v", interval, list)
		}
	}
	for flow := range uint32(8) {
		run(t, p.tcOut, plainPacket(10+flow), 0)
		if flow%4 == 3 {
			if list := collect(); len(list) != 4 {
				t.Fatalf("%+v", list)
			}
		}
	}
	if list := p.readSamples(t).flows; len(list) > 0 {
		t.Errorf("reported flows were reported again: %+v", list)
	}
}

// exportedTCP is a packet with a Direct Export and a TCP header that claims a
// number of 4-octet words. It has five.
func exportedTCP(t *testing.T, words, flags byte, payload int) []byte {
	t.Helper()
	segment := craft.Segment(0, 0, flags, make([]byte, payload)...)
	segment[12] = words << 4
	return carrying(t, ioam.DirectExport{Namespace: 123, Type: 0xc00000}, craft.TCP, segment)
}

// TestFlowCountsSegments counts an offloaded packet as what the card will make of
// it: three packets, each with its headers, and the end of a connection. The
// kernel drops the number of segments where a packet grows, and a guest never
// reported it.
func TestFlowCountsSegments(t *testing.T) {
	onOneCPU(t)
	cfg := rightConfig()
	cfg.Namespaces[0].Export = model.ExportAggregate
	cfg.FlowEntries = 4
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	const fin, headers, payload = 0x01, 40 + 20, 300
	frame := exportedTCP(t, 5, fin, payload)
	for _, test := range []struct {
		name           string
		size, segments uint32
		want           uint64
	}{
		{"told", payload / 3, 3, 3},
		{"not told", payload / 3, 0, 3},
		{"not told, the last one short", payload/3 + 1, 0, 3},
		{"not told, one byte over", payload/3 - 1, 0, 4},
		{"not offloaded", 0, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := p.tcOut.Run(&ebpf.RunOptions{
				Data: frame, DataOut: make([]byte, len(frame)+1024),
				Context: &skb{IngressIfindex: 2, GSOSize: test.size, GSOSegs: test.segments},
			})
			if err != nil {
				t.Fatal(err)
			}
			list := p.readSamples(t).flows
			if len(list) != 1 || list[0].Packets != test.want || list[0].Bytes != test.want*headers+payload || list[0].End != flows.EndOfConnection {
				t.Errorf("%+v, want %d packets", list, test.want)
			}
		})
	}
}

// TestFlowEnds ends connections, in their first interval and after one that was
// reported: each is reported at once, together with what was not yet reported,
// and its entry is freed. Without credit, all of it waits until the interval
// ends.
func TestFlowEnds(t *testing.T) {
	onOneCPU(t)
	cfg := exportingConfig(model.ExportAggregate)
	cfg.FlowEntries, cfg.ExportLimit = 4, 100
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	const ack, finAck, rst = 0x10, 0x11, 0x04
	send := func(flags ...byte) {
		for _, f := range flags {
			run(t, p.tcOut, labelled(7, frameOf(craft.TCP, craft.Segment(0, 0, f))), 0)
		}
	}
	type reportedFlow struct {
		packets uint64
		end     flows.End
	}
	check := func(when string, list []flows.Flow, want ...reportedFlow) {
		t.Helper()
		var got []reportedFlow
		for _, f := range list {
			got = append(got, reportedFlow{f.Packets, f.End})
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	collect := func() (list []flows.Flow) {
		t.Helper()
		if err := p.flows.Collect(func(f flows.Flow) { list = append(list, f) }); err != nil {
			t.Fatal(err)
		}
		return list
	}
	send(ack, ack, finAck, ack)
	check("FIN", p.readSamples(t).flows, reportedFlow{3, flows.EndOfConnection})
	check("an interval", collect(), reportedFlow{1, flows.EndOfInterval})
	send(ack, rst)
	check("RST", p.readSamples(t).flows, reportedFlow{2, flows.EndOfConnection})
	check("nothing left", collect())

	send(ack, ack)
	var clock bpf.ABIFlowClock
	if err := p.maps[bpf.MapFlowClock].Lookup(uint32(0), &clock); err != nil {
		t.Fatal(err)
	}
	clock.Epoch++ // the interval before is not collected yet
	if err := p.maps[bpf.MapFlowClock].Put(uint32(0), clock); err != nil {
		t.Fatal(err)
	}
	send(ack, finAck, ack)
	check("FIN in the next interval", p.readSamples(t).flows, reportedFlow{2, flows.EndOfInterval}, reportedFlow{2, flows.EndOfConnection})
	check("both collected", collect(), reportedFlow{1, flows.EndOfInterval})

	p.setCredit(t, 0)
	send(ack, finAck, ack)
	check("no credit", p.readSamples(t).flows)
	check("no credit, collected", collect(), reportedFlow{3, flows.EndOfConnection})
}

// TestFlowBeginsAnew follows numbers that start again, as after a restart of the
// encapsulating node: not everything that follows is late, and a stray packet
// from far behind does not count as a new start.
func TestFlowBeginsAnew(t *testing.T) {
	onOneCPU(t)
	cfg := rightConfig()
	cfg.Namespaces[0].Export = model.ExportAggregate
	cfg.FlowEntries, cfg.ExportLimit = 4, 1
	for _, test := range []struct {
		name          string
		numbers       []uint32
		skipped, late uint32
	}{
		{"in order", []uint32{5, 6, 7}, 0, 0},
		{"a loss", []uint32{5, 9}, 3, 0},
		{"late", []uint32{5, 9, 6, 7}, 1, 2},
		{"the same again", []uint32{5, 5, 5, 6}, 0, 0},
		{"anew", []uint32{5000, 5001, 3, 4, 5, 7}, 1, 1},
		{"a stray", []uint32{5000, 5001, 7, 5002, 5003}, 0, 1},
		{"over the end", []uint32{1<<32 - 2, 1<<32 - 1, 0, 2}, 1, 0},
	} {
		p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
		for _, n := range test.numbers {
			run(t, p.tcOut, numberedPacket(t, n), 2)
		}
		var list []flows.Flow
		if err := p.flows.Collect(func(f flows.Flow) { list = append(list, f) }); err != nil {
			t.Fatal(err)
		}
		if len(list) != 1 || list[0].Skipped != test.skipped || list[0].Late != test.late || list[0].Packets != uint64(len(test.numbers)) {
			t.Errorf("%s: %+v", test.name, list)
		}
		p.close()
	}
}

// TestFlowOverCPUs sends the packets of one flow through one CPU, another (the
// same if there is only one), and both: it is reported as one flow, with only the
// lost packets missing.
func TestFlowOverCPUs(t *testing.T) {
	cpus := onOneCPU(t)
	first, last := cpus[0], cpus[len(cpus)-1]
	cfg := rightConfig()
	cfg.Namespaces[0].Export = model.ExportAggregate
	cfg.FlowEntries, cfg.ExportLimit = 4, 1
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	number := uint32(100)
	packets := func(cpu, n int) {
		moveTo(t, cpu)
		for range n {
			run(t, p.tcOut, numberedPacket(t, number), 2)
			number++
		}
	}
	for i, interval := range []struct {
		do      func()
		packets uint64
		skipped uint32
	}{
		{func() { packets(first, 5); packets(last, 5); packets(first, 5) }, 15, 0},
		{func() { packets(last, 5) }, 5, 0},
		{func() { number += 3; packets(first, 5); number++; packets(last, 2) }, 7, 4},
	} {
		interval.do()
		var list []flows.Flow
		if err := p.flows.Collect(func(f flows.Flow) { list = append(list, f) }); err != nil {
			t.Fatal(err)
		}
		if len(list) != 1 || list[0].Packets != interval.packets || list[0].Skipped != interval.skipped || list[0].Late != 0 {
			t.Errorf("interval %d: %+v", i, list)
		}
	}
}

// numberedPacket is a transit packet with a Sequence Number.
func numberedPacket(t *testing.T, n uint32) []byte {
	t.Helper()
	option := ioam.DirectExport{Namespace: 123, Type: 0xc00000, ExtensionFlags: ioam.ExtensionSequence, Sequence: n}
	return carrying(t, option, craft.UDP, rightPacket()[atUDP:])
}

// TestFlowsOfKilledAgent takes over from an agent that was killed after it
// started an interval and before it read the previous one: while packets keep
// coming, each of them is reported.
func TestFlowsOfKilledAgent(t *testing.T) {
	cpus := onOneCPU(t)
	cfg := exportingConfig(model.ExportAggregate)
	cfg.FlowEntries = 4
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	const before = 1000
	for range before {
		run(t, p.tcOut, plainPacket(1), 0)
	}
	var clock bpf.ABIFlowClock
	if err := p.maps[bpf.MapFlowClock].Lookup(uint32(0), &clock); err != nil {
		t.Fatal(err)
	}
	clock.Epoch++
	if err := p.maps[bpf.MapFlowClock].Put(uint32(0), clock); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var later atomic.Uint64
	var sender sync.WaitGroup
	sender.Go(func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		if err := moveThread(cpus[0]); err != nil {
			t.Error(err)
			return
		}
		options := &ebpf.RunOptions{Data: plainPacket(1), DataOut: make([]byte, 2048), Context: &skb{}}
		for !stop.Load() {
			if _, err := p.tcOut.Run(options); err != nil {
				t.Error(err)
				return
			}
			later.Add(1)
		}
	})
	reported := uint64(0)
	collect := func() {
		if err := p.flows.Collect(func(f flows.Flow) { reported += f.Packets }); err != nil {
			t.Error(err)
		}
	}
	for begun := time.Now(); later.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience.Of(10*time.Second) {
			t.Fatal("no packet comes")
		}
	}
	collect()
	stop.Store(true)
	sender.Wait()
	collect()
	if sent := before + later.Load(); reported != sent || later.Load() == 0 {
		t.Errorf("%d packets reported of %d, %d of them after the kill", reported, sent, later.Load())
	}
}

// TestFlowOfFalseTCPHeader gives an offloaded packet a TCP header longer than the
// packet, as a guest may: it counts as one packet, not 65,516.
func TestFlowOfFalseTCPHeader(t *testing.T) {
	onOneCPU(t)
	cfg := rightConfig()
	cfg.Namespaces[0].Export = model.ExportAggregate
	cfg.FlowEntries = 4
	p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
	frame := exportedTCP(t, 15, 1, 20)
	_, err := p.tcOut.Run(&ebpf.RunOptions{
		Data: frame, DataOut: make([]byte, len(frame)+1024),
		Context: &skb{IngressIfindex: 2, GSOSize: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	list := p.readSamples(t).flows
	if len(list) != 1 || list[0].Packets != 1 || list[0].Bytes != 40+40 {
		t.Errorf("%+v, want one packet of 80 bytes", list)
	}
}
