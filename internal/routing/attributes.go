// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	attributeHeader = 4
	attributeKind   = 0x3fff // the rest are flags
)

// attributes calls each for every attribute of a message, and tells whether
// they were well formed to the end. It takes what the kernel's own parser
// takes: the last one need not be padded.
func attributes(b []byte, each func(kind uint16, value []byte)) bool {
	for len(b) >= attributeHeader {
		length := int(binary.NativeEndian.Uint16(b))
		if length < attributeHeader || length > len(b) {
			return false
		}
		each(binary.NativeEndian.Uint16(b[2:])&attributeKind, b[attributeHeader:length])
		b = b[min((length+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(b)):]
	}
	return len(b) == 0
}
