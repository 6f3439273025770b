// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/rings"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// returnedCopy is a packet with nothing after its Hop-by-Hop header, mostly a copy that
// the node of the tests asked for.
func (g generator) returnedCopy() []byte {
	size := 1 + g.IntN(4)
	remaining := g.IntN(size)
	if g.IntN(8) == 0 {
		remaining = size
	}
	flags := []uint16{0, 0, 0, 8, 4, 2}[g.IntN(6)]
	option := []byte{0x31, byte(10 + 4*size), 0, byte(g.IntN(4) / 3)} // mostly pre-allocated
	option = binary.BigEndian.AppendUint16(option, namespaceIDs[g.IntN(len(namespaceIDs))])
	option = binary.BigEndian.AppendUint16(option, 1<<11|flags<<7|uint16(remaining))
	option = binary.BigEndian.AppendUint32(option, uint32(model.LoopbackType)<<8)
	option = append(option, g.bytes(4*size-4)...)
	option = append(option, 64, 0, 0, byte(2+g.IntN(8)/7))
	var others []byte
	if g.IntN(4) == 0 {
		others = g.trace()
	}
	header := craft.IPv6{Next: craft.HopByHop, HopLimit: 60, Source: g.address(), Destination: g.address()}
	next := []byte{59, 59, 59, 17}[g.IntN(4)]
	return header.With(craft.Options(next, 2, option, others), g.bytes(max(g.IntN(12)-8, 0)))
}

// sameCopies compares what was handed over of a packet with the reference, and counts what
// it should count.
func sameCopies(got []rings.Record, expected reference.Result, counted map[bpf.ABICounter]uint64) bool {
	if expected.Asks {
		counted[bpf.ABICounterCOUNTER_LOOPBACK+bpf.ABICounter(bpf.ABILoopbackCountLOOPBACK_ASKED)]++
	}
	if expected.Withheld {
		counted[bpf.ABICounterCOUNTER_LOOPBACK+bpf.ABICounter(bpf.ABILoopbackCountLOOPBACK_SUPPRESSED)]++
	}
	if expected.Loopback == nil {
		return len(got) == 0
	}
	counted[bpf.ABICounterCOUNTER_LOOPBACK+bpf.ABICounter(bpf.ABILoopbackCountLOOPBACK_RETURNED)]++
	return len(got) == 1 && sameRecord(got[0], expected.Loopback)
}

// insertedTrace is a trace of one of some namespaces, the last of which the node may not
// know; one of a header may ask for copies.
func (g generator) insertedTrace(cfg model.NodeConfig, largest int, looped *bool) model.TraceOption {
	kind := model.LoopbackType
	if g.IntN(5) > 0 {
		kind = ioam.TraceType(g.Uint32()&0xfff002) | []ioam.TraceType{0x800000, 0x400000, 2}[g.IntN(3)]
	}
	namespace := cfg.Namespaces[g.IntN(len(cfg.Namespaces))]
	trace := g.option(namespace, kind, largest)
	switch rare := g.IntN(16); {
	case namespace.Incremental && g.IntN(3) == 0:
		trace = g.growing(trace)
	case rare == 0: // not one of this node's
		trace.Namespace = ioam.NamespaceID(namespaceIDs[4])
	case rare <= 2 && cfg.Compatibility == model.CompatibilityMainline:
		trace.Size = 4 + 4*g.IntN(trace.Size/4)
	}
	if known := trace.Namespace != ioam.NamespaceID(namespaceIDs[4]); known && !*looped && trace.Type == model.LoopbackType && g.IntN(3) > 0 {
		trace.Loopback, *looped = 1+g.Uint32N(3), true
	}
	return trace
}

// asking makes the tables' valid packet ask for copies: its trace has the flag, and room
// for six nodes' hop limits and node ids.
func asking(f []byte) []byte { return set(atTrace+2, 0x0a, 6, 0x80, 0, 0, 0)(f) }

// answered is such a packet after this node.
func answered(f []byte) []byte { return set(atData+20, 63, 0, 0, 2)(set(atTrace+3, 5)(f)) }

