// SPDX-License-Identifier: Apache-2.0

package rfc6374

import (
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
)

// Type is the type of a TLV (RFC 6374 §3.5). Those below 128 are mandatory.
type Type uint8

// Types.
const (
	TypePaddingCopied  Type = 0
	TypeReturnAddress  Type = 1
	TypeQueryInterval  Type = 2
	TypeLoopback       Type = 3
	TypePaddingOmitted Type = 128
	TypeDestination    Type = 129
	TypeSource         Type = 130
	TypeUDPReturn      Type = 131 // RFC 7876 §3.1
)

// IsMandatory reports whether a responder must know the type.
func (t Type) IsMandatory() bool { return t < 128 }

// TLV is a TLV of a message; its value aliases the message.
type TLV struct {
	Type  Type
	Value []byte
}

// All yields the TLVs of a TLV block. If the block ends within one, the last error is
// ErrTLV.
func All(b []byte) iter.Seq2[TLV, error] {
	return func(yield func(TLV, error) bool) {
		for len(b) > 0 {
			if len(b) < 2 || len(b) < 2+int(b[1]) {
				yield(TLV{}, ErrTLV)
				return
			}
			end := 2 + int(b[1])
			if !yield(TLV{Type(b[0]), b[2:end:end]}, nil) {
				return
			}
			b = b[end:]
		}
	}
}

// AppendUDPReturn appends a UDP Return Object: where the response goes (RFC 7876 §3.1).
func AppendUDPReturn(b []byte, to netip.AddrPort) []byte {
	address := to.Addr().AsSlice()
	b = append(b, byte(TypeUDPReturn), byte(2+len(address)))
	return append(binary.BigEndian.AppendUint16(b, to.Port()), address...)
}

// DecodeUDPReturn reads the value of a UDP Return Object.
func DecodeUDPReturn(value []byte) (netip.AddrPort, error) {
	if len(value) != 6 && len(value) != 18 {
		return netip.AddrPort{}, fmt.Errorf("%w: a UDP Return Object of %d octets (RFC 7876 §3.1)", ErrTLV, len(value))
	}
	a, _ := netip.AddrFromSlice(value[2:]) // of 4 or 16 octets
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(value)), nil
}
