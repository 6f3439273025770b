// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"encoding/binary"
	"net/netip"

	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// wayBack is how a reply is sent.
type wayBack struct {
	class    uint8
	source   netip.Addr
	link     uint32 // on which the packet came
	sameLink bool
	segments []byte
	decided  bool // a Return Path was read; others are ignored (RFC 9503 §4)
}

// request is a packet whose TLVs are processed.
type request struct {
	*udp.Datagram
	sender stamp.SenderPacket
	state  *reply
	way    *wayBack
}

// verdict is what becomes of a TLV.
type verdict int

const (
	processed verdict = iota
	unrecognized
	malformed
	declined // no reply
)

// verify says what the HMAC TLV of a packet proves, and whether its TLVs may be used.
func (r *Reflector) verify(sequence uint32, tlvs []byte) (i stamp.TLVIntegrity, intact bool) {
	if r.auth != nil {
		i = r.auth.VerifyTLVs(sequence, tlvs)
		// A key for TLVs alone protects them as the authenticated mode does: otherwise an
		// attacker would only have to remove the HMAC.
		return i, stamp.Intact(i, stamp.Authenticated, tlvs)
	}
	for t, err := range stamp.TLVs(tlvs) {
		switch {
		case err != nil || r.isPadding(t, err, len(tlvs)):
			return stamp.Unprotected, true
		case t.Type() == stamp.TypeHMAC:
			// "HMAC MUST be verified before using any data in the included STAMP TLVs" (RFC
			// 8972 §4.8), and there is no key for it.
			return stamp.Failed, false
		}
	}
	return stamp.Unprotected, true
}

// isOfOtherLink reports whether TLVs are for the micro-session of another member link
// (RFC 9534 §3.2: the packet "MUST be discarded").
func (r *Reflector) isOfOtherLink(tlvs []byte) bool {
	if r.config.MicroSession == 0 {
		return false
	}
	for t, err := range stamp.TLVs(tlvs) {
		if err != nil || stamp.CheckValue(t.Type(), t.Value()) != nil || r.auth == nil && r.isPadding(t, err, len(tlvs)) {
			return false // what follows is not processed
		}
		if t.Type() == stamp.TypeMicroSession {
			m, _ := stamp.DecodeMicroSession(t.Value())
			if m.Reflector != 0 && m.Reflector != r.config.MicroSession {
				return true
			}
		}
	}
	return false
}

// answerTLVs processes the TLVs of a packet in place (RFC 8972 §4).
func (r *Reflector) answerTLVs(
	d *udp.Datagram,
	tlvs []byte,
	sender stamp.SenderPacket,
	integrity stamp.TLVIntegrity,
	state *reply,
	way *wayBack,
) Outcome {
	q := request{d, sender, state, way}
	for t, err := range stamp.TLVs(tlvs) {
		// TWAMP Light has no HMAC of STAMP (RFC 8762 §4.6), so with a key all are TLVs.
		if r.auth == nil && r.isPadding(t, err, len(tlvs)) {
			break
		}
		v := malformed
		if err == nil {
			v = r.process(&q, t)
		}
		switch v {
		case processed:
			t.SetFlags(0)
		case unrecognized:
			t.SetFlags(stamp.FlagUnrecognized)
			r.counters.notes[TLVUnknown].Add(1)
		case malformed: // "the processing of extension TLVs MUST be stopped"
			t.SetFlags(stamp.FlagMalformed)
			r.counters.notes[TLVMalformed].Add(1)
		case declined:
			return ReplyDeclined
		}
		if v == malformed {
			break
		}
	}
	if integrity == stamp.Verified {
		r.auth.SignTLVs(state.packet.Sequence, tlvs)
	}
	return Reflected
}

// isPadding reports whether what begins with a TLV is no TLV but padding, as that of
// TWAMP Light, which is copied (RFC 8762 §4.6). Type 0 is reserved (RFC 8972 §5.1), and
// padding of zeros looks like it. Random padding is recognized at its start: a STAMP
// sender sets the U flag, and no other one (RFC 8972 §4). A TLV without it is still
// processed if it can be; a malformed one with it gets the M flag.
func (r *Reflector) isPadding(t stamp.TLV, err error, length int) bool {
	if length-t.Offset >= 2 && t.Type() == 0 {
		return true
	}
	unknown := t.Type() > stamp.TypeMicroSession && r.config.Extension == nil
	useless := err != nil || unknown || stamp.CheckValue(t.Type(), t.Value()) != nil
	flags := t.Flags() & (stamp.FlagUnrecognized | stamp.FlagMalformed | stamp.FlagIntegrity)
	if t.Offset > 0 || !useless {
		return false
	}
	// The reserved flags alone prove nothing, because later RFCs may define them.
	return flags != stamp.FlagUnrecognized || err != nil && unknown && t.Flags() != flags
}