// askingTwice is a packet that asks by a pre-allocated trace with room for two nodes, and by
// an incremental one of a type.
func askingTwice(kind ioam.TraceType) func([]byte) []byte {
	one := []byte{0x31, 18, 0, 0, 0, 123, 0x0a, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	two := binary.BigEndian.AppendUint32([]byte{0x31, 14, 0, 1, 0, 123, 0x0a, 6}, uint32(kind)<<8)
	return set(atOption, append(append(one, two...), 64, 0, 0, 9)...)
}

// answeredTwice is such a packet after this node.
func answeredTwice(f []byte) []byte { return set(atData+4, 63, 0, 0, 2)(set(atTrace+3, 1)(f)) }

func looping(c *model.NodeConfig) { c.Namespaces[0].Loopback = true }

// loopbackMutations are of the tables' valid packet; copies is how many are handed over.
var loopbackMutations = []struct {
	mutation
	copies int
}{
	{mutation{name: "a copy is due", config: looping, change: asking, outcome: model.OutcomeTraceFilled, want: answered}, 1},
	{mutation{name: "not allowed", change: asking, outcome: model.OutcomeTraceFilled, want: answered}, 0},
	{mutation{name: "without the flag", config: looping, change: then(asking, set(atTrace+2, 0x08)), outcome: model.OutcomeTraceFilled, want: answered}, 0},
	{mutation{name: "another trace type", config: looping, change: set(atTrace+2, 0x12), outcome: model.OutcomeTraceFilled,
		want: func(f []byte) []byte { return set(atTrace+2, 0x12)(filled(f)) }}, 0},
	{mutation{name: "another namespace", config: looping, change: then(asking, set(atTrace+1, 124)), outcome: model.OutcomeNamespaceUnknown}, 0},
	{mutation{name: "no room", config: looping, change: then(asking, set(atTrace+3, 0)), outcome: model.OutcomeTraceOverflow, want: set(atTrace+2, 0x0e)}, 0},
	{mutation{name: "overflow flag", config: looping, change: then(asking, set(atTrace+2, 0x0e)), outcome: model.OutcomeOverflowSet}, 0},
	{mutation{name: "at the edge", on: 3, config: func(c *model.NodeConfig) { looping(c); boundary(model.BoundaryIgnore)(c) }, change: asking, outcome: model.OutcomeBoundaryIgnored}, 0},
	{mutation{name: "from a multicast address", config: looping, change: then(asking, set(atIPv6+8, 0xff)), outcome: model.OutcomeTraceFilled, want: answered}, 0},
	{mutation{name: "from the unspecified address", config: looping, change: then(asking, set(atIPv6+8, make([]byte, 16)...)), outcome: model.OutcomeTraceFilled, want: answered}, 0},
	{mutation{name: "to a multicast address", config: looping, change: then(asking, set(atIPv6+24, 0xff)), outcome: model.OutcomeTraceFilled, want: answered}, 0},
	{mutation{name: "removed with a copy", config: func(c *model.NodeConfig) { looping(c); c.Namespaces[0].Remove = true }, change: asking,
		outcome: model.OutcomeInlineRemoved, also: model.OutcomeTraceFilled, want: stripped, records: 1}, 1},
	{mutation{name: "a probe", config: terminating, change: set(atTrace+2, 0x11), outcome: model.OutcomeActiveTerminated, also: model.OutcomeTraceFilled, drop: true, want: stripped, records: 1}, 0},
	{mutation{name: "a probe in a tunnel", config: func(c *model.NodeConfig) { terminating(c); c.Namespaces[0].Remove = false; decapsulating(c) },
		change: then(tunnelled, set(atTrace+2, 0x11)), outcome: model.OutcomeActiveTerminated, also: model.OutcomeTraceFilled, drop: true,
		want: func(f []byte) []byte { return append(f[:atIPv6:atIPv6], f[atInner:]...) }, records: 1}, 0},
	{mutation{name: "a probe with another option", config: terminating, change: then(sharedWith(0x3e), set(atTrace+2, 0x11)), outcome: model.OutcomeActiveTerminated, also: model.OutcomeTraceFilled,
		drop: true, want: func(f []byte) []byte { return set(atHBH+10, 0, 0, 0, 0, 0, 0)(sharedStripped(f)) }, records: 1}, 0},
	{mutation{name: "a probe that is followed", config: terminating, change: then(set(atTrace+2, 0x11), set(atHBH, 0)), outcome: model.OutcomeActiveTerminated, also: model.OutcomeTraceFilled, drop: true,
		want: filledProbe, records: 1}, 0},
	{mutation{name: "a probe in a jumbogram", config: terminating, change: then(sharedWith(0x3e), set(atTrace+2, 0x11), set(atLength, 0, 0)), outcome: model.OutcomeActiveTerminated,
		also: model.OutcomeTraceFilled, drop: true, want: func(f []byte) []byte { return set(atData, 63, 0, 0, 2, 0, 201, 0xff, 0xff)(set(atTrace+3, 0)(f)) }, records: 1}, 0},
	{mutation{name: "a probe in a tunnel with an option that discards", config: func(c *model.NodeConfig) { terminating(c); c.Namespaces[0].Remove = false; decapsulating(c) },
		change: then(tunnelled, sharedWith(0x5e), set(atTrace+2, 0x11)), outcome: model.OutcomeActiveTerminated, also: model.OutcomeTraceFilled, drop: true,
		want: func(f []byte) []byte { return set(atData, 63, 0, 0, 2, 0, 201, 0xff, 0xff)(set(atTrace+3, 0)(f)) }, records: 1}, 0},
	{mutation{name: "a probe, not allowed", config: func(c *model.NodeConfig) { c.Namespaces[0].Remove = true }, change: set(atTrace+2, 0x11),
		outcome: model.OutcomeInlineRemoved, also: model.OutcomeTraceFilled, want: stripped, records: 1}, 0},
	{mutation{name: "a probe that goes on", config: func(c *model.NodeConfig) { c.Namespaces[0].TerminateActive = true }, change: set(atTrace+2, 0x11),
		outcome: model.OutcomeTraceFilled, want: filledProbe}, 0},
	{mutation{name: "incremental with the flag", config: looping, change: then(asking, set(atOption+3, 1)), outcome: model.OutcomeOptionUnsupported}, 0},
	{mutation{name: "incremental that may grow, with the flag", config: func(c *model.NodeConfig) { looping(c); growing(c) }, change: then(asking, set(atOption+3, 1)),
		outcome: model.OutcomeIncrementalTrace}, 1},
	{mutation{name: "incremental that may grow, without room", config: func(c *model.NodeConfig) { looping(c); growing(c) }, change: then(asking, set(atOption+3, 1), set(atTrace+3, 0)),
		outcome: model.OutcomeIncrementalTrace}, 0},
	{mutation{name: "incremental that may grow, without loopback", config: growing, change: then(asking, set(atOption+3, 1)), outcome: model.OutcomeIncrementalTrace}, 0},
	{mutation{name: "asked for, and in vain by an incremental trace", config: looping, change: askingTwice(0x400000), outcome: model.OutcomeTraceFilled, also: model.OutcomeOptionUnsupported,
		want: answeredTwice}, 0},
	{mutation{name: "asked for, and by an incremental trace", config: looping, change: askingTwice(model.LoopbackType), outcome: model.OutcomeTraceFilled, also: model.OutcomeOptionUnsupported,
		want: answeredTwice}, 1},
	{mutation{name: "an incremental probe", config: terminating, change: then(set(atTrace+2, 0x11), set(atOption+3, 1)), outcome: model.OutcomeActiveTerminated,
		also: model.OutcomeOptionUnsupported, drop: true, want: stripped, records: 1}, 0},
	{mutation{name: "an incremental probe, not allowed", config: func(c *model.NodeConfig) { c.Namespaces[0].Remove = true }, change: then(set(atTrace+2, 0x11), set(atOption+3, 1)),
		outcome: model.OutcomeInlineRemoved, also: model.OutcomeOptionUnsupported, want: stripped, records: 1}, 0},
	{mutation{name: "an own copy with an incremental trace", config: sending, change: then(ownCopy, set(atOption+3, 1)), outcome: model.OutcomeLoopbackReceived, drop: true, records: 1}, 0},
	{mutation{name: "another node's copy with an incremental trace", config: sending, change: then(ownCopy, set(atOption+3, 1), set(atData+23, 3)), outcome: model.OutcomeOptionUnsupported}, 0},
	{mutation{name: "an own copy", config: sending, change: ownCopy, outcome: model.OutcomeLoopbackReceived, drop: true, records: 1}, 0},
	{mutation{name: "an own copy of a node that asks for none", change: ownCopy, outcome: model.OutcomeTraceFilled, want: answeredCopy}, 0},
	{mutation{name: "another node's copy", config: sending, change: then(ownCopy, set(atData+23, 3)), outcome: model.OutcomeTraceFilled, want: answeredCopy}, 0},
	{mutation{name: "an own packet that is no copy", config: sending, change: then(ownCopy, set(atHBH, 17)), outcome: model.OutcomeTraceFilled, want: answeredCopy}, 0},
	{mutation{name: "an own copy with a payload", config: sending, change: func(f []byte) []byte { return set(atLength, 0, 48)(append(ownCopy(f), make([]byte, 8)...)) },
		outcome: model.OutcomeTraceFilled, want: answeredCopy}, 0},
	{mutation{name: "an own copy with the flag", config: sending, change: then(ownCopy, set(atTrace+2, 0x0a)), outcome: model.OutcomeTraceFilled, want: answeredCopy}, 0},
}

func filledProbe(f []byte) []byte { return set(atTrace+2, 0x11)(filled(f)) }

func terminating(c *model.NodeConfig) {
	c.Namespaces[0].TerminateActive, c.Namespaces[0].Remove = true, true
}

// sending sets the flag on packets that leave by the second interface.
func sending(c *model.NodeConfig) {
	trace := model.TraceOption{Namespace: 123, Type: model.LoopbackType, Size: 24, Loopback: 3}
	c.Encapsulations = []model.Encapsulation{{
		Name: "out", Interface: 2, Mode: model.ModeAuto, TunnelSource: addresses[0], TunnelDestination: addresses[3],
		Options: model.Traces(trace),
	}}
}

// ownCopy is a copy of a packet that this node sent, from the next one.
func ownCopy(f []byte) []byte {
	f = set(atTrace+2, 0x08, 4, 0x80, 0, 0, 0)(f[:atUDP])
	return set(atLength, 0, 40)(set(atHBH, 59)(set(atData+16, 63, 0, 0, 3, 64, 0, 0, 2)(f)))
}

func answeredCopy(f []byte) []byte { return set(atData+12, 63, 0, 0, 2)(set(atTrace+3, 3)(f)) }

// TestLoopback checks the flags at ingress: verdict, bytes, records, copies, counters.
func TestLoopback(t *testing.T) {
	for _, m := range loopbackMutations {
		t.Run(m.name, func(t *testing.T) {
			cfg := rightConfig()
			if m.config != nil {
				m.config(&cfg)
			}
			p := loadPrograms(t, cfg, max(m.on, 1), fixedTime, hookIngressXDP, hookIngressTC)
			frame := m.change(rightPacket())
			want := frame
			if m.want != nil {
				want = m.want(slices.Clone(frame))
			}
			for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
				counters := map[bpf.ABICounter]uint64{bpf.ABICounterCOUNTER_INGRESS + bpf.ABICounter(m.outcome): 1}
				if m.also != 0 {
					counters[bpf.ABICounterCOUNTER_INGRESS_OPTIONS+bpf.ABICounter(m.also)] = 1
				}
				if m.records > 0 {
					counters[bpf.ABICounterCOUNTER_RECORDS_WRITTEN] = m.records
				}
				if m.copies > 0 {
					counters[bpf.ABICounterCOUNTER_LOOPBACK+bpf.ABICounter(bpf.ABILoopbackCountLOOPBACK_RETURNED)] = uint64(m.copies)
				}
				p.expect(t, program, frame, want, m.drop, counters)
				got := p.readSamples(t)
				if uint64(len(got.records)) != m.records || len(got.copies) != m.copies {
					t.Fatalf("%v: records %+v, copies %+v", program.Type(), got.records, got.copies)
				}
				for _, c := range got.copies {
					if header := frame[atHBH:atUDP]; !slices.Equal(c.Header, header) || !slices.Equal(c.Packet, frame[atIPv6:atHBH]) ||
						c.Interface != 1 || !c.Time.Equal(time.Unix(0, fixedTime).Add(-taiUTC)) {
						t.Errorf("%v: copy %+v", program.Type(), c)
					}
				}
			}
		})
	}
}

