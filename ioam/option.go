// SPDX-License-Identifier: Apache-2.0

package ioam

import "fmt"

// IOAMType is the IOAM Option-Type (RFC 9197 §7.1).
type IOAMType uint8

// IOAM Option-Types.
const (
	IOAMPreallocatedTrace IOAMType = 0 // RFC 9197 §4.4
	IOAMIncrementalTrace  IOAMType = 1 // RFC 9197 §4.4
	IOAMProofOfTransit    IOAMType = 2 // RFC 9197 §4.5
	IOAMEdgeToEdge        IOAMType = 3 // RFC 9197 §4.6
	IOAMDirectExport      IOAMType = 4 // RFC 9326 §3
)

// String returns the name used in output: "pre-allocated", "incremental",
// "proof-of-transit", "edge-to-edge", "direct-export", or "option-type-N".
func (t IOAMType) String() string {
	switch t {
	case IOAMPreallocatedTrace:
		return "pre-allocated"
	case IOAMIncrementalTrace:
		return "incremental"
	case IOAMProofOfTransit:
		return "proof-of-transit"
	case IOAMEdgeToEdge:
		return "edge-to-edge"
	case IOAMDirectExport:
		return "direct-export"
	}
	return fmt.Sprintf("option-type-%d", uint8(t))
}

// IsTrace reports whether t is one of the two trace option-types.
func (t IOAMType) IsTrace() bool {
	return t == IOAMPreallocatedTrace || t == IOAMIncrementalTrace
}

// IOAMOption is an option that carries IOAM (RFC 9486 §3): a reserved octet,
// the IOAM Option-Type, and that type's data.
type IOAMOption struct {
	OptionType OptionType // OptionIOAM or OptionIOAMStatic
	Offset     int        // of the option in its extension header, bytes
	Reserved   uint8
	Type       IOAMType
	Data       []byte // after the IOAM Option-Type, aliasing the packet
}

// IsIOAM reports whether the option is treated as IOAM: every option of type 0x31,
// however malformed; and an option of type 0x11, which other, older protocols use too,
// if it looks like the edge-to-edge or direct-export option that RFC 9486 §3 puts
// there.
func (o Option) IsIOAM() bool {
	switch o.Type {
	case OptionIOAM:
		return true
	case OptionIOAMStatic:
		if o.Offset%4 != 0 || len(o.Data) < 2 || o.Data[0] != 0 {
			return false
		}
		switch IOAMType(o.Data[1]) {
		case IOAMEdgeToEdge:
			return len(o.Data) >= 2+4 // RFC 9197 §4.6
		case IOAMDirectExport:
			return len(o.Data) >= 2+8 // RFC 9326 §3
		}
	}
	return false
}

// IOAM decodes an option that carries IOAM. The causes of an error are
// ErrNotIOAM, ErrAlignment and ErrOptionLength.
func (o Option) IOAM() (IOAMOption, error) {
	switch {
	case !o.IsIOAM():
		return IOAMOption{}, fault(o.Offset, "RFC 9486 §3", ErrNotIOAM)
	case o.Offset%4 != 0:
		return IOAMOption{}, fault(o.Offset, "RFC 9486 §3", ErrAlignment)
	case len(o.Data) < 2:
		return IOAMOption{}, fault(o.Offset+1, "RFC 9486 §3", ErrOptionLength)
	}
	return IOAMOption{
		OptionType: o.Type,
		Offset:     o.Offset,
		Reserved:   o.Data[0],
		Type:       IOAMType(o.Data[1]),
		Data:       o.Data[2:],
	}, nil
}

// Option returns the option to append to a header; Data is copied.
func (o IOAMOption) Option() Option {
	data := append(make([]byte, 0, 2+len(o.Data)), o.Reserved, byte(o.Type))
	return Option{Type: o.OptionType, Offset: o.Offset, Data: append(data, o.Data...)}
}

// Trace decodes the option's trace. Offsets of an error count from the start
// of the extension header.
func (o IOAMOption) Trace() (Trace, error) {
	if !o.Type.IsTrace() {
		return Trace{}, fault(o.Offset+3, "RFC 9197 §4.4", ErrNotTrace)
	}
	trace, err := DecodeTrace(o.Data)
	if err != nil {
		return Trace{}, fault(o.Offset+1, "RFC 9197 §4.4.1", ErrOptionLength)
	}
	trace.Incremental = o.Type == IOAMIncrementalTrace
	return trace, nil
}
