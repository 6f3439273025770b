// SPDX-License-Identifier: Apache-2.0

package ioam

import "iter"

// Next Header values that this package knows (RFC 8200 §4).
const (
	NextHeaderHopByHop    NextHeader = 0
	NextHeaderTCP         NextHeader = 6
	NextHeaderUDP         NextHeader = 17
	NextHeaderDCCP        NextHeader = 33
	NextHeaderIPv6        NextHeader = 41
	NextHeaderRouting     NextHeader = 43
	NextHeaderFragment    NextHeader = 44
	NextHeaderAH          NextHeader = 51
	NextHeaderICMPv6      NextHeader = 58
	NextHeaderNone        NextHeader = 59
	NextHeaderDestination NextHeader = 60
	NextHeaderSCTP        NextHeader = 132
	NextHeaderUDPLite     NextHeader = 136
)

// OptionType is the type of an option in a Hop-by-Hop or Destination Options
// header (RFC 8200 §4.2).
type OptionType uint8

// Option types.
const (
	OptionPad1        OptionType = 0x00 // RFC 8200 §4.2
	OptionPadN        OptionType = 0x01 // RFC 8200 §4.2
	OptionRouterAlert OptionType = 0x05 // RFC 2711 §2.1
	OptionJumbo       OptionType = 0xc2 // RFC 2675 §2

	// OptionIOAM carries IOAM that may change en route (RFC 9486 §3).
	OptionIOAM OptionType = 0x31
	// OptionIOAMStatic carries IOAM that does not change (RFC 9486 §3). Other
	// protocols use the value too.
	OptionIOAMStatic OptionType = 0x11
)

// Discards reports whether a node that does not know the option discards the packet
// instead of skipping the option (RFC 8200 §4.2).
func (t OptionType) Discards() bool { return t&0xc0 != 0 }

// IsPadding reports whether t is Pad1 or PadN.
func (t OptionType) IsPadding() bool { return t == OptionPad1 || t == OptionPadN }

// alignment is the option's xn+y requirement (RFC 8200 §4.2), of its type
// octet relative to the start of the header.
func (t OptionType) alignment() (x, y int) {
	switch t {
	case OptionIOAM, OptionIOAMStatic:
		return 4, 0 // RFC 9486 §3
	case OptionJumbo:
		return 4, 2 // RFC 2675 §2
	case OptionRouterAlert:
		return 2, 0 // RFC 2711 §2.1
	}
	return 1, 0
}

// Option is one option of an extension header. Data aliases the buffer that
// was decoded.
type Option struct {
	Type   OptionType
	Offset int    // of the type octet, bytes from the start of the extension header
	Data   []byte // after the length octet; nil for Pad1
}

// ExtensionHeader is a view of a Hop-by-Hop or Destination Options header
// (RFC 8200 §4.3 and §4.6), which share one format.
type ExtensionHeader struct {
	NextHeader NextHeader
	Bytes      []byte // the whole header, a multiple of 8 bytes
}

// DecodeExtensionHeader returns a view of the header at the start of b; bytes after the
// header are ignored.
func DecodeExtensionHeader(b []byte) (ExtensionHeader, error) {
	if len(b) < 2 {
		return ExtensionHeader{}, fault(len(b), "RFC 8200 §4.3", ErrTruncated)
	}
	// Hdr Ext Len counts 8-byte units, not including the first (RFC 8200 §4.3).
	length := (int(b[1]) + 1) * 8
	if len(b) < length {
		return ExtensionHeader{}, fault(len(b), "RFC 8200 §4.3", ErrTruncated)
	}
	return ExtensionHeader{NextHeader: NextHeader(b[0]), Bytes: b[:length:length]}, nil
}

// Options iterates over the header's options in order, padding included. An error ends
// the iteration: it comes with the zero Option and is a [*DecodeError] whose offset
// counts from the start of the header.
func (h ExtensionHeader) Options() iter.Seq2[Option, error] {
	return func(yield func(Option, error) bool) {
		for at := 2; at < len(h.Bytes); {
			option, next, err := optionAt(h.Bytes, at)
			if !yield(option, err) || err != nil {
				return
			}
			at = next
		}
	}
}

// optionAt decodes the option at an offset within the header and returns the
// offset of the next (RFC 8200 §4.2).
func optionAt(header []byte, at int) (Option, int, error) {
	kind := OptionType(header[at])
	if kind == OptionPad1 { // the only option without a length octet
		return Option{Type: kind, Offset: at}, at + 1, nil
	}
	if at+2 > len(header) {
		return Option{}, 0, fault(at, "RFC 8200 §4.2", ErrOptionTruncated)
	}
	end := at + 2 + int(header[at+1])
	if end > len(header) {
		return Option{}, 0, fault(at, "RFC 8200 §4.2", ErrOptionTruncated)
	}
	return Option{Type: kind, Offset: at, Data: header[at+2 : end : end]}, end, nil
}

// AppendExtensionHeader appends a Hop-by-Hop or Destination Options header
// with the options in their order. Padding is computed: IOAM options begin at
// multiples of 4 bytes (RFC 9486 §3), the header ends at a multiple of 8
// (RFC 8200 §4.2), no PadN is longer than 7 bytes or other than zero. Padding
// among the options, and their offsets, are ignored, so what was decoded can be
// appended again.
func AppendExtensionHeader(dst []byte, next NextHeader, options ...Option) ([]byte, error) {
	start := len(dst)
	out := append(dst, byte(next), 0)
	for _, option := range options {
		if option.Type.IsPadding() {
			continue
		}
		at := len(out) - start
		if len(option.Data) > 255 {
			return dst, fault(at, "RFC 8200 §4.2", ErrOptionTooLong)
		}
		x, y := option.Type.alignment()
		out = appendPadding(out, ((y-at)%x+x)%x)
		out = append(out, byte(option.Type), byte(len(option.Data)))
		out = append(out, option.Data...)
	}
	out = appendPadding(out, -(len(out)-start)&7)
	length := len(out) - start
	if length > 256*8 {
		return dst, fault(256*8, "RFC 8200 §4.3", ErrHeaderTooLong)
	}
	out[start+1] = byte(length/8 - 1)
	return out, nil
}

// appendPadding appends n bytes of padding: Pad1 for one, PadN for more, its
// data zero (RFC 8200 §4.2).
func appendPadding(dst []byte, n int) []byte {
	switch n {
	case 0:
		return dst
	case 1:
		return append(dst, byte(OptionPad1))
	}
	dst = append(dst, byte(OptionPadN), byte(n-2))
	return append(dst, make([]byte, n-2)...)
}
