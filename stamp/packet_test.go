// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/waymark-net/waymark/test/craft"
)

var (
	sent      = SenderPacket{Sequence: 0x01020304, Timestamp: 0x1112131415161718, Error: 0xbf21, SSID: 0x3132}
	reflected = ReflectorPacket{
		Sequence: 0x41424344, Timestamp: 0x5152535455565758, Error: 0xff61, SSID: 0x3132, Received: 0x7172737475767778,
		Sender: SenderPacket{Sequence: 0x01020304, Timestamp: 0x1112131415161718, Error: 0xbf21}, SenderTTL: 254,
	}
)

// The octets of RFC 8972, figures 1 to 4.
const (
	senderOctets        = `01020304 11121314 15161718 bf21 3132 00000000 00000000 00000000 00000000 00000000 00000000 00000000`
	reflectorOctets     = `41424344 51525354 55565758 ff61 3132 71727374 75767778 01020304 11121314 15161718 bf21 0000 fe000000`
	senderAuthOctets    = `01020304 00000000 00000000 00000000 11121314 15161718 bf21 3132` + zeros68
	reflectorAuthOctets = `41424344 00000000 00000000 00000000 51525354 55565758 ff61 3132 00000000 71727374 75767778 00000000 00000000 ` +
		`01020304 00000000 00000000 00000000 11121314 15161718 bf21 000000000000 fe 000000000000000000000000000000`
	zeros68 = `00000000000000000000000000000000000000000000000000000000000000000000` +
		`00000000000000000000000000000000000000000000000000000000000000000000`
	noHMAC        = `00000000000000000000000000000000`
	keyOctets     = `000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f`
	hmacTLVOffset = 8
)

func TestGoldenPackets(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		mode       Mode
		put        func([]byte, Mode) bool
	}{
		{"sender", senderOctets, Unauthenticated, sent.Put},
		{"reflector", reflectorOctets, Unauthenticated, reflected.Put},
		{"authenticated sender", senderAuthOctets + noHMAC, Authenticated, sent.Put},
		{"authenticated reflector", reflectorAuthOctets + noHMAC, Authenticated, reflected.Put},
	} {
		want := craft.Hex(t, tt.want)
		got := bytes.Repeat([]byte{0xee}, len(want)+1) // what must be zero is written
		if !tt.put(got, tt.mode) || !bytes.Equal(got[:len(want)], want) || got[len(want)] != 0xee {
			t.Errorf("%s:\n%x, want\n%x", tt.name, got, want)
		}
		if len(want) != tt.mode.BaseLen() {
			t.Errorf("%s: %d octets, want %d", tt.name, len(want), tt.mode.BaseLen())
		}
		if short := make([]byte, len(want)-1); tt.put(short, tt.mode) || !bytes.Equal(short, make([]byte, len(short))) {
			t.Errorf("%s: written into a buffer that is too short", tt.name)
		}
	}
}

func TestDecodePackets(t *testing.T) {
	for _, tt := range []struct {
		mode              Mode
		sender, reflector string
	}{{Unauthenticated, senderOctets, reflectorOctets}, {Authenticated, senderAuthOctets + noHMAC, reflectorAuthOctets + noHMAC}} {
		b := craft.Hex(t, tt.sender)
		if p, err := DecodeSender(b, tt.mode); err != nil || p != sent {
			t.Errorf("%+v, %v; want %+v", p, err, sent)
		}
		if _, err := DecodeSender(b[:len(b)-1], tt.mode); !errors.Is(err, ErrTruncated) {
			t.Errorf("a short packet: %v", err)
		}
		b = craft.Hex(t, tt.reflector)
		if p, err := DecodeReflector(append(b, 1, 2, 3), tt.mode); err != nil || p != reflected {
			t.Errorf("%+v, %v; want %+v", p, err, reflected)
		}
		if _, err := DecodeReflector(b[:len(b)-1], tt.mode); !errors.Is(err, ErrTruncated) {
			t.Errorf("a short reply: %v", err)
		}
	}
}

// The HMAC covers the first 96 octets, and is the one of the standard library.
func TestSign(t *testing.T) {
	key := craft.Hex(t, keyOctets)
	a := NewAuthenticator(key)
	b := make([]byte, 120)
	sent.Put(b, Authenticated)
	mac := hmac.New(sha256.New, key)
	mac.Write(b[:96])
	if !a.Sign(b) || !bytes.Equal(b[96:112], mac.Sum(nil)[:16]) {
		t.Errorf("HMAC %x", b[96:112])
	}
	if !a.Verify(b) || a.Verify(b[:111]) || a.Sign(b[:111]) {
		t.Error("the length is not checked, or the right HMAC is refused")
	}
	for i := range 112 {
		b[i] ^= 1
		if a.Verify(b) {
			t.Errorf("octet %d is not covered", i)
		}
		b[i] ^= 1
	}
	if NewAuthenticator([]byte("another key of its own")).Verify(b) {
		t.Error("another key verifies it")
	}
}

