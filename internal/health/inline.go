// SPDX-License-Identifier: Apache-2.0

package health

import "fmt"

// InlineOnRouter warns of an encapsulation with mode inline on a node that
// forwards. RFC 8200 §4 forbids nodes on the path to insert extension headers:
// the sender learns too late, or never, that its packets have become too large,
// and an Authentication Header is no longer valid.
func InlineOnRouter(encapsulation, iface string) Warning {
	return New(InlineForwarded, iface,
		fmt.Sprintf("encapsulation %s has mode inline, and this node forwards packets: it also inserts a header into packets of other hosts, which RFC 8200 section 4 forbids", encapsulation),
		"use mode auto or encap, with a tunnel; or match only this node's address as source")
}
