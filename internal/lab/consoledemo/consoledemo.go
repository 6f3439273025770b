// SPDX-License-Identifier: Apache-2.0

// Package consoledemo raises a network for the collector's console: two equal paths, a
// slow queue, a lossy link, and a pair of hosts whose packets move to the other path
// every minute. The collector runs in the network, and a relay lets a browser of this
// machine reach it. All of it stays until the context ends.
package consoledemo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/problem"
)

// Options say how the network is raised.
type Options struct {
	Program   string        // path of the waymark program
	Collector string        // path of the waymark-collector program
	Name      string        // of the lab
	Port      uint16        // of this machine's loopback address, where the console is; 0: a free one
	Move      time.Duration // after which packets take the other path
	Out       io.Writer
	Log       *slog.Logger
}

// DefaultPort is that of a collector.
const DefaultPort = 4780

//go:embed network.yaml
var network []byte

// The places of what goes wrong.
const (
	entry  = "athos"     // where packets get their options, and choose a path
	lossy  = "porthos"   // its link to the exit loses packets
	slow   = "dartagnan" // its queue to the exit is slow
	exit   = "aramis"    // where the collector runs
	sender = "alpha"
	target = "beta"
	device = "eth1" // of the lossy link, and of the slow queue
)

// losses are those of the lossy link, for packets with a Direct Export and for those of the measured flow.
var losses = []linkloss.Rule{
	{Burst: 1, Every: 50, Source: netip.MustParsePrefix("2001:db8:ff::1/128"), Destination: netip.MustParsePrefix("2001:db8:ff::3/128")},
	{Probability: 0.02, Seed: 7, LastSID: netip.MustParsePrefix("fc00:3::d6/128")},
}

// slowQueue is what tc makes of the queue: a burst of the traffic waits for some milliseconds.
var slowQueue = []string{"qdisc", "add", "dev", device, "root", "tbf", "rate", "4mbit", "burst", "3kb", "latency", "500ms"}

// Run raises everything, prints the address of the console, and stays until the context
// ends, which is no error then. It removes everything that it made.
func Run(ctx context.Context, o Options) (err error) {
	t, err := lab.Parse("network.yaml", network)
	if err != nil {
		return err
	}
	console, err := net.Listen("tcp", netip.AddrPortFrom(netip.IPv6Loopback(), o.Port).String())
	if err != nil {
		return problem.Wrap(fmt.Errorf("listen for browsers: %w", err), "give another --port, or 0 for any")
	}
	defer console.Close()
	store, err := os.MkdirTemp("", "waymark-console-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(store)) }()
	fmt.Fprintln(o.Out, "Raising alpha - athos = porthos or dartagnan = aramis - beta in network namespaces, with a collector at aramis")
	l, err := lab.Up(ctx, t, lab.Options{Name: o.Name, Program: o.Program, Owned: true, Log: o.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Down(ctx)) }()
	d := &demo{lab: l, options: o, console: console, store: store}
	return d.stay(ctx)
}

// stay starts all that happens in the network, and ends it with the context, or when a part of it fails.
func (d *demo) stay(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { d.console.Close() })()
	err := d.start(ctx, group)
	if err == nil {
		err = d.explain()
	}
	if err == nil {
		<-ctx.Done()
	}
	cancel()
	d.console.Close()
	return errors.Join(err, group.Wait())
}

// start starts it, part by part.
func (d *demo) start(ctx context.Context, group *errgroup.Group) error {
	if err := d.impair(ctx); err != nil {
		return err
	}
	ended, err := d.startCollector(ctx)
	if err != nil {
		return err
	}
	group.Go(func() error {
		select {
		case err := <-ended:
			return fmt.Errorf("the collector ended: %w", err)
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error { return d.relay(ctx) })
	group.Go(func() error { return d.movePaths(ctx) })
	return d.startTraffic(ctx, group)
}

// demo is a raised network.
type demo struct {
	lab     *lab.Lab
	options Options
	console net.Listener // of browsers
	store   string       // directory
}

// impair makes a queue slow and a link lossy.
func (d *demo) impair(ctx context.Context) error {
	if err := d.run(ctx, slow, "tc", slowQueue...); err != nil {
		return err
	}
	for _, rule := range losses {
		if _, err := d.lab.AddLoss(lossy, device, rule); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program in a node.
func (d *demo) run(ctx context.Context, node, program string, args ...string) error {
	out, err := d.lab.Node(node).Command(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s in %s: %w: %s", program, node, err, out)
	}
	return nil
}

// explain says where the console is, and what there is to see.
func (d *demo) explain() error {
	_, err := fmt.Fprintf(d.options.Out, `
The console: http://%s

What there is to see:
  Paths     alpha's packets to beta (2001:db8:2::2) take two equal paths
  Changes   those to 2001:db8:2::b move to the other path every %v
  Segments  dartagnan to aramis is slow: a queue of 4 Mbit/s
  Loss      porthos to aramis loses 2%% of all packets; gold is measured there, silver elsewhere
  Packets   each packet with its times; some end at porthos

Everything is real and on this machine; the first packets are seen after a few seconds.
Ctrl-C removes it all.
`, d.console.Addr(), d.options.Move)
	return err
}
