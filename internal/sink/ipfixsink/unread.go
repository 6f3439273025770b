// SPDX-License-Identifier: Apache-2.0

package ipfixsink

// unread counts the records in the last acknowledged octets: as many octets as the
// collector's host may hold while the collector has not read them. The zero value has
// room for none.
type unread struct {
	room  uint64 // octets
	parts []part // the oldest first, each but the last with at least room/unreadParts octets
	sum   part
}

type part struct{ octets, records uint64 }

// unreadParts is how many parts the room is divided into: unread remembers no more.
const unreadParts = 64

// add notes a message that was acknowledged.
func (u *unread) add(octets, records uint64) {
	if u.room == 0 {
		return
	}
	last := len(u.parts) - 1
	if last < 0 || u.parts[last].octets >= u.room/unreadParts {
		u.parts, last = append(u.parts, part{}), last+1
	}
	u.parts[last].octets += octets
	u.parts[last].records += records
	u.sum.octets += octets
	u.sum.records += records
	n := 0
	for u.sum.octets-u.parts[n].octets >= u.room {
		u.sum.octets -= u.parts[n].octets
		u.sum.records -= u.parts[n].records
		n++
	}
	if n > 0 {
		u.parts = append(u.parts[:0], u.parts[n:]...)
	}
}
