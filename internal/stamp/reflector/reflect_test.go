// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

var (
	peer  = netip.MustParseAddrPort("[2001:db8:1::1]:40000")
	local = netip.MustParseAddr("2001:db8:2::1")
	key   = []byte("a key of sixteen")
	sent  = stamp.SenderPacket{Sequence: 7, Timestamp: 0x1112131415161718, Error: 0x8501, SSID: 0x3132}
)

const now = int64(1_800_000_000_000_000_000)

// at is a time of a clock that is never set.
func at(ns int64) clock.Instant { return clock.Instant{Wall: ns, Steady: ns} }

// newReflector makes a reflector at a time that stands still, with a clock that nothing
// synchronizes.
func newReflector(t testing.TB, change func(*Config)) *Reflector {
	t.Helper()
	c := Config{Local: netip.MustParseAddrPort("[::]:862"), MaxSessions: 8, SessionTimeout: time.Minute}
	if change != nil {
		change(&c)
	}
	r := New(c)
	r.now, r.synced = func() clock.Instant { return at(now + 5000) }, func() bool { return false }
	return r
}

// packet is a sender's packet with TLVs, signed if there is a key.
func packet(t testing.TB, m stamp.Mode, p stamp.SenderPacket, key []byte, tlvs ...[]byte) udp.Datagram {
	t.Helper()
	b := make([]byte, m.BaseLen())
	p.Put(b, m)
	b = append(b, bytes.Join(tlvs, nil)...)
	if key != nil {
		a := stamp.NewAuthenticator(key)
		a.SignTLVs(p.Sequence, b[m.BaseLen():])
		if m == stamp.Authenticated {
			a.Sign(b)
		}
	}
	return udp.Datagram{Data: b, Peer: peer, Local: local, Interface: 3, TrafficClass: 10<<2 | 3, HopLimit: 253, Received: now}
}

// tlv is a TLV as a sender sends it.
func tlv(t testing.TB, kind stamp.Type, value ...byte) []byte {
	t.Helper()
	b, err := stamp.AppendTLV(nil, stamp.FlagUnrecognized, kind, value)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func hmacTLV(t testing.TB) []byte { return tlv(t, stamp.TypeHMAC, make([]byte, stamp.HMACLen)...) }

// reflect does with one packet what serve does with a batch.
func reflect(r *Reflector, d *udp.Datagram, state *reply, now int64) Outcome {
	outcome := r.prepare(d, state, at(now))
	if outcome == Reflected {
		r.finish(d, state)
	}
	return outcome
}

// answerOf reflects a packet that must be answered, with as many octets.
func answerOf(t testing.TB, r *Reflector, d *udp.Datagram) (stamp.ReflectorPacket, []byte) {
	t.Helper()
	length, state := len(d.Data), reply{}
	if got := reflect(r, d, &state, now); got != Reflected {
		t.Fatalf("outcome %v", got)
	}
	p, err := stamp.DecodeReflector(d.Data, r.mode)
	if err != nil || len(d.Data) != length || d.Peer != peer {
		t.Fatalf("%d octets became %d to %v, %v", length, len(d.Data), d.Peer, err)
	}
	return p, d.Data[r.mode.BaseLen():]
}

func TestBaseReply(t *testing.T) {
	for _, format := range []stamp.TimestampFormat{stamp.NTP, stamp.PTP} {
		for _, secret := range [][]byte{nil, key} {
			r := newReflector(t, func(c *Config) { c.Key, c.Format = secret, format })
			d := packet(t, r.mode, sent, secret)
			p, _ := answerOf(t, r, &d)
			want := stamp.ReflectorPacket{
				Sequence: 7, Timestamp: r.clock.Timestamp(now + 5000), Error: r.clock.Estimate(), SSID: sent.SSID, Received: r.clock.Timestamp(now),
				Sender: stamp.SenderPacket{Sequence: 7, Timestamp: sent.Timestamp, Error: sent.Error}, SenderTTL: 253,
			}
			if p != want || p.Error.Format() != format {
				t.Errorf("%+v, want %+v", p, want)
			}
			if secret != nil && !stamp.NewAuthenticator(key).Verify(d.Data) {
				t.Error("the reply's HMAC is wrong")
			}
			// ECN marks of the packet are not sent back; routing chooses the link.
			if d.TrafficClass != 10<<2 || d.Local != local || d.Interface != 0 || d.Segments != nil {
				t.Errorf("sent as %+v", d)
			}
		}
	}
}

// Each cause of a refusal, by one change to a packet that is answered.
func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		want   Outcome
		config func(*Config)
		change func(*udp.Datagram)
	}{
		{Reflected, nil, nil},
		{NotAllowed, func(c *Config) { c.Allowed = []netip.Prefix{netip.MustParsePrefix("2001:db8:9::/48")} }, nil},
		{Reflected, func(c *Config) { c.Allowed = []netip.Prefix{netip.MustParsePrefix("2001:db8:1::/48")} }, nil},
		{Unanswerable, nil, func(d *udp.Datagram) { d.Peer = netip.AddrPortFrom(d.Peer.Addr(), 0) }},
		{Unanswerable, nil, func(d *udp.Datagram) { d.Peer = netip.MustParseAddrPort("[ff02::1]:9") }},
		{Unanswerable, nil, func(d *udp.Datagram) { d.Local = netip.MustParseAddr("ff02::1") }},
		{Oversized, nil, func(d *udp.Datagram) { d.Cut = true }},
		{Truncated, nil, func(d *udp.Datagram) { d.Data = d.Data[:43] }},
		{Truncated, nil, func(d *udp.Datagram) { d.Data = nil }},
		{Truncated, func(c *Config) { c.Key = key }, nil},
		{WrongHMAC, func(c *Config) { c.Key = key }, func(d *udp.Datagram) { d.Data = append(d.Data, make([]byte, 68)...) }},
		{Looped, nil, func(d *udp.Datagram) { d.Data[16] = 1 }},
		{Reflected, nil, func(d *udp.Datagram) { copy(d.Data[14:], bytes.Repeat([]byte{0xaa}, 30)) }}, // padding of TWAMP Light
		{Reflected, nil, func(d *udp.Datagram) { d.Data[16], d.Data[43] = 1, 1 }},
		{UnknownSession, func(c *Config) { c.SSIDs = []stamp.SSID{1, 2} }, nil},
		{Reflected, func(c *Config) { c.SSIDs = []stamp.SSID{1, sent.SSID} }, nil},
		{SessionsFull, func(c *Config) { c.Stateful, c.MaxSessions = true, 0 }, nil},
	} {
		r := newReflector(t, tt.config)
		d := packet(t, stamp.Unauthenticated, sent, nil)
		if tt.change != nil {
			tt.change(&d)
		}
		if got := reflect(r, &d, &reply{}, now); got != tt.want {
			t.Errorf("%v, want %v", got, tt.want)
		}
	}
}

