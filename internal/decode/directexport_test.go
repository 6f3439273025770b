// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/ioam"
)

// directExport is a Direct Export of namespace 123 with these Extension-Flags.
func directExport(extensions uint8) ioam.DirectExport {
	d := ioam.DirectExport{Namespace: 123, ExtensionFlags: extensions, Type: 0xc00000}
	if d.HasFlowID() {
		d.FlowID = 0x12345678
	}
	if d.HasSequence() {
		d.Sequence = 7
	}
	return d
}

func TestDirectExports(t *testing.T) {
	const before = `{"kind":"direct-export","time":"2026-11-21T05:21:00.123456000Z","interface":"eth7","namespace":123,`
	const packet = `"packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2","next_header":17,"source_port":4242,` +
		`"destination_port":9,"flow_label":74565,"length":`
	const when, who = "2026-11-21T05:21:00.123456000Z  eth7  ", "[2001:db8:1::2]:4242 > [2001:db8:2::2]:9, UDP, "
	tunnelled := udp(17)
	for _, tt := range []struct {
		name       string
		packet     []byte
		json, text string
	}{
		{"no optional field", udp(0, options(t, 17, directExport(0).Option(0))),
			`"flags":"0x00","extension_flags":"0x00","trace_type":"0xc00000",` + packet + `64}}`, "64 bytes, namespace 123, type 0xc00000, direct export"},
		{"both, in 0x31", udp(0, options(t, 17, directExport(0xc0).Option(ioam.OptionIOAM))),
			`"flags":"0x00","extension_flags":"0xc0","trace_type":"0xc00000","flow_id":305419896,"sequence":7,` + packet + `72}}`,
			"72 bytes, namespace 123, type 0xc00000, direct export, flow 0x12345678, sequence 7"},
		{"sequence and unknown fields", udp(0, options(t, 17, directExport(0x61).Option(0))),
			`"flags":"0x00","extension_flags":"0x61","trace_type":"0xc00000","sequence":7,` + packet + `80}}`,
			"80 bytes, namespace 123, type 0xc00000, direct export, sequence 7"},
		{"in Destination Options", udp(60, options(t, 17, directExport(0x80).Option(0))),
			`"flags":"0x00","extension_flags":"0x80","trace_type":"0xc00000","flow_id":305419896,` + packet + `72}}`,
			"72 bytes, namespace 123, type 0xc00000, direct export, flow 0x12345678"},
		{"around a tunnel", ipv6Packet(0, "2001:db8:f::1", "2001:db8:f::2", append(options(t, 41, directExport(0).Option(0)), tunnelled...)),
			`"flags":"0x00","extension_flags":"0x00","trace_type":"0xc00000",` + packet + `48}}`, "48 bytes, namespace 123, type 0xc00000, direct export"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := decodeCapture(t, pcapng(t, LinkRaw, tt.packet))
			if len(r.lines) != 1 || len(r.triggers) != 1 || r.lines[0] != before+tt.json || !r.complete {
				t.Fatalf("%q, faults %q\nwant %s", r.lines, r.faults, before+tt.json)
			}
			if got, want := r.triggers[0].Text(), when+who+tt.text+"\n"; got != want {
				t.Errorf("got  %swant %s", got, want)
			}
		})
	}

	r := decodeCapture(t, pcap(t, LinkRaw, udp(0, options(t, 17, directExport(0).Option(0), trace(1, 2), directExport(0xc0).Option(0)))))
	if len(r.records) != 1 || len(r.triggers) != 2 || r.summary.Records != 3 || !strings.HasPrefix(r.lines[1], `{"kind":"trace"`) {
		t.Errorf("%d traces and %d direct exports in %q", len(r.records), len(r.triggers), r.lines)
	}
}

// tshark 4.0 does not decode a Direct Export, but finds the option, checks its length
// and reads its IOAM option-type.
func TestDirectExportsAgainstTshark(t *testing.T) {
	rng := rand.New(rand.NewPCG(93, 26))
	var frames [][]byte
	for range 100 {
		d := ioam.DirectExport{
			Namespace: ioam.NamespaceID(rng.Uint32()), ExtensionFlags: uint8(rng.Uint32()) & 0xc0, Type: ioam.TraceType(rng.Uint32N(1 << 24)),
			FlowID: rng.Uint32(), Sequence: rng.Uint32(),
		}
		frames = append(frames, frame(LinkEthernet, udp(0, options(t, 17, d.Option(ioam.OptionIOAM)))))
	}
	capture := pcapng(t, LinkEthernet, frames...)
	file := filepath.Join(t.TempDir(), "dex.pcapng")
	if err := os.WriteFile(file, capture, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, line := range tshark.Run(t, file, "_ws.malformed", "-e", "frame.number") {
		t.Errorf("tshark finds frame %s malformed", line)
	}
	r := decodeCapture(t, capture)
	lines := tshark.Run(t, file, "ipv6.opt.ioam.opt_type == 4", "-e", "ipv6.opt.length")
	if len(lines) != len(frames) || len(r.triggers) != len(frames) {
		t.Fatalf("%d frames: tshark finds %d, we %d", len(frames), len(lines), len(r.triggers))
	}
	for i, line := range lines {
		want := 10
		for _, known := range []bool{r.triggers[i].FlowID.Present, r.triggers[i].Sequence.Present} {
			if known {
				want += 4
			}
		}
		if lengths := strings.Split(line, ","); lengths[1] != strconv.Itoa(want) { // after a PadN
			t.Errorf("frame %d: tshark reads the lengths %v, we %d", i+1, lengths, want)
		}
	}
}
