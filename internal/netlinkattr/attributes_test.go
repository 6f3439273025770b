// SPDX-License-Identifier: Apache-2.0

package netlinkattr

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

func attribute(kind uint16, length int, value string) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(length))
	return append(binary.NativeEndian.AppendUint16(b, kind), value...)
}

func TestEach(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		message    []byte
		whole      bool
	}{
		{"nothing", "", nil, true},
		{"two, the first padded", "1=ab 2=cdef ", append(attribute(1, 6, "ab\x00\x00"), attribute(2, 8, "cdef")...), true},
		{"the last not padded", "1=a ", attribute(1, 5, "a"), true},
		{"without a value", "7= ", attribute(7, 4, ""), true},
		{"nested and of network byte order", "3=x ", attribute(3|0xc000, 5, "x\x00\x00\x00"), true},
		{"longer than the message", "", attribute(1, 6, "a"), false},
		{"shorter than its header", "", attribute(1, 3, "abcd"), false},
		{"a cut header", "1=abcd ", append(attribute(1, 8, "abcd"), 4, 0), false},
	} {
		var got strings.Builder
		whole := Each(tt.message, func(kind uint16, value []byte) { fmt.Fprintf(&got, "%d=%s ", kind, value) })
		if got.String() != tt.want || whole != tt.whole {
			t.Errorf("%s: %q, whole %v; want %q, %v", tt.name, got.String(), whole, tt.want, tt.whole)
		}
	}
}
