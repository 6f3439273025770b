// SPDX-License-Identifier: Apache-2.0

package sender

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/stamp/measure"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// refusal is why a datagram is no reply, or only a part of it is used.
type refusal int

const (
	otherSource  refusal = iota // it is not from the reflector
	truncated                   // shorter than a base packet
	wrongHMAC                   // of the base packet
	otherTime                   // it does not repeat the time at which its packet was sent
	otherSSID                   // of another session
	withoutSSID                 // 0 instead of ours: it counts, and the reflector does not know RFC 8972
	wrongMicro                  // it came over another member link
	tlvMalformed                // the M flag, or a TLV that is cut
	tlvIntegrity                // the I flag, or a wrong HMAC of TLVs
	tlvMissing                  // a TLV of the packet is not in its reply; the times count
	numRefusals  int     = iota
)

var refusalNames = [numRefusals]string{
	"other_source",
	"truncated",
	"hmac_wrong",
	"timestamp_other",
	"ssid_other",
	"ssid_missing",
	"micro_session_wrong",
	"tlv_malformed",
	"tlv_integrity_failed",
	"tlv_missing",
}

// replyFacts is what the replies say besides times.
type replyFacts struct {
	refused  [numRefusals]uint64
	estimate stamp.ErrorEstimate // of the reflector
	any      bool
	hopsTo   uint8 // hop limit at the reflector
	hopsFrom uint8 // hop limit here
	class    uint8 // of the reply
	answers  Answers
	micro    uint16 // the reflector's member link, once it is known

	errors    map[string]uint64 // ICMPv6 errors about packets, by name
	lastError udp.Refusal
}

func (h *replyFacts) refuse(why refusal) { h.refused[why]++ }

// reply counts a datagram; steady is when it came, by the steady clock. The caller holds
// s.mu.
func (s *Sender) reply(d *udp.Datagram, steady int64) {
	if !s.fromReflector(d.Peer) {
		s.replyFacts.refuse(otherSource)
		return
	}
	p, err := stamp.DecodeReflector(d.Data, s.mode)
	switch {
	case err != nil:
		s.replyFacts.refuse(truncated)
		return
	case s.mode == stamp.Authenticated && !s.verify.Verify(d.Data):
		s.replyFacts.refuse(wrongHMAC)
		return
	case !s.isOurs(&p):
		return
	}
	answers, ok := s.readTLVs(d, p)
	if !ok {
		s.replyFacts.refuse(wrongMicro)
		return
	}
	r := measure.Reply{Sequence: p.Sender.Sequence, Reflected: p.Sequence, Received: d.Received, Steady: steady}
	var arrived, returned bool
	r.Arrived, arrived = s.clock.Nanoseconds(p.Received, p.Error)
	r.Returned, returned = s.clock.Nanoseconds(p.Timestamp, p.Error)
	r.Timed = arrived && returned
	if s.session.Receive(&r) != measure.Answered {
		return
	}
	h := &s.replyFacts
	h.any, h.estimate, h.hopsTo, h.hopsFrom, h.class = true, p.Error, p.SenderTTL, d.HopLimit, d.TrafficClass
	h.answers = answers
}

// isOurs reports whether a reply repeats what a packet of ours had. Nothing else in it is
// looked at before.
func (s *Sender) isOurs(p *stamp.ReflectorPacket) bool {
	sent := stamp.SenderPacket{Sequence: p.Sender.Sequence, SSID: s.config.SSID}
	at, ok := s.session.Packet(sent.Sequence)
	if sent.Timestamp = stamp.Timestamp(at); !ok {
		s.session.Foreign()
		return false
	}
	switch p.Match(sent) {
	case stamp.Matches:
		return true
	case stamp.NoSSID:
		s.replyFacts.refuse(withoutSSID)
		return true
	case stamp.OtherTimestamp:
		s.replyFacts.refuse(otherTime)
	default: // the number is the one that was looked up
		s.replyFacts.refuse(otherSSID)
	}
	return false
}

// fromReflector reports whether a reply has the source that it must have: the address
// that packets are sent to, or the node address that they are for (RFC 9503 §3).
func (s *Sender) fromReflector(peer netip.AddrPort) bool {
	return peer.Port() == s.config.Remote.Port() &&
		(peer.Addr() == s.config.Remote.Addr() || peer.Addr() == s.config.TLVs.DestinationNode)
}