// What one reflector answers, another one does not answer again.
func TestLoopEnds(t *testing.T) {
	for _, secret := range [][]byte{nil, key} {
		r := newReflector(t, func(c *Config) { c.Key = secret })
		d := packet(t, r.mode, sent, secret)
		if got := reflect(r, &d, &reply{}, now); got != Reflected {
			t.Fatalf("%v", got)
		}
		if got := reflect(r, &d, &reply{}, now); got != Looped {
			t.Errorf("the reply: %v", got)
		}
	}
}

// A reflector of TWAMP fills what must be zero in a reply with the sender's own octets
// (RFC 5357 §4.2.1), as this one's reply, taken for a sender's packet, has them.
func TestLoopWithTWAMPEnds(t *testing.T) {
	r := newReflector(t, func(*Config) {})
	d := packet(t, stamp.Unauthenticated, sent, nil)
	if got := reflect(r, &d, &reply{}, now); got != Reflected {
		t.Fatalf("%v", got)
	}
	ours := bytes.Clone(d.Data)
	twamp := append(bytes.Clone(ours[:14]), 0, 0) // its sequence number, timestamp and error estimate
	twamp = append(twamp, 1, 2, 3, 4, 5, 6, 7, 8) // when it received
	twamp = append(twamp, ours[:14]...)           // sequence number, timestamp and error estimate of ours
	twamp = append(twamp, 0, 0, 255)
	twamp = append(twamp, ours[14:]...)[:len(ours)] // padding
	d.Data = twamp
	if got := reflect(r, &d, &reply{}, now+int64(time.Second)); got != Looped {
		t.Errorf("the reply: %v", got)
	}
}

