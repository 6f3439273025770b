// SPDX-License-Identifier: Apache-2.0

package responder

import (
	"errors"
	"math"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// verdict is what a query gets: a code for its response, and how it is counted.
type verdict struct {
	code    rfc6374.ControlCode
	outcome Outcome
}

var verdicts = map[Outcome]verdict{
	Answered:       {rfc6374.Success, Answered},
	UnknownSession: {rfc6374.ConnectionMismatch, UnknownSession},
	Malformed:      {rfc6374.InvalidMessage, Malformed},
	NotYet:         {rfc6374.TemporarilyUnavailable, NotYet},
	Gone:           {rfc6374.ResourceUnavailable, Gone},
	Doubtful:       {rfc6374.DataReset, Doubtful},
}

func unsupported(code rfc6374.ControlCode) verdict { return verdict{code, Unsupported} }

// lossMessage answers a Loss Measurement query (RFC 6374 §4.2.3, §4.2.4) with running
// counters as they were at the end of the last block that was closed at its Origin Timestamp.
func (r *Responder) lossMessage(d *udp.Datagram, now clock.Instant) ([]byte, Outcome) {
	m, err := rfc6374.DecodeLoss(d.Data)
	flow, v := r.open(&m.Header, err, uint64(m.Origin), d, now)
	if v.code == 0 {
		return nil, v.outcome
	}
	m.Counters = [4]uint64{2: m.Counters[0]}
	if v.code == rfc6374.Success {
		v = r.count(&m, &flow)
	}
	m.Response, m.Control = true, v.code
	return m.Append(nil), v.outcome
}

// count writes what was received.
func (r *Responder) count(m *rfc6374.Loss, flow *Flow) verdict {
	format, ok := m.Format.Stamp()
	if !ok || m.Class {
		return unsupported(rfc6374.UnsupportedDataFormat)
	}
	at, ok := format.Nanoseconds(m.Origin, r.clock.TAIOffset())
	if !ok {
		return verdicts[Malformed]
	}
	wanted := lastClosed(at, flow.Length)
	for i := range flow.Blocks {
		b := &flow.Blocks[i]
		switch {
		case b.Number != wanted:
			continue
		case b.Doubtful || b.Reset || m.Octets && b.OctetsDoubtful:
			return verdicts[Doubtful]
		}
		if m.Counters[3] = b.RunningPackets; m.Octets {
			m.Counters[3] = b.RunningOctets
		}
		return verdicts[Answered]
	}
	switch {
	case len(flow.Blocks) == 0:
		return verdict{rfc6374.Initializing, NotYet}
	case wanted > flow.Blocks[0].Number:
		return verdicts[NotYet]
	}
	return verdicts[Gone]
}

// lastClosed is the last block whose counters are final at a time; nodes count late packets
// for half a block.
func lastClosed(at int64, length time.Duration) uint64 {
	if length <= 0 {
		return math.MaxUint64
	}
	return uint64(max((at-int64(length/2))/int64(length)-1, 0))
}

// delayMessage answers a Delay Measurement query (RFC 6374 §4.3.3).
func (r *Responder) delayMessage(d *udp.Datagram, now clock.Instant) ([]byte, Outcome) {
	m, err := rfc6374.DecodeDelay(d.Data)
	inBand := m.Control == rfc6374.InBandRequested
	_, v := r.open(&m.Header, err, uint64(m.Timestamps[0]), d, now)
	if v.code == 0 {
		return nil, v.outcome
	}
	received := now.Wall
	if d.Received != 0 {
		received = d.Received
	}
	// RFC 7876 §4.3 wants Timestamps 3 and 4 to be zero, "as specified in [RFC6374]", which
	// specifies that of 1 and 2, and has the measurement in 3 and 4.
	m.Timestamps, m.Preferred, m.Responder = [4]stamp.Timestamp{2: m.Timestamps[0]}, rfc6374.FormatPTP, m.Querier
	format, ok := m.Querier.Stamp()
	if !ok {
		m.Responder, format = rfc6374.FormatPTP, stamp.PTP
	}
	if v.code == rfc6374.Success {
		m.Timestamps[3] = format.Timestamp(received, r.clock.TAIOffset())
		if inBand {
			m.Timestamps[0] = format.Timestamp(r.clock.Now().Wall, r.clock.TAIOffset())
		}
	}
	m.Response, m.Class, m.Control = true, true, v.code
	return m.Append(nil), v.outcome
}

// open looks at what all queries begin with, and says where the response goes. Without a
// code there is no response.
func (r *Responder) open(h *rfc6374.Header, err error, number uint64, d *udp.Datagram, now clock.Instant) (Flow, verdict) {
	switch {
	case errors.Is(err, rfc6374.ErrTruncated):
		return Flow{}, verdict{outcome: Truncated}
	case h.Response:
		return Flow{}, verdict{outcome: Looped}
	case !r.limit.Allow(now.Steady):
		return Flow{}, verdict{outcome: RateLimited}
	case h.Control == rfc6374.NoneRequested:
		return Flow{}, verdict{outcome: NotWanted}
	}
	tlvs := h.TLVs
	h.TLVs = nil
	version := h.Version
	h.Version = 0
	switch {
	case version != 0:
		return Flow{}, unsupported(rfc6374.UnsupportedVersion)
	case err != nil:
		return Flow{}, verdicts[Malformed]
	case h.Control > rfc6374.NoneRequested:
		return Flow{}, unsupported(rfc6374.UnsupportedControlCode)
	}
	back, v := readTLVs(h, tlvs, d.Peer)
	if v.code != rfc6374.Success {
		return Flow{}, v
	}
	if r.config.Protocol == LossMessages || h.Control == rfc6374.InBandRequested {
		flow, ok := Flow{}, false
		if h.Session <= math.MaxUint16 {
			flow, ok = r.find(uint16(h.Session), number)
		}
		switch {
		case !ok:
			return flow, verdicts[UnknownSession]
		case h.Control == rfc6374.InBandRequested && !setReturnPath(d, &flow):
			return flow, unsupported(rfc6374.UnsupportedControlCode)
		case h.Control == rfc6374.OutOfBandRequested:
			d.Peer = back
		}
		return flow, verdicts[Answered]
	}
	d.Peer = back
	return Flow{}, verdicts[Answered]
}

// readTLVs finds the return address among the TLVs, and keeps those that the response has.
// It goes to no other node than the source of the query.
func readTLVs(h *rfc6374.Header, tlvs []byte, peer netip.AddrPort) (back netip.AddrPort, v verdict) {
	var kept []byte
	diverted := false
	for t, err := range rfc6374.All(tlvs) {
		switch {
		case err != nil:
			return back, verdicts[Malformed]
		case t.Type == rfc6374.TypePaddingCopied:
			kept = append(append(kept, byte(t.Type), byte(len(t.Value))), t.Value...)
		case t.Type.IsMandatory():
			return back, unsupported(rfc6374.UnsupportedTLV)
		case t.Type == rfc6374.TypeUDPReturn:
			to, err := rfc6374.DecodeUDPReturn(t.Value)
			switch {
			case err != nil:
				return back, verdicts[Malformed]
			case back.IsValid(): // "identical responses" to several are not sent (RFC 7876 §3)
			case to.Addr() == peer.Addr() && to.Port() != 0:
				back = to
			default:
				diverted = true
			}
		}
	}
	switch {
	case h.Control != rfc6374.OutOfBandRequested || back.IsValid():
	case diverted:
		return back, verdict{outcome: Diverted}
	default: // RFC 7876 §4
		return back, verdicts[Malformed]
	}
	h.TLVs = kept
	return back, verdicts[Answered]
}
