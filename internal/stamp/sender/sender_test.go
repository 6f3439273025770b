// SPDX-License-Identifier: Apache-2.0

package sender

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

var key = []byte("a key of sixteen")

// newSender makes a sender of three packets with a reflector at a port of this
// machine, changed by the test.
func newSender(t testing.TB, remote netip.AddrPort, change func(*Config)) *Sender {
	t.Helper()
	c := Config{Remote: remote, SSID: 0x3132, Interval: time.Millisecond, Count: 3, Timeout: patience.Of(2 * time.Second)}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mirror is a reflector that answers as the test says: nil is no answer.
func mirror(t *testing.T, answer func(request udp.Datagram) [][]byte) netip.AddrPort {
	t.Helper()
	s, err := udp.Listen(udp.Config{Local: netip.MustParseAddrPort("[::1]:0"), Batch: 8, Size: 2000})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			list, err := s.Receive()
			if err != nil {
				return
			}
			for _, d := range list {
				for _, b := range answer(d) {
					s.Send([]udp.Datagram{{Data: b, Peer: d.Peer}})
				}
			}
		}
	}()
	t.Cleanup(func() { s.Close(); <-done })
	return s.Local()
}

// reply is the reply to a request, with its TLVs.
func reply(d udp.Datagram, m stamp.Mode, change func(*stamp.ReflectorPacket)) []byte {
	sent, _ := stamp.DecodeSender(d.Data, m)
	at := stamp.NTP.Timestamp(d.Received, 0)
	p := stamp.ReflectorPacket{
		Sequence:  sent.Sequence,
		SSID:      sent.SSID,
		Sender:    sent,
		Received:  at,
		Timestamp: at,
		Error:     stamp.NewErrorEstimate(time.Millisecond, true, stamp.NTP),
		SenderTTL: d.HopLimit,
	}
	if change != nil {
		change(&p)
	}
	b := bytes.Clone(d.Data)
	p.Put(b, m)
	return b
}

func run(t *testing.T, s *Sender) (*Report, error) {
	t.Helper()
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	err := s.Run(t.Context())
	return s.Report(), err
}

// Each reason why a reply does not count, or not wholly.
func TestRefusals(t *testing.T) {
	short := func(c *Config) { c.Timeout = 50 * time.Millisecond }
	for name, tt := range map[string]struct {
		answer   func(d udp.Datagram) []byte
		change   func(*Config)
		received uint64
	}{
		"":           {func(d udp.Datagram) []byte { return reply(d, 0, nil) }, nil, 3},
		"truncated":  {func(d udp.Datagram) []byte { return reply(d, 0, nil)[:43] }, short, 0},
		"hmac_wrong": {func(d udp.Datagram) []byte { return reply(d, stamp.Authenticated, nil) }, func(c *Config) { short(c); c.Key = key }, 0},
		"timestamp_other": {func(d udp.Datagram) []byte {
			return reply(d, 0, func(p *stamp.ReflectorPacket) { p.Sender.Timestamp ^= 1 })
		}, short, 0},
		"ssid_other":   {func(d udp.Datagram) []byte { return reply(d, 0, func(p *stamp.ReflectorPacket) { p.SSID++ }) }, short, 0},
		"ssid_missing": {func(d udp.Datagram) []byte { return reply(d, 0, func(p *stamp.ReflectorPacket) { p.SSID = 0 }) }, nil, 3},
		"micro_session_wrong": {func(d udp.Datagram) []byte {
			b := reply(d, 0, nil)
			b[44], b[49] = 0, 9 // flags, the sender's link
			return b
		}, func(c *Config) { short(c); c.TLVs.MicroSession = &stamp.MicroSession{Sender: 3} }, 0},
		"tlv_malformed": {func(d udp.Datagram) []byte {
			b := reply(d, 0, nil)
			b[44] = byte(stamp.FlagMalformed)
			return b
		}, func(c *Config) { c.TLVs.DirectMeasurement = true }, 3},
		"tlv_missing": {func(d udp.Datagram) []byte { return reply(d, 0, nil)[:44] }, func(c *Config) { c.TLVs.DirectMeasurement = true }, 3},
		"tlv_integrity_failed": {func(d udp.Datagram) []byte {
			b := reply(d, 0, nil)
			b[44] = byte(stamp.FlagIntegrity)
			return b
		}, func(c *Config) { c.TLVs.DirectMeasurement = true }, 3},
	} {
		at := mirror(t, func(d udp.Datagram) [][]byte { return [][]byte{tt.answer(d)} })
		r, err := run(t, newSender(t, at, tt.change))
		if err != nil || r.Sent != 3 || r.Received != tt.received || r.Lost != 3-tt.received {
			t.Errorf("%q: %+v, %v", name, r, err)
		}
		for why, n := range r.Refused {
			if (why == name) != (n == 3) {
				t.Errorf("%q: %d %s", name, n, why)
			}
		}
		if a := r.Answers; a != nil && (a.Direct != nil || a.MicroSession != nil) {
			t.Errorf("%q: TLVs were used: %+v", name, a)
		}
	}
}

