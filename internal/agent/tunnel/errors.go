// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/internal/socketdrops"
	"github.com/waymark-net/waymark/internal/tunnelerror"
)

var descTunnelErrors = service.Metric(
	"tunnel_errors_total",
	"ICMPv6 errors that arrived and may be about a tunnelled packet, by result.",
	"result",
)

// Errors relays ICMPv6 errors about tunnelled packets to the packets' sources:
// the errors are sent to this node, and its kernel does not know the tunnels. Only the
// receiving goroutine uses the fields other than relay, fault, lost, lostLate and
// refusal.
type Errors struct {
	service.Idle
	d     Dependencies
	paths *PathMTUs // it also listens for ICMPv6 errors

	relay    tunnelerror.Relay
	fault    atomic.Pointer[string] // why no errors are received; nil when they are
	lost     socketdrops.Counter    // errors that found no room
	lostLate service.Samples        // by both sockets

	refusal atomic.Pointer[sentBack] // the last one

	nodeState *service.State // from which node was made
	node      *reference.Node

	isOwn   func(netip.Addr) bool // whether an address was this node's at ownRead
	ownRead time.Time
	logged  time.Time // when a refusal was last logged
}

const (
	// ownPeriod is the minimum time between two reads of this node's addresses.
	ownPeriod = time.Second
	// refusalPeriod is how long a refusal is warned of, and the minimum time between
	// two such lines in the log.
	refusalPeriod = time.Minute
)

// NewErrors makes the relay; paths count the other half of lost messages.
func NewErrors(d Dependencies, paths *PathMTUs) *Errors {
	return &Errors{d: d, paths: paths}
}

// sentBack is the warning about a node that refused a packet of a tunnel.
type sentBack struct {
	at      time.Time
	warning health.Warning
}

// codePort comes from a kernel that knows tunnels, but not this one (RFC 4443 §3.1);
// codeNextHeader from one that knows none (§3.4).
const (
	codePort       = 4
	codeNextHeader = 1
)

func (e *Errors) Open() error {
	e.lostLate.Add(time.Now(), 0)
	return nil
}

func (e *Errors) Run(ctx context.Context) error {
	var noting sync.WaitGroup
	noting.Go(func() { e.d.Tasks.Every(ctx, service.SamplePeriod, e.noteLost) })
	defer noting.Wait()
	service.Hear(ctx, e.d.Log, "errors about tunnelled packets are not relayed", &e.fault, func(listening func()) error {
		return e.d.System.WatchTunnelErrors(ctx, &e.lost, listening, e.handleError)
	})
	return nil
}

func (e *Errors) handleError(m icmpv6.Message, send func(packet []byte) error) {
	s := e.d.State.Load()
	if len(tunnels(s)) == 0 {
		return
	}
	if e.nodeState != s {
		node, err := reference.NewNode(s.Resolved.Node)
		if err != nil {
			e.d.Log.Warn("errors about tunnelled packets are not relayed", "error", err)
			return
		}
		e.nodeState, e.node = s, node
	}
	now := time.Now()
	result := e.relay.Hear(m, tunnelerror.Node{Reference: e.node, HasAddress: e.hasAddress, Outside: s.Resolved.Outside}, now, send)
	e.noteRefusal(m, result, now)
}

// noteRefusal remembers and logs that a node refused a packet of a tunnel.
func (e *Errors) noteRefusal(m icmpv6.Message, result tunnelerror.Result, now time.Time) {
	if result != tunnelerror.TunnelOwn && result != tunnelerror.Relayed {
		return
	}
	kind, code := icmpv6.Type(m.Body[0]), m.Body[1]
	headers := result == tunnelerror.TunnelOwn && kind == icmpv6.ParameterProblem
	atEnd := headers && code == codeNextHeader || kind == icmpv6.Unreachable && code == codePort
	if !headers && !atEnd {
		return
	}
	w := health.RefusedByNode(m.Source, quotedDestination(m), atEnd)
	e.refusal.Store(&sentBack{now, w})
	if now.Sub(e.logged) >= refusalPeriod {
		e.logged = now
		service.LogWarning(e.d.Log, w)
	}
}

// quotedDestination is the destination of the packet that an error quotes.
func quotedDestination(m icmpv6.Message) netip.Addr {
	const at = icmpv6.HeaderLen + 24
	if len(m.Body) < at+16 {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte(m.Body[at : at+16]))
}

// hasAddress reports whether an address is this node's; the answer may be a second old.
func (e *Errors) hasAddress(address netip.Addr) bool {
	if now := time.Now(); e.isOwn == nil || now.Sub(e.ownRead) >= ownPeriod {
		e.isOwn, e.ownRead = e.d.System.OwnAddresses(), now
	}
	return e.isOwn(address)
}

// resultLost is the result of messages that found no room in their socket.
const resultLost = "lost"

// totalLost is how many messages both sockets had no room for.
func (e *Errors) totalLost() uint64 { return e.lost.Lost() + e.paths.lost.Lost() }

func (e *Errors) noteLost() { e.lostLate.Add(time.Now(), e.totalLost()) }

func (e *Errors) Collect(g *metrics.Gatherer) {
	for _, c := range e.relay.Counts() {
		g.Add(descTunnelErrors, float64(c.Errors), c.Result.String())
	}
	g.Add(descTunnelErrors, float64(e.lost.Lost()), resultLost)
}

// unheardCure says how the agent can receive ICMPv6 errors about tunnelled packets. It
// names the firewall, because the agent cannot see that one drops them.
const unheardCure = "give the agent CAP_NET_RAW (AmbientCapabilities and CapabilityBoundingSet in its systemd unit); " +
	"if a firewall drops packets of state invalid, make it first accept ICMPv6 types 1 to 4 to tunnel sources"

func (e *Errors) Warnings(s *service.State) (ws []health.Warning) {
	if len(tunnels(s)) == 0 {
		return nil
	}
	if fault := e.fault.Load(); fault != nil {
		ws = append(ws, health.New(health.TunnelErrorsUnheard, "",
			"ICMPv6 errors about tunnelled packets are not received, so they are not relayed to the packets' senders, and traceroute "+
				"lacks the nodes inside tunnels: "+*fault,
			unheardCure))
	}
	if n := e.lostLate.Growth(e.totalLost()); n > 0 {
		ws = append(ws, health.New(health.TunnelErrorsLost, "",
			fmt.Sprintf("%d ICMPv6 errors were lost in the last minute, because they came faster than the agent reads them: "+
				"path MTUs of tunnels may be unknown, and senders may lack errors about their packets", n),
			"find their sender (tcpdump icmp6), and limit ICMPv6 types 1 to 4 to this node in a firewall"))
	}
	if r := e.refusal.Load(); r != nil && time.Since(r.at) < refusalPeriod {
		ws = append(ws, r.warning)
	}
	return ws
}

// Report lists the results that have happened.
func (e *Errors) Report(_ *service.State, status *api.Status) {
	status.TunnelErrors = map[string]uint64{}
	if n := e.lost.Lost(); n > 0 {
		status.TunnelErrors[resultLost] = n
	}
	for _, c := range e.relay.Counts() {
		if c.Errors > 0 {
			status.TunnelErrors[c.Result.String()] = c.Errors
		}
	}
}
