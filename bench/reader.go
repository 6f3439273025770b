// SPDX-License-Identifier: Apache-2.0

package bench

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

	"github.com/waymark-net/waymark/internal/agent"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	recordsink "github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/ipfix"
)

// reading is who takes what programs write.
type reading string

const (
	unread   reading = ""
	readOnly reading = "read"
	exported reading = "exported as IPFIX"
)

// reader takes a node's samples as an agent does, and counts them.
type reader struct {
	datapath  *datapath.Datapath
	postcards atomic.Uint64
	packets   atomic.Uint64 // of flows
	exporter  *exporter     // nil: they are thrown away
	collector *collector
	flow      func(datapath.Flow)
	dropped   uint64 // as last asked
	end       func() error
}

// flowInterval is how often flows are collected.
const flowInterval = time.Second

// read begins to take the samples of a node.
func (n *node) read(d *datapath.Datapath, config model.NodeConfig, by reading) error {
	if by == unread {
		return nil
	}
	r := &reader{datapath: d}
	outer, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(outer)
	samples := datapath.Samples{
		Record:   func(datapath.Record) {},
		Postcard: func(datapath.Postcard) { r.postcards.Add(1) },
		Flow:     func(f datapath.Flow) { r.packets.Add(f.Packets) },
	}
	if by == exported {
		if err := r.export(&samples, config); err != nil {
			cancel()
			return err
		}
		group.Go(func() error { return r.exporter.run(ctx) })
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
			err = errors.Join(err, r.collector.close())
		}
		return err
	}
	n.reader = r
	n.stops = append([]func() error{func() error { return r.end() }}, n.stops...)
	return d.SetRecordsWanted(true)
}

// export has samples encoded and sent to a collector of our own.
func (r *reader) export(samples *datapath.Samples, config model.NodeConfig) (err error) {
	if r.collector, err = newCollector(); err != nil {
		return err
	}
	if r.exporter, err = newExporter(r.collector.address(), config); err != nil {
		return errors.Join(err, r.collector.close())
	}
	samples.Postcard = func(c datapath.Postcard) {
		r.postcards.Add(1)
		r.exporter.offer(r.exporter.records.Postcard(c))
	}
	samples.Flow = func(f datapath.Flow) {
		r.packets.Add(f.Packets)
		r.exporter.offer(r.exporter.records.Flow(f))
	}
	return nil
}

// catchUp waits, at most a while, until as many postcards were read, and
// exported if they are to be: what is left over would burden the next variant.
func (r *reader) catchUp(postcards uint64) {
	const patience = 300 * time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if r.postcards.Load() >= postcards && (r.exporter == nil || r.exporter.isIdle()) {
			return
		}
	}
}

// takeDropped is how many records have found no room in the exporter's queue
// since it was asked last.
func (r *reader) takeDropped() uint64 {
	if r.exporter == nil {
		return 0
	}
	all := r.exporter.collector.Stats().Dropped
	since := all - r.dropped
	r.dropped = all
	return since
}

// exporter is an IPFIX exporter as an agent has it.
type exporter struct {
	records   *agent.Exports
	collector *ipfixsink.Sink
}

func newExporter(address string, config model.NodeConfig) (*exporter, error) {
	x := &exporter{}
	var err error
	if x.records, err = agent.NewExports("dut", config, 0); err != nil {
		return nil, err
	}
	c := ipfixsink.Config{Transport: ipfixsink.UDP, Address: address, Domain: 2, MessageSize: messageSize, Refresh: time.Minute}
	env := recordsink.Environment{Log: slog.New(slog.DiscardHandler), Facts: func() recordsink.Facts { return recordsink.Facts{Node: "dut"} }, Changes: &recordsink.Changes{}, Shared: &sync.Map{}}
	if x.collector, err = ipfixsink.Open(c, ipfix.EnterpriseExample, env); err != nil {
		return nil, err
	}
	return x, nil
}

// messageSize is what the MTU of Ethernet leaves: that of the loopback interface
// would flatter.
const messageSize = 1452

func (x *exporter) offer(r record.Record) { x.collector.Offer(r) }

func (x *exporter) run(ctx context.Context) error {
	x.collector.Run(ctx)
	return nil
}

// isIdle tells whether everything has been sent that was offered. The network
// may refuse the last datagrams yet, so some 10,000 records count as sent.
func (x *exporter) isIdle() bool {
	const last = 10_000
	s := x.collector.Stats()
	return s.Written+s.Dropped+s.Unencodable+last >= s.Offered
}

// collector takes IPFIX messages on the loopback interface and counts octets.
type collector struct {
	conn   *net.UDPConn
	octets atomic.Uint64
	done   chan error
}

// Of a socket's receive buffer, and of the datagrams that the kernel gives at
// once when they were sent at once, as a network card would have cut them.
const (
	receiveBuffer = 16 << 20
	receiveAtOnce = 64 << 10
	udpGRO        = 104 // UDP_GRO
)

func newCollector() (*collector, error) {
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		return nil, fmt.Errorf("open a socket for a collector: %w; the loopback interface has to be up", err)
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
	c := &collector{conn: conn, done: make(chan error, 1)}
	go func() {
		buffer := make([]byte, receiveAtOnce)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				c.done <- err
				return
			}
			c.octets.Add(uint64(n))
		}
	}()
	return c, nil
}

func (c *collector) address() string { return c.conn.LocalAddr().String() }

func (c *collector) close() error {
	err := c.conn.Close()
	if read := <-c.done; !errors.Is(read, net.ErrClosed) {
		err = errors.Join(err, read)
	}
	return err
}
