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

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// encapsulator is the node in the line that encapsulates.
const encapsulator = "athos"

// collectorAddress is where aramis collects.
var collectorAddress = netip.MustParseAddrPort("[2001:db8:ff::3]:4739")

// directTraffic is sent with Direct Exports.
var directTraffic = []lab.Traffic{
	{Kind: lab.KindPing, From: "alpha", To: receiver, Count: 3, Interval: 200 * time.Millisecond, Size: 56},
	{Kind: lab.KindUDP, From: "alpha", To: receiver, Count: 5, Interval: 100 * time.Millisecond, Size: 100, Port: 9000},
	{Kind: lab.KindTCP, From: "alpha", To: receiver, Bytes: 1 << 20, Port: 9001},
}

// joined takes what the collector gives out: it counts paths and prints them.
type joined struct {
	show     *printer
	exported int // packets that got the option

	lock     sync.Mutex
	complete int
	partial  int
	packets  []record.Packet // the packets of all paths
	totals   []time.Duration // end to end, for paths whose ends reported a time
}

// countPath counts and prints the collector's paths.
func (j *joined) countPath(r record.Record) {
	p, ok := r.(*record.Path)
	if !ok {
		return
	}
	way := &record.Trace{Packet: p.Packet}
	for i := range p.Nodes {
		way.Nodes = append(way.Nodes, p.Nodes[i].NodeData)
	}
	j.show.way("path", p, way)
	j.lock.Lock()
	defer j.lock.Unlock()
	j.packets = append(j.packets, p.Packet)
	if p.Delay != nil {
		j.totals = append(j.totals, time.Duration(*p.Delay))
	}
	if p.Complete {
		j.complete++
		return
	}
	j.partial++
	j.show.line("path %d is incomplete: %s", j.complete+j.partial, p.Reason)
}

func (j *joined) counts() (complete, partial int) {
	j.lock.Lock()
	defer j.lock.Unlock()
	return j.complete, j.partial
}

// seen returns the packets of all paths, and the delays of paths that have one.
func (j *joined) seen() ([]record.Packet, []time.Duration) {
	j.lock.Lock()
	defer j.lock.Unlock()
	return slices.Clone(j.packets), slices.Clone(j.totals)
}

// directExport changes the nodes to Direct Export, sends traffic, and waits until
// a collector has joined what the nodes export into paths.
func (s *session) directExport(ctx context.Context) (err error) {
	s.show.heading(
		"Direct Export: packets carry an option that no node changes, and each node exports its data about them, as IPFIX over TCP, "+
			"to a collector at %s",
		collector,
	)
	stop, err := s.collect(ctx)
	if err != nil {
		return fmt.Errorf("collect at %s: %w", collector, err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, node := range []string{collector, middle, encapsulator} { // the decapsulating node first
		if err := s.change(ctx, node); err != nil {
			return err
		}
	}
	before, err := s.inserted(ctx)
	if err != nil {
		return err
	}
	for _, t := range directTraffic {
		r, err := s.lab.Send(ctx, t)
		if err != nil {
			return err
		}
		if r.Lost() > 0 {
			s.fault("%d of %d %s packets with a Direct Export were lost", r.Lost(), r.Sent, t.Kind)
		}
	}
	for range 2 { // a connection's last packets may come later
		err := wait(ctx, func() (bool, error) {
			now, err := s.inserted(ctx)
			s.joined.exported = int(now - before)
			complete, partial := s.joined.counts()
			return complete+partial >= s.joined.exported, err
		})
		if err != nil {
			return err
		}
		time.Sleep(quiet)
	}
	complete, _ := s.joined.counts()
	s.show.line(
		"%d packets carried the option; the collector joined the exports of all nodes into %d complete paths",
		s.joined.exported,
		complete,
	)
	return nil
}

// collect runs a collector in its node.
func (s *session) collect(ctx context.Context) (stop func() error, err error) {
	c, err := collect.New(collect.Config{
		Listen:     []collect.Endpoint{{Transport: ipfix.TCP, Address: collectorAddress}},
		Enterprise: ipfix.EnterpriseExample,
		Sinks:      []sink.Sink{sink.NewQueued(sink.Each(s.joined.countPath), sink.Settings{Name: "demo", QueueSpace: collect.NewQueueSpace()})},
	})
	if err != nil {
		return nil, err
	}
	if err := s.lab.Node(collector).Do(c.Open); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() error { cancel(); return <-ended }, nil
}

// change gives a node's agent the same configuration with Direct Exports instead of
// traces, and waits until the agent reaches the collector.
func (s *session) change(ctx context.Context, node string) error {
	n := s.lab.Node(node)
	if err := n.Reconfigure(ctx, withDirectExport(*s.lab.Topology().Node(node).Agent.Settings).Marshal()); err != nil {
		return err
	}
	instance, err := n.Instance()
	if err != nil {
		return err
	}
	client := api.NewClient(instance.Socket())
	return wait(ctx, func() (bool, error) {
		status, err := client.Status(ctx)
		return err == nil && !slices.ContainsFunc(status.Records.Sinks, func(e api.Sink) bool { return e.Connected == nil || !*e.Connected }), err
	})
}

// withDirectExport is a configuration with Direct Exports instead of traces.
func withDirectExport(c config.Config) *config.Config {
	c.Sinks = []config.Sink{{Kind: config.SinkIPFIX, IPFIX: ipfixsink.Settings{Address: ipfixsink.CollectorAddress{
		Transport: ipfixsink.TCP, Host: collectorAddress.Addr().String(), Port: collectorAddress.Port(),
	}}}}
	c.Node.ExportLimit = 1 // no limit: there are few packets
	c.Namespaces = slices.Clone(c.Namespaces)
	for i := range c.Namespaces {
		c.Namespaces[i].Export = model.ExportEvery
	}
	c.Encapsulations = slices.Clone(c.Encapsulations)
	for i := range c.Encapsulations {
		e := &c.Encapsulations[i]
		e.Options = slices.Clone(e.Options)
		for k, o := range e.Options {
			if o.Trace != nil {
				e.Options[k] = config.Option{DirectExport: &config.DirectExportOption{
					Namespace: o.Trace.Namespace, TraceType: o.Trace.Type,
					ExtensionFlags: []config.ExtensionFlag{config.ExtensionFlag(ioam.ExtensionFlowID), config.ExtensionFlag(ioam.ExtensionSequence)},
					OptionType:     ioam.OptionIOAMStatic,
				}}
			}
		}
	}
	return &c
}

// inserted is how many packets got a header so far.
func (s *session) inserted(ctx context.Context) (sum uint64, err error) {
	instance, err := s.lab.Node(encapsulator).Instance()
	if err != nil {
		return 0, err
	}
	status, err := api.NewClient(instance.Socket()).Status(ctx)
	for _, i := range status.Interfaces {
		sum += i.Egress[model.OutcomeEncapTunneled.String()]
	}
	return sum, err
}

// wait waits until holds is true, for as long as records may take.
func wait(ctx context.Context, holds func() (bool, error)) error {
	for deadline := time.Now().Add(recordLimit); time.Now().Before(deadline); {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}
