// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/waymark-net/waymark/internal/pathtrace/paths"
	"github.com/waymark-net/waymark/internal/pathtrace/prober"
)

// noPath says what to do when no probe was answered.
func noPath(c prober.Config, r *paths.Report) string {
	return fmt.Sprintf("no probe to %v was answered; %s", c.Destination, unansweredCure(c, r, ownAddress(c.Destination)))
}

// notYet says so while the run goes on.
func notYet(c prober.Config, r *paths.Report) string {
	return fmt.Sprintf(
		"no probe to %v was answered within %v, and more follow; %s",
		c.Destination,
		prober.Silence,
		unansweredCure(c, r, ownAddress(c.Destination)),
	)
}

// ownAddress reports whether an address is one of this machine, as far as that can be read.
func ownAddress(a netip.Addr) bool {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, one := range list {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil && prefix.Addr() == a {
			return true
		}
	}
	return false
}

// unansweredCure says why no probe was answered, the most likely cause first, and what to check. A
// destination does not answer probes without its key; after a firewall, it does not answer without trace.
func unansweredCure(c prober.Config, r *paths.Report, own bool) string {
	if own {
		return "it is an address of this node: probes to it leave by no interface, so there is no path; trace another node"
	}
	if r.Ignored["mac_wrong"] > 0 {
		return "answers have a wrong MAC: give both ends the same key (path-trace.key-file there, --key-file here)"
	}
	source := "the source of the probes"
	if c.Source.IsValid() {
		source = c.Source.String()
	}
	var causes []string
	last, said := r.LastSeen()
	switch {
	case said != "":
		causes = append(causes, said)
	case last != "" && !r.Live:
		causes = append(
			causes,
			fmt.Sprintf(
				"they were seen last at %s: what follows it drops them, most likely the edge of the domain, at which packets with IOAM of "+
					"namespace %d end; trace a node inside it",
				last,
				c.Namespace,
			),
		)
	case !r.Live:
		causes = append(
			causes,
			fmt.Sprintf(
				"no node on the way replied: look whether probes leave this node ('waymark status': the interface needs the egress role), "+
					"and for the route to %v",
				c.Destination,
			),
		)
	}
	if !c.Echo {
		key := "its key is the one here (if path-trace.key-file is set there, give --key-file)"
		if len(c.Key) > 0 {
			key = "its key is the one here (path-trace.key-file there and --key-file must hold the same)"
		}
		causes = append(
			causes,
			fmt.Sprintf(
				"check that the agent at the destination has path-trace in its configuration, that path-trace.allow has %s, and that %s; "+
					"the metric waymark_trace_probes_total there says which probes came",
				source,
				key,
			),
		)
	}
	if said == "" {
		causes = append(causes, fmt.Sprintf("check that nodes on the way pass Hop-by-Hop headers of namespace %d", c.Namespace))
	}
	return strings.Join(append(causes, "check the route back to "+source), "; ")
}
