// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
)

// segment is a link on the way of a flow, and how the lab loses the flow's packets there.
type segment struct {
	flow             string
	number           loss.PointID // of the node before it, along the way; 0 is the ingress
	from, device, to string
	rule             linkloss.Rule // zero: none
}

// lastSID is where both policies end; only their packets have it.
var lastSID = netip.MustParsePrefix("fc00:3::d6/128")

var segments = []segment{
	{"north", 0, "ingress", "eth1", "north1", linkloss.Rule{Burst: 1, Every: 50, LastSID: lastSID}},
	{"north", 1, "north1", "eth1", "north2", linkloss.Rule{Probability: 0.02, Seed: 7, LastSID: lastSID}},
	{"north", 2, "north2", "eth1", "egress", linkloss.Rule{}},
	{"south", 0, "ingress", "eth2", "south", linkloss.Rule{}},
	{"south", 1, "south", "eth1", "egress", linkloss.Rule{Burst: 3, Every: 100, LastSID: lastSID}},
}

var (
	settled      = patience.Of(time.Second)      // without a packet at a lossy link, the traffic has ended
	settleLimit  = patience.Of(6 * time.Second)  // for retransmissions
	resultsLimit = patience.Of(12 * time.Second) // for the results of the blocks
)

// link is what the demo says of a link: how many of a flow's packets the lab lost there,
// and how many the agents found to be lost.
type link struct {
	Flow     string `json:"flow"`
	From     string `json:"from"`
	To       string `json:"to"`
	Sent     uint64 `json:"sent"`
	Injected uint64 `json:"injected"`
	Measured uint64 `json:"measured"`
	// Uncertain are the packets of blocks that the agents call uncertain: their losses are not measured.
	Uncertain uint64 `json:"uncertain"`
}

// losses is the part of the demo that loses packets of SRv6 flows on the way.
type losses struct {
	lab   *lab.Lab
	show  *printer
	links []link

	faults []error

	mu        sync.Mutex
	whole     map[string]*record.Loss // by flow, the last result
	sums      map[part]link           // of the last turn
	uncertain []error                 // its blocks
}

// part is a segment of a flow, by the node before it.
type part struct {
	flow   string
	number loss.PointID
}

// mostTurns is how often packets are sent: on a busy machine, agents may call a block uncertain.
const mostTurns = 3

// measureLosses raises the topology srv6, loses packets on its links and compares what its
// ingress reports.
func measureLosses(ctx context.Context, o Options, show *printer) (part *losses, err error) {
	t, err := lab.Builtin("srv6")
	if err != nil {
		return nil, err
	}
	t.StretchBlocks()
	show.heading(
		"SRv6: at ingress, the kernel puts packets onto two policies, by north1 and north2, or by south, to egress; five agents " +
			"count them, and links lose some",
	)
	l, err := lab.Up(ctx, t, lab.Options{Name: o.Name, Program: o.Program, Owned: true, Log: o.Log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Down(ctx)) }()
	part = &losses{lab: l, show: show, whole: make(map[string]*record.Loss)}
	return part, part.run(ctx)
}

func (p *losses) run(ctx context.Context) error {
	instance, err := p.lab.Node("ingress").Instance()
	if err != nil {
		return err
	}
	stream, stop := context.WithCancel(ctx)
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- api.NewClient(instance.Socket()).Observe(stream, api.RecordFilter{}, func() { close(ready) }, p.addRecord)
	}()
	select {
	case <-ready:
	case err := <-ended:
		return errors.Join(err, errors.New("the agent of ingress reports nothing"))
	}
	if err := p.await(ctx, "the first exact block", resultsLimit, func(r *record.Loss) bool { return r.Verdict.Exact() }); err != nil {
		return err
	}
	for turn := 1; ; turn++ {
		if err := p.turn(ctx, turn == 1); err != nil {
			return err
		}
		p.mu.Lock()
		uncertain := p.uncertain
		p.mu.Unlock()
		if len(uncertain) == 0 || turn == mostTurns {
			p.faults = append(p.faults, uncertain...)
			return p.compare()
		}
		p.show.line("%v: the packets are sent once more", uncertain[0])
	}
}