// refuse copies TLVs whose integrity failed, with the I flag (RFC 8972 §4.8).
func (r *Reflector) refuse(tlvs []byte) {
	r.counters.notes[TLVIntegrity].Add(1)
	for t, err := range stamp.TLVs(tlvs) {
		flags := stamp.FlagIntegrity
		if err != nil {
			flags |= stamp.FlagMalformed
		}
		t.SetFlags(flags)
	}
}

// process processes one TLV.
func (r *Reflector) process(q *request, t stamp.TLV) verdict {
	value := t.Value()
	if stamp.CheckValue(t.Type(), value) != nil {
		if t.Type() == stamp.TypeFollowUpTelemetry { // RFC 8972 §4.7
			clear(value[:min(len(value), 12)])
		}
		return malformed
	}
	switch t.Type() {
	case stamp.TypeExtraPadding:
		return processed
	case stamp.TypeLocation:
		return r.locate(q, value)
	case stamp.TypeTimestampInformation:
		source := stamp.SyncFreeRunning
		if r.synced() {
			source = r.config.Source
		}
		stamp.TimestampInformation{
			SourceIn:  source,
			MethodIn:  stamp.MethodSoftware,
			SourceOut: source,
			MethodOut: stamp.MethodSoftware,
		}.Append(
			value[:0],
		)
		return processed
	case stamp.TypeClassOfService:
		return r.classify(q, value)
	case stamp.TypeDirectMeasurement:
		return r.count(q, value)
	case stamp.TypeAccessReport:
		if _, err := stamp.DecodeAccessReport(value); err != nil {
			return unrecognized // "MUST be discarded": it is not used
		}
		return processed
	case stamp.TypeFollowUpTelemetry:
		return r.follow(q, value)
	case stamp.TypeHMAC: // it was verified
		return processed
	case stamp.TypeDestinationNodeAddress:
		return r.destination(q, value)
	case stamp.TypeReturnPath:
		return r.returnPath(q, value)
	case stamp.TypeMicroSession:
		return r.microSession(value)
	}
	if r.config.Extension != nil && r.config.Extension(t) {
		return processed
	}
	return unrecognized
}

// locate reports addresses and ports (RFC 8972 §4.2). A UDP socket does not know the
// source's MAC address; that sub-TLV stays 0.
func (r *Reflector) locate(q *request, value []byte) verdict {
	local := r.config.Local.Port()
	if r.server.Socket() != nil {
		local = r.server.Socket().Local().Port()
	}
	binary.BigEndian.PutUint16(value, local)
	binary.BigEndian.PutUint16(value[2:], q.Peer.Port())
	for sub, err := range stamp.TLVs(stamp.LocationSubTLVs(value)) {
		if err != nil {
			break
		}
		sub.SetFlags(0)
		switch sub.Type() {
		case stamp.SubSourceMAC:
			sub.SetType(stamp.SubSourceEUI64)
			clear(sub.Value())
		case stamp.SubDestination:
			sub.SetType(stamp.SubDestinationIPv6)
			putAddress(sub.Value(), q.Local)
		case stamp.SubSource:
			sub.SetType(stamp.SubSourceIPv6)
			putAddress(sub.Value(), q.Peer.Addr())
		default:
			sub.SetFlags(stamp.FlagUnrecognized)
		}
	}
	return processed
}

func putAddress(to []byte, a netip.Addr) {
	clear(to)
	if a.IsValid() {
		octets := a.As16()
		copy(to, octets[:])
	}
}

// classify reports DSCP and ECN, and sets the reply's DSCP if that is permitted (RFC
// 8972 §4.4, with erratum 8199).
func (r *Reflector) classify(q *request, value []byte) verdict {
	c, _ := stamp.DecodeClassOfService(value) // its length was checked
	c.Received, c.ECN, c.ReversePath = q.TrafficClass>>2, q.TrafficClass&3, 0
	if c.Wanted == c.Received || r.config.DSCPs&(1<<c.Wanted) != 0 {
		q.way.class = c.Wanted << 2
	} else {
		c.ReversePath = 1
	}
	c.Append(value[:0])
	return processed
}

