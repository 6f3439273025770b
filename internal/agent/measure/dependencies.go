// SPDX-License-Identifier: Apache-2.0

// Package measure has the services that measure the loss and the delay of flows: they read what
// this node counted in each block, ask other nodes by STAMP, TWAMP Light or RFC 6374, answer
// the questions of others, and note where packets may have passed uncounted.
package measure

import (
	"log/slog"
	"net/netip"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/record"
)

// Dependencies are what the services of this package need of the agent.
type Dependencies struct {
	Log      *slog.Logger
	NodeName func() string // of this node in records
	State    service.Current
	Tasks    *service.Tasks
	System   System
	Datapath Datapath
	Records  Records
}

// System is what is needed of the machine; [service.System] documents it.
type System interface {
	// SourceTo is the address from which the kernel sends to another one.
	SourceTo(netip.Addr) (netip.Addr, error)
	Clock() (health.Clock, error)
}

// Datapath is what is needed of the data plane, which documents it.
type Datapath interface {
	Blocks(block uint64, visit func(datapath.BlockCounts))
	BlockReported(flow string, block uint64)
	Coverage() *coverage.Log
	NewTaps() *datapath.Taps
}

// Records takes the records of results.
type Records interface{ Offer(...record.Record) }
