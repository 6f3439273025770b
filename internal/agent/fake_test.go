// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/e2e"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/internal/routing"
	"github.com/waymark-net/waymark/internal/socketdrops"
	"github.com/waymark-net/waymark/ioam"
)

// fakeDatapath records its calls, and can refuse them.
type fakeDatapath struct {
	coverage coverage.Log

	wanted    atomic.Bool // records
	mu        sync.Mutex
	applied   []datapath.Config
	refuse    error
	hooks     []datapath.HookState
	devices   []datapath.DeviceTraffic
	moved     []model.IfIndex // by Reposition
	stuck     bool            // Reposition does not help
	counters  []datapath.Counters
	offsets   []time.Duration
	followed  int            // how often the numbers of proofs followed the clock
	pathMTUs  map[string]int // by encapsulation
	reported  map[string][]uint64
	closed    int
	removed   int
	records   chan datapath.Record
	waiting   []datapath.Record // not read yet
	broken    chan error
	flows     atomic.Int64                        // of each interval
	edges     atomic.Pointer[[]datapath.EdgeFlow] // of the next interval alone
	edgesLeft atomic.Pointer[e2e.Totals]          // the same
	lost      atomic.Uint64                       // of each measured flow's flowPackets
	since     atomic.Uint64                       // the first block that measured flows were counted in as a whole
}

func newFakeDatapath() *fakeDatapath {
	return &fakeDatapath{records: make(chan datapath.Record), broken: make(chan error, 1), pathMTUs: make(map[string]int), reported: make(map[string][]uint64)}
}

func (d *fakeDatapath) Apply(c datapath.Config) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		return d.refuse
	}
	d.applied = append(d.applied, c)
	clear(d.pathMTUs)
	for _, e := range c.Node.Encapsulations {
		d.pathMTUs[e.Name] = e.PathMTU
	}
	return nil
}

func (d *fakeDatapath) Intact() bool { return true }

func (d *fakeDatapath) running() datapath.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.applied) == 0 {
		return datapath.Config{}
	}
	return d.applied[len(d.applied)-1]
}

func (d *fakeDatapath) applications() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.applied)
}

func (d *fakeDatapath) setRefusal(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = err
}

func (d *fakeDatapath) Interfaces() []datapath.InterfaceStatus {
	var out []datapath.InterfaceStatus
	for _, i := range d.running().Node.Interfaces {
		out = append(out, datapath.InterfaceStatus{Index: i.Index, Name: i.Name, Ingress: datapath.AttachTCX, Egress: datapath.AttachTCX})
	}
	return out
}

func (d *fakeDatapath) Counters() ([]datapath.Counters, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.counters), nil
}

func (d *fakeDatapath) setCounters(c ...datapath.Counters) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counters = c
}

// flowPackets is how many packets each of the fake's flows has.
const flowPackets = 3

func (d *fakeDatapath) CollectFlows(each func(datapath.Flow)) error {
	for range d.flows.Load() {
		each(datapath.Flow{Role: model.RoleTransit, Namespace: 123, Packets: flowPackets})
	}
	return nil
}

func (d *fakeDatapath) CollectEdges(each func(datapath.EdgeFlow)) (left e2e.Totals, err error) {
	if t := d.edgesLeft.Swap(nil); t != nil {
		left = *t
	}
	if list := d.edges.Swap(nil); list != nil {
		for _, f := range *list {
			each(f)
		}
	}
	return left, nil
}

func (d *fakeDatapath) Blocks(block uint64, visit func(datapath.BlockCounts)) {
	how := d.running().Node.Measurement.WithDefaults()
	length, selections := how.Block, how.Selections()
	for i, f := range how.Flows {
		c := datapath.BlockCounts{Flow: f.Name, Block: block, Packets: flowPackets - d.lost.Load(), Complete: block >= d.since.Load(), Selection: selections[i]}
		c.Uncovered = d.coverage.Within(f.Name, coverage.Both, int64(block)*int64(length), int64(block+1)*int64(length))
		c.Complete = c.Complete && c.Uncovered == 0
		for _, reported := range d.reportedBlocks(f.Name) {
			c.Reported = c.Reported || reported >= block
			c.LastReported = max(c.LastReported, reported)
		}
		visit(c)
	}
}

func (d *fakeDatapath) NewTaps() *datapath.Taps { return new(datapath.Datapath).NewTaps() }

func (d *fakeDatapath) Coverage() *coverage.Log { return &d.coverage }

func (d *fakeDatapath) BlockReported(flow string, block uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reported[flow] = append(d.reported[flow], block)
}

func (d *fakeDatapath) reportedBlocks(flow string) []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.reported[flow])
}

func (d *fakeDatapath) ReadSamples(ctx context.Context, to datapath.Samples) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.broken:
			return err
		case r := <-d.records:
			to.Record(r)
		}
	}
}

func (d *fakeDatapath) ReadWaiting(to datapath.Samples) error {
	if d.wanted.Load() {
		return errors.New("more are written meanwhile")
	}
	for _, r := range d.waiting {
		to.Record(r)
	}
	return nil
}

func (d *fakeDatapath) ReadThrough() bool { return true }

func (d *fakeDatapath) SetRecordsWanted(wanted bool) error {
	d.wanted.Store(wanted)
	return nil
}

func (d *fakeDatapath) SetTAIOffset(o time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offsets = append(d.offsets, o)
	return nil
}

func (d *fakeDatapath) FollowClock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followed++
	return nil
}

func (d *fakeDatapath) Forwarding() (*datapath.Forwarding, error) { return &datapath.Forwarding{}, nil }

func (d *fakeDatapath) SetPathMTU(encapsulation string, mtu int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pathMTUs[encapsulation] = mtu
	return nil
}

func (d *fakeDatapath) Decapsulations() ([]netip.Addr, error) {
	var ends []netip.Addr
	for _, c := range d.running().Node.Decapsulations {
		ends = append(ends, c.TunnelDestination)
	}
	return ends, nil
}

// pathMTU is what was last set for an encapsulation, or applied with it.
func (d *fakeDatapath) pathMTU(encapsulation string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pathMTUs[encapsulation]
}

func (d *fakeDatapath) lastOffset() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.offsets[len(d.offsets)-1]
}

func (d *fakeDatapath) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed++
	return nil
}

func (d *fakeDatapath) Remove() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removed++
	return nil
}

func (d *fakeDatapath) ended() (closed, removed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed, d.removed
}

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
