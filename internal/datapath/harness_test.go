// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/datapath/rings"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/test/testnet"
)

// fixedTime is the time that a test's programs read instead of the clock.
const (
	fixedTime = int64(1_795_239_660_123_456_789)
	taiUTC    = 37 * time.Second
)

// programs is one interface's programs and maps, run through the kernel's
// program-run facility without being attached.
type programs struct {
	site  site
	maps  bpf.Maps
	flows *flows.Table // nil unless some namespace aggregates
	xdp   *ebpf.Program
	tcIn  *ebpf.Program
	tcOut *ebpf.Program
	rings []*rings.Ring
	hear  func() // a sign of life of the agent that watches routes; set by routes

	forgotten uint64 // how often forgetEdges was called
}

func loadPrograms(t testing.TB, cfg model.NodeConfig, index model.IfIndex, clock int64, hooks ...hookName) *programs {
	t.Helper()
	return loadProgramsOn(t, cfg, index, attach.Ethernet, clock, hooks...)
}

// loadProgramsOn loads the programs for interfaces of certain devices.
func loadProgramsOn(
	t testing.TB,
	cfg model.NodeConfig,
	index model.IfIndex,
	devices func(model.IfIndex) attach.Device,
	clock int64,
	hooks ...hookName,
) *programs {
	t.Helper()
	g, err := compile.Node(cfg, 0, devices)
	if err != nil {
		t.Fatal(err)
	}
	g.Node.FixedTime, g.Node.FixedIfindex = uint64(clock), uint32(index)
	return loadGeneration(t, g, index, hooks...)
}