// turn loses packets anew, and waits for what the agents say of them.
func (p *losses) turn(ctx context.Context, first bool) error {
	for _, s := range segments {
		if s.rule == (linkloss.Rule{}) {
			continue
		}
		if !first {
			if _, err := p.lab.RemoveLoss(s.from, s.device, 1); err != nil {
				return err
			}
		}
		if _, err := p.lab.AddLoss(s.from, s.device, s.rule); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.sums, p.uncertain = make(map[part]link), nil
	p.mu.Unlock()
	if err := p.exchange(ctx); err != nil {
		return err
	}
	end := time.Now()
	return p.await(ctx, "the results of all blocks", resultsLimit, func(r *record.Loss) bool { return r.Start.After(end) })
}

// addRecord adds a record to the sums.
func (p *losses) addRecord(line []byte) error {
	r, err := record.Parse(line)
	if err != nil {
		return fmt.Errorf("read a record of ingress: %w", err)
	}
	l, ok := r.(*record.Loss)
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.Scope == record.WholeWay {
		p.whole[l.Flow] = l
		return nil
	}
	key := part{l.Flow, l.From}
	sum := p.sums[key]
	sum.Sent += l.Sent.Value
	sum.Measured += l.Lost.Value
	if !l.Verdict.Exact() && l.Sent.Value+l.Received.Value > 0 {
		sum.Uncertain += max(l.Sent.Value, l.Received.Value)
		p.uncertain = append(
			p.uncertain,
			fmt.Errorf(
				"flow %s, block %d, nodes %d to %d: %v (%v), %d packets",
				l.Flow,
				l.Block.Value,
				l.From,
				l.To,
				l.Verdict,
				l.FromReasons|l.ToReasons,
				l.Sent.Value,
			),
		)
	}
	if p.sums != nil {
		p.sums[key] = sum
	}
	return nil
}

// await waits until a condition holds for the last result of each flow.
func (p *losses) await(ctx context.Context, what string, limit time.Duration, holds func(*record.Loss) bool) error {
	for deadline := time.Now().Add(limit); ; {
		p.mu.Lock()
		n := 0
		for _, r := range p.whole {
			if holds(r) {
				n++
			}
		}
		p.mu.Unlock()
		if n == 2 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %v", what, limit)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// exchange sends the topology's traffic, all at a time, and waits until nothing is sent
// any more: TCP sends again what was lost.
func (p *losses) exchange(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	for _, t := range p.lab.Topology().Traffic {
		group.Go(func() error {
			_, err := p.lab.Send(groupCtx, t)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var last []lab.Loss
	for since, deadline := time.Now(), time.Now().Add(settleLimit); time.Since(since) < settled; {
		now, err := p.lab.Losses()
		if err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("packets are still sent after the traffic has ended")
		}
		if !slices.Equal(now, last) {
			last, since = now, time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// compare notes the links with both numbers.
func (p *losses) compare() error {
	injected, err := p.lab.Losses()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links = make([]link, len(segments))
	for i, s := range segments {
		l := p.sums[part{s.flow, s.number}]
		l.Flow, l.From, l.To = s.flow, s.from, s.to
		for _, r := range injected {
			if r.Node != s.from || r.Interface != s.device {
				continue
			}
			l.Injected += r.LostPackets
			if r.Packets != l.Sent && l.Uncertain == 0 {
				p.faults = append(
					p.faults,
					fmt.Errorf("%s sent %d packets of flow %s to %s, but its agent counted %d", s.from, r.Packets, s.flow, s.to, l.Sent),
				)
			}
		}
		p.links[i] = l
	}
	return nil
}

// table is a line for each link.
func table(links []link, screen columns.Screen) string {
	t := columns.Table{
		Columns: []columns.Column{
			{Name: "FLOW"},
			{Name: "LINK"},
			{Name: "SENT", AlignRight: true},
			{Name: "LOST", AlignRight: true},
			{Name: "MEASURED", AlignRight: true},
			{Name: "VERDICT"},
		},
	}
	for _, l := range links {
		verdict := "equal"
		switch {
		case l.Uncertain > 0:
			verdict = "uncertain"
		case l.Injected != l.Measured:
			verdict = "DIFFERENT"
		}
		t.Add(l.Flow, l.From+" - "+l.To, fmt.Sprint(l.Sent), fmt.Sprint(l.Injected), fmt.Sprint(l.Measured), verdict)
	}
	return t.String(screen)
}

// sum is the number of packets that were lost, by both counts.
func sum(links []link) (injected, measured uint64) {
	for _, l := range links {
		injected += l.Injected
		measured += l.Measured
	}
	return injected, measured
}

// judge lists every error.
func (p *losses) judge() (faults []error) {
	faults = slices.Clone(p.faults)
	injected, _ := sum(p.links)
	if injected == 0 {
		faults = append(faults, errors.New("the lab lost no packet, so the measurement proves nothing"))
	}
	for _, l := range p.links {
		if l.Injected != l.Measured && l.Uncertain == 0 {
			faults = append(
				faults,
				fmt.Errorf("flow %s lost %d packets between %s and %s, but the agents measured %d", l.Flow, l.Injected, l.From, l.To, l.Measured),
			)
		}
	}
	return faults
}
