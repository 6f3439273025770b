// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/netlinkattr"
)

// shape has the properties of routes and next hops that change how a packet
// is forwarded, or how large it may be. Routes with any other property are
// left to the stack.
type shape struct {
	spread bool   // several next hops, or the source decides
	mtu    uint32 // the smallest that is not locked, which the kernel's lookup does not give; 0: none
	locked uint32 // the largest that is locked; 0: none
	why    string // the stack forwards all: the reason
	leaves map[model.IfIndex]bool
	// routes that encapsulate or have segments, of the table main
	encaps   []encapRoute
	hidden   bool         // there are some where programs cannot find out which
	concerns netip.Prefix // of one route: its prefix in main; invalid: in another table
}

func (s *shape) add(other shape) {
	s.spread = s.spread || other.spread
	s.hidden = s.hidden || other.hidden
	s.encaps = append(s.encaps, other.encaps...)
	s.mtu, s.locked = least(s.mtu, other.mtu), max(s.locked, other.locked)
	if s.why == "" {
		s.why = other.why
	}
	if len(other.leaves) > 0 {
		own := s.leaves
		s.leaves = maps.Clone(other.leaves)
		maps.Copy(s.leaves, own)
	}
}

// leave records the interface of a next hop that outlives its routes' devices.
func (s *shape) leave(index model.IfIndex) {
	if s.leaves == nil {
		s.leaves = make(map[model.IfIndex]bool)
	}
	s.leaves[index] = true
}

// plain reports whether removing a route of this shape changes nothing.
func (s *shape) plain() bool {
	return !s.spread && s.mtu == 0 && s.locked == 0 && s.why == "" && len(s.leaves) == 0 && !s.hidden
}

// least is the smaller of two sizes; 0 means no size.
func least(a, b uint32) uint32 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Constants of linux/rtnetlink.h that golang.org/x/sys/unix lacks.
const (
	routeNextHopID = 30 // RTA_NH_ID: the route's next hops are an object of their own

	// the flags for properties of the route or its device, for how it was
	// requested, and for hardware offload
	routeFlags = 0x7f | unix.RTM_F_NOTIFY | unix.RTM_F_CLONED | unix.RTM_F_EQUALIZE | unix.RTM_F_PREFIX |
		unix.RTM_F_LOOKUP_TABLE | unix.RTM_F_FIB_MATCH | 0x4000 | 0x8000 | 0x20000000

	routeUnusable = unix.RTNH_F_DEAD | unix.RTNH_F_LINKDOWN

	metricLock     = 1
	metricMTU      = 2
	metricFeatures = 12
	// ECN, SACK, timestamps, and whether the kernel set them: only TCP uses these
	metricFeaturesTCP = 1 | 2 | 4 | 16 | 1<<31
	metricsKnown      = 17
)

// shapeOfRoute is the shape of one route.
func shapeOfRoute(route []byte) (s shape) {
	if len(route) < unix.SizeofRtMsg {
		return shape{spread: true, why: "a route cannot be read"}
	}
	header := nl.DeserializeRtMsg(route)
	s.spread = header.Src_len > 0
	odd, destination := "", []byte(nil)
	e := encapRoute{table: uint32(header.Table), ambiguous: header.Type != unix.RTN_UNICAST || header.Src_len > 0 ||
		header.Flags&routeUnusable != 0}
	whole := netlinkattr.Each(route[unix.SizeofRtMsg:], func(kind uint16, value []byte) {
		switch kind {
		case unix.RTA_DST:
			destination = value
		case unix.RTA_SRC, unix.RTA_IIF, unix.RTA_OIF, unix.RTA_GATEWAY, unix.RTA_PRIORITY, unix.RTA_PREFSRC,
			unix.RTA_CACHEINFO, unix.RTA_TABLE, unix.RTA_PREF, unix.RTA_EXPIRES, unix.RTA_PAD:
			e.readAttribute(kind, value)
		case unix.RTA_ENCAP_TYPE, unix.RTA_ENCAP: // the kernel's lookup does not do it
			e.readAttribute(kind, value)
		case unix.RTA_METRICS:
			s.readMetrics(value, &odd)
		case unix.RTA_MULTIPATH:
			s.spread = true
			known, encapsulates := readNextHops(value)
			if !known {
				odd = "has next hops with what is not known here"
			}
			if encapsulates {
				e.kind, e.ambiguous = unix.LWTUNNEL_ENCAP_NONE, true
				e.hasEncap = true
			}
		case routeNextHopID:
			s.spread = true
		default:
			odd = fmt.Sprintf("has what is not known here (attribute %d)", kind)
		}
	})
	switch {
	case !whole:
		s.spread, odd = true, "cannot be read"
	case header.Flags&^routeFlags != 0:
		odd = fmt.Sprintf("has flags that are not known here (%#x)", header.Flags)
	}
	if odd != "" {
		s.why = fmt.Sprintf("the route to %s %s", prefixOf(destination, header.Dst_len), odd)
	}
	s.noteEncap(e, destination, header.Dst_len)
	return s
}

