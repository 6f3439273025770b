// SPDX-License-Identifier: Apache-2.0

// Package monitor sends probes with an IOAM trace and the Active flag (RFC 9322 §5) to many
// destinations without an end, each in several flows, so that all equal-cost paths have probes.
// It keeps for each path how long round trips took and how many probes were lost. When flows are
// not answered any more, it lets hop limits of such flows end on the way, and says behind which
// node they vanish. Its memory is bounded, and so is what it sends.
//
// All of it but [Monitor.Run] is arithmetic with times that are given: tests run it on a network
// of their own.
package monitor

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/pathtrace/copies"
	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/ioam"
)

// Bounds.
const (
	maxHops  = 32 // positions of a path that are kept
	traceFor = 12 // nodes for which the trace has room: 240 of the 244 octets that an option holds
	// mostPaths of a destination are kept, besides one for each flow.
	mostPaths = 32
)

// traceType asks nodes for their ids, those of their interfaces, the time, and how long they held
// the probe: 20 octets of each node.
const traceType ioam.TraceType = 0xf80000

// hopLimit is that of probes that are to arrive, greater than any path.
const hopLimit = 255

// Destination is a node that is probed.
type Destination struct {
	Name    string // for people
	Address netip.Addr
}

// Config configures a monitor.
type Config struct {
	Destinations []Destination // with different addresses
	Source       netip.Addr    // zero: the kernel's choice
	Port         uint16        // of the destinations' agents
	Namespace    ioam.NamespaceID
	Flows        int
	Interval     time.Duration // of one flow
	Timeout      time.Duration
	Rate         int // packets a second at most, of all kinds
	SearchRate   int // of these, those whose hop limits may end on the way
	Key          []byte
	Loopback     bool // where probes vanish, also ask nodes for copies (RFC 9322 §4)
}

// roundTrips are the buckets of round trips: powers of two from a microsecond to 8 seconds.
var roundTrips = &metrics.Desc{Bounds: Bounds()}

// Bounds are the classic buckets of round trips.
func Bounds() []float64 { return exponential.Powers(-20, 3, 1) }

// roundTripScale is the scale of its exponential buckets.
const roundTripScale = 4

// Monitor sends probes and takes what comes back.
type Monitor struct {
	began time.Time
	names func(ioam.NodeID) string // may be nil

	mu           sync.Mutex
	config       Config
	header       []byte
	asking       []byte // header of probes that ask for copies; nil: none do
	nonce        [8]byte
	destinations []*destination
	byAddress    map[netip.Addr]*destination
	labels       []uint32
	bucket       bucket
	slot         int64 // the next one, counted from phase
	phase        time.Duration
	swept        time.Duration
	walks        walks
	walkNumber   uint32
	walkBucket   bucket
	nodes        nodes
	active       []*path // with a search that has no result
	recent       recent
	queue        []outgoing
	events       []Event
	counts       Counts
	plain        bool // the kernel takes no flow labels of this process
	buffers      []byte
	generation   int // of sockets
}

// Counts are what happened besides answers. They never go back.
type Counts struct {
	Sent       uint64
	HopLimited uint64 // probes whose hop limits were to end on the way, and those that asked for copies
	Copies     uint64 // that nodes returned
	Suppressed uint64 // probes that were not sent, because of the budget
	Skipped    uint64 // probes that were not sent, because this node was late
	SendFailed uint64
	Malformed  uint64 // replies that cannot be read
	Foreign    uint64 // replies to others
	Forged     uint64 // replies with a wrong MAC
	Late       uint64 // replies to probes that had one, or were given up
	Moves      uint64 // of flows to another path
	Events     [eventKinds]uint64
}

// destination is one with its flows and paths.
type destination struct {
	Destination
	flows        []flow
	paths        []*path
	slowest      time.Duration // round trip lately
	began        time.Duration
	sent         uint64
	lost         uint64
	everAnswered bool // a probe was answered
	lastError    nodeError
	moves        moves
	places       []*place
	unknownPath  *path // stands for those that no answer has shown
	windows      windows
}

