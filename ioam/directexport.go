// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/binary"
	"math/bits"
)

// Extension-Flags of a Direct Export option; each stands for an optional field
// of 4 octets (RFC 9326 §3.2).
const (
	ExtensionFlowID   uint8 = 0x80
	ExtensionSequence uint8 = 0x40
)

// DirectExportLen is the length in bytes of a Direct Export option without
// optional fields, after the IOAM Option-Type.
const DirectExportLen = 8

// DirectExport is a Direct Export option (RFC 9326 §3.2): the trigger to
// export, instead of to write, what its trace type asks for.
type DirectExport struct {
	Namespace      NamespaceID
	Flags          uint8
	ExtensionFlags uint8
	Type           TraceType
	FlowID         uint32 // 0 unless HasFlowID
	Sequence       uint32 // of the flow's packets with the option, from 0; 0 unless HasSequence
}

// HasFlowID reports whether the option has a Flow ID.
func (d DirectExport) HasFlowID() bool { return d.ExtensionFlags&ExtensionFlowID != 0 }

// HasSequence reports whether the option has a Sequence Number.
func (d DirectExport) HasSequence() bool { return d.ExtensionFlags&ExtensionSequence != 0 }

// Len is the length in bytes of what follows the IOAM Option-Type: "the
// Extension-Flags field explicitly indicates the length" (RFC 9326 §3.2).
func (d DirectExport) Len() int {
	return DirectExportLen + 4*bits.OnesCount8(d.ExtensionFlags)
}

// DecodeDirectExport decodes what follows the IOAM Option-Type. Unknown optional
// fields, the reserved octet and anything after the option are ignored. The cause of an
// error is ErrTruncated.
func DecodeDirectExport(b []byte) (DirectExport, error) {
	if len(b) < DirectExportLen || len(b) < (DirectExport{ExtensionFlags: b[3]}).Len() {
		return DirectExport{}, fault(len(b), "RFC 9326 §3.2", ErrTruncated)
	}
	d := DirectExport{
		Namespace:      NamespaceID(binary.BigEndian.Uint16(b)),
		Flags:          b[2],
		ExtensionFlags: b[3],
		Type:           TraceType(binary.BigEndian.Uint32(b[4:]) >> 8),
	}
	// In the order of their flags, the most significant first; the two that
	// are known come before all others.
	optional := b[DirectExportLen:]
	if d.HasFlowID() {
		d.FlowID, optional = binary.BigEndian.Uint32(optional), optional[4:]
	}
	if d.HasSequence() {
		d.Sequence = binary.BigEndian.Uint32(optional)
	}
	return d, nil
}

// Append appends the option's data. Unknown optional fields are 0.
func (d DirectExport) Append(dst []byte) []byte {
	end := len(dst) + d.Len()
	dst = binary.BigEndian.AppendUint16(dst, uint16(d.Namespace))
	dst = append(dst, d.Flags, d.ExtensionFlags)
	dst = binary.BigEndian.AppendUint32(dst, uint32(d.Type)<<8)
	if d.HasFlowID() {
		dst = binary.BigEndian.AppendUint32(dst, d.FlowID)
	}
	if d.HasSequence() {
		dst = binary.BigEndian.AppendUint32(dst, d.Sequence)
	}
	return append(dst, make([]byte, end-len(dst))...)
}

// Option returns the option to append to a Hop-by-Hop header. RFC 9486 §3 puts it into
// OptionIOAMStatic, the default for 0; other implementations use OptionIOAM.
func (d DirectExport) Option(t OptionType) Option {
	if t == 0 {
		t = OptionIOAMStatic
	}
	return Option{Type: t, Data: d.Append([]byte{0, byte(IOAMDirectExport)})}
}

// DirectExport decodes the option's Direct Export. Offsets of an error count
// from the start of the extension header.
func (o IOAMOption) DirectExport() (DirectExport, error) {
	if o.Type != IOAMDirectExport {
		return DirectExport{}, fault(o.Offset+3, "RFC 9326 §3.2", ErrNotDirectExport)
	}
	d, err := DecodeDirectExport(o.Data)
	if err != nil {
		return DirectExport{}, fault(o.Offset+1, "RFC 9326 §3.2", ErrOptionLength)
	}
	return d, nil
}