// What a reply says beyond its number is not believed before it repeats what its packet had: one
// that is made up neither ends the session nor teaches it a link.
func TestMadeUpReplies(t *testing.T) {
	at := mirror(t, func(d udp.Datagram) [][]byte {
		forged := func(change func(*stamp.ReflectorPacket)) []byte {
			b := reply(d, 0, change)
			b[44], b[51] = 0, 7 // flags; the reflector's link
			return b
		}
		b := reply(d, 0, nil)
		b[44], b[51] = 0, 4
		return [][]byte{
			forged(func(p *stamp.ReflectorPacket) { p.Sender.Sequence += 9999 }),
			forged(func(p *stamp.ReflectorPacket) { p.Sender.Timestamp, p.SSID = 1, 0 }),
			b,
		}
	})
	r, err := run(t, newSender(t, at, func(c *Config) {
		c.NeedSSID, c.First, c.TLVs.MicroSession = true, 1<<32-2, &stamp.MicroSession{Sender: 3} // the numbers wrap
	}))
	if err != nil || r.Received != 3 || r.Foreign != 3 || r.Refused["timestamp_other"] != 3 ||
		r.Refused["ssid_missing"]+r.Refused["micro_session_wrong"] != 0 ||
		r.Answers.MicroSession.Reflector != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	if text := r.Text(); !strings.Contains(text, "\n  3 foreign: ") || !strings.Contains(text, "\n  3 timestamp_other\n") {
		t.Error(text)
	}
}

