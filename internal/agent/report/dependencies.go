// SPDX-License-Identifier: Apache-2.0

// Package report has the services that make records of what the data plane and the kernel hand
// over, pass them to observers and sinks, and tell collectors which are complete.
package report

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/edgetoedge"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/kernelevents"
	"github.com/waymark-net/waymark/ioam"
)

// Dependencies are what the services of this package need of the agent.
type Dependencies struct {
	Log      *slog.Logger
	NodeName func() string // of this node in records
	State    service.Current
	Tasks    *service.Tasks
	System   System
	Datapath Datapath

	OneClock    bool   // all nodes of the domain read this machine's clock
	HistoryFile string // keeps the history for the next agent
	EventsFile  string // and the events
}

// System is what is needed of the machine; [service.System] documents it.
type System interface {
	Clock() (health.Clock, error)
	SourceTo(netip.Addr) (netip.Addr, error)
	OpenSender() (service.PacketSender, error)
	WatchKernelEvents(ctx context.Context, count *kernelevents.Counters, listening func(), heard func(ioam.Trace)) error
}

// Datapath is what is needed of the data plane, which documents it.
type Datapath interface {
	Counters() ([]datapath.Counters, error)
	Coverage() *coverage.Log
	ReadSamples(context.Context, datapath.Samples) error
	ReadWaiting(datapath.Samples) error
	ReadThrough() bool
	CollectFlows(func(datapath.Flow)) error
	CollectEdges(func(datapath.EdgeFlow)) (left edgetoedge.Totals, err error)
	Delays() (list []datapath.Delays, counts bool, err error)
	SetRecordsWanted(n int) error
	SetTAIOffset(time.Duration) error
	FollowClock() error
}
