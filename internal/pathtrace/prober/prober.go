// SPDX-License-Identifier: Apache-2.0

// Package prober sends probes with an IOAM trace and the Active flag (RFC 9322 §5) in
// several flows, and takes what comes back: answers of the endpoint with the trace, echo
// replies, and ICMPv6 errors, which quote the trace as far as it was filled. Afterwards it
// lets hop limits end on the way, so that nodes without IOAM show themselves.
package prober

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/pathtrace/copies"
	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/internal/pathtrace/paths"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/ioam"
)

// Bounds of a run.
const (
	MaxFlows    = 256
	MaxCount    = 100_000
	MinInterval = 100 * time.Microsecond
	MaxTimeout  = time.Minute
	// MaxWaiting is the most probes that wait for a reply.
	MaxWaiting = 65_536
)

// hopLimit is the hop limit of probes that are to arrive: larger than any path.
const hopLimit = 255

// Config configures a run.
type Config struct {
	Destination netip.Addr
	Scope       uint32     // the interface of a link-local destination
	Source      netip.Addr // zero: the kernel's choice
	Port        uint16     // of the endpoint
	Echo        bool       // ICMPv6 echo requests instead of UDP
	Namespace   ioam.NamespaceID
	Type        ioam.TraceType
	Nodes       int // for which the trace has room
	Flows       int
	Count       int // probes of each flow
	Interval    time.Duration
	Timeout     time.Duration
	MaxHops     int // how far hop limits are tried; 0: not at all
	Key         []byte
	Loopback    bool                 // first ask all nodes for copies (RFC 9322 §4)
	Unanswered  func(*paths.Report)  // is called for flows whose probe for copies was not answered; may be nil
	Silent      func(*paths.Report)  // is called once when no probe was answered for a while; may be nil
	Format      ioam.TimestampFormat // of the nodes' timestamps
	TAIOffset   time.Duration
}

// Ignored is why a reply is not used.
type Ignored int

// Causes.
const (
	Malformed  Ignored = iota // no answer that can be read
	Foreign                   // of another run, or from another node than the destination
	Forged                    // the MAC is wrong
	Repeated                  // the probe has a reply, or was given up
	numIgnored int     = iota
)

var ignored = [numIgnored]string{"malformed", "foreign", "mac_wrong", "repeated_or_late"}

// waiting is a probe that waits for its reply.
type waiting struct {
	flow int
	hops uint8
	sent time.Time // with the steady clock
	walk bool
	asks bool // it has the Loopback flag, and another trace than the others
}

// Prober is one run.
type Prober struct {
	config  Config
	nonce   [8]byte
	header  []byte
	flows   []flow
	echo    *icmpv6.Sender // of whole packets
	copies  *net.IPConn    // that nodes return; nil if none are asked for
	askers  []byte         // Hop-by-Hop header of probes that ask
	replies *icmpv6.Listener

	mu      sync.Mutex
	paths   *paths.Paths
	waiting map[uint32]waiting
	order   []uint32 // of waiting, the oldest first
	number  uint32
	ignored [numIgnored]uint64
	failed  error // the last failure to send
	sent    uint64
	live    bool
	arrived bool             // some probe reached the destination
	asked   map[uint32]asked // probes that asked for copies, by number
	copied  uint64
	longest time.Duration // round trip of these probes and of their copies
}

// flow is one flow of probes.
type flow struct {
	socket *udp.Socket
	port   uint16
	label  uint32
	plain  bool // the kernel takes no label from this socket

	answered bool // the probe that asked for copies reached the destination
}

