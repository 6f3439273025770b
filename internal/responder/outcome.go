// SPDX-License-Identifier: Apache-2.0

package responder

import "sync/atomic"

// Outcome is what became of a query; each has exactly one.
type Outcome int

// Outcomes, in the order in which they are decided.
const (
	Answered       Outcome = iota
	NotAllowed                    // the source is outside the allowed prefixes
	Unanswerable                  // the source has no port, or is no unicast address
	Oversized                     // longer than the buffer
	Truncated                     // shorter than a query
	Short                         // shorter than its response would be
	Looped                        // a response
	RateLimited                   // beyond the rate
	Malformed                     // it cannot be understood
	Unsupported                   // it asks for what this node cannot do
	Diverted                      // its response would go to another node
	UnknownSession                // no flow has its session
	NotYet                        // the block is not closed, or its counters are not read yet
	Gone                          // the block is long past
	Doubtful                      // the block's counters are not proven exact
	NotWanted                     // it wants no response
	SendFailed                    // the kernel did not send the response
	NumOutcomes    int     = iota // the number of outcomes
)

var outcomes = [NumOutcomes]string{
	"answered", "not_allowed", "unanswerable", "oversized", "truncated", "short", "looped", "rate_limited", "malformed", "unsupported",
	"diverted",
	"session_unknown", "not_yet", "gone", "doubtful", "not_wanted", "send_failed",
}

// String is the outcome's name in metrics.
func (o Outcome) String() string { return outcomes[o] }

// counters are what a responder counts.
type counters struct {
	outcomes [NumOutcomes]atomic.Uint64
	repeated atomic.Uint64
}

// Counts are a responder's counters. They never go back.
type Counts struct {
	Outcomes [NumOutcomes]uint64
	Repeated uint64 // queries that were received before; they are answered

	SocketDropped uint64 // queries for which the socket's buffer had no room
}

func (c *counters) counts() (n Counts) {
	for i := range c.outcomes {
		n.Outcomes[i] = c.outcomes[i].Load()
	}
	n.Repeated = c.repeated.Load()
	return n
}

// Plus is the sum of counters.
func (n Counts) Plus(m Counts) Counts {
	for i := range n.Outcomes {
		n.Outcomes[i] += m.Outcomes[i]
	}
	n.Repeated += m.Repeated
	n.SocketDropped += m.SocketDropped
	return n
}