// tlvs are the TLVs of a packet with an HMAC TLV and another after it.
func tlvs(t *testing.T, a *Authenticator, sequence uint32, after ...byte) []byte {
	t.Helper()
	b, err := AppendTLV(nil, FlagUnrecognized, TypeClassOfService, ClassOfService{Wanted: 46}.Append(nil))
	if err == nil {
		b, err = AppendTLV(b, FlagUnrecognized, TypeHMAC, make([]byte, HMACLen))
	}
	if err != nil || !a.SignTLVs(sequence, b) {
		t.Fatalf("sign TLVs: %v", err)
	}
	return append(b, after...)
}

func TestVerifyTLVs(t *testing.T) {
	a := NewAuthenticator(craft.Hex(t, keyOctets))
	right := tlvs(t, a, 7)
	for _, tt := range []struct {
		name string
		b    []byte
		want TLVIntegrity
	}{
		{"none", nil, Unprotected},
		{"only padding", []byte{0, 1, 0, 1, 9}, Unprotected},
		{"right", right, Verified},
		{"right, then padding", tlvs(t, a, 7, 0, 1, 0, 2, 9, 9), Verified},
		{"another TLV after it", tlvs(t, a, 7, 0, 3, 0, 4, 0, 0, 0, 0), Failed},
		{"a second one", append(bytes.Clone(right), right[hmacTLVOffset:]...), Failed},
		{"a cut TLV after it", tlvs(t, a, 7, 0, 1, 0, 2, 9), Failed},
		{"another number", tlvs(t, a, 8), Failed},
		{"too short", []byte{0, 8, 0, 1, 9}, Failed},
		{"cut", right[:len(right)-1], Unprotected},
	} {
		if got := a.VerifyTLVs(7, tt.b); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	for i := range right {
		b := bytes.Clone(right)
		b[i] ^= 2 // its flags, too: HMACs cover whole TLVs
		if got := a.VerifyTLVs(7, b); got == Verified && i != hmacTLVOffset {
			t.Errorf("octet %d is not covered", i)
		}
	}
}

func TestIntact(t *testing.T) {
	padding, two := []byte{0, 1, 0, 1, 9}, []byte{0, 1, 0, 0, 0, 1, 0, 0}
	for _, tt := range []struct {
		i    TLVIntegrity
		m    Mode
		b    []byte
		want bool
	}{
		{Verified, Authenticated, nil, true}, {Failed, Unauthenticated, nil, false}, {Unprotected, Unauthenticated, two, true},
		{Unprotected, Authenticated, padding, true}, {Unprotected, Authenticated, two, false},
		{Unprotected, Authenticated, []byte{0, 4, 0, 0}, false}, {Unprotected, Authenticated, []byte{0, 1, 0}, false},
	} {
		if got := Intact(tt.i, tt.m, tt.b); got != tt.want {
			t.Errorf("%v in mode %v with %x: %v", tt.i, tt.m, tt.b, got)
		}
	}
}

// Encoding, decoding and HMACs of a packet with TLVs do not allocate.
func TestAllocations(t *testing.T) {
	a := NewAuthenticator(craft.Hex(t, keyOctets))
	b := make([]byte, Authenticated.BaseLen(), 200)
	b = append(b, tlvs(t, a, sent.Sequence)...)
	if n := testing.AllocsPerRun(100, func() {
		sent.Put(b, Authenticated)
		a.Sign(b)
		if p, err := DecodeSender(b, Authenticated); err != nil || p != sent || !a.Verify(b) {
			t.Error("decoded otherwise")
		}
		for one, err := range TLVs(b[Authenticated.BaseLen():]) {
			if err != nil || CheckValue(one.Type(), one.Value()) != nil {
				t.Error(err)
			}
			one.SetFlags(0)
		}
		if !a.SignTLVs(sent.Sequence, b[Authenticated.BaseLen():]) || a.VerifyTLVs(sent.Sequence, b[Authenticated.BaseLen():]) != Verified {
			t.Error("the HMAC is wrong")
		}
		reflected.Put(b, Unauthenticated)
		if _, err := DecodeReflector(b, Unauthenticated); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkReflectUnauthenticated(b *testing.B) {
	packet := make([]byte, 44)
	sent.Put(packet, Unauthenticated)
	for b.Loop() {
		p, _ := DecodeSender(packet, Unauthenticated)
		r := ReflectorPacket{Sequence: p.Sequence, Sender: p, SSID: p.SSID}
		r.Put(packet, Unauthenticated)
	}
}

func BenchmarkReflectAuthenticated(b *testing.B) {
	packet, a := make([]byte, 112), NewAuthenticator([]byte("a key of sixteen"))
	sent.Put(packet, Authenticated)
	for b.Loop() {
		a.Verify(packet)
		p, _ := DecodeSender(packet, Authenticated)
		r := ReflectorPacket{Sequence: p.Sequence, Sender: p, SSID: p.SSID}
		r.Put(packet, Authenticated)
		a.Sign(packet)
	}
}
