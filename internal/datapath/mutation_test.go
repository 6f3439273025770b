// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/ioam"
)

// The right packet of the tables: Ethernet, IPv6, a Hop-by-Hop header with one
// trace of node and interface ids and room for three nodes, and UDP. Offsets
// are those of its fields.
const (
	atEtherType = 12
	atIPv6      = 14
	atLength    = atIPv6 + 4
	atNext      = atIPv6 + 6
	atHopLimit  = atIPv6 + 7
	atHBH       = atIPv6 + 40
	atOption    = atHBH + 4
	atTrace     = atOption + 4
	atData      = atTrace + 8
	atUDP       = atHBH + 40
)

func rightPacket() []byte {
	f := append(bytes.Repeat([]byte{2}, 12), 0x86, 0xdd)
	f = append(f, 0x60, 0, 0, 0, 0, 56, 0, 64)
	f = append(f, addresses[0].AsSlice()...)
	f = append(f, addresses[1].AsSlice()...)
	f = append(f, 17, 4, 1, 0, 0x31, 34, 0, 0, 0, 123, 0x10, 6, 0xc0, 0, 0, 0)
	f = append(f, make([]byte, 24)...)
	f = binary.BigEndian.AppendUint16(f, 4242)
	f = binary.BigEndian.AppendUint16(f, 9)
	return append(f, 0, 16, 0, 0, 'w', 'a', 'y', 'm', 'a', 'r', 'k', '.')
}

func rightConfig() ioam.NodeConfig {
	both := ioam.RoleIngress | ioam.RoleEgress
	return ioam.NodeConfig{
		ID: 2, IDWide: 22222222,
		Interfaces: []ioam.Interface{
			{Index: 1, Name: "eth0", ID: 201, IDWide: 201201, Roles: both, MTU: 65536},
			{Index: 2, Name: "eth1", ID: 202, IDWide: 202202, Roles: both, MTU: 65536},
			{Index: 3, Name: "edge", ID: 203, IDWide: 203203, MTU: 65536},
		},
		Namespaces: []ioam.Namespace{{ID: 123}, {ID: 7, Remove: true}},
	}
}

// mutation is the right packet with one thing changed.
type mutation struct {
	name    string
	on      ioam.IfIndex // 1 when zero
	config  func(*ioam.NodeConfig)
	change  func(f []byte) []byte
	outcome ioam.Outcome
	drop    bool
	want    func(f []byte) []byte // the frame that goes on, from the changed one; nil = unchanged
	records uint64
}

func set(offset int, values ...byte) func([]byte) []byte {
	return func(f []byte) []byte {
		copy(f[offset:], values)
		return f
	}
}

func filled(f []byte) []byte {
	return set(atData+16, 63, 0, 0, 2, 0, 201, 0xff, 0xff)(set(atTrace+3, 4)(f))
}

func stripped(f []byte) []byte {
	f = append(append(f[:atHBH:atHBH], f[atUDP:]...), nil...)
	return set(atLength, 0, 16, 17)(f)
}

func mainline(c *ioam.NodeConfig) { c.Compatibility = ioam.CompatibilityMainline }

func boundary(b ioam.Boundary) func(*ioam.NodeConfig) {
	return func(c *ioam.NodeConfig) { c.Interfaces[2].Boundary = b }
}

func decapsulating(c *ioam.NodeConfig) {
	c.Decapsulations = []ioam.Decapsulation{{TunnelDestination: addresses[1]}}
}

// tunnelled puts an IPv6 packet behind the Hop-by-Hop header.
func tunnelled(f []byte) []byte {
	inner := []byte{0x60, 0, 0, 0, 0, 8, 17, 9}
	inner = append(append(inner, addresses[2].AsSlice()...), addresses[0].AsSlice()...)
	f = append(f[:atUDP:atUDP], append(inner, 1, 2, 3, 4, 0, 8, 0, 0)...)
	return set(atHBH, 41)(set(atLength, 0, 88)(f))
}

