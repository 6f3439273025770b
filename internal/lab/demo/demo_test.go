// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/craft"
)

const udpRecord = `{"kind":"trace","time":"2026-11-21T05:20:59.000048001Z","node":"aramis","interface":"eth0","option":"pre-allocated",
 "namespace":123,"trace_type":"0xf80000","overflow":false,"remaining":0,
 "packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2","next_header":17,"source_port":4242,"destination_port":9000,"flow_label":0,"length":148},
 "nodes":[
  {"hop_limit":63,"node_id":1,"ingress_id":101,"egress_id":102,"timestamp":"2026-11-21T05:20:59.000010000Z","transit_delay_ns":null},
  {"hop_limit":62,"node_id":2,"ingress_id":201,"egress_id":202,"timestamp":"2026-11-21T05:20:59.000028250Z","transit_delay_ns":6125},
  {"hop_limit":61,"node_id":3,"ingress_id":301,"egress_id":null,"timestamp":"2026-11-21T05:20:59.000048000Z","transit_delay_ns":null}]}`

// pingRecord is the same of an echo request.
var pingRecord = strings.NewReplacer(`"next_header":17,"source_port":4242,"destination_port":9000`, `"next_header":58`).Replace(udpRecord)

func lineNames(t *testing.T) *nodenames.Names {
	t.Helper()
	top, err := lab.Builtin("line")
	if err != nil {
		t.Fatal(err)
	}
	return namesOf(top)
}

