// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

const (
	blockLength = time.Second
	blockGuard  = 200 * time.Millisecond
)

// blockExporter writes blocks as agents do.
type blockExporter struct {
	t        testing.TB
	encoding *record.Encoding
	messages *ipfix.Encoder
}

func newBlockExporter(t testing.TB) *blockExporter {
	t.Helper()
	templates, err := record.NewTemplates(enterprise)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := ipfix.NewEncoder(ipfix.UDP, 1, 60000)
	if err != nil {
		t.Fatal(err)
	}
	return &blockExporter{t, templates.Encoding(), messages}
}

func (x *blockExporter) message(list ...*record.Block) []byte {
	x.t.Helper()
	x.messages.Start(nil)
	for _, b := range list {
		x.encoding.Parts(b)
		if err := x.encoding.Encode(b, 0, 0); err != nil {
			x.t.Fatal(err)
		}
		if err := errors.Join(x.messages.Define(x.encoding.Layout.Template),
			x.messages.Add(x.encoding.Layout.Template, x.encoding.Octets)); err != nil {
			x.t.Fatal(err)
		}
	}
	return x.messages.Finish(time.Now())
}

// counted is what a point counted in a block.
func counted(flow string, block int64, point, last loss.PointID, packets uint64) *record.Block {
	m := record.Measurement{
		Time: instant.Of(time.Now()), Flow: flow, Source: netip.MustParseAddr("2001:db8::1"),
		SIDs: []netip.Addr{netip.MustParseAddr("fc00:2::e")},
		To:   last, Length: uint64(blockLength),
	}
	return record.NewBlock(m, blockGuard, &loss.Reading{Flow: 7, Point: point, Block: block, Packets: packets, Octets: 100 * packets},
		loss.Selection{Path: 1, Marking: 1})
}

// history is what became of the packets of a flow in a block.
type history struct {
	packets []uint64 // by point
	dirty   int      // the point whose counters are not exact, or -1
	missing bool     // it did not report
	delays  []int64  // from the ingress to each point
}

// blocks are what the points report.
func (h *history) blocks(r *rand.Rand, flow string, block int64) (list []*record.Block) {
	for point, n := range h.packets {
		b := counted(flow, block, loss.PointID(point), loss.PointID(len(h.packets)-1), n)
		b.ClockError = record.NewField[uint64](1000, true)
		b.TimeSum = record.NewField(int64(n)*(5_000_000+h.delays[point]), true)
		b.DelayPackets, b.DelayTimeSum = 1, 77+h.delays[point]
		if point == h.dirty {
			if h.missing {
				continue
			}
			switch r.IntN(4) {
			case 0:
				b.Late = 1
			case 1:
				b.Unmarked = 1
			case 2:
				b.Flags = loss.Began
			case 3:
				b.ClockError = record.Field[uint64]{Present: true}
			}
		}
		list = append(list, b)
	}
	return list
}

// check compares what the collector says of a part of the way with what became of the
// packets there.
func (h *history) check(t *testing.T, name string, l *record.Loss) {
	t.Helper()
	sent, received := h.packets[l.From], h.packets[l.To]
	if h.dirty == int(l.From) || h.dirty == int(l.To) {
		if l.Verdict != loss.Uncertain || l.Lost.Valid || l.FromReasons|l.ToReasons == 0 {
			t.Errorf("%s: not uncertain: %+v", name, l)
		}
		return
	}
	if (h.dirty == 0 || h.dirty == len(h.packets)-1) && (l.FromReasons|l.ToReasons) == loss.PathUnknown {
		return // an end that is not exact does not prove that all packets passed the others
	}
	want := loss.Measured
	if sent == 0 && received == 0 {
		want = loss.Idle
	}
	if l.Verdict != want || l.Lost != record.NewField(sent-received, true) || l.Sent.Value != sent || l.Received.Value != received ||
		l.LostBytes.Value != 100*(sent-received) {
		t.Errorf("%s: %d sent and %d received, said %+v", name, sent, received, l)
	}
}

