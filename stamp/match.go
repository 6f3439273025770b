// SPDX-License-Identifier: Apache-2.0

package stamp

// Match says whether a reply repeats what its packet had. Senders compare all of it, because
// an address, a port and a number can be guessed, and an old reply with a right HMAC can be sent
// again.
type Match uint8

// Matches, in the order in which they are decided.
const (
	// Matches: it repeats everything.
	Matches Match = iota
	// OtherSequence: it is about another packet.
	OtherSequence
	// OtherTimestamp: the number is right, and the time at which the packet was sent is not,
	// as it was in the packet, bit for bit (RFC 8762 §4.3.1).
	OtherTimestamp
	// OtherSSID: it is of another session (RFC 8972 §3).
	OtherSSID
	// NoSSID: everything is right, but it has no SSID although the packet had one: the
	// reflector does not know RFC 8972, or copies nothing that must be zero.
	NoSSID
)

// Match compares a reply with a packet as it was sent.
func (p *ReflectorPacket) Match(sent SenderPacket) Match {
	switch {
	case p.Sender.Sequence != sent.Sequence:
		return OtherSequence
	case p.Sender.Timestamp != sent.Timestamp:
		return OtherTimestamp
	case p.SSID == sent.SSID:
		return Matches
	case p.SSID == 0:
		return NoSSID
	}
	return OtherSSID
}
