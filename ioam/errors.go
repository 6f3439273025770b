// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"errors"
	"fmt"
)

// Causes of a [*DecodeError], for errors.Is.
var (
	// ErrTruncated: the buffer ends before the header does.
	ErrTruncated = errors.New("the buffer ends within the header")
	// ErrOptionTruncated: an option reaches beyond its extension header.
	ErrOptionTruncated = errors.New("option reaches beyond its header")
	// ErrNotIOAM: the option does not carry IOAM.
	ErrNotIOAM = errors.New("not an IOAM option")
	// ErrNotTrace: the IOAM option is not a trace.
	ErrNotTrace = errors.New("not an IOAM trace option")
	// ErrNotDirectExport: the IOAM option is not a Direct Export.
	ErrNotDirectExport = errors.New("not an IOAM Direct Export option")
	// ErrNotEdgeToEdge: the IOAM option is not an Edge-to-Edge option.
	ErrNotEdgeToEdge = errors.New("not an IOAM Edge-to-Edge option")
	// ErrSequences: an Edge-to-Edge type asks for a Sequence Number of 32 and of 64 bits.
	ErrSequences = errors.New("both Sequence Numbers in the IOAM-E2E-Type")
	// ErrNotProofOfTransit: the IOAM option is not a Proof of Transit.
	ErrNotProofOfTransit = errors.New("not an IOAM Proof of Transit option")
	// ErrPOTType: the POT-Type is not 0, the only one that is defined.
	ErrPOTType = errors.New("POT-Type is not 0")
	// ErrAlignment: an IOAM option does not begin at a multiple of 4 bytes.
	ErrAlignment = errors.New("IOAM option not aligned to 4 bytes")
	// ErrOptionLength: the option is too short for its fixed fields.
	ErrOptionLength = errors.New("option too short for its fixed fields")
	// ErrNodeLength: NodeLen is not what the trace type says.
	ErrNodeLength = errors.New("NodeLen inconsistent with the trace type")
	// ErrRemainingLength: RemainingLen reaches beyond the node data list.
	ErrRemainingLength = errors.New("RemainingLen beyond the node data list")
	// ErrNodeTruncated: the node data list ends within a node's data.
	ErrNodeTruncated = errors.New("node data list ends within a node's data")
	// ErrHeaderTooLong: options do not fit into one extension header.
	ErrHeaderTooLong = errors.New("options do not fit into one extension header")
	// ErrOptionTooLong: option data do not fit the 8-bit length field.
	ErrOptionTooLong = errors.New("option data longer than 255 bytes")
)

// DecodeError says where the bytes are wrong, and which section of which RFC they
// violate.
type DecodeError struct {
	Offset  int    // bytes from the start of the structure that was decoded
	Section string // as in "RFC 9197 §4.4.1"
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
