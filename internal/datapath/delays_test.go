// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/delays"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// counted is what a series has, in as few words as a test needs.
type counted struct {
	Sum, Zero, Negative, Longer, Incomplete uint64
	Buckets                                 map[int]uint64
}

// readDelays reads the histograms.
func (p *programs) readDelays(t testing.TB) map[delays.Key]counted {
	t.Helper()
	memory, err := delays.Map(p.maps[bpf.MapDelays])
	if err != nil {
		t.Fatal(err)
	}
	list, err := memory.Read()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[delays.Key]counted)
	for _, s := range list {
		c := counted{Sum: s.Sum, Zero: s.Zero, Negative: s.Negative, Longer: s.Longer, Incomplete: s.Incomplete, Buckets: make(map[int]uint64)}
		for i, n := range s.Buckets {
			if n > 0 {
				c.Buckets[i] = n
			}
		}
		all[s.Key] = c
	}
	return all
}

// once is a series with one delay, in the bucket that logarithms give. None of the tests' delays
// is next to a bound.
func once(delay time.Duration) counted {
	c := counted{Sum: uint64(delay), Buckets: make(map[int]uint64)}
	if delay > 0 {
		c.Buckets[bucketOf(float64(delay))] = 1
	} else {
		c.Zero = 1
	}
	return c
}

// bucketOf is the programs' number of the bucket of a delay in ns.
func bucketOf(ns float64) int { return int(math.Ceil(16 * (math.Log2(ns/1e9) + 30))) }

// stop is a node of a trace and when it wrote its data; before is how long before the fixed time.
type stop struct {
	id     uint64
	before time.Duration
	timed  bool
}

// timedTrace is a trace option of namespace 123 with the data of nodes, the last one first, and
// room for `room` more.
func timedTrace(traceType uint32, format ioam.TimestampFormat, room int, flags uint16, stops ...stop) []byte {
	var data []byte
	length := 0
	for _, s := range stops {
		before := len(data)
		if traceType&(1<<31) != 0 {
			data = binary.BigEndian.AppendUint32(data, 63<<24|uint32(s.id))
		}
		seconds, fraction := uint32(1<<32-1), uint32(1<<32-1)
		if at := fixedTime - int64(s.before); s.timed {
			if format != ioam.TimestampPTP {
				at -= int64(taiUTC)
			}
			seconds, fraction = uint32(at/1e9), uint32(at%1e9)
			switch format {
			case ioam.TimestampPOSIX:
				fraction /= 1000
			case ioam.TimestampNTP:
				seconds, fraction = uint32(at/1e9+2208988800), uint32((uint64(at%1e9)<<32+1e9-1)/1e9)
			}
		}
		data = binary.BigEndian.AppendUint32(data, seconds)
		data = binary.BigEndian.AppendUint32(data, fraction)
		if traceType&(1<<23) != 0 { // bit 8
			data = binary.BigEndian.AppendUint64(data, 63<<56|s.id)
		}
		length = len(data) - before
	}
	free := room * length
	header := binary.BigEndian.AppendUint32(
		[]byte{0x31, byte(10 + free + len(data)), 0, 0},
		123<<16|uint32(length/4)<<11|uint32(flags)<<7|uint32(free/4),
	)
	return slices.Concat(binary.BigEndian.AppendUint32(header, traceType), make([]byte, free), data)
}

// inTunnel is the option in a tunnel that ends at the node.
func inTunnel(option []byte) []byte {
	inner := craft.Between("2001:db8:1::1", "2001:db8:2::2", craft.UDP).With(craft.Datagram(4242, 9, []byte("waymark.")...))
	return frameOf(craft.HopByHop, craft.Options(41, 2, option), inner)
}

