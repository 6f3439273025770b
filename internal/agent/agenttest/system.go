// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"cmp"
	"context"
	"encoding/binary"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/kernelevents"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/internal/routing"
	"github.com/waymark-net/waymark/internal/socketdrops"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// System is a machine whose interfaces tests add and remove.
type System struct {
	Events          KernelEvents
	Watches         atomic.Int32 // of routes, under way
	RoutesUnwatched error        // why routes cannot be watched
	StackForwards   string       // why the stack forwards all
	Mu              sync.Mutex
	links           map[string]config.Link
	ClockState      health.Clock
	ioam6           bool // the kernel fills traces, too
	Router          bool // the node forwards
	NoClock         error
	changed         func()
	Others          []config.Device
	Unroutable      netip.Addr   // no route leads there
	Elsewhere       netip.Addr   // the only address that is not this node's
	source          netip.Addr   // of every tunnel; invalid: 2001:db8::99
	sourceError     error        // instead of a source
	collectors      []netip.Addr // of every name
	noSender        error        // why no packets can be sent
	ErrorsUnheard   error        // why no Packet Too Big is received
	TooBig          chan []byte  // messages that arrive
	ICMPv6Errors    chan icmpv6.Message
	Filters         chan model.IfIndex // interfaces whose queueing disciplines or filters change
	Sent            chan []byte        // packets
	ids             map[string]uint64  // settings of ids, by name; absent: the kernel's default
	IDsRead         int

	AddressesRead atomic.Int32  // how often
	Dropped       atomic.Uint32 // by each of the sockets that receive errors
}

// NewSystem is a machine with the interfaces eth0 and eth1.
func NewSystem() *System {
	return &System{
		links:        map[string]config.Link{"eth0": {Index: 2, MTU: 1500, Up: true}, "eth1": {Index: 3, MTU: 1700, Up: true}},
		ClockState:   health.Clock{Synchronised: true, TAIOffset: 37 * time.Second},
		TooBig:       make(chan []byte),
		ICMPv6Errors: make(chan icmpv6.Message),
		Filters:      make(chan model.IfIndex),
		Sent:         make(chan []byte, 16),
		ids:          map[string]uint64{},
		Events:       KernelEvents{Traces: make(chan ioam.Trace)},
	}
}

func (s *System) Link(name string) (config.Link, bool, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	l, ok := s.links[name]
	return l, ok, nil
}

func (s *System) Devices() ([]config.Device, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return slices.Clone(s.Others), nil
}

// SetLinks changes the interfaces and notifies watchers.
func (s *System) SetLinks(change func(map[string]config.Link)) {
	s.Mu.Lock()
	s.links = maps.Clone(s.links)
	change(s.links)
	changed := s.changed
	s.Mu.Unlock()
	if changed != nil {
		changed()
	}
}

func (s *System) NoRoute(to netip.Addr) string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if to.IsValid() && to == s.Unroutable {
		return "no route"
	}
	return ""
}
func (s *System) OwnAddresses() func(netip.Addr) bool {
	s.AddressesRead.Add(1)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	elsewhere := s.Elsewhere
	return func(a netip.Addr) bool { return a != elsewhere }
}
func (s *System) SourceTo(netip.Addr) (netip.Addr, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.source.IsValid() {
		return s.source, nil
	}
	return netip.MustParseAddr("2001:db8::99"), s.sourceError
}

func (s *System) SetSource(source netip.Addr, err error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.source, s.sourceError = source, err
}

func (s *System) Peers() []model.Collector { return nil }

func (s *System) Addresses(string) []netip.Addr {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return slices.Clone(s.collectors)
}

func (s *System) SetCollectors(addresses ...netip.Addr) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.collectors = addresses
}

func (s *System) InterfaceHealth(name string, mtu int) health.Interface {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	link, there := s.links[name]
	return health.Interface{Name: name, MTU: mtu, KernelIOAM6: s.ioam6, Down: there && !link.Up}
}

func (s *System) SetIOAM6(on bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.ioam6 = on
}

func (s *System) Clock() (health.Clock, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.ClockState, s.NoClock
}

func (s *System) ProofKey(file string) (*pot.Key, error) { return pot.Read(file) }

func (s *System) StackOptions() (int, error) { return model.StackOptions, nil }

func (s *System) Forwards() bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Router
}

func (s *System) SetClock(c health.Clock) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.ClockState = c
}

func (s *System) WatchLinks(ctx context.Context, changed func()) error {
	s.Mu.Lock()
	s.changed = changed
	s.Mu.Unlock()
	changed()
	<-ctx.Done()
	return nil
}

func (s *System) OpenSender() (service.PacketSender, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return fakeSender{s.Sent}, s.noSender
}

// fakeSender passes packets on.
type fakeSender struct{ sent chan<- []byte }

func (f fakeSender) Send(packet []byte) error {
	f.sent <- slices.Clone(packet)
	return nil
}

func (fakeSender) Close() error { return nil }

func (s *System) WatchRoutes(ctx context.Context, _ routing.Plane, explain func(why string), _ *slog.Logger) error {
	s.Mu.Lock()
	unwatched, odd := s.RoutesUnwatched, s.StackForwards
	s.Mu.Unlock()
	if unwatched != nil {
		return unwatched
	}
	explain(odd)
	s.Watches.Add(1)
	defer s.Watches.Add(-1)
	<-ctx.Done()
	return nil
}

