// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// heavy are records of every kind and shape, and how many packets and octets they
// report.
func heavy(t *testing.T) map[string]struct {
	record record.Record
	want   record.Weight
} {
	t.Helper()
	portless, unknown, wide := postcard(t), postcard(t), postcard(t)
	portless.Packet.SourcePort, portless.Packet.DestinationPort = nil, nil
	unknown.Packet = record.Packet{}
	wide.Raw = ioam.NodeData{Type: 0x200002, Bytes: craft.Hex(t, "00000001 01000309 7261636b")}
	wide.TraceType = wide.Raw.Type
	wide.Packet.Length = 1 << 20
	bare := flow()
	bare.Packet, bare.FlowID = record.Packet{}, record.Field[uint32]{}
	bare.Packets, bare.Bytes = 1<<40, 1<<50
	delayed, empty, kernel := pathOfTwo(t), pathOfTwo(t), pathOfTwo(t)
	delayed.PathDelay = record.NewField[uint64](31_000, true)
	empty.Nodes, empty.Raw = nil, nil
	kernel.Source, kernel.Packet = record.SourceKernel, record.Packet{}
	return map[string]struct {
		record record.Record
		want   record.Weight
	}{
		"postcard":                          {postcard(t), record.Weight{Packets: 1, Octets: 128}},
		"postcard without ports":            {portless, record.Weight{Packets: 1, Octets: 128}},
		"postcard of a packet not known":    {unknown, record.Weight{Packets: 1, Octets: 0}},
		"postcard with a snapshot, and big": {wide, record.Weight{Packets: 1, Octets: 1 << 20}},
		"flow":                              {flow(), record.Weight{Packets: 100, Octets: 12800}},
		"flow of packets not known":         {bare, record.Weight{Packets: 1 << 40, Octets: 1 << 50}},
		"trace of two":                      {pathOfTwo(t), record.Weight{Packets: 1, Octets: 128}},
		"trace with a path delay":           {delayed, record.Weight{Packets: 1, Octets: 128}},
		"trace of none":                     {empty, record.Weight{Packets: 1, Octets: 128}},
		"loss":                              {&record.Loss{Sent: record.NewField[uint64](100, true)}, record.Weight{}},
		"delay":                             {&record.Delay{Samples: 100}, record.Weight{}},
		"block":                             {&record.Block{Packets: 100}, record.Weight{}},
		"edge flow":                         {edgeFlow(), record.Weight{}},
		"trace of the kernel":               {kernel, record.Weight{Packets: 1, Octets: 0}},
	}
}

// The content of records that are not sent is counted in every case: when the exporter
// ends, when it has ended, and when they cannot be encoded.
func TestUnsent(t *testing.T) {
	for name, tt := range heavy(t) {
		t.Run(name, func(t *testing.T) {
			x := newEncoder(t)
			c := newCollector(t, x, Config{Transport: UDP, Address: "[::1]:4739"})
			check := func(times uint64) {
				t.Helper()
				if got := c.unsent.read(); got.Weight != (record.Weight{Packets: times * tt.want.Packets, Octets: times * tt.want.Octets}) {
					t.Errorf("%+v, want %d times %+v", got.Weight, times, tt.want)
				}
			}
			offer(x, c, tt.record, 3)
			check(0)
			if !c.unsent.read().last.IsZero() {
				t.Error("there is a time of no loss")
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			c.Run(ctx) // it ends before it can connect
			check(3)
			offer(x, c, tt.record, 2)
			check(5)
			for i := range max(1, len(nodesOf(tt.record))) {
				c.refused(errors.New("refused"), record.Weigh(tt.record, i))
			}
			check(6)
		})
	}
}

func nodesOf(r record.Record) []ioam.NodeData {
	if t, ok := r.(*record.Trace); ok {
		return t.Raw
	}
	return nil
}

// A full queue drops its oldest records, and reports when: the first time is kept.
func TestUnsentOfFullQueue(t *testing.T) {
	x := newEncoder(t)
	c := newCollector(t, x, Config{Transport: UDP, Address: "[::1]:4739"})
	records := []record.Record{postcard(t), flow(), pathOfTwo(t)}
	const records1, packets1, octets1 = 4, 102, 13056 // of the three
	began := time.Now()
	rounds := uint64(0)
	for c.Stats().Dropped == 0 {
		for _, r := range records {
			offer(x, c, r, 1)
		}
		rounds++
	}
	first := c.unsent.read()
	if first.first.Before(began) || !first.last.Equal(first.first) {
		t.Errorf("given up between %v and %v", first.first, first.last)
	}
	for before := c.Stats().Dropped; c.Stats().Dropped == before; rounds++ {
		for _, r := range records {
			offer(x, c, r, 1)
		}
	}
	second := c.unsent.read()
	if !second.first.Equal(first.first) || !second.last.After(first.last) {
		t.Errorf("given up between %v and %v, before that %v", second.first, second.last, first.first)
	}
	dropped := c.Stats().Dropped // a block ends anywhere within a round
	if whole := dropped / records1; second.Packets < whole*packets1 || second.Packets > (whole+1)*packets1 ||
		second.Octets < whole*octets1 || second.Octets > (whole+1)*octets1 {
		t.Errorf("%+v of %d records", second.Weight, dropped)
	}
	c.queue.close()
	if s, got := c.Stats(), c.unsent.read(); s.Offered != rounds*records1 ||
		got.Weight != (record.Weight{Packets: rounds * packets1, Octets: rounds * octets1}) {
		t.Errorf("%+v of all %d records in %d rounds", got.Weight, s.Offered, rounds)
	}
}

// A record that no message has room for is counted once, although the records next to
// it are sent again and again until the collector confirms them.
func TestUnsentForItsLength(t *testing.T) {
	r, x := newReceiver(t), newEncoder(t)
	c, err := New(Config{Transport: UDP, Address: r.udp("[::1]:0"), Domain: 2, MessageSize: 700, Refresh: time.Minute},
		x, testEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	long := postcard(t)
	long.Raw = ioam.NodeData{Type: 0x000002, Bytes: append(craft.Hex(t, "c8000309"), make([]byte, 800)...)}
	long.TraceType = long.Raw.Type
	stop := run(c)
	offer(x, c, postcard(t), 3)
	offer(x, c, long, 2)
	offer(x, c, postcard(t), 3)
	waitFor(t, "receiving what fits", func() bool { return r.records() == 6 })
	stop()
	if s, got := check(t, c), c.unsent.read(); s.Unencodable != 2 || got.Weight != (record.Weight{Packets: 2, Octets: 256}) {
		t.Errorf("%+v of %+v", got.Weight, s)
	}
	r.close()
}
