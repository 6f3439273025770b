// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
)

// Flags are the STAMP TLV Flags (RFC 8972 §4).
type Flags uint8

// Flags. A sender sends only FlagUnrecognized, set; the reflector answers with what
// it found.
const (
	FlagUnrecognized Flags = 0x80 // U: the reflector has not understood the TLV
	FlagMalformed    Flags = 0x40 // M: its length is wrong; what follows was not read
	FlagIntegrity    Flags = 0x20 // I: the HMAC of the TLVs is wrong
)

// Type is the type of a TLV (RFC 8972 §5.1).
type Type uint8

// Types.
const (
	TypeExtraPadding           Type = 1  // RFC 8972 §4.1
	TypeLocation               Type = 2  // RFC 8972 §4.2
	TypeTimestampInformation   Type = 3  // RFC 8972 §4.3
	TypeClassOfService         Type = 4  // RFC 8972 §4.4
	TypeDirectMeasurement      Type = 5  // RFC 8972 §4.5
	TypeAccessReport           Type = 6  // RFC 8972 §4.6
	TypeFollowUpTelemetry      Type = 7  // RFC 8972 §4.7
	TypeHMAC                   Type = 8  // RFC 8972 §4.8
	TypeDestinationNodeAddress Type = 9  // RFC 9503 §3
	TypeReturnPath             Type = 10 // RFC 9503 §4
	TypeMicroSession           Type = 11 // RFC 9534 §3.1
)

// IsPrivate reports whether the type is for private use: the value then starts with
// the vendor's enterprise number (RFC 8972 §4).
func (t Type) IsPrivate() bool { return t >= 252 && t <= 254 }

// String returns the name used in output, such as "class-of-service", or "type-N".
func (t Type) String() string {
	names := [...]string{1: "extra-padding", "location", "timestamp-information", "class-of-service", "direct-measurement",
		"access-report", "follow-up-telemetry", "hmac", "destination-node-address", "return-path", "micro-session"}
	if t == 0 || int(t) >= len(names) {
		return fmt.Sprintf("type-%d", uint8(t))
	}
	return names[t]
}

// TLVHeaderLen is the length of a TLV before its value.
const TLVHeaderLen = 4

// TLV is a TLV or a sub-TLV in a packet; it aliases the packet.
type TLV struct {
	Offset int // in the buffer that TLVs was given
	raw    []byte
}

// Flags are the TLV's flags.
func (t TLV) Flags() Flags { return Flags(t.raw[0]) }

// SetFlags changes the TLV's flags in the packet. Reserved flags are "zeroed on
// transmit" by giving only known ones (RFC 8972 §4).
func (t TLV) SetFlags(f Flags) { t.raw[0] = byte(f) }

// Type is the TLV's type; 0, which is reserved, if the packet ends before it.
func (t TLV) Type() Type {
	if len(t.raw) < 2 {
		return 0
	}
	return Type(t.raw[1])
}

// SetType changes the TLV's type in the packet, as a reflector does that answers a
// sub-TLV with a more specific one (RFC 8972 §4.2).
func (t TLV) SetType(to Type) {
	if len(t.raw) >= 2 {
		t.raw[1] = byte(to)
	}
}

// Value is the TLV's value. Of a truncated TLV it is what the packet has of it.
func (t TLV) Value() []byte {
	if len(t.raw) < TLVHeaderLen {
		return nil
	}
	return t.raw[TLVHeaderLen:]
}

// TLVs yields the TLVs in a buffer: what follows the base packet, or the sub-TLVs of
// a value. If the buffer ends within a TLV, it is yielded last, with an error whose
// cause is ErrTLVTruncated. Its flags can still be set.
func TLVs(b []byte) iter.Seq2[TLV, error] {
	return func(yield func(TLV, error) bool) {
		for offset := 0; offset < len(b); {
			rest := b[offset:]
			if len(rest) < TLVHeaderLen || len(rest)-TLVHeaderLen < int(binary.BigEndian.Uint16(rest[2:])) {
				yield(TLV{offset, rest}, fault(offset, "RFC 8972 §4", ErrTLVTruncated))
				return
			}
			end := TLVHeaderLen + int(binary.BigEndian.Uint16(rest[2:]))
			if !yield(TLV{offset, rest[:end:end]}, nil) {
				return
			}
			offset += end
		}
	}
}

// AppendTLV appends a TLV. The cause of an error is ErrTLVTooLong.
func AppendTLV(dst []byte, f Flags, t Type, value []byte) ([]byte, error) {
	if len(value) > math.MaxUint16 {
		return dst, fault(len(dst), "RFC 8972 §4", ErrTLVTooLong)
	}
	dst = append(dst, byte(f), byte(t))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(value)))
	return append(dst, value...), nil
}

// AppendPrivate appends the value of a TLV or sub-TLV for private use: the vendor's
// enterprise number, then data that only the vendor knows (RFC 8972 §4).
func AppendPrivate(dst []byte, enterprise uint32, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, enterprise), data...)
}

// DecodePrivate splits the value of a TLV for private use. The data alias it.
func DecodePrivate(value []byte) (enterprise uint32, data []byte, err error) {
	if len(value) < 4 {
		return 0, nil, fault(0, "RFC 8972 §4", ErrTLVLength)
	}
	return binary.BigEndian.Uint32(value), value[4:], nil
}

// CheckValue reports whether the length of a value is valid for its type; the causes
// of an error are ErrTLVLength and ErrTLVTruncated. A reflector sets the M flag then.
// Every value of an unknown type is valid.
func CheckValue(t Type, value []byte) error {
	want, section := len(value), "RFC 8972 §4"
	switch t {
	case TypeLocation:
		return checkLocation(value)
	case TypeReturnPath:
		return checkReturnPath(value)
	case TypeTimestampInformation: // optional sub-TLVs may follow
		want, section = max(len(value), timestampInformationLen), "RFC 8972 §4.3"
	case TypeClassOfService:
		want, section = classOfServiceLen, "RFC 8972 §4.4"
	case TypeDirectMeasurement:
		want, section = directMeasurementLen, "RFC 8972 §4.5"
	case TypeAccessReport:
		want, section = accessReportLen, "RFC 8972 §4.6"
	case TypeFollowUpTelemetry:
		want, section = followUpLen, "RFC 8972 §4.7"
	case TypeHMAC:
		want, section = HMACLen, "RFC 8972 §4.8"
	case TypeDestinationNodeAddress:
		if want, section = 16, "RFC 9503 §3"; len(value) == 4 {
			want = 4
		}
	case TypeMicroSession:
		want, section = microSessionLen, "RFC 9534 §3.1"
	default:
		if t.IsPrivate() {
			want = max(len(value), 4)
		}
	}
	if len(value) != want {
		return fault(0, section, ErrTLVLength)
	}
	return nil
}
