// SPDX-License-Identifier: Apache-2.0

package query

import "sync/atomic"

// Outcome is what became of a datagram that arrived where replies do; each has exactly one.
type Outcome int

// Outcomes, in the order in which they are decided.
const (
	Accepted     Outcome = iota
	Malformed            // cut short, or no reply
	Unexpected           // nothing with its number waits for a reply: it came twice, or late, or is made up
	Foreign              // it came from another address or port than was asked
	WrongTime            // it does not repeat the time at which its packet was sent: it is made up, or of an earlier agent
	WrongSession         // it is of another session, or about another block
	WrongHMAC            // of the base packet
	TLVIntegrity         // the TLVs have no HMAC, or a wrong one
	Refused              // the other node says that it does not measure
	Empty                // it has no TLV, and so no answer

	NumOutcomes int = iota // the number of outcomes
)

var outcomes = [NumOutcomes]string{
	"accepted",
	"malformed",
	"unexpected",
	"foreign",
	"timestamp_wrong",
	"session_wrong",
	"hmac_wrong",
	"tlv_integrity_failed",
	"refused",
	"empty",
}

// String is the outcome's name in metrics.
func (o Outcome) String() string { return outcomes[o] }

// Cause is why a question or a test packet was not sent.
type Cause int

// Causes.
const (
	NoSource   Cause = iota // the kernel has no address to send it from, so an answer would find no way back
	NoPath                  // there is no way through the flow's segments
	SendFailed              // the kernel refused to send it

	NumCauses int = iota // the number of causes
)

var causes = [NumCauses]string{"no_source", "no_path", "send_failed"}

// String is the cause's name in metrics.
func (c Cause) String() string { return causes[c] }

// Counters count what was not sent by cause, and replies by outcome. Several clients may share
// them, one after the other or at the same time. The zero value is ready.
type Counters struct {
	outcomes [NumOutcomes]atomic.Uint64
	unsent   [NumCauses]atomic.Uint64
}

func (c *Counters) add(o Outcome) { c.outcomes[o].Add(1) }

// NotSent counts what was not sent.
func (c *Counters) NotSent(why Cause) { c.unsent[why].Add(1) }

// Unsent are the numbers of what was not sent by cause. They never go back.
func (c *Counters) Unsent() (n [NumCauses]uint64) {
	for i := range c.unsent {
		n[i] = c.unsent[i].Load()
	}
	return n
}

// Counts are the numbers of replies by outcome. They never go back.
func (c *Counters) Counts() (n [NumOutcomes]uint64) {
	for i := range c.outcomes {
		n[i] = c.outcomes[i].Load()
	}
	return n
}
