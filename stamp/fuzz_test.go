// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"bytes"
	"testing"

	"github.com/waymark-net/waymark/test/craft"
)

// Packets of both modes and directions survive decoding and encoding, besides what must
// be zero.
func FuzzPackets(f *testing.F) {
	for _, octets := range []string{senderOctets, reflectorOctets, senderAuthOctets + noHMAC, reflectorAuthOctets + noHMAC} {
		f.Add(craft.Hex(f, octets))
	}
	f.Add([]byte{1, 2, 3})
	a := NewAuthenticator([]byte("a key of sixteen"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []Mode{Unauthenticated, Authenticated} {
			s, err := DecodeSender(b, m)
			if (err == nil) != (len(b) >= m.BaseLen()) {
				t.Fatalf("%d octets: %v", len(b), err)
			}
			a.Verify(b)
			if err != nil {
				continue
			}
			again := make([]byte, m.BaseLen())
			s.Put(again, m)
			if back, err := DecodeSender(again, m); err != nil || back != s {
				t.Fatalf("%+v became %+v (%v)", s, back, err)
			}
			r, err := DecodeReflector(b, m)
			if err != nil {
				t.Fatal(err)
			}
			r.Put(again, m)
			if back, err := DecodeReflector(again, m); err != nil || back != r {
				t.Fatalf("%+v became %+v (%v)", r, back, err)
			}
			if _, ok := r.Error.Duration(); ok == (r.Error.Multiplier() == 0) {
				t.Fatalf("estimate %#x: %v", uint16(r.Error), ok)
			}
			if ns, ok := NTP.Nanoseconds(r.Received, 0); !ok && r.Received != 0 || PTP.Timestamp(ns, 0) == 0 && ns != 0 {
				t.Fatalf("%#x became %d", uint64(r.Received), ns)
			}
		}
	})
}

// Any octets after a base packet can be walked, checked, decoded, signed and verified,
// and no length changes.
func FuzzTLVs(f *testing.F) {
	location, _ := AppendTLV(nil, FlagUnrecognized, TypeLocation, AppendLocationRequest(nil))
	for _, octets := range []string{
		"80040004 b8000000 80080010 00000000000000000000000000000000 80010002 0102", "800a0008 80010004 00000001",
		"800a0024 80040020 20010db8000a00000000000000000000 20010db8000000000000000000000001", "80fd0008 00007ed9 01020304 80060004 10010000",
		"80070010 00000000 00000000 00000000 00000000 800b0004 00010002 80090004 c0000201", "80030004 00000000 8005000c 000000010000000000000000", "8001ffff 00",
	} {
		f.Add(craft.Hex(f, octets))
	}
	f.Add(location)
	a := NewAuthenticator([]byte("a key of sixteen"))
	f.Fuzz(func(t *testing.T, b []byte) {
		whole := bytes.Clone(b)
		end := 0
		for one, err := range TLVs(b) {
			if one.Offset != end {
				t.Fatalf("a TLV at %d, the one before ends at %d", one.Offset, end)
			}
			one.SetFlags(one.Flags())
			one.SetType(one.Type())
			if err != nil {
				end = len(b)
				break
			}
			end += TLVHeaderLen + len(one.Value())
			checkTLV(t, one)
		}
		if end != len(b) || !bytes.Equal(b, whole) {
			t.Fatalf("TLVs end at %d of %d, or changed", end, len(b))
		}
		i := a.VerifyTLVs(1, b)
		Intact(i, Authenticated, b)
		if a.SignTLVs(1, b) && i == Verified && !bytes.Equal(b, whole) {
			t.Fatal("the HMAC that was verified is another one")
		}
	})
}

// checkTLV decodes a value as every type: what CheckValue accepts is decoded.
func checkTLV(t *testing.T, one TLV) {
	t.Helper()
	value := one.Value()
	for kind := range Type(255) {
		valid := CheckValue(kind, value) == nil
		var err error
		switch kind {
		case TypeLocation:
			_, err = DecodeLocation(value)
		case TypeTimestampInformation:
			_, err = DecodeTimestampInformation(value)
		case TypeClassOfService:
			_, err = DecodeClassOfService(value)
		case TypeDirectMeasurement:
			_, err = DecodeDirectMeasurement(value)
		case TypeFollowUpTelemetry:
			_, err = DecodeFollowUpTelemetry(value)
		case TypeDestinationNodeAddress:
			_, err = DecodeAddress(value)
		case TypeReturnPath:
			_, err = DecodeReturnPath(value)
		case TypeMicroSession:
			_, err = DecodeMicroSession(value)
		case 252:
			_, _, err = DecodePrivate(value)
		case TypeAccessReport:
			DecodeAccessReport(value)
			continue
		default:
			continue
		}
		if valid != (err == nil) {
			t.Fatalf("%v %x: valid %v, decoded with %v", kind, value, valid, err)
		}
	}
}
