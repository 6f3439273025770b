// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pathmtu"
	"github.com/waymark-net/waymark/internal/replacefile"
	"github.com/waymark-net/waymark/internal/socketdrops"
)

// PathMTUs learns the path MTUs of tunnels, and sets them in the data plane.
type PathMTUs struct {
	service.Idle
	d     Dependencies
	table pathmtu.Table
	wakes chan struct{}          // something changed
	fault atomic.Pointer[string] // why no messages are received; nil when they are
	lost  socketdrops.Counter    // messages that found no room
}

// NewPathMTUs makes a table without path MTUs.
func NewPathMTUs(d Dependencies) *PathMTUs { return &PathMTUs{d: d, wakes: make(chan struct{}, 1)} }

var (
	descPathMTU = service.Metric("path_mtu_bytes", "Known path MTU of a tunnel that is smaller than its interface's.", "destination")
	descTooBig  = service.Metric("packet_too_big_total", "Packet Too Big messages that arrived, by result.", "result")
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

// Open restores what an earlier agent knew, so that no packets are lost to learn it
// again.
func (p *PathMTUs) Open() error {
	known, err := readPathMTUs(p.d.PathMTUFile)
	if err != nil {
		p.d.Log.Warn("path MTUs will be learned again", "error", err)
	}
	p.table.Restore(known, time.Now())
	return nil
}

// Prepare gives the next generation the path MTU of each tunnel's destination.
func (p *PathMTUs) Prepare(next *service.Plan) error {
	for i := range next.Generation.Node.Encapsulations {
		if e := &next.Generation.Node.Encapsulations[i]; e.Mode != model.ModeInline {
			e.PathMTU = p.table.MTU(e.TunnelDestination)
		}
	}
	return nil
}

// Run listens for Packet Too Big messages about tunnelled packets: they are sent to
// this node, and its kernel does not know the tunnels.
func (p *PathMTUs) Run(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { p.follow(ctx) })
	defer following.Wait()
	service.Hear(ctx, p.d.Log, "the path MTU of tunnels is not watched", &p.fault, func(listening func()) error {
		return p.d.System.WatchTooBig(ctx, &p.lost, listening, p.handleTooBig)
	})
	return nil
}

func (p *PathMTUs) handleTooBig(message []byte) {
	if p.table.Hear(message, tunnels(p.d.State.Load()), time.Now()) != pathmtu.Lowered {
		return
	}
	select {
	case p.wakes <- struct{}{}:
	default:
	}
}

// follow keeps the path MTUs in the data plane current.
func (p *PathMTUs) follow(ctx context.Context) {
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
		if !service.Sleep(ctx, pathPause) {
			return
		}
	}
}

// apply waits for a change in progress: its generation has the path MTUs that were
// known when it was made.
func (p *PathMTUs) apply() {
	changed := p.table.TakeChanged()
	if len(changed) == 0 {
		return
	}
	p.d.Changes.Lock()
	defer p.d.Changes.Unlock()
	for _, e := range p.d.State.Load().Resolved.Node.Encapsulations {
		if e.Mode == model.ModeInline || !changed[e.TunnelDestination] {
			continue
		}
		if err := p.d.Datapath.SetPathMTU(e.Name, p.table.MTU(e.TunnelDestination)); err != nil {
			p.d.Log.Warn("a path MTU could not be set in the data plane", "error", err)
		}
	}
	for destination := range changed {
		if mtu := p.table.MTU(destination); mtu != 0 {
			p.d.Log.Info("the path MTU of a tunnel is smaller than its interface's MTU", "destination", destination, "mtu", mtu)
		} else {
			p.d.Log.Info("the path MTU of a tunnel has expired", "destination", destination)
		}
	}
	if err := p.save(); err != nil {
		p.d.Log.Warn("path MTUs will be learned again after a restart", "error", err)
	}
}

// save keeps the path MTUs for the next agent.
func (p *PathMTUs) save() error {
	b, err := json.Marshal(p.table.Paths())
	if err != nil {
		return err
	}
	return replacefile.Write(p.d.PathMTUFile, b, 0o600)
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

// Known is the path MTU of a tunnel, 0 if it is not known, and until when it holds.
func (p *PathMTUs) Known(destination netip.Addr) (mtu int, until time.Time) {
	return p.table.MTU(destination), p.table.Until(destination)
}

func (p *PathMTUs) Collect(g *metrics.Gatherer) {
	for _, path := range p.table.Paths() {
		g.Add(descPathMTU, float64(path.MTU), path.Destination.String())
	}
	for _, c := range p.table.Counts() {
		g.Add(descTooBig, float64(c.Messages), c.Result.String())
	}
	g.Add(descTooBig, float64(p.lost.Lost()), resultLost)
}

func (p *PathMTUs) Warnings(s *service.State) []health.Warning {
	fault := p.fault.Load()
	if fault == nil || len(tunnels(s)) == 0 {
		return nil
	}
	return []health.Warning{health.New(health.PathMTUUnwatched, "",
		"Packet Too Big messages are not received, so packets that a tunnel makes too large for a link of its path are lost: "+*fault,
		unheardCure)}
}

func (p *PathMTUs) Report(_ *service.State, status *api.Status) {
	status.PathMTUs = service.NonNil(p.table.Paths())
}
