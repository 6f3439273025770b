// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pathmtu"
	"github.com/waymark-net/waymark/internal/socketdrops"
)

// pathMTUs learns the path MTUs of tunnels, and sets them in the data plane.
type pathMTUs struct {
	idle
	*core
	table pathmtu.Table
	wakes chan struct{}          // something changed
	fault atomic.Pointer[string] // why no messages are received; nil when they are
	lost  socketdrops.Counter    // messages that found no room
}

func newPathMTUs(c *core) *pathMTUs { return &pathMTUs{core: c, wakes: make(chan struct{}, 1)} }

var (
	descPathMTU = desc("path_mtu_bytes", "Known path MTU of a tunnel that is smaller than its interface's.", "destination")
	descTooBig  = desc("packet_too_big_total", "Packet Too Big messages that arrived, by result.", "result")
)

const (
	// pathPeriod is how often path MTUs are checked for their expiry.
	pathPeriod = time.Second
	// pathPause bounds how often the data plane is changed, however many messages
	// arrive.
	pathPause = 20 * time.Millisecond
	// maxPathFile is more than a full table takes.
	maxPathFile = 1 << 20
)

// tunnels are the configured encapsulations that make tunnels.
func tunnels(s *state) []pathmtu.Tunnel {
	mtus := make(map[model.IfIndex]int)
	for _, i := range s.resolved.Node.Interfaces {
		mtus[i.Index] = i.MTU
	}
	var out []pathmtu.Tunnel
	for _, e := range s.resolved.Node.Encapsulations {
		if e.Mode != model.ModeInline {
			out = append(out, pathmtu.Tunnel{Source: e.TunnelSource, Destination: e.TunnelDestination, MTU: mtus[e.Interface]})
		}
	}
	return out
}

// open restores what an earlier agent knew, so that no packets are lost to learn it
// again.
func (p *pathMTUs) open() error {
	known, err := readPathMTUs(p.options.Place.PathMTUFile())
	if err != nil {
		p.log.Warn("path MTUs will be learned again", "error", err)
	}
	p.table.Restore(known, time.Now())
	return nil
}

// prepare gives the next generation the path MTU of each tunnel's destination.
func (p *pathMTUs) prepare(next *plan) error {
	for i := range next.generation.Node.Encapsulations {
		if e := &next.generation.Node.Encapsulations[i]; e.Mode != model.ModeInline {
			e.PathMTU = p.table.MTU(e.TunnelDestination)
		}
	}
	return nil
}

// run listens for Packet Too Big messages about tunnelled packets: they are sent to
// this node, and its kernel does not know the tunnels.
func (p *pathMTUs) run(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { p.follow(ctx) })
	defer following.Wait()
	p.hear(ctx, "the path MTU of tunnels is not watched", &p.fault, func(listening func()) error {
		return p.system.WatchTooBig(ctx, &p.lost, listening, p.heard)
	})
	return nil
}

func (p *pathMTUs) heard(message []byte) {
	if p.table.Hear(message, tunnels(p.state.Load()), time.Now()) != pathmtu.Lowered {
		return
	}
	select {
	case p.wakes <- struct{}{}:
	default:
	}
}

// follow keeps the path MTUs in the data plane current.
func (p *pathMTUs) follow(ctx context.Context) {
	due := time.NewTicker(pathPeriod)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wakes:
		case <-due.C:
			p.table.Expire(time.Now())
		}
		p.apply()
		if !sleep(ctx, pathPause) {
			return
		}
	}
}

// apply waits for a change in progress: its generation has the path MTUs that were
// known when it was made.
func (p *pathMTUs) apply() {
	changed := p.table.TakeChanged()
	if len(changed) == 0 {
		return
	}
	p.change.Lock()
	defer p.change.Unlock()
	for _, e := range p.state.Load().resolved.Node.Encapsulations {
		if e.Mode == model.ModeInline || !changed[e.TunnelDestination] {
			continue
		}
		if err := p.datapath.SetPathMTU(e.Name, p.table.MTU(e.TunnelDestination)); err != nil {
			p.log.Warn("a path MTU could not be set in the data plane", "error", err)
		}
	}
	for destination := range changed {
		if mtu := p.table.MTU(destination); mtu != 0 {
			p.log.Info("the path MTU of a tunnel is smaller than its interface's MTU", "destination", destination, "mtu", mtu)
		} else {
			p.log.Info("the path MTU of a tunnel has expired", "destination", destination)
		}
	}
	if err := p.save(); err != nil {
		p.log.Warn("path MTUs will be learned again after a restart", "error", err)
	}
}

// save keeps the path MTUs for the next agent.
func (p *pathMTUs) save() error {
	b, err := json.Marshal(p.table.Paths())
	if err != nil {
		return err
	}
	return replaceFile(p.options.Place.PathMTUFile(), b)
}

func readPathMTUs(path string) ([]pathmtu.Path, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPathFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	var known []pathmtu.Path
	if err := json.Unmarshal(b, &known); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return known, nil
}

func (p *pathMTUs) collect(g *metrics.Gatherer) {
	for _, path := range p.table.Paths() {
		g.Add(descPathMTU, float64(path.MTU), path.Destination.String())
	}
	for _, c := range p.table.Counts() {
		g.Add(descTooBig, float64(c.Messages), c.Result.String())
	}
	g.Add(descTooBig, float64(p.lost.Lost()), resultLost)
}

func (p *pathMTUs) warnings(s *state) []health.Warning {
	fault := p.fault.Load()
	if fault == nil || len(tunnels(s)) == 0 {
		return nil
	}
	return []health.Warning{health.New(health.PathMTUUnwatched, "",
		"Packet Too Big messages are not received, so packets that a tunnel makes too large for a link of its path are lost: "+*fault,
		unheardCure)}
}

func (p *pathMTUs) report(_ *state, status *api.Status) { status.PathMTUs = nonNil(p.table.Paths()) }
