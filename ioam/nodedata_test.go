// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"bytes"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/craft"
)

// read calls every accessor and returns what is available.
func read(d NodeData) map[string]uint64 {
	got := map[string]uint64{}
	put := func(name string, v uint64, ok bool) {
		if ok {
			got[name] = v
		}
	}
	hopLimit, ok := d.HopLimit()
	put("hop limit", uint64(hopLimit), ok)
	id, ok := d.NodeID()
	put("id", uint64(id), ok)
	wide, ok := d.NodeIDWide()
	put("id wide", uint64(wide), ok)
	in, ok := d.IngressID()
	put("ingress", uint64(in), ok)
	out, ok := d.EgressID()
	put("egress", uint64(out), ok)
	inWide, ok := d.IngressIDWide()
	put("ingress wide", uint64(inWide), ok)
	outWide, ok := d.EgressIDWide()
	put("egress wide", uint64(outWide), ok)
	dataWide, ok := d.NamespaceDataWide()
	put("data wide", dataWide, ok)
	delay, overflow, ok := d.TransitDelay()
	put("delay", uint64(delay), ok)
	put("delay overflow", 1, overflow)
	for name, accessor := range map[string]func() (uint32, bool){
		"seconds": d.TimestampSeconds, "fraction": d.TimestampFraction, "data": d.NamespaceData,
		"queue": d.QueueDepth, "complement": d.ChecksumComplement, "buffer": d.BufferOccupancy,
	} {
		v, ok := accessor()
		put(name, uint64(v), ok)
	}
	snapshot, ok := d.Snapshot()
	put("schema", uint64(snapshot.Schema), ok)
	return got
}

func TestNodeDataFields(t *testing.T) {
	all := `3f000002 00c900ca 00000065 00000066 00000067 00000068 00000069 0000006a
		3e000000 0153158e 000311f1 000315da 0000006b 0000006c 0000006d`
	for _, test := range []struct {
		name string
		kind TraceType
		hex  string
		want map[string]uint64
	}{
		{"all", 0xfff002, all + "01000309 41424344", map[string]uint64{
			"hop limit": 63, "id": 2, "ingress": 201, "egress": 202, "seconds": 101, "fraction": 102, "delay": 103,
			"data": 104, "queue": 105, "complement": 106, "id wide": 22222222, "ingress wide": 201201,
			"egress wide": 202202, "data wide": 0x6b0000006c, "buffer": 109, "schema": 777}},
		{"wide only", 0x008000, "3e000000 0153158e", map[string]uint64{"hop limit": 62, "id wide": 22222222}},
		{"fields after gaps", 0x031000, "00000001 00000002 00000003", map[string]uint64{"queue": 1, "complement": 2, "buffer": 3}},
		{"nothing available", 0xfff002, "ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 00ffffff", map[string]uint64{}},
		{"hop limit only", 0x808000, "3fffffff 3effffff ffffffff", map[string]uint64{"hop limit": 63}},
		{"hop limit from the wide field", 0x808000, "ffffffff 3effffff ffffffff", map[string]uint64{"hop limit": 62}},
		{"half of the interfaces", 0x404000, "00c9ffff ffffffff 000315da", map[string]uint64{"ingress": 201, "egress wide": 202202}},
		{"delay overflow", 0x080000, "80000000", map[string]uint64{"delay": 0, "delay overflow": 1}},
		{"delay not completed", 0x080000, "80000004", map[string]uint64{}},
		{"cut", 0xfff002, "3f000002 00c900ca 000000", map[string]uint64{"hop limit": 63, "id": 2, "ingress": 201, "egress": 202}},
		{"empty", 0xfff002, "", map[string]uint64{}},
	} {
		got := read(NodeData{Type: test.kind, Bytes: craft.Hex(t, test.hex)})
		for name := range test.want {
			if v, ok := got[name]; !ok || v != test.want[name] {
				t.Errorf("%s: %s is %d (%v), want %d", test.name, name, v, ok, test.want[name])
			}
			delete(got, name)
		}
		if len(got) != 0 {
			t.Errorf("%s: also %v", test.name, got)
		}
	}
}

