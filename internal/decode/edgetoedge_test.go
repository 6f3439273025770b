// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/ioam"
)

// An Edge-to-Edge option is read in a Destination Options header, where RFC 9486 §3 puts
// it, and wherever else it is.
func TestEdgeToEdge(t *testing.T) {
	e := ioam.EdgeToEdge{Namespace: 123, Type: 0x7000, Sequence: 7, Seconds: 1_800_000_000, Fraction: 500}
	const want = `{"kind":"edge-to-edge","time":"2026-11-21T05:21:00.123456000Z","interface":"eth7","namespace":123,"e2e_type":"0x7000",` +
		`"sequence":7,"timestamp":"2027-01-15T08:00:00.000500000Z","packet":{`
	for _, next := range []ioam.NextHeader{ioam.NextHeaderDestination, ioam.NextHeaderHopByHop} {
		r := decodeCapture(t, pcapng(t, LinkRaw, udp(next, options(t, 17, e.Option()))))
		if len(r.lines) != 1 || !strings.HasPrefix(r.lines[0], want) || !r.complete {
			t.Errorf("next header %d: %q, faults %q", next, r.lines, r.faults)
		}
	}
	e.Type |= ioam.EdgeToEdgeSequence64
	r := decodeCapture(t, pcapng(t, LinkRaw, udp(60, options(t, 17, e.Option()))))
	const fault = "IPv6 packet, offset 50: both Sequence Numbers in the IOAM-E2E-Type (RFC 9197 §4.6)"
	if len(r.lines) != 0 || len(r.faults) != 1 || !strings.HasSuffix(r.faults[0], fault) {
		t.Errorf("both Sequence Numbers: %q, faults %q", r.lines, r.faults)
	}
}
