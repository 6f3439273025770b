// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"net/netip"

	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// Stamp asks by test packets of STAMP: a question is TLVs, and its answer the same TLVs as
// they came back, if they are intact.
type Stamp struct {
	times  *clock.Clock
	next   uint32
	ssid   stamp.SSID
	mode   stamp.Mode
	sign   *stamp.Authenticator // nil without a key
	verify *stamp.Authenticator // of the goroutine that receives
}

// NewStamp makes the protocol. Numbers begin at random, and questions of no session have a random
// SSID: an answer that was made up, or recorded before this began, has others. With a key,
// questions and answers are authenticated.
func NewStamp(key []byte) *Stamp {
	s := &Stamp{times: clock.New(stamp.NTP), next: unforeseen(), ssid: stamp.SSID(max(1, unforeseen()>>16))}
	if len(key) > 0 {
		s.mode, s.sign, s.verify = stamp.Authenticated, stamp.NewAuthenticator(key), stamp.NewAuthenticator(key)
	}
	return s
}

// Packet is a packet of a question.
func (s *Stamp) Packet(q *Question) (packet []byte, id uint64, err error) {
	now := s.times.Now()
	s.times.Look(now)
	packet, q.sent = s.packet(now.Wall, s.ssidOf(q.Session), q.Value)
	return packet, uint64(q.sent.Sequence), nil
}

// packet numbers a packet, and puts TLVs into it.
func (s *Stamp) packet(now int64, ssid stamp.SSID, tlvs []byte) ([]byte, stamp.SenderPacket) {
	s.next++
	p := stamp.SenderPacket{Sequence: s.next, Timestamp: s.times.Timestamp(now), Error: s.times.Estimate(), SSID: ssid}
	b := make([]byte, s.mode.BaseLen(), longest)
	p.Put(b, s.mode)
	b = append(b, tlvs...)
	if s.sign != nil {
		if len(tlvs) > 0 {
			b, _ = stamp.AppendTLV(b, stamp.FlagUnrecognized, stamp.TypeHMAC, make([]byte, stamp.HMACLen)) // it is not too long
			s.sign.SignTLVs(p.Sequence, b[s.mode.BaseLen():])
		}
		s.sign.Sign(b)
	}
	return b, p
}

func (s *Stamp) ssidOf(session uint16) stamp.SSID { return cmp.Or(stamp.SSID(session), s.ssid) }

// ID is the sequence number of the packet that a reply is about.
func (s *Stamp) ID(d *udp.Datagram) (uint64, bool) {
	p, err := stamp.DecodeReflector(d.Data, s.mode)
	return uint64(p.Sender.Sequence), err == nil
}

// Answer is the TLVs of a reply.
func (s *Stamp) Answer(d *udp.Datagram, q *Question) ([]byte, Outcome) {
	_, tlvs, outcome := s.open(d, q.sent)
	if outcome == Accepted && len(tlvs) == 0 {
		return nil, Empty
	}
	return tlvs, outcome
}

func (s *Stamp) clock() *clock.Clock { return s.times }

func (s *Stamp) query(p *Probe) (packet []byte, id uint64, at clock.Instant, err error) {
	tlvs := AppendReturn(nil, p.Return)
	at = s.times.Now()
	packet, p.sent = s.packet(at.Wall, s.ssidOf(p.Session), tlvs)
	return packet, uint64(p.sent.Sequence), at, nil
}

func (s *Stamp) number(d *udp.Datagram) (uint64, bool) { return s.ID(d) }

func (s *Stamp) read(d *udp.Datagram, p *Probe) (t turn, outcome Outcome) {
	r, tlvs, outcome := s.open(d, p.sent)
	if outcome != Accepted {
		return t, outcome
	}
	t.arrived, t.hasArrived = s.times.Nanoseconds(r.Received, r.Error)
	t.left, t.hasLeft = s.times.Nanoseconds(r.Timestamp, r.Error)
	t.clockError = errorOf(r.Error)
	t.diverted = len(p.Return) > 0
	for one, err := range stamp.TLVs(tlvs) {
		if err == nil && one.Type() == stamp.TypeReturnPath {
			t.diverted = t.diverted && one.Flags() != 0
		}
	}
	return t, Accepted
}

// open reads the reply to a packet, and its TLVs if they are intact.
func (s *Stamp) open(d *udp.Datagram, sent stamp.SenderPacket) (p stamp.ReflectorPacket, tlvs []byte, outcome Outcome) {
	p, err := stamp.DecodeReflector(d.Data, s.mode)
	if err != nil {
		return p, nil, Malformed
	}
	switch match := p.Match(sent); {
	case match == stamp.OtherSequence:
		return p, nil, Unexpected
	case match == stamp.OtherTimestamp:
		return p, nil, WrongTime
	case match != stamp.Matches: // without an SSID, it says nothing about the flow that it is of
		return p, nil, WrongSession
	case s.verify != nil && !s.verify.Verify(d.Data):
		return p, nil, WrongHMAC
	}
	tlvs = d.Data[s.mode.BaseLen():]
	if s.verify != nil && len(tlvs) > 0 && s.verify.VerifyTLVs(p.Sequence, tlvs) != stamp.Verified {
		return p, nil, TLVIntegrity
	}
	return p, tlvs, Accepted
}

// AppendReturn appends a Return Path TLV through SIDs, the first to visit first (RFC 9503
// §4.1.3).
func AppendReturn(tlvs []byte, sids []netip.Addr) []byte {
	if len(sids) == 0 {
		return tlvs
	}
	value, _ := stamp.AppendSegmentList(nil, sids) // 16 SIDs are not too long
	tlvs, _ = stamp.AppendTLV(tlvs, stamp.FlagUnrecognized, stamp.TypeReturnPath, value)
	return tlvs
}