// Packets without the key use up nothing of the rate.
func TestRateIsForTheKey(t *testing.T) {
	r := newReflector(t, func(c *Config) { c.Key, c.Rate = key, 10 })
	for range 100 {
		d := packet(t, stamp.Authenticated, sent, []byte("another key"))
		if got := reflect(r, &d, &reply{}, now); got != WrongHMAC {
			t.Fatalf("%v", got)
		}
	}
	if d := packet(t, stamp.Authenticated, sent, key); reflect(r, &d, &reply{}, now) != Reflected {
		t.Error("a packet with the key was not answered")
	}
}

// One site cannot take all sessions, and gets its share again when they end.
func TestSessionsOfOneSite(t *testing.T) {
	r := newReflector(t, func(c *Config) { c.Stateful, c.MaxSessions = true, 8 })
	begin := func(source string, port uint16, at int64) Outcome {
		d := packet(t, stamp.Unauthenticated, sent, nil)
		d.Peer = netip.AddrPortFrom(netip.MustParseAddr(source), port)
		return reflect(r, &d, &reply{}, at)
	}
	for _, at := range []int64{now, now + int64(time.Hour)} {
		for port := uint16(1); port <= 3; port++ {
			want := Reflected
			if port > 2 {
				want = SessionsFull
			}
			if got := begin(fmt.Sprintf("2001:db8:1::%d", port), port, at); got != want {
				t.Errorf("session %d: %v, want %v", port, got, want)
			}
		}
		if got := begin("2001:db8:2::1", 1, at); got != Reflected {
			t.Errorf("another site: %v", got)
		}
	}
}

func TestRate(t *testing.T) {
	r := newReflector(t, func(c *Config) { c.Rate = 1000 })
	count := func(at int64, packets int) (answered int) {
		for range packets {
			d := packet(t, stamp.Unauthenticated, sent, nil)
			if reflect(r, &d, &reply{}, at) == Reflected {
				answered++
			}
		}
		return answered
	}
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{{0, 100}, {10 * time.Millisecond, 10}, {10 * time.Millisecond, 0}, {5 * time.Second, 100}, {0, 0}} {
		if got := count(now+int64(tt.after), 200); got != tt.want {
			t.Errorf("after %v: %d answered, want %d", tt.after, got, tt.want)
		}
	}
}

func TestSessions(t *testing.T) {
	r := newReflector(t, func(c *Config) { c.Stateful = true })
	send := func(port uint16, ssid stamp.SSID, sequence uint32, at int64) (uint32, Outcome) {
		d := packet(t, stamp.Unauthenticated, stamp.SenderPacket{Sequence: sequence, SSID: ssid}, nil)
		d.Peer = netip.AddrPortFrom(peer.Addr(), port)
		outcome := reflect(r, &d, &reply{}, at)
		p, err := stamp.DecodeReflector(d.Data, stamp.Unauthenticated)
		if err != nil {
			t.Fatal(err)
		}
		if outcome == Reflected && p.Sender.Sequence != sequence {
			t.Errorf("sequence %d became %d", sequence, p.Sender.Sequence)
		}
		return p.Sequence, outcome
	}
	for _, tt := range []struct {
		port     uint16
		ssid     stamp.SSID
		sequence uint32
		at       time.Duration
		want     uint32
		outcome  Outcome
	}{
		{1, 1, 0, 0, 0, Reflected}, {1, 1, 2, 0, 1, Reflected}, {1, 1, 1, 0, 2, Reflected}, // reordered
		{1, 1, 1, 0, 3, Reflected},   // repeated
		{1, 1, 500, 0, 4, Reflected}, // far ahead
		{1, 1, 2, 0, 5, Reflected},   // far behind
		{1, 2, 0, 0, 0, Reflected},   // another SSID
		{2, 1, 0, 0, 0, SessionsFull},
		{1, 1, 501, 59 * time.Second, 6, Reflected},
		{2, 1, 0, 61 * time.Second, 0, Reflected}, // the session with SSID 2 has ended
		{1, 1, 502, 61 * time.Second, 7, Reflected},
	} {
		if got, outcome := send(tt.port, tt.ssid, tt.sequence, now+int64(tt.at)); outcome != tt.outcome ||
			outcome == Reflected && got != tt.want {
			t.Errorf("%+v: number %d, %v", tt, got, outcome)
		}
	}
	c := r.Counts()
	if c.Notes[Repeated] != 1 || c.Notes[OutOfOrder] != 2 || c.Sessions != 2 {
		t.Errorf("%v, %d sessions", c.Notes, c.Sessions)
	}
}

