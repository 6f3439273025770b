// SPDX-License-Identifier: Apache-2.0

package query

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// samples are those that a prober has heard.
type samples struct {
	mu   sync.Mutex
	list []Sample
}

func (s *samples) add(one Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, one)
}

// await waits for so many.
func (s *samples) await(t *testing.T, n int) []Sample {
	t.Helper()
	for deadline := time.Now().Add(enough()); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		list := s.list
		s.mu.Unlock()
		if len(list) >= n {
			return list
		} else if time.Now().After(deadline) {
			t.Fatalf("%d samples, want %d", len(list), n)
		}
	}
}

func openProber(t *testing.T) (*Prober, *samples) {
	t.Helper()
	heard := &samples{}
	p, err := OpenProber(NewStamp(nil), new(Counters), heard.add)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, heard
}

// The prober numbers the probes of each flow. A node that holds them has its time subtracted
// from the delay there and back, but not from the time until the reply.
func TestProber(t *testing.T) {
	const held = 30 * time.Millisecond
	times := clock.New(stamp.NTP)
	far := newNode(t, func(_ int, b []byte) [][]byte {
		received := times.Timestamp(times.Now().Wall)
		time.Sleep(held)
		return [][]byte{reflected(b, func(p *stamp.ReflectorPacket) {
			p.Received, p.Timestamp = received, times.Timestamp(times.Now().Wall)
			p.Error = stamp.NewErrorEstimate(time.Millisecond, true, stamp.NTP)
		})}
	})
	p, heard := openProber(t)
	p.Send([]Probe{{Flow: 3, Peer: far.at(), Session: 9}, {Flow: 4, Peer: far.at()}})
	p.Send([]Probe{{Flow: 3, Peer: far.at(), Session: 9}})
	numbers := map[int][]int{}
	for _, s := range heard.await(t, 3) {
		numbers[s.Flow] = append(numbers[s.Flow], s.Number)
		if !s.TwoWayKnown || !s.OneWayKnown || s.RoundTrip < held || s.TwoWay < 0 || s.TwoWay > s.RoundTrip-held+time.Millisecond ||
			s.OneWay < -time.Millisecond ||
			s.OneWay > s.RoundTrip {
			t.Errorf("%+v", s)
		}
		if s.RemoteClock < int64(time.Millisecond) || s.Diverted {
			t.Errorf("%+v", s)
		}
	}
	if len(numbers[3]) != 2 || numbers[3][0]+numbers[3][1] != 3 || len(numbers[4]) != 1 || numbers[4][0] != 1 {
		t.Errorf("probes by flow: %v", numbers)
	}
	if len(p.waiting) != 0 {
		t.Errorf("%d probes wait", len(p.waiting))
	}
}

// Probes have the traffic class that they are given.
func TestProbesHaveAClass(t *testing.T) {
	far, err := udp.Listen(udp.Config{Local: netip.MustParseAddrPort("[::1]:0"), Batch: 1, Size: longest})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	far.SetDeadline(time.Now().Add(enough()))
	p, _ := openProber(t)
	for _, class := range []uint8{0, 0xb8} {
		p.Send([]Probe{{Peer: far.Local(), Class: class}})
		list, err := far.Receive()
		if err != nil || len(list) != 1 || list[0].TrafficClass != class {
			t.Errorf("class %#x: %+v, %v", class, list, err)
		}
	}
}

// The Return Path TLV asks for the way back; a reflector that does not know it says so.
func TestProbesReturn(t *testing.T) {
	way := []netip.Addr{netip.MustParseAddr("fc00:2::e"), netip.MustParseAddr("fc00:1::e")}
	taken := true
	far := newNode(t, func(_ int, b []byte) [][]byte {
		reply := reflected(b, nil)
		for tlv := range stamp.TLVs(reply[stamp.Unauthenticated.BaseLen():]) {
			asked, err := stamp.DecodeReturnPath(tlv.Value())
			if tlv.Type() != stamp.TypeReturnPath || err != nil || !bytes.Equal(asked.Segments, slices.Concat(way[0].AsSlice(), way[1].AsSlice())) {
				t.Errorf("%v: %+v, %v", tlv.Type(), asked, err)
			}
			if taken {
				tlv.SetFlags(0)
			}
		}
		taken = false
		return [][]byte{reply}
	})
	p, heard := openProber(t)
	for i := range 2 {
		p.Send([]Probe{{Peer: far.at(), Return: way}})
		if s := heard.await(t, i+1)[i]; s.Diverted != (i == 1) {
			t.Errorf("%+v", s)
		}
	}
}

