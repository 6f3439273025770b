// SPDX-License-Identifier: Apache-2.0

// Package tsharktest holds what we read from captures to what tshark reads,
// which others have written.
package tsharktest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/ioam"
)

// reading is a field as both read it: tshark's name, and what our record has,
// all-ones when there is no value; known is false when the record lacks it.
type reading struct {
	name string
	bit  int
	ours func(n record.NodeData) (v uint64, known bool)
}

func or[T ~uint8 | ~uint16 | ~uint32 | ~uint64](f record.Field[T], ones uint64) (uint64, bool) {
	if !f.Valid {
		return ones, true
	}
	return uint64(f.Value), true
}

// readings are the fields of a node, with times as the clock has them.
func readings(clock record.Clock) []reading {
	const ones16, ones24, ones32, ones56, ones64 = 1<<16 - 1, 1<<24 - 1, 1<<32 - 1, 1<<56 - 1, 1<<64 - 1
	tai, unit := int64(0), 1000 // seconds beyond UTC; nanoseconds of a fraction
	if clock.Format == ioam.TimestampPTP {
		tai, unit = int64(clock.TAIOffset/time.Second), 1
	}
	return []reading{
		{"id", ioam.BitNode, func(n record.NodeData) (uint64, bool) { return or(n.NodeID, ones24) }},
		{"iif", ioam.BitInterfaces, func(n record.NodeData) (uint64, bool) { return or(n.IngressID, ones16) }},
		{"eif", ioam.BitInterfaces, func(n record.NodeData) (uint64, bool) { return or(n.EgressID, ones16) }},
		{"tss", ioam.BitTimestampSeconds, func(n record.NodeData) (uint64, bool) {
			if !n.Timestamp.Valid {
				return ones32, true
			}
			return uint64(n.Timestamp.Value.Unix() + tai), true
		}},
		{"tsf", ioam.BitTimestampFraction, func(n record.NodeData) (uint64, bool) {
			if n.TimestampFraction.Present {
				return or(n.TimestampFraction, ones32)
			}
			return uint64(n.Timestamp.Value.Nanosecond() / unit), n.Timestamp.Valid
		}},
		{"trdelay", ioam.BitTransitDelay, func(n record.NodeData) (uint64, bool) { return or(n.TransitDelay, ones32) }},
		{"nsdata", ioam.BitNamespaceData, func(n record.NodeData) (uint64, bool) { return or(n.NamespaceData, ones32) }},
		{"qdepth", ioam.BitQueueDepth, func(n record.NodeData) (uint64, bool) { return or(n.QueueDepth, ones32) }},
		{"csum", ioam.BitChecksumComplement, func(n record.NodeData) (uint64, bool) { return or(n.ChecksumComplement, ones32) }},
		{"id_wide", ioam.BitNodeWide, func(n record.NodeData) (uint64, bool) { return or(n.NodeIDWide, ones56) }},
		{"iif_wide", ioam.BitInterfacesWide, func(n record.NodeData) (uint64, bool) { return or(n.IngressIDWide, ones32) }},
		{"eif_wide", ioam.BitInterfacesWide, func(n record.NodeData) (uint64, bool) { return or(n.EgressIDWide, ones32) }},
		{"nsdata_wide", ioam.BitNamespaceDataWide, func(n record.NodeData) (uint64, bool) { return or(n.NamespaceDataWide, ones64) }},
		{"bufoccup", ioam.BitBufferOccupancy, func(n record.NodeData) (uint64, bool) { return or(n.BufferOccupancy, ones32) }},
		{"oss.scid", ioam.BitSnapshot, func(n record.NodeData) (uint64, bool) {
			if !n.Snapshot.Valid {
				return ones24, true
			}
			return uint64(n.Snapshot.Value.Schema), true
		}},
	}
}

// column is one field of a packet: of each option, or of each of its nodes, the
// newest first. Where known is false, any value will do.
type column struct {
	values []uint64
	known  []bool
}

func (c *column) add(v uint64, known bool) {
	c.values, c.known = append(c.values, v), append(c.known, known)
}

func (c *column) agrees(theirs []uint64) bool {
	if len(theirs) != len(c.values) {
		return false
	}
	for i, v := range theirs {
		if c.known[i] && c.values[i] != v {
			return false
		}
	}
	return true
}

// Compare holds records, all that we made of a capture and in its order, to
// what tshark reads. It returns how many values of each field were compared.
func Compare(t testing.TB, path string, clock record.Clock, records []record.Trace) map[string]int {
	t.Helper()
	fields := readings(clock)
	const prefix = "ipv6.opt.ioam.trace."
	names := []string{"ns", "type", "remlen", "flags"}
	heads := len(names)
	compared := map[string]int{}
	for _, f := range fields {
		names = append(names, "node."+f.name)
		compared[f.name] = 0
	}
	var args []string
	for _, name := range names {
		args = append(args, "-e", prefix+name)
	}
	for i, line := range tshark.Run(t, path, prefix+"ns", args...) {
		theirs := make([][]uint64, 0, len(names))
		for text := range strings.SplitSeq(line, "\t") {
			theirs = append(theirs, numbers(t, text))
		}
		if len(theirs[0]) > len(records) {
			t.Fatalf("tshark finds more traces than we do, from its packet %d on", i+1)
		}
		ours := make([]column, len(names))
		for _, r := range records[:len(theirs[0])] { // one record per option
			ours[0].add(uint64(r.Namespace), true)
			ours[1].add(uint64(r.TraceType), true)
			ours[2].add(uint64(r.Remaining.Value), true)
			ours[3].add(flags(r), true)
			for j, f := range fields {
				for _, n := range slices.Backward(r.Nodes) {
					if !r.TraceType.Has(f.bit) {
						continue
					}
					v, known := f.ours(n)
					if ours[heads+j].add(v, known); known {
						compared[f.name]++
					}
				}
			}
		}
		records = records[len(theirs[0]):]
		for j, name := range names {
			if name == "node.trdelay" {
				unmeasured(theirs[j])
			}
			if !ours[j].agrees(theirs[j]) {
				t.Fatalf("packet %d with a trace, %s: tshark has %x, we %x", i+1, name, theirs[j], ours[j].values)
			}
		}
	}
	if len(records) > 0 {
		t.Errorf("tshark does not find our last %d traces", len(records))
	}
	return compared
}

// unmeasured writes delays as our records have them: one with the top bit is
// one that no one has measured.
func unmeasured(delays []uint64) {
	for i := range delays {
		if delays[i] >= 1<<31 {
			delays[i] = 1<<32 - 1
		}
	}
}

// flags are the trace's flags, of which our nodes set one.
func flags(r record.Trace) uint64 {
	if r.Overflow.Value {
		return uint64(ioam.FlagOverflow)
	}
	return 0
}

// numbers reads a column of tshark, the values of a packet in their order.
func numbers(t testing.TB, text string) []uint64 {
	t.Helper()
	var list []uint64
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		v, err := strconv.ParseUint(word, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}
