// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
)

// A line for 'ip -6 route' can be pasted: words that only concern the kernel's route are
// accepted, and a hint names them.
func TestRoutePastes(t *testing.T) {
	const encap = " encap ioam6 freq 1/100 mode encap tundst 2001:db8::3 trace prealloc type 0x800000 ns 123 size 12 "
	for _, tt := range []struct{ args, said string }{
		{"add 2001:db8:9::/64" + encap + "via fe80::1 dev eth1 metric 1024", "via fe80::1, metric 1024"},
		{"add 2001:db8:9::/64 via inet6 2001:db8::1 dev eth1 proto static metric 0x10 pref medium" + encap, "via 2001:db8::1, proto static, metric 16, pref medium"},
		{"replace 2001:db8:9::/64" + encap + "via fe80::1 oif eth1 onlink table main", "via fe80::1, onlink, table main"},
		{"del 2001:db8:2::/64 via fe80::1 dev eth2", "via fe80::1"},
	} {
		f := newFakeAgent(t, nil)
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", f.socket, "route"}, strings.Fields(tt.args)...)...)
		said, rest, _ := strings.Cut(strings.TrimPrefix(stderr, "waymark: hint: "), ": the kernel's routes do not change")
		if code != commandline.ExitOK || stdout != "" || said != tt.said || !strings.Contains(rest, "leave by eth") ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: code %d, stdout %q, stderr %q, want %q", tt.args, code, stdout, stderr, tt.said)
		}
	}
}
