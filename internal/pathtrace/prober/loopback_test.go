// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/pathtrace/copies"
	"github.com/waymark-net/waymark/ioam"
)

// copyOf is the header of a copy of a probe with a number, from the second hop; its first
// one wrote again on the way back.
func copyOf(t *testing.T, p *Prober, number uint32) []byte {
	t.Helper()
	header := copies.Identify(slices.Clone(p.askers), p.nonce, number)
	const data = 4 + 4 + ioam.TraceHeaderLen
	binary.BigEndian.PutUint16(header[10:], 1<<11|uint16(ioam.FlagActive)<<7|askNodes-4)
	for i, word := range []uint32{63<<24 | 2, 62<<24 | 3, 254<<24 | 2} {
		binary.BigEndian.PutUint32(header[data+4*(askNodes-2-i):], word)
	}
	return header
}

// Copies show the hops on the way; those that cannot be right are counted or ignored.
func TestCopies(t *testing.T) {
	p, _ := waitingFor(t, func(c *Config) { c.Loopback = true })
	p.asked[9] = asked{1, time.Now()}
	p.paths.Lost(1)
	good := copyOf(t, p, 9)
	p.returned(router, good)
	r := p.Report()
	if p.copied != 1 || r.Copies != 1 || len(r.Broken) != 1 || len(r.Broken[0].Hops) != 2 {
		t.Fatalf("%d copies: %+v", p.copied, r.Broken)
	}
	for i, h := range r.Broken[0].Hops {
		if h.NodeID == nil || int(*h.NodeID) != i+2 || (h.Address != nil) != (i == 1) || i == 1 && *h.Address != router {
			t.Errorf("hop %d: %+v", i+1, h)
		}
	}
	for _, tt := range []struct {
		name   string
		change func([]byte)
		want   [numIgnored]uint64
	}{
		{"another run's", func(b []byte) { b[len(b)-16]++ }, [numIgnored]uint64{}},
		{"another namespace's", func(b []byte) { b[9]++ }, [numIgnored]uint64{}},
		{"not cleared", func(b []byte) { b[10] |= 2 }, [numIgnored]uint64{}},
		{"of no probe", func(b []byte) { copy(b, copyOf(t, p, 10)) }, [numIgnored]uint64{Repeated: 1}},
		{"sent with another hop limit", func(b []byte) { b[4+12+4*(askNodes-1)]-- }, [numIgnored]uint64{Malformed: 1}},
		{"of no node", func(b []byte) { b[11] = askNodes - 1 }, [numIgnored]uint64{Malformed: 1}},
	} {
		p.ignored = [numIgnored]uint64{}
		b := slices.Clone(good)
		tt.change(b)
		p.returned(router, b)
		if p.ignored != tt.want || p.copied != 1 {
			t.Errorf("%s: ignored %v, %d copies", tt.name, p.ignored, p.copied)
		}
	}
	for n := range good { // cut at any place
		p.returned(router, good[:n])
	}
	if p.copied != 1 {
		t.Error("a copy that is cut is taken")
	}
}
