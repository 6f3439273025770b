// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
)

// FuzzMessages gives the sets of two messages, one after the other, to a session:
// whatever they contain, records have a JSON form and a text, counts agree and bounds
// hold. Headers are tested in package ipfix.
func FuzzMessages(f *testing.F) {
	x := newExporter(f, ipfix.UDP, 1)
	flow := fields{num("ioamNamespaceId", 1), num("packetDeltaCount", 3), num("octetDeltaCount", 300), {"flowStartNanoseconds", start},
		{"flowEndNanoseconds", start}, num("ioamTransitDelayDeltaCount", 3)}
	hop := fields{num("ioamNamespaceId", 1), num("ioamReportId", 1), num("ioamHopIndex", 1), num("ioamHopCount", 2),
		num("ioamTraceType", 0xfff002), num("ioamSchemaId", 7), {"ioamOpaqueStateSnapshot", []byte("rack 7")}}
	for _, r := range [][2][]fields{
		{packet(0), packet(1)[:2]},
		{packet(0)[:1], packet(0)[1:]},
		{{postcard(1, 1, 63, 0, 0).without("ioamDexFlowId")}, {postcard(1, 1, 63, 0, 0).without("ioamNodeRole", "ioamExtensionFlags")}},
		{{flow}, {hop, hop.with(num("ioamHopIndex", 0))}},
		{{{{"sourceIPv4Address", netip.MustParseAddr("192.0.2.1")}, {"flowEndSeconds", start}, {"interfaceName", "eth0"}, {"flowStartMilliseconds", start}}}, {flow}},
	} {
		f.Add(x.message(start, 0, r[0]...)[16:], x.message(start, 0, r[1]...)[16:])
	}
	f.Add(x.message(start, 0, measuredLoss())[16:], x.message(start, 0, measuredDelay())[16:])
	blocks, block := newBlockExporter(f), time.Now().UnixNano()/int64(blockLength)-1
	of := func(point loss.PointID) *record.Block {
		b := counted("red", block, point, 2, 5)
		b.Time = instant.Of(start) // as of the messages below
		return b
	}
	f.Add(blocks.message(of(0), of(1))[16:], blocks.message(of(2))[16:])
	f.Add(x.message(start, 0, edgeFlow())[16:], x.message(start, 0,
		edgeFlow().without("ioamSequenceGapDeltaCount", "pmDelaySampleDeltaCount", "flowStartNanoseconds"))[16:])
	f.Add(x.message(start, 1, fields{num("observationDomainId", 1), {"observationDomainName", "athos"}})[16:],
		x.message(start, 1, fields{num("ingressInterface", 2), {"interfaceName", "eth0"}})[16:])
	y := newExporter(f, ipfix.UDP, 1)
	sids, interfaces, several, _ := listsOf(f, y)
	f.Add(y.message(start, 0, fields{{"interfaceName[v]", "eth1"}, {"basicList", sids}})[16:],
		y.message(start, 0, fields{{"srhSegmentIPv6BasicList", sids}, {"subTemplateList", interfaces}, {"subTemplateMultiList", several}})[16:])
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if len(first)+len(second) > 60000 {
			return // no message has as many
		}
		const keep = 16
		out := &memory{}
		c, err := New(Config{Enterprise: enterprise, Join: join.Config{Keep: keep}, Sinks: []sink.Sink{out},
			Thresholds: loss.Thresholds{MaxLoss: new(loss.Share), MaxDelay: new(time.Duration)}})
		if err != nil {
			t.Fatal(err)
		}
		s := session(t, c, 1)
		for _, sets := range [][]byte{first, second} {
			c.message(s, join.Exporter{Addr: netip.IPv6Loopback()}, rawMessage(1, sets))
		}
		if c.shards.countKept() > keep || c.traces.hops > hopsLimit || c.blocks.size > blocksRoom {
			t.Errorf("%d postcards, %d hops, and flows of %d octets are kept", c.shards.countKept(), c.traces.hops, c.blocks.size)
		}
		c.flush(time.Now().Add(time.Hour))
		for _, e := range out.all() {
			if line := record.AppendJSON(nil, e); !json.Valid(line) {
				t.Errorf("%T has no JSON form: %s", e, line)
			}
			if e.Text() == "" {
				t.Errorf("%T has no text", e)
			}
		}
		stats := c.Stats()
		kinds, postcards := stats.Options+stats.Others, stats.Data[record.DataPostcard]
		for _, n := range append(stats.Data[:], stats.Faults[:]...) {
			kinds += n
		}
		joined := stats.Unjoinable + stats.Join.Joined + stats.Join.Duplicates + stats.Join.Repeated + stats.Join.Late + stats.Join.TooMany
		if kinds != stats.Records || joined != postcards || stats.Waiting != 0 {
			t.Errorf("counts do not agree: %+v", stats)
		}
	})
}
