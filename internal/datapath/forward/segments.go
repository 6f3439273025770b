// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// BehaviourKind is what programs do with the packets of a route.
type BehaviourKind uint8

// The kinds.
const (
	// BehaviourStack leaves the packets to the stack, for a reason.
	BehaviourStack = BehaviourKind(bpf.ABIBehaviourKindBEHAVIOUR_NONE)
	// BehaviourEnd is End, End.X (RFC 8986 §4.1, 4.2) or their NEXT-CSID flavour
	// (RFC 9800 §4.1).
	BehaviourEnd = BehaviourKind(bpf.ABIBehaviourKindBEHAVIOUR_END)
	// BehaviourDecapsulate is End.DT6 (RFC 8986 §4.6).
	BehaviourDecapsulate = BehaviourKind(bpf.ABIBehaviourKindBEHAVIOUR_DECAPSULATE)
	// BehaviourEncapsulate is H.Encaps or H.Encaps.Red (RFC 8986 §5.1, 5.2).
	BehaviourEncapsulate = BehaviourKind(bpf.ABIBehaviourKindBEHAVIOUR_ENCAPSULATE)
)

// Behaviour is what programs do with the packets of a route. Behaviours can be
// compared.
type Behaviour struct {
	Kind BehaviourKind
	// Reason is why the stack has the packets.
	Reason StackReason
	// NextHop is where End.X sends packets; invalid: to their destination.
	NextHop netip.Addr
	// BlockBits and SIDBits are the lengths of the locator block and of this node's
	// SID after it, both of whole octets; SIDBits 0: no NEXT-CSID.
	BlockBits, SIDBits uint8
	// Table is the routing table that End.DT6 looks into.
	Table uint32
	// Header is what an encapsulation puts in front: an IPv6 header whose traffic
	// class, flow label, length and hop limit are 0, and an SRH unless it is reduced
	// to nothing.
	Header string
	// KeepsLabel: the outer flow label is that of the packet, else 0.
	KeepsLabel bool
}

// MaxBehaviourHeader is the longest header that an encapsulation puts in front.
const MaxBehaviourHeader = int(bpf.ABISegmentBoundBEHAVIOUR_HEADER)

// SegmentRoute is a route with a behaviour.
type SegmentRoute struct {
	Prefix    netip.Prefix
	Behaviour Behaviour
}

// ErrTooManySegments means that the routes need more room than there is.
var ErrTooManySegments = errors.New("more routes with segments than fast forwarding has room for")

// segmentTables are two tables of routes and behaviours: programs use one while the
// other is written.
type segmentTables struct {
	behaviours, routes *ebpf.Map
	written, used      uint32
}

// key names the table in use, as programs get it.
func (s *segmentTables) key() uint16 {
	return uint16(s.used) * uint16(bpf.ABIForwardingKeyKEY_SECOND_TABLE)
}

// SetSegments writes the behaviours of all routes into the table that programs do
// not use; they use it from the next Renew with Segments on.
func (f *Control) SetSegments(list []SegmentRoute) error {
	behaviours, numbers, err := compileBehaviours(list)
	if err != nil {
		return err
	}
	s := &f.segments
	s.written = s.used ^ 1
	if err := s.clear(); err != nil {
		return fmt.Errorf("clear map %s: %w", bpf.MapSegmentRoutes, err)
	}
	base := s.written * uint32(bpf.ABISegmentBoundBEHAVIOURS)
	for i, b := range behaviours {
		if err := s.behaviours.Put(base+uint32(i), b); err != nil {
			return fmt.Errorf("fill map %s: %w", bpf.MapBehaviours, err)
		}
	}
	for i, r := range list {
		if err := s.routes.Put(routeKey(s.written, r.Prefix), base+numbers[i]); err != nil {
			return fmt.Errorf("fill map %s: %w", bpf.MapSegmentRoutes, err)
		}
	}
	return nil
}

