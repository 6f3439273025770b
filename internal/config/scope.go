// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
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

// checkZone refuses an address of one link without a zone, with which no socket can be bound or
// send, and other addresses with one.
func checkZone(a netip.Addr) error {
	plain := a.WithZone("")
	switch zone := a.Zone(); {
	case isEscaped(zone):
		return problem.New(fmt.Sprintf("the zone of %s begins with 25, as in %%25 of a URI", a), fmt.Sprintf("write %s%%%s", plain, zone[2:]))
	case zone != "" && !onOneLink(plain):
		return problem.New(fmt.Sprintf("%s has a zone, but is valid beyond the link", a), "write "+plain.String())
	case zone == "" && plain.Is6() && onOneLink(plain):
		return problem.New(fmt.Sprintf("%s is valid on one link only, and has no zone", a), fmt.Sprintf("name its interface, as in %s%%eth0, or use another address", plain))
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

// checkBeyondLink refuses addresses where a zone has no place.
func checkBeyondLink(a netip.Addr) error {
	if onOneLink(a) {
		return problem.New(fmt.Sprintf("%s is valid on one link only", a), "use an address of the node that is valid beyond the link, such as 2001:db8::1")
	}
	return nil
}

// checkListen refuses addresses at which nothing can listen.
func checkListen(a netip.Addr) error {
	if a.IsMulticast() {
		return problem.New(fmt.Sprintf("%s is a multicast address", a), "use an address of this node, or [::] for all")
	}
	return nil
}

// checkNode refuses addresses that are no node's.
func checkNode(a netip.Addr) error {
	if a.IsMulticast() || a.IsUnspecified() {
		return fmt.Errorf("%s is not the address of a node", a)
	}
	return nil
}

// checks is the first error of several rules.
func checks(a netip.Addr, rules ...func(netip.Addr) error) error {
	for _, rule := range rules {
		if err := rule(a); err != nil {
			return err
		}
	}
	return nil
}

// addAddress adds the error of an address, if there is one.
func addAddress(add func(path, problem, cure string), path string, err error) {
	if err == nil {
		return
	}
	text, cure := problem.Of(err)
	add(path, text, cmp.Or(cure, "use an IPv6 address of this node"))
}

// parseListenAddr reads an address at which a node answers others.
func parseListenAddr(s string) (netip.Addr, error) {
	a, err := parseAddr(s)
	if err == nil {
		err = checks(a, checkListen, checkBeyondLink)
	}
	return a, err
}

// parseNodeAddr reads the address of another node.
func parseNodeAddr(s string) (netip.Addr, error) {
	a, err := parseAddr(s)
	if err == nil {
		err = checks(a, checkNode, checkBeyondLink)
	}
	return a, err
}
