// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/ioam"
)

// withOurDissector makes tshark read captures with the dissector that we package.
var withOurDissector = []string{"-X", "lua_script:../../packaging/wireshark/ioam.lua"}

func dissect(t *testing.T, frames [][]byte, filter string, fields ...string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "options.pcapng")
	if err := os.WriteFile(file, pcapng(t, LinkEthernet, frames...), 0o644); err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(withOurDissector)
	for _, field := range fields {
		args = append(args, "-e", field)
	}
	return tshark.Run(t, file, filter, args...)
}

func inFrame(t *testing.T, next ioam.NextHeader, option ...ioam.Option) []byte {
	t.Helper()
	return frame(LinkEthernet, udp(next, options(t, 17, option...)))
}

// The dissector that we package reads what our codecs write, in Hop-by-Hop and in
// Destination Options headers.
func TestDissectorReadsOptions(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 14))
	var exports, edges [][]byte
	var wantExports, wantEdges []string
	for i := range 60 {
		d := ioam.DirectExport{
			Namespace: ioam.NamespaceID(rng.Uint32()), ExtensionFlags: 0xc0, Type: ioam.TraceType(rng.Uint32N(1 << 24)),
			FlowID: rng.Uint32(), Sequence: rng.Uint32(),
		}
		exports = append(exports, inFrame(t, 0, d.Option([]ioam.OptionType{ioam.OptionIOAM, ioam.OptionIOAMStatic}[i%2])))
		wantExports = append(wantExports, fmt.Sprintf("%d\t0xc0\t0x%06x\t0x%08x\t%d", d.Namespace, uint32(d.Type), d.FlowID, d.Sequence))

		e := ioam.EdgeToEdge{Namespace: d.Namespace, Type: 0x7000, Sequence: uint64(rng.Uint32()), Seconds: rng.Uint32(), Fraction: rng.Uint32()}
		if i%2 == 0 {
			e.Type, e.Sequence = 0xb000, rng.Uint64()
		}
		edges = append(edges, inFrame(t, 60, e.Option()))
		wantEdges = append(wantEdges, fmt.Sprintf("%d\t0x%04x\t%d\t%d\t%d", e.Namespace, uint16(e.Type), e.Sequence, e.Seconds, e.Fraction))
	}
	if got := dissect(t, exports, "ioam.type == 4", "ioam.namespace", "ioam.dex.extension_flags", "ioam.dex.trace_type", "ioam.dex.flow_id",
		"ioam.dex.sequence"); !slices.Equal(
		got,
		wantExports,
	) {
		t.Errorf("Direct Exports are read as\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wantExports, "\n"))
	}
	if got := dissect(t, edges, "ioam.type == 3", "ioam.namespace", "ioam.e2e.type", "ioam.e2e.sequence", "ioam.e2e.seconds",
		"ioam.e2e.fraction"); !slices.Equal(
		got,
		wantEdges,
	) {
		t.Errorf("Edge-to-Edge options are read as\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wantEdges, "\n"))
	}
	if faults := dissect(t, append(exports, edges...), "_ws.malformed || _ws.lua.error || _ws.expert.severity >= 0x600000",
		"_ws.expert.message"); len(faults) != 0 {
		t.Errorf("tshark complains: %q", faults)
	}
}

// Traces of both types have their nodes, and flags their names.
func TestDissectorReadsTraces(t *testing.T) {
	trace := ioam.Trace{
		Namespace:    123,
		NodeLen:      2,
		Type:         0xc00000,
		Flags:        ioam.FlagActive,
		Incremental:  true,
		RemainingLen: 10,
		Data:         make([]byte, 24),
	}
	for i := range trace.Data {
		trace.Data[i] = byte(i)
	}
	frames := [][]byte{inFrame(t, 0, trace.Option())}
	got := dissect(
		t,
		frames,
		"ioam.type == 1",
		"ioam.namespace",
		"ioam.trace.nodelen",
		"ioam.trace.overflow",
		"ioam.trace.loopback",
		"ioam.trace.active",
		"ioam.trace.remaining",
		"ioam.trace.type",
		"ioam.node",
	)
	want := []string{"123\t2\t0\t0\t1\t10\t0xc00000\t0001020304050607,08090a0b0c0d0e0f,1011121314151617"}
	if !slices.Equal(got, want) {
		t.Errorf("read as %q, want %q", got, want)
	}
}

// Proof of Transit and alternate marking, octet by octet, and what is malformed.
func TestDissectorReadsRawOptions(t *testing.T) {
	raw := func(kind ioam.OptionType, data ...byte) []byte {
		return inFrame(t, 0, ioam.Option{Type: kind, Data: data})
	}
	pot := raw(0x31, 0, 2, 0, 123, 0, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18)
	if got := dissect(t, [][]byte{pot}, "ioam.pot.type == 0", "ioam.namespace", "ioam.pot.flags", "ioam.pot.pktid",
		"ioam.pot.cumulative"); !slices.Equal(
		got,
		[]string{"123\t0x80\t0x0102030405060708\t0x1112131415161718"},
	) {
		t.Errorf("proof of transit is read as %q", got)
	}
	marks := [][]byte{raw(0x12, 0x12, 0x34, 0x58, 0), raw(0x12, 0x12, 0x34, 0x54, 0)}
	if got := dissect(t, marks, "altmark", "altmark.flow_mon_id", "altmark.loss", "altmark.delay"); !slices.Equal(
		got,
		[]string{"74565\t1\t0", "74565\t0\t1"},
	) {
		t.Errorf("alternate marking is read as %q", got)
	}
	for name, bad := range map[string]struct {
		frame []byte
		field string
	}{
		"a Direct Export without its Flow ID": {raw(0x31, 0, 4, 0, 123, 0, 0x80, 0xc0, 0, 0, 0), "ioam.too_short"},
		"both Sequence Numbers":               {raw(0x11, 0, 3, 0, 123, 0xc0, 0, 0, 0, 0, 1), "ioam.e2e.sequences"},
		"a trace's NodeLen":                   {raw(0x31, 0, 1, 0, 123, 0x18, 0, 0xc0, 0, 0, 0), "ioam.trace.wrong_nodelen"},
		"half a node":                         {raw(0x31, 0, 1, 0, 123, 0x10, 0, 0xc0, 0, 0, 0, 1, 2, 3, 4), "ioam.trace.cut"},
		"an alternate marking of 5 bytes":     {raw(0x12, 0, 0, 0, 0, 0), "altmark.length"},
		"proof of transit, half":              {raw(0x31, 0, 2, 0, 123, 0, 0, 1, 2, 3, 4), "ioam.too_short"},
		"no data at all":                      {raw(0x31, 0, 3), "ioam.too_short"},
	} {
		if got := dissect(t, [][]byte{bad.frame}, bad.field, "frame.number"); len(got) != 1 {
			t.Errorf("%s: %s is not reported", name, bad.field)
		}
	}
}

// What uses option 0x11 for something else stays what it is, and no octets make the
// dissector fail.
func TestDissectorIsRobust(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 11))
	var frames [][]byte
	for range 500 {
		data := make([]byte, rng.IntN(40))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		if len(data) > 1 {
			data[0], data[1] = 0, byte(rng.IntN(6))
		}
		frames = append(
			frames,
			inFrame(t, []ioam.NextHeader{0, 60}[rng.IntN(2)], ioam.Option{Type: []ioam.OptionType{0x31, 0x11, 0x12}[rng.IntN(3)], Data: data}),
		)
	}
	if errors := dissect(t, frames, "_ws.lua.error", "frame.number", "_ws.expert.message"); len(errors) != 0 {
		t.Errorf("errors in the dissector: %q", errors)
	}
	if read := dissect(t, frames, "ioam || altmark", "frame.number"); len(read) < 200 {
		t.Errorf("only %d frames are dissected", len(read))
	}
	shim := inFrame(t, 0, ioam.Option{Type: 0x11, Data: []byte{0x12, 0x34, 0x56, 0x78, 0, 0}})
	if got := dissect(t, [][]byte{shim}, "ioam", "frame.number"); len(got) != 0 {
		t.Error("an older use of option 0x11 is read as IOAM")
	}
}
