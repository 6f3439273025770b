// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
)

// sentMessage is a message of a node, and when it comes.
type sentMessage struct {
	node   int
	at     time.Duration
	octets []byte
}

// reporting says until when a node has reported its postcards.
func reporting(domain uint64, since, until time.Time) fields {
	return fields{
		num(
			"observationDomainId",
			domain,
		), num("ioamNamespaceId", 123), {"ioamReportedSinceNanoseconds", since}, {"ioamReportedUntilNanoseconds", until},
		{"ioamCountedUntilNanoseconds", until}, {"ioamServedSinceNanoseconds", since},
		num(
			"ioamPostcardSamplingInterval",
			1,
		), num("ioamSuppressedRecordTotalCount", 0), num("ioamLostRecordTotalCount", 0), num("notSentFlowTotalCount", 0),
	}
}

// randomMessages are those of three nodes about packets of which some are lost on their way: some postcards do not
// come, come twice, or long after others; templates change; nodes tell their names again, and until when they reported.
func randomMessages(t *testing.T, r *rand.Rand) []sentMessage {
	type event struct {
		node  int
		at    time.Duration
		scope int
		list  []fields // nil: the node begins anew, with other templates
	}
	var events []event
	add := func(node int, at time.Duration, scope int, list ...fields) {
		events = append(events, event{node, at, scope, list})
	}
	const rounds, span = 250, 40 * time.Millisecond
	for round := range rounds {
		at := time.Duration(round) * span
		for node := range 3 {
			if r.IntN(200) == 0 {
				add(node, at, 0)
			}
			var cards []fields
			for n := range 8 {
				sequence := uint64(round*8 + n)
				if lost := (sequence * 2654435761) % 1000; lost < 60 && node > int(lost)/30 || r.IntN(100) == 0 {
					continue
				}
				card := packet(sequence)[node].with(
					num("ioamDexFlowId", 1+sequence%5),
					field{"observationTimeNanoseconds", start.Add(at).Add(time.Duration(node) * time.Millisecond)},
				)
				if round/60%2 == 1 {
					card = card.without("flowLabelIPv6")
				}
				if r.IntN(300) == 0 {
					card = card.with(num("ioamNodeRole", 9)) // impossible
				}
				late := r.IntN(50) == 0
				if late {
					add(node, at+time.Duration(r.IntN(4000))*time.Millisecond, 0, card)
				}
				if !late || r.IntN(2) == 0 { // else it does not come in time
					cards = append(cards, card)
				}
			}
			if add(node, at+time.Duration(r.IntN(10))*time.Millisecond, 0, cards...); round%7 == node {
				add(
					node,
					at+20*time.Millisecond,
					1,
					fields{num("observationDomainId", uint64(node+1)), {"observationDomainName", []string{"athos", "porthos", "aramis"}[node]}},
				)
				add(node, at+25*time.Millisecond, 2, reporting(uint64(node+1), start, start.Add(at)))
			}
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	var exporters [3]*exporter
	var messages []sentMessage
	for _, e := range events {
		if exporters[e.node] == nil || e.list == nil {
			exporters[e.node] = newExporter(t, ipfix.UDP, uint32(e.node+1))
		}
		if e.list == nil {
			continue
		}
		m := sentMessage{e.node, e.at, exporters[e.node].message(start.Add(e.at), e.scope, e.list...)}
		for range 1 + max(0, r.IntN(200)-198) {
			messages = append(messages, m)
		}
	}
	return messages
}

// joinedBy is what a collector with a number of shards makes of messages, which it takes in batches.
func joinedBy(t *testing.T, shards int, batches *rand.Rand, messages []sentMessage) (*memory, Stats) {
	t.Helper()
	out := &memory{}
	c, err := New(Config{Shards: shards, Enterprise: enterprise, Sinks: []sink.Sink{out}, Join: join.Config{Wait: 500 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	var sessions [3]*ipfix.Session
	for i := range sessions {
		sessions[i] = session(t, c, uint16(i+1))
	}
	for len(messages) > 0 {
		n := min(1+batches.IntN(mostJoined), len(messages))
		for _, m := range messages[:n] {
			a := c.decode(sessions[m.node], join.Exporter{Addr: netip.IPv6Loopback()}, m.octets)
			a.at = start.Add(m.at)
			c.arrivals <- a
		}
		if c.join(<-c.arrivals, c.arrivals); len(c.arrivals) > 0 {
			t.Fatal("a part of the batch was left")
		}
		messages = messages[n:]
	}
	c.finishAll()
	return out, c.Stats()
}

// Several shards make the same of messages as one, in the same order, however the messages are taken together.
func TestShards(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 28))
		messages := randomMessages(t, r)
		one, stats := joinedBy(t, 1, r, messages)
		want := one.lines(t)
		fates := map[record.PathVerdict]int{}
		for _, e := range one.all() {
			if p, ok := e.(*record.Path); ok {
				fates[p.Verdict]++
			}
		}
		s := &stats.Join
		if fates[record.PathLost] == 0 || fates[record.PathUnknown] == 0 || fates[record.PathArrived] == 0 || s.Duplicates == 0 || s.Late == 0 ||
			stats.Faults[record.FaultRole] == 0 {
			t.Errorf("seed %d: the messages show too little: %v, %+v", seed, fates, stats)
		}
		for _, n := range []int{2, 3, 8} {
			out, other := joinedBy(t, n, r, messages)
			got := out.lines(t)
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Fatalf("seed %d, %d shards: record %d is\n%s\nwant\n%s", seed, n, i, got[i], want[i])
				}
			}
			if len(got) != len(want) || !reflect.DeepEqual(stats, other) {
				a, _ := json.Marshal(stats)
				b, _ := json.Marshal(other)
				t.Errorf("seed %d, %d shards: %d records, want %d;\n%s\nwant\n%s", seed, n, len(got), len(want), b, a)
			}
		}
	}
}

// The shards together keep as many postcards as one joiner would, and packets of one flow are spread over them.
func TestShardsAreBounded(t *testing.T) {
	t.Parallel()
	const keep = 103
	s := newShards(4, join.Config{Keep: keep})
	random := rand.New(rand.NewPCG(1, 1))
	for n := range 5000 {
		s.add(
			join.Postcard{Key: join.Key{Namespace: 1, FlowID: 7, Sequence: uint32(n)}, Role: record.Transit, Record: &record.Postcard{}},
			start,
			0,
		)
		if random.IntN(100) == 0 {
			s.work()
		}
	}
	s.work()
	if s.countKept() != keep {
		t.Errorf("%d postcards are kept, want %d", s.countKept(), keep)
	}
	for i, one := range s.all {
		if n := one.joiner.Stats().Paths[record.PathEvicted]; n < 5000/4/2 {
			t.Errorf("shard %d gave up %d packets of one flow: they are not spread", i, n)
		}
	}
	if sum := s.stats(); sum.Paths[record.PathEvicted] != 5000-keep || s.waiting() != keep {
		t.Errorf("%+v, %d wait", sum, s.waiting())
	}
	if n := len(newShards(8, join.Config{Keep: 3}).all); n != 3 {
		t.Errorf("%d shards for 3 postcards", n)
	}
}
