// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/ioam"
)

// Records that an agent exports over IPFIX come out with identical JSON: postcards,
// flows, also from edge to edge, loss, delay, blocks, and traces of every trace type. Each
// has the name of the node, which only an options record says.
func TestExportedIsCollected(t *testing.T) {
	a := newAuthority(t)
	a.sign("collector", false)
	a.sign("exporter", false)
	secured, err := LoadTLS(a.file("collector.pem"), a.file("collector.key"), a.file("authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		listen    string
		transport ipfixsink.Transport
		files     ipfixsink.TLSFiles
	}{
		{"udp://[::1]:0", ipfixsink.UDP, ipfixsink.TLSFiles{}},
		{"tcp://127.0.0.1:0", ipfixsink.TCP, ipfixsink.TLSFiles{}},
		{"tls://[::1]:0", ipfixsink.TLS, ipfixsink.TLSFiles{Certificate: a.file("exporter.pem"), Key: a.file("exporter.key"), CA: a.file("authority.pem")}},
	} {
		t.Run(string(tt.transport), func(t *testing.T) {
			c, out, at := run(t, Config{Raw: true, TLS: secured}, tt.listen)
			offer, stop := agent(t, ipfixsink.Config{Transport: tt.transport, Address: at[0].Address.String(), Domain: 2, Files: tt.files})
			r := rand.New(rand.NewPCG(3, 4))
			var want []string
			for n := range 600 {
				made := randomRecord(r, n)
				collected := made
				if p, ok := made.(*record.Postcard); ok {
					without := *p // its times are those of Data, to the nanosecond
					without.Raw = ioam.NodeData{}
					collected = &without
				}
				want = append(want, string(record.AppendJSON(nil, collected)))
				offer(made)
				if tt.transport == ipfixsink.UDP && n%50 == 0 { // no faster than the kernel's buffer
					eventually(t, "the records so far", func() bool { return len(shown(t, out)) > n })
				}
			}
			eventually(t, "all records", func() bool { return len(shown(t, out)) >= len(want) })
			stop()
			got := shown(t, out)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("record %d\ngot  %s\nwant %s", i, got[i], want[i])
				}
			}
			s := c.Stats()
			for _, n := range append(s.Malformed(), s.Impossible()...) {
				if n.Value > 0 {
					t.Errorf("%d %s: %s", n.Value, n.Name, n.Meaning)
				}
			}
			if s.Options == 0 || s.Traces == 0 || slices.Contains(s.Data[:], 0) {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// shown are the records in JSON, except those of options.
func shown(t *testing.T, out *memory) []string {
	t.Helper()
	var list []string
	for _, e := range out.all() {
		if _, options := e.(*record.Other); options {
			continue
		}
		list = append(list, string(record.AppendJSON(nil, e)))
	}
	return list
}

// agent runs an exporter of node porthos.
func agent(t *testing.T, config ipfixsink.Config) (offer func(...record.Record), stop func()) {
	t.Helper()
	config.Refresh = time.Minute
	facts := func() sink.Facts {
		return sink.Facts{Node: "porthos", Interfaces: []sink.Interface{{Index: 2, Name: "eth0"}, {Index: 3, Name: "eth1"}}}
	}
	env := sink.Environment{Log: slog.New(slog.DiscardHandler), Facts: facts, Changes: &sink.Changes{}, Shared: &sync.Map{}}
	e, err := ipfixsink.Open(config, enterprise, env)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { e.Run(ctx); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return e.Offer, stop
}

// randomRecord is a record as an agent makes one.
func randomRecord(r *rand.Rand, n int) record.Record {
	at := time.Now().UTC().Add(-time.Duration(r.Int64N(int64(time.Hour))))
	p := record.Packet{
		Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"),
		NextHeader: ioam.NextHeader(r.IntN(256)), FlowLabel: uint32(r.IntN(1 << 20)), Length: 40 + r.IntN(65000),
	}
	if r.IntN(2) == 0 {
		source, destination := uint16(r.Uint32()), uint16(r.Uint32())
		p.SourcePort, p.DestinationPort = &source, &destination
	}
	role := record.NodeRole(1 + r.IntN(3))
	switch n % 6 {
	case 0:
		c := &record.Postcard{
			Time: instant.Of(at), Node: "porthos", Role: role, Ingress: "eth0", Egress: "eth1", IngressIfIndex: 2, EgressIfIndex: 3,
			Option: ioam.IOAMDirectExport.String(), Namespace: ioam.NamespaceID(r.Uint32()), Packet: p, Raw: randomData(r, at),
		}
		c.TraceType, c.Flags = c.Raw.Type, record.Hex8(r.Uint32())
		if r.IntN(2) == 0 {
			c.ExtensionFlags |= record.Hex8(ioam.ExtensionFlowID)
			c.FlowID = record.NewField(r.Uint32(), true)
		}
		if r.IntN(2) == 0 {
			c.ExtensionFlags |= record.Hex8(ioam.ExtensionSequence)
			c.Sequence = record.NewField(r.Uint32(), true)
		}
		c.Data = c.Measured()
		if c.Data.Timestamp.Valid {
			c.Data.Timestamp.Value = at // to the nanosecond: that is how it is exported
		}
		return c
	case 1:
		return randomFlow(r, at, p, role)
	case 2:
		return randomMeasurement(r, at)
	case 3:
		return randomEdgeFlow(r, at)
	case 4:
		return randomBlock(r, at)
	}
	flags := ioam.FlagOverflow | ioam.FlagLoopback | ioam.FlagActive
	trace := ioam.Trace{Namespace: 123, Flags: ioam.TraceFlags(r.IntN(16)) & flags, RemainingLen: uint8(r.IntN(100))}
	trace.Type = randomData(r, at).Type
	out, _ := record.NewTrace(at, trace, p, record.Clock{})
	out.Node, out.Interface, out.IfIndex = "porthos", "eth0", 2
	out.Nodes = nil
	for range r.IntN(5) {
		raw := randomDataOf(r, trace.Type, at)
		out.Raw = append(out.Raw, raw)
		out.Nodes = append(out.Nodes, record.ReadNodeData(raw, record.Clock{}))
	}
	if out.Raw != nil && r.IntN(2) == 0 {
		out.PathDelay = record.NewField(1000*uint64(r.Uint32()), true)
	}
	if out.Nodes == nil {
		out.Nodes = []record.NodeData{}
	}
	return &out
}

func randomFlow(r *rand.Rand, at time.Time, p record.Packet, role record.NodeRole) record.Record {
	p.Length = 0
	f := &record.Flow{
		Time: instant.Of(at), Node: "porthos", Role: role, Ingress: "eth0", Egress: "eth1", IngressIfIndex: 2, EgressIfIndex: 3,
		Namespace: ioam.NamespaceID(r.Uint32()), TraceType: ioam.TraceType(r.IntN(1 << 24)), Packet: p,
		Packets: 1 + r.Uint64N(1<<40), Bytes: r.Uint64(), First: instant.Of(at.Add(-time.Second)), Last: instant.Of(at),
		HopLimit: record.HopLimits{Min: 60, Max: uint8(60 + r.IntN(190))}, EndReason: record.EndInterval,
	}
	if r.IntN(3) > 0 {
		f.SequenceGaps, f.Reordered = record.NewField(r.Uint64N(9), true), record.NewField(r.Uint64N(9), true)
		if r.IntN(2) == 0 {
			f.SequenceGaps = record.Field[uint64]{Present: true}
		}
	}
	if r.IntN(2) == 0 {
		f.FlowID = record.NewField(r.Uint32(), true)
	}
	if r.IntN(2) == 0 {
		f.TransitDelay = &record.Delays{Min: 100, Max: 100 + r.Uint32N(1<<30), Sum: r.Uint64(), Count: 1 + r.Uint64N(1000)}
	}
	return f
}

func randomData(r *rand.Rand, at time.Time) ioam.NodeData {
	return randomDataOf(r, ioam.TraceType(1+r.IntN(1<<24-1))&0xfff002|0x800000, at)
}

// randomDataOf are node data in which some fields are not available.
func randomDataOf(r *rand.Rand, trace ioam.TraceType, at time.Time) ioam.NodeData {
	d, hopLimit := ioam.NodeData{Type: trace}, byte(r.Uint32())
	seconds, fraction := ioam.TimestampPOSIX.Fields(at.UnixNano(), 0)
	for bit := range 12 {
		if !trace.Has(bit) {
			continue
		}
		words := (ioam.TraceType(1) << (23 - bit)).NodeLen()
		field := make([]byte, 4*words)
		for i := range field {
			field[i] = byte(r.Uint32())
		}
		switch {
		case r.IntN(4) == 0:
			for i := range field {
				field[i] = 0xff
			}
		case bit == ioam.BitNode, bit == ioam.BitNodeWide:
			field[0] = hopLimit
		case bit == ioam.BitTimestampSeconds:
			field = []byte{byte(seconds >> 24), byte(seconds >> 16), byte(seconds >> 8), byte(seconds)}
		case bit == ioam.BitTimestampFraction:
			field = []byte{byte(fraction >> 24), byte(fraction >> 16), byte(fraction >> 8), byte(fraction)}
		}
		d.Bytes = append(d.Bytes, field...)
	}
	if trace.HasSnapshot() {
		d.Bytes = append(d.Bytes, 1, 0, 3, 9, 'r', 'a', 'c', 'k')
	}
	return d
}

// A packet that three agents report over a real socket, one of which exports to
// two of our sockets: the path is whole, with names.
func TestAgentsToPath(t *testing.T) {
	c, out, at := run(t, Config{}, "udp://[::1]:0", "tcp://[::1]:0")
	now, sent := time.Now().UTC(), uint64(0)
	for i, role := range []record.NodeRole{record.Encapsulating, record.Transit, record.Decapsulating} {
		for k, transport := range []ipfixsink.Transport{ipfixsink.UDP, ipfixsink.TCP}[:1+i%2] {
			offer, stop := agent(t, ipfixsink.Config{Transport: transport, Address: at[k].Address.String(), Domain: uint32(i + 1)})
			card := &record.Postcard{
				Time: instant.Of(now.Add(time.Duration(i) * time.Microsecond)), Role: role, IngressIfIndex: 2, EgressIfIndex: 3, Namespace: 123,
				TraceType: 0x800000, ExtensionFlags: 0xc0, FlowID: record.NewField(uint32(7), true), Sequence: record.NewField(uint32(0), true),
				Packet: record.Packet{
					Source:      netip.MustParseAddr("2001:db8::1"),
					Destination: netip.MustParseAddr("2001:db8::2"),
					NextHeader:  58,
					Length:      64,
				},
				Raw: ioam.NodeData{Type: 0x800000, Bytes: []byte{byte(64 - i), 0, 0, byte(i + 1)}},
			}
			offer(card)
			sent++
			eventually(t, "a postcard", func() bool { return c.Stats().Data[record.DataPostcard] == sent })
			stop()
		}
	}
	eventually(t, "the path", func() bool { return len(out.all()) == 1 })
	p := out.all()[0].(*record.Path)
	if !p.Complete || len(p.Nodes) != 3 || p.Nodes[1].Node != "porthos" || p.Nodes[1].Egress != "eth1" || *p.Delay != 2000 {
		t.Errorf("%s", p.Text())
	}
	eventually(t, "the second of porthos", func() bool { return c.Stats().Join.Duplicates == 1 })
	if s := c.Stats(); s.Join.Paths[record.PathComplete] != 1 || s.Data[record.DataPostcard] != 4 {
		t.Errorf("stats %+v", s)
	}
}
