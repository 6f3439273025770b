// SPDX-License-Identifier: Apache-2.0

package join

import (
	"hash/maphash"
	"time"
)

// remembered is what is kept of packets whose path was emitted, to tell late postcards from those of another packet:
// first in, first out. There are many, so they are in large arrays without pointers, into which the garbage collector
// need not look.
type remembered struct {
	seed   maphash.Seed
	pieces []*piece
	oldest uint64            // number of the first entry of the first piece
	next   uint64            // number of the next entry
	places map[uint64]uint64 // numbers of entries by a hash of their key
	kept   int               // reports in memory, see forget
	spare  *piece
}

// entries is how many packets a piece has.
const entries = 1 << 10

// piece has the packets of a range of numbers.
type piece struct {
	entries *[entries]entry // apart, so that what has no pointers is known as such
	reports []report
	first   int // of the entries that are kept
}

const _ = uint8(nodeLimit) // entry.count

// entry is one packet.
type entry struct {
	key   Key
	since time.Duration // after the joiner's first moment
	first uint32        // of its reports
	count uint8         // of its reports
	over  bool          // it was forgotten
}

func newRemembered(seed maphash.Seed) remembered {
	return remembered{seed: seed, places: map[uint64]uint64{}}
}

// add remembers a packet, by the number that it returns.
func (m *remembered) add(key Key, since time.Duration, reports []report) (number uint64) {
	at := int(m.next-m.oldest) % entries
	if at == 0 {
		m.grow()
	}
	last := m.pieces[len(m.pieces)-1]
	last.entries[at] = entry{key, since, uint32(len(last.reports)), uint8(len(reports)), false}
	last.reports = append(last.reports, reports...)
	m.places[maphash.Comparable(m.seed, key)] = m.next
	m.next++
	m.kept += len(reports)
	return m.next - 1
}

// grow adds an empty piece.
func (m *remembered) grow() {
	p := m.spare
	if m.spare = nil; p == nil {
		p = &piece{entries: &[entries]entry{}}
	}
	p.reports, p.first = p.reports[:0], 0
	m.pieces = append(m.pieces, p)
}

// find is the number of the packet with a key.
func (m *remembered) find(key Key) (number uint64, ok bool) {
	number, ok = m.places[maphash.Comparable(m.seed, key)]
	return number, ok && m.entry(number).key == key
}

func (m *remembered) piece(number uint64) *piece { return m.pieces[(number-m.oldest)/entries] }
func (m *remembered) entry(number uint64) *entry {
	return &m.piece(number).entries[(number-m.oldest)%entries]
}

// reports are those of a packet. They are valid until a packet is added or forgotten.
func (m *remembered) reports(number uint64) []report {
	e := m.entry(number)
	return m.piece(number).reports[e.first:][:e.count]
}

// forget forgets a packet. Its reports count as kept until all older packets are forgotten, because they take memory until
// then.
func (m *remembered) forget(number uint64) {
	e := m.entry(number)
	e.over = true
	if hash := maphash.Comparable(m.seed, e.key); m.places[hash] == number { // a later packet may have its key, or its hash
		delete(m.places, hash)
	}
	m.trim()
}

// since is when the oldest packet was emitted; false: none is remembered.
func (m *remembered) since() (since time.Duration, ok bool) {
	if len(m.pieces) == 0 {
		return 0, false
	}
	return m.pieces[0].entries[m.pieces[0].first].since, true
}

// forgetOldest forgets the oldest packet. There must be one.
func (m *remembered) forgetOldest() { m.forget(m.oldest + uint64(m.pieces[0].first)) }

// trim removes what is in front of the oldest packet that is not forgotten.
func (m *remembered) trim() {
	for len(m.pieces) > 0 {
		p := m.pieces[0]
		for n := int(min(entries, m.next-m.oldest)); p.first < n; p.first++ {
			if !p.entries[p.first].over {
				return
			}
			m.kept -= int(p.entries[p.first].count)
		}
		if m.next-m.oldest < entries { // the others of this piece are still to come
			m.oldest, m.next = 0, 0
		} else {
			m.oldest += entries
		}
		m.pieces[0] = nil
		m.pieces = m.pieces[1:]
		if cap(p.reports) <= entries*spareRoom {
			m.spare = p
		}
	}
}
