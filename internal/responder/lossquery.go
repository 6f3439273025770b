// SPDX-License-Identifier: Apache-2.0

package responder

import (
	"github.com/waymark-net/waymark/internal/lossquery"
	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/udp"
)

// lossQuery answers a loss query. What cannot be answered with exact counters has a response
// without them, so that zeros are not mistaken for a measurement.
func (r *Responder) lossQuery(d *udp.Datagram, now clock.Instant) ([]byte, Outcome) {
	q, err := lossquery.DecodeQuery(d.Data)
	switch {
	case err != nil:
		return nil, Truncated
	case len(d.Data) < lossquery.ResponseLen && !r.config.Short:
		return nil, Short // with a forged source, it would amplify
	case lossquery.IsResponse(d.Data):
		return nil, Looped
	case !r.limit.Allow(now.Steady):
		return nil, RateLimited
	}
	session := d.Peer.Port()
	response := lossquery.Response{Sender: q, Control: lossquery.Failure, SenderTTL: d.HopLimit}
	response.Transmitted = lossquery.Count{Extended: q.Transmitted.Extended, Octets: q.Transmitted.Octets, Block: q.Transmitted.Block}
	outcome := r.fillResponse(&response, session, d)
	if outcome == Answered {
		response.Control = lossquery.Success
		response.Sequence = r.numbers[session]
		r.numbers[session]++
	}
	return response.Append(nil), outcome
}

func (r *Responder) fillResponse(response *lossquery.Response, session uint16, d *udp.Datagram) Outcome {
	q := &response.Sender
	flow, ok := r.find(session, uint64(q.Sequence))
	switch {
	case !ok:
		return UnknownSession
	case q.Control > lossquery.InBand || q.Control == lossquery.InBand && !setReturnPath(d, &flow):
		return Unsupported
	}
	block, outcome := named(flow.Blocks, q.Transmitted.Block)
	switch {
	case outcome != Answered:
		return outcome
	case block.Doubtful || q.Transmitted.Octets && block.OctetsDoubtful:
		return Doubtful
	}
	if response.Received = block.Packets; q.Transmitted.Octets {
		response.Received = block.Octets
	}
	return Answered
}

// named finds the block that an octet names: its number modulo 256, or, from senders that know
// only two colours, 0 or 1. A colour can only mean the latest block: the block before has the other
// colour, and the next one is not read yet.
func named(blocks []Block, name uint8) (*Block, Outcome) {
	if len(blocks) == 0 {
		return nil, NotYet
	}
	for i := range blocks {
		if uint8(blocks[i].Number) == name {
			return &blocks[i], Answered
		}
	}
	latest := &blocks[0]
	switch {
	case name == uint8(latest.Number&1):
		return latest, Answered
	case name <= 1 || int8(name-uint8(latest.Number)) > 0:
		return nil, NotYet
	}
	return nil, Gone
}