var ingressMutations = []mutation{
	{name: "none", outcome: ioam.OutcomeTraceFilled, want: filled},
	{name: "IPv4", change: set(atEtherType, 8, 0), outcome: ioam.OutcomeNotIPv6},
	{name: "ARP", change: set(atEtherType, 8, 6), outcome: ioam.OutcomeNotIPv6},
	{name: "version 4", change: set(atIPv6, 0x45), outcome: ioam.OutcomeMalformedIPv6},
	{name: "cut in the IPv6 header", change: func(f []byte) []byte { return f[:atIPv6+39] }, outcome: ioam.OutcomeMalformedIPv6},
	{name: "no Hop-by-Hop header", change: set(atNext, 17), outcome: ioam.OutcomeNoIOAM},
	{name: "another option", change: set(atOption, 0x3e), outcome: ioam.OutcomeNoIOAM},
	{name: "cut in the Hop-by-Hop header", change: func(f []byte) []byte { return f[:atUDP-1] }, outcome: ioam.OutcomeMalformedHeader},
	{name: "payload shorter than the header", change: set(atLength, 0, 39), outcome: ioam.OutcomeMalformedHeader},
	{name: "option beyond the header", change: set(atOption+1, 35), outcome: ioam.OutcomeMalformedHeader},
	{name: "padding beyond the header", change: set(atHBH+3, 0xff), outcome: ioam.OutcomeMalformedHeader},
	{name: "36 options", change: func(f []byte) []byte { clear(f[atHBH+2 : atUDP]); return f }, outcome: ioam.OutcomeMalformedTooManyOptions},
	{name: "option not aligned", change: set(atHBH+2, 0, 0x31, 35), outcome: ioam.OutcomeMalformedAlignment},
	{name: "option of one byte", change: set(atOption, 0x31, 1, 0, 1, 31, 0), outcome: ioam.OutcomeMalformedOptionLength},
	{name: "trace of nine bytes", change: set(atOption, 0x31, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 23), outcome: ioam.OutcomeMalformedOptionLength},
	{name: "NodeLen 3", change: set(atTrace+2, 0x18), outcome: ioam.OutcomeMalformedNodeLength},
	{name: "RemainingLen 7", change: set(atTrace+3, 7), outcome: ioam.OutcomeMalformedRemainingLength},
	{name: "mainline, RemainingLen 7", config: mainline, change: set(atTrace+3, 7), outcome: ioam.OutcomeMalformedRemainingLength, drop: true},
	{name: "mainline, not aligned", config: mainline, change: set(atHBH+2, 0, 0x31, 35), outcome: ioam.OutcomeMalformedAlignment, drop: true},
	{name: "incremental trace", change: set(atOption+3, 1), outcome: ioam.OutcomeOptionUnsupported},
	{name: "DEX in 0x11", change: set(atOption, 0x11, 34, 0, 4), outcome: ioam.OutcomeDirectExport},
	{name: "DEX in 0x31", change: set(atOption, 0x31, 34, 0, 4), outcome: ioam.OutcomeDirectExport},
	{name: "DEX of namespace 124", change: set(atOption, 0x11, 34, 0, 4, 0, 124), outcome: ioam.OutcomeNamespaceUnknown},
	{name: "DEX with eight extensions", change: set(atOption, 0x11, 34, 0, 4, 0, 123, 0, 0xff), outcome: ioam.OutcomeMalformedOptionLength},
	{name: "DEX with six extensions", change: set(atOption, 0x11, 34, 0, 4, 0, 123, 0, 0x3f), outcome: ioam.OutcomeDirectExport},
	{name: "DEX of nine bytes in 0x11", change: set(atOption, 0x11, 9, 0, 4), outcome: ioam.OutcomeNoIOAM},
	{name: "DEX of nine bytes in 0x31", change: set(atOption, 0x31, 9, 0, 4), outcome: ioam.OutcomeMalformedOptionLength},
	{name: "DEX to be removed", change: set(atOption, 0x11, 34, 0, 4, 0, 7), outcome: ioam.OutcomeInlineRemoved, want: stripped},
	{name: "a shim in 0x11", change: set(atOption, 0x11, 34, 1, 4), outcome: ioam.OutcomeNoIOAM},
	{name: "namespace 124", change: set(atTrace+1, 124), outcome: ioam.OutcomeNamespaceUnknown},
	{name: "overflow flag", change: set(atTrace+2, 0x14), outcome: ioam.OutcomeOverflowSet},
	{name: "no room", change: set(atTrace+3, 1), outcome: ioam.OutcomeTraceOverflow, want: set(atTrace+2, 0x14)},
	{name: "hop limit 0", change: set(atHopLimit, 0), outcome: ioam.OutcomeTraceFilled,
		want: func(f []byte) []byte { return set(atData+16, 255)(filled(f)) }},
	{name: "edge, drop", on: 3, outcome: ioam.OutcomeBoundaryDropped, drop: true},
	{name: "edge, ignore", on: 3, config: boundary(ioam.BoundaryIgnore), outcome: ioam.OutcomeBoundaryIgnored},
	{name: "edge, strip", on: 3, config: boundary(ioam.BoundaryStrip), outcome: ioam.OutcomeBoundaryStripped, want: stripped},
	{name: "edge, strip, another option too", on: 3, config: boundary(ioam.BoundaryStrip),
		change: set(atOption, 0x31, 26, 0, 0, 0, 123, 0x10, 4, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3e, 6, 0, 0, 0, 0, 0, 0), outcome: ioam.OutcomeBoundaryStripPartial},
	{name: "edge, no IOAM", on: 3, change: set(atNext, 17), outcome: ioam.OutcomeNoIOAM},
	{name: "namespace to be removed", change: set(atTrace+1, 7), outcome: ioam.OutcomeInlineRemoved, want: stripped, records: 1},
	{name: "namespace to be removed, another option too",
		change:  set(atOption, 0x31, 26, 0, 0, 0, 7, 0x10, 2, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3e, 6, 0, 0, 0, 0, 0, 0),
		outcome: ioam.OutcomeRemovalPartial,
		want:    func(f []byte) []byte { return set(atData, 63, 0, 0, 2, 0, 201, 0xff, 0xff)(set(atTrace+3, 0)(f)) }},
	{name: "tunnel that ends here", config: decapsulating, change: tunnelled, outcome: ioam.OutcomeTunnelDecapsulated,
		want: func(f []byte) []byte { return append(f[:14:14], f[atUDP:]...) }, records: 1},
	{name: "tunnel of others", change: tunnelled, outcome: ioam.OutcomeTraceFilled, want: filled},
	{name: "tunnel without a header in it", config: decapsulating, change: func(f []byte) []byte { return tunnelled(f)[:atUDP+39] },
		outcome: ioam.OutcomeTraceFilled, want: filled},
}

