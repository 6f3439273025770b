// SPDX-License-Identifier: Apache-2.0

// Package address has the rules for addresses in configurations: what a socket can be bound to, and
// what is the address of a node.
package address

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
)

// onOneLink reports whether an address means something on one link only, so that it needs
// a zone, which names the link's interface (RFC 4007).
func onOneLink(a netip.Addr) bool {
	return a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() || a.IsInterfaceLocalMulticast()
}

// Zone refuses an address of one link without a zone, with which no socket can be bound or
// send, and other addresses with one.
func Zone(a netip.Addr) error {
	plain := a.WithZone("")
	switch zone := a.Zone(); {
	case isEscaped(zone):
		return problem.New(fmt.Sprintf("the zone of %s begins with 25, as in %%25 of a URI", a), fmt.Sprintf("write %s%%%s", plain, zone[2:]))
	case zone != "" && !onOneLink(plain):
		return problem.New(fmt.Sprintf("%s has a zone, but is valid beyond the link", a), "write "+plain.String())
	case zone == "" && plain.Is6() && onOneLink(plain):
		return problem.New(
			fmt.Sprintf("%s is valid on one link only, and has no zone", a),
			fmt.Sprintf("name its interface, as in %s%%eth0, or use another address", plain),
		)
	}
	return nil
}

// isEscaped reports whether a zone follows %25, as in URIs (RFC 6874), and not an interface whose name,
// or number, begins with 25.
func isEscaped(zone string) bool {
	name, ok := strings.CutPrefix(zone, "25")
	if !ok || name == "" || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	_, err := net.InterfaceByName(zone)
	return err != nil
}

// BeyondLink refuses addresses where a zone has no place.
func BeyondLink(a netip.Addr) error {
	if onOneLink(a) {
		return problem.New(
			fmt.Sprintf("%s is valid on one link only", a),
			"use an address of the node that is valid beyond the link, such as 2001:db8::1",
		)
	}
	return nil
}

// Listen refuses addresses at which nothing can listen.
func Listen(a netip.Addr) error {
	if a.IsMulticast() {
		return problem.New(fmt.Sprintf("%s is a multicast address", a), "use an address of this node, or [::] for all")
	}
	return nil
}

// Node refuses addresses that are no node's.
func Node(a netip.Addr) error {
	if a.IsMulticast() || a.IsUnspecified() {
		return fmt.Errorf("%s is not the address of a node", a)
	}
	return nil
}

// Check returns the first error of several rules.
func Check(a netip.Addr, rules ...func(netip.Addr) error) error {
	for _, rule := range rules {
		if err := rule(a); err != nil {
			return err
		}
	}
	return nil
}
