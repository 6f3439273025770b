// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"time"

	"github.com/waymark-net/waymark/internal/pathtrace/paths"
)

const (
	// tries is how often a hop that says nothing is tried: errors are limited in rate
	// (RFC 4443 §2.4 (f)).
	tries = 3
	// pause is the least between two tries of a hop.
	pause = 500 * time.Millisecond
	// ahead is how many hops are tried at once where the length of the path is not known.
	ahead = 8
	// walkInterval is the least between two probes that walk.
	walkInterval = 5 * time.Millisecond
)

// walk lets hop limits end on the way: of one flow of each path, and of those of which the
// path is not known.
func (p *Prober) walk(ctx context.Context) {
	p.mu.Lock()
	flows := p.paths.ToWalk(paths.MaxWalked)
	p.mu.Unlock()
	ticker := time.NewTicker(max(p.config.Interval, walkInterval))
	defer ticker.Stop()
	for low := 1; low <= p.config.MaxHops; low += ahead {
		again := false
		for try := range tries {
			began, any := time.Now(), false
			for _, flow := range flows {
				for at := low; at < low+ahead && at <= p.config.MaxHops; at++ {
					p.mu.Lock()
					wanted := p.paths.Unwalked(flow, at)
					p.mu.Unlock()
					if !wanted {
						continue
					}
					if !tick(ctx, ticker.C) {
						p.giveUp(time.Time{})
						return
					}
					p.send(flow, uint8(at), true)
					any = true
				}
			}
			if p.awaitReplies(ctx); !any || ctx.Err() != nil {
				break
			}
			if wait := pause - time.Since(began); try < tries-1 && wait > 0 {
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
				}
			}
		}
		p.mu.Lock()
		for _, flow := range flows {
			again = again || p.paths.GoesOn(flow, low, low+ahead-1)
		}
		p.mu.Unlock()
		if !again || ctx.Err() != nil {
			return
		}
	}
}
