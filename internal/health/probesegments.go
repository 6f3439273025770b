// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// probeSegmentRouting adds a segment (RFC 8986 §4.1) in a network namespace of its own. The sysctl seg6_enabled does
// not answer this: every kernel with IPv6 has it.
func probeSegmentRouting() Support { return segmentRoutingSupport(inOwnNamespace(addSegment)) }

// addSegment returns nil if a route with a segment could be added.
func addSegment(h *netlink.Handle) error {
	// While the interface is down, the kernel refuses all routes through it.
	if err := h.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: loopback}}); err != nil {
		return fmt.Errorf("set the loopback interface up: %w", err)
	}
	end := &netlink.SEG6LocalEncap{Action: nl.SEG6_LOCAL_ACTION_END}
	end.Flags[nl.SEG6_LOCAL_ACTION] = true
	segment := &net.IPNet{IP: net.ParseIP("2001:db8::"), Mask: net.CIDRMask(128, 128)}
	if err := h.RouteAdd(&netlink.Route{LinkIndex: loopback, Dst: segment, Encap: end}); err != nil {
		return fmt.Errorf("add a segment: %w", err)
	}
	return nil
}

// segmentRoutingSupport reads the error: the kernel does not know this encapsulation of routes.
func segmentRoutingSupport(err error) Support {
	switch {
	case err == nil:
		return Support{Yes: true}
	case errors.Is(err, unix.EOPNOTSUPP):
		return Support{}
	}
	return Support{Err: err}
}
