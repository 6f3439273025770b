// SPDX-License-Identifier: Apache-2.0

package query

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/inband"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// Delay Measurement queries are as RFC 6374 §4.3.1 says: two probes of the same flow have
// different times.
func TestDelayMessages(t *testing.T) {
	source := netip.MustParseAddr("2001:db8::1")
	m := NewDelayMessages(func(netip.Addr) (netip.Addr, error) { return source, nil }, 5)
	m.setPort(4000)
	last := uint64(0)
	for range 1000 {
		before := time.Now().UnixNano()
		b, id, at, failed := m.query(&Probe{Peer: netip.MustParseAddrPort("[2001:db8::2]:6375"), Session: 9, Class: 0xb8})
		q, err := rfc6374.DecodeDelay(b)
		if failed != nil || err != nil || uint64(q.Timestamps[0]) != id || id <= last || q.Response || !q.Class || q.DS != 46 ||
			q.Session != 9 || q.Version != 0 ||
			q.Control != rfc6374.OutOfBandRequested || q.Querier != rfc6374.FormatNTP || q.Responder != 0 || q.Preferred != 0 ||
			[3]stamp.Timestamp(q.Timestamps[1:]) != [3]stamp.Timestamp{} {
			t.Fatalf("%+v, number %d after %d, %v", q, id, last, err)
		}
		if ns, ok := stamp.NTP.Nanoseconds(q.Timestamps[0], 0); !ok || ns < before-1000 || ns > time.Now().UnixNano()+1000 ||
			at.Wall-ns > 1000 || ns-at.Wall > 1000 {
			t.Fatalf("sent at %d, says %d", at.Wall, ns)
		}
		last = id
		for tlv, err := range rfc6374.All(q.TLVs) {
			if to, bad := rfc6374.DecodeUDPReturn(tlv.Value); err != nil || bad != nil || to != netip.AddrPortFrom(source, 4000) {
				t.Fatalf("response to %v, %v, %v", to, err, bad)
			}
		}
	}
	b, _, _, failed := m.query(&Probe{Return: []netip.Addr{source}})
	if q, err := rfc6374.DecodeDelay(b); failed != nil || err != nil || q.Control != rfc6374.InBandRequested || len(q.TLVs) != 0 {
		t.Errorf("in-band: %+v, %v", q, err)
	}
}

// own is the address itself.
func own(a netip.Addr) (netip.Addr, error) { return a, nil }

// Without a source, there is nowhere for a response to go: nothing is sent, and that is
// counted.
func TestNoSource(t *testing.T) {
	none := func(netip.Addr) (netip.Addr, error) { return netip.Addr{}, errors.New("network is unreachable") }
	silent := newNode(t, func(int, []byte) [][]byte { return nil })
	counters := new(Counters)
	p, err := OpenProber(NewDelayMessages(none, 5), counters, func(Sample) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if n := p.Send([]Probe{{Peer: silent.at()}, {Peer: silent.at()}}); n != 0 || len(p.waiting) != 0 {
		t.Errorf("%d probes were sent, %d wait", n, len(p.waiting))
	}
	c, err := Open(NewLossMessages(none), 0, counters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	message := rfc6374.Loss{Header: rfc6374.Header{Control: rfc6374.OutOfBandRequested}}
	ask(c, patience/2, &Question{Peer: silent.at(), Value: message.Append(nil)})
	if got, want := counters.Unsent(), [NumCauses]uint64{NoSource: 3}; got != want || silent.heard() != 0 {
		t.Errorf("not sent: %v, want %v; heard %d", got, want, silent.heard())
	}
	message.Control = rfc6374.InBandRequested // the way back begins at the other end
	ask(c, patience/2, &Question{Peer: silent.at(), Value: message.Append(nil)})
	if n := p.Send([]Probe{{Peer: silent.at(), Return: []netip.Addr{silent.at().Addr()}}}); n != 1 {
		t.Errorf("%d probes with a way back were sent", n)
	}
	for deadline := time.Now().Add(enough()); silent.heard() < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d packets with a way back arrived", silent.heard())
		}
	}
}