// Replies that are late, from elsewhere, of another session or twice there measure nothing, and
// times that are none give the round trip alone.
func TestSamples(t *testing.T) {
	peer := netip.MustParseAddrPort("[2001:db8::7]:862")
	p := &Prober{protocol: NewStamp(nil), waiting: make(map[uint64]*sent), numbers: make(map[int]int)}
	send := func() []byte {
		probe := Probe{Peer: peer}
		packet, id, at, err := p.protocol.query(&probe)
		if err != nil {
			t.Fatal(err)
		}
		p.waiting[id] = &sent{probe, 1, at}
		return packet
	}
	for _, tt := range []struct {
		name   string
		change func(*stamp.ReflectorPacket)
		from   netip.AddrPort
		want   Outcome
		timed  bool
	}{
		{"a reply", nil, peer, Accepted, true},
		{"another port", nil, netip.AddrPortFrom(peer.Addr(), 863), Foreign, false},
		{"another address", nil, netip.MustParseAddrPort("[2001:db8::8]:862"), Foreign, false},
		{"another time", func(p *stamp.ReflectorPacket) { p.Sender.Timestamp++ }, peer, WrongTime, false},
		{"another session", func(p *stamp.ReflectorPacket) { p.SSID++ }, peer, WrongSession, false},
		{"another number", func(p *stamp.ReflectorPacket) { p.Sender.Sequence++ }, peer, Unexpected, false},
		{"sent before it was received", func(p *stamp.ReflectorPacket) { p.Timestamp -= 1 << 32 }, peer, Accepted, false},
		{"held longer than the round trip", func(p *stamp.ReflectorPacket) { p.Timestamp += 3600 << 32 }, peer, Accepted, false},
		{"times that are not known", func(p *stamp.ReflectorPacket) { p.Received, p.Timestamp = 0, 0 }, peer, Accepted, false},
	} {
		d := &udp.Datagram{Data: reflected(send(), tt.change), Peer: tt.from}
		s, outcome := p.sample(d)
		if impossible := outcome == Accepted && !tt.timed && tt.name != "times that are not known"; s.Impossible != impossible {
			t.Errorf("%s: impossible %v", tt.name, s.Impossible)
		}
		if outcome != tt.want || s.TwoWayKnown != tt.timed || s.OneWayKnown != tt.timed || s.RoundTrip < 0 {
			t.Errorf("%s: %+v, %v, want %v", tt.name, s, outcome, tt.want)
		}
		if _, again := p.sample(d); again == Accepted || tt.want == Accepted && again != Unexpected {
			t.Errorf("%s: the second time %v", tt.name, again)
		}
	}
}

// Probes without a reply are forgotten after some seconds: memory is bounded.
func TestForgottenProbes(t *testing.T) {
	silent := newNode(t, func(int, []byte) [][]byte { return nil })
	p, heard := openProber(t)
	p.Send([]Probe{{Peer: silent.at()}, {Peer: silent.at()}})
	p.mu.Lock()
	if len(p.waiting) != 2 {
		t.Errorf("%d probes wait", len(p.waiting))
	}
	for _, s := range p.waiting {
		s.at.Steady -= int64(replyTime) + 1
	}
	p.mu.Unlock()
	p.Send([]Probe{{Peer: silent.at()}})
	if len(p.waiting) != 1 || len(heard.list) != 0 {
		t.Errorf("%d probes wait, %d samples", len(p.waiting), len(heard.list))
	}
}