// nodeError is what a node on the way, or this one, said about probes.
type nodeError struct {
	text string
	from netip.Addr // zero: this node
	hop  int        // 0: this node
	flow int
	at   time.Duration
}

// New makes a monitor; nothing is sent before Run. names gives nodes their names, "" without one; it may be nil.
func New(c Config, names func(ioam.NodeID) string) (*Monitor, error) {
	m := &Monitor{began: time.Now(), names: names, byAddress: make(map[netip.Addr]*destination), walks: make(walks), nodes: make(nodes)}
	rand.Read(m.nonce[:])
	return m, m.Configure(c, 0)
}

// Configure changes what is probed from a time on. Destinations that stay keep what is known of them.
func (m *Monitor) Configure(c Config, now time.Duration) error {
	header, err := message.Header(ioam.NextHeaderUDP, c.Namespace, traceType, traceFor)
	if err != nil {
		return fmt.Errorf("make the trace: %w", err)
	}
	var asking []byte
	if c.Loopback {
		if asking, err = copies.Header(ioam.NextHeaderUDP, c.Namespace); err != nil {
			return fmt.Errorf("make the trace: %w", err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	anew := m.config.needsSockets(c)
	m.config, m.header, m.asking = c, header, asking
	m.bucket = bucket{rate: float64(c.Rate), depth: max(float64(c.Rate)/10, float64(2*len(c.Destinations)), 16), tokens: 16, at: now}
	if anew {
		m.generation++
		m.labels = newLabels(c.Flows)
		m.walks = make(walks)
	}
	kept := m.byAddress
	m.destinations, m.byAddress = nil, make(map[netip.Addr]*destination)
	for _, one := range c.Destinations {
		d := kept[one.Address]
		if d == nil {
			d = &destination{began: now, Destination: one}
		}
		delete(kept, one.Address)
		m.rename(d, one, now)
		if anew || d.flows == nil {
			m.abandon(d, now)
			d.renew(c, now)
		} else {
			d.resize(c)
		}
		m.destinations = append(m.destinations, d)
		m.byAddress[one.Address] = d
	}
	for _, d := range kept {
		m.abandon(d, now)
	}
	m.active = nil
	for _, d := range m.destinations {
		for _, p := range d.searched() {
			if p.search.found == nil {
				m.active = append(m.active, p)
			}
		}
	}
	search := float64(c.SearchRate)
	m.walkBucket = bucket{rate: search, depth: search, tokens: search, at: now}
	m.phase, m.slot = now, 0
	m.buffers = make([]byte, len(m.destinations)*message.ProbeLen)
	return nil
}

// needsSockets reports whether another configuration needs other sockets: then flows are others.
func (c *Config) needsSockets(other Config) bool {
	return c.Flows != other.Flows || c.Source != other.Source || c.Namespace != other.Namespace || c.Port != other.Port ||
		c.Loopback != other.Loopback || string(c.Key) != string(other.Key)
}

// newLabels are flow labels that differ in many bits, as hosts choose them (RFC 6437 §3); not 0.
func newLabels(n int) []uint32 {
	var random [4]byte
	rand.Read(random[:])
	first := binary.BigEndian.Uint32(random[:])
	list := make([]uint32, n)
	for i := range list {
		list[i] = max(1, (first+uint32(i)*0x9e3779b1)>>12)
	}
	return list
}

// Now is the time since the monitor was made, by the steady clock.
func (m *Monitor) Now() time.Duration { return time.Since(m.began) }

// at is when a time of the monitor was.
func (m *Monitor) at(t time.Duration) time.Time { return m.began.Add(t) }

// bucket limits what is sent.
type bucket struct {
	rate, depth, tokens float64
	at                  time.Duration
}

// allow takes tokens for that number of packets, or none.
func (b *bucket) allow(now time.Duration, n int) bool {
	b.tokens = min(b.depth, b.tokens+(now-b.at).Seconds()*b.rate)
	b.at = now
	if b.tokens < float64(n) {
		return false
	}
	b.tokens -= float64(n)
	return true
}