// New makes a run.
func New(c Config) (*Prober, error) {
	p := &Prober{config: c, waiting: make(map[uint32]waiting), flows: make([]flow, c.Flows), live: true, asked: make(map[uint32]asked)}
	p.paths = paths.New(c.Destination, c.Flows, c.Format, c.TAIOffset)
	next := ioam.NextHeaderUDP
	if c.Echo {
		next = ioam.NextHeaderICMPv6
	}
	var err error
	if p.header, err = message.Header(next, c.Namespace, c.Type, c.Nodes); err != nil {
		return nil, fmt.Errorf("make the trace: %w", err)
	}
	if c.Loopback {
		if p.askers, err = copies.Header(next, c.Namespace); err != nil {
			return nil, fmt.Errorf("make the trace: %w", err)
		}
	}
	var random [4]byte
	rand.Read(p.nonce[:])
	rand.Read(random[:])
	first := binary.BigEndian.Uint32(random[:])
	for i := range p.flows {
		// Labels that differ in many bits, as hosts choose them (RFC 6437 §3); not 0.
		p.flows[i].label = max(1, (first+uint32(i)*0x9e3779b1)>>12)
	}
	return p, nil
}

// Open opens the sockets.
func (p *Prober) Open() (err error) {
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	types := []icmpv6.Type{icmpv6.Unreachable, icmpv6.TooBig, icmpv6.TimeExceeded, icmpv6.ParameterProblem, echoReply}
	if p.replies, err = icmpv6.Listen(longestError, mostErrors, types...); err != nil {
		return problem.Wrap(err, "it needs root or CAP_NET_RAW")
	}
	if p.config.Echo {
		if err := p.findSource(); err != nil {
			return err
		}
		if p.echo, err = icmpv6.NewSender(); err != nil {
			return err
		}
	}
	if p.config.Loopback {
		if p.copies, err = copies.Listen(); err != nil {
			return err
		}
	}
	if p.config.Echo {
		return nil
	}
	for i := range p.flows {
		f := &p.flows[i]
		f.socket, err = udp.Listen(udp.Config{Local: netip.AddrPortFrom(p.config.Source, 0), Batch: 4, Size: 512, HopByHop: p.header})
		if err != nil {
			return err
		}
		f.port = f.socket.Local().Port()
	}
	return nil
}

func (p *Prober) close() {
	for _, f := range p.flows {
		if f.socket != nil {
			f.socket.Close()
		}
	}
	if p.echo != nil {
		p.echo.Close()
	}
	if p.replies != nil {
		p.replies.Close()
	}
	if p.copies != nil {
		p.copies.Close()
	}
}

// Run sends all probes and waits for replies, until the context ends at the latest.
func (p *Prober) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var readers sync.WaitGroup
	defer func() {
		cancel()
		p.close()
		readers.Wait()
		p.mu.Lock()
		p.live = false
		p.mu.Unlock()
	}()
	readers.Go(func() { _ = p.replies.Read(ctx, p.handleICMP) }) // without errors there are still answers
	if p.config.Silent != nil {
		readers.Go(func() { p.notice(ctx) })
	}
	for i := range p.flows {
		if f := &p.flows[i]; f.socket != nil {
			readers.Go(func() { p.read(f.socket) })
		}
	}
	if p.copies != nil {
		readers.Go(func() { copies.Receive(p.copies, p.returned) })
		p.probeLoopback(ctx)
	}
	p.probe(ctx)
	if p.config.MaxHops > 0 {
		p.walk(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent == 0 && p.failed != nil {
		return problem.Wrap(
			fmt.Errorf("no probe could be sent to %v: %w", p.config.Destination, p.failed),
			fmt.Sprintf("check the address and 'ip -6 route get %v'", p.config.Destination),
		)
	}
	return nil
}

// Silence is after which time without an answer the run says what to check: long enough for
// round trips of this planet, and for neighbour discovery.
const Silence = 1500 * time.Millisecond

// notice says early that nothing is answered: all the probes and hop limits take much longer.
func (p *Prober) notice(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(Silence):
	}
	p.mu.Lock()
	silent := !p.arrived && p.sent > 0
	p.mu.Unlock()
	if silent {
		p.config.Silent(p.Report())
	}
}