func (s *System) WatchTooBig(ctx context.Context, lost *socketdrops.Counter, listening func(), heard func([]byte)) error {
	s.Mu.Lock()
	deaf := s.ErrorsUnheard
	s.Mu.Unlock()
	if deaf != nil {
		return deaf
	}
	lost.Begin(func() (uint32, error) { return s.Dropped.Load(), nil })
	defer lost.End()
	listening()
	for {
		select {
		case <-ctx.Done():
			return nil
		case message := <-s.TooBig:
			heard(message)
		}
	}
}

func (s *System) WatchTunnelErrors(
	ctx context.Context,
	lost *socketdrops.Counter,
	listening func(),
	heard func(icmpv6.Message, func([]byte) error),
) error {
	s.Mu.Lock()
	deaf := s.ErrorsUnheard
	s.Mu.Unlock()
	if deaf != nil {
		return deaf
	}
	lost.Begin(func() (uint32, error) { return s.Dropped.Load(), nil })
	defer lost.End()
	listening()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-s.ICMPv6Errors:
			heard(m, func(packet []byte) error { s.Sent <- packet; return nil })
		}
	}
}

func (s *System) WatchFilters(ctx context.Context, changed func(model.IfIndex)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case index := <-s.Filters:
			changed(index)
		}
	}
}

// id is a setting of the fake kernel, which counts reads.
func id[T ~uint16 | ~uint32 | ~uint64](s *System, name string, absent T) (T, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.IDsRead++
	return cmp.Or(T(s.ids[name]), absent), nil
}

func (s *System) NodeID() (ioam.NodeID, error) { return id(s, "id", ioam.NodeIDUnavailable) }
func (s *System) NodeIDWide() (ioam.NodeIDWide, error) {
	return id(s, "wide", ioam.NodeIDWideUnavailable)
}
func (s *System) InterfaceID(name string) (ioam.InterfaceID, error) {
	return id(s, name+".id", ioam.InterfaceIDUnavailable)
}
func (s *System) InterfaceIDWide(name string) (ioam.InterfaceIDWide, error) {
	return id(s, name+".wide", ioam.InterfaceIDWideUnavailable)
}

func (s *System) SetID(name string, value uint64) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.ids[name] = value
}

// KernelEvents is a kernel whose events tests make.
type KernelEvents struct {
	Listeners atomic.Int32
	Unheard   atomic.Pointer[error] // why there are none
	Traces    chan ioam.Trace
}

func (s *System) WatchKernelEvents(ctx context.Context, _ *kernelevents.Counters, listening func(), heard func(ioam.Trace)) error {
	k := &s.Events
	if err := k.Unheard.Load(); err != nil {
		return *err
	}
	k.Listeners.Add(1)
	defer k.Listeners.Add(-1)
	listening()
	for {
		select {
		case <-ctx.Done():
			return nil
		case trace := <-k.Traces:
			heard(trace)
		}
	}
}

// BaseConfig is the configuration of a node with two interfaces.
const BaseConfig = `
node: {id: 2, id-wide: 22}
interfaces:
  - {name: eth0, id: 201, role: [ingress, egress]}
  - {name: eth1, id: 202, role: [ingress, egress]}
namespaces:
  - {id: 123, data: 0xdeadbeef, schema: {id: 777, data: "rack 7"}}
decapsulations: [{tunnel-destination: "2001:db8:3::1"}]
metrics: {listen: none}
`

// TunnelConfig has two tunnels to one destination, one to another, and a rule
// without a tunnel.
const TunnelConfig = BaseConfig + `
encapsulations:
  - {name: one, interface: eth1, mode: encap, match: {destination: "2001:db8:a::/48"}, tunnel: {source: "2001:db8:ff::1", destination: "2001:db8:ff::3"}, options: [{trace: {namespace: 123, type: 0x800000, size: 4}}]}
  - {name: two, interface: eth1, mode: auto, match: {destination: "2001:db8:b::/48"}, tunnel: {source: "2001:db8:ff::1", destination: "2001:db8:ff::3"}, options: [{trace: {namespace: 123, type: 0x800000, size: 4}}]}
  - {name: other, interface: eth1, mode: encap, match: {destination: "2001:db8:c::/48"}, tunnel: {source: "2001:db8:ff::1", destination: "2001:db8:ff::4"}, options: [{trace: {namespace: 123, type: 0x800000, size: 4}}]}
  - {name: inline, interface: eth1, mode: inline, match: {destination: "2001:db8:d::/48"}, options: [{trace: {namespace: 123, type: 0x800000, size: 4}}]}
`

// PacketTooBig is a Packet Too Big message about a packet of 1600 bytes to
// 2001:db8:ff::3.
func PacketTooBig(mtu uint32) []byte {
	grown := craft.Between("2001:db8:ff::1", "2001:db8:ff::3", craft.HopByHop)
	m := binary.BigEndian.AppendUint32(craft.Message(2, 0), mtu)
	return append(append(m, grown.Header(1600-craft.HeaderLen)...), 41, 1, 1, 0)
}