// TestDelaysOfTraces removes traces, and compares the segments and paths with what was in them.
func TestDelaysOfTraces(t *testing.T) {
	const (
		short  = uint32(0xb0000000) // ids and both timestamps
		wide   = uint32(0x30800000)
		bare   = uint32(0x30000000)
		µs, ms = time.Microsecond, time.Millisecond
	)
	segment := func(from, to uint64) delays.Key {
		return delays.Key{Kind: delays.Segment, From: from, To: to, Namespace: 123}
	}
	path := func(from uint64) delays.Key {
		return delays.Key{Kind: delays.Path, From: from, To: 2, Namespace: 123}
	}
	of := func(k delays.Key, is bool) delays.Key {
		if k.Wide = is; k.Wide && k.To == 2 {
			k.To = 22222222
		}
		return k
	}
	all := []stop{{7, 5 * µs, true}, {8, 1300 * µs, true}, {9, 90 * ms, true}}
	tests := []struct {
		name   string
		option []byte
		want   map[delays.Key]counted
	}{
		{"three nodes", timedTrace(short, 0, 1, 0, all...), map[delays.Key]counted{
			segment(7, 2): once(5 * µs), segment(8, 7): once(1295 * µs), segment(9, 8): once(88700 * µs), path(9): once(90 * ms)}},
		{"without room for this node", timedTrace(short, 0, 0, 0, all[:1]...), map[delays.Key]counted{
			segment(7, 2): once(5 * µs), path(7): once(5 * µs)}},
		{"overflow before", timedTrace(short, 0, 0, 8, all[:2]...), map[delays.Key]counted{
			segment(8, 7): once(1295 * µs), path(8): {Incomplete: 1, Buckets: map[int]uint64{}}}},
		{"a node without time between", timedTrace(short, 0, 1, 0, all[0], stop{8, 0, false}, all[2]), map[delays.Key]counted{
			segment(7, 2): once(5 * µs), path(9): once(90 * ms)}},
		{"first node without time", timedTrace(short, 0, 1, 0, all[0], stop{8, 0, false}), map[delays.Key]counted{
			segment(7, 2): once(5 * µs), path(8): {Incomplete: 1, Buckets: map[int]uint64{}}}},
		{"a clock ahead", timedTrace(short, 0, 1, 0, stop{7, -20 * µs, true}, all[1]), map[delays.Key]counted{
			segment(7, 2): {Negative: 1, Buckets: map[int]uint64{}}, segment(8, 7): once(1320 * µs), path(8): once(1300 * µs)}},
		{"no delay, and a long one", timedTrace(short, 0, 1, 0, stop{7, 0, true}, stop{8, 100 * time.Second, true}), map[delays.Key]counted{
			segment(7, 2): once(0), segment(8, 7): {Longer: 1, Buckets: map[int]uint64{}}, path(8): {Longer: 1, Buckets: map[int]uint64{}}}},
		{"wide ids", timedTrace(wide, 0, 1, 0, all[:2]...), map[delays.Key]counted{
			of(segment(7, 2), true): once(5 * µs), of(segment(8, 7), true): once(1295 * µs), of(path(8), true): once(1300 * µs)}},
		{"no ids", timedTrace(bare, 0, 1, 0, all[:2]...), map[delays.Key]counted{
			{Kind: delays.Path, Namespace: 123, Wide: true}: once(1300 * µs)}},
		{"no node", timedTrace(short, 0, 0, 0), map[delays.Key]counted{}},
		{"one timestamp alone", slices.Concat([]byte{0x31, 18, 0, 0, 0, 123, 0x10, 0, 0xa0, 0, 0, 0}, make([]byte, 8)), map[delays.Key]counted{}},
	}
	for _, format := range []ioam.TimestampFormat{ioam.TimestampPOSIX, ioam.TimestampPTP, ioam.TimestampNTP} {
		cfg := rightConfig()
		cfg.Delays, cfg.TimestampFormat = 1, format
		cfg.Decapsulations = []model.Decapsulation{{TunnelDestination: addresses[1]}}
		p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP, hookIngressTC)
		for _, tt := range tests {
			if format != ioam.TimestampPOSIX {
				if tt.name != "three nodes" {
					continue
				}
				tt.option = timedTrace(short, format, 1, 0, all...)
			}
			for _, records := range []bool{true, false} {
				p.wantRecords(t, records)
				p.forgetDelays(t)
				for _, program := range []struct {
					hook string
					run  func()
				}{
					{"xdp", func() { run(t, p.xdp, inTunnel(tt.option), 0) }}, {"tc", func() { run(t, p.tcIn, inTunnel(tt.option), 0) }},
				} {
					p.forgetDelays(t)
					program.run()
					if diff := cmp.Diff(tt.want, p.readDelays(t)); diff != "" {
						t.Errorf("%s, %s, %v, records %v: %s", tt.name, program.hook, format, records, diff)
					}
				}
			}
		}
		p.close()
	}
}

