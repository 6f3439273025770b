// SPDX-License-Identifier: Apache-2.0

package paths

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

var update = flag.Bool("update", false, "write the golden files")

var destination = netip.MustParseAddr("2001:db8::99")

const kind ioam.TraceType = 0xf80000

// step is one node of a packet's way; nil fields of a test are zero.
type step struct {
	id          uint32
	in, out     uint16
	after, held time.Duration
	silent      bool
}

var began = time.Unix(1_700_000_000, 0)

// reply is the answer to a probe that took a way; with fewer than all steps, the error of
// the last one's node.
func reply(replyKind Kind, sentHops uint8, from netip.Addr, way ...step) Reply {
	var data []byte
	at := began
	for i, s := range way {
		if at = at.Add(s.after); s.silent {
			continue
		}
		var b []byte
		b = binary.BigEndian.AppendUint32(b, uint32(sentHops-uint8(i+1))<<24|s.id)
		b = binary.BigEndian.AppendUint16(b, s.in)
		b = binary.BigEndian.AppendUint16(b, s.out)
		b = binary.BigEndian.AppendUint32(b, uint32(at.Unix()))
		b = binary.BigEndian.AppendUint32(b, uint32(at.Nanosecond()/1000))
		b = binary.BigEndian.AppendUint32(b, uint32(s.held))
		data = append(b, data...)
	}
	free := make([]byte, 20)
	trace := &ioam.Trace{NodeLen: 5, RemainingLen: 5, Type: kind, Data: append(free, data...), Flags: ioam.FlagActive}
	return Reply{
		Kind:      replyKind,
		From:      from,
		RoundTrip: time.Millisecond,
		Sent:      began,
		SentHops:  sentHops,
		Arrived:   sentHops - uint8(len(way)) + 1,
		Trace:     trace,
	}
}

// A hop has no address of a reply whose trace names another node there.
func TestForeignAddress(t *testing.T) {
	elsewhere := step{id: 4, in: 401, out: 402}
	p := New(destination, 2, ioam.TimestampPOSIX, 0)
	p.Received(0, reply(Answered, 255, destination, north, target))
	p.Walked(0, reply(Copied, 64, address(4), elsewhere))
	if h := p.Report(name).Paths[0].Hops[0]; h.Address != nil {
		t.Errorf("node %d has the address %v of another one", *h.NodeID, h.Address)
	}
	p.Walked(0, reply(Copied, 64, address(2), north))
	if h := p.Report(name).Paths[0].Hops[0]; h.Address == nil || *h.Address != address(2) {
		t.Errorf("%+v", h)
	}
	p.Lost(1)
	p.Walked(1, reply(Exceeded, 1, address(4), elsewhere))
	p.Walked(1, reply(Exceeded, 2, address(5), north, target))
	if hops := p.Report(name).Broken[0].Hops; len(hops) != 2 || hops[0].Address != nil || hops[1].Address == nil {
		t.Errorf("%+v", hops)
	}
}

func address(n byte) netip.Addr { return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: n}) }

func name(i int) Flow {
	return Flow{Number: i, SourcePort: uint16(40000 + i), FlowLabel: uint32(i + 1)}
}

var (
	first  = step{id: 1, in: 101, out: 102, after: 10 * time.Microsecond, held: 3000}
	other  = step{id: 1, in: 101, out: 103, after: 10 * time.Microsecond, held: 3000}
	north  = step{id: 2, in: 201, out: 202, after: 20 * time.Microsecond, held: 5000}
	south  = step{silent: true}
	target = step{id: 3, in: 301, out: 0xffff, after: 30 * time.Microsecond, held: 1<<31 | 77}
)

