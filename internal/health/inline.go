// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/internal/problem"
)

// InlineOnRouter warns of an encapsulation with mode inline on a node that
// forwards. RFC 8200 §4 forbids nodes on the path to insert extension headers:
// the sender learns too late, or never, that its packets have become too large,
// and an Authentication Header is no longer valid.
func InlineOnRouter(encapsulation, iface string) Warning {
	return New(
		InlineForwarded,
		iface,
		fmt.Sprintf(
			"encapsulation %s has mode inline, and this node forwards packets: it also inserts a header into packets of other hosts, "+
				"which RFC 8200 section 4 forbids",
			encapsulation,
		),
		"use mode auto or encap, with a tunnel; or match only this node's address as source",
	)
}

// InlineRefused says why such an encapsulation is not added by 'waymark route', and what to add
// instead; end is where another tunnel ends, if there is one.
func InlineRefused(end netip.Addr) error {
	to := "ADDRESS, an address of the node at which the domain ends"
	if end.IsValid() {
		to = end.String()
	}
	return problem.New(
		"this node forwards packets, and mode inline would insert a header into those of other hosts, which RFC 8200 section 4 forbids",
		"use: mode auto tundst "+to+"; or match only this node's address (from ADDRESS); or say force",
	)
}