// probe sends the probes that are to arrive, one of each flow in turn, and waits for the
// last replies.
func (p *Prober) probe(ctx context.Context) {
	ticker := time.NewTicker(p.config.Interval)
	defer ticker.Stop()
	for n := range p.config.Count {
		for i := range p.flows {
			if n+i > 0 && !tick(ctx, ticker.C) {
				p.giveUp(time.Time{})
				return
			}
			p.send(i, hopLimit, false)
			p.giveUp(time.Now().Add(-p.config.Timeout))
		}
	}
	p.awaitReplies(ctx)
}

// awaitReplies waits until nothing is expected any more.
func (p *Prober) awaitReplies(ctx context.Context) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for p.giveUp(time.Now().Add(-p.config.Timeout)) > 0 {
		if !tick(ctx, ticker.C) {
			p.giveUp(time.Time{})
			return
		}
	}
}

func tick(ctx context.Context, c <-chan time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c:
		return true
	}
}

// giveUp counts probes as lost that were sent before a time, and returns how many still
// wait. After an interruption (zero time) those that wait are not counted as lost, because
// their replies may be on the way.
func (p *Prober) giveUp(before time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.order) > 0 {
		w, ok := p.waiting[p.order[0]]
		if ok && !before.IsZero() && w.sent.After(before) && len(p.waiting) <= MaxWaiting {
			break
		}
		delete(p.waiting, p.order[0])
		p.order = p.order[1:]
		if ok && !w.walk && !before.IsZero() {
			p.paths.Lost(w.flow)
		} else if ok && !w.walk {
			p.paths.Forget(w.flow)
		}
	}
	return len(p.waiting)
}

// send sends a probe of a flow.
func (p *Prober) send(number int, hops uint8, walk bool) {
	f := &p.flows[number]
	p.mu.Lock()
	p.number++
	id := message.ID{Nonce: p.nonce, Number: p.number, Flow: uint16(number), HopLimit: hops}
	p.waiting[id.Number] = waiting{flow: number, hops: hops, sent: time.Now(), walk: walk}
	p.order = append(p.order, id.Number)
	p.mu.Unlock()
	payload := message.AppendProbe(nil, id, p.config.Key)
	var err error
	if p.config.Echo {
		err = p.echo.Send(p.echoRequest(f, id, p.header, payload))
	} else {
		err = f.send(p.config, nil, payload, hops)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed = err
		delete(p.waiting, id.Number)
		return
	}
	p.sent++
	if !walk {
		p.paths.Sent(number)
	}
}

// send sends a payload with a Hop-by-Hop header; nil is the socket's.
func (f *flow) send(c Config, header, payload []byte, hops uint8) error {
	list := []udp.Datagram{
		{
			Data:         payload,
			Peer:         netip.AddrPortFrom(c.Destination, c.Port),
			Scope:        c.Scope,
			SendHopLimit: hops,
			FlowLabel:    f.label,
			SendHopByHop: header,
		},
	}
	if f.plain {
		list[0].FlowLabel = 0
	}
	err := errors.Join(f.socket.Send(list), list[0].Err)
	if isInvalid(err) && !f.plain { // a process has an exclusive lease of labels (RFC 6437 does not know them)
		f.plain, f.label = true, 0
		return f.send(c, header, payload, hops)
	}
	return err
}

// Report is what is known until now.
func (p *Prober) Report() *paths.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.paths.Report(func(i int) paths.Flow {
		return paths.Flow{Number: i, SourcePort: p.flows[i].port, FlowLabel: p.flows[i].label}
	})
	r.Protocol, r.Namespace, r.Live, r.Copies = "UDP", p.config.Namespace, p.live, p.copied
	if p.config.Echo {
		r.Protocol = "ICMPv6 echo"
	}
	for i, n := range p.ignored {
		r.Ignored[ignored[i]] = n
	}
	return r
}