// TestIngressMutations holds both ingress programs to verdict, bytes, the one
// counter, records, and that no other counter moved.
func TestIngressMutations(t *testing.T) {
	for _, m := range ingressMutations {
		t.Run(m.name, func(t *testing.T) {
			cfg := rightConfig()
			if m.config != nil {
				m.config(&cfg)
			}
			on := max(m.on, 1)
			p := loadPrograms(t, cfg, on, fixedTime, hookIngressXDP, hookIngressTC)
			frame := rightPacket()
			if m.change != nil {
				frame = m.change(frame)
			}
			want := frame
			if m.want != nil {
				want = m.want(slices.Clone(frame))
			}
			for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
				if program.Type() == ebpf.SchedCLS && len(frame) < atHBH {
					continue // the facility refuses an skb shorter than its protocol's header
				}
				before := p.snapshotCounters(t)
				verdict, out := run(t, program, frame, 0)
				if dropped(program, verdict) != m.drop {
					t.Errorf("%v: verdict %d", program.Type(), int32(verdict))
				}
				if !bytes.Equal(out, want) {
					t.Errorf("%v:\n%swant\n%s", program.Type(), hex.Dump(out), hex.Dump(want))
				}
				counters := map[abiCounter]uint64{abiCounterCOUNTER_INGRESS + abiCounter(m.outcome): 1}
				if m.records > 0 {
					counters[abiCounterCOUNTER_RECORDS_WRITTEN] = m.records
				}
				if got := moved(before, p.snapshotCounters(t)); !maps.Equal(got, counters) {
					t.Errorf("%v: counters moved by %v, want %v (%s)", program.Type(), got, counters, m.outcome)
				}
				if records := p.readRecords(t); uint64(len(records)) != m.records {
					t.Errorf("%v: %d records, want %d", program.Type(), len(records), m.records)
				}
			}
		})
	}
}

// TestTransparency sends random bytes and packets without IOAM through every
// program of a router that does everything: none is dropped or changed.
func TestTransparency(t *testing.T) {
	cfg := rightConfig()
	decapsulating(&cfg)
	cfg.Encapsulations = []ioam.Encapsulation{{
		Name: "elsewhere", Interface: 1, Match: ioam.Match{Destination: netip.MustParsePrefix("2001:db8:ffff::/48")},
		Options: ioam.Traces(ioam.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24}),
	}}
	p := loadPrograms(t, cfg, 1, 0, hookIngressXDP, hookIngressTC, hookEgressTC)
	g := generator{rand.New(rand.NewPCG(7, 7))}
	for n := range 20_000 {
		frame := g.frame()
		if n%3 == 0 {
			frame = g.bytes(14 + g.IntN(300))
		}
		if bytes.Contains(frame, []byte{0x31}) || bytes.Contains(frame, []byte{0x11}) || bytes.Contains(frame, []byte{41}) {
			continue // may be IOAM, or a tunnel
		}
		for _, program := range []*ebpf.Program{p.xdp, p.tcIn, p.tcOut} {
			if program.Type() == ebpf.SchedCLS && len(frame) < atHBH {
				continue
			}
			verdict, out := run(t, program, frame, 0)
			if dropped(program, verdict) || !bytes.Equal(out, frame) {
				t.Fatalf("%v: verdict %d\n%sbecame\n%s", program, int32(verdict), hex.Dump(frame), hex.Dump(out))
			}
		}
	}
}

// TestOutcomes holds the programs' numbers to the public ones.
func TestOutcomes(t *testing.T) {
	if int(abiOutcomeNUM_OUTCOMES) != int(ioam.NumOutcomes) {
		t.Fatalf("%d outcomes, want %d", abiOutcomeNUM_OUTCOMES, ioam.NumOutcomes)
	}
	spec, err := loadAbi()
	if err != nil {
		t.Fatal(err)
	}
	names, err := enumNames(spec, "outcome")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range ioam.Outcomes() {
		if got := names[uint64(o)]; got != "OUTCOME_"+upper(o.String()) {
			t.Errorf("outcome %d is %s to the programs, %s to Go", o, got, o)
		}
	}
}
