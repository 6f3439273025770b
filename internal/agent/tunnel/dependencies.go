// SPDX-License-Identifier: Apache-2.0

// Package tunnel has the services about the tunnels that encapsulations make: their path MTUs,
// ICMPv6 errors about packets in them, and their sources.
package tunnel

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/socketdrops"
)

// Dependencies are what the services of this package need of the agent.
type Dependencies struct {
	Log      *slog.Logger
	State    service.Current
	Tasks    *service.Tasks
	System   System
	Datapath Datapath
	Changes  sync.Locker // held while the configuration is being replaced
	Resolve  func()      // makes the agent resolve the configuration again

	PathMTUFile string // keeps path MTUs for the next agent
}

// System is what is needed of the machine; [service.System] documents it.
type System interface {
	config.Host
	WatchTooBig(ctx context.Context, lost *socketdrops.Counter, listening func(), heard func(message []byte)) error
	WatchTunnelErrors(ctx context.Context, lost *socketdrops.Counter, listening func(),
		heard func(m icmpv6.Message, send func(packet []byte) error)) error
	OwnAddresses() func(netip.Addr) bool
}

// Datapath is what is needed of the data plane.
type Datapath interface {
	// SetPathMTU sets the path MTU of an encapsulation's tunnel; 0: unknown.
	SetPathMTU(encapsulation string, mtu int) error
}
