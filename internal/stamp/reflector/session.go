// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"time"

	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// sessionKey identifies a session: addresses, ports and SSID (RFC 8972 §3). The reflector's
// own port is always the same.
type sessionKey struct {
	peer, local [16]byte
	scope       uint32
	port        uint16
	ssid        stamp.SSID
}

// session is the state of one test session (RFC 8762 §4).
type session struct {
	last     int64  // when its last packet came, by the steady clock
	next     uint32 // the number of the next reply
	received uint32 // packets
	unsent   uint32 // replies whose numbers are before next, and that the kernel refused to send
	highest  uint32 // sequence number
	seen     uint64 // bit n: highest − n was received

	hasSent  bool
	followUp uint32 // the number of the last reply
	followed int64  // when it was sent, by the wall clock
}

// sessions are the sessions of a stateful reflector, bounded in number.
type sessions struct {
	limit   int
	timeout int64
	byKey   map[sessionKey]*session
	bySite  map[site]int // how many each has
	swept   int64
}

// site is a prefix of 64 bits, of which all addresses may be one sender's.
type site [8]byte

func (k *sessionKey) site() site { return site(k.peer[:8]) }

// siteShare is the part of all sessions that one site may have, so that no sender can
// take the place of all others.
const siteShare = 4

func newSessions(limit int, timeout time.Duration) sessions {
	return sessions{limit: limit, timeout: int64(timeout), byKey: make(map[sessionKey]*session), bySite: make(map[site]int)}
}

// sweep ends idle sessions, unless it did within a period. It looks at all of them, so
// it must not run for each packet. Its time, as that of all sessions, is the steady
// clock's: no step of the wall clock ends a session.
func (s *sessions) sweep(now, period int64) {
	if now-s.swept < period {
		return
	}
	s.swept = now
	for k, one := range s.byKey {
		if now-one.last >= s.timeout {
			delete(s.byKey, k)
			if s.bySite[k.site()]--; s.bySite[k.site()] == 0 {
				delete(s.bySite, k.site())
			}
		}
	}
}

// isFull reports whether there is no room for another session of a site.
func (s *sessions) isFull(of site) bool {
	return len(s.byKey) >= s.limit || s.bySite[of] >= max(s.limit/siteShare, 1)
}

// session finds or begins the session of a packet, and counts the packet in it; nil
// when there is no room for another one.
func (r *Reflector) session(d *udp.Datagram, p stamp.SenderPacket, now int64) *session {
	r.sessions.sweep(now, r.sessions.timeout/4)
	k := sessionKey{d.Peer.Addr().As16(), d.Local.As16(), d.Scope, d.Peer.Port(), p.SSID}
	s := r.sessions.byKey[k]
	if s == nil {
		if r.sessions.isFull(k.site()) {
			if r.sessions.sweep(now, int64(time.Second)); r.sessions.isFull(k.site()) {
				return nil
			}
		}
		r.sessions.bySite[k.site()]++
		s = &session{highest: p.Sequence, seen: 1}
		r.sessions.byKey[k] = s
	} else {
		r.observe(s, p.Sequence)
	}
	r.counters.sessions.Store(int64(len(r.sessions.byKey)))
	s.last = now
	s.received++
	return s
}

// observe notes a sequence number that repeats, or that is out of order. Both are
// answered: the sender counts them, too.
func (r *Reflector) observe(s *session, sequence uint32) {
	switch ahead := int32(sequence - s.highest); {
	case ahead >= 64:
		s.highest, s.seen = sequence, 1
	case ahead > 0:
		s.highest, s.seen = sequence, s.seen<<ahead|1
	case ahead > -64 && s.seen&(1<<-ahead) != 0:
		r.counters.notes[Repeated].Add(1)
	default:
		r.counters.notes[OutOfOrder].Add(1)
		if ahead > -64 {
			s.seen |= 1 << -ahead
		}
	}
}
