// SPDX-License-Identifier: Apache-2.0

package active

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/pathtrace/paths"
	"github.com/waymark-net/waymark/internal/pathtrace/prober"
)

// plain is whether the destination replies to echo requests that leave without IOAM, unless a rule of this
// node inserts it.
type plain int

const (
	plainUnknown plain = iota
	plainReplies
	plainSilent
)

// noPath says what to do when no probe was answered; advised reports whether notYet has said what to check.
func noPath(ctx context.Context, c prober.Config, r *paths.Report, advised bool) string {
	own := ownAddress(c.Destination)
	is := plainUnknown
	if last, said := r.LastSeen(); !own && last != "" && said == "" && !r.Live && r.Ignored["mac_wrong"] == 0 {
		is = askPlainly(ctx, c)
	}
	return noPathText(c, r, own, is, advised)
}

// noPathText leaves out what the user has been advised already.
func noPathText(c prober.Config, r *paths.Report, own bool, is plain, advised bool) string {
	text := fmt.Sprintf("no probe to %v was answered; ", c.Destination)
	causes, checks := unansweredCauses(c, r, own, is)
	if advised && len(checks) > 0 {
		checks = []string{"what to check is above"}
	}
	return text + strings.Join(append(causes, checks...), "; ")
}

// askPlainly asks the destination for an echo reply.
func askPlainly(ctx context.Context, c prober.Config) plain {
	zone := ""
	if in, err := net.InterfaceByIndex(int(c.Scope)); err == nil {
		zone = in.Name
	}
	switch replies, err := icmpv6.Echoes(ctx, c.Destination, zone, c.Source, time.Second); {
	case err != nil:
		return plainUnknown
	case replies:
		return plainReplies
	}
	return plainSilent
}

// notYet says so while the run goes on.
func notYet(c prober.Config, r *paths.Report) string {
	causes, checks := unansweredCauses(c, r, ownAddress(c.Destination), plainUnknown)
	return fmt.Sprintf(
		"no probe to %v was answered within %v, and more follow; %s",
		c.Destination,
		prober.Silence,
		strings.Join(append(causes, checks...), "; "),
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

// unansweredCauses says why no probe was answered, as far as the probes show it, and what to check besides, the most
// likely cause first. A destination does not answer probes without its key; after a firewall, it does not answer without trace.
func unansweredCauses(c prober.Config, r *paths.Report, own bool, replies plain) (causes, checks []string) {
	if own {
		return []string{"it is an address of this node: probes to it leave by no interface, so there is no path; trace another node"}, nil
	}
	if r.Ignored["mac_wrong"] > 0 {
		return []string{"answers have a wrong MAC: give both ends the same key (path-trace.key-file there, --key-file here)"}, nil
	}
	source := "the source of the probes"
	if c.Source.IsValid() {
		source = c.Source.String()
	}
	last, said := r.LastSeen()
	switch {
	case said != "":
		causes = append(causes, said)
	case last != "" && !r.Live:
		causes = append(causes, fmt.Sprintf("they were seen last at %s: %s", last, afterLast(c, replies)))
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
		key := "if it has a key-file, give --key-file"
		if len(c.Key) > 0 {
			key = "its key-file and --key-file must hold the same"
		}
		checks = append(checks, fmt.Sprintf(
			"check path-trace in the configuration of the destination's agent: allow must have %s, and %s (waymark_trace_probes_total "+
				"there says which probes came)",
			source,
			key,
		))
	}
	if said == "" {
		checks = append(checks, fmt.Sprintf("nodes on the way must pass Hop-by-Hop headers of namespace %d", c.Namespace))
	}
	return causes, append(checks, "there must be a route back to "+source)
}

// afterLast says what may drop probes after the node at which they were seen last.
func afterLast(c prober.Config, replies plain) string {
	edge := fmt.Sprintf("the edge of the domain, at which packets with IOAM of namespace %d end", c.Namespace)
	switch replies {
	case plainReplies:
		return fmt.Sprintf("what follows it drops them, and the destination replies to echo requests, which have no IOAM but what a rule of "+
			"this node inserts: it may be %s; trace a node inside it", edge)
	case plainSilent:
		return fmt.Sprintf("what follows it drops them, and the destination does not reply to echo requests either, which have no IOAM but "+
			"what a rule of this node inserts: a link or a node after it may be down, or have no route on; else it is %s", edge)
	}
	return fmt.Sprintf("what follows it drops them: a link or a node that is down, or %s", edge)
}
