// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/internal/socketdrops"
	"github.com/waymark-net/waymark/internal/tunnelerror"
)

// tunnelErrors is what relays ICMPv6 errors about tunnelled packets. All but the
// relay, the fault, what is lost and the refusal belongs to the one who hears.
type tunnelErrors struct {
	relay tunnelerror.Relay
	fault atomic.Pointer[string] // why nothing is heard; nil when it is
	lost  socketdrops.Counter    // errors that were not heard

	refusal atomic.Pointer[sentBack] // the last one

	state *state // that node is of
	node  *reference.Node

	isOwn   func(netip.Addr) bool // whether an address was this node's at ownRead
	ownRead time.Time
	logged  time.Time // that a tunnel's headers are refused
}

const (
	// ownPeriod is how often this node's addresses are read at most.
	ownPeriod = time.Second
	// refusalPeriod is how long a refusal is warned of, and how often the log says
	// so at most.
	refusalPeriod = time.Minute
)

// sentBack is the warning of a node that refused a packet of a tunnel.
type sentBack struct {
	at      time.Time
	warning health.Warning
}

// codePort is of a kernel that knows tunnels, but not this one (RFC 4443 §3.1);
// codeNextHeader is of one that knows none (§3.4).
const (
	codePort       = 4
	codeNextHeader = 1
)

// relayTunnelErrors tells the sources of packets what became of these in a
// tunnel: its own source is this node, and the kernel knows of no such tunnel.
func (a *Agent) relayTunnelErrors(ctx context.Context) {
	a.hear(ctx, "errors about tunnelled packets are not relayed", &a.tunnelErrors.fault, func(listening func()) error {
		return a.options.System.WatchTunnelErrors(ctx, &a.tunnelErrors.lost, listening, a.heardError)
	})
}

func (a *Agent) heardError(m icmpv6.Message, send func(packet []byte) error) {
	e := &a.tunnelErrors
	s := a.state.Load()
	if len(tunnels(s)) == 0 {
		return
	}
	if e.state != s {
		node, err := reference.NewNode(s.resolved.Node)
		if err != nil {
			a.log.Warn("errors about tunnelled packets are not relayed", "error", err)
			return
		}
		e.state, e.node = s, node
	}
	now := time.Now()
	result := e.relay.Hear(m, tunnelerror.Node{Reference: e.node, HasAddress: a.hasAddress, Outside: s.resolved.Outside}, now, send)
	a.noteRefusal(m, result, now)
}

// noteRefusal keeps that a node sent a packet of a tunnel back, and logs it.
func (a *Agent) noteRefusal(m icmpv6.Message, result tunnelerror.Result, now time.Time) {
	if result != tunnelerror.TunnelOwn && result != tunnelerror.Relayed {
		return
	}
	kind, code := icmpv6.Type(m.Body[0]), m.Body[1]
	headers := result == tunnelerror.TunnelOwn && kind == icmpv6.ParameterProblem
	atEnd := headers && code == codeNextHeader || kind == icmpv6.Unreachable && code == codePort
	if !headers && !atEnd {
		return
	}
	e, w := &a.tunnelErrors, health.RefusedByNode(m.Source, quotedDestination(m), atEnd)
	e.refusal.Store(&sentBack{now, w})
	if now.Sub(e.logged) >= refusalPeriod {
		e.logged = now
		a.logWarning(w)
	}
}

// quotedDestination is where the packet that an error quotes was going to.
func quotedDestination(m icmpv6.Message) netip.Addr {
	const at = icmpv6.HeaderLen + 24
	if len(m.Body) < at+16 {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte(m.Body[at : at+16]))
}

// hasAddress reports whether an address was this node's a second ago or later.
func (a *Agent) hasAddress(address netip.Addr) bool {
	e := &a.tunnelErrors
	if now := time.Now(); e.isOwn == nil || now.Sub(e.ownRead) >= ownPeriod {
		e.isOwn, e.ownRead = a.options.System.OwnAddresses(), now
	}
	return e.isOwn(address)
}

// resultLost stands among the results of messages for those that found no room
// in their socket.
const resultLost = "lost"

// totalErrorsLost is how many messages both sockets had no room for.
func (a *Agent) totalErrorsLost() uint64 { return a.tunnelErrors.lost.Lost() + a.paths.lost.Lost() }

// lostErrorWarnings are about messages that were lost lately, where they matter.
func (a *Agent) lostErrorWarnings(s *state) []health.Warning {
	n := a.errorsLost.growth(a.totalErrorsLost())
	if n == 0 || len(tunnels(s)) == 0 {
		return nil
	}
	return []health.Warning{health.New(health.TunnelErrorsLost, "",
		fmt.Sprintf("%d ICMPv6 errors were lost in the last minute, because they came faster than the agent reads them: "+
			"path MTUs of tunnels may be unknown, and senders may lack errors about their packets", n),
		"find who sends them (tcpdump icmp6), and limit ICMPv6 types 1 to 4 to this node in a firewall")}
}

// tunnelErrorCounts are the results that have happened.
func (a *Agent) tunnelErrorCounts() map[string]uint64 {
	out := map[string]uint64{}
	if n := a.tunnelErrors.lost.Lost(); n > 0 {
		out[resultLost] = n
	}
	for _, c := range a.tunnelErrors.relay.Counts() {
		if c.Errors > 0 {
			out[c.Result.String()] = c.Errors
		}
	}
	return out
}
