// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"errors"
	"fmt"
)

// Causes of a [*DecodeError], for errors.Is.
var (
	// ErrTruncated: the buffer is shorter than the base packet.
	ErrTruncated = errors.New("shorter than the base packet")
	// ErrTLVTruncated: a TLV reaches beyond the packet, or beyond its outer TLV.
	ErrTLVTruncated = errors.New("TLV reaches beyond the packet")
	// ErrTLVLength: the Length is not valid for the type.
	ErrTLVLength = errors.New("TLV length not valid for its type")
	// ErrAccessID: an Access Report has an Access ID besides 1 and 2.
	ErrAccessID = errors.New("access ID neither 1 nor 2")
	// ErrTLVTooLong: a value does not fit the 16-bit length field.
	ErrTLVTooLong = errors.New("TLV value longer than 65535 octets")
)

// DecodeError says where the octets are wrong, and which section of which RFC
// they violate.
type DecodeError struct {
	Offset  int    // octets from the start of what was decoded
	Section string // as in "RFC 8972 §4.4"
	Err     error  // one of the sentinels of this package
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("offset %d: %v (%s)", e.Offset, e.Err, e.Section)
}

// Unwrap returns the sentinel.
func (e *DecodeError) Unwrap() error { return e.Err }

func fault(offset int, section string, err error) *DecodeError {
	return &DecodeError{Offset: offset, Section: section, Err: err}
}
