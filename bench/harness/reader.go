// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/agent/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	recordsink "github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/ipfix"
)

// Reading says what happens to the samples that programs write.
type Reading string

const (
	Unread   Reading = ""
	ReadOnly Reading = "read"
	Exported Reading = "exported as IPFIX"
)

// reader takes a node's samples as an agent does, and counts them.
type reader struct {
	datapath  *datapath.Datapath
	postcards atomic.Uint64
	packets   atomic.Uint64 // packets counted in flows
	exporter  *Exporter     // nil: samples are discarded
	collector *Collector
	flow      func(datapath.Flow)
	dropped   uint64 // Dropped of the exporter at the last call of takeDropped
	end       func() error
}

// flowInterval is how often flows are collected.
const flowInterval = time.Second

// read starts to read the samples of a node.
func (n *Node) read(d *datapath.Datapath, config model.NodeConfig, by Reading) error {
	if by == Unread {
		return nil
	}
	r := &reader{datapath: d}
	outer, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(outer)
	samples := datapath.Samples{
		Record:    func(datapath.Record) {},
		Postcards: func(cards []datapath.Postcard) { r.postcards.Add(uint64(len(cards))) },
		Flow:      func(f datapath.Flow) { r.packets.Add(f.Packets) },
	}
	if by == Exported {
		if err := r.export(&samples, config); err != nil {
			cancel()
			return err
		}
		group.Go(func() error { return r.exporter.Run(ctx) })
	}
	r.flow = samples.Flow
	group.Go(func() error { return d.ReadSamples(ctx, samples) })
	group.Go(func() error {
		tick := time.NewTicker(flowInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if err := d.CollectFlows(samples.Flow); err != nil {
					return err
				}
			}
		}
	})
	r.end = func() error {
		cancel()
		err := group.Wait()
		if r.collector != nil {
			err = errors.Join(err, r.collector.Close())
		}
		return err
	}
	n.reader = r
	n.stops = append([]func() error{func() error { return r.end() }}, n.stops...)
	return d.SetRecordsWanted(datapath.AllRecords)
}

// export encodes samples and sends them to a collector of our own.
func (r *reader) export(samples *datapath.Samples, config model.NodeConfig) (err error) {
	if r.collector, err = NewCollector(); err != nil {
		return err
	}
	if r.exporter, err = NewExporter(r.collector.Address(), config); err != nil {
		return errors.Join(err, r.collector.Close())
	}
	samples.Postcards = func(cards []datapath.Postcard) {
		r.postcards.Add(uint64(len(cards)))
		r.exporter.Recorder.Postcards(cards, record.Clock{}, r.exporter.Offer)
	}
	samples.Flow = func(f datapath.Flow) {
		r.packets.Add(f.Packets)
		r.exporter.Offer(r.exporter.Recorder.Flow(f))
	}
	return nil
}

// catchUp waits, for a limited time, until this many postcards were read and,
// with an exporter, exported: a backlog would burden the next variant.
func (r *reader) catchUp(postcards uint64) {
	const patience = 300 * time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if r.postcards.Load() >= postcards && (r.exporter == nil || r.exporter.isIdle()) {
			return
		}
	}
}

// takeDropped is how many records found no room in the exporter's queue since the
// last call.
func (r *reader) takeDropped() uint64 {
	if r.exporter == nil {
		return 0
	}
	all := r.exporter.Collector.Stats().Dropped
	since := all - r.dropped
	r.dropped = all
	return since
}

// Exporter is an IPFIX exporter as in an agent.
type Exporter struct {
	Recorder  *report.Recorder
	Collector *ipfixsink.Sink
}

func NewExporter(address string, config model.NodeConfig) (*Exporter, error) {
	x := &Exporter{}
	var err error
	if x.Recorder, err = report.NewRecorder("dut", config, 0); err != nil {
		return nil, err
	}
	c := ipfixsink.Config{Transport: ipfixsink.UDP, Address: address, Domain: 2, MessageSize: messageSize, Refresh: time.Minute}
	env := recordsink.Environment{
		Log:     slog.New(slog.DiscardHandler),
		Facts:   func() recordsink.Facts { return recordsink.Facts{Node: "dut"} },
		Changes: &recordsink.Changes{},
		Shared:  &sync.Map{},
	}
	if x.Collector, err = ipfixsink.Open(c, ipfix.EnterpriseExample, env); err != nil {
		return nil, err
	}
	return x, nil
}

// messageSize fits the MTU of Ethernet; with the larger MTU of the loopback
// interface, results would look better than they are.
const messageSize = 1452

func (x *Exporter) Offer(records ...record.Record) { x.Collector.Offer(records...) }

func (x *Exporter) Run(ctx context.Context) error {
	x.Collector.Run(ctx)
	return nil
}

// isIdle reports whether everything offered was sent. About 10,000 records may be
// missing, because the network may still refuse the last datagrams.
func (x *Exporter) isIdle() bool {
	const last = 10_000
	s := x.Collector.Stats()
	return s.Written+s.Dropped+s.Unencodable+last >= s.Offered
}

// Collector receives IPFIX messages on the loopback interface and counts octets.
type Collector struct {
	conn   *net.UDPConn
	Octets atomic.Uint64
	done   chan error
}

// Sizes of the receive buffer and of one read: the kernel returns datagrams that
// were sent together in one read (UDP_GRO), as from a network card.
const (
	receiveBuffer = 16 << 20
	receiveAtOnce = 64 << 10
	udpGRO        = 104 // UDP_GRO
)

func NewCollector() (*Collector, error) {
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		return nil, problem.Wrap(
			fmt.Errorf("open a socket for a collector: %w", err),
			"the loopback interface has to be up",
		)
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		var fault error
		err = raw.Control(func(fd uintptr) {
			fault = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer),
				unix.SetsockoptInt(int(fd), unix.SOL_UDP, udpGRO, 1))
		})
		err = errors.Join(err, fault)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("set up the socket of a collector: %w", err)
	}
	c := &Collector{conn: conn, done: make(chan error, 1)}
	go func() {
		buffer := make([]byte, receiveAtOnce)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				c.done <- err
				return
			}
			c.Octets.Add(uint64(n))
		}
	}()
	return c, nil
}

func (c *Collector) Address() string { return c.conn.LocalAddr().String() }

func (c *Collector) Close() error {
	err := c.conn.Close()
	if read := <-c.done; !errors.Is(read, net.ErrClosed) {
		err = errors.Join(err, read)
	}
	return err
}