// expect runs a program, and compares verdict, bytes and counters.
func (p *programs) expect(t *testing.T, program *ebpf.Program, frame, want []byte, drop bool, counters map[bpf.ABICounter]uint64) {
	t.Helper()
	before := p.snapshotCounters(t)
	verdict, out := run(t, program, frame, 0)
	if dropped(program, verdict) != drop || !slices.Equal(out, want) {
		t.Errorf("%v: verdict %d\n%x want\n%x", program.Type(), int32(verdict), out, want)
	}
	if got := moved(before, p.snapshotCounters(t)); !sameCounts(got, counters) {
		t.Errorf("%v: counters moved by %v, want %v", program.Type(), got, counters)
	}
}

func sameCounts(a, b map[bpf.ABICounter]uint64) bool {
	for c := range bpf.ABICounterNUM_COUNTERS {
		if a[c] != b[c] {
			return false
		}
	}
	return true
}

// Copies are limited by the packets of the interface, by the rate of the node, and by a
// reader that is away.
func TestLoopbackLimits(t *testing.T) {
	onOneCPU(t)
	frame := asking(rightPacket())
	for _, tt := range []struct {
		name        string
		limit, rate uint32
		reads       bool
		packets     int
		want        int
	}{
		{"one in ten", 10, model.MaxLoopbackRate, true, 1000, int(bpf.ABILoopbackBoundLOOPBACK_BURST) + 99},
		{"a rate", 1, 50, true, 200, 53}, // a window lasts 2^30 ns
		{"no reader", 1, model.MaxLoopbackRate, false, 300, 102},
	} {
		cfg := rightConfig()
		looping(&cfg)
		cfg.LoopbackLimit, cfg.LoopbackRate = tt.limit, tt.rate
		p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP)
		tallies := make([]bpf.ABITally, ebpf.MustPossibleCPU())
		if err := p.site.tally.Put(uint32(0), tallies); err != nil { // no debt
			t.Fatal(err)
		}
		copies := 0
		beginWindow(t)
		for range tt.packets {
			run(t, p.xdp, frame, 0)
			if tt.reads {
				copies += len(p.readSamples(t).copies)
			}
		}
		copies += len(p.readSamples(t).copies)
		counts := p.snapshotCounters(t)
		returned := counts[bpf.ABICounterCOUNTER_LOOPBACK+bpf.ABICounter(bpf.ABILoopbackCountLOOPBACK_RETURNED)]
		suppressed := counts[bpf.ABICounterCOUNTER_LOOPBACK+bpf.ABICounter(bpf.ABILoopbackCountLOOPBACK_SUPPRESSED)]
		if copies != tt.want || returned != uint64(copies) || suppressed != uint64(tt.packets-copies) {
			t.Errorf("%s: %d copies of %d packets, want %d; counted %d and %d", tt.name, copies, tt.packets, tt.want, returned, suppressed)
		}
	}
}

