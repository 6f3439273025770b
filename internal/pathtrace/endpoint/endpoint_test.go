// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/ioam"
)

var (
	key = []byte("0123456789abcdef")
	id  = message.ID{Nonce: [8]byte{1}, Number: 2, Flow: 3, HopLimit: 64}
)

func header(t testing.TB, nodes int) []byte {
	t.Helper()
	b, err := message.Header(ioam.NextHeaderUDP, 123, 0xf80000, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Each cause by itself, and that nothing else is counted.
func TestAnswer(t *testing.T) {
	allowed := []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}
	for _, tt := range []struct {
		name   string
		change func(*udp.Datagram)
		want   Outcome
		length int
	}{
		{"a probe", func(*udp.Datagram) {}, Answered, message.AnswerLen + 8 + 60},
		{"its trace was removed", func(d *udp.Datagram) { d.HopByHop = nil }, WithoutTrace, message.AnswerLen},
		{"a stranger", func(d *udp.Datagram) { d.Peer = netip.MustParseAddrPort("[2001:db9::1]:1") }, NotAllowed, 0},
		{"no port", func(d *udp.Datagram) { d.Peer = netip.AddrPortFrom(d.Peer.Addr(), 0) }, Unanswerable, 0},
		{"to a group", func(d *udp.Datagram) { d.Local = netip.MustParseAddr("ff02::1") }, Unanswerable, 0},
		{"cut", func(d *udp.Datagram) { d.Cut = true }, Malformed, 0},
		{"empty", func(d *udp.Datagram) { d.Data = nil }, Malformed, 0},
		{"short", func(d *udp.Datagram) { d.Data = d.Data[:message.ProbeLen-1] }, Malformed, 0},
		{"without a MAC", func(d *udp.Datagram) { d.Data = message.AppendProbe(nil, id, nil) }, Forged, 0},
		{"an answer", func(d *udp.Datagram) { d.Data = message.AppendAnswer(nil, message.Answer{ID: id}, key) }, Looped, 0},
	} {
		a := New(Config{Allowed: allowed, Rate: 100, Key: key})
		d := udp.Datagram{
			Data: message.AppendProbe(nil, id, key), Peer: netip.MustParseAddrPort("[2001:db8::1]:5000"), Local: netip.MustParseAddr("2001:db8::2"),
			HopLimit: 61, HopByHop: header(t, 3),
		}
		tt.change(&d)
		b, got := a.answer(&d, 1)
		if got != tt.want || len(b) != tt.length {
			t.Errorf("%s: %v with %d octets, want %v with %d", tt.name, got, len(b), tt.want, tt.length)
		}
		if b == nil {
			continue
		}
		answer, err := message.DecodeAnswer(b, key)
		if err != nil || answer.ID != id || answer.HopLimit != 61 || !bytes.Equal(answer.Trace, message.TraceOf(d.HopByHop)) {
			t.Errorf("%s: %+v, %v", tt.name, answer, err)
		}
	}
}

// Beyond the rate nothing is answered; forged probes use up none of it.
func TestRate(t *testing.T) {
	a := New(Config{Rate: 10, Key: key})
	d := udp.Datagram{Peer: netip.MustParseAddrPort("[2001:db8::1]:5000"), Local: netip.MustParseAddr("2001:db8::2")}
	answers := 0
	for i := range 1000 {
		now := int64(i+1) * int64(10*time.Millisecond)
		d.Data = message.AppendProbe(nil, id, nil)
		if _, o := a.answer(&d, now); o != Forged {
			t.Fatal(o)
		}
		d.Data = message.AppendProbe(nil, id, key)
		if b, _ := a.answer(&d, now); b != nil {
			answers++
		}
	}
	if answers < 85 || answers > 105 {
		t.Errorf("%d answers in 10 s at 10 a second", answers)
	}
}

// The kernel passes on the header of a probe, and the answer comes back.
func TestAgainstKernel(t *testing.T) {
	local := netip.AddrPortFrom(netip.IPv6Loopback(), 0)
	a := New(Config{Local: local, Allowed: []netip.Prefix{netip.MustParsePrefix("::1/128")}, Rate: 1000})
	if err := a.Open(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(t.Context()) }()
	h := header(t, 12)
	s, err := udp.Listen(udp.Config{Local: local, Batch: 2, Size: longest, HopByHop: h})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.SetDeadline(time.Now().Add(patience.Of(5 * time.Second)))
	out := []udp.Datagram{
		{Data: message.AppendProbe(nil, id, nil), Peer: a.Local(), SendHopLimit: 9, FlowLabel: 0x12345},
		{Data: []byte("x"), Peer: a.Local()},
	}
	if err := s.Send(out); err != nil || out[0].Err != nil {
		t.Fatal(err, out[0].Err)
	}
	list, err := s.Receive()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := message.DecodeAnswer(list[0].Data, nil)
	if err != nil || answer.ID != id || answer.HopLimit != 9 || !bytes.Equal(answer.Trace, message.TraceOf(h)) ||
		time.Since(answer.Received) > patience.Of(5*time.Second) {
		t.Errorf("%+v, %v", answer, err)
	}
	want := [NumOutcomes]uint64{Answered: 1, Malformed: 1}
	for until := time.Now().Add(patience.Of(5 * time.Second)); a.Counts() != want && time.Now().Before(until); time.Sleep(time.Millisecond) {
	}
	if n := a.Counts(); n != want {
		t.Errorf("%v", n)
	}
}
