// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/internal/tsharktest"
	"github.com/waymark-net/waymark/ioam"
)

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
		if at := 4 * fraction(kind); at >= 0 { // microseconds, as in POSIX
			binary.BigEndian.PutUint32(node[at:], rng.Uint32N(1_000_000))
		}
		if kind.HasSnapshot() {
			units := rng.Uint32N(4)
			node = binary.BigEndian.AppendUint32(node, units<<24|rng.Uint32N(1<<24))
			node = append(node, make([]byte, 4*units)...)
		}
		if len(t.Data)+len(node) > model.MaxTraceDataSize {
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

// tshark, an independent implementation, reads the same values from the same capture.
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
	for _, line := range tshark.Run(t, file, "_ws.expert", "-e", "frame.number", "-e", "_ws.expert.message") {
		t.Errorf("tshark complains: %s", line)
	}
	r := decodeCapture(t, capture)
	if len(r.records) != len(frames) || !r.complete {
		t.Fatalf("%d frames: we have %d records and the faults %q", len(frames), len(r.records), r.faults)
	}
	for name, n := range tsharktest.Compare(t, file, record.Clock{Format: ioam.TimestampPOSIX}, r.records) {
		if n < 100 {
			t.Errorf("only %d values of %s were compared", n, name)
		}
	}
}

// A resolution of an interface's times means the same to tshark, up to the
// nanoseconds that its arithmetic has room for. One capture has all of them.
func TestResolutionsAgainstTshark(t *testing.T) {
	packet := udp(0, options(t, 17, randomTrace(rand.New(rand.NewPCG(3, 4))).Option()))
	resolutions := []byte{0, 1, 3, 6, 9, 0x80, 0x81, 0x8a, 0x94, 0xa0}
	interfaces, packets := ngSection(), []byte(nil)
	for i, resolution := range resolutions {
		const seconds = 1_000_003
		units := unitsPerSecond(resolution)
		at := uint64(seconds)*units + units/4
		block := ngPacket(packet)
		binary.LittleEndian.PutUint32(block[8:], uint32(i))
		binary.LittleEndian.PutUint32(block[12:], uint32(at>>32))
		binary.LittleEndian.PutUint32(block[16:], uint32(at))
		interfaces = append(interfaces, ngInterfaceBlock(ngOption(optionResolution, []byte{resolution}))...)
		packets = append(packets, block...)
	}
	capture := append(interfaces, packets...)
	file := filepath.Join(t.TempDir(), "resolutions.pcapng")
	if err := os.WriteFile(file, capture, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(bytes.NewReader(capture))
	if err != nil {
		t.Fatal(err)
	}
	theirs := tshark.Run(t, file, "frame", "-e", "frame.time_epoch")
	if len(theirs) != len(resolutions) {
		t.Fatalf("tshark reads %q", theirs)
	}
	for i, resolution := range resolutions {
		p, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ours := fmt.Sprintf("%d.%09d", p.Time.Unix(), p.Time.Nanosecond()); theirs[i] != ours {
			t.Errorf("resolution %#x: we read %s, tshark %s", resolution, ours, theirs[i])
		}
	}
}