// Times of the reflector that cannot be, or that it does not know, measure nothing; the round trip
// stays.
func TestTimesThatCannotBe(t *testing.T) {
	for name, tt := range map[string]struct {
		change     func(*stamp.ReflectorPacket)
		impossible uint64
	}{
		"unknown":                      {func(p *stamp.ReflectorPacket) { p.Received, p.Timestamp = 0, 0 }, 0},
		"arrival unknown":              {func(p *stamp.ReflectorPacket) { p.Received = 0 }, 0},
		"unknown, PTP":                 {func(p *stamp.ReflectorPacket) { p.Received, p.Timestamp, p.Error = 0, 0, 0x4001 }, 0},
		"left before it came":          {func(p *stamp.ReflectorPacket) { p.Timestamp -= 1 << 24 }, 3},
		"a clock set while it held it": {func(p *stamp.ReflectorPacket) { p.Timestamp += 3600 << 32 }, 3},
	} {
		at := mirror(t, func(d udp.Datagram) [][]byte { return [][]byte{reply(d, 0, tt.change)} })
		r, err := run(t, newSender(t, at, nil))
		if err != nil || r.Received != 3 || r.RoundTrip == nil || r.TwoWay != nil || r.Residence != nil || r.Forward != nil ||
			r.Backward != nil ||
			r.Impossible != tt.impossible {
			t.Errorf("%s: %+v, forward %+v, %v", name, r.Result, r.Forward, err)
		}
		if text := r.Text(); strings.Contains(text, " time_impossible: ") != (tt.impossible > 0) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A reply that has lost one of two TLVs counts, and so does its other TLV.
func TestOneTLVMissing(t *testing.T) {
	at := mirror(t, func(d udp.Datagram) [][]byte {
		b := reply(d, 0, nil)
		b[44] = 0
		return [][]byte{b[:44+stamp.TLVHeaderLen+12]} // without the Follow-Up Telemetry
	})
	r, err := run(t, newSender(t, at, func(c *Config) { c.TLVs.DirectMeasurement, c.TLVs.FollowUpTelemetry = true, true }))
	if err != nil || r.Received != 3 || r.Refused["tlv_missing"] != 3 || r.Answers.Direct == nil {
		t.Errorf("%+v, %v", r, err)
	}
	if text := r.Text(); !strings.Contains(text, "\n  3 tlv_missing\n") {
		t.Error(text)
	}
}

// A reply from another address is none, even with everything else right.
func TestOtherSource(t *testing.T) {
	other, err := udp.Listen(udp.Config{Local: netip.MustParseAddrPort("[::1]:0"), Batch: 1, Size: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	at := mirror(t, func(d udp.Datagram) [][]byte {
		other.Send([]udp.Datagram{{Data: reply(d, 0, nil), Peer: d.Peer}})
		return nil
	})
	r, err := run(t, newSender(t, at, func(c *Config) { c.Timeout = 50 * time.Millisecond }))
	if err != nil || r.Received != 0 || r.Refused["other_source"] != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestNeedSSID(t *testing.T) {
	at := mirror(t, func(d udp.Datagram) [][]byte {
		return [][]byte{reply(d, 0, func(p *stamp.ReflectorPacket) { p.SSID = 0 })}
	})
	if _, err := run(t, newSender(t, at, func(c *Config) { c.NeedSSID, c.Count = true, 0 })); !errors.Is(err, ErrNoSSID) {
		t.Errorf("%v", err)
	}
}

// Duplicates, lost and late packets of a stateful reflector, as the report has them.
func TestReport(t *testing.T) {
	n := uint32(0)
	at := mirror(t, func(d udp.Datagram) [][]byte {
		sent, _ := stamp.DecodeSender(d.Data, 0)
		if sent.Sequence == 1 {
			return nil // it did not come
		}
		b := reply(d, 0, func(p *stamp.ReflectorPacket) { p.Sequence = n })
		if n++; sent.Sequence == 3 {
			return nil // the reply is lost
		}
		if sent.Sequence == 4 {
			return [][]byte{b, b}
		}
		return [][]byte{b}
	})
	r, err := run(t, newSender(t, at, func(c *Config) { c.Count, c.Timeout = 6, patience.Of(200*time.Millisecond) }))
	if err != nil || r.Sent != 6 || r.Received != 4 || r.Lost != 2 || r.Duplicates != 1 || r.LostForward == nil || *r.LostForward != 1 ||
		*r.LostBackward != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	want := fmt.Sprintf(
		"%v: 6 sent, 4 received, 2 lost (33.33%%): 1 forward, 1 backward, 0 in an unknown direction\n  0 late, 1 duplicates,",
		at,
	)
	if text := r.Text(); !strings.HasPrefix(text, want) || !strings.Contains(text, "\nround trip ") ||
		!strings.Contains(text, "reflector synchronized (error up to ") ||
		!strings.Contains(text, "\nhops: 0 forward, 0 backward\n") {
		t.Errorf("%s", text)
	}
}

// Replies that came in time count, even if this process was stopped and reads them only
// after the timeout, at the end.
func TestStalledProcess(t *testing.T) {
	answered := make(chan bool, 3)
	at := mirror(t, func(d udp.Datagram) [][]byte {
		defer func() { answered <- true }()
		return [][]byte{reply(d, 0, nil)}
	})
	timeout := patience.Of(300 * time.Millisecond)
	s := newSender(t, at, func(c *Config) { c.Timeout = timeout })
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	defer s.socket.Close()
	if err := s.send(3); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-answered
	}
	time.Sleep(timeout)
	if s.waiting() {
		t.Error("packets wait after the timeout")
	}
	s.socket.SetDeadline(time.Unix(1, 0))
	if err := s.receive(); err != nil {
		t.Error(err)
	}
	if r := s.Report(); r.Received != 3 || r.Lost != 0 {
		t.Errorf("%+v", r)
	}
}

// The clock of this machine is set while a reply is under way: the round trip is that of
// the monotonic clock.
func TestStepOfWallClock(t *testing.T) {
	at := mirror(t, func(udp.Datagram) [][]byte { return nil })
	s := newSender(t, at, nil)
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	defer s.socket.Close()
	now := s.now()
	s.now = func() clock.Instant { return now }
	if err := s.send(1); err != nil {
		t.Fatal(err)
	}
	now.Wall, now.Steady = now.Wall+int64(time.Hour), now.Steady+int64(time.Millisecond)
	request := udp.Datagram{Data: bytes.Clone(s.packets[0]), Received: now.Wall}
	if err := s.handleReplies([]udp.Datagram{{Data: reply(request, 0, nil), Peer: at, Received: now.Wall - 300_000}}); err != nil {
		t.Fatal(err)
	}
	if r := s.Report(); r.Received != 1 || r.Late != 0 || r.RoundTrip.Max != 700_000 {
		t.Errorf("%+v, round trip %+v", r.Result, r.RoundTrip)
	}
}

// The report names a reflector's restart, and blames the network's two ways for nothing.
func TestRestartInReport(t *testing.T) {
	n := uint32(0)
	at := mirror(t, func(d udp.Datagram) [][]byte {
		sent, _ := stamp.DecodeSender(d.Data, 0)
		if sent.Sequence == 5 {
			n = 0
			return nil
		}
		n++
		return [][]byte{reply(d, 0, func(p *stamp.ReflectorPacket) { p.Sequence = n - 1 })}
	})
	r, err := run(t, newSender(t, at, func(c *Config) { c.Count, c.Timeout = 10, patience.Of(200*time.Millisecond) }))
	if err != nil || r.Lost != 1 || r.LostForward == nil || *r.LostForward+*r.LostBackward != 0 || r.LostUndirected != 1 ||
		*r.ReflectorRestarts != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if text := r.Text(); !strings.Contains(text, "\n  1 reflector restarts: its numbers began anew") {
		t.Error(text)
	}
}

// A packet that the kernel refuses is neither lost nor counted as transmitted (RFC 8972
// §4.5).
func TestUnsent(t *testing.T) {
	counters := make(chan uint32, 10)
	at := mirror(t, func(d udp.Datagram) [][]byte {
		m, _ := stamp.DecodeDirectMeasurement(d.Data[44+stamp.TLVHeaderLen:])
		counters <- m.SenderTransmitted
		return [][]byte{reply(d, 0, nil)}
	})
	s := newSender(t, at, func(c *Config) { c.TLVs.DirectMeasurement = true })
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	defer s.socket.Close()
	sound := s.packets[0]
	for i, b := range [][]byte{sound, make([]byte, 70_000), sound} { // UDP takes at most 65,535 octets
		if s.packets[0] = b; s.send(1) != nil {
			t.Fatalf("packet %d", i)
		}
	}
	if first, second := <-counters, <-counters; first != 1 || second != 2 {
		t.Errorf("counters %d and %d, want 1 and 2", first, second)
	}
	if r := s.Report(); r.Sent != 2 || r.SendFailed != 1 || s.Failure() == nil {
		t.Errorf("%+v", r)
	}
}

// Without a count, the session ends with its context.
func TestInterruption(t *testing.T) {
	at := mirror(t, func(d udp.Datagram) [][]byte { return [][]byte{reply(d, 0, nil)} })
	s := newSender(t, at, func(c *Config) { c.Count = 0 })
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Run(ctx); err != nil || s.Report().Sent < 2 {
		t.Errorf("%v, %+v", err, s.Report())
	}
}

// A packet has the TLVs that were asked for, the HMAC after them, and padding last.
func TestTemplate(t *testing.T) {
	dscp := uint8(46)
	all := TLVs{
		Size: 500, RandomPadding: true, Location: true, TimestampInformation: true, DirectMeasurement: true, FollowUpTelemetry: true,
		ClassOfService: &dscp,
		AccessReport:   &stamp.AccessReport{AccessID: 1, ReturnCode: 2}, DestinationNode: netip.IPv6Loopback(),
		ReturnSegments: []netip.Addr{netip.MustParseAddr("fc00::1")}, MicroSession: &stamp.MicroSession{Sender: 3},
	}
	for _, tt := range []struct {
		config Config
		want   []stamp.Type
		size   int
	}{
		{Config{}, nil, 44},
		{Config{Key: key}, nil, 112},
		{Config{Key: key, KeyForTLVs: true}, []stamp.Type{8}, 64},
		{Config{Key: key, TLVs: TLVs{Size: 200}}, []stamp.Type{1}, 200},
		{Config{TLVs: TLVs{Size: 44}}, nil, 44},
		{Config{Key: key, TLVs: all}, []stamp.Type{9, 10, 11, 4, 6, 2, 3, 5, 7, 8, 1}, 500},
		{Config{TLVs: TLVs{ReturnSameLink: true, Size: 60}}, []stamp.Type{10, 1}, 60},
	} {
		b, err := tt.config.template()
		if err != nil || len(b) != tt.size {
			t.Errorf("%d octets, want %d; %v", len(b), tt.size, err)
			continue
		}
		var got []stamp.Type
		for one, err := range stamp.TLVs(b[tt.config.mode().BaseLen():]) {
			if got = append(got, one.Type()); err != nil || one.Flags() != stamp.FlagUnrecognized ||
				stamp.CheckValue(one.Type(), one.Value()) != nil {
				t.Errorf("%v: flags %#x, %v", one.Type(), one.Flags(), err)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v, want %v", got, tt.want)
		}
	}
	for _, size := range []int{1, 43, 45, 47, 9001} {
		if err := (&Config{TLVs: TLVs{Size: size}}).Validate(); err == nil || !strings.Contains(err.Error(), "can have 44, or 48 to 9000") {
			t.Errorf("%d octets: %v", size, err)
		}
	}
}

// Any reply is read without harm.
func FuzzReply(f *testing.F) {
	remote := netip.MustParseAddrPort("[::1]:862")
	everything := func(c *Config) {
		c.TLVs = TLVs{MicroSession: &stamp.MicroSession{Sender: 3}, DirectMeasurement: true}
	}
	d := udp.Datagram{Peer: remote, Received: 1_800_000_000_000_000_000}
	for _, m := range []stamp.Mode{stamp.Unauthenticated, stamp.Authenticated} {
		d.Data = make([]byte, m.BaseLen())
		(&stamp.SenderPacket{SSID: 0x3132}).Put(d.Data, m)
		f.Add(reply(d, m, nil))
		location, _ := stamp.AppendTLV(reply(d, m, nil), 0, stamp.TypeLocation, stamp.AppendLocationRequest(nil))
		micro, _ := stamp.AppendTLV(location, 0, stamp.TypeMicroSession, []byte{0, 3, 0, 1})
		f.Add(micro)
	}
	senders := []*Sender{newSender(f, remote, everything), newSender(f, remote, func(c *Config) { c.Key = key; everything(c) })}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range senders {
			s.session.Send(d.Received-1000, d.Received-1000, 0)
			s.reply(&udp.Datagram{Data: b, Peer: remote, Received: d.Received}, d.Received)
			if text := s.Report().Text(); !strings.Contains(text, " sent, ") {
				t.Fatal(text)
			}
		}
	})
}
