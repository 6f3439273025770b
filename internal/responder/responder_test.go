// SPDX-License-Identifier: Apache-2.0

package responder

import (
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lossquery"
	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

const (
	session = 1206
	newest  = 0x12a // 0x2a in a message's octet
	length  = time.Second
)

var (
	peer   = netip.MustParseAddrPort("[2001:db8::1]:1206")
	way    = netip.MustParseAddr("fc00:2::e")
	closed = Flow{Length: length, Blocks: []Block{
		{Number: newest, Packets: 10, Octets: 1000, RunningPackets: 1<<32 + 25, RunningOctets: 2500},
		{Number: newest - 1, Packets: 15, Octets: 1500, RunningPackets: 1<<32 + 15, RunningOctets: 1500},
	}}
)

// answers gives a responder of one flow.
func answers(p Protocol, flow Flow) *Responder {
	return New(
		Config{
			Protocol: p,
			Allowed:  []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")},
			Flow:     func(s uint16) (Flow, bool) { return flow, s == session },
		},
	)
}

func datagram(b []byte) *udp.Datagram {
	return &udp.Datagram{Data: b, Peer: peer, Local: netip.MustParseAddr("2001:db8::2"), HopLimit: 61}
}

// with is the flow after a change of its newest block.
func with(change func(*Block)) Flow {
	f := closed
	f.Blocks = append([]Block{}, f.Blocks...)
	change(&f.Blocks[0])
	return f
}

// Each cause by itself: what the response says, and how it is counted.
func TestLossQueries(t *testing.T) {
	for _, tt := range []struct {
		name   string
		flow   Flow
		change func(*lossquery.Query, *udp.Datagram)
		want   Outcome
		count  uint64
	}{
		{"the newest block", closed, nil, Answered, 10},
		{"the block before", closed, func(q *lossquery.Query, _ *udp.Datagram) { q.Transmitted.Block-- }, Answered, 15},
		{"octets", closed, func(q *lossquery.Query, _ *udp.Datagram) { q.Transmitted.Octets = true }, Answered, 1000},
		{"its colour", closed, func(q *lossquery.Query, _ *udp.Datagram) { q.Transmitted.Block = 0 }, Answered, 10},
		{"the other colour", closed, func(q *lossquery.Query, _ *udp.Datagram) { q.Transmitted.Block = 1 }, NotYet, 0},
		{"the next block", closed, func(q *lossquery.Query, _ *udp.Datagram) { q.Transmitted.Block++ }, NotYet, 0},
		{"no block yet", Flow{}, nil, NotYet, 0},
		{"a block of the past", closed, func(q *lossquery.Query, _ *udp.Datagram) { q.Transmitted.Block -= 2 }, Gone, 0},
		{"a block of the far past", closed, func(q *lossquery.Query, _ *udp.Datagram) { q.Transmitted.Block -= 100 }, Gone, 0},
		{"another session", closed, func(_ *lossquery.Query, d *udp.Datagram) { d.Peer = netip.AddrPortFrom(peer.Addr(), 1207) }, UnknownSession, 0},
		{"doubtful", with(func(b *Block) { b.Doubtful = true }), nil, Doubtful, 0},
		{"doubtful octets", with(func(b *Block) { b.OctetsDoubtful = true }), func(q *lossquery.Query, _ *udp.Datagram) { q.Transmitted.Octets = true }, Doubtful, 0},
		{"packets, of which octets are doubtful", with(func(b *Block) { b.OctetsDoubtful, b.Reset = true, true }), nil, Answered, 10},
		{"in-band", closed, func(q *lossquery.Query, _ *udp.Datagram) { q.Control = lossquery.InBand }, Unsupported, 0},
		{"another control code", closed, func(q *lossquery.Query, _ *udp.Datagram) { q.Control = 9 }, Unsupported, 0},
	} {
		r := answers(LossQueries, tt.flow)
		q := lossquery.Query{Sequence: 7, Transmitted: lossquery.Count{Value: 20, Extended: true, Block: newest & 0xff}}
		d := datagram(nil)
		if tt.change != nil {
			tt.change(&q, d)
		}
		d.Data = q.Append(nil)
		b, outcome := r.answer(d, r.clock.Now())
		got, err := lossquery.DecodeResponse(b)
		if outcome != tt.want || err != nil || len(b) > len(d.Data) || got.Received != tt.count ||
			(got.Control == lossquery.Success) != (outcome == Answered) {
			t.Errorf("%s: %v, %+v, %v", tt.name, outcome, got, err)
		}
		if q.Control = 0; got.Sender != q || got.SenderTTL != 61 || got.Transmitted.Value != 0 {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if _, again := answers(LossQueries, closed).answer(datagram(b), r.clock.Now()); again != Looped {
			t.Errorf("%s: the response is answered: %v", tt.name, again)
		}
	}
	back := closed
	back.Return = []netip.Addr{way}
	r, d := answers(
		LossQueries,
		back,
	), datagram(
		lossquery.Query{Transmitted: lossquery.Count{Block: newest & 0xff}, Control: lossquery.InBand}.Append(nil),
	)
	if _, outcome := r.answer(d, r.clock.Now()); outcome != Answered || string(d.Segments) != string(way.AsSlice()) {
		t.Errorf("in-band: %v, through %x", outcome, d.Segments)
	}
}

// What has no response.
func TestSilence(t *testing.T) {
	query := lossquery.Query{Transmitted: lossquery.Count{Block: newest & 0xff}}.Append(nil)
	for name, tt := range map[string]struct {
		change func(*udp.Datagram)
		want   Outcome
	}{
		"a foreign source":  {func(d *udp.Datagram) { d.Peer = netip.MustParseAddrPort("[2001:db9::1]:1206") }, NotAllowed},
		"no port":           {func(d *udp.Datagram) { d.Peer = netip.AddrPortFrom(peer.Addr(), 0) }, Unanswerable},
		"to a group":        {func(d *udp.Datagram) { d.Local = netip.MustParseAddr("ff02::1") }, Unanswerable},
		"cut by the socket": {func(d *udp.Datagram) { d.Cut = true }, Oversized},
		"too short":         {func(d *udp.Datagram) { d.Data = d.Data[:lossquery.QueryLen-1] }, Truncated},
		"empty":             {func(d *udp.Datagram) { d.Data = nil }, Truncated},
		"not padded":        {func(d *udp.Datagram) { d.Data = d.Data[:lossquery.QueryLen] }, Short},
		"padded too little": {func(d *udp.Datagram) { d.Data = d.Data[:lossquery.ResponseLen-1] }, Short},
	} {
		r, d := answers(LossQueries, closed), datagram(query)
		tt.change(d)
		if b, outcome := r.answer(d, r.clock.Now()); b != nil || outcome != tt.want {
			t.Errorf("%s: %v, %x", name, outcome, b)
		}
	}
	short := answers(LossQueries, closed)
	short.config.Short = true
	if b, outcome := short.answer(datagram(query[:lossquery.QueryLen]), short.clock.Now()); len(b) != lossquery.ResponseLen ||
		outcome != Answered {
		t.Errorf("a short query where they are answered: %v, %x", outcome, b)
	}
	r := answers(LossQueries, closed)
	r.limit.Rate = 10
	now := r.clock.Now()
	for i, want := range []Outcome{Answered, RateLimited} {
		if _, outcome := r.answer(datagram(query), now); outcome != want {
			t.Errorf("query %d at a time: %v, want %v", i, outcome, want)
		}
	}
	if n := r.Counts().Repeated; n != 0 {
		t.Errorf("%d repeated", n)
	}
	now.Steady += int64(time.Second)
	if r.answer(datagram(query), now); r.Counts().Repeated != 1 {
		t.Errorf("a query that comes twice is not counted: %+v", r.Counts())
	}
}

// lossMessage is a query about the newest block.
func lossMessage() rfc6374.Loss {
	at := time.Unix(newest+1, 0).Add(length * 3 / 4).UnixNano()
	return rfc6374.Loss{
		Header: rfc6374.Header{
			Control: rfc6374.OutOfBandRequested,
			Session: session,
			TLVs:    rfc6374.AppendUDPReturn(nil, netip.AddrPortFrom(peer.Addr(), 40000)),
		},
		Extended: true, Format: rfc6374.FormatNTP, Origin: stamp.NTP.Timestamp(at, 0), Counters: [4]uint64{100},
	}
}

// lossCase is a change of a query about the newest block, and what becomes of it.
type lossCase struct {
	name   string
	flow   Flow
	change func(*rfc6374.Loss)
	want   Outcome
	code   rfc6374.ControlCode // 0: no response
	count  uint64
}

func lossCases() []lossCase {
	shift := func(d time.Duration) func(*rfc6374.Loss) {
		return func(m *rfc6374.Loss) {
			ns, _ := stamp.NTP.Nanoseconds(m.Origin, 0)
			m.Origin = stamp.NTP.Timestamp(ns+int64(d), 0)
		}
	}
	tlv := func(b ...byte) func(*rfc6374.Loss) {
		return func(m *rfc6374.Loss) { m.TLVs = append(m.TLVs, b...) }
	}
	return []lossCase{
		{"the newest block", closed, nil, Answered, rfc6374.Success, 1<<32 + 25},
		{"a little earlier", closed, shift(-length / 5), Answered, rfc6374.Success, 1<<32 + 25},
		{"the block before", closed, shift(-length), Answered, rfc6374.Success, 1<<32 + 15},
		{"counters of 32 bits", closed, func(m *rfc6374.Loss) { m.Extended = false }, Answered, rfc6374.Success, 25},
		{"octets", closed, func(m *rfc6374.Loss) { m.Octets = true }, Answered, rfc6374.Success, 2500},
		{"PTP", closed, func(m *rfc6374.Loss) {
			ns, _ := stamp.NTP.Nanoseconds(m.Origin, 0)
			m.Format, m.Origin = rfc6374.FormatPTP, stamp.PTP.Timestamp(ns, answers(0, closed).clock.TAIOffset())
		}, Answered, rfc6374.Success, 1<<32 + 25},
		{"the next block", closed, shift(length), NotYet, rfc6374.TemporarilyUnavailable, 0},
		{"no block yet", Flow{Length: length}, nil, NotYet, rfc6374.Initializing, 0},
		{"a block of the past", closed, shift(-2 * length), Gone, rfc6374.ResourceUnavailable, 0},
		{"a block of the far past", closed, func(m *rfc6374.Loss) { m.Origin = 1 }, NotYet, rfc6374.TemporarilyUnavailable, 0}, // of NTP's next era
		{"a time that is not known", closed, func(m *rfc6374.Loss) { m.Origin = 0 }, Malformed, rfc6374.InvalidMessage, 0},
		{"the year 1970", closed, func(m *rfc6374.Loss) { m.Origin = stamp.NTP.Timestamp(0, 0) }, Gone, rfc6374.ResourceUnavailable, 0},
		{"doubtful", with(func(b *Block) { b.Doubtful = true }), nil, Doubtful, rfc6374.DataReset, 0},
		{"counters that begin", with(func(b *Block) { b.Reset = true }), nil, Doubtful, rfc6374.DataReset, 0},
		{"another session", closed, func(m *rfc6374.Loss) { m.Session++ }, UnknownSession, rfc6374.ConnectionMismatch, 0},
		{"a session of 26 bits", closed, func(m *rfc6374.Loss) { m.Session += 1 << 16 }, UnknownSession, rfc6374.ConnectionMismatch, 0},
		{"another version", closed, func(m *rfc6374.Loss) { m.Version = 1 }, Unsupported, rfc6374.UnsupportedVersion, 0},
		{"another control code", closed, func(m *rfc6374.Loss) { m.Control = 3 }, Unsupported, rfc6374.UnsupportedControlCode, 0},
		{"in-band without a way", closed, func(m *rfc6374.Loss) { m.Control = rfc6374.InBandRequested }, Unsupported, rfc6374.UnsupportedControlCode, 0},
		{"a sequence number as time", closed, func(m *rfc6374.Loss) { m.Format = rfc6374.FormatSequence }, Unsupported, rfc6374.UnsupportedDataFormat, 0},
		{"of a traffic class", closed, func(m *rfc6374.Loss) { m.Class = true }, Unsupported, rfc6374.UnsupportedDataFormat, 0},
		{"a PTP fraction", closed, func(m *rfc6374.Loss) { m.Format, m.Origin = rfc6374.FormatPTP, 0xffffffff }, Malformed, rfc6374.InvalidMessage, 0},
		{"a mandatory TLV", closed, tlv(126, 0), Unsupported, rfc6374.UnsupportedTLV, 0},
		{"an optional TLV", closed, tlv(200, 1, 0), Answered, rfc6374.Success, 1<<32 + 25},
		{"padding", closed, tlv(0, 2, 7, 8, 128, 1, 9), Answered, rfc6374.Success, 1<<32 + 25},
		{"a TLV beyond the message", closed, tlv(0, 2, 7), Malformed, rfc6374.InvalidMessage, 0},
		{"no return address", closed, func(m *rfc6374.Loss) { m.TLVs = nil }, Malformed, rfc6374.InvalidMessage, 0},
		{"a return address of 7 octets", closed, func(m *rfc6374.Loss) { m.TLVs = append([]byte{131, 7}, make([]byte, 7)...) }, Malformed, rfc6374.InvalidMessage, 0},
		{"another node's address", closed, func(m *rfc6374.Loss) {
			m.TLVs = rfc6374.AppendUDPReturn(nil, netip.MustParseAddrPort("[2001:db8::77]:40000"))
		}, Diverted, 0, 0},
		{"no response", closed, func(m *rfc6374.Loss) { m.Control = rfc6374.NoneRequested }, NotWanted, 0, 0},
		{"a response", closed, func(m *rfc6374.Loss) { m.Response = true }, Looped, 0, 0},
	}
}

func TestLossMessages(t *testing.T) {
	for _, tt := range lossCases() {
		r, q := answers(LossMessages, tt.flow), lossMessage()
		if tt.change != nil {
			tt.change(&q)
		}
		d := datagram(q.Append(nil))
		b, outcome := r.answer(d, r.clock.Now())
		if outcome != tt.want || (b == nil) != (tt.code == 0) || len(b) > len(d.Data) {
			t.Errorf("%s: %v, %d octets to %d", tt.name, outcome, len(b), len(d.Data))
			continue
		}
		if b == nil {
			continue
		}
		got, err := rfc6374.DecodeLoss(b)
		if err != nil || !got.Response || got.Version != 0 || got.Control != tt.code || got.Session != q.Session || got.Origin != q.Origin ||
			got.Format != q.Format ||
			got.Counters != [4]uint64{0, 0, 100, tt.count} ||
			got.Octets != q.Octets ||
			got.Extended != q.Extended {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
		if tt.code == rfc6374.Success && d.Peer.Port() != 40000 {
			t.Errorf("%s: the response goes to %v", tt.name, d.Peer)
		}
		if tt.name == "padding" && string(got.TLVs) != "\x00\x02\x07\x08" {
			t.Errorf("padding came back as %x", got.TLVs)
		}
	}
}

// A message whose length is wrong is answered as far as it can be.
func TestLengthsOfMessages(t *testing.T) {
	r := answers(LossMessages, closed)
	for name, length := range map[string]int{"beyond": 200, "too short": 10} {
		m := lossMessage()
		b := m.Append(nil)
		b[2], b[3] = 0, byte(length)
		reply, outcome := r.answer(datagram(b), r.clock.Now())
		if got, err := rfc6374.DecodeLoss(reply); outcome != Malformed || err != nil || got.Control != rfc6374.InvalidMessage ||
			len(reply) > len(b) {
			t.Errorf("a length that is %s: %v, %+v, %v", name, outcome, got, err)
		}
	}
}

func TestDelayMessages(t *testing.T) {
	back := closed
	back.Return = []netip.Addr{way}
	for _, tt := range []struct {
		name    string
		flow    Flow
		control rfc6374.ControlCode
		format  rfc6374.TimestampFormat
		want    Outcome
		written rfc6374.TimestampFormat
	}{
		{"out-of-band", closed, rfc6374.OutOfBandRequested, rfc6374.FormatNTP, Answered, rfc6374.FormatNTP},
		{"PTP", closed, rfc6374.OutOfBandRequested, rfc6374.FormatPTP, Answered, rfc6374.FormatPTP},
		{"no clock", closed, rfc6374.OutOfBandRequested, rfc6374.FormatSequence, Answered, rfc6374.FormatPTP},
		{"in-band", back, rfc6374.InBandRequested, rfc6374.FormatNTP, Answered, rfc6374.FormatNTP},
		{"in-band without a way", closed, rfc6374.InBandRequested, rfc6374.FormatNTP, Unsupported, rfc6374.FormatNTP},
	} {
		r := answers(DelayMessages, tt.flow)
		now := r.clock.Now()
		q := rfc6374.Delay{
			Header:     rfc6374.Header{Class: true, Control: tt.control, Session: session},
			Querier:    tt.format,
			Timestamps: [4]stamp.Timestamp{77},
		}
		if tt.control == rfc6374.OutOfBandRequested {
			q.TLVs = rfc6374.AppendUDPReturn(nil, peer)
		}
		d := datagram(q.Append(nil))
		d.Received = now.Wall - 1000
		b, outcome := r.answer(d, now)
		got, err := rfc6374.DecodeDelay(b)
		if err != nil || outcome != tt.want || !got.Response || !got.Class || got.Querier != tt.format || got.Responder != tt.written ||
			got.Preferred != rfc6374.FormatPTP ||
			got.Timestamps[2] != 77 ||
			got.Timestamps[1] != 0 {
			t.Errorf("%s: %v, %+v, %v", tt.name, outcome, got, err)
			continue
		}
		if outcome != Answered {
			if got.Timestamps[3] != 0 {
				t.Errorf("%s: %+v", tt.name, got)
			}
			continue
		}
		format, _ := got.Responder.Stamp()
		if ns, ok := format.Nanoseconds(got.Timestamps[3], r.clock.TAIOffset()); !ok || ns != d.Received {
			t.Errorf("%s: received at %d, want %d", tt.name, ns, d.Received)
		}
		if inBand := tt.control == rfc6374.InBandRequested; inBand != (got.Timestamps[0] != 0) || inBand != (len(d.Segments) > 0) {
			t.Errorf("%s: %+v, through %x", tt.name, got, d.Segments)
		}
	}
}

// Only the SIDs that this node has for a flow make a response longer on the wire: none for
// sessions that it does not know, and flows without a way.
func TestSegmentsAreOwn(t *testing.T) {
	back := closed
	back.Return = []netip.Addr{way}
	for _, tt := range []struct {
		name    string
		flow    Flow
		session rfc6374.SessionID
		want    string
	}{
		{"a flow with a way", back, session, string(way.AsSlice())},
		{"a flow without a way", closed, session, ""},
		{"another session", back, session + 1, ""},
	} {
		loss := lossMessage()
		loss.Control, loss.Session, loss.TLVs = rfc6374.InBandRequested, tt.session, nil
		delay := rfc6374.Delay{Header: rfc6374.Header{Class: true, Session: tt.session}, Querier: rfc6374.FormatNTP}
		for protocol, query := range map[Protocol][]byte{LossMessages: loss.Append(nil), DelayMessages: delay.Append(nil)} {
			r, d := answers(protocol, tt.flow), datagram(query)
			b, outcome := r.answer(d, r.clock.Now())
			if string(d.Segments) != tt.want || (outcome == Answered) != (tt.want != "") || len(b) > len(query) {
				t.Errorf("%s, protocol %d: %v, %d octets to %d, through %x", tt.name, protocol, outcome, len(b), len(query), d.Segments)
			}
		}
	}
}

// FuzzAnswer checks that no datagram makes a responder fail, and that no response is longer
// than its datagram, but those to queries that are not padded.
func FuzzAnswer(f *testing.F) {
	m := lossMessage()
	f.Add(m.Append(nil))
	f.Add(lossquery.Query{Transmitted: lossquery.Count{Block: newest & 0xff}}.Append(nil))
	f.Add((&rfc6374.Delay{Header: rfc6374.Header{Session: session}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range []Protocol{LossQueries, LossMessages, DelayMessages} {
			r, d := answers(p, closed), datagram(append([]byte{}, b...))
			reply, outcome := r.answer(d, r.clock.Now())
			if most := max(len(b), lossquery.ResponseLen); len(reply) > most || p != LossQueries && len(reply) > len(b) {
				t.Errorf("protocol %d: %d octets to %d", p, len(reply), len(b))
			}
			if d.Peer.Addr() != peer.Addr() {
				t.Errorf("the response goes to %v", d.Peer)
			}
			if reply == nil {
				continue
			}
			if _, again := answers(p, closed).answer(datagram(reply), r.clock.Now()); again != Looped {
				t.Errorf("the response to a query that was %v is %v", outcome, again)
			}
		}
	})
}
