// SPDX-License-Identifier: Apache-2.0

package active

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/stamp/sender"
	"github.com/waymark-net/waymark/srv6"
)

// noReply says why a session may have had no reply, and what to do.
func noReply(c sender.Config, r *sender.Report) string {
	return fmt.Sprintf("no reply from %v in time; %s", c.Remote, noReplyCure(c, r))
}

func noReplyCure(c sender.Config, r *sender.Report) string {
	closed := icmpv6.ErrorName(icmpv6.Unreachable, icmpv6.PortUnreachable)
	switch {
	case r.Refused["hmac_wrong"] > 0:
		return "replies have a wrong HMAC: give both ends the same key and the same --protect"
	case r.Refused["truncated"] > 0 && len(c.Key) == 0:
		return "replies are shorter than those of STAMP without a key (RFC 8762 §4.3.1): look what listens at that port"
	case r.Refused["truncated"] > 0:
		return "replies are shorter than those of this mode: give both ends the same key and the same --protect"
	case r.Refused["other_source"] > 0:
		return "replies come from another address or port: send to the reflector's own address, or ask with --destination-node for " +
			"replies from there"
	case r.Refused["timestamp_other"] > 0 || r.Foreign > 0:
		return "what replies does not repeat the number and the time of the packet that it answers (RFC 8762 §4.3.1): look what listens at " +
			"that port, and whether another host replies"
	case r.Late > 0:
		return fmt.Sprintf("replies came too late: raise --timeout %v", c.Timeout)
	case r.ICMPErrors[closed] > 0 && *r.ICMPErrorFrom == c.Remote.Addr():
		return fmt.Sprintf(
			"the node answers that UDP port %d is closed (ICMPv6 port unreachable): start 'waymark stamp reflector' or the agent's "+
				"'stamp' there, or give the port at which it listens, such as [%v]:8620; if one listens, a firewall there rejects the packets",
			c.Remote.Port(),
			c.Remote.Addr(),
		)
	case len(r.ICMPErrors) > 0:
		return fmt.Sprintf(
			"%v answers with an ICMPv6 error (%s): %s",
			*r.ICMPErrorFrom,
			strings.Join(slices.Sorted(maps.Keys(r.ICMPErrors)), ", "),
			errorCure(c),
		)
	}
	for _, cause := range slices.Sorted(maps.Keys(r.Refused)) {
		if r.Refused[cause] > 0 {
			return fmt.Sprintf("replies came, and were refused (%s): look what listens at that port, and at both ends' options", cause)
		}
	}
	return silentCure(c)
}

// unsentCure is what to do when the kernel sends no packet.
func unsentCure(c sender.Config) string {
	to, cause := c.Remote.Addr(), "with --size the MTU"
	if len(c.Segments) > 0 {
		to, cause = c.Segments[0], "the MTU: segments make packets longer"
	}
	return fmt.Sprintf("check the address, 'ip -6 route get %v', and %s", to, cause)
}

// errorCure is what to do about an error from the way.
func errorCure(c sender.Config) string {
	if len(c.Segments) > 0 {
		return fmt.Sprintf(
			"check the SIDs of --segments and their routes, the route from the last one's node to %v, and at the nodes that have them "+
				"net.ipv6.conf.*.seg6_enabled, firewalls and the MTU: segments make packets longer",
			c.Remote.Addr(),
		)
	}
	return fmt.Sprintf("check the route to %v from there, its firewalls, and with --size the MTU", c.Remote.Addr())
}

// silentCure lists the possible causes if neither a reply nor an error comes. A reflector sends
// no error to a sender that it refuses.
func silentCure(c sender.Config) string {
	causes := []string{
		"another key or mode at the reflector (--key-file, --protect)",
		"a reflector that does not answer this address (--allow) or session (--ssid), which it counts ('waymark stamp reflector --stats 10s')",
		fmt.Sprintf("a firewall that drops UDP port %d or the replies", c.Remote.Port()),
		fmt.Sprintf("no route back, or none to %v", c.Remote.Addr()),
	}
	if len(c.Segments) > 0 {
		causes = append(
			causes,
			"a segment that does not pass packets on, as without net.ipv6.conf.*.seg6_enabled at a node that receives a segment "+
				"routing header, the reflector of --mode inline included",
		)
		if c.Mode != srv6.ModeInline {
			causes = append(
				causes,
				"a last segment that ends no tunnel (End.DT6), or looks for the reflector in a table that does not have its address: at "+
					"the reflector's own node, table local",
			)
		}
	}
	return "nothing answers at all, so check for: " + strings.Join(causes, "; ")
}