// Blocks of flows with up to 15 points, out of order and repeated, give the loss that was
// made, on each segment, and the delay; where one point's counters are not exact, or it is
// silent, no loss is said.
func TestBlocksAreCompared(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c, out, send := offline(t, Config{Join: join.Config{Wait: maxBlockWait}}, ipfix.UDP)
	x := newBlockExporter(t)
	const blocks = 20
	first := time.Now().UnixNano()/int64(blockLength) - blocks
	histories := map[string]*history{}
	var later []*record.Block
	sent := 0
	for flow := range 30 {
		name, points := fmt.Sprint("flow ", flow), 2+flow%14
		for block := first; block < first+blocks; block++ {
			h := &history{dirty: -1, missing: r.IntN(2) == 0}
			if r.IntN(3) == 0 {
				h.dirty = r.IntN(points)
			}
			n, delay := r.Uint64N(1000)*r.Uint64N(2), int64(0)
			for range points {
				h.packets, h.delays = append(h.packets, n), append(h.delays, delay)
				n -= min(n, r.Uint64N(10)*r.Uint64N(2))
				delay += r.Int64N(1_000_000)
			}
			histories[fmt.Sprint(name, block)] = h
			list := h.blocks(r, name, block)
			sent += len(list)
			if block == first { // results are of blocks from the first one on
				send(x.message(list...))
			} else {
				later = append(later, list...)
			}
		}
	}
	r.Shuffle(len(later), func(i, j int) { later[i], later[j] = later[j], later[i] })
	for some := range slices.Chunk(later, 50) {
		send(x.message(append(some, some[0])...))
		sent++
	}
	c.flush(time.Now())
	c.change(c.blocks.assembler.Flush)
	losses, exact, delays := 0, 0, 0
	for _, each := range out.all() {
		switch m := each.(type) {
		case *record.Loss:
			name := fmt.Sprint(m.Flow, m.Block.Value)
			histories[name].check(t, fmt.Sprintf("%s, %d to %d", name, m.From, m.To), m)
			losses++
			if m.Verdict.Exact() {
				exact++
			}
			if m.FlowID != 7 || len(m.SIDs) != 1 || m.Source.Is4() || m.Length != uint64(blockLength) {
				t.Errorf("%+v", m)
			}
		case *record.Delay:
			h := histories[fmt.Sprint(m.Flow, m.Block.Value)]
			if want := h.delays[m.To] - h.delays[m.From]; m.Mean != want && !(m.Method == loss.MeanAtLeast && m.Mean < want) {
				t.Errorf("delay of %s in %d: %d, want %d", m.Flow, m.Block.Value, m.Mean, want)
			}
			delays++
		default:
			t.Errorf("%+v", each)
		}
	}
	want := 0
	for flow := range 30 {
		want += blocks
		if flow%14 > 0 {
			want += blocks * (1 + flow%14)
		}
	}
	if losses != want || exact < want/2 || exact == want || delays < exact {
		t.Errorf("%d losses, %d of them exact, want %d; %d delays", losses, exact, want, delays)
	}
	s := c.Stats()
	if s.Data[record.DataBlock] != uint64(sent) || s.Assembled.Readings[loss.Repeated] != uint64((len(later)+49)/50) ||
		s.Compared != (comparison{}) ||
		sum(s.Assembled.Results[:]) != 30*blocks || s.Assembled.Readings[loss.Past]+s.Assembled.Readings[loss.Contradicted] != 0 {
		t.Errorf("%d sent, %+v", sent, s)
	}
}

// A flow of which only one end reports is uncertain, and without data when that is silent,
// too; then it ends.
func TestOneEndReports(t *testing.T) {
	for point := range loss.PointID(2) {
		c, out, send := offline(t, Config{}, ipfix.UDP)
		now := time.Now()
		send(newBlockExporter(t).message(counted("red", now.UnixNano()/int64(blockLength)-1, point, 1, 5)))
		at := now.Add(c.blocks.wait + 7*blockLength)
		c.flush(at)
		c.change(func() { c.blocks.expire(at) })
		list := out.all()
		if len(list) < 5 || c.Stats().Compared.ended != 0 {
			t.Fatalf("%d records", len(list))
		}
		for i, each := range list {
			l := each.(*record.Loss)
			if want := map[bool]loss.Verdict{true: loss.Uncertain, false: loss.NoData}[i == 0]; l.Verdict != want || l.Lost.Valid {
				t.Errorf("point %d, block %d: %+v", point, i, l)
			}
		}
		c.change(func() { c.blocks.expire(at.Add(idleBlocks * blockLength)) })
		if c.flush(at.Add(time.Hour)); len(out.all()) != len(list) || c.Stats().Compared.ended != 1 ||
			len(c.blocks.flows)+len(c.blocks.byID)+c.blocks.order.Len()+c.blocks.size != 0 {
			t.Errorf("%d records, %+v", len(out.all()), c.Stats().Compared)
		}
	}
}

