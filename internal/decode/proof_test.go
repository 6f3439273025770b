// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/ioam"
)

func TestProofs(t *testing.T) {
	p := ioam.ProofOfTransit{Namespace: 123, PktID: 0x1234, Cumulative: 0x0fedcba987654321}
	unknown := ioam.IOAMOption{OptionType: ioam.OptionIOAM, Type: ioam.IOAMProofOfTransit, Data: []byte{0, 123, 1, 0}}.Option()
	r := decodeCapture(t, pcapng(t, LinkRaw, udp(0, options(t, 17, p.Option(), trace(1, 2))), udp(0, options(t, 17, unknown))))
	const want = `{"kind":"proof-of-transit","time":"2026-11-21T05:21:00.123456000Z","interface":"eth7","namespace":123,"flags":"0x00",` +
		`"pkt_id":"0x0000000000001234","cumulative":"0x0fedcba987654321","packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2",` +
		`"next_header":17,"source_port":4242,"destination_port":9,"flow_label":74565,"length":`
	if len(r.lines) != 2 || !strings.HasPrefix(r.lines[0], want) || !r.complete || r.summary.Others[ioam.IOAMProofOfTransit] != 1 {
		t.Fatalf("%q, faults %q, others %v\nwant %s", r.lines, r.faults, r.summary.Others, want)
	}
	const text = "proof of transit, namespace 123, packet 0x0000000000001234, cumulative 0x0fedcba987654321\n"
	if got := r.proofs[0].Text(); !strings.HasSuffix(got, text) {
		t.Errorf("%q, want %q at the end", got, text)
	}
	short := ioam.IOAMOption{OptionType: ioam.OptionIOAM, Type: ioam.IOAMProofOfTransit, Data: make([]byte, ioam.ProofLen-4)}.Option()
	r = decodeCapture(t, pcapng(t, LinkRaw, udp(0, options(t, 17, short))))
	if len(r.lines) != 0 || len(r.faults) != 1 || !strings.Contains(r.faults[0], "too short") {
		t.Errorf("an option that is too short: %q, faults %q", r.lines, r.faults)
	}
}

// tshark 4.0 does not decode a proof, but finds the option, checks its length and reads
// its IOAM option-type.
func TestProofsAgainstTshark(t *testing.T) {
	rng := rand.New(rand.NewPCG(91, 97))
	var frames [][]byte
	for range 50 {
		p := ioam.ProofOfTransit{Namespace: ioam.NamespaceID(rng.Uint32()), PktID: rng.Uint64(), Cumulative: rng.Uint64()}
		frames = append(frames, frame(LinkEthernet, udp(0, options(t, 17, p.Option()))))
	}
	capture := pcapng(t, LinkEthernet, frames...)
	file := filepath.Join(t.TempDir(), "pot.pcapng")
	if err := os.WriteFile(file, capture, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, line := range tshark.Run(t, file, "_ws.malformed", "-e", "frame.number") {
		t.Errorf("tshark finds frame %s malformed", line)
	}
	r := decodeCapture(t, capture)
	lines := tshark.Run(t, file, "ipv6.opt.ioam.opt_type == 2", "-e", "ipv6.opt.length")
	if len(lines) != len(frames) || len(r.proofs) != len(frames) {
		t.Fatalf("%d frames: tshark finds %d, we %d", len(frames), len(lines), len(r.proofs))
	}
	for i, line := range lines {
		if lengths := strings.Split(line, ","); lengths[1] != "22" { // after a PadN
			t.Errorf("frame %d: tshark reads the lengths %v", i+1, lengths)
		}
	}
}
