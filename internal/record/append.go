// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ipfix"
)

// appendString writes a string in JSON.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendEscaped(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func appendEscaped(b []byte, s string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte{'\n'})...)
}

// appendTime writes a time in JSON.
func appendTime(b []byte, t time.Time) []byte {
	return append(t.UTC().AppendFormat(append(b, '"'), instant.Layout), '"')
}

// putNumber writes a number into a field of a given number of octets.
func putNumber[V unsigned | ~int | ~int64](length uint16) step[V] {
	switch length {
	case 1:
		return func(b []byte, v *V) []byte { return append(b, byte(*v)) }
	case 2:
		return func(b []byte, v *V) []byte { return binary.BigEndian.AppendUint16(b, uint16(*v)) }
	case 4:
		return func(b []byte, v *V) []byte { return binary.BigEndian.AppendUint32(b, uint32(*v)) }
	case 8:
		return func(b []byte, v *V) []byte { return binary.BigEndian.AppendUint64(b, uint64(*v)) }
	}
	return func(b []byte, v *V) []byte {
		for shift := 8 * (int(length) - 1); shift >= 0; shift -= 8 {
			b = append(b, byte(uint64(*v)>>shift))
		}
		return b
	}
}

// putText writes a string with its length (RFC 7011 §7).
func putText(b []byte, v *string) []byte {
	s := strings.ToValidUTF8(*v, "\uFFFD") // RFC 7011 §6.1.6
	if len(s) < 255 {
		return append(append(b, byte(len(s))), s...)
	}
	s = s[:min(len(s), 65535)]
	return append(binary.BigEndian.AppendUint16(append(b, 255), uint16(len(s))), s...)
}

func putOctets(b, v []byte) []byte {
	if len(v) < 255 {
		return append(append(b, byte(len(v))), v...)
	}
	return append(binary.BigEndian.AppendUint16(append(b, 255), uint16(len(v))), v...)
}

func putAddress(b []byte, v *netip.Addr) []byte {
	octets := v.As16()
	return append(b, octets[:]...)
}

// putTime writes one time in the resolution of each field.
func putTime(fields []ipfix.Field) step[instant.Time] {
	kinds := make([]ipfix.DataType, len(fields))
	for i, f := range fields {
		kinds[i] = f.Element.Type
	}
	return func(b []byte, v *instant.Time) []byte {
		seconds, nanoseconds := int64(0), uint64(0)
		if !v.IsZero() {
			seconds, nanoseconds = v.Unix(), uint64(v.Nanosecond())
		}
		for _, kind := range kinds {
			b = ipfix.AppendTime(b, kind, seconds, nanoseconds)
		}
		return b
	}
}
