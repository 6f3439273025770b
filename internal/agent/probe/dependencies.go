// SPDX-License-Identifier: Apache-2.0

// Package probe has the service that probes other nodes as long as the agent runs, and says where
// probes vanish.
package probe

import (
	"log/slog"
	"net/netip"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/record"
)

// Dependencies are what the service needs of the agent.
type Dependencies struct {
	Log      *slog.Logger
	NodeName func() string // of this node in records
	State    service.Current
	Tasks    *service.Tasks
	System   System
	Records  Records
}

// System is what is needed of the machine; [service.System] documents it.
type System interface {
	OwnAddresses() func(netip.Addr) bool
	Addresses(name string) []netip.Addr
}

// Records takes the records of events.
type Records interface{ Offer(...record.Record) }