// Answers are the answers to TLVs of the last reply; null is what was not asked, or
// not answered.
type Answers struct {
	Location        *LocationAnswer       `json:"location"`
	Timestamps      *TimestampAnswer      `json:"timestamp_information"`
	ClassOfService  *ClassOfServiceAnswer `json:"class_of_service"`
	Direct          *DirectAnswer         `json:"direct_measurement"`
	AccessReport    *AccessAnswer         `json:"access_report"`
	FollowUp        *FollowUpAnswer       `json:"follow_up_telemetry"`
	MicroSession    *MicroAnswer          `json:"micro_session"`
	DestinationNode *bool                 `json:"destination_node"` // the reflector has the address
	ReturnPath      *bool                 `json:"return_path"`      // the reflector used it
	Unrecognized    []string              `json:"unrecognized"`     // TLVs that the reflector did not process
}

// LocationAnswer is what the reflector saw of a packet.
type LocationAnswer struct {
	Source          *netip.Addr `json:"source"`
	Destination     *netip.Addr `json:"destination"`
	SourcePort      uint16      `json:"source_port"`
	DestinationPort uint16      `json:"destination_port"`
}

// TimestampAnswer is where the reflector's timestamps come from.
type TimestampAnswer struct {
	SourceIn  string `json:"source_in"`
	MethodIn  string `json:"method_in"`
	SourceOut string `json:"source_out"`
	MethodOut string `json:"method_out"`
}

// ClassOfServiceAnswer is the class with which packets arrived, at both ends.
type ClassOfServiceAnswer struct {
	Forward     uint8 `json:"forward_dscp"`
	ForwardECN  uint8 `json:"forward_ecn"`
	Backward    uint8 `json:"backward_dscp"`
	BackwardECN uint8 `json:"backward_ecn"`
	Permitted   bool  `json:"permitted"` // the reflector used the DSCP that was wanted
}

// DirectAnswer are the counters of the measured flow.
type DirectAnswer struct {
	SenderTransmitted    uint32 `json:"sender_transmitted"`
	ReflectorReceived    uint32 `json:"reflector_received"`
	ReflectorTransmitted uint32 `json:"reflector_transmitted"`
}

// AccessAnswer is the report that the reflector confirms.
type AccessAnswer struct {
	AccessID   uint8 `json:"access_id"`
	ReturnCode uint8 `json:"return_code"`
}

// FollowUpAnswer is when an earlier reply was sent.
type FollowUpAnswer struct {
	Sequence uint32 `json:"sequence"`
	Time     *int64 `json:"time_ns"` // UTC since 1970
	Method   string `json:"method"`
}

// MicroAnswer are the member links.
type MicroAnswer struct {
	Sender    uint16 `json:"sender"`
	Reflector uint16 `json:"reflector"`
}

// readTLVs reads the TLVs of a reply (RFC 8972 §4); false when the reply must be
// discarded.
func (s *Sender) readTLVs(d *udp.Datagram, p stamp.ReflectorPacket) (Answers, bool) {
	var a Answers
	tlvs := d.Data[s.mode.BaseLen():]
	if len(tlvs) == 0 {
		if s.asked != 0 {
			s.replyFacts.refuse(tlvMissing)
		}
		return a, true
	}
	// A key for TLVs alone protects them as the authenticated mode does.
	if s.verify != nil && !stamp.Intact(s.verify.VerifyTLVs(p.Sequence, tlvs), stamp.Authenticated, tlvs) {
		s.replyFacts.refuse(tlvIntegrity)
		return a, true
	}
	for t := range stamp.TLVs(tlvs) {
		if t.Flags()&stamp.FlagIntegrity != 0 { // "MUST discard all TLVs"
			s.replyFacts.refuse(tlvIntegrity)
			return Answers{}, true
		}
	}
	missing := s.asked
	for t, err := range stamp.TLVs(tlvs) {
		missing &^= typeBit(t.Type())
		switch {
		case err != nil || t.Flags()&stamp.FlagMalformed != 0: // "MUST stop processing the remainder"
			s.replyFacts.refuse(tlvMalformed)
			return a, true
		case t.Flags()&stamp.FlagUnrecognized != 0:
			a.Unrecognized = append(a.Unrecognized, t.Type().String())
			a.denied(t.Type())
		case !s.answer(&a, d, p, t):
			return a, false
		}
	}
	if missing != 0 {
		s.replyFacts.refuse(tlvMissing)
	}
	return a, true
}

