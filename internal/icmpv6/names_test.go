// SPDX-License-Identifier: Apache-2.0

package icmpv6

import "testing"

// Codes have the meanings of RFC 4443 §3.1 to 3.4; unknown ones are numbers.
func TestErrorName(t *testing.T) {
	for _, tt := range []struct {
		kind Type
		code uint8
		want string
	}{
		{Unreachable, 0, "no route"},
		{Unreachable, PortUnreachable, "port unreachable"},
		{Unreachable, 6, "route rejected"},
		{Unreachable, 7, "ICMPv6 error 1, code 7"},
		{TooBig, 0, "packet too big"},
		{TimeExceeded, 0, "hop limit exceeded"},
		{TimeExceeded, 1, "fragment reassembly time exceeded"},
		{ParameterProblem, 2, "parameter problem"},
		{Type(100), 255, "ICMPv6 error 100, code 255"},
	} {
		if got := ErrorName(tt.kind, tt.code); got != tt.want {
			t.Errorf("type %d, code %d: %q, want %q", tt.kind, tt.code, got, tt.want)
		}
	}
}
