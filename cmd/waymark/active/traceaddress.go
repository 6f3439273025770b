// SPDX-License-Identifier: Apache-2.0

package active

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/problem"
)

// lookupTime is how long the name of a host may take.
const lookupTime = 5 * time.Second

// lookupHost finds the IPv6 addresses of a host: in /etc/hosts, else by DNS.
func lookupHost(ctx context.Context, name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	return net.DefaultResolver.LookupNetIP(ctx, "ip6", name)
}

// isNode reports whether an address can be that of one node.
func isNode(a netip.Addr) bool {
	return a.Is6() && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast()
}

// traced finds the node to trace, by its address or by the name of a host, and the number of the
// interface that the address names. It reports whether the name was looked up.
func traced(
	ctx context.Context,
	text string,
	lookup func(context.Context, string) ([]netip.Addr, error),
) (to netip.Addr, scope uint32, named bool, err error) {
	to, err = netip.ParseAddr(text)
	if err != nil && isHostName(text) {
		named = true
		to, err = addressOf(ctx, text, lookup)
		if err != nil {
			return to, 0, named, err
		}
	}
	switch {
	case err != nil || !isNode(to):
		return to, 0, named, commandline.Usage(problem.New(
			fmt.Sprintf("%q is no IPv6 address or name of a node", text),
			"want one such as 2001:db8::1, fe80::1%eth0 or r3.example.net",
		))
	case to.Zone() == "" && to.IsLinkLocalUnicast():
		return to, 0, named, commandline.Usage(problem.New(
			fmt.Sprintf("%s is valid on one link only", to),
			fmt.Sprintf("name its interface: %s%%eth0", to),
		))
	}
	scope, err = scopeOf(to)
	return to.WithZone(""), scope, named, err
}

// isHostName reports whether a text may be the name of a host (RFC 1123 §2.1), and is no number.
func isHostName(text string) bool {
	if text == "" || len(text) > 253 || !strings.ContainsFunc(text, func(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' }) {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	}) && text[0] != '-'
}

// addressOf is the first address of a host that can be traced.
func addressOf(ctx context.Context, name string, lookup func(context.Context, string) ([]netip.Addr, error)) (netip.Addr, error) {
	list, err := lookup(ctx, name)
	var unknown *net.DNSError
	switch {
	case ctx.Err() != nil:
		return netip.Addr{}, ctx.Err()
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return netip.Addr{}, problem.New(fmt.Sprintf("no IPv6 address of %s is known", name), "check the name, or give the address")
	case err != nil:
		return netip.Addr{}, problem.Wrap(fmt.Errorf("look up %s: %w", name, err), "give the address")
	}
	for _, a := range list {
		if isNode(a) && (a.Zone() != "" || !a.IsLinkLocalUnicast()) {
			return a, nil
		}
	}
	return netip.Addr{}, problem.New(
		fmt.Sprintf("none of the %d addresses of %s is an IPv6 address of a node", len(list), name),
		"give the address",
	)
}
