// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"net/netip"
)

// Decapsulation describes one tunnel that ends here.
type Decapsulation struct {
	Destination  netip.Addr
	AnySource    bool // packets from any source are accepted
	Bare         bool // packets without IOAM are accepted, too
	NoNamespaces bool // the node has no namespaces, so it knows no packet's IOAM
}

func checkDecapsulation(d Decapsulation) []Warning {
	switch {
	case d.Bare && d.AnySource:
		return []Warning{New(
			DecapsulationOpen,
			"",
			fmt.Sprintf(
				"every IPv6-in-IPv6 packet to %s is decapsulated, from any sender: outsiders whose packets no edge of the domain drops "+
					"reach the network as if from this node",
				d.Destination,
			),
			"list the addresses of the encapsulating nodes under sources, or remove bare; no change is needed if every edge has "+
				"boundary: drop and knows this tunnel destination (tunnel-destinations)",
		)}
	case !d.Bare && d.NoNamespaces:
		return []Warning{New(
			DecapsulationIdle,
			"",
			fmt.Sprintf(
				"no packet to %s is decapsulated (decap_refused_bare): this node has no namespace, so it knows no packet's IOAM",
				d.Destination,
			),
			"add the namespaces of the traces ('waymark ioam namespace add ID', or namespaces in the file), or list the encapsulating "+
				"nodes under sources, and set bare: true if it is false",
		)}
	}
	return nil
}
