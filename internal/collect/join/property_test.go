// SPDX-License-Identifier: Apache-2.0

package join

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// delivery is a postcard and when it arrives.
type delivery struct {
	at   time.Time
	card Postcard
}

// journey is a packet's path through a number of nodes.
func journey(sequence uint32, nodes int) []Postcard {
	path := make([]Postcard, nodes)
	for i := range path {
		role := record.Transit
		switch i {
		case 0:
			role = record.Encapsulating
		case nodes - 1:
			role = record.Decapsulating
		}
		path[i] = numbered(card(uint64(i+1), role, uint8(63-i), 10*i), sequence)
	}
	return path
}

// send returns what arrives when postcards are lost, duplicated and reordered, all
// within spread of their packet; and what arrives for each packet.
func send(r *rand.Rand, packets int, spread time.Duration) (arrivals []delivery, delivered [][]Postcard, lengths []int) {
	for n := range packets {
		path := journey(uint32(n), 2+r.IntN(5))
		sent := start.Add(time.Duration(n) * time.Millisecond)
		var got []Postcard
		for _, c := range path {
			if r.IntN(10) == 0 {
				continue
			}
			got = append(got, c)
			for range 1 + max(0, r.IntN(10)-7) {
				arrivals = append(arrivals, delivery{sent.Add(time.Duration(r.Int64N(int64(spread)))), c})
			}
		}
		delivered, lengths = append(delivered, got), append(lengths, len(path))
	}
	slices.SortStableFunc(arrivals, func(a, b delivery) int { return a.at.Compare(b.at) })
	return arrivals, delivered, lengths
}

// With any loss, duplication and reordering, every packet that any node reported has
// one path, with all of its postcards.
func TestEveryPacketOnce(t *testing.T) {
	const packets = 5000
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		arrivals, delivered, lengths := send(r, packets, time.Second)
		times := make([]int, packets)
		j := New(Config{Wait: 2 * time.Second}, func(p *Path) {
			n := p.Sequence
			times[n]++
			var nodes []uint64
			for _, c := range p.Postcards {
				nodes = append(nodes, c.Node)
			}
			var want []uint64
			for _, c := range delivered[n] {
				want = append(want, c.Node)
			}
			if !slices.Equal(nodes, want) {
				t.Errorf("seed %d, packet %d: nodes %v, want %v", seed, n, nodes, want)
			}
			if complete := len(want) == lengths[n]; complete != (p.Reason == record.PathComplete) {
				t.Errorf("seed %d, packet %d: %d of %d nodes, but %v", seed, n, len(want), lengths[n], p.Reason)
			}
		})
		for _, a := range arrivals {
			j.Add(a.card, a.at)
		}
		j.Expire(start.Add(time.Hour))
		j.Expire(start.Add(2 * time.Hour)) // forgets the paths emitted by the first
		for n, got := range times {
			if want := min(1, len(delivered[n])); got != want {
				t.Errorf("seed %d, packet %d: %d paths, want %d", seed, n, got, want)
			}
		}
		if j.Kept() != 0 || j.Waiting() != 0 || len(j.packets)+len(j.given.places)+len(j.given.pieces) != 0 {
			t.Errorf("seed %d: %d postcards of %d packets are kept when all is over", seed, j.Kept(), len(j.packets)+len(j.given.places))
		}
		checkSum(t, j, len(arrivals))
	}
}

// Memory is bounded, and every postcard is accounted for all the same.
func TestBoundedMemory(t *testing.T) {
	const keep = 300
	r := rand.New(rand.NewPCG(7, 7))
	arrivals, _, _ := send(r, 5000, time.Second)
	most := 0
	j := New(Config{Wait: 2 * time.Second, Keep: keep}, func(p *Path) {
		if len(p.Postcards) == 0 {
			t.Error("a path without a node")
		}
	})
	for _, a := range arrivals {
		j.Add(a.card, a.at)
		most = max(most, j.Kept())
		if len(j.packets) != j.pending.length || j.pending.length+len(j.given.places) > keep {
			t.Fatalf("%d packets of %d wait, %d were given", len(j.packets), j.pending.length, len(j.given.places))
		}
	}
	if most != keep {
		t.Errorf("up to %d postcards were kept, want %d", most, keep)
	}
	if j.Stats().Paths[record.PathEvicted] == 0 {
		t.Error("no path was evicted")
	}
	j.Flush()
	if j.Waiting() != 0 || j.Stats().Paths[record.PathEnded] == 0 {
		t.Errorf("when it ended %d packets waited, of %d there are paths", j.Waiting(), j.Stats().Paths[record.PathEnded])
	}
	checkSum(t, j, len(arrivals))
}

// checkSum checks that postcards are in paths, or counted by the reason why not.
func checkSum(t *testing.T, j *Joiner, added int) {
	t.Helper()
	s := j.Stats()
	if sum := s.Joined + s.Duplicates + s.Repeated + s.Late + s.TooMany; sum != uint64(added) {
		t.Errorf("%d postcards are accounted for, %d were added: %+v", sum, added, s)
	}
}

// A sender that adds ever more nodes to one packet fills only one path.
func TestNodesOfOnePacket(t *testing.T) {
	var nodes int
	j := New(Config{}, func(p *Path) { nodes = len(p.Postcards) })
	for n := range 1000 {
		j.Add(card(uint64(n+10), record.Transit, uint8(n), n), start)
	}
	j.Expire(start.Add(DefaultWait))
	if s := j.Stats(); nodes != nodeLimit || s.TooMany != 1000-nodeLimit {
		t.Errorf("%d nodes in the path, %d too many; want %d and %d", nodes, s.TooMany, nodeLimit, 1000-nodeLimit)
	}
}

// A clock that is set back neither emits paths early nor keeps them forever.
func TestTimeGoesBack(t *testing.T) {
	given := 0
	j := New(Config{Wait: time.Second}, func(*Path) { given++ })
	j.Add(numbered(athos, 1), start)
	j.Add(numbered(athos, 2), start.Add(-time.Hour))
	j.Expire(start.Add(time.Second - 1))
	if given != 0 {
		t.Errorf("%d paths before their time", given)
	}
	j.Expire(start.Add(time.Second))
	if given != 2 {
		t.Errorf("%d paths, want 2", given)
	}
}

// Paths of four nodes whose postcards come from exporters that send by turns,
// a thousand packets at a time.
func BenchmarkJoin(b *testing.B) {
	const batch, nodes = 1000, 4
	paths := make([][]Postcard, batch)
	for i := range paths {
		paths[i] = journey(uint32(i), nodes)
	}
	joined := 0
	j := New(Config{}, func(p *Path) {
		if p.Reason == record.PathComplete {
			joined++
		}
	})
	b.ReportAllocs()
	now, sequence := start, uint32(0)
	for b.Loop() {
		for n := range nodes {
			for i := range paths {
				c := paths[i][n]
				c.Sequence = sequence + uint32(i)
				j.Add(c, now)
			}
			now = now.Add(time.Millisecond)
		}
		sequence += batch
	}
	if joined == 0 || j.Waiting() != 0 {
		b.Fatalf("%d joined, %d wait", joined, j.Waiting())
	}
	b.ReportMetric(float64(joined)/b.Elapsed().Seconds(), "paths/s")
	b.ReportMetric(float64(joined*nodes)/b.Elapsed().Seconds(), "postcards/s")
}
