// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"net/netip"
	"strings"
)

// fewTaken is how many packets are taken out of tunnels for each refused one, at
// most, where refusals are warned of: outsiders may cause a few.
const fewTaken = 10

// Refusals are how many packets of tunnels that end here were taken out of them
// lately, and how many were not, by reason.
type Refusals struct {
	Source, Bare, Taken uint64
}

// RefusedTunnels warns of packets that a tunnel's end refuses while it takes
// few: most likely it knows the wrong sources, or not the traces' namespace.
func RefusedTunnels(ends []Decapsulation, r Refusals) []Warning {
	var ws []Warning
	warn := func(n uint64, counter, why, cure string, may func(Decapsulation) bool) {
		var names []string
		for _, d := range ends {
			if may(d) {
				names = append(names, d.Destination.String())
			}
		}
		if n == 0 || n*fewTaken < r.Taken || len(names) == 0 {
			return
		}
		ws = append(ws, New(DecapRefused, "",
			fmt.Sprintf("%d packets to %s were refused in the last minute (%s), and %d taken out of tunnels: %s; the kernel loses refused packets, unless it has a tunnel of its own for them",
				n, strings.Join(names, ", "), counter, r.Taken, why),
			cure))
	}
	warn(r.Source, "decap_refused_source", "their outer source is not in sources",
		"add the tunnel.source of the encapsulating nodes to sources of this tunnel destination, under decapsulations or with 'waymark decapsulation del' and 'add ADDR source PREFIX'; if outsiders send them, let every edge of the domain drop them (boundary: drop, tunnel-destinations)",
		func(d Decapsulation) bool { return !d.AnySource })
	warn(r.Bare, "decap_refused_bare", "they carry no IOAM of a namespace of this node",
		"add the namespace of the traces ('waymark ioam namespace add ID', or namespaces in the file); where packets come without IOAM, list the encapsulating nodes under sources, without bare: false",
		func(d Decapsulation) bool { return !d.Bare && !d.NoNamespaces }) // without namespaces: DecapsulationIdle
	return ws
}

// RefusedByNode warns of a node that sends back packets of a tunnel. Those that
// their end does not take out, its kernel does not know.
func RefusedByNode(node, destination netip.Addr, atEnd bool) Warning {
	why, cure := "it does not accept their headers", "where that is the tunnel's destination or a node on the way, see whether it accepts the IOAM options in the Hop-by-Hop header (net.ipv6.max_hbh_opts_number), and insert fewer"
	if atEnd {
		why, cure = "it does not take them out of their tunnel", "at that node, name the tunnel.destination under decapsulations; where it is there, 'waymark status' says what it refuses them for: decap_refused_source (add this node's tunnel.source to sources), or decap_refused_bare (add the namespace of the traces, or bare: true)"
	}
	to := ""
	if destination.IsValid() {
		to = " to " + destination.String()
	}
	return New(TunnelRefused, "", fmt.Sprintf("%v refuses packets of a tunnel%s, and they are lost: %s", node, to, why), cure)
}