// forgetDelays empties the histograms.
func (p *programs) forgetDelays(t testing.TB) {
	t.Helper()
	m := p.maps[bpf.MapDelays]
	for i := range m.MaxEntries() {
		if err := m.Put(i, bpf.ABIDelaySeries{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDelaysBeyondRoom counts more series than there are: none of the delays is lost.
func TestDelaysBeyondRoom(t *testing.T) {
	onOneCPU(t)
	cfg := rightConfig()
	cfg.Delays = 1
	cfg.Decapsulations = []model.Decapsulation{{TunnelDestination: addresses[1]}}
	p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP)
	const nodes = 300
	for range 2 {
		for id := range uint64(nodes) {
			run(t, p.xdp, inTunnel(timedTrace(0xb0000000, 0, 1, 0, stop{1000 + id, time.Millisecond, true})), 0)
		}
	}
	var segments, paths, other, series uint64
	for key, c := range p.readDelays(t) {
		n := c.Buckets[bucketOf(1e6)]
		if c.Sum != n*1e6 {
			t.Errorf("%+v: sum %d of %d", key, c.Sum, n)
		}
		if key.Kind == delays.Segment {
			segments += n
		} else {
			paths += n
		}
		if key.Other {
			other += n
		} else {
			series++
		}
	}
	if segments != 2*nodes || paths != 2*nodes {
		t.Errorf("%d segments and %d paths, want %d", segments, paths, 2*nodes)
	}
	if most := uint64(bpf.ABIDelayBoundDELAY_SERIES); series > most || series < most*9/10 || other != 2*2*nodes-2*series {
		t.Errorf("%d series, and %d delays in others", series, other)
	}
}

// TestHeld runs both hooks on packets that go on. With bit 4 each of them is counted; of others,
// one in N, whether their header is a common one or not.
func TestHeld(t *testing.T) {
	onOneCPU(t)
	const packets, sample = 40, 4
	export := carrying(t, ioam.DirectExport{Namespace: 123, Type: 0xb00000}, craft.UDP, craft.Datagram(4242, 9, []byte("waymark.")...))
	withPad := func(option []byte) []byte { // not common: 8 octets of padding come first
		return frameOf(
			craft.HopByHop,
			craft.Options(craft.UDP, 2, slices.Concat([]byte{1, 6, 0, 0, 0, 0, 0, 0}, option)),
			craft.Datagram(4242, 9, []byte("waymark.")...),
		)
	}
	common := func(option []byte) []byte {
		return frameOf(craft.HopByHop, craft.Options(craft.UDP, 2, option), craft.Datagram(4242, 9, []byte("waymark.")...))
	}
	// short ones: runs of both hooks must find their packets in the same buffer
	times := slices.Concat([]byte{0x31, 22, 0, 0, 0, 123, 0x18, 3, 0xb0, 0, 0, 0}, make([]byte, 12))
	delay := slices.Concat([]byte{0x31, 18, 0, 0, 0, 123, 0x10, 2, 0x88, 0, 0, 0}, make([]byte, 8))
	ids := slices.Concat([]byte{0x31, 18, 0, 0, 0, 123, 0x10, 2, 0xc0, 0, 0, 0}, make([]byte, 8))
	tests := []struct {
		name  string
		frame []byte
		every bool
		none  bool
	}{
		{"common trace", common(times), false, false},
		{"trace after padding", withPad(times), false, false},
		{"two traces", common(slices.Concat(times, times)), false, false},
		{"transit delay", common(delay), true, false},
		{"transit delay and times", common(slices.Concat(delay, times)), true, false},
		{"Direct Export", export, false, false},
		{"ids alone", common(ids), false, true},
	}
	for _, mainline := range []bool{false, true} {
		cfg := rightConfig()
		cfg.Delays, cfg.Namespaces[0].Export = sample, model.ExportEvery
		if mainline {
			cfg.Compatibility = model.CompatibilityMainline
		}
		p := loadPrograms(t, cfg, 1, 0, hookIngressTC, hookEgressTC)
		for _, tt := range tests {
			p.forgetDelays(t)
			want := uint64(packets / sample)
			if tt.every && !mainline {
				want = packets
			} else if tt.none {
				want = 0
			}
			for range packets {
				_, frame := run(t, p.tcIn, tt.frame, 0)
				run(t, p.tcOut, frame, 1)
			}
			var n uint64
			for key, c := range p.readDelays(t) {
				if key != (delays.Key{Kind: delays.Held, Ingress: 1, Egress: 1}) || c.Negative+c.Longer > 0 || c.Sum == 0 {
					t.Errorf("%s, mainline %v: %+v: %+v", tt.name, mainline, key, c)
				}
				n += c.Zero
				for _, k := range c.Buckets {
					n += k
				}
			}
			if n != want {
				t.Errorf("%s, mainline %v: %d packets, want %d", tt.name, mainline, n, want)
			}
		}
		p.close()
	}
}