func prefixOf(destination []byte, bits uint8) string {
	address, ok := netip.AddrFromSlice(destination)
	if !ok {
		return "default"
	}
	return netip.PrefixFrom(address, int(bits)).String()
}

// readMetrics reads the metrics that concern forwarded packets.
func (s *shape) readMetrics(metrics []byte, odd *string) {
	var mtu, locks uint32
	whole := netlinkattr.Each(metrics, func(kind uint16, value []byte) {
		number := uint32(0)
		if len(value) == 4 {
			number = binary.NativeEndian.Uint32(value)
		}
		switch {
		case kind == metricLock:
			locks = number
		case kind == metricMTU:
			mtu = number
		case kind == metricFeatures && number&^metricFeaturesTCP != 0, kind > metricsKnown:
			*odd = fmt.Sprintf("has a metric that is not known here (%d)", kind)
		}
	})
	if !whole {
		*odd = "has metrics that cannot be read"
	}
	if locks&(1<<metricMTU) != 0 {
		s.locked = mtu
	} else {
		s.mtu = mtu
	}
}

// readNextHops reports whether all attributes of a route's next hops are
// understood, and whether one of them encapsulates.
func readNextHops(b []byte) (known, encapsulates bool) {
	for known = true; ; {
		if len(b) < unix.SizeofRtNexthop {
			return known && len(b) == 0, encapsulates
		}
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.SizeofRtNexthop || length > len(b) {
			return false, encapsulates
		}
		whole := netlinkattr.Each(b[unix.SizeofRtNexthop:length], func(kind uint16, _ []byte) {
			encap := kind == unix.RTA_ENCAP || kind == unix.RTA_ENCAP_TYPE
			encapsulates = encapsulates || encap
			known = known && (kind == unix.RTA_GATEWAY || encap)
		})
		known = known && whole
		b = b[min((length+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(b)):]
	}
}

// Constants of linux/nexthop.h.
const (
	nextHopHeader     = 8
	nextHopID         = 1
	nextHopGroupType  = 3
	nextHopDeparture  = 5
	nextHopEncap      = 8
	nextHopLastKnown  = 17
	nextHopOfEachFlow = 0 // the group type in which only a hash chooses
)

// shapeOfNextHop is the shape of a nexthop object or a group.
func shapeOfNextHop(hop []byte) shape {
	if len(hop) < nextHopHeader {
		return shape{spread: true, why: "a next hop cannot be read"}
	}
	s := shape{spread: true}
	odd, id := "", uint32(0)
	whole := netlinkattr.Each(hop[nextHopHeader:], func(kind uint16, value []byte) {
		switch {
		case kind == nextHopID && len(value) == 4:
			id = binary.NativeEndian.Uint32(value)
		case kind == nextHopEncap:
			s.hidden = true // any route may use it
		case kind == nextHopDeparture && len(value) == 4:
			s.leave(model.IfIndex(binary.NativeEndian.Uint32(value)))
		case kind == nextHopGroupType && len(value) == 2 && binary.NativeEndian.Uint16(value) != nextHopOfEachFlow:
			odd = "is a resilient group, whose flows only the stack keeps alive"
		case kind > nextHopLastKnown:
			odd = fmt.Sprintf("has what is not known here (attribute %d)", kind)
		}
	})
	if !whole {
		odd = "cannot be read"
	}
	if odd != "" {
		s.why = fmt.Sprintf("next hop %d %s", id, odd)
	}
	return s
}

// shapeOfRoutes reads every route and next hop.
func shapeOfRoutes() (s shape, err error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
	request.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET6}})
	err = request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE, func(m []byte) bool {
		s.add(shapeOfRoute(m))
		return true
	})
	if err != nil {
		return s, fmt.Errorf("read the routes: %w", err)
	}
	request = nl.NewNetlinkRequest(unix.RTM_GETNEXTHOP, unix.NLM_F_DUMP)
	request.AddRawData(make([]byte, nextHopHeader))
	err = request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWNEXTHOP, func(m []byte) bool {
		hop := shapeOfNextHop(m)
		hop.spread = false // the routes that use it set spread
		s.add(hop)
		return true
	})
	if err != nil {
		return s, fmt.Errorf("read the next hops: %w", err)
	}
	return s, nil
}
