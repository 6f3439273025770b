// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/waymark-net/waymark/test/craft"
)

var (
	ipv4 = netip.MustParseAddr("192.0.2.1")
	ipv6 = netip.MustParseAddr("2001:db8::1")
	sid  = netip.MustParseAddr("2001:db8:a::")
)

// Every value has the octets of its figure, and survives decoding.
func TestGoldenValues(t *testing.T) {
	for _, tt := range []struct {
		kind Type
		got  []byte
		want string
		back func(value []byte) bool
	}{
		{TypeTimestampInformation, TimestampInformation{SyncNTP, MethodSoftware, SyncPTP, MethodHardware}.Append(nil), "01020201",
			func(v []byte) bool {
				i, err := DecodeTimestampInformation(v)
				return err == nil && i == TimestampInformation{SyncNTP, MethodSoftware, SyncPTP, MethodHardware}
			}},
		{TypeClassOfService, ClassOfService{46, 10, 3, 1}.Append(nil), "b8ad0000", // 101110 001010 11 01
			func(v []byte) bool {
				c, err := DecodeClassOfService(v)
				return err == nil && c == ClassOfService{46, 10, 3, 1}
			}},
		{TypeDirectMeasurement, DirectMeasurement{1, 2, 0xfffffffe}.Append(nil), "00000001 00000002 fffffffe",
			func(v []byte) bool {
				d, err := DecodeDirectMeasurement(v)
				return err == nil && d == DirectMeasurement{1, 2, 0xfffffffe}
			}},
		{TypeAccessReport, AccessReport{2, 1}.Append(nil), "20010000",
			func(v []byte) bool { r, err := DecodeAccessReport(v); return err == nil && r == AccessReport{2, 1} }},
		{TypeFollowUpTelemetry, FollowUpTelemetry{7, 0x1112131415161718, MethodSoftware}.Append(nil), "00000007 11121314 15161718 02000000",
			func(v []byte) bool {
				f, err := DecodeFollowUpTelemetry(v)
				return err == nil && f == FollowUpTelemetry{7, 0x1112131415161718, MethodSoftware}
			}},
		{TypeMicroSession, MicroSession{0x0102, 0x0304}.Append(nil), "01020304",
			func(v []byte) bool {
				m, err := DecodeMicroSession(v)
				return err == nil && m == MicroSession{0x0102, 0x0304}
			}},
		{TypeDestinationNodeAddress, ipv6.AsSlice(), "20010db8 00000000 00000000 00000001",
			func(v []byte) bool { a, err := DecodeAddress(v); return err == nil && a == ipv6 }},
		{TypeDestinationNodeAddress, ipv4.AsSlice(), "c0000201",
			func(v []byte) bool { a, err := DecodeAddress(v); return err == nil && a == ipv4 }},
		{TypeReturnPath, AppendControlCode(nil, ReplySameLink), "80010004 00000001",
			func(v []byte) bool {
				p, err := DecodeReturnPath(v)
				return err == nil && p.HasControlCode && p.ControlCode == ReplySameLink
			}},
		{252, AppendPrivate(nil, 32473, []byte{9}), "00007ed9 09",
			func(v []byte) bool {
				e, data, err := DecodePrivate(v)
				return err == nil && e == 32473 && bytes.Equal(data, []byte{9})
			}},
	} {
		want := craft.Hex(t, tt.want)
		if !bytes.Equal(tt.got, want) {
			t.Errorf("%v: %x, want %x", tt.kind, tt.got, want)
		}
		if !tt.back(want) || CheckValue(tt.kind, want) != nil {
			t.Errorf("%v: %x is not decoded", tt.kind, want)
		}
	}
}

func TestSegmentList(t *testing.T) {
	value, err := AppendSegmentList(nil, []netip.Addr{sid, ipv6})
	if want := craft.Hex(t, "80040020 20010db8000a00000000000000000000 20010db8000000000000000000000001"); err != nil ||
		!bytes.Equal(value, want) {
		t.Fatalf("%x, %v", value, err)
	}
	p, err := DecodeReturnPath(append(value, 0x80, 2, 0, 4, 192, 0, 2, 1))
	if err != nil || !bytes.Equal(p.Segments, value[4:]) || p.Address != ipv4 || p.HasControlCode || p.Labels != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := AppendSegmentList(nil, make([]netip.Addr, 4096)); !errors.Is(err, ErrTLVTooLong) {
		t.Errorf("4096 segments: %v", err)
	}
}