// sample has two paths, one with a silent node that a hop limit shows, a flow that is lost
// after the first node, and one that is refused.
func sample() *Paths {
	p := New(destination, 5, ioam.TimestampPOSIX, 0)
	for i := range 5 {
		for range 2 {
			p.Sent(i)
		}
	}
	for i := range 2 {
		p.Received(0, reply(Answered, 255, destination, first, north, target))
		p.Received(1, reply(Answered, 255, destination, other, south, target))
		if i == 0 {
			p.Received(2, reply(Answered, 255, destination, other, south, target))
		} else {
			p.Lost(2)
		}
		p.Lost(3)
		p.Received(4, func() Reply {
			r := reply(Failed, 255, address(2), first, north)
			r.Error = "no route"
			return r
		}())
	}
	p.Walked(1, reply(Exceeded, 1, address(1), step{id: 1, in: 101, out: 0xffff}))
	p.Walked(1, reply(Exceeded, 2, address(7), step{id: 1, in: 101, out: 103}, south))
	p.Walked(3, reply(Exceeded, 1, address(1), step{id: 1, in: 101, out: 0xffff}))
	return p
}

func TestReport(t *testing.T) {
	r := sample().Report(name)
	r.Protocol, r.Namespace = "UDP", 123
	r.Ignored["foreign"] = 2
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	if err := r.WriteCSV(&lines); err != nil {
		t.Fatal(err)
	}
	for file, got := range map[string]string{"report.txt": r.Text(columns.Screen{}), "report80.txt": r.Text(columns.Screen{Width: 80}),
		"reportC.txt": r.Text(columns.Screen{Width: 80, ASCII: true}), "report.json": string(text) + "\n", "report.csv": lines.String(),
		"report.dot": r.DOT()} {
		path := filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || string(want) != got {
			t.Errorf("%s: %v\n%s", file, err, got)
		}
	}
	for _, width := range []int{40, 60, 80, 100, 132} {
		for line := range strings.Lines(r.Text(columns.Screen{Width: width})) {
			if columns.Width(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("wider than %d: %q", width, line)
			}
		}
	}
	if rows, err := csv.NewReader(&lines).ReadAll(); err != nil || len(rows) != 1+3+3+1+2 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// Names stand for ids where a person reads, also hostile ones.
func TestReportNames(t *testing.T) {
	r := sample().Report(name)
	link := func(id ioam.InterfaceID, name string) nodenames.Interface {
		return nodenames.Interface{ID: id, IDWide: ioam.InterfaceIDWideUnavailable, Name: name}
	}
	r.Name(nodenames.New(
		nodenames.Node{
			ID:         1,
			IDWide:     ioam.NodeIDWideUnavailable,
			Name:       "r1",
			Interfaces: []nodenames.Interface{link(101, "west0"), link(103, "\x1b[2J")},
		},
		nodenames.Node{ID: 2, IDWide: ioam.NodeIDWideUnavailable, Name: "r1"}, // the graph must not join them
	))
	text := r.Text(columns.Screen{})
	for _, want := range []string{"1 r1 ", "west0 > 102", `west0 > "\x1b[2J"`, "3 node 3 ",
		"last seen at hop 1, r1 (2001:db8::1), and not at r1 or 2001:db8::7"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	line, err := json.Marshal(r)
	if want := `"node_id":1,"ingress_id":101,"egress_id":102,`; err != nil || !strings.Contains(string(line), want) ||
		!strings.Contains(string(line), `"node_name":"r1","ingress_name":"west0"`) {
		t.Errorf("%v: %s", err, line)
	}
	if graph := r.DOT(); strings.Count(graph, `label="r1`) != 2 || strings.Contains(text+graph, "\x1b") {
		t.Error(graph)
	}
}

// What each path says, beyond how it is printed.
func TestPaths(t *testing.T) {
	r := sample().Report(name)
	if len(r.Paths) != 2 || len(r.Broken) != 2 || r.Sent != 10 || r.Lost != 5 {
		t.Fatalf("%d paths, %d broken, %d of %d lost", len(r.Paths), len(r.Broken), r.Lost, r.Sent)
	}
	straight, silent := r.Paths[0], r.Paths[1]
	if len(straight.Flows) != 1 || straight.Sent != 2 || straight.Lost != 0 || straight.RoundTrip.Median != int64(time.Millisecond) {
		t.Errorf("%+v", straight)
	}
	for i, want := range []struct{ since, held int64 }{{10_000, 3000}, {20_000, 5000}, {30_000, -1}} {
		h := straight.Hops[i]
		if h.Position != i+1 || h.Silent || h.Since.Min != want.since || h.Since.P95 != want.since || (h.Held == nil) != (want.held < 0) ||
			h.Held != nil && h.Held.Median != want.held {
			t.Errorf("hop %d: %+v since %+v held %+v", i, h, h.Since, h.Held)
		}
	}
	if len(silent.Flows) != 2 || silent.Sent != 4 || silent.Lost != 1 || len(silent.Hops) != 3 {
		t.Fatalf("%+v", silent)
	}
	if h := silent.Hops[1]; !h.Silent || h.Address == nil || *h.Address != address(7) || h.Since != nil {
		t.Errorf("the silent hop: %+v", h)
	}
	lost, refused := r.Broken[0], r.Broken[1]
	if len(lost.Hops) != 1 || *lost.Hops[0].NodeID != 1 || len(lost.Next) != 2 || lost.Error != "" {
		t.Errorf("lost: %+v", lost)
	}
	if len(refused.Hops) != 2 || *refused.Hops[1].NodeID != 2 || refused.Error != "no route from 2001:db8::2" ||
		*refused.Hops[1].Address != address(2) {
		t.Errorf("refused: %+v", refused)
	}
}

// Flows whose probe for copies is not answered: which hop they did not reach, until more is
// known.
func TestUnanswered(t *testing.T) {
	p := New(destination, 3, ioam.TimestampPOSIX, 0)
	p.Walked(0, reply(Copied, 64, address(1), first))
	p.Walked(0, reply(Copied, 64, address(2), first, north))
	p.Walked(0, reply(Answered, 64, destination, first, north, target))
	p.Walked(1, reply(Copied, 64, address(1), first))
	p.Unanswered(1, 52*time.Millisecond)
	p.Unanswered(2, 52*time.Millisecond)
	const of1, seen = "flow 1 (port 40001, label 0x00002)", "last seen at hop 1, node 1 (2001:db8::1), and not at "
	want := of1 + ": no answer within 52ms; " + seen + "node 2 (2001:db8::2)\n" +
		"flow 2 (port 40002, label 0x00003): no answer within 52ms; no node on the way replied, not even node 1 (2001:db8::1)\n"
	if got := p.Report(name).Unanswered(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.Sent(1)
	p.Lost(1)
	p.Sent(2)
	p.Received(2, reply(Answered, 255, destination, first, north, target))
	want = of1 + ", 1 probe: none was answered; " + seen + "node 2\n"
	if got := p.Report(name).Unanswered(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	alone := New(destination, 1, ioam.TimestampPOSIX, 0)
	alone.Walked(0, reply(Copied, 64, address(1), first))
	alone.Unanswered(0, time.Second)
	if got := alone.Report(name).Unanswered(); got != "flow 0 (port 40000, label 0x00001): no answer within 1s; "+seen+"hop 2\n" {
		t.Errorf("%q", got)
	}
	reached := New(destination, 1, ioam.TimestampPOSIX, 0)
	reached.Walked(0, reply(Copied, 64, destination, first))
	reached.Unanswered(0, time.Second)
	if got := reached.Report(name).Unanswered(); got != "flow 0 (port 40000, label 0x00001): no answer within 1s; "+
		"probes reached the destination, hop 1, which did not answer them\n" {
		t.Errorf("%q", got)
	}
}

// Replies without a trace: hop limits show the path, and flows that may share one do.
func TestUntraced(t *testing.T) {
	p := New(destination, 3, ioam.TimestampPOSIX, 0)
	for i := range 3 {
		p.Sent(i)
		p.Received(i, Reply{Kind: Echoed, From: destination, SentHops: 255, RoundTrip: time.Millisecond})
	}
	walk := func(flow int, hops uint8, node byte, id uint32) {
		p.Walked(flow, reply(Exceeded, hops, address(node), slices.Repeat([]step{{id: id}}, int(hops))...))
	}
	walk(0, 2, 2, 1)
	walk(1, 1, 1, 1)
	walk(2, 1, 9, 9) // another node
	for i := range 3 {
		for _, hops := range []uint8{4, 3, 5} {
			p.Walked(i, Reply{Kind: Echoed, From: destination, SentHops: hops})
		}
		if p.Unwalked(i, 3) || !p.Unwalked(2, 2) || p.Unwalked(i, 7) {
			t.Errorf("flow %d: the end is not found", i)
		}
	}
	r := p.Report(name)
	if len(r.Paths) != 2 || len(r.Paths[0].Flows) != 2 || len(r.Paths[1].Flows) != 1 {
		t.Fatalf("%s", r.Text(columns.Screen{}))
	}
	var way []string
	for _, h := range r.Paths[0].Hops {
		way = append(way, h.address())
	}
	if want := "2001:db8::1 2001:db8::2 2001:db8::99"; strings.Join(way, " ") != want {
		t.Errorf("%s, want %s", way, want)
	}
	if h := r.Paths[0].Hops[2]; h.Silent || h.name() != "-" {
		t.Errorf("of the destination nothing is known, and it is %q", h.name())
	}
}

// Flows that were not walked are no path of their own, and their replies are shown.
func TestNotWalked(t *testing.T) {
	p := New(destination, 3, ioam.TimestampPOSIX, 0)
	for i := range 3 {
		p.Sent(i)
		p.Received(i, Reply{Kind: Echoed, From: destination, SentHops: 255, RoundTrip: time.Millisecond})
	}
	if text := p.Report(name).Text(columns.Screen{}); !strings.Contains(text, "path not known, 3 flows") ||
		!strings.Contains(text, "0 of 3  1ms") {
		t.Error(text)
	}
	var lines strings.Builder
	if err := p.Report(name).WriteCSV(&lines); err != nil ||
		!strings.HasSuffix(lines.String(), "\n1,3,3,0,1000000,1000000,1000000"+strings.Repeat(",", len(csvColumns)-7)+"\n") {
		t.Errorf("%v\n%s", err, lines.String())
	}
	if dot := p.Report(name).DOT(); !strings.Contains(dot, `n0 -> n1 [label="3 flows\npath not known", style=dashed];`) ||
		!strings.Contains(dot, `n1 [label="`+destination.String()+`", shape=box];`) {
		t.Error(dot)
	}
	p.Walked(0, reply(Exceeded, 1, address(1), step{id: 1}))
	p.Walked(0, Reply{Kind: Echoed, From: destination, SentHops: 2})
	text := p.Report(name).Text(columns.Screen{})
	for _, want := range []string{": 1 path, 3 flows", " not known ", "0 of 2  1ms 1ms 1ms", "the replies of 2 flows have no trace"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
}

// Of replies without a trace, the errors about probes whose hop limits ended on the way have
// the times: of each node when it was reached, and of all but the last how long it took.
func TestUntracedTimes(t *testing.T) {
	last := func(s step) step { s.out, s.held = 0xffff, 1<<31; return s }
	p := New(destination, 3, ioam.TimestampPOSIX, 0)
	for i := range 3 {
		p.Sent(i)
		p.Received(i, Reply{Kind: Echoed, From: destination, SentHops: 255, RoundTrip: time.Millisecond})
		p.Walked(i, Reply{Kind: Echoed, From: destination, SentHops: 3})
	}
	p.Walked(0, reply(Exceeded, 1, address(1), last(first)))
	p.Walked(0, reply(Exceeded, 2, address(2), first, last(north)))
	p.Walked(1, reply(Exceeded, 2, address(2), first, last(north)))
	p.Walked(2, reply(Exceeded, 1, address(1), last(step{id: 9}))) // another path
	r := p.Report(name)
	if len(r.Paths) != 2 || len(r.Paths[0].Flows) != 2 {
		t.Fatalf("%s", r.Text(columns.Screen{}))
	}
	for i, want := range []struct{ arrivals, since, stays, held int64 }{{3, 10_000, 2, 3000}, {2, 20_000, 0, 0}, {}} {
		h := r.Paths[0].Hops[i]
		if (h.Since == nil) != (want.arrivals == 0) ||
			h.Since != nil && (h.Since.Count != uint64(want.arrivals) || h.Since.Min != want.since || h.Since.Max != want.since) {
			t.Errorf("hop %d: since %+v, want %+v", h.Position, h.Since, want)
		}
		if (h.Held == nil) != (want.stays == 0) || h.Held != nil && (h.Held.Count != uint64(want.stays) || h.Held.Max != want.held) {
			t.Errorf("hop %d: held %+v, want %+v", h.Position, h.Held, want)
		}
	}
}

// Hops that wrote nothing may run IOAM of another namespace.
func TestWithoutData(t *testing.T) {
	for _, tt := range []struct {
		name string
		way  []step
		want string
	}{
		{"all wrote", []step{first, target}, ""},
		{"one did not", []step{first, south, target}, "no data: the hop passed the probes and wrote nothing of namespace 77"},
		{"none did", []step{south, south}, "no node wrote data of namespace 77, though probes passed: check the number"},
	} {
		p := New(destination, 2, ioam.TimestampPOSIX, 0)
		p.Received(0, reply(Answered, 255, destination, tt.way...))
		p.Walked(0, reply(Exceeded, 2, address(7), tt.way[:2]...))
		r := p.Report(name)
		r.Namespace = 77
		if text := r.Text(columns.Screen{}); strings.Contains(text, "no IOAM\n") || strings.Count(text, "namespace 77") != min(1, len(tt.want)) ||
			!strings.Contains(text, tt.want) {
			t.Errorf("%s:\n%s", tt.name, text)
		}
	}
}

// A trace says what it likes about hop limits, ids and times: paths stay bounded.
func TestHostileTraces(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	p := New(destination, 4, ioam.TimestampPOSIX, 0)
	for range 3 * maxPaths {
		data := make([]byte, 20*random.IntN(13))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		r := Reply{
			Kind: Kind(
				random.IntN(5),
			), From: address(byte(random.Uint32())), SentHops: uint8(random.Uint32()), Arrived: uint8(random.Uint32()), Sent: began,
			Trace: &ioam.Trace{NodeLen: 5, RemainingLen: uint8(random.IntN(128)), Type: kind, Data: data},
		}
		p.Sent(0)
		p.Received(random.IntN(4), r)
		p.Walked(random.IntN(4), r)
	}
	for range maxPaths + 3 {
		p.Received(0, reply(Answered, 255, destination, step{id: random.Uint32() & 0xffffff}))
	}
	r := p.Report(name)
	if len(r.Paths) > maxPaths+4 || r.Unkept == 0 {
		t.Errorf("%d paths, %d probes of others", len(r.Paths), r.Unkept)
	}
	for _, one := range r.Paths {
		for i, h := range one.Hops {
			if h.Position != i+1 || len(one.Hops) > 255+13 {
				t.Fatalf("hop %d of %d is at %d", i, len(one.Hops), h.Position)
			}
		}
	}
	_, _ = r.Text(columns.Screen{}), r.DOT()
}

// One flow of each path is walked, and those without a path.
func TestToWalk(t *testing.T) {
	p := sample()
	if got := p.ToWalk(9); !slices.Equal(got, []int{0, 1, 3, 4}) {
		t.Errorf("%v", got)
	}
	if got := p.ToWalk(2); len(got) != 2 {
		t.Errorf("%v", got)
	}
	if p.GoesOn(0, 1, 8) || !p.GoesOn(3, 1, 8) || p.GoesOn(3, 9, 16) {
		t.Error("walks end at the wrong place")
	}
}
