// SPDX-License-Identifier: Apache-2.0

package health

import "fmt"

// InlineOnRouter warns of an encapsulation with mode inline on a node that
// forwards. RFC 8200 §4 has no node on the way insert an extension header: the
// sender learns too late, or not, that its packets have become too large, and
// an Authentication Header no longer holds.
func InlineOnRouter(encapsulation, iface string) Warning {
	return New(InlineForwarded, iface,
		fmt.Sprintf("encapsulation %s has mode inline and this node forwards: a header is inserted into others' packets, too, which RFC 8200 section 4 forbids", encapsulation),
		"use mode auto or encap, with a tunnel; or match only this node's own address as source")
}
