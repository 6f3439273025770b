// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// look wakes followLinks.
func (a *Agent) look() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// followSources looks whether the kernel would choose other tunnel sources by
// now. No event tells: routes, rules and addresses all decide.
func (a *Agent) followSources() {
	for to, before := range a.state.Load().resolved.Derived {
		now, err := config.SourceOf(a.options.System, to)
		if err != nil {
			now = netip.Addr{}
		}
		if now != before {
			a.look()
			return
		}
	}
}

// sourcelessWarnings are about encapsulations that wait for a tunnel source.
func sourcelessWarnings(list []config.Sourceless) []health.Warning {
	var ws []health.Warning
	for _, s := range list {
		ws = append(ws, health.New(health.TunnelUnroutable, "",
			fmt.Sprintf("encapsulation %s is not in force, because its tunnel to %s has no source: %s", s.Encapsulation, s.Destination, s.Cause),
			fmt.Sprintf("add a route to %s, or set tunnel.source to an address of this node; it is served as soon as there is one", s.Destination)))
	}
	return ws
}

// checkSource refuses a rule typed now whose tunnel would have no source.
func (a *Agent) checkSource(e config.Encapsulation) error {
	if e.Tunnel == nil || e.Tunnel.Source.IsValid() || e.Mode == model.ModeInline {
		return nil
	}
	if _, err := config.SourceOf(a.options.System, e.Tunnel.Destination); err != nil {
		return fmt.Errorf("tunnel source: %w; give one of this node's addresses with tunsrc", err)
	}
	return nil
}

// names remembers what collectors' names stand for, so that only the first look
// waits for the domain name system.
type names struct {
	lookup func(name string) []netip.Addr
	mu     sync.Mutex
	known  map[string][]netip.Addr
}

// host is the system, with names that are remembered.
type host struct {
	System
	names *names
}

func (a *Agent) host() config.Host { return host{a.options.System, &a.names} }

func (h host) Addresses(name string) []netip.Addr { return h.names.addresses(name) }

func (n *names) addresses(name string) []netip.Addr {
	n.mu.Lock()
	known, ok := n.known[name]
	n.mu.Unlock()
	if ok {
		return known
	}
	n.refresh(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known[name]
}

// refresh asks again, and tells whether the answer is another one. Without an
// answer, what was known stays: exports may still go there.
func (n *names) refresh(name string) (changed bool) {
	found := n.lookup(name)
	slices.SortFunc(found, netip.Addr.Compare) // servers turn the order around
	n.mu.Lock()
	defer n.mu.Unlock()
	before, asked := n.known[name]
	if len(found) == 0 && asked || slices.Equal(found, before) && asked {
		return false
	}
	n.known[name] = found
	return true
}

// all are the names that were asked for.
func (n *names) all() (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range n.known {
		list = append(list, name)
	}
	return list
}

// namePeriod is how often names are asked for again.
const namePeriod = 10 * time.Second

// followNames keeps collectors by name out of this node's encapsulations.
func (a *Agent) followNames(ctx context.Context) {
	for sleep(ctx, namePeriod) {
		for _, name := range a.names.all() {
			if a.names.refresh(name) {
				a.look()
			}
		}
	}
}