func recordOf(t *testing.T, text string) *record.Trace {
	t.Helper()
	r := &record.Trace{}
	if err := record.Unmarshal([]byte(text), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPrint(t *testing.T) {
	for _, tt := range []struct {
		name, record string
		terminal     bool
		want         string
	}{
		{"plain", udpRecord, false, "trace 1: udp [2001:db8:1::2]:4242 > [2001:db8:2::2]:9000 148 bytes:" +
			" athos(1) in=eth0(101) out=eth1(102) hop-limit=63;" +
			" porthos(2) in=eth0(201) out=eth1(202) hop-limit=62 hop-delay=18.25µs transit-delay=6.125µs;" +
			" aramis(3) in=eth0(301) out=- hop-limit=61 hop-delay=19.75µs; end-to-end=38µs\n"},
		{"terminal", pingRecord, true, "" +
			"  1 ping, 148 bytes  38µs end to end\n" +
			"    athos    eth0 > eth1  hop limit 63  at 05:20:59.000010000  held -\n" +
			"    porthos  eth0 > eth1  hop limit 62  +18.25µs               held 6.125µs\n" +
			"    aramis   eth0 > -     hop limit 61  +19.75µs               held -\n"},
		{"unknown node, overflow", strings.NewReplacer(`"node_id":2`, `"node_id":99`, `"overflow":false`, `"overflow":true`, `"timestamp":"2026-11-21T05:20:59.000028250Z"`, `"timestamp":null`).Replace(udpRecord), false,
			"trace 1: udp [2001:db8:1::2]:4242 > [2001:db8:2::2]:9000 148 bytes:" +
				" athos(1) in=eth0(101) out=eth1(102) hop-limit=63;" +
				" node(99) in=201 out=202 hop-limit=62 transit-delay=6.125µs;" +
				" aramis(3) in=eth0(301) out=- hop-limit=61 hop-delay=38µs; overflow; first-to-last=38µs\n"},
		{"nothing known", `{"kind":"trace","packet":{"source":"::1","destination":"::2","next_header":6,"length":60},"nodes":[{}]}`, false,
			"trace 1: tcp ::1 > ::2 60 bytes: node(-)\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			p := &printer{out: &out, terminal: tt.terminal, names: lineNames(t)}
			p.way("trace", nil, recordOf(t, tt.record))
			if out.String() != tt.want {
				t.Errorf("printed\n%s\nwant\n%s", out.String(), tt.want)
			}
		})
	}
}

// The first packet of each kind is printed, and all are in the table.
func TestHops(t *testing.T) {
	var out bytes.Buffer
	p := &printer{out: &out, names: lineNames(t), screen: columns.Screen{Width: 80, ASCII: true}}
	for range 3 {
		p.way("trace", nil, recordOf(t, udpRecord))
		p.way("trace", nil, recordOf(t, pingRecord))
		p.way("path", nil, recordOf(t, pingRecord))
	}
	for _, want := range []string{"trace 1: udp ", "trace 2: ping ", "path 1: ping "} {
		if strings.Count(out.String(), "\n") != 3 || !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	const want = "NODE     PACKETS  HELD MEDIAN  HELD P95  TO NEXT MEDIAN  TO NEXT P95\n" +
		"athos          9            -         -          18.3µs       18.3µs\n" +
		"porthos        9       6.13µs    6.13µs          19.8µs       19.8µs\n" +
		"aramis         9            -         -               -            -\n"
	if got := p.hops.table(columns.Screen{Width: 80}); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

func TestColourOnlyWhenAsked(t *testing.T) {
	for _, colour := range []bool{false, true} {
		var out bytes.Buffer
		p := &printer{out: &out, terminal: true, colour: colour, names: lineNames(t)}
		p.way("trace", nil, recordOf(t, udpRecord))
		if got := strings.Contains(out.String(), "\x1b["); got != colour {
			t.Errorf("colour %v: escapes are there: %v", colour, got)
		}
	}
}

// packet makes an Ethernet frame of an IPv6 packet.
func packet(next uint8, from, to uint16, payload []byte) lab.Packet {
	h := craft.Between("2001:db8:1::2", "2001:db8:2::2", next)
	h.HopLimit = 60
	ports := binary.BigEndian.AppendUint32(nil, uint32(from)<<16|uint32(to))
	b := craft.Ethernet(nil, nil, h.With(ports, payload))
	return lab.Packet{Length: len(b), Data: b}
}

func newLineArrivals(t *testing.T) *arrivals {
	t.Helper()
	top, err := lab.Builtin("line")
	if err != nil {
		t.Fatal(err)
	}
	return newArrivals(top)
}

func TestDelivered(t *testing.T) {
	port := func(p uint16) *uint16 { return &p }
	traced := func(next uint8, from, to uint16, length int) record.Packet {
		p := record.Packet{Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"), Length: length}
		p.NextHeader = nextUDP
		if next == 6 {
			p.NextHeader = nextTCP
		}
		p.SourcePort, p.DestinationPort = port(from), port(to)
		return p
	}
	a := newLineArrivals(t)
	a.see(packet(17, 1000, 9000, make([]byte, 60)))
	a.see(packet(17, 1000, 9000, make([]byte, 60)))
	outgoing := packet(17, 1000, 9000, make([]byte, 60))
	outgoing.Outgoing = true
	a.see(outgoing)
	a.see(packet(6, 1000, 9001, make([]byte, 96))) // two segments of 60 bytes and more, merged
	for _, tt := range []struct {
		name   string
		traced []record.Packet
		want   int
	}{
		{"both", []record.Packet{traced(17, 1000, 9000, 104), traced(17, 1000, 9000, 104)}, 2},
		{"one too many", []record.Packet{traced(17, 1000, 9000, 104), traced(17, 1000, 9000, 104), traced(17, 1000, 9000, 104)}, 2},
		{"another length", []record.Packet{traced(17, 1000, 9000, 105)}, 0},
		{"another port", []record.Packet{traced(17, 1001, 9000, 104)}, 0},
		{"merged segments", []record.Packet{traced(6, 1000, 9001, 60), traced(6, 1000, 9001, 80)}, 2},
		{"more than came", []record.Packet{traced(6, 1000, 9001, 80), traced(6, 1000, 9001, 80)}, 1},
	} {
		if got := a.delivered(tt.traced)[0]; got != tt.want {
			t.Errorf("%s: %d delivered, want %d", tt.name, got, tt.want)
		}
		// A packet taken for one list is not counted for another.
		if got := a.delivered(tt.traced, tt.traced); got[0] != tt.want || got[0]+got[1] > 2 {
			t.Errorf("%s, twice: %v delivered", tt.name, got)
		}
	}
	if packets, _, _, _ := a.snapshot(); packets != 3 {
		t.Errorf("%d packets came, want 3: what beta sends is not received", packets)
	}
}

func TestArrivalsSeeIOAM(t *testing.T) {
	a := newLineArrivals(t)
	a.see(packet(17, 1, 2, make([]byte, 60)))
	if _, marked, residue, _ := a.snapshot(); marked != 0 || residue != 0 {
		t.Errorf("a plain packet has %d bytes of IOAM", residue)
	}
	// A trace of the line's namespace and type that no header leads to.
	hidden := []byte{0x31, 18, 0, 0, 0, 123, 0x28, 0, 0xf8, 0, 0, 0, 0, 0, 0, 0}
	a.see(packet(17, 1, 2, hidden))
	if _, marked, residue, _ := a.snapshot(); marked != 1 || residue == 0 {
		t.Errorf("a hidden trace was not seen: %d packets, %d bytes", marked, residue)
	}
	cut := packet(17, 1, 2, nil)
	cut.Length += 1000
	a.see(cut)
	if _, _, _, truncated := a.snapshot(); truncated != 1 {
		t.Errorf("%d packets were cut, want 1", truncated)
	}
}

// replay streams records like an agent.
func replay(lines ...string) observe {
	return func(ctx context.Context, ready func(), consume func([]byte) error) error {
		ready()
		for _, l := range lines {
			if err := consume([]byte(strings.ReplaceAll(l, "\n", ""))); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	}
}

func TestObserver(t *testing.T) {
	var out bytes.Buffer
	show := &printer{out: &out, every: true, names: lineNames(t)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o, err := newObserver(ctx, show, replay(udpRecord, `{"kind":"other"}`, udpRecord))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.awaitTraces(ctx, nextUDP, 2, 10*time.Millisecond, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if n := len(o.packets()); n != 2 {
		t.Errorf("%d packets were traced, want 2", n)
	}
	if got := o.delays(); !slices.Equal(got, []time.Duration{38 * time.Microsecond, 38 * time.Microsecond}) {
		t.Errorf("delays are %v", got)
	}
	start := time.Now()
	if err := o.awaitTraces(ctx, nextTCP, 1, 0, 50*time.Millisecond); err != nil || time.Since(start) < 50*time.Millisecond {
		t.Errorf("settle gave %v after %v; want to wait its limit", err, time.Since(start))
	}
}

func TestObserverReportsTheAgentsEnd(t *testing.T) {
	gone := errors.New("connection reset")
	show := &printer{out: &bytes.Buffer{}, names: lineNames(t)}
	if _, err := newObserver(t.Context(), show, func(context.Context, func(), func([]byte) error) error { return gone }); !errors.Is(
		err,
		gone,
	) {
		t.Errorf("newObserver gave %v", err)
	}
	for _, tt := range []struct {
		stream observe
		want   string
	}{
		{func(_ context.Context, ready func(), _ func([]byte) error) error { ready(); return gone }, gone.Error()},
		{replay(`{"kind":"trace","nodes":7}`), "read a record of the agent"},
	} {
		o, err := newObserver(t.Context(), show, tt.stream)
		if err == nil { // the end may be seen first
			err = o.awaitTraces(t.Context(), nextUDP, 1, 0, 5*time.Second)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("the error is %v, want %q", err, tt.want)
		}
	}
}

var lossyLinks = []link{{"north", "ingress", "north1", 1000, 20, 20, 0}, {"north", "north1", "north2", 980, 0, 0, 0}}

// The demo of losses fails for each problem that it is meant to catch.
func TestJudgeLosses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		links []link
		fault error
		want  string // in the error; empty: success
	}{
		{"good", lossyLinks, nil, ""},
		{"too few", []link{{"north", "ingress", "north1", 1000, 20, 19, 0}}, nil, "flow north lost 20 packets between ingress and north1, but the agents measured 19"},
		{"from nothing", append(slices.Clone(lossyLinks), link{"south", "south", "egress", 10, 0, 1, 0}), nil, "flow south lost 0 packets between south and egress, but the agents measured 1"},
		{"no loss", lossyLinks[1:], nil, "the lab lost no packet"},
		{"uncertain", lossyLinks, errors.New("block 7 is uncertain"), "block 7 is uncertain"},
	} {
		p := losses{links: tt.links}
		if tt.fault != nil {
			p.faults = append(p.faults, tt.fault)
		}
		err := errors.Join(p.judge()...)
		if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	const want = "FLOW   LINK              SENT  LOST  MEASURED  VERDICT\n" +
		"north  ingress - north1  1000    20        20  equal\n" +
		"north  north1 - north2    980     3         2  DIFFERENT\n" +
		"south  south - egress     980     3         2  uncertain\n"
	if got := table([]link{lossyLinks[0], {"north", "north1", "north2", 980, 3, 2, 0}, {"south", "south", "egress", 980, 3, 2, 100}},
		columns.Screen{Width: 80}); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// conclude must fail for each problem that it is meant to catch.
func TestConclude(t *testing.T) {
	good := packet(17, 4242, 9000, make([]byte, 104))
	shown := packet(17, 5000, 9000, make([]byte, 60)) // had a Direct Export
	source, port := uint16(5000), uint16(9000)
	path := record.Packet{Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"), NextHeader: nextUDP,
		SourcePort: &source, DestinationPort: &port, Length: 104}
	marked := packet(17, 4242, 9000, []byte{0x31, 18, 0, 0, 0, 123, 0x28, 0, 0xf8, 0, 0, 0, 0, 0, 0, 0})
	for _, tt := range []struct {
		name   string
		traces int
		paths  int // of one packet with a Direct Export
		beta   []lab.Packet
		inside []lab.Packet
		want   string // in the error; empty: success
		line   string
	}{
		{"good", 1, 1, []lab.Packet{good, shown}, []lab.Packet{marked}, "", "demo: traced=1 delivered=1 ioam_bytes_at_beta=0"},
		{"no trace", 0, 1, []lab.Packet{good, shown}, nil, "no packet carried a trace", "demo: traced=0 delivered=0 ioam_bytes_at_beta=0"},
		{"lost", 2, 1, []lab.Packet{good, shown}, []lab.Packet{marked}, "1 of 2 traced packets did not reach beta", "demo: traced=2 delivered=1 ioam_bytes_at_beta=0"},
		{"leak", 1, 1, []lab.Packet{good, shown, marked}, []lab.Packet{marked}, "beta received 12 bytes of IOAM", "demo: traced=1 delivered=1 ioam_bytes_at_beta=12"},
		{"blind scan", 1, 1, []lab.Packet{good, shown}, []lab.Packet{good}, "proves nothing", "demo: traced=1 delivered=1 ioam_bytes_at_beta=0"},
		{"export lost", 1, 1, []lab.Packet{good}, []lab.Packet{marked}, "1 of 1 packets with a Direct Export did not reach beta", "demo: traced=1 delivered=1 ioam_bytes_at_beta=0"},
		{"not joined", 1, 0, []lab.Packet{good}, []lab.Packet{marked}, "of 1 packets with a Direct Export, 0 were joined into complete paths", "demo: traced=1 delivered=1 ioam_bytes_at_beta=0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			s := &session{
				show:    &printer{out: &out, names: lineNames(t)},
				arrived: newLineArrivals(t),
				inside:  newLineArrivals(t),
				records: &observer{},
				losses:  &losses{links: lossyLinks},
			}
			s.records.show, s.joined.show, s.joined.exported = s.show, s.show, 1
			for range tt.paths {
				s.joined.countPath(&record.Path{Complete: true, Packet: path, Delay: new(int64(21_000))})
			}
			for range tt.traces {
				if err := s.records.readRecord([]byte(strings.ReplaceAll(udpRecord, "\n", ""))); err != nil {
					t.Fatal(err)
				}
			}
			for _, p := range tt.beta {
				s.arrived.see(p)
			}
			for _, p := range tt.inside {
				s.inside.see(p)
			}
			err := s.conclude()
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("conclude gave %v, want %q", err, tt.want)
			}
			arrived := strings.Count(fmt.Sprint(tt.beta), fmt.Sprint(shown)) * tt.paths
			if last := fmt.Sprintf("demo: links=2 lost=20 measured=20\ndemo: exported=1 joined=%d delivered=%d\n%s\n", tt.paths, arrived,
				tt.line); !strings.HasSuffix(
				out.String(),
				last,
			) {
				t.Errorf("the last lines of\n%sare not %q", out.String(), last)
			}
			// The lines above count both kinds.
			sent := fmt.Sprintf("%d packets carried IOAM, %d a trace and 1 a Direct Export; beta received ", tt.traces+1, tt.traces)
			least := fmt.Sprintf(
				"From athos to aramis, %d of them: min %s",
				tt.traces+tt.paths,
				map[bool]string{true: "21 µs", false: "38 µs"}[tt.paths > 0],
			)
			if !strings.Contains(out.String(), sent) || !strings.Contains(out.String(), least) {
				t.Errorf("%sdoes not say %q and %q", out.String(), sent, least)
			}
		})
	}
}