// count reports the counters of the measured flow (RFC 8972 §4.5).
func (r *Reflector) count(q *request, value []byte) verdict {
	m, _ := stamp.DecodeDirectMeasurement(value)
	ok := false
	if r.config.Measured != nil {
		m.ReflectorReceived, m.ReflectorTransmitted, ok = r.config.Measured(q.Peer, q.sender.SSID)
	}
	if s := q.state.session; s != nil && !ok {
		// The reply counts, as the packet that carries the sender's counter does.
		m.ReflectorReceived, m.ReflectorTransmitted, ok = s.received, s.next+1-s.unsent, true
	}
	if !ok {
		return unrecognized
	}
	m.Append(value[:0])
	return processed
}

// follow reports when the last reply was sent. A stateless reflector does not know it
// (RFC 8972 §4.7).
func (r *Reflector) follow(q *request, value []byte) verdict {
	var f stamp.FollowUpTelemetry
	if s := q.state.session; s != nil && s.hasSent {
		f = stamp.FollowUpTelemetry{Sequence: s.followUp, Timestamp: r.clock.Timestamp(s.followed), Method: stamp.MethodSoftware}
	}
	f.Append(value[:0])
	return processed
}

// destination checks whether the packet is for this node; if so, the reply comes from
// the address (RFC 9503 §3), if it can.
func (r *Reflector) destination(q *request, value []byte) verdict {
	a, err := stamp.DecodeAddress(value)
	if err != nil || !r.local.has(a, r.now().Steady) {
		return unrecognized // "not the intended destination"
	}
	if r.isSource(a, q) {
		q.way.source = a
	}
	return processed
}

// isSource reports whether the reply to a packet can come from an address of this node:
// it must be valid where the peer is. The kernel refuses a link-local source by another
// link, and a peer elsewhere would drop replies from a loopback address.
func (r *Reflector) isSource(a netip.Addr, q *request) bool {
	if a.IsLinkLocalUnicast() {
		return a == q.Local || q.Peer.Addr().IsLinkLocalUnicast() && r.local.hasOn(q.Scope, a, r.now().Steady)
	}
	return a.Is6() && !a.Is4In6() && a.IsGlobalUnicast()
}

// microSession fills in the member link of an aggregated link (RFC 9534 §3.2); isOfOtherLink
// has checked it.
func (r *Reflector) microSession(value []byte) verdict {
	if r.config.MicroSession == 0 {
		return unrecognized
	}
	m, _ := stamp.DecodeMicroSession(value)
	m.Reflector = r.config.MicroSession
	m.Append(value[:0])
	return processed
}

// returnPath takes the path of the reply (RFC 9503 §4). The reply never goes to another
// address than the packet's source, so that no third party gets it. The U flag of each
// sub-TLV says, as that of the TLV does, whether it was used.
func (r *Reflector) returnPath(q *request, value []byte) verdict {
	if q.way.decided {
		return unrecognized // only the first one counts
	}
	q.way.decided = true
	p, _ := stamp.DecodeReturnPath(value)
	v := r.takePath(q, p)
	seen := [256]bool{}
	for sub, err := range stamp.TLVs(value) {
		if err != nil {
			break
		}
		kind := sub.Type()
		if kind == stamp.SubLabelStack {
			kind = stamp.SubSegmentList // only the first list counts, of either kind
		}
		used := v == processed && !seen[kind] && (kind == stamp.SubControlCode ||
			!p.HasControlCode && (kind == stamp.SubReturnAddress || kind == stamp.SubSegmentList))
		if seen[kind] = true; used {
			sub.SetFlags(0)
		} else {
			sub.SetFlags(stamp.FlagUnrecognized)
		}
	}
	return v
}

// takePath takes the path if the reply can and may go there.
func (r *Reflector) takePath(q *request, p stamp.ReturnPath) verdict {
	switch {
	case p.HasControlCode && p.ControlCode == stamp.ReplyNone:
		return declined
	case p.HasControlCode:
		q.way.sameLink = true
	case p.Address.IsValid() && p.Address != q.Peer.Addr():
		return unrecognized
	case p.Segments != nil && r.config.ReturnSegments && areSegments(p.Segments):
		q.way.segments = p.Segments
	case p.Segments != nil || p.Labels != nil || !p.Address.IsValid():
		return unrecognized
	}
	return processed
}

// areSegments reports whether a list of SIDs is one of a path: no packet goes to a
// group or to this node, and none passes a node twice (RFC 5095 is about that).
func areSegments(list []byte) bool {
	if len(list) > 16*udp.MaxSegments {
		return false
	}
	seen := make(map[netip.Addr]bool)
	for ; len(list) >= 16; list = list[16:] {
		sid, _ := netip.AddrFromSlice(list[:16])
		if seen[sid] || !sid.IsGlobalUnicast() || sid.Is4In6() {
			return false
		}
		seen[sid] = true
	}
	return true
}
