// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"net/netip"

	"github.com/waymark-net/waymark/internal/address"
	"github.com/waymark-net/waymark/internal/problem"
)

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
		err = address.Check(a, address.Listen, address.BeyondLink)
	}
	return a, err
}

// parseNodeAddr reads the address of another node.
func parseNodeAddr(s string) (netip.Addr, error) {
	a, err := parseAddr(s)
	if err == nil {
		err = address.Check(a, address.Node, address.BeyondLink)
	}
	return a, err
}
