// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/binary"
	"fmt"
)

// POTType is the variant of a Proof of Transit option (RFC 9197 §7.4).
type POTType uint8

// POTType0 has a PktID and a Cumulative of 64 bits each (RFC 9197 §4.5.1).
const POTType0 POTType = 0

// Lengths in bytes of a Proof of Transit option, after the IOAM Option-Type.
const (
	ProofHeaderLen = 4                   // what every POT-Type begins with (RFC 9197 §4.5)
	ProofLen       = ProofHeaderLen + 16 // POT-Type 0 (RFC 9197 §4.5.1)
)

// ProofOfTransit is a Proof of Transit option of POT-Type 0 (RFC 9197 §4.5.1).
type ProofOfTransit struct {
	Namespace  NamespaceID
	Flags      uint8 // none is defined: 0 when sent, ignored when received (RFC 9197 §4.5)
	PktID      uint64
	Cumulative uint64
}

// DecodeProofOfTransit decodes what follows the IOAM Option-Type. Anything after the
// option is ignored. The causes of an error are ErrTruncated and ErrPOTType: "if a node
// receives an IOAM POT-Type value that it does not understand, the node MUST NOT
// change, add to, or remove the contents" (RFC 9197 §4.5).
func DecodeProofOfTransit(b []byte) (ProofOfTransit, error) {
	if len(b) < ProofHeaderLen {
		return ProofOfTransit{}, fault(len(b), "RFC 9197 §4.5", ErrTruncated)
	}
	if POTType(b[2]) != POTType0 {
		return ProofOfTransit{}, fault(2, "RFC 9197 §4.5", ErrPOTType)
	}
	if len(b) < ProofLen {
		return ProofOfTransit{}, fault(len(b), "RFC 9197 §4.5.1", ErrTruncated)
	}
	return ProofOfTransit{
		Namespace:  NamespaceID(binary.BigEndian.Uint16(b)),
		Flags:      b[3],
		PktID:      binary.BigEndian.Uint64(b[4:]),
		Cumulative: binary.BigEndian.Uint64(b[12:]),
	}, nil
}

// Append appends the option's data.
func (p ProofOfTransit) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(p.Namespace))
	dst = append(dst, byte(POTType0), p.Flags)
	dst = binary.BigEndian.AppendUint64(dst, p.PktID)
	return binary.BigEndian.AppendUint64(dst, p.Cumulative)
}

// Option returns the option to append to a Hop-by-Hop header: its data change en route
// (RFC 9486 §3).
func (p ProofOfTransit) Option() Option {
	return Option{Type: OptionIOAM, Data: p.Append([]byte{0, byte(IOAMProofOfTransit)})}
}

// String returns all fields, such as "namespace 123, packet 0x1, cumulative 0x2".
func (p ProofOfTransit) String() string {
	return fmt.Sprintf("namespace %d, packet 0x%x, cumulative 0x%x", p.Namespace, p.PktID, p.Cumulative)
}

// ProofOfTransit decodes the option's proof. Offsets of an error count from the start
// of the extension header. The causes are ErrNotProofOfTransit, ErrOptionLength and
// ErrPOTType.
func (o IOAMOption) ProofOfTransit() (ProofOfTransit, error) {
	switch {
	case o.Type != IOAMProofOfTransit:
		return ProofOfTransit{}, fault(o.Offset+3, "RFC 9197 §4.5", ErrNotProofOfTransit)
	case len(o.Data) >= ProofHeaderLen && POTType(o.Data[2]) != POTType0:
		return ProofOfTransit{}, fault(o.Offset+6, "RFC 9197 §4.5", ErrPOTType)
	}
	p, err := DecodeProofOfTransit(o.Data)
	if err != nil {
		return ProofOfTransit{}, fault(o.Offset+1, "RFC 9197 §4.5", ErrOptionLength)
	}
	return p, nil
}