// After a control code, everything else is ignored; of two lists, the first counts.
func TestReturnPathPrecedence(t *testing.T) {
	value, _ := AppendSegmentList(nil, []netip.Addr{sid})
	second, _ := AppendSegmentList(nil, []netip.Addr{ipv6})
	if p, err := DecodeReturnPath(append(bytes.Clone(value), second...)); err != nil || !bytes.Equal(p.Segments, value[4:]) {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := DecodeReturnPath(AppendControlCode(bytes.Clone(value), 0xfe)); err != nil || p.Segments != nil || !p.HasControlCode ||
		p.ControlCode != ReplyNone {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestLocation(t *testing.T) {
	value := AppendLocationRequest(nil)
	if want := 4 + 12 + 20 + 20; len(value) != want || CheckValue(TypeLocation, value) != nil {
		t.Fatalf("%d octets, want %d: %x", len(value), want, value)
	}
	if l, err := DecodeLocation(value); err != nil || l != (Location{}) {
		t.Errorf("a request: %+v, %v", l, err)
	}
	copy(value, []byte{3, 94, 0, 80})
	for sub := range TLVs(LocationSubTLVs(value)) {
		sub.SetFlags(0)
		switch sub.Type() {
		case SubSource:
			sub.SetType(SubSourceIPv6)
			copy(sub.Value(), ipv6.AsSlice())
		case SubDestination:
			sub.SetType(SubDestinationIPv4)
			copy(sub.Value(), ipv4.AsSlice())
		}
	}
	if l, err := DecodeLocation(value); err != nil || l != (Location{862, 80, ipv4, ipv6}) {
		t.Errorf("an answer: %+v, %v", l, err)
	}
}

// Lengths that a type does not have are errors: the M flag.
func TestCheckValue(t *testing.T) {
	for _, tt := range []struct {
		kind  Type
		valid []int
	}{
		{TypeLocation, []int{4}}, {TypeTimestampInformation, []int{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}}, {TypeClassOfService, []int{4}}, {TypeDirectMeasurement, []int{12}},
		{TypeAccessReport, []int{4}}, {TypeFollowUpTelemetry, []int{16}}, {TypeHMAC, []int{16}}, {TypeDestinationNodeAddress, []int{4, 16}}, {TypeMicroSession, []int{4}},
		{253, []int{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
	} {
		valid := map[int]bool{}
		for _, n := range tt.valid {
			valid[n] = true
		}
		for n := range 21 {
			value := bytes.Repeat([]byte{0xff}, n) // sub-TLVs of it are truncated
			if err := CheckValue(tt.kind, value); (err == nil) != valid[n] {
				t.Errorf("%v of %d octets: %v", tt.kind, n, err)
			}
		}
	}
	for _, bad := range []struct {
		kind  Type
		value string
		want  error
	}{
		{TypeLocation, "00000000 00010004 00000000", ErrTLVLength}, {TypeLocation, "00000000 0001", ErrTLVTruncated},
		{TypeReturnPath, "00010003 000000", ErrTLVLength}, {TypeReturnPath, "00020005 0000000000", ErrTLVLength},
		{TypeReturnPath, "00030000", ErrTLVLength}, {TypeReturnPath, "00040008 0000000000000000", ErrTLVLength},
		{TypeReturnPath, "00040010 00", ErrTLVTruncated},
	} {
		if err := CheckValue(bad.kind, craft.Hex(t, bad.value)); !errors.Is(err, bad.want) {
			t.Errorf("%v %s: %v, want %v", bad.kind, bad.value, err, bad.want)
		}
	}
	if CheckValue(TypeExtraPadding, nil) != nil || CheckValue(99, []byte{1}) != nil || CheckValue(TypeReturnPath, nil) != nil {
		t.Error("a valid value is refused")
	}
	if _, err := DecodeAccessReport([]byte{0x30, 1, 0, 0}); !errors.Is(err, ErrAccessID) {
		t.Errorf("access 3: %v", err)
	}
}

func TestTLVs(t *testing.T) {
	b := craft.Hex(t, "80040004 b8000000 00fd0005 00007ed909 a0010000 80080010 0102")
	var got []Type
	var last error
	for one, err := range TLVs(b) {
		got, last = append(got, one.Type()), err
		if err != nil {
			one.SetFlags(FlagMalformed)
		} else {
			one.SetFlags(0)
		}
	}
	if want := []Type{4, 253, 1, 8}; len(got) != len(want) || got[1] != want[1] || got[3] != want[3] || !errors.Is(last, ErrTLVTruncated) {
		t.Errorf("%v, %v", got, last)
	}
	if want := craft.Hex(t, "00040004 b8000000 00fd0005 00007ed909 00010000 40080010 0102"); !bytes.Equal(b, want) {
		t.Errorf("%x, want %x", b, want)
	}
	for n := 1; n < TLVHeaderLen; n++ { // not even a header
		rest := make([]byte, n)
		for one, err := range TLVs(rest) {
			if one.SetFlags(FlagMalformed); err == nil || one.Value() != nil || rest[0] != byte(FlagMalformed) {
				t.Errorf("%d octets: %x, %v", n, rest, err)
			}
			one.SetType(9)
		}
	}
	if _, err := AppendTLV(nil, 0, 1, make([]byte, 1<<16)); !errors.Is(err, ErrTLVTooLong) {
		t.Errorf("65536 octets: %v", err)
	}
}

func TestNames(t *testing.T) {
	for want, got := range map[string]string{
		"type-0": Type(0).String(), "extra-padding": TypeExtraPadding.String(), "micro-session": TypeMicroSession.String(), "type-12": Type(12).String(),
		"unknown": SyncUnknown.String(), "free-running": SyncFreeRunning.String(), "source-6": SyncSource(6).String(),
		"method-0": Method(0).String(), "control-plane": MethodControlPlane.String(), "method-255": Method(255).String(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