// clear removes the routes of the table that is to be written.
func (s *segmentTables) clear() error {
	var key bpf.ABISegmentRoute
	var number uint32
	var old []bpf.ABISegmentRoute
	it := s.routes.Iterate()
	for it.Next(&key, &number) {
		if key.Table == s.written {
			old = append(old, key)
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	for _, key := range old {
		if err := s.routes.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

func routeKey(table uint32, prefix netip.Prefix) bpf.ABISegmentRoute {
	return bpf.ABISegmentRoute{PrefixLength: 32 + uint32(prefix.Bits()), Table: table, Destination: prefix.Masked().Addr().As16()}
}

// compileBehaviours returns the distinct behaviours, and the number of each route's.
func compileBehaviours(list []SegmentRoute) (behaviours []bpf.ABIBehaviour, numbers []uint32, err error) {
	known, tables := make(map[Behaviour]uint32), make(map[uint32]uint8)
	for _, r := range list {
		number, ok := known[r.Behaviour]
		if !ok {
			b, err := r.Behaviour.compile(tables)
			if err != nil {
				return nil, nil, fmt.Errorf("the route to %s: %w", r.Prefix, err)
			}
			number = uint32(len(behaviours))
			known[r.Behaviour] = number
			behaviours = append(behaviours, b)
		}
		numbers = append(numbers, number)
	}
	if len(behaviours) > int(bpf.ABISegmentBoundBEHAVIOURS) || len(list) > int(bpf.ABISegmentBoundSEGMENT_ROUTES) {
		return nil, nil, ErrTooManySegments
	}
	return behaviours, numbers, nil
}

// compile gives the tables numbers in their order; beyond those that there are, the
// stack decapsulates.
func (b Behaviour) compile(tables map[uint32]uint8) (c bpf.ABIBehaviour, err error) {
	c.Kind = uint8(b.Kind)
	switch b.Kind {
	case BehaviourStack:
		if b.Reason == StackNone || b.Reason >= NumStackReasons {
			return c, fmt.Errorf("left to the stack for %v, which is no reason", b.Reason)
		}
		c.Reason = uint8(b.Reason)
	case BehaviourEnd:
		if b.NextHop.IsValid() {
			c.Crosses, c.NextHop = 1, bpf.AddressWords(b.NextHop)
		}
		if b.SIDBits > 0 {
			c.Shift = b.SIDBits
			c.Block = bpf.AddressWords(maskOf(0, b.BlockBits))
			c.Argument = bpf.AddressWords(maskOf(b.BlockBits+b.SIDBits, 128))
		}
	case BehaviourDecapsulate:
		number, ok := tables[b.Table]
		if !ok && len(tables) == int(bpf.ABISegmentBoundSEGMENT_TABLES) {
			c.Kind, c.Reason = uint8(BehaviourStack), uint8(StackSegmentBehaviour)
			break
		} else if !ok {
			number = uint8(len(tables) + 1)
			tables[b.Table] = number
		}
		c.Table, c.TableId = number, b.Table
	case BehaviourEncapsulate:
		if len(b.Header) < 40 || len(b.Header)%8 != 0 || len(b.Header) > MaxBehaviourHeader {
			return c, fmt.Errorf("an outer header of %d bytes", len(b.Header))
		}
		for i := range len(b.Header) / 8 {
			c.Header[i] = binary.NativeEndian.Uint64([]byte(b.Header[8*i:]))
		}
		mask := [4]byte{0x0f, 0xf0, 0, 0} // the traffic class
		if b.KeepsLabel {
			mask = [4]byte{0x0f, 0xff, 0xff, 0xff}
		}
		c.Length, c.Inherited = uint16(len(b.Header)), binary.NativeEndian.Uint32(mask[:])
	}
	return c, nil
}

// maskOf has the bits of an address from one to before another.
func maskOf(from, to uint8) netip.Addr {
	var mask [16]byte
	for bit := from; bit < to; bit++ {
		mask[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom16(mask)
}
