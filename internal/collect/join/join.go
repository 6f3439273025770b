// SPDX-License-Identifier: Apache-2.0

// Package join joins postcards, which nodes export for packets with a Direct Export
// option (RFC 9326), into the paths of the packets.
//
// A path is complete, and emitted at once, when both ends and every hop limit between
// them have reported. Otherwise it is emitted when its wait is over, with the reason
// why it is incomplete; later while the caller knows that exporters are behind. The caller
// supplies the time.
package join

import (
	"hash/maphash"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// Defaults of a Config.
const (
	DefaultWait = 2 * time.Second
	DefaultKeep = 1 << 17
)

// nodeLimit is how many postcards one packet may have: a domain has fewer hops, but a
// packet in a loop has more.
const nodeLimit = 64

// remember is for how many waiting times an emitted packet is kept, to distinguish late
// postcards from those of another packet.
const remember = 5

// Config configures a Joiner. Zero fields mean defaults.
type Config struct {
	Wait time.Duration // from a packet's first postcard until its path is emitted
	Hold time.Duration // the same while exporters are behind; not more than Wait: no difference
	Keep int           // postcards in memory, of packets that wait or are remembered
}

// Stats counts postcards and packets by result. Every postcard was joined, is waiting,
// or is counted under the reason why it is in no path.
type Stats struct {
	Joined     uint64                        // postcards in emitted paths
	Duplicates uint64                        // postcards that came twice
	Repeated   uint64                        // postcards that a node had sent of the same packet already: it arrived twice, or was segmented
	Late       uint64                        // postcards that came after their path
	TooMany    uint64                        // postcards beyond the limit of one path
	Paths      [record.NumPathReasons]uint64 // emitted, by reason
	SharedIDs  uint64                        // paths with one node id from two exporters
}

// Add adds the counters of another joiner.
func (s *Stats) Add(of Stats) {
	s.Joined, s.Duplicates, s.Repeated = s.Joined+of.Joined, s.Duplicates+of.Duplicates, s.Repeated+of.Repeated
	s.Late, s.TooMany, s.SharedIDs = s.Late+of.Late, s.TooMany+of.TooMany, s.SharedIDs+of.SharedIDs
	for reason, n := range of.Paths {
		s.Paths[reason] += n
	}
}

// Joiner joins postcards. It is for one goroutine.
type Joiner struct {
	wait    time.Duration
	hold    time.Duration
	behind  bool
	keep    int
	emit    func(*Path)
	stats   Stats
	first   time.Time // that the caller supplied
	now     time.Time // the latest time that the caller supplied
	packets map[Key]*packet
	pending list       // packets by arrival of the first postcard
	waiting int        // postcards of them
	given   remembered // emitted packets
	spare   []*packet
	seed    maphash.Seed
}

// New makes a joiner that passes paths to emit, which must keep neither the path nor
// its slices.
func New(c Config, emit func(*Path)) *Joiner {
	if c.Wait <= 0 {
		c.Wait = DefaultWait
	}
	if c.Keep <= 0 {
		c.Keep = DefaultKeep
	}
	seed := maphash.MakeSeed()
	return &Joiner{
		wait: c.Wait, hold: max(c.Hold, c.Wait), keep: c.Keep, emit: emit, packets: map[Key]*packet{}, given: newRemembered(seed), seed: seed,
	}
}

// Stats is what happened so far.
func (j *Joiner) Stats() Stats { return j.stats }

// Waiting is how many packets wait for postcards.
func (j *Joiner) Waiting() int { return j.pending.length }

// Kept is how many postcards are in memory, of packets that wait or are remembered.
func (j *Joiner) Kept() int { return j.waiting + j.given.kept }

// SetBehind says whether exporters are behind: postcards may come that are older than the wait.
func (j *Joiner) SetBehind(behind bool) { j.behind = behind }

// Add takes a postcard that arrived now.
func (j *Joiner) Add(card Postcard, now time.Time) {
	j.Expire(now)
	p, r := j.packets[card.Key], reportOf(&card, j.seed)
	if p != nil {
		switch fit := fitOf(p.reports, &r, j.wait); {
		case fit == nextPacket:
			j.given.forget(j.emitPath(p, record.PathSequenceReused))
			p = nil
		case fit != another:
			j.count(fit)
			return
		case len(p.cards) == nodeLimit:
			j.stats.TooMany++
			return
		}
	} else if number, ok := j.given.find(card.Key); ok {
		if fit := fitOf(j.given.reports(number), &r, j.wait); fit != nextPacket {
			j.count(fit)
			return
		}
		j.given.forget(number)
	}
	if p == nil {
		p = j.begin(card.Key)
		p.order = card.Order
	}
	p.add(&card, r)
	j.waiting++
	if p.complete() {
		j.emitPath(p, record.PathComplete)
	}
	j.bound()
}

// count counts a postcard that is in no path.
func (j *Joiner) count(f fit) {
	switch f {
	case duplicate:
		j.stats.Duplicates++
	case repeated:
		j.stats.Repeated++
	default:
		j.stats.Late++
	}
}

// Expire emits the paths whose wait is over. It must be called regularly.
func (j *Joiner) Expire(now time.Time) {
	if now.Before(j.now) {
		now = j.now // so that the lists stay in order
	}
	if j.now = now; j.first.IsZero() {
		j.first = now
	}
	wait := j.wait
	if j.behind {
		wait = j.hold
	}
	for p := j.pending.first; p != nil && now.Sub(p.since) >= wait; p = j.pending.first {
		j.emitPath(p, p.reason())
	}
	until := now.Sub(j.first) - max(wait, remember*j.wait)
	for since, ok := j.given.since(); ok && since <= until; since, ok = j.given.since() {
		j.given.forgetOldest()
	}
}

// Flush emits all waiting paths, for the end of the collector.
func (j *Joiner) Flush() {
	for j.pending.first != nil {
		j.emitPath(j.pending.first, record.PathEnded)
	}
}

// bound forgets the oldest packets until the limit of kept postcards is met, beginning
// with emitted ones.
func (j *Joiner) bound() {
	for j.Kept() > j.keep {
		if p := j.pending.first; len(j.given.pieces) == 0 {
			reason := record.PathEvicted
			if j.now.Sub(p.since) >= j.wait { // it waited longer only because exporters are behind
				reason = p.reason()
			}
			j.emitPath(p, reason)
		}
		j.given.forgetOldest()
	}
}

func (j *Joiner) begin(key Key) *packet {
	var p *packet
	if n := len(j.spare); n > 0 {
		p, j.spare = j.spare[n-1], j.spare[:n-1]
	} else {
		p = &packet{cards: make([]Postcard, 0, firstRoom), reports: make([]report, 0, firstRoom)}
	}
	p.key, p.since = key, j.now
	j.packets[key] = p
	j.pending.push(p)
	return p
}

// emitPath emits the path of a packet and remembers the packet, by a number.
func (j *Joiner) emitPath(p *packet, reason record.PathReason) (number uint64) {
	j.pending.remove(p)
	delete(j.packets, p.key)
	j.waiting -= len(p.cards)
	sortPath(p.cards, p.allHopLimits)
	path := Path{Key: p.key, Order: p.order, Postcards: p.cards, Reason: reason, SharedID: p.sharedID()}
	if reason != record.PathComplete {
		path.Missing = p.missing()
	}
	j.stats.Paths[reason]++
	j.stats.Joined += uint64(len(p.cards))
	if path.SharedID {
		j.stats.SharedIDs++
	}
	j.emit(&path)
	number = j.given.add(p.key, j.now.Sub(j.first), p.reports)
	if len(j.spare) < spares && cap(p.cards) <= spareRoom {
		clear(p.cards)
		*p = packet{cards: p.cards[:0], reports: p.reports[:0]}
		j.spare = append(j.spare, p)
	}
	return number
}

// spares is how many packets are kept for reuse, if they have room for at most spareRoom postcards.
const (
	spares    = 1024
	spareRoom = 16
)

// sharedID reports whether two exporters sent the same node id.
func (p *packet) sharedID() bool {
	for i := range p.cards {
		for k := range i {
			a, b := &p.cards[i], &p.cards[k]
			if a.Node == b.Node && a.Node != NoNode && a.Exporter.Addr != b.Exporter.Addr && a.Exporter.Addr != (netip.Addr{}) {
				return true
			}
		}
	}
	return false
}
