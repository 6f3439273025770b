// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/netlinkattr"
)

// encapRoute is a route whose packets the kernel gives to a lightweight tunnel: it
// encapsulates them, or treats them as those of a segment.
type encapRoute struct {
	prefix    netip.Prefix
	table     uint32
	kind      uint16 // LWTUNNEL_ENCAP_*
	encap     string // its attributes
	hasEncap  bool
	ambiguous bool // it may not be the one that the kernel chooses, or not always
}

// readAttribute reads one of a route's attributes.
func (e *encapRoute) readAttribute(kind uint16, value []byte) {
	switch {
	case kind == unix.RTA_TABLE && len(value) == 4:
		e.table = binary.NativeEndian.Uint32(value)
	case kind == unix.RTA_ENCAP_TYPE:
		e.hasEncap = true
		if len(value) == 2 {
			e.kind = binary.NativeEndian.Uint16(value)
		}
	case kind == unix.RTA_ENCAP:
		e.hasEncap, e.encap = true, string(value)
	case kind == unix.RTA_EXPIRES, kind == unix.RTA_CACHEINFO && (len(value) < 12 || binary.NativeEndian.Uint32(value[8:]) != 0):
		e.ambiguous = true // it ends without a message
	}
}

// noteEncap adds a route that encapsulates. Rules look into the tables local and
// main alone when that matters.
func (s *shape) noteEncap(e encapRoute, destination []byte, bits uint8) {
	address, ok := netip.AddrFromSlice(destination)
	if !ok {
		address = netip.IPv6Unspecified()
	}
	prefix := netip.PrefixFrom(address, int(bits))
	if e.table == unix.RT_TABLE_MAIN {
		s.concerns = prefix
	}
	if !e.hasEncap {
		return
	}
	e.prefix = prefix
	switch {
	case e.table == unix.RT_TABLE_LOCAL, !prefix.IsValid():
		s.hidden = true
	case e.table == unix.RT_TABLE_MAIN:
		s.encaps = append(s.encaps, e)
	}
}

// Constants of linux/seg6_local.h, linux/seg6_iptunnel.h and linux/seg6.h.
const (
	localAction   = 1
	localTable    = 3
	localNextHop  = 5
	localFlavours = 11

	actionEnd    = 1
	actionEndX   = 2
	actionEndDT6 = 7

	flavourOperations = 1
	flavourBlock      = 2
	flavourSID        = 3
	operationNextCSID = 1 << 4

	tunnelSRH        = 1
	modeEncap        = 1
	modeEncapReduced = 3

	nextIPv6, nextRouting = 41, 43
	routingSegments       = 4
	srhFixed, sidLength   = 8, 16
	srhHasHMAC            = 1 << 3 // SR6_FLAG1_HMAC
	ipv6Header            = 40
)

// conditions are the settings on which behaviours depend.
type conditions struct {
	spread bool       // routes have several next hops, or the source decides
	source netip.Addr // of encapsulations (ip sr tunsrc); invalid or unspecified: the kernel chooses
	label  int        // net.ipv6.seg6_flowlabel
}

// compileEncaps returns the behaviours of routes. Where the stack alone has what a
// route asks for, it keeps the route's packets.
func compileEncaps(routes []encapRoute, c conditions) (list []datapath.SegmentRoute) {
	at := make(map[netip.Prefix]int)
	for _, r := range routes {
		if i, twice := at[r.prefix]; twice { // the kernel chooses
			list[i].Behaviour = leftToStack(datapath.StackSegmentAmbiguous)
			continue
		}
		at[r.prefix] = len(list)
		list = append(list, datapath.SegmentRoute{Prefix: r.prefix, Behaviour: r.behaviour(c)})
	}
	return list
}

// leftToStack leaves packets to the stack.
func leftToStack(reason datapath.StackReason) datapath.Behaviour {
	return datapath.Behaviour{Kind: datapath.BehaviourStack, Reason: reason}
}

func (e *encapRoute) behaviour(c conditions) datapath.Behaviour {
	b, reason := datapath.Behaviour{}, datapath.StackEncap
	switch {
	case e.ambiguous:
		reason = datapath.StackSegmentAmbiguous
	case e.kind == unix.LWTUNNEL_ENCAP_SEG6_LOCAL:
		b, reason = localBehaviour([]byte(e.encap), c)
	case e.kind == unix.LWTUNNEL_ENCAP_SEG6:
		b, reason = tunnelBehaviour([]byte(e.encap), c)
	}
	if reason != datapath.StackNone {
		return leftToStack(reason)
	}
	return b
}

// isForwardable reports whether programs forward packets to an address, and from it, as the
// programs' has_local_address() does.
func isForwardable(a netip.Addr) bool {
	b := a.As16()
	return !a.IsLinkLocalUnicast() && !a.IsMulticast() && binary.NativeEndian.Uint64(b[:]) != 0
}

