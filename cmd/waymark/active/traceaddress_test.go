// SPDX-License-Identifier: Apache-2.0

package active

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestTracedName(t *testing.T) {
	hosts := map[string][]string{
		"r3": {"::ffff:192.0.2.1", "fe80::3", "2001:db8::3", "2001:db8::4"}, "r4.example.net": {"2001:db8::5"}, "v4only": {"192.0.2.1"},
		"link": {"fe80::1%lo"},
	}
	lookup := func(_ context.Context, name string) (list []netip.Addr, err error) {
		for _, a := range hosts[name] {
			list = append(list, netip.MustParseAddr(a))
		}
		switch {
		case name == "slow":
			return nil, errors.New("no server answers")
		case list == nil:
			return nil, &net.DNSError{Name: name, IsNotFound: true}
		}
		return list, nil
	}
	for text, want := range map[string]struct {
		to    string
		named bool
		err   string
	}{
		"r3": {"2001:db8::3", true, ""}, "r4.example.net": {"2001:db8::5", true, ""}, "link": {"fe80::1", true, ""}, "2001:db8::9": {"2001:db8::9", false, ""},
		"v4only": {"", true, "none of the 1 addresses of v4only is an IPv6 address of a node"}, "nobody": {"", true, "no IPv6 address of nobody is known; check the name, or give the address"},
		"slow": {"", true, "look up slow: no server answers; give the address"},
		"10":   {"", false, "is no IPv6 address or name"}, "r3\x1b[2J": {"", false, "is no IPv6 address or name"}, "": {"", false, "is no IPv6"}, "2001:db8::zz": {"", false, "is no IPv6"},
		strings.Repeat("a", 254): {"", false, "is no IPv6"},
	} {
		to, _, named, err := traced(t.Context(), text, lookup)
		if err != nil && (want.err == "" || !strings.Contains(err.Error(), want.err)) ||
			err == nil && (want.err != "" || to.String() != want.to) ||
			named != want.named {
			t.Errorf("%q is %v, %v, %v; want %+v", text, to, named, err, want)
		}
	}
}
