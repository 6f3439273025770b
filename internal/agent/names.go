// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/model"
)

// names caches the addresses of collectors' names, so that only the first lookup waits
// for DNS. It keeps packets to these collectors out of this node's encapsulations.
type names struct {
	service.Idle
	*core
	lookup func(name string) []netip.Addr
	peers  *peers
	mu     sync.Mutex
	known  map[string][]netip.Addr
}

func newNames(c *core) *names {
	return &names{core: c, lookup: c.system.Addresses, peers: newPeers(c), known: map[string][]netip.Addr{}}
}

// host is the system, with cached names and the collectors of running sinks.
type host struct {
	service.System
	names *names
}

func (h host) Addresses(name string) []netip.Addr { return h.names.addresses(name) }
func (h host) Peers() []model.Collector           { return h.names.peers.all() }

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

// refresh looks a name up again, and reports whether its addresses changed. Without an
// answer the old addresses stay: exports may still go there.
func (n *names) refresh(name string) (changed bool) {
	found := n.lookup(name)
	if len(found) > 0 {
		n.peers.lookedUp(name, found)
	}
	slices.SortFunc(found, netip.Addr.Compare) // name servers rotate the order
	n.mu.Lock()
	defer n.mu.Unlock()
	before, asked := n.known[name]
	if len(found) == 0 && asked || slices.Equal(found, before) && asked {
		return false
	}
	n.known[name] = found
	return true
}

// all lists the names that were looked up.
func (n *names) all() (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range n.known {
		list = append(list, name)
	}
	return list
}

// namePeriod is how often names are looked up again.
const namePeriod = 10 * time.Second

func (n *names) Run(ctx context.Context) error {
	n.tasks.Every(ctx, namePeriod, func() {
		for _, name := range n.all() {
			if n.refresh(name) {
				n.requestResolve()
			}
		}
	})
	return nil
}