// sinceBoot is the clock by which the data plane limits rates.
func sinceBoot(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// beginWindow waits, if need be, until a window of the loopback rate has half of its time
// left, in which a test then ends.
func beginWindow(t *testing.T) {
	t.Helper()
	const window = time.Duration(1 << 30)
	if passed := sinceBoot(t) % window; passed > window/2 {
		time.Sleep(window - passed + 20*time.Millisecond)
	}
}

// The windows of the rate are those of a clock that is never set.
func TestLoopbackRateOfClock(t *testing.T) {
	onOneCPU(t)
	cfg := rightConfig()
	looping(&cfg)
	p := loadPrograms(t, cfg, 1, fixedTime, hookIngressTC)
	now := sinceBoot(t)
	run(t, p.tcIn, asking(rightPacket()), 0)
	var word uint64
	if err := p.maps[bpf.MapLoopbackRates].Lookup(uint32(0), &word); err != nil {
		t.Fatal(err)
	}
	if away := int64(word>>32) - int64(now>>30); away < -1 || away > 1 || uint32(word) != 1 {
		t.Errorf("%d copies in a window that is %d away", uint32(word), away)
	}
}

// A smaller N counts from the next packet on, however many were left of the last.
func TestAskLoopbackChanged(t *testing.T) {
	onOneCPU(t)
	cfg := rightConfig()
	sending(&cfg)
	p := loadPrograms(t, cfg, 2, fixedTime, hookEgressTC)
	var blocks []bpf.ABIFrequencyBlock
	if err := p.maps[bpf.MapFrequencyBlocks].Lookup(uint32(0), &blocks); err != nil {
		t.Fatal(err)
	}
	for i := range blocks {
		blocks[i].UntilLoopback = 999_999
	}
	if err := p.maps[bpf.MapFrequencyBlocks].Put(uint32(0), blocks); err != nil {
		t.Fatal(err)
	}
	run(t, p.tcOut, frameOf(craft.UDP, craft.Datagram(4242, 9, []byte("waymark.")...)), 0)
	if n := p.snapshotCounters(t)[bpf.ABICounterCOUNTER_LOOPBACK+bpf.ABICounter(bpf.ABILoopbackCountLOOPBACK_ASKED)]; n != 1 {
		t.Errorf("%d copies asked for", n)
	}
}

// The flag is set on the first of every N packets, within the rate, and on none that has a
// header already, is a tunnel, or has the address of another node.
func TestAskLoopback(t *testing.T) {
	for _, incremental := range []bool{false, true} {
		t.Run(map[bool]string{false: "pre-allocated", true: "incremental"}[incremental], func(t *testing.T) { testAskLoopback(t, incremental) })
	}
}

func testAskLoopback(t *testing.T, incremental bool) {
	onOneCPU(t)
	cfg := rightConfig()
	sending(&cfg)
	if incremental {
		growing(&cfg)
		cfg.Encapsulations[0].Options[0].Trace.Incremental = true
	}
	cfg.LoopbackRate = 10
	p := loadPrograms(t, cfg, 2, fixedTime, hookEgressTC)
	inner := craft.IPv6{Next: craft.UDP, HopLimit: 9, Source: addresses[2], Destination: addresses[0]}
	plain := frameOf(craft.UDP, craft.Datagram(4242, 9, []byte("waymark.")...))
	tunnel := frameOf(41, inner.With(craft.Datagram(1, 2)))
	other := frameOf(craft.HopByHop, craft.Options(craft.UDP, 2, []byte{0x1e, 2, 0, 0}), craft.Datagram(4242, 9))
	flagged := func(frame []byte, arrived model.IfIndex) bool {
		_, out := run(t, p.tcOut, frame, arrived)
		h, err := ioam.DecodeExtensionHeader(out[atHBH:])
		if err != nil {
			t.Fatal(err)
		}
		for option, err := range h.Options() {
			if err != nil || !option.IsIOAM() {
				continue
			}
			trace, err := ioam.DecodeTrace(option.Data[2:])
			return err == nil && trace.Flags == ioam.FlagLoopback
		}
		return false
	}
	for i := range 4 {
		if flagged(tunnel, 1) || flagged(other, 1) || flagged(other, 0) {
			t.Fatalf("%d: a packet with headers of its own got the flag", i)
		}
	}
	asked := 0
	beginWindow(t)
	for i := range 60 {
		got := flagged(plain, model.IfIndex(i%2))
		if want := i%3 == 0 && asked < 10; got != want {
			t.Fatalf("packet %d: flag %v", i, got)
		}
		if got {
			asked++
		}
	}
	counts := p.snapshotCounters(t)
	if n := counts[bpf.ABICounterCOUNTER_LOOPBACK+bpf.ABICounter(bpf.ABILoopbackCountLOOPBACK_ASKED)]; n != 10 {
		t.Errorf("%d packets counted", n)
	}
	if n := counts[bpf.ABICounterCOUNTER_LOOPBACK+bpf.ABICounter(bpf.ABILoopbackCountLOOPBACK_SUPPRESSED)]; n != 10 {
		t.Errorf("%d packets beyond the rate counted", n)
	}
}

// The kernel refuses to cut headers off an offloaded packet that is not TCP. A probe ends
// where it was to be decapsulated, and not at the domain's edge.
func TestProbeThatIsNotRemoved(t *testing.T) {
	onOneCPU(t)
	for name, test := range map[string]struct {
		on      model.IfIndex
		outcome model.Outcome
		records int
	}{
		"decapsulated": {1, model.OutcomeActiveTerminated, 1},
		"at the edge":  {3, model.OutcomeDecapFailed, 0},
	} {
		cfg := rightConfig()
		terminating(&cfg)
		boundary(model.BoundaryStrip)(&cfg)
		p := loadPrograms(t, cfg, test.on, fixedTime, hookIngressTC)
		before := p.snapshotCounters(t)
		frame := set(atTrace+2, 0x11)(rightPacket())
		verdict, err := p.tcIn.Run(
			&ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+1024), Context: &skb{GSOSize: 1000, GSOSegs: 3}},
		)
		if err != nil {
			t.Fatal(err)
		}
		counted, drops := moved(before, p.snapshotCounters(t)), dropped(p.tcIn, verdict)
		records := len(p.readSamples(t).records)
		if counted[bpf.ABICounterCOUNTER_INGRESS+bpf.ABICounter(test.outcome)] != 1 || drops != (test.outcome == model.OutcomeActiveTerminated) ||
			records != test.records {
			t.Errorf("%s: dropped: %v, %d records, counted %v; want %d records and %s", name, drops, records, counted, test.records, test.outcome)
		}
	}
}
