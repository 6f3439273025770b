// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/ioam"
)

// tsharkField is a field of both dissectors; ours is the value that all-ones
// stand for when it is not available.
type tsharkField struct {
	name    string
	allOnes uint64
	value   func(export.TraceNode) (v uint64, present, valid bool)
}

func ours[T ~uint8 | ~uint16 | ~uint32 | ~uint64](get func(export.TraceNode) export.Field[T]) func(export.TraceNode) (uint64, bool, bool) {
	return func(n export.TraceNode) (uint64, bool, bool) {
		f := get(n)
		return uint64(f.Value), f.Present, f.Valid
	}
}

func tsharkFields() []tsharkField {
	const ones16, ones24, ones32, ones56, ones64 = 1<<16 - 1, 1<<24 - 1, 1<<32 - 1, 1<<56 - 1, 1<<64 - 1
	return []tsharkField{
		{"id", ones24, ours(func(n export.TraceNode) export.Field[ioam.NodeID] { return n.NodeID })},
		{"iif", ones16, ours(func(n export.TraceNode) export.Field[ioam.InterfaceID] { return n.IngressID })},
		{"eif", ones16, ours(func(n export.TraceNode) export.Field[ioam.InterfaceID] { return n.EgressID })},
		{"qdepth", ones32, ours(func(n export.TraceNode) export.Field[uint32] { return n.QueueDepth })},
		{"id_wide", ones56, ours(func(n export.TraceNode) export.Field[ioam.NodeIDWide] { return n.NodeIDWide })},
		{"iif_wide", ones32, ours(func(n export.TraceNode) export.Field[ioam.InterfaceIDWide] { return n.IngressIDWide })},
		{"eif_wide", ones32, ours(func(n export.TraceNode) export.Field[ioam.InterfaceIDWide] { return n.EgressIDWide })},
		{"bufoccup", ones32, ours(func(n export.TraceNode) export.Field[uint32] { return n.BufferOccupancy })},
		{"nsdata", ones32, func(n export.TraceNode) (uint64, bool, bool) {
			return uint64(n.NamespaceData.Value), n.NamespaceData.Present, n.NamespaceData.Valid
		}},
		{"nsdata_wide", ones64, func(n export.TraceNode) (uint64, bool, bool) {
			return uint64(n.NamespaceDataWide.Value), n.NamespaceDataWide.Present, n.NamespaceDataWide.Valid
		}},
		{"csum", ones32, func(n export.TraceNode) (uint64, bool, bool) {
			return uint64(n.ChecksumComplement.Value), n.ChecksumComplement.Present, n.ChecksumComplement.Valid
		}},
		{"tss", ones32, func(n export.TraceNode) (uint64, bool, bool) {
			return uint64(n.Timestamp.Value.Unix()), n.Timestamp.Present, n.Timestamp.Valid
		}},
		{"trdelay", ones32, func(n export.TraceNode) (uint64, bool, bool) {
			return uint64(n.TransitDelay.Value), n.TransitDelay.Present, n.TransitDelay.Valid
		}},
	}
}

// randomTrace has 0 to 4 nodes of a random type; values are random or all-ones.
func randomTrace(rng *rand.Rand) ioam.Trace {
	kind := ioam.TraceType(rng.Uint32N(1<<24)) & ioam.TraceTypeSupported
	if kind == 0 {
		kind = 0x800000
	}
	t := ioam.Trace{Namespace: ioam.NamespaceID(rng.Uint32()), NodeLen: uint8(kind.NodeLen()), Type: kind}
	if rng.IntN(4) == 0 {
		t.Flags = ioam.FlagOverflow
	}
	t.RemainingLen = uint8(rng.IntN(8))
	t.Data = make([]byte, 4*int(t.RemainingLen))
	for range rng.IntN(5) {
		node := make([]byte, 0, 80)
		for range kind.NodeLen() {
			word := rng.Uint32N(1 << 31)
			if rng.IntN(5) == 0 {
				word = 1<<32 - 1
			}
			node = binary.BigEndian.AppendUint32(node, word)
		}
		if at := 4 * fraction(kind); at >= 0 { // microseconds, as POSIX has them
			binary.BigEndian.PutUint32(node[at:], rng.Uint32N(1_000_000))
		}
		if kind.HasSnapshot() {
			units := rng.Uint32N(4)
			node = binary.BigEndian.AppendUint32(node, units<<24|rng.Uint32N(1<<24))
			node = append(node, make([]byte, 4*units)...)
		}
		if len(t.Data)+len(node) > ioam.MaxTraceDataSize {
			break
		}
		t.Data = append(t.Data, node...)
	}
	return t
}

// fraction is the place of field 3 in 4-byte units, −1 without it.
func fraction(kind ioam.TraceType) int {
	if !kind.Has(ioam.BitTimestampFraction) {
		return -1
	}
	n := 0
	for bit := range ioam.BitTimestampFraction {
		if kind.Has(bit) {
			n++
		}
	}
	return n
}

// tsharkNumbers reads a column of numbers, newest node first.
func tsharkNumbers(t *testing.T, text string) []uint64 {
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

// tshark, written by others, reads the same values from the same capture.
func TestAgainstTshark(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var frames [][]byte
	for range 300 {
		frames = append(frames, frame(LinkEthernet, udp(0, options(t, 17, randomTrace(rng).Option()))))
	}
	capture := pcapng(t, LinkEthernet, frames...)
	file := filepath.Join(t.TempDir(), "random.pcapng")
	if err := os.WriteFile(file, capture, 0o644); err != nil {
		t.Fatal(err)
	}
	const prefix = "ipv6.opt.ioam.trace."
	args := []string{"-r", file, "-T", "fields", "-e", prefix + "ns", "-e", prefix + "remlen", "-e", prefix + "type", "-e", "_ws.expert.message"}
	fields := tsharkFields()
	for _, f := range fields {
		args = append(args, "-e", prefix+"node."+f.name)
	}
	out, err := exec.Command("tshark", args...).Output()
	if err != nil {
		t.Fatalf("tshark: %v; install it with: apt-get install tshark", err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	r := decodeCapture(t, capture)
	if len(lines) != len(frames) || len(r.records) != len(frames) || !r.complete {
		t.Fatalf("%d frames: tshark has %d lines, we have %d records and the faults %q", len(frames), len(lines), len(r.records), r.faults)
	}
	compared := 0
	for i, line := range lines {
		columns := strings.Split(line, "\t")
		record := r.records[i]
		head := fmt.Sprintf("%d %d", record.Namespace, record.Remaining)
		if theirs := columns[0] + " " + columns[1]; theirs != head || tsharkNumbers(t, columns[2])[0] != uint64(record.TraceType) {
			t.Fatalf("packet %d: tshark has namespace, remaining and type %s %s, we %s %v", i+1, theirs, columns[2], head, record.TraceType)
		}
		if columns[3] != "" {
			t.Errorf("packet %d: tshark complains: %s", i+1, columns[3])
		}
		for j, f := range fields {
			var want []uint64
			for _, n := range slices.Backward(record.Nodes) {
				v, present, valid := f.value(n)
				if present && !valid {
					v = f.allOnes
				}
				if present {
					want = append(want, v)
				}
			}
			if got := tsharkNumbers(t, columns[4+j]); !slices.Equal(got, want) {
				t.Errorf("packet %d, %s: tshark has %x, we %x", i+1, f.name, got, want)
			}
			compared += len(want)
		}
	}
	if compared < 2000 {
		t.Errorf("only %d values were compared", compared)
	}
}
