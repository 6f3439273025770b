// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"net/netip"
)

// Decapsulation is what is known of one tunnel that ends here.
type Decapsulation struct {
	Destination  netip.Addr
	AnySource    bool // packets of any source are taken
	Bare         bool // packets without IOAM, too
	NoNamespaces bool // the node has none, so no packet has IOAM that it knows
}

func checkDecapsulation(d Decapsulation) []Warning {
	switch {
	case d.Bare && d.AnySource:
		return []Warning{New(DecapsulationOpen, "",
			fmt.Sprintf("every IPv6-in-IPv6 packet to %s is taken out of its tunnel, from any sender: outsiders whose packets no edge of the domain drops reach the network as if from this node", d.Destination),
			"list the addresses of the encapsulating nodes under sources, or leave bare out; nothing is to be done where every edge has boundary: drop and knows this tunnel destination (tunnel-destinations)")}
	case !d.Bare && d.NoNamespaces:
		return []Warning{New(DecapsulationIdle, "",
			fmt.Sprintf("no packet to %s is taken out of its tunnel (decap_refused_bare): this node has no namespace, so none carries IOAM that it knows", d.Destination),
			"add the namespaces of the traces ('waymark ioam namespace add ID', or namespaces in the file), or list the encapsulating nodes under sources, with bare: true where that is false")}
	}
	return nil
}
