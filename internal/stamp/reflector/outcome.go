// SPDX-License-Identifier: Apache-2.0

package reflector

import "sync/atomic"

// Outcome is what became of a packet; each has exactly one.
type Outcome int

// Outcomes, in the order in which they are decided.
const (
	Reflected      Outcome = iota
	NotAllowed                    // the source is outside the allowed prefixes
	Unanswerable                  // the source has no port, or is no unicast address
	Oversized                     // longer than the buffer
	Truncated                     // shorter than the base packet
	Looped                        // a reply of another reflector
	RateLimited                   // beyond the rate
	WrongHMAC                     // of the base packet
	UnknownSession                // the SSID is not one of the configured ones
	WrongMicro                    // the micro-session is not this reflector's (RFC 9534 §3.2)
	SessionsFull                  // no room for another session
	ReplyDeclined                 // the sender wants no reply (RFC 9503 §4.1.1)
	SendFailed                    // the kernel did not send the reply
	NumOutcomes    int     = iota // the number of outcomes
)

var outcomes = [NumOutcomes]struct{ name, meaning string }{
	Reflected:      {"reflected", "Packets that were answered."},
	NotAllowed:     {"not_allowed", "Packets from outside the allowed prefixes."},
	Unanswerable:   {"unanswerable", "Packets whose source address or port cannot be replied to."},
	Oversized:      {"oversized", "Packets longer than 9000 octets."},
	Truncated:      {"truncated", "Packets shorter than the base packet, with a key also those of senders without one; a reply would be longer."},
	Looped:         {"looped", "Replies of other reflectors, which an answer would make answer again; without a key also packets of senders with one."},
	RateLimited:    {"rate_limited", "Packets beyond the rate."},
	WrongHMAC:      {"hmac_wrong", "Packets whose HMAC is wrong."},
	UnknownSession: {"ssid_unknown", "Packets with an SSID that is not one of the configured ones."},
	WrongMicro:     {"micro_session_wrong", "Packets with the micro-session identifier of another link."},
	SessionsFull:   {"sessions_full", "Packets of new sessions beyond the limit."},
	ReplyDeclined:  {"reply_declined", "Packets whose sender wants no reply."},
	SendFailed:     {"send_failed", "Replies that the kernel refused to send."},
}

// String is the outcome's name in JSON and metrics.
func (o Outcome) String() string { return outcomes[o].name }

// Meaning describes what the outcome counts.
func (o Outcome) Meaning() string { return outcomes[o].meaning }

// Note is what was wrong with a packet besides its outcome.
type Note int

// Notes.
const (
	Repeated     Note = iota // the sequence number was seen before
	OutOfOrder               // a later sequence number was seen before
	TLVMalformed             // the M flag was set
	TLVUnknown               // the U flag was set
	TLVIntegrity             // the I flag was set
	NumNotes     int  = iota // the number of notes
)

var notes = [NumNotes]struct{ name, meaning string }{
	Repeated:     {"sequence_repeated", "Packets with a sequence number that the session had before: duplicated or replayed. They are answered, and counted only with sessions."},
	OutOfOrder:   {"sequence_reordered", "Packets that came after a later one of their session. Counted only with sessions."},
	TLVMalformed: {"tlv_malformed", "Packets with a malformed TLV; the reply has the M flag."},
	TLVUnknown:   {"tlv_unrecognized", "TLVs that were not processed; the reply has the U flag."},
	TLVIntegrity: {"tlv_integrity_failed", "Packets whose TLVs have a wrong HMAC, none although there is a key, or one although there is none; the reply has the I flag."},
}

// String is the note's name in JSON and metrics.
func (n Note) String() string { return notes[n].name }

// Meaning describes what the note counts.
func (n Note) Meaning() string { return notes[n].meaning }

// counters are what a reflector counts.
type counters struct {
	outcomes [NumOutcomes]atomic.Uint64
	notes    [NumNotes]atomic.Uint64
	octets   atomic.Uint64
	sessions atomic.Int64
}

// Counts are a reflector's counters. They never go back.
type Counts struct {
	Outcomes      [NumOutcomes]uint64
	Notes         [NumNotes]uint64
	Octets        uint64 // of replies
	SocketDropped uint64 // packets for which the socket's buffer had no room
	Sessions      int64  // as of the last packet
}

// Plus is the sum of counters; sessions are those of both.
func (n Counts) Plus(m Counts) Counts {
	for i := range n.Outcomes {
		n.Outcomes[i] += m.Outcomes[i]
	}
	for i := range n.Notes {
		n.Notes[i] += m.Notes[i]
	}
	n.Octets += m.Octets
	n.SocketDropped += m.SocketDropped
	n.Sessions += m.Sessions
	return n
}

func (c *counters) counts() Counts {
	var n Counts
	for i := range c.outcomes {
		n.Outcomes[i] = c.outcomes[i].Load()
	}
	for i := range c.notes {
		n.Notes[i] = c.notes[i].Load()
	}
	n.Octets, n.Sessions = c.octets.Load(), c.sessions.Load()
	return n
}