// A step of the wall clock ends no session, lets none live on, and neither fills nor
// stops the rate.
func TestStepOfWallClock(t *testing.T) {
	r := newReflector(t, func(c *Config) { c.Stateful, c.Rate = true, 1000 })
	step := func(wall, steady time.Duration) clock.Instant {
		return clock.Instant{Wall: now + int64(wall), Steady: now + int64(steady)}
	}
	for _, tt := range []struct {
		at      clock.Instant
		want    int    // of 200 packets, how many are answered
		number  uint32 // of the first reply
		because string
	}{
		{step(0, 0), 100, 0, "a tenth of a second"},
		{step(time.Hour, 10*time.Millisecond), 10, 100, "a step forward"},
		{step(-time.Hour, 20*time.Millisecond), 10, 110, "a step back"},
		{step(-time.Hour, 2*time.Minute), 100, 0, "a new session after the timeout"},
	} {
		answered := 0
		for range 200 {
			d := packet(t, stamp.Unauthenticated, sent, nil)
			state := reply{}
			if r.prepare(&d, &state, tt.at) != Reflected {
				continue
			}
			if answered++; answered == 1 && state.packet.Sequence != tt.number {
				t.Errorf("%s: number %d, want %d", tt.because, state.packet.Sequence, tt.number)
			}
		}
		if answered != tt.want {
			t.Errorf("%s: %d answered, want %d", tt.because, answered, tt.want)
		}
	}
}

// A packet and its reply take no memory, with and without a key and sessions.
func TestAllocations(t *testing.T) {
	for _, secret := range [][]byte{nil, key} {
		r := newReflector(t, func(c *Config) { c.Key, c.Stateful = secret, true })
		original := packet(t, r.mode, sent, secret, tlv(t, stamp.TypeClassOfService, 0, 0, 0, 0), hmacTLV(t))
		d, data := original, bytes.Clone(original.Data)
		if n := testing.AllocsPerRun(100, func() {
			d = original
			copy(d.Data, data)
			state := reply{}
			if reflect(r, &d, &state, now) != Reflected {
				t.Error("not reflected")
			}
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func FuzzReflect(f *testing.F) {
	path, _ := stamp.AppendSegmentList(nil, []netip.Addr{local})
	f.Add(packet(f, stamp.Unauthenticated, sent, nil).Data, uint16(1))
	f.Add(
		packet(
			f,
			stamp.Unauthenticated,
			sent,
			nil,
			tlv(f, stamp.TypeLocation, stamp.AppendLocationRequest(nil)...),
			tlv(f, stamp.TypeFollowUpTelemetry, make([]byte, 16)...),
		).Data,
		uint16(862),
	)
	f.Add(
		packet(
			f,
			stamp.Unauthenticated,
			sent,
			nil,
			tlv(f, stamp.TypeReturnPath, path...),
			tlv(f, stamp.TypeDirectMeasurement, make([]byte, 12)...),
			tlv(f, 253, 0, 0, 0, 1),
		).Data,
		uint16(9),
	)
	f.Add(
		packet(
			f,
			stamp.Authenticated,
			sent,
			key,
			tlv(f, stamp.TypeClassOfService, 0, 0, 0, 0),
			hmacTLV(f),
			tlv(f, stamp.TypeExtraPadding, 1),
		).Data,
		uint16(9),
	)
	reflectors := []*Reflector{
		newReflector(f, func(c *Config) { c.Stateful, c.ReturnSegments, c.MicroSession = true, true, 1 }),
		newReflector(f, func(c *Config) { c.Key, c.Stateful = key, true }),
		newReflector(f, func(c *Config) { c.Key, c.KeyForTLVs = key, true }),
	}
	f.Fuzz(func(t *testing.T, b []byte, port uint16) {
		for _, r := range reflectors {
			d := udp.Datagram{Data: bytes.Clone(b), Peer: netip.AddrPortFrom(peer.Addr(), port), Local: local, Received: now}
			outcome := reflect(r, &d, &reply{}, now)
			if len(d.Data) != len(b) || d.Peer.Addr() != peer.Addr() || d.Peer.Port() != port || outcome == Reflected && len(b) < r.mode.BaseLen() {
				t.Fatalf("%d octets from %v: %v with %d octets to %v", len(b), port, outcome, len(d.Data), d.Peer)
			}
			if outcome == Reflected && r.mode == stamp.Authenticated && !r.auth.Verify(d.Data) {
				t.Fatal("a reply with a wrong HMAC")
			}
		}
	})
}
