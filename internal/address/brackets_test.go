// SPDX-License-Identifier: Apache-2.0

package address

import "testing"

// An IPv6 address without brackets is refused, with what to write; all else is none of the rule's business.
func TestBracketed(t *testing.T) {
	for rest, want := range map[string]string{
		"[::]:4739": "", "[2001:db8::9]": "", "192.0.2.1:4739": "", "192.0.2.1": "", "host": "", "host:4739": "", ":4739": "", "": "",
		"a:b:c": "", "::g": "",
		"::4739": `"::4739" may be an address, or the address :: and a port; ` +
			`write udp://[::]:4739, or udp://[::4739] if all of it is the address`,
		":::4739": `the IPv6 address before the port of ":::4739" has no brackets; write udp://[::]:4739`,
		"::":      `the IPv6 address "::" has no brackets; write udp://[::]`,
		"2001:db8::9": `"2001:db8::9" may be an address, or the address 2001:db8:: and a port; ` +
			`write udp://[2001:db8::]:9, or udp://[2001:db8::9] if all of it is the address`,
		"2001:db8::9:4739": `"2001:db8::9:4739" may be an address, or the address 2001:db8::9 and a port; ` +
			`write udp://[2001:db8::9]:4739, or udp://[2001:db8::9:4739] if all of it is the address`,
		"2001:db8::9:":              `the IPv6 address before the port of "2001:db8::9:" has no brackets; write udp://[2001:db8::9]:4740`,
		"2001:db8::f":               `the IPv6 address "2001:db8::f" has no brackets; write udp://[2001:db8::f]`,
		"2001:db8:1:2:3:4:5:6:4739": `the IPv6 address before the port of "2001:db8:1:2:3:4:5:6:4739" has no brackets; write udp://[2001:db8:1:2:3:4:5:6]:4739`,
	} {
		got := ""
		if err := Bracketed("udp", rest, 4740); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", rest, got, want)
		}
	}
}
