// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/pathtrace/copies"
	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/internal/pathtrace/paths"
)

const (
	askHopLimit = copies.HopLimit
	askNodes    = copies.Nodes
)

// asked is a probe that asked for copies.
type asked struct {
	flow int
	sent time.Time // with the steady clock
}

const (
	// leastWait is the least time for which answers to these probes are awaited: the first
	// packets of a flow may wait for neighbour discovery, and their readers for a processor.
	leastWait = 50 * time.Millisecond
	// roundTrips is for how many of the longest round trips: the destination may be as far
	// from the last node that returned a copy as that is from here.
	roundTrips = 2
)

// probeLoopback sends a probe with the Loopback flag in each flow, and then tells which of them were
// not answered.
func (p *Prober) probeLoopback(ctx context.Context) {
	ticker := time.NewTicker(p.config.Interval)
	defer ticker.Stop()
	for i := range p.flows {
		if i > 0 && !tick(ctx, ticker.C) {
			return
		}
		p.sendAsking(i)
	}
	wait, done := p.awaitAnswers(ctx, time.Now())
	if done {
		return
	}
	p.mu.Lock()
	for i, f := range p.flows {
		if !f.answered {
			p.paths.Unanswered(i, wait)
		}
	}
	p.mu.Unlock()
	if p.config.Unanswered != nil {
		p.config.Unanswered(p.Report())
	}
}

// awaitAnswers waits until all flows are answered, or for as long as answers may take: the
// round trips that copies show say how long that is.
func (p *Prober) awaitAnswers(ctx context.Context, sent time.Time) (waited time.Duration, done bool) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		p.mu.Lock()
		wait := min(max(leastWait, roundTrips*p.longest), p.config.Timeout)
		done = true
		for _, f := range p.flows {
			done = done && f.answered
		}
		p.mu.Unlock()
		if done || time.Since(sent) >= wait {
			return wait, done
		}
		if !tick(ctx, ticker.C) {
			return 0, true
		}
	}
}

func (p *Prober) sendAsking(number int) {
	f := &p.flows[number]
	p.mu.Lock()
	p.number++
	id := message.ID{Nonce: p.nonce, Number: p.number, Flow: uint16(number), HopLimit: askHopLimit}
	p.waiting[id.Number] = waiting{flow: number, hops: askHopLimit, sent: time.Now(), walk: true, asks: true}
	p.order = append(p.order, id.Number)
	p.asked[id.Number] = asked{number, time.Now()}
	p.mu.Unlock()
	payload := message.AppendProbe(nil, id, p.config.Key)
	header := copies.Identify(append([]byte(nil), p.askers...), p.nonce, id.Number)
	var err error
	if p.config.Echo {
		err = p.echo.Send(p.echoRequest(f, id, header, payload))
	} else {
		// By the socket of the flow: the kernel chooses among equal paths as for its other probes.
		err = f.send(p.config, header, payload, askHopLimit)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed = err
		delete(p.waiting, id.Number)
		delete(p.asked, id.Number)
	}
}

// returned takes a copy from a node, given its Hop-by-Hop header. Those of other runs are
// none of its business.
func (p *Prober) returned(from netip.Addr, header []byte) {
	way, number, ok := copies.Find(header, p.config.Namespace, p.nonce)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	probe, ok := p.asked[number]
	if !ok {
		p.ignored[Repeated]++
		return
	}
	there, last, ok := copies.There(way)
	if !ok {
		p.ignored[Malformed]++
		return
	}
	p.copied++
	p.longest = max(p.longest, time.Since(probe.sent))
	p.paths.Walked(probe.flow, paths.Reply{Kind: paths.Copied, From: from, SentHops: askHopLimit, Arrived: last + 1, Trace: &there})
}
