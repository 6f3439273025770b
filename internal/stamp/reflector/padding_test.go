// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/waymark-net/waymark/stamp"
)

// What is no TLV comes back as it is; what is one, but malformed, has the M flag.
func TestPadding(t *testing.T) {
	checkTLVs(t, []tlvCase{
		{"type 0", "00000000", "00000000", nil},
		{"padding of zeros, odd", zeros(27), zeros(27), nil},
		{"one octet of padding", "00", "00", nil},
		{"three octets of padding", "000000", "000000", nil},
		{"type 0 after a TLV", "80010002 abcd 00000000 80030004 00000000", "00010002 abcd 00000000 80030004 00000000", nil},
		{"random padding, a known type that is cut", "35050f00 1122", "35050f00 1122", nil},
		{"random padding, a wrong length", "7f040001 aabbcc", "7f040001 aabbcc", nil},
		{"random padding, an unknown type", "1f770001 aabbcc", "1f770001 aabbcc", nil},
		{"random padding, with the U flag", "95777001 aabbcc", "95777001 aabbcc", nil},
		{"an unknown type that is cut", "80777001 aabbcc", "40777001 aabbcc", nil},
		{"a known type that is cut, reserved flags", "95057001 aabbcc", "40057001 aabbcc", nil},
		{"an unknown type after a TLV, cut and without the U flag", "80010000 00777001 aa", "00010000 40777001 aa", nil},
		{"without the U flag, but right", "00040004 28000000", "00040004 28ac0000", nil},
	})
}

// Padding of TWAMP Light comes back octet for octet, and nothing is counted as wrong,
// but for what by chance looks like a TLV.
func TestPaddingOfTWAMPLight(t *testing.T) {
	r := newReflector(t, nil)
	random := rand.New(rand.NewPCG(1, 2))
	const packets = 10_000
	changed := 0
	for range packets {
		padding := make([]byte, 27+random.IntN(200))
		for i := range padding {
			padding[i] = byte(random.Uint32())
		}
		d := packet(t, stamp.Unauthenticated, sent, nil, bytes.Clone(padding))
		if _, got := answerOf(t, r, &d); !bytes.Equal(got, padding) {
			changed++
		}
	}
	// The U flag alone is one of 256 first octets, a known type with it one of 150 starts.
	notes := r.Counts().Notes
	if limit := packets / 64; changed > limit || notes[TLVMalformed] > uint64(limit) {
		t.Errorf("%d of %d changed, %d malformed", changed, packets, notes[TLVMalformed])
	}
	zeros := packet(t, stamp.Unauthenticated, sent, nil, make([]byte, 1000))
	before := r.Counts().Notes
	if _, got := answerOf(t, r, &zeros); !bytes.Equal(got, make([]byte, 1000)) || r.Counts().Notes != before {
		t.Errorf("%x, %v", got, r.Counts().Notes)
	}
}
