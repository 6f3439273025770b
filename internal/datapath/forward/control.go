// SPDX-License-Identifier: Apache-2.0

// Package forward gives the programs that forward without the stack what they need to know about
// the kernel's routes, and says why they leave packets to the stack.
package forward

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/kernelclock"
	"github.com/waymark-net/waymark/internal/model"
)

// RouteKey says what determines a packet's route besides its destination.
type RouteKey uint32

// The keys.
const (
	// RouteByDestination is the destination alone.
	RouteByDestination RouteKey = 0
	// RouteByFlow adds source, traffic class, flow label and next header.
	RouteByFlow = RouteKey(bpf.ABIForwardingKeyKEY_FLOW)
	// RouteByPorts adds ports: the kernel is asked for every packet.
	RouteByPorts = RouteByFlow | RouteKey(bpf.ABIForwardingKeyKEY_UNCACHED)
	// RouteByStack is for routes that a program cannot look up: the stack
	// forwards all packets.
	RouteByStack = RouteKey(bpf.ABIForwardingKeyKEY_STACK)
)

// AnyMTU is for routes whose MTU the kernel's lookup returns.
const AnyMTU uint16 = 0xffff

// Routing is what routes depend on, and the largest packet for which the kernel's
// lookup returns the right path MTU.
type Routing struct {
	Key RouteKey
	MTU uint16
	// Segments: the table that SetSegments wrote last has the behaviours of all
	// routes; else packets of such routes go to the stack.
	Segments bool
}

// Entrance is an interface that forwards fast.
type Entrance struct {
	Address [6]byte // link-layer address that its program knows
	InTC    bool    // else in XDP
}

// Control gives fast forwarding what it needs to know about the kernel's
// routes. Its generations continue those of an earlier agent, whose next hops are
// not used.
type Control struct {
	entrances  func() map[model.IfIndex]Entrance
	state      *ebpf.Memory // of the map's only entry
	devices    *ebpf.Map
	neighbours *ebpf.Map
	segments   segmentTables
	generation uint32
	routing    Routing
}

// New continues the state in maps; entrances may be nil if there are none.
func New(maps bpf.Maps, entrances func() map[model.IfIndex]Entrance) (*Control, error) {
	f := &Control{
		entrances: entrances,
		devices:   maps[bpf.MapDevices], neighbours: maps[bpf.MapNeighbours],
		segments: segmentTables{behaviours: maps[bpf.MapBehaviours], routes: maps[bpf.MapSegmentRoutes]},
		routing:  Routing{Key: RouteByStack}, // until Renew sets the key
	}
	var held bpf.ABIForwarding
	err := maps[bpf.MapForwarding].Lookup(uint32(0), &held)
	if err == nil {
		f.state, err = maps[bpf.MapForwarding].Memory()
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of forwarding: %w", err)
	}
	f.generation = held.Generation
	if held.Key&uint16(bpf.ABIForwardingKeyKEY_SECOND_TABLE) != 0 { // programs may use this table for a moment yet
		f.segments.used, f.segments.written = 1, 1
	}
	return f, nil
}

// Renew makes the programs forget every next hop, and sets what routes depend on
// from now on. Call it after every change of a route, rule, neighbour, link or
// address.
func (f *Control) Renew(routing Routing) error {
	f.generation++
	f.routing = routing
	f.segments.used = f.segments.written
	return f.Beat()
}

// Beat tells the programs that changes are being watched. They use cached next
// hops until 100 ms after the last beat.
func (f *Control) Beat() error {
	now, err := kernelclock.Monotonic()
	if err != nil {
		return err
	}
	return f.put(now)
}

func (f *Control) put(alive uint64) error {
	state := bpf.ABIForwarding{Alive: alive, Generation: f.generation, Key: uint16(f.routing.Key), Mtu: f.routing.MTU}
	if f.routing.Segments {
		state.Key |= uint16(bpf.ABIForwardingKeyKEY_SEGMENTS) | f.segments.key()
	}
	if _, err := f.state.WriteAt(unsafe.Slice((*byte)(unsafe.Pointer(&state)), unsafe.Sizeof(state)), 0); err != nil {
		return fmt.Errorf("write the state of forwarding: %w", err)
	}
	return nil
}

// Entrances are the interfaces whose packets are forwarded without the stack
// where possible.
func (f *Control) Entrances() map[model.IfIndex]Entrance {
	return f.entrances()
}

// SetDevices names the interfaces that can send what XDP redirects to them.
func (f *Control) SetDevices(indexes []model.IfIndex) error {
	wanted := make(map[uint32]bool, len(indexes))
	for _, index := range indexes {
		wanted[uint32(index)] = true
	}
	var key, value uint32
	var gone []uint32
	for it := f.devices.Iterate(); it.Next(&key, &value); {
		if !wanted[key] {
			gone = append(gone, key)
		}
		delete(wanted, key)
	}
	var errs []error
	for _, index := range gone {
		if err := f.devices.Delete(index); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, fmt.Errorf("take interface %d out of forwarding: %w", index, err))
		}
	}
	for index := range wanted {
		if err := f.devices.Put(index, index); err != nil {
			errs = append(errs, fmt.Errorf("let interface %d send: %w", index, err))
		}
	}
	return errors.Join(errs...)
}

// Neighbour is a next hop that packets are sent to without the stack.
type Neighbour struct {
	Address   netip.Addr
	Interface model.IfIndex
}

// Neighbours lists the neighbours that were sent to within the given time, to the
// precision of a second.
func (f *Control) Neighbours(within time.Duration) ([]Neighbour, error) {
	now, err := kernelclock.Monotonic()
	if err != nil {
		return nil, err
	}
	var out []Neighbour
	var key bpf.ABINeighbour
	var used uint32
	it := f.neighbours.Iterate()
	for it.Next(&key, &used) {
		if uint32(now>>20)-used > uint32(within>>20) {
			continue
		}
		out = append(out, Neighbour{Address: bpf.AddressOf(key.Address), Interface: model.IfIndex(key.Ifindex)})
	}
	if err := it.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, fmt.Errorf("list the neighbours in use: %w", err)
	}
	return out, nil
}
