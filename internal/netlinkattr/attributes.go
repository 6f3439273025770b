// SPDX-License-Identifier: Apache-2.0

// Package netlinkattr reads the attributes of the kernel's netlink messages.
package netlinkattr

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	headerLength = 4
	kindMask     = 0x3fff // the rest are flags
)

// Each calls do for every attribute in b, in their order, and reports whether they
// were well formed to the end. It takes what the kernel's own parser takes: the
// last one need not be padded. The values are parts of b.
func Each(b []byte, do func(kind uint16, value []byte)) bool {
	for len(b) >= headerLength {
		length := int(binary.NativeEndian.Uint16(b))
		if length < headerLength || length > len(b) {
			return false
		}
		do(binary.NativeEndian.Uint16(b[2:])&kindMask, b[headerLength:length])
		b = b[min((length+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(b)):]
	}
	return len(b) == 0
}
