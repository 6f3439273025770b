// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pathmtu"
	"github.com/waymark-net/waymark/internal/socketdrops"
)

// paths is what is known of the paths of tunnels.
type paths struct {
	table pathmtu.Table
	wake  chan struct{}          // something changed
	fault atomic.Pointer[string] // why nothing is heard; nil when it is
	lost  socketdrops.Counter    // messages that were not heard
}

const (
	// pathPeriod is how often old path MTUs are looked for.
	pathPeriod = time.Second
	// pathPause bounds how often the data plane is told, whoever sends.
	pathPause = 20 * time.Millisecond
	// listenRetry is when a socket that failed is opened again.
	listenRetry = time.Minute
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

// hearTooBig listens for Packet Too Big messages about tunnelled packets: the
// source of these is this node, and the kernel knows of no such tunnel.
func (a *Agent) hearTooBig(ctx context.Context) {
	a.hear(ctx, "the path MTU of tunnels is not watched", &a.paths.fault, func(listening func()) error {
		return a.options.System.WatchTooBig(ctx, &a.paths.lost, listening, a.heard)
	})
}

// hear listens until the context ends, and keeps why it cannot.
func (a *Agent) hear(ctx context.Context, without string, fault *atomic.Pointer[string], watch func(listening func()) error) {
	for {
		err := watch(func() { fault.Store(nil) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the socket was closed")
		}
		text := err.Error()
		if before := fault.Swap(&text); before == nil || *before != text {
			a.log.Warn(without, "error", err)
		}
		if !sleep(ctx, listenRetry) {
			return
		}
	}
}

func (a *Agent) heard(message []byte) {
	if a.paths.table.Hear(message, tunnels(a.state.Load()), time.Now()) != pathmtu.Lowered {
		return
	}
	select {
	case a.paths.wake <- struct{}{}:
	default:
	}
}

// followPathMTUs tells the data plane what the paths of its tunnels carry.
func (a *Agent) followPathMTUs(ctx context.Context) {
	due := time.NewTicker(pathPeriod)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.paths.wake:
		case <-due.C:
			a.paths.table.Expire(time.Now())
		}
		a.applyPathMTUs()
		if !sleep(ctx, pathPause) {
			return
		}
	}
}

// applyPathMTUs waits for what is being replaced: a generation has the path
// MTUs that were known when it was made.
func (a *Agent) applyPathMTUs() {
	changed := a.paths.table.TakeChanged()
	if len(changed) == 0 {
		return
	}
	a.change.Lock()
	defer a.change.Unlock()
	for _, e := range a.state.Load().resolved.Node.Encapsulations {
		if e.Mode == model.ModeInline || !changed[e.TunnelDestination] {
			continue
		}
		if err := a.datapath.SetPathMTU(e.Name, a.paths.table.MTU(e.TunnelDestination)); err != nil {
			a.log.Warn("the data plane does not know a path MTU", "error", err)
		}
	}
	for destination := range changed {
		if mtu := a.paths.table.MTU(destination); mtu != 0 {
			a.log.Info("a tunnel's path carries less than its interface", "destination", destination, "mtu", mtu)
		} else {
			a.log.Info("a tunnel's path may carry more again", "destination", destination)
		}
	}
	if err := a.savePathMTUs(); err != nil {
		a.log.Warn("path MTUs will be found again behind a restart", "error", err)
	}
}

// savePathMTUs keeps what is known for the next agent.
func (a *Agent) savePathMTUs() error {
	b, err := json.Marshal(a.paths.table.Paths())
	if err != nil {
		return err
	}
	return replaceFile(a.options.Place.PathMTUFile(), b)
}

// restorePathMTUs takes up what an earlier agent knew: the first packets behind
// a restart are not lost to find it out again.
func (a *Agent) restorePathMTUs() {
	known, err := readPathMTUs(a.options.Place.PathMTUFile())
	if err != nil {
		a.log.Warn("path MTUs will be found again", "error", err)
	}
	a.paths.table.Restore(known, time.Now())
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