// localBehaviour reads what is done with the packets of a segment (RFC 8986 §4); or why the
// stack alone does it.
func localBehaviour(encap []byte, c conditions) (b datapath.Behaviour, reason datapath.StackReason) {
	var action, table uint32
	known, flavoured, seen := true, true, make(map[uint16]bool)
	whole := netlinkattr.Each(encap, func(kind uint16, value []byte) {
		seen[kind] = true
		switch {
		case kind == localAction && len(value) == 4:
			action = binary.NativeEndian.Uint32(value)
		case kind == localTable && len(value) == 4:
			table = binary.NativeEndian.Uint32(value)
		case kind == localNextHop && len(value) == 16:
			b.NextHop = netip.AddrFrom16([16]byte(value))
		case kind == localFlavours:
			flavoured = flavoured && readFlavours(value, &b)
		default:
			known = false
		}
	})
	switch action {
	case actionEnd:
		known = known && !seen[localTable] && !seen[localNextHop]
		b.Kind = datapath.BehaviourEnd
	case actionEndX:
		known = known && !seen[localTable] && seen[localNextHop] && isForwardable(b.NextHop)
		b.Kind = datapath.BehaviourEnd
	case actionEndDT6:
		known = known && seen[localTable] && !seen[localNextHop] && table != 0
		flavoured = flavoured && !seen[localFlavours]
		b.Kind, b.Table = datapath.BehaviourDecapsulate, table
	default:
		known = false
	}
	switch {
	case !whole, !known:
		return b, datapath.StackSegmentBehaviour
	case !flavoured:
		return b, datapath.StackSegmentFlavour
	case action == actionEndX && c.spread: // the stack hashes the packet's destination, programs the next hop
		return b, datapath.StackSegmentAmbiguous
	}
	return b, datapath.StackNone
}

// readFlavours reads a segment's flavours; false: the stack alone has them.
func readFlavours(flavours []byte, b *datapath.Behaviour) bool {
	known, next := true, false
	whole := netlinkattr.Each(flavours, func(kind uint16, value []byte) {
		switch {
		case kind == flavourOperations && len(value) == 4:
			next = binary.NativeEndian.Uint32(value) == operationNextCSID
		case kind == flavourBlock && len(value) == 1:
			b.BlockBits = value[0]
		case kind == flavourSID && len(value) == 1:
			b.SIDBits = value[0]
		default:
			known = false
		}
	})
	return whole && known && next && b.BlockBits > 0 && b.SIDBits > 0 && b.BlockBits%8 == 0 && b.SIDBits%8 == 0 &&
		int(b.BlockBits)+int(b.SIDBits) <= 128
}

// tunnelBehaviour reads what packets get in front (RFC 8986 §5.1, 5.2); or why the stack alone
// knows that.
func tunnelBehaviour(encap []byte, c conditions) (b datapath.Behaviour, reason datapath.StackReason) {
	var mode uint32
	var srh []byte
	known := true
	whole := netlinkattr.Each(encap, func(kind uint16, value []byte) {
		if kind == tunnelSRH && len(value) >= 4+srhFixed+sidLength {
			mode, srh = binary.NativeEndian.Uint32(value), slices.Clone(value[4:])
		} else {
			known = false
		}
	})
	if !whole || !known || srh == nil {
		return b, datapath.StackSegmentBehaviour
	}
	last := int(srh[4])
	if srh[5]&srhHasHMAC != 0 {
		return b, datapath.StackSegmentHMAC
	}
	// other flags and TLVs are the stack's
	if srh[2] != routingSegments || int(srh[3]) != last || srh[5] != 0 || int(srh[1]) != 2*(last+1) ||
		len(srh) != srhFixed+sidLength*(last+1) {
		return b, datapath.StackSegmentBehaviour
	}
	first := srh[srhFixed+sidLength*last:][:sidLength]
	next := byte(nextRouting)
	switch {
	case mode == modeEncapReduced && last == 0:
		next, srh = nextIPv6, nil
	case mode == modeEncapReduced:
		srh = srh[:len(srh)-sidLength]
		srh[1] -= 2
		srh[4]--
	case mode != modeEncap:
		return b, datapath.StackSegmentBehaviour
	}
	if ipv6Header+len(srh) > datapath.MaxBehaviourHeader || !isForwardable(netip.AddrFrom16([16]byte(first))) {
		return b, datapath.StackSegmentBehaviour
	}
	switch {
	case !c.source.Is6() || !isForwardable(c.source) || c.label > 0:
		return b, datapath.StackSegmentSetting
	case c.spread: // the kernel keeps the first packet's way
		return b, datapath.StackSegmentAmbiguous
	}
	if srh != nil {
		srh[0] = nextIPv6
	}
	header := append(make([]byte, 0, datapath.MaxBehaviourHeader), 6<<4, 0, 0, 0, 0, 0, next, 0)
	header = append(header, c.source.AsSlice()...)
	header = append(header, first...)
	header = append(header, srh...)
	return datapath.Behaviour{Kind: datapath.BehaviourEncapsulate, Header: string(header), KeepsLabel: c.label == 0}, datapath.StackNone
}