// typeBit is a type in a set of those that a packet can have.
func typeBit(t stamp.Type) uint16 { return 1 << min(t, 15) }

// denied notes the TLVs to which the U flag is an answer (RFC 9503 §3, §4).
func (a *Answers) denied(t stamp.Type) {
	no := false
	switch t {
	case stamp.TypeDestinationNodeAddress:
		a.DestinationNode = &no
	case stamp.TypeReturnPath:
		a.ReturnPath = &no
	}
}

// answer reads a TLV; false when the reply came over the wrong link.
func (s *Sender) answer(a *Answers, d *udp.Datagram, p stamp.ReflectorPacket, t stamp.TLV) bool {
	value, yes := t.Value(), true
	if stamp.CheckValue(t.Type(), value) != nil {
		s.replyFacts.refuse(tlvMalformed)
		return true
	}
	switch t.Type() {
	case stamp.TypeLocation:
		if l, err := stamp.DecodeLocation(value); err == nil {
			a.Location = &LocationAnswer{
				Source:          valid(l.Source),
				Destination:     valid(l.Destination),
				SourcePort:      l.SourcePort,
				DestinationPort: l.DestinationPort,
			}
		}
	case stamp.TypeTimestampInformation:
		i, _ := stamp.DecodeTimestampInformation(value) // lengths were checked
		a.Timestamps = &TimestampAnswer{i.SourceIn.String(), i.MethodIn.String(), i.SourceOut.String(), i.MethodOut.String()}
	case stamp.TypeClassOfService:
		c, _ := stamp.DecodeClassOfService(value)
		a.ClassOfService = &ClassOfServiceAnswer{c.Received, c.ECN, d.TrafficClass >> 2, d.TrafficClass & 3, c.ReversePath == 0}
	case stamp.TypeDirectMeasurement:
		m, _ := stamp.DecodeDirectMeasurement(value)
		a.Direct = &DirectAnswer{m.SenderTransmitted, m.ReflectorReceived, m.ReflectorTransmitted}
	case stamp.TypeAccessReport:
		if r, err := stamp.DecodeAccessReport(value); err == nil {
			a.AccessReport = &AccessAnswer{r.AccessID, r.ReturnCode}
		}
	case stamp.TypeFollowUpTelemetry:
		a.FollowUp = s.followUp(value, p)
	case stamp.TypeDestinationNodeAddress:
		a.DestinationNode = &yes
	case stamp.TypeReturnPath:
		a.ReturnPath = &yes
	case stamp.TypeMicroSession:
		m, _ := stamp.DecodeMicroSession(value)
		a.MicroSession = &MicroAnswer{m.Sender, m.Reflector}
		return s.rightLink(m)
	}
	return true
}

// followUp reads when an earlier reply was sent; nil when the reflector does not know.
func (s *Sender) followUp(value []byte, p stamp.ReflectorPacket) *FollowUpAnswer {
	f, _ := stamp.DecodeFollowUpTelemetry(value)
	if f.Timestamp == 0 {
		return nil
	}
	answer := &FollowUpAnswer{Sequence: f.Sequence, Method: f.Method.String()}
	if ns, ok := s.clock.Nanoseconds(f.Timestamp, p.Error); ok {
		answer.Time = &ns
	}
	return answer
}

// rightLink checks the member links of a reply (RFC 9534 §3.2). The reflector's is
// learnt from the first reply if it is not configured.
func (s *Sender) rightLink(m stamp.MicroSession) bool {
	want := s.config.TLVs.MicroSession
	if want == nil {
		return true
	}
	expected := want.Reflector
	if expected == 0 {
		expected = s.replyFacts.micro
	}
	if m.Sender != want.Sender || expected != 0 && m.Reflector != expected {
		return false
	}
	s.replyFacts.micro = m.Reflector
	return true
}

// valid is the address, or nil when there is none.
func valid(a netip.Addr) *netip.Addr {
	if !a.IsValid() {
		return nil
	}
	return &a
}