// loadGeneration loads the programs of a generation. Unless it fixes their interface, it
// is that of each run.
func loadGeneration(t testing.TB, g *compile.Generation, index model.IfIndex, hooks ...hookName) *programs {
	t.Helper()
	testnet.NeedRoot(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	p := &programs{}
	t.Cleanup(p.close)
	if err := p.site.open(g, index); err != nil {
		t.Fatal(err)
	}
	p.maps, p.flows = p.site.set.all, p.site.flows
	if err := p.maps[bpf.MapClock].Put(uint32(0), bpf.ABIClockState{TaiOffset: taiUTC.Nanoseconds()}); err != nil {
		t.Fatal(err)
	}
	p.setCredit(t, 1<<40) // more than any test spends
	p.load(t, hooks)
	return p
}

// setCredit gives the interface the export credit that this many packets earn.
func (p *programs) setCredit(t testing.TB, packets int64) {
	t.Helper()
	limit := int64(p.site.set.node.PostcardLimit)
	tallies := make([]bpf.ABITally, ebpf.MustPossibleCPU())
	if err := p.site.tally.Lookup(uint32(0), &tallies); err != nil {
		t.Fatal(err)
	}
	for i := range tallies {
		tallies[i].Debt = limit*int64(bpf.ABIPostcardBoundPOSTCARD_BURST) - packets
		tallies[i].LoopbackDebt = int64(p.site.set.node.LoopbackLimit)*int64(bpf.ABILoopbackBoundLOOPBACK_BURST) - packets
	}
	if err := p.site.tally.Put(uint32(0), tallies); err != nil {
		t.Fatal(err)
	}
}

// forgetSent restarts what budgets are a share of, as in a new reference node.
func (p *programs) forgetSent(t testing.TB) {
	t.Helper()
	tallies := make([]bpf.ABITally, ebpf.MustPossibleCPU())
	if err := p.site.tally.Lookup(uint32(0), &tallies); err != nil {
		t.Fatal(err)
	}
	for i := range tallies {
		tallies[i].Sent, tallies[i].Added, tallies[i].Total = bpf.ABITraffic{}, bpf.ABITraffic{}, bpf.ABITotal{}
	}
	if err := p.site.tally.Put(uint32(0), tallies); err != nil {
		t.Fatal(err)
	}
}

// forgetArrivals makes all delays unknown: runs share their buffers.
func (p *programs) forgetArrivals(t testing.TB) {
	t.Helper()
	perCPU := make([]bpf.ABIArrival, ebpf.MustPossibleCPU())
	for i := range p.maps[bpf.MapArrivals].MaxEntries() {
		if err := p.maps[bpf.MapArrivals].Put(i, perCPU); err != nil {
			t.Fatal(err)
		}
	}
}

// forgetFlows empties the table of flows, and what is known about their numbers: which
// packets are samples, late or missing depends on those before.
func (p *programs) forgetFlows(t testing.TB) {
	t.Helper()
	if p.flows == nil {
		return
	}
	p.site.own.sequences.Clear()
	keys := make([]uint32, p.maps[bpf.MapFlows].MaxEntries())
	for i := range keys {
		keys[i] = uint32(i)
	}
	if _, err := p.maps[bpf.MapFlows].BatchUpdate(keys, make([]bpf.ABIFlowSet, len(keys)), nil); err != nil {
		t.Fatal(err)
	}
}

func (p *programs) load(t testing.TB, hooks []hookName) {
	t.Helper()
	for _, h := range hooks {
		program, err := p.site.program(h)
		if err != nil {
			t.Fatalf("%+v", err)
		}
		switch h {
		case hookIngressXDP:
			p.xdp = program
		case hookIngressTC:
			p.tcIn = program
		default:
			p.tcOut = program
		}
	}
}

func (p *programs) wantRecords(t testing.TB, wanted bool) {
	t.Helper()
	n := 0
	if wanted {
		n = AllRecords
	}
	p.wantNumber(t, n)
}

func (p *programs) wantNumber(t testing.TB, n int) {
	t.Helper()
	if err := setRecordsWanted(p.maps[bpf.MapRecordsWanted], n); err != nil {
		t.Fatal(err)
	}
}

func (p *programs) close() {
	rings.Close(p.rings)
	p.site.close()
}

// snapshotCounters returns every counter, summed over CPUs.
func (p *programs) snapshotCounters(t testing.TB) []uint64 {
	t.Helper()
	out := make([]uint64, bpf.ABICounterNUM_COUNTERS)
	var perCPU []bpf.ABITally
	if err := p.site.tally.Lookup(uint32(0), &perCPU); err != nil {
		t.Fatal(err)
	}
	for i := range perCPU {
		for counter, n := range perCPU[i].Counters {
			out[counter] += n
		}
	}
	return out
}

// moved returns which counters changed, and by how much.
func moved(before, after []uint64) map[bpf.ABICounter]uint64 {
	out := make(map[bpf.ABICounter]uint64)
	for i := range after {
		if after[i] != before[i] {
			out[bpf.ABICounter(i)] = after[i] - before[i]
		}
	}
	return out
}

// samples are the contents of the rings.
type samples struct {
	records   []rings.Record
	postcards []rings.Postcard
	flows     []flows.Flow
	copies    []rings.Record // to return
}

func (p *programs) readRecords(t testing.TB) []rings.Record {
	t.Helper()
	return p.readSamples(t).records
}

// readSamples empties the rings.
func (p *programs) readSamples(t testing.TB) (out samples) {
	t.Helper()
	if p.rings == nil {
		var err error
		if p.rings, err = rings.Open(p.maps[bpf.MapRecords], &p.site.cards); err != nil {
			t.Fatal(err)
		}
	}
	to := rings.Samples{
		Record:    func(r rings.Record) { out.records = append(out.records, r) },
		Postcards: func(c []rings.Postcard) { out.postcards = append(out.postcards, c...) },
		Flow:      func(f flows.Flow) { out.flows = append(out.flows, f) },
		Loopback:  func(r rings.Record) { out.copies = append(out.copies, r) },
	}
	err := rings.ReadWaiting(p.rings, taiUTC, rings.Taker{
		Sample: func(sample []byte, offset time.Duration) {
			if !to.Dispatch(sample, offset, func() *flows.Table { return p.flows }) {
				t.Fatal("a sample cannot be read")
			}
		},
		Postcards: to.Postcards,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// skb holds the fields of the kernel's struct __sk_buff that a run may set.
type skb struct {
	_              [36]byte
	IngressIfindex uint32
	Ifindex        uint32
	_              [116]byte
	WireLen        uint32
	GSOSegs        uint32
	_              [8]byte
	GSOSize        uint32
	_              [12]byte
}

// run runs a program on a frame; the verdict is the program's own number.
func run(t testing.TB, program *ebpf.Program, frame []byte, arrived model.IfIndex) (uint32, []byte) {
	t.Helper()
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+1024)}
	if program.Type() == ebpf.SchedCLS {
		options.Context = &skb{IngressIfindex: uint32(arrived)}
	}
	verdict, err := program.Run(options)
	if err != nil {
		t.Fatalf("run %d bytes: %v", len(frame), err)
	}
	return verdict, options.DataOut
}

// dropped reports whether a verdict drops the packet.
func dropped(program *ebpf.Program, verdict uint32) bool {
	if program.Type() == ebpf.XDP {
		return verdict == 1
	}
	return verdict == 2
}

func sameRecord(a rings.Record, b *reference.Record) bool {
	return b != nil && a.Time.Equal(time.Unix(0, b.Time).Add(-taiUTC)) && a.Interface == b.Interface &&
		a.Outcome == b.Outcome && a.Length == b.Length && bytes.Equal(a.Packet, b.Packet) &&
		bytes.Equal(a.Header, b.Header)
}

func init() {
	if binary.Size(skb{}) != 192 {
		panic("skb has the wrong size")
	}
}
