// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"net/netip"
	"strings"
)

// decapsulatedPerRefusal is how many packets may be taken out of tunnels for each refused one
// before refusals are no longer reported, because outsiders may cause a few.
const decapsulatedPerRefusal = 10

// Refusals counts the packets of tunnels that end here which were recently taken
// out of them, and those that were not, by reason.
type Refusals struct {
	WrongSource, WithoutIOAM, Decapsulated uint64
}

// RefusedTunnels warns if a tunnel's end refuses packets and accepts only few:
// most likely its sources or the traces' namespace are configured wrong.
func RefusedTunnels(ends []Decapsulation, r Refusals) []Warning {
	var ws []Warning
	warn := func(n uint64, counter, why, cure string, may func(Decapsulation) bool) {
		var names []string
		for _, d := range ends {
			if may(d) {
				names = append(names, d.Destination.String())
			}
		}
		if n == 0 || n*decapsulatedPerRefusal < r.Decapsulated || len(names) == 0 {
			return
		}
		ws = append(ws, New(
			DecapRefused,
			"",
			fmt.Sprintf(
				"%d packets to %s were refused in the last minute (%s), and %d decapsulated: %s; the kernel discards them, unless it has such a tunnel",
				n,
				strings.Join(names, ", "),
				counter,
				r.Decapsulated,
				why,
			),
			cure,
		))
	}
	warn(r.WrongSource, "decap_refused_source", "their outer source is not in sources",
		"add the encapsulating nodes to sources under decapsulations, or with 'waymark decapsulation del' and 'add ADDR source "+
			"PREFIX'; if outsiders send them, drop those at edges (boundary: drop, tunnel-destinations)",
		func(d Decapsulation) bool { return !d.AnySource })
	warn(r.WithoutIOAM, "decap_refused_bare", "they carry no IOAM of a namespace of this node",
		"add the traces' namespace ('waymark ioam namespace add ID'); if packets come without IOAM, list the encapsulating nodes "+
			"under sources, without bare: false",
		func(d Decapsulation) bool { return !d.Bare && !d.NoNamespaces }) // a node without namespaces has DecapsulationIdle instead
	return ws
}

// RefusedByNode warns of a node that rejects a tunnel's packets. If that node is
// the tunnel's end, its programs did not take them out, and its kernel does not
// know the tunnel.
func RefusedByNode(node, destination netip.Addr, atEnd bool) Warning {
	why, cure := "it does not accept their headers", "check whether that node, the tunnel's destination or one on the way, "+
		"accepts the number of options in the Hop-by-Hop header (net.ipv6.max_hbh_opts_number), or insert fewer"
	if atEnd {
		why, cure = "it does not decapsulate them", "at that node, list the tunnel.destination under decapsulations; if it is "+
			"there, 'waymark status' shows why it refuses them: decap_refused_source (add this node's tunnel.source to sources), or "+
			"decap_refused_bare (add the namespace of the traces, or bare: true)"
	}
	to := ""
	if destination.IsValid() {
		to = " to " + destination.String()
	}
	return New(
		TunnelRefused,
		"",
		fmt.Sprintf("%v refused packets of a tunnel%s in the last minute, and they were lost: %s", node, to, why),
		cure,
	)
}
