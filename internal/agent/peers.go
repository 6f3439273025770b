// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// peers are the collectors to which sinks send now. A name may mean other addresses by
// now, and the configuration may no longer have the sink: until its last packet is sent,
// packets to it get no IOAM header of this node (RFC 9326 §3.1.2).
type peers struct {
	*core
	mu   sync.Mutex
	used []*peer
}

type peer struct {
	host    string
	to      model.Collector
	missing int // lookups in a row that did not have its address
	left    chan struct{}
}

func newPeers(c *core) *peers { return &peers{core: c} }

// Spare implements sink.Peers.
func (p *peers) Spare(ctx context.Context, network, host string, at netip.AddrPort) (left <-chan struct{}, release func(), err error) {
	to := model.Collector{Address: at.Addr().Unmap().WithZone(""), Port: at.Port(), Protocol: ioam.NextHeaderTCP}
	if strings.HasPrefix(network, "udp") {
		to.Protocol = ioam.NextHeaderUDP
	}
	one := &peer{host: host, to: to, left: make(chan struct{})}
	p.mu.Lock()
	p.used = append(p.used, one)
	p.mu.Unlock()
	release = sync.OnceFunc(func() {
		p.mu.Lock()
		p.used = slices.DeleteFunc(p.used, func(o *peer) bool { return o == one })
		p.mu.Unlock()
		p.requestResolve() // the configuration may not have it
	})
	if err := p.await(ctx, to); err != nil {
		release()
		return nil, nil, err
	}
	return one.left, release, nil
}

// sparePoll is how often a sink looks whether the programs know its collector.
const sparePoll = 20 * time.Millisecond

// await waits until the configuration in force has the collector.
func (p *peers) await(ctx context.Context, to model.Collector) error {
	for looked := false; ; {
		if p.inForce(to) {
			return nil
		}
		if !looked && p.state.Load() != nil {
			p.requestResolve()
			looked = true
		}
		if !service.Sleep(ctx, sparePoll) {
			return fmt.Errorf(
				"packets to %s cannot be kept out of this node's encapsulations, of which the log says why; at most %d collectors have room",
				to.Address,
				model.MaxCollectors,
			)
		}
	}
}

func (p *peers) inForce(to model.Collector) bool {
	if to.Address.Is4() {
		return true // encapsulations are of IPv6
	}
	s := p.state.Load()
	return s != nil && slices.Contains(s.Resolved.Node.Collectors, to)
}

// all lists the collectors.
func (p *peers) all() (list []model.Collector) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.used {
		if !slices.Contains(list, o.to) {
			list = append(list, o.to)
		}
	}
	return list
}

// leftAfter is after how many lookups in a row without its address a host counts as
// elsewhere. Some name servers answer with a part of a host's addresses at a time.
const leftAfter = 3

// lookedUp tells sinks whose host has other addresses.
func (p *peers) lookedUp(host string, found []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.used {
		if o.host != host {
			continue
		}
		if slices.ContainsFunc(found, func(a netip.Addr) bool { return a.Unmap().WithZone("") == o.to.Address }) {
			o.missing = 0
			continue
		}
		if o.missing++; o.missing == leftAfter {
			close(o.left)
		}
	}
}
