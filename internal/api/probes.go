// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
)

// Probes are the probes that the agent sends as long as it runs.
type Probes struct {
	Configured   bool         `json:"configured"`
	Interval     int64        `json:"interval_ns"` // of one flow
	Flows        int          `json:"flows"`       // to each destination
	Budget       int          `json:"budget"`      // packets a second
	Destinations []ProbedNode `json:"destinations"`
	Own          []string     `json:"own"`        // destinations that are this node, and not probed
	Unresolved   []string     `json:"unresolved"` // names of hosts without a known address
	Sent         uint64       `json:"sent"`
	HopLimited   uint64       `json:"hop_limited"` // probes whose hop limits were to end on the way
	Copies       uint64       `json:"copies"`      // of probes, that nodes returned
	Suppressed   uint64       `json:"suppressed"`  // because of the budget, or because the agent was late
	Skipped      uint64       `json:"skipped"`     // of these, because the agent was late
	SendFailed   uint64       `json:"send_failed"`
}

// States of a ProbedNode.
const (
	ProbedAnswered   = "answered"   // all flows
	ProbedLost       = "lost"       // some flows, or all
	ProbedUnanswered = "unanswered" // no probe was answered yet
	ProbedWaiting    = "waiting"    // likewise, and it is too early to say so
)

// ProbedNode is a destination of probes.
type ProbedNode struct {
	Name        string        `json:"name"`
	Address     netip.Addr    `json:"address"`
	State       string        `json:"state"`
	Flows       int           `json:"flows"`
	FlowsLost   int           `json:"flows_lost"`
	Sent        uint64        `json:"sent"`
	Lost        uint64        `json:"lost"` // not answered within the timeout
	LastMinute  ProbeCount    `json:"last_minute"`
	LastMinutes []ProbeCount  `json:"last_minutes"` // of ten seconds each, the oldest first
	RoundTrip   *ProbeTimes   `json:"round_trip"`
	Paths       []ProbedPath  `json:"paths"`
	Losses      []ProbeLosses `json:"losses"`
	Said        string        `json:"said,omitempty"` // by a node about probes that are not answered
}

// ProbeCount is how many probes of a time are known to be answered or lost, and how many were lost.
type ProbeCount struct {
	Probes uint64 `json:"probes"`
	Lost   uint64 `json:"lost"`
}

// ProbeTimes are the quantiles of round trips, in nanoseconds: upper bounds, too great by 4.4% at
// most.
type ProbeTimes struct {
	Count uint64 `json:"count"`
	Mean  int64  `json:"mean_ns"`
	P50   int64  `json:"p50_ns"`
	P95   int64  `json:"p95_ns"`
	P99   int64  `json:"p99_ns"`
}

// ProbedPath is a path to a destination.
type ProbedPath struct {
	Path      string      `json:"path"`  // its label in metrics
	Nodes     string      `json:"nodes"` // the same with the names of nodes, where there are some
	Flows     int         `json:"flows"` // that take it now
	Answered  uint64      `json:"answered"`
	Lost      uint64      `json:"lost"`
	Overflow  bool        `json:"overflow"` // the trace had no room for all nodes
	RoundTrip *ProbeTimes `json:"round_trip"`
	Hops      []ProbedHop `json:"hops"`
}

// ProbedHop is a node of a path.
type ProbedHop struct {
	NodeID  *ioam.NodeID      `json:"node_id"`
	Name    string            `json:"name,omitempty"`
	Ingress *ioam.InterfaceID `json:"ingress_id"`
	Egress  *ioam.InterfaceID `json:"egress_id"`
	Address *netip.Addr       `json:"address"`
	Silent  bool              `json:"silent"` // it wrote nothing into the trace
}

// ProbeLosses is a place where probes of some flows vanish.
type ProbeLosses struct {
	Flows         int          `json:"flows"`
	After         string       `json:"after"`     // the last node that they reach; "" if that is not known
	AfterHop      int          `json:"after_hop"` // its position; 0 is this node
	Before        string       `json:"before"`    // the next node that replied before, and does not now
	Evidence      string       `json:"evidence"`
	Since         instant.Time `json:"since"`
	Path          string       `json:"path"`
	Error         string       `json:"error,omitempty"` // what a node says
	AgentAway     bool         `json:"agent_away"`      // the destination is reached, and its agent does not answer
	NeverAnswered bool         `json:"never_answered"`
}

// Probes asks for the probes' results.
func (c *Client) Probes(ctx context.Context) (Probes, error) {
	var p Probes
	err := c.do(ctx, http.MethodGet, "/v1/probes", nil, &p)
	return p, err
}
