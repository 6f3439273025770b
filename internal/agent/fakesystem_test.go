// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/internal/routing"
	"github.com/waymark-net/waymark/internal/socketdrops"
	"github.com/waymark-net/waymark/ioam"
)

// fakeSystem is a machine whose interfaces tests add and remove.
type fakeSystem struct {
	events      fakeKernelEvents
	watches     atomic.Int32 // of routes, under way
	blind       error        // why routes cannot be watched
	odd         string       // why the stack forwards all
	mu          sync.Mutex
	links       map[string]config.Link
	clock       health.Clock
	ioam6       bool // the kernel fills traces, too
	router      bool // the node forwards
	noClock     error
	changed     func()
	devices     []config.Device
	unroutable  netip.Addr   // no route leads there
	elsewhere   netip.Addr   // the only address that is not this node's
	source      netip.Addr   // of every tunnel; invalid: 2001:db8::99
	sourceError error        // instead of a source
	collectors  []netip.Addr // of every name
	noSender    error        // why no packets can be sent
	deaf        error        // why no Packet Too Big is received
	tooBig      chan []byte  // messages that arrive
	errors      chan icmpv6.Message
	sent        chan []byte       // packets
	ids         map[string]uint64 // settings of ids, by name; absent: the kernel's default
	idsRead     int

	addressesRead atomic.Int32  // how often
	dropped       atomic.Uint32 // by each of the sockets that receive errors
}

func newFakeSystem() *fakeSystem {
	return &fakeSystem{
		links:  map[string]config.Link{"eth0": {Index: 2, MTU: 1500, Up: true}, "eth1": {Index: 3, MTU: 1700, Up: true}},
		clock:  health.Clock{Synchronised: true, TAIOffset: 37 * time.Second},
		tooBig: make(chan []byte),
		errors: make(chan icmpv6.Message),
		sent:   make(chan []byte, 16),
		ids:    map[string]uint64{},
		events: fakeKernelEvents{traces: make(chan ioam.Trace)},
	}
}

func (s *fakeSystem) Link(name string) (config.Link, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.links[name]
	return l, ok, nil
}

func (s *fakeSystem) Devices() ([]config.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.devices), nil
}

// setLinks changes the interfaces and notifies watchers.
func (s *fakeSystem) setLinks(change func(map[string]config.Link)) {
	s.mu.Lock()
	s.links = maps.Clone(s.links)
	change(s.links)
	changed := s.changed
	s.mu.Unlock()
	if changed != nil {
		changed()
	}
}

func (s *fakeSystem) NoRoute(to netip.Addr) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to.IsValid() && to == s.unroutable {
		return "no route"
	}
	return ""
}
func (s *fakeSystem) OwnAddresses() func(netip.Addr) bool {
	s.addressesRead.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	elsewhere := s.elsewhere
	return func(a netip.Addr) bool { return a != elsewhere }
}
func (s *fakeSystem) SourceTo(netip.Addr) (netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.source.IsValid() {
		return s.source, nil
	}
	return netip.MustParseAddr("2001:db8::99"), s.sourceError
}

func (s *fakeSystem) setSource(source netip.Addr, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source, s.sourceError = source, err
}

func (s *fakeSystem) Peers() []model.Collector { return nil }

func (s *fakeSystem) Addresses(string) []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.collectors)
}

func (s *fakeSystem) setCollectors(addresses ...netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collectors = addresses
}

func (s *fakeSystem) InterfaceHealth(name string, mtu int) health.Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	return health.Interface{Name: name, MTU: mtu, KernelIOAM6: s.ioam6}
}

func (s *fakeSystem) setIOAM6(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ioam6 = on
}

func (s *fakeSystem) Clock() (health.Clock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock, s.noClock
}

func (s *fakeSystem) ProofKey(file string) (*pot.Key, error) { return pot.Read(file) }

func (s *fakeSystem) StackOptions() (int, error) { return model.StackOptions, nil }

func (s *fakeSystem) Forwards() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.router
}

func (s *fakeSystem) setClock(c health.Clock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = c
}

func (s *fakeSystem) WatchLinks(ctx context.Context, changed func()) error {
	s.mu.Lock()
	s.changed = changed
	s.mu.Unlock()
	changed()
	<-ctx.Done()
	return nil
}

func (s *fakeSystem) OpenSender() (PacketSender, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fakeSender{s.sent}, s.noSender
}

// fakeSender passes packets on.
type fakeSender struct{ sent chan<- []byte }

func (f fakeSender) Send(packet []byte) error {
	f.sent <- slices.Clone(packet)
	return nil
}

func (fakeSender) Close() error { return nil }

func (s *fakeSystem) WatchRoutes(ctx context.Context, _ routing.Plane, explain func(why string), _ *slog.Logger) error {
	s.mu.Lock()
	blind, odd := s.blind, s.odd
	s.mu.Unlock()
	if blind != nil {
		return blind
	}
	explain(odd)
	s.watches.Add(1)
	defer s.watches.Add(-1)
	<-ctx.Done()
	return nil
}

func (s *fakeSystem) WatchTooBig(ctx context.Context, lost *socketdrops.Counter, listening func(), heard func([]byte)) error {
	s.mu.Lock()
	deaf := s.deaf
	s.mu.Unlock()
	if deaf != nil {
		return deaf
	}
	lost.Begin(func() (uint32, error) { return s.dropped.Load(), nil })
	defer lost.End()
	listening()
	for {
		select {
		case <-ctx.Done():
			return nil
		case message := <-s.tooBig:
			heard(message)
		}
	}
}

func (s *fakeSystem) WatchTunnelErrors(ctx context.Context, lost *socketdrops.Counter, listening func(), heard func(icmpv6.Message, func([]byte) error)) error {
	s.mu.Lock()
	deaf := s.deaf
	s.mu.Unlock()
	if deaf != nil {
		return deaf
	}
	lost.Begin(func() (uint32, error) { return s.dropped.Load(), nil })
	defer lost.End()
	listening()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-s.errors:
			heard(m, func(packet []byte) error { s.sent <- packet; return nil })
		}
	}
}

const baseConfig = `
node: {id: 2, id-wide: 22}
interfaces:
  - {name: eth0, id: 201, role: [ingress, egress]}
  - {name: eth1, id: 202, role: [ingress, egress]}
namespaces:
  - {id: 123, data: 0xdeadbeef, schema: {id: 777, data: "rack 7"}}
decapsulations: [{tunnel-destination: "2001:db8:3::1"}]
metrics: {listen: none}
`
