// SPDX-License-Identifier: Apache-2.0

package stamp

import "encoding/binary"

// Port is the UDP port at which reflectors receive by default (RFC 8762 §4.1).
const Port = 862

// HMACLen is the length of a truncated HMAC (RFC 8762 §4.4).
const HMACLen = 16

// SSID identifies a session, together with addresses and ports; 0 means that the
// sender uses none (RFC 8972 §3).
type SSID uint16

// Mode is one of the two forms of base packets. Nothing in a packet says which one
// it has; both ends are configured.
type Mode uint8

// Modes.
const (
	Unauthenticated Mode = iota // RFC 8762 §4.2.1, §4.3.1
	Authenticated               // RFC 8762 §4.2.2, §4.3.2
)

// BaseLen is the length of the base packet, the same in both directions.
func (m Mode) BaseLen() int {
	if m == Authenticated {
		return 112
	}
	return 44
}

// hmacOffset is where the HMAC of an authenticated packet is: it covers everything
// before (RFC 8762 §4.4).
const hmacOffset = 112 - HMACLen

// layout says where the fields of a mode's packets are.
type layout struct {
	timestamp, errorEstimate, ssid                                    int
	received, senderSequence, senderTimestamp, senderError, senderTTL int
}

var layouts = [...]layout{
	Unauthenticated: {4, 12, 14, 16, 24, 28, 36, 40},
	Authenticated:   {16, 24, 26, 32, 48, 64, 72, 80},
}

func (m Mode) layout() *layout { return &layouts[m&1] }

// SenderPacket is the base packet of a Session-Sender (RFC 8762 §4.2, RFC 8972 §3).
type SenderPacket struct {
	Sequence  uint32
	Timestamp Timestamp
	Error     ErrorEstimate
	SSID      SSID
}

// ReflectorPacket is the base packet of a Session-Reflector (RFC 8762 §4.3, RFC
// 8972 §3).
type ReflectorPacket struct {
	Sequence  uint32
	Timestamp Timestamp
	Error     ErrorEstimate // of Timestamp and Received
	SSID      SSID
	Received  Timestamp
	Sender    SenderPacket // as it was received, without SSID
	SenderTTL uint8        // the Hop Limit with which the sender's packet arrived
}

// DecodeSender decodes a sender's base packet. What must be zero is ignored, as is
// what follows. It does not verify the HMAC. The cause of an error is ErrTruncated.
func DecodeSender(b []byte, m Mode) (SenderPacket, error) {
	if len(b) < m.BaseLen() {
		return SenderPacket{}, fault(len(b), "RFC 8762 §4.2", ErrTruncated)
	}
	at := m.layout()
	return SenderPacket{
		Sequence:  binary.BigEndian.Uint32(b),
		Timestamp: Timestamp(binary.BigEndian.Uint64(b[at.timestamp:])),
		Error:     ErrorEstimate(binary.BigEndian.Uint16(b[at.errorEstimate:])),
		SSID:      SSID(binary.BigEndian.Uint16(b[at.ssid:])),
	}, nil
}

// Put writes the base packet to the start of b, which holds at least BaseLen
// octets; otherwise it writes nothing and returns false. The HMAC is left 0.
func (p *SenderPacket) Put(b []byte, m Mode) bool {
	if len(b) < m.BaseLen() {
		return false
	}
	b = b[:m.BaseLen()]
	clear(b)
	at := m.layout()
	binary.BigEndian.PutUint32(b, p.Sequence)
	binary.BigEndian.PutUint64(b[at.timestamp:], uint64(p.Timestamp))
	binary.BigEndian.PutUint16(b[at.errorEstimate:], uint16(p.Error))
	binary.BigEndian.PutUint16(b[at.ssid:], uint16(p.SSID))
	return true
}

// DecodeReflector decodes a reflector's base packet, as DecodeSender does a
// sender's.
func DecodeReflector(b []byte, m Mode) (ReflectorPacket, error) {
	p, err := DecodeSender(b, m)
	if err != nil {
		return ReflectorPacket{}, fault(len(b), "RFC 8762 §4.3", ErrTruncated)
	}
	at := m.layout()
	return ReflectorPacket{
		Sequence: p.Sequence, Timestamp: p.Timestamp, Error: p.Error, SSID: p.SSID,
		Received: Timestamp(binary.BigEndian.Uint64(b[at.received:])),
		Sender: SenderPacket{
			Sequence:  binary.BigEndian.Uint32(b[at.senderSequence:]),
			Timestamp: Timestamp(binary.BigEndian.Uint64(b[at.senderTimestamp:])),
			Error:     ErrorEstimate(binary.BigEndian.Uint16(b[at.senderError:])),
		},
		SenderTTL: b[at.senderTTL],
	}, nil
}

// Put writes the base packet to the start of b, as [SenderPacket.Put] does.
func (p *ReflectorPacket) Put(b []byte, m Mode) bool {
	own := SenderPacket{p.Sequence, p.Timestamp, p.Error, p.SSID}
	if !own.Put(b, m) {
		return false
	}
	at := m.layout()
	binary.BigEndian.PutUint64(b[at.received:], uint64(p.Received))
	binary.BigEndian.PutUint32(b[at.senderSequence:], p.Sender.Sequence)
	binary.BigEndian.PutUint64(b[at.senderTimestamp:], uint64(p.Sender.Timestamp))
	binary.BigEndian.PutUint16(b[at.senderError:], uint16(p.Sender.Error))
	b[at.senderTTL] = p.SenderTTL
	return true
}