func TestUndefinedFields(t *testing.T) {
	d := NodeData{Type: 0x800804, Bytes: craft.Hex(t, "3f000002 00000011 00000022")}
	if v, ok := d.Uint32(12); !ok || v != 0x11 {
		t.Errorf("bit 12: %x %v", v, ok)
	}
	if !bytes.Equal(d.Field(21), []byte{0, 0, 0, 0x22}) {
		t.Errorf("bit 21: %x", d.Field(21))
	}
	for _, bit := range []int{-1, 1, 13, 22, 23, 24} {
		if d.Field(bit) != nil {
			t.Errorf("bit %d: %x", bit, d.Field(bit))
		}
	}
}

func TestTimestamps(t *testing.T) {
	const offset = 37 * time.Second
	moment := time.Date(2026, 11, 21, 5, 21, 0, 1234, time.UTC)
	for _, test := range []struct {
		format            TimestampFormat
		seconds, fraction uint32
		back              time.Time
	}{
		{TimestampPOSIX, 1795238460, 1, moment.Truncate(time.Microsecond)},
		{TimestampPTP, 1795238460 + 37, 1234, moment},
		{TimestampNTP, 4004227260, 5299, moment}, // 1234 ns · 2^32 / 10^9 = 5299.99
	} {
		seconds, fraction := test.format.Fields(moment.Add(offset).UnixNano(), int64(offset))
		if seconds != test.seconds || fraction != test.fraction {
			t.Errorf("%v: %d %d, want %d %d", test.format, seconds, fraction, test.seconds, test.fraction)
		}
		if back, ok := test.format.Time(seconds, fraction, offset); !ok || !back.Equal(test.back) {
			t.Errorf("%v: %v, want %v", test.format, back, test.back)
		}
	}
	// Every nanosecond survives NTP; the seconds after its wraparound too.
	for ns := int64(0); ns < second; ns += 9973 {
		seconds, fraction := TimestampNTP.Fields(2_200_000_000*second+ns, 0)
		if got, _ := TimestampNTP.Time(seconds, fraction, 0); got.UnixNano() != 2_200_000_000*second+ns {
			t.Fatalf("%d ns became %v", ns, got)
		}
	}
	// Zero is a time that the node does not know (RFC 5905 §6).
	for _, f := range []TimestampFormat{TimestampPOSIX, TimestampPTP, TimestampNTP} {
		if at, ok := f.Time(0, 0, offset); ok {
			t.Errorf("%v: 0 is %v", f, at)
		}
	}
	for _, bad := range []struct {
		format   TimestampFormat
		fraction uint32
	}{{TimestampPOSIX, 1_000_000}, {TimestampPTP, 1_000_000_000}} {
		if _, ok := bad.format.Time(1, bad.fraction, 0); ok {
			t.Errorf("%v accepts the fraction %d", bad.format, bad.fraction)
		}
		if _, ok := bad.format.Time(1, bad.fraction-1, 0); !ok {
			t.Errorf("%v refuses the fraction %d", bad.format, bad.fraction-1)
		}
	}
}

func TestNodeTimestamp(t *testing.T) {
	for _, test := range []struct {
		kind TraceType
		hex  string
		want time.Time
		ok   bool
	}{
		{0x300000, "00000005 00000007", time.Unix(5, 7000), true},
		{0x300000, "00000005 ffffffff", time.Unix(5, 0), true},
		{0x200000, "00000005", time.Unix(5, 0), true},
		{0x300000, "00000005 000f4240", time.Time{}, false},
		{0x300000, "ffffffff 00000007", time.Time{}, false},
		{0x100000, "00000007", time.Time{}, false},
		{0x300000, "00000000 00000000", time.Time{}, false},
		{0x300000, "00000000 ffffffff", time.Time{}, false}, // the full second
		{0x200000, "00000000", time.Time{}, false},
		{0x300000, "00000000 00000001", time.Unix(0, 1000), true},
	} {
		got, ok := NodeData{Type: test.kind, Bytes: craft.Hex(t, test.hex)}.Timestamp(TimestampPOSIX, 0)
		if ok != test.ok || !got.Equal(test.want) {
			t.Errorf("%s: %v %v, want %v", test.hex, got, ok, test.want)
		}
	}
}
