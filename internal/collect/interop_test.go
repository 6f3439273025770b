// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
)

// What an agent exports over IPFIX is what comes out here, to the letter of
// JSON: postcards, flows and traces of every trace type.
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
		transport export.Transport
		files     export.TLSFiles
	}{
		{"udp://[::1]:0", export.UDP, export.TLSFiles{}},
		{"tcp://127.0.0.1:0", export.TCP, export.TLSFiles{}},
		{"tls://[::1]:0", export.TLS, export.TLSFiles{Certificate: a.file("exporter.pem"), Key: a.file("exporter.key"), CA: a.file("authority.pem")}},
	} {
		t.Run(string(tt.transport), func(t *testing.T) {
			c, out, at := run(t, Config{Raw: true, TLS: secured}, tt.listen)
			offer, stop := agent(t, export.CollectorConfig{Transport: tt.transport, Address: at[0].Address.String(), Domain: 2, Files: tt.files})
			r := rand.New(rand.NewPCG(3, 4))
			var want []string
			for n := range 600 {
				record := randomRecord(r, n)
				b, err := json.Marshal(record)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, string(b))
				offer(record)
				if tt.transport == export.UDP && n%50 == 0 { // no faster than the kernel's buffer
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
			if s.Options == 0 || s.Traces == 0 || s.Flows == 0 || s.Postcards == 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// shown are the records in JSON but for those of options.
func shown(t *testing.T, out *memory) []string {
	t.Helper()
	var list []string
	for _, e := range out.all() {
		if _, options := e.(*OtherRecord); options {
			continue
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(b))
	}
	return list
}

// agent runs an exporter of node porthos.
func agent(t *testing.T, config export.CollectorConfig) (offer func(export.Record), stop func()) {
	t.Helper()
	x, err := export.NewIPFIX(enterprise)
	if err != nil {
		t.Fatal(err)
	}
	config.Refresh = time.Minute
	facts := func() export.Facts {
		return export.Facts{Node: "porthos", Interfaces: []export.Link{{Index: 2, Name: "eth0"}, {Index: 3, Name: "eth1"}}}
	}
	e, err := export.NewCollector(config, x, facts, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { e.Run(ctx); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return func(r export.Record) { x.Offer(r, []*export.Collector{e}) }, stop
}

// randomRecord is a record as an agent makes one.
func randomRecord(r *rand.Rand, n int) export.Record {
	at := time.Now().UTC().Add(-time.Duration(r.Int64N(int64(time.Hour))))
	p := export.Packet{
		Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"),
		NextHeader: ioam.NextHeader(r.IntN(256)), FlowLabel: uint32(r.IntN(1 << 20)), Length: 40 + r.IntN(65000),
	}
	if r.IntN(2) == 0 {
		source, destination := uint16(r.Uint32()), uint16(r.Uint32())
		p.SourcePort, p.DestinationPort = &source, &destination
	}
	role := export.NodeRole(1 + r.IntN(3))
	switch n % 3 {
	case 0:
		c := &export.Postcard{
			Kind: export.KindPostcard, Time: instant.Of(at), Node: "porthos", Role: role, Ingress: "eth0", Egress: "eth1", IngressIfIndex: 2, EgressIfIndex: 3,
			Option: ioam.IOAMDirectExport.String(), Namespace: ioam.NamespaceID(r.Uint32()), Packet: p, Raw: randomData(r, at),
		}
		c.TraceType, c.Flags = c.Raw.Type, export.Hex8(r.Uint32())
		if r.IntN(2) == 0 {
			c.ExtensionFlags |= extensionFlowID
			c.FlowID = export.NewField(r.Uint32(), true)
		}
		if r.IntN(2) == 0 {
			c.ExtensionFlags |= extensionSequence
			c.Sequence = export.NewField(r.Uint32(), true)
		}
		c.Decode(export.Clock{})
		if c.Data.Timestamp.Valid {
			c.Data.Timestamp.Value = at // to the nanosecond: that is how it is exported
		}
		return c
	case 1:
		p.Length = 0
		f := &export.Flow{
			Kind: export.KindFlow, Time: instant.Of(at), Node: "porthos", Role: role, Ingress: "eth0", Egress: "eth1", IngressIfIndex: 2, EgressIfIndex: 3,
			Namespace: ioam.NamespaceID(r.Uint32()), TraceType: ioam.TraceType(r.IntN(1 << 24)), Packet: p,
			Packets: 1 + r.Uint64N(1<<40), Bytes: r.Uint64(), First: instant.Of(at.Add(-time.Second)), Last: instant.Of(at),
			HopLimit: export.HopLimits{Min: 60, Max: uint8(60 + r.IntN(190))}, EndReason: export.EndInterval,
		}
		if r.IntN(3) > 0 {
			f.SequenceGaps, f.Reordered = export.NewField(r.Uint64N(9), true), export.NewField(r.Uint64N(9), true)
			if r.IntN(2) == 0 {
				f.SequenceGaps = export.Field[uint64]{Present: true}
			}
		}
		if r.IntN(2) == 0 {
			f.FlowID = export.NewField(r.Uint32(), true)
		}
		if r.IntN(2) == 0 {
			f.TransitDelay = &export.Delays{Min: 100, Max: 100 + r.Uint32N(1<<30), Sum: r.Uint64(), Count: 1 + r.Uint64N(1000)}
		}
		return f
	}
	trace := ioam.Trace{Namespace: 123, RemainingLen: uint8(r.IntN(100))}
	if r.IntN(2) == 0 {
		trace.Flags = ioam.FlagOverflow
	}
	trace.Type = randomData(r, at).Type
	record, _ := export.Trace(at, trace, p, export.Clock{})
	record.Node, record.Interface, record.IfIndex = "porthos", "eth0", 2
	record.Nodes = nil
	for range r.IntN(5) {
		raw := randomDataOf(r, trace.Type, at)
		record.Raw = append(record.Raw, raw)
		record.Nodes = append(record.Nodes, export.Node(raw, export.Clock{}))
	}
	if record.Raw != nil && r.IntN(2) == 0 {
		record.PathDelay = export.NewField(r.Uint32(), true)
	}
	if record.Nodes == nil {
		record.Nodes = []export.TraceNode{}
	}
	return &record
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
	for i, role := range []export.NodeRole{export.Encapsulating, export.Transit, export.Decapsulating} {
		for k, transport := range []export.Transport{export.UDP, export.TCP}[:1+i%2] {
			offer, stop := agent(t, export.CollectorConfig{Transport: transport, Address: at[k].Address.String(), Domain: uint32(i + 1)})
			card := &export.Postcard{
				Kind: export.KindPostcard, Time: instant.Of(now.Add(time.Duration(i) * time.Microsecond)), Role: role, IngressIfIndex: 2, EgressIfIndex: 3, Namespace: 123,
				TraceType: 0x800000, ExtensionFlags: 0xc0, FlowID: export.NewField(uint32(7), true), Sequence: export.NewField(uint32(0), true),
				Packet: export.Packet{Source: netip.MustParseAddr("2001:db8::1"), Destination: netip.MustParseAddr("2001:db8::2"), NextHeader: 58, Length: 64},
				Raw:    ioam.NodeData{Type: 0x800000, Bytes: []byte{byte(64 - i), 0, 0, byte(i + 1)}},
			}
			offer(card)
			sent++
			eventually(t, "a postcard", func() bool { return c.Stats().Postcards == sent })
			stop()
		}
	}
	eventually(t, "the path", func() bool { return len(out.all()) == 1 })
	p := out.all()[0].(*PathRecord)
	if !p.Complete || len(p.Nodes) != 3 || p.Nodes[1].Node != "porthos" || p.Nodes[1].Egress != "eth1" || *p.Delay != 2000 {
		t.Errorf("%s", p.Text())
	}
	eventually(t, "the second of porthos", func() bool { return c.Stats().Join.Duplicates == 1 })
	if s := c.Stats(); s.Join.Paths[join.Complete] != 1 || s.Postcards != 4 {
		t.Errorf("stats %+v", s)
	}
}