// Blocks of another time are counted, and so are those that contradict one another; the
// flow that was not heard of for the longest time makes room.
func TestBlocksAreBounded(t *testing.T) {
	c, out, send := offline(t, Config{}, ipfix.UDP)
	x := newBlockExporter(t)
	block := time.Now().UnixNano()/int64(blockLength) - 1
	send(x.message(counted("old", block-10, 0, 1, 5), counted("new", block+5, 0, 1, 5)))
	if s := c.Stats(); s.Compared != (comparison{past: 1, future: 1}) || len(c.blocks.flows) != 0 {
		t.Errorf("%+v", s.Compared)
	}
	send(x.message(counted("red", block, 0, 1, 5), counted("red", block, 0, 1, 6), counted("red", block, 1, 1, 5),
		counted("red", block-10, 0, 1, 5), counted("red", block+5, 0, 1, 5)))
	if s := c.Stats().Assembled; s.Readings != [loss.NumFates]uint64{loss.Taken: 2, loss.Contradicted: 1, loss.Past: 1, loss.Future: 1} {
		t.Errorf("%+v", s)
	}
	c.flush(time.Now())
	if list := out.all(); len(list) != 1 || list[0].(*record.Loss).Verdict != loss.Uncertain ||
		list[0].(*record.Loss).FromReasons != loss.Contradicting {
		t.Errorf("%+v", list)
	}
	c.blocks.room = 3 * c.blocks.size
	for i := range 10 {
		send(x.message(counted(fmt.Sprint("f", i), block, 0, 1, 5), counted("red", block, 1, 1, 5)))
	}
	names := []string{}
	for e := c.blocks.order.Front(); e != nil; e = e.Next() {
		names = append(names, e.Value.(*comparedFlow).key.name)
	}
	if s := c.Stats().Compared; !slices.Equal(names, []string{"f8", "f9", "red"}) || s.evicted != 8 || c.blocks.size > c.blocks.room ||
		len(c.blocks.byID) != 3 {
		t.Errorf("%v, %+v, %d of %d", names, s, c.blocks.size, c.blocks.room)
	}
	if list := out.all(); len(list) != 9 || list[8].(*record.Loss).Verdict != loss.Uncertain {
		t.Errorf("%d results of flows that were given up", len(list))
	}
}

// Blocks that no points can count are dropped.
func TestImpossibleBlocks(t *testing.T) {
	block := time.Now().UnixNano()/int64(blockLength) - 1
	for name, change := range map[string]func(*record.Block){
		"a point after the last":     func(b *record.Block) { b.Point = 2 },
		"one point":                  func(b *record.Block) { b.LastPoint = 0 },
		"too many points":            func(b *record.Block) { b.LastPoint = loss.MaxPoints },
		"no length":                  func(b *record.Block) { b.Length = 0 },
		"a long block":               func(b *record.Block) { b.Length = 1 << 63 },
		"a guard of half a block":    func(b *record.Block) { b.Guard = b.Length / 2 },
		"a block beyond all times":   func(b *record.Block) { b.Number = 1 << 63 },
		"a block at the end of time": func(b *record.Block) { b.Number = 1<<63/uint64(blockLength) - 1 },
	} {
		c, _, send := offline(t, Config{}, ipfix.UDP)
		b := counted("red", block, 0, 1, 5)
		change(b)
		send(newBlockExporter(t).message(b))
		if s := c.Stats(); s.Faults[record.FaultMeasurement] != 1 || s.Data[record.DataBlock] != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// The guard of the ingress decides, and flows are not mixed whose nodes disagree.
func TestFlowsOfBlocks(t *testing.T) {
	c, out, send := offline(t, Config{}, ipfix.UDP)
	block := time.Now().UnixNano()/int64(blockLength) - 1
	egress, ingress := counted("red", block, 1, 1, 5), counted("red", block, 0, 1, 5)
	ingress.Guard, ingress.ClockError = uint64(blockGuard/2), record.NewField(uint64(blockGuard/4), true)
	egress.ClockError = record.NewField(uint64(1), true)
	other, longer := counted("red", block, 0, 2, 5), counted("red", block/2, 0, 1, 5)
	longer.Length *= 2
	unnamed := counted("", block, 0, 1, 5)
	send(newBlockExporter(t).message(egress, ingress, egress, other, longer, unnamed))
	if len(c.blocks.flows) != 4 {
		t.Errorf("%d flows", len(c.blocks.flows))
	}
	c.flush(time.Now())
	// The first result is of the guard before the ingress was known.
	if list := out.all(); len(list) != 2 || list[0].(*record.Loss).FromReasons != loss.Missing ||
		list[1].(*record.Loss).FromReasons != loss.ClockWorse {
		t.Errorf("%+v", list)
	}
}