// What the kernel does not send is counted, and so is what has no way through segments.
func TestNotSent(t *testing.T) {
	p, _ := openProber(t)
	nowhere := netip.MustParseAddrPort("[ff0e::1]:0") // port 0
	if n := p.Send([]Probe{{Peer: nowhere}}); n != 0 {
		t.Errorf("%d probes were sent", n)
	}
	if got, want := p.counters.Unsent(), [NumCauses]uint64{SendFailed: 1}; got != want {
		t.Errorf("not sent: %v, want %v", got, want)
	}
	if n := p.Send([]Probe{{Peer: nowhere, Path: &inband.Path{}}}); n != 0 { // as root, a path without segments; else no socket
		t.Errorf("%d probes were sent through segments", n)
	}
	if got := p.counters.Unsent(); got[NoPath]+got[SendFailed] != 2 {
		t.Errorf("not sent: %v", got)
	}
}

// Responses measure what they say, and are counted by what is wrong with them.
func TestDelayResponses(t *testing.T) {
	peer := netip.MustParseAddrPort("[2001:db8::7]:6375")
	m := NewDelayMessages(own, int64(time.Millisecond))
	p := &Prober{protocol: m, waiting: make(map[uint64]*sent), numbers: make(map[int]int)}
	const ago, oneWay, held = 40 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond
	for _, tt := range []struct {
		name     string
		change   func(*rfc6374.Delay)
		from     netip.AddrPort
		want     Outcome
		one, two bool
		invalid  string // why it ends the measurement as an invalid response
	}{
		{"in-band", func(*rfc6374.Delay) {}, peer, Accepted, true, true, ""},
		{"out-of-band", func(r *rfc6374.Delay) { r.Timestamps[0] = 0 }, peer, Accepted, true, false, ""},
		{"without times", func(r *rfc6374.Delay) { r.Timestamps[0], r.Timestamps[3] = 0, 0 }, peer, Accepted, false, false, ""},
		{"times of no clock", func(r *rfc6374.Delay) { r.Responder, r.Preferred = rfc6374.FormatSequence, rfc6374.FormatSequence }, peer, Accepted, false, false, ""},
		{"left before it came", func(r *rfc6374.Delay) { r.Timestamps[0] = r.Timestamps[3] - 1<<32 }, peer, Accepted, false, false, ""},
		{"an error", func(r *rfc6374.Delay) { r.Control = rfc6374.ConnectionMismatch }, peer, Refused, false, false, ""},
		{"an error, and the query as it was", func(r *rfc6374.Delay) {
			r.Control, r.Timestamps = rfc6374.UnsupportedVersion, [4]stamp.Timestamp{0: r.Timestamps[2]}
		}, peer, Refused, false, false, ""},
		{"not now", func(r *rfc6374.Delay) { r.Control = rfc6374.TemporarilyUnavailable }, peer, Refused, false, false, ""},
		{"a success, and the query as it was", func(r *rfc6374.Delay) { r.Timestamps = [4]stamp.Timestamp{0: r.Timestamps[2]} }, peer, Unexpected, false, false, ""},
		{"not now, in another format", func(r *rfc6374.Delay) {
			r.Control, r.Responder = rfc6374.DataFormatInvalid, rfc6374.FormatPTP
		}, peer, Refused, false, false, ""},
		{"another session", func(r *rfc6374.Delay) { r.Session++ }, peer, WrongSession, false, false, "the Session Identifier is 10 instead of 9"},
		{"an error about another session", func(r *rfc6374.Delay) { r.Session, r.Control = 10, rfc6374.ConnectionMismatch }, peer, Refused, false, false, ""},
		{"another version", func(r *rfc6374.Delay) { r.Version = 1 }, peer, Malformed, false, false, "the version is 1 instead of 0"},
		{"another querier format", func(r *rfc6374.Delay) { r.Querier = rfc6374.FormatPTP }, peer, Malformed, false, false, "the Querier Timestamp Format is 3 instead of 2"},
		{"a format of its own", func(r *rfc6374.Delay) { r.Responder = rfc6374.FormatPTP }, peer, Malformed, false, false, "the Responder Timestamp Format 3 is neither that of the query nor the preferred one"},
		{"a TLV beyond the end", func(r *rfc6374.Delay) { r.TLVs = []byte{128, 9} }, peer, Malformed, false, false, rfc6374.ErrTLV.Error()},
		{"another session, forged elsewhere", func(r *rfc6374.Delay) { r.Session++ }, netip.AddrPortFrom(peer.Addr(), 863), Foreign, false, false, ""},
		{"another session, forged without the time of the query", func(r *rfc6374.Delay) { r.Session++; r.Timestamps[2]++ }, peer, Unexpected, false, false, ""},
		{"another query", func(r *rfc6374.Delay) { r.Timestamps[2]++ }, peer, Unexpected, false, false, ""},
		{"a query", func(r *rfc6374.Delay) { r.Response = false }, peer, Malformed, false, false, ""},
		{"another port", func(*rfc6374.Delay) {}, netip.AddrPortFrom(peer.Addr(), 863), Foreign, false, false, ""},
	} {
		probe := Probe{Peer: peer, Session: 9, Return: []netip.Addr{peer.Addr()}}
		b, id, at, err := m.query(&probe)
		r, fault := rfc6374.DecodeDelay(b)
		if err != nil || fault != nil {
			t.Fatal(err, fault)
		}
		at = clock.Instant{Wall: at.Wall - int64(ago), Steady: at.Steady - int64(ago)} // it left some time ago
		p.waiting[id] = &sent{probe, 1, at}
		time := func(after time.Duration) stamp.Timestamp { return stamp.NTP.Timestamp(at.Wall+int64(after), 0) }
		r.Response, r.Control, r.Responder = true, rfc6374.Success, rfc6374.FormatNTP
		r.Timestamps = [4]stamp.Timestamp{time(oneWay + held), 0, r.Timestamps[0], time(oneWay)}
		tt.change(&r)
		s, outcome := p.sample(&udp.Datagram{Data: r.Append(nil), Peer: tt.from})
		if outcome != tt.want || s.OneWayKnown != tt.one || s.TwoWayKnown != tt.two || outcome == Accepted && s.RoundTrip < ago {
			t.Errorf("%s: %+v, %v, want %v", tt.name, s, outcome, tt.want)
		}
		failed := outcome == Refused && r.Control.IsError()
		if s.Refusal != 0 != failed || failed && (s.Refusal != r.Control || p.waiting[id] != nil) {
			t.Errorf("%s: %+v ends the measurement: %v", tt.name, s, failed)
		}
		if s.Invalid != tt.invalid || s.Ends() != (s.Refusal != 0 || tt.invalid != "") {
			t.Errorf("%s: %q, want %q", tt.name, s.Invalid, tt.invalid)
		}
		if waits := p.waiting[id] != nil; waits != (outcome != Accepted && !s.Ends()) {
			t.Errorf("%s: the probe waits on: %v", tt.name, waits)
		}
		near := func(got, want int64) bool { return got > want-1000 && got < want+1000 }
		if tt.one && !near(int64(s.OneWay), int64(oneWay)) || tt.two && !near(int64(s.TwoWay), int64(s.RoundTrip-held)) {
			t.Errorf("%s: %+v", tt.name, s)
		}
		if outcome == Accepted && (s.RemoteClock != 1_000_000 || s.Diverted) {
			t.Errorf("%s: %+v", tt.name, s)
		}
	}
	if s, outcome := p.sample(&udp.Datagram{Data: make([]byte, rfc6374.DelayLen-1), Peer: peer}); outcome != Malformed || s.Ends() {
		t.Errorf("cut: %v, %+v", outcome, s)
	}
}

// A response whose length is another one than it says ends the measurement, too: it names its
// query.
func TestDelayResponseLength(t *testing.T) {
	m := NewDelayMessages(own, 0)
	p := &Prober{protocol: m, waiting: make(map[uint64]*sent), numbers: make(map[int]int)}
	probe := Probe{Peer: netip.MustParseAddrPort("[2001:db8::7]:6375"), Session: 9}
	b, id, at, err := m.query(&probe)
	if err != nil {
		t.Fatal(err)
	}
	p.waiting[id] = &sent{probe, 1, at}
	r, err := rfc6374.DecodeDelay(b)
	if err != nil {
		t.Fatal(err)
	}
	r.Response, r.Control, r.Responder, r.TLVs = true, rfc6374.Success, rfc6374.FormatNTP, nil
	r.Timestamps = [4]stamp.Timestamp{2: r.Timestamps[0], 3: r.Timestamps[0]}
	b = r.Append(nil)
	b[3]++ // Message Length
	if s, outcome := p.sample(&udp.Datagram{Data: b, Peer: probe.Peer}); outcome != Malformed || !s.Ends() || len(p.waiting) != 0 {
		t.Errorf("%v, %+v", outcome, s)
	}
}
