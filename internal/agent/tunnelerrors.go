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
	"github.com/waymark-net/waymark/internal/socketdrops"
	"github.com/waymark-net/waymark/internal/tunnelerror"
	"github.com/waymark-net/waymark/ioam"
)

// tunnelErrors is what relays ICMPv6 errors about tunnelled packets. All but the
// relay, the fault and what is lost belongs to the one who hears.
type tunnelErrors struct {
	relay tunnelerror.Relay
	fault atomic.Pointer[string] // why nothing is heard; nil when it is
	lost  socketdrops.Counter    // errors that were not heard

	state *state // that node is of
	node  *ioam.Node

	isOwn   func(netip.Addr) bool // whether an address was this node's at ownRead
	ownRead time.Time
	logged  time.Time // that a tunnel's headers are refused
}

const (
	// ownPeriod is how often this node's addresses are read at most.
	ownPeriod = time.Second
	// refusalPeriod bounds how often the log says that headers are refused.
	refusalPeriod = time.Minute
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
		node, err := ioam.NewNode(s.resolved.Node)
		if err != nil {
			a.log.Warn("errors about tunnelled packets are not relayed", "error", err)
			return
		}
		e.state, e.node = s, node
	}
	now := time.Now()
	result := e.relay.Hear(m, tunnelerror.Node{Reference: e.node, HasAddress: a.hasAddress, Outside: s.resolved.Outside}, now, send)
	isRefusal := result == tunnelerror.TunnelOwn && icmpv6.Type(m.Body[0]) == icmpv6.ParameterProblem
	if isRefusal && now.Sub(e.logged) >= refusalPeriod {
		e.logged = now
		a.log.Warn("a node refuses packets of a tunnel, and they are lost", "node", m.Source, "code", m.Body[1])
	}
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
