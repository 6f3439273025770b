// SPDX-License-Identifier: Apache-2.0

package query

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lossquery"
	wait "github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

var testKey = bytes.Repeat([]byte{7}, 32)

// node is another node, on this machine: it answers each datagram with those that its function
// makes.
type node struct {
	*net.UDPConn
	mu   sync.Mutex
	seen [][]byte
}

func newNode(t *testing.T, answers func(number int, b []byte) [][]byte) *node {
	t.Helper()
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{UDPConn: conn}
	var done sync.WaitGroup
	done.Go(func() {
		b := make([]byte, longest)
		for {
			length, from, err := conn.ReadFromUDPAddrPort(b)
			if errors.Is(err, net.ErrClosed) {
				return
			} else if err != nil {
				continue // of an earlier datagram, whose receiver is gone
			}
			n.mu.Lock()
			n.seen = append(n.seen, bytes.Clone(b[:length]))
			number := len(n.seen)
			n.mu.Unlock()
			for _, answer := range answers(number, bytes.Clone(b[:length])) {
				_, _ = conn.WriteToUDPAddrPort(answer, from)
			}
		}
	})
	t.Cleanup(func() { conn.Close(); done.Wait() })
	return n
}

func (n *node) at() netip.AddrPort { return n.LocalAddr().(*net.UDPAddr).AddrPort() }

func (n *node) heard() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.seen)
}

// reflected is the reply of a reflector without a key, after a change.
func reflected(b []byte, change func(*stamp.ReflectorPacket)) []byte {
	sender, err := stamp.DecodeSender(b, stamp.Unauthenticated)
	if err != nil {
		return nil
	}
	p := stamp.ReflectorPacket{
		Sequence:  sender.Sequence,
		SSID:      sender.SSID,
		Received:  sender.Timestamp,
		Timestamp: sender.Timestamp,
		Sender:    sender,
		SenderTTL: 255,
	}
	if change != nil {
		change(&p)
	}
	p.Put(b, stamp.Unauthenticated)
	return b
}

// testTLV is a question of STAMP.
func testTLV(t *testing.T, value ...byte) []byte {
	t.Helper()
	b, err := stamp.AppendTLV(nil, stamp.FlagUnrecognized, 252, value)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func opened(t *testing.T, p Protocol) *Client {
	t.Helper()
	c, err := Open(p, 0, new(Counters))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// ask asks for so long.
func ask(c *Client, limit time.Duration, list ...*Question) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c.Ask(ctx, list)
}

// Questions that got no answer are sent again, the others are not; all of a batch and more get
// their own answers.
func TestAsk(t *testing.T) {
	deaf := newNode(t, func(number int, b []byte) [][]byte {
		if number == 1 { // lost
			return nil
		}
		return [][]byte{reflected(b, nil)}
	})
	keen := newNode(t, func(_ int, b []byte) [][]byte { return [][]byte{reflected(b, nil), b} })
	c := opened(t, NewStamp(nil))
	const many = 2*batch + 3
	list := []*Question{{Peer: deaf.at(), Value: testTLV(t, 0xff)}}
	for i := range many {
		list = append(list, &Question{Peer: keen.at(), Session: uint16(i), Value: testTLV(t, byte(i))})
	}
	ask(c, enough(), list...)
	for i, q := range list {
		if !bytes.Equal(q.Answer, q.Value) {
			t.Errorf("question %d: %x, want %x", i, q.Answer, q.Value)
		}
	}
	if n, m := deaf.heard(), keen.heard(); n < 2 || m < many {
		t.Errorf("%d and %d questions arrived", n, m)
	}
	before := keen.heard()
	ask(c, enough(), list...) // all have answers
	if n := keen.heard(); n != before {
		t.Errorf("%d questions with an answer were sent", n-before)
	}
}

func enough() time.Duration { return wait.Of(10 * time.Second) }

// Asking ends with its time, and the client can be used again.
func TestAskEnds(t *testing.T) {
	silent := newNode(t, func(int, []byte) [][]byte { return nil })
	keen := newNode(t, func(_ int, b []byte) [][]byte { return [][]byte{reflected(b, nil)} })
	c := opened(t, NewStamp(nil))
	q := &Question{Peer: silent.at(), Value: testTLV(t, 1)}
	ask(c, 2*patience+patience/2, q)
	if q.Answer != nil || silent.heard() != 3 {
		t.Errorf("answer %x; asked %d times, want 3", q.Answer, silent.heard())
	}
	if c.mu.Lock(); len(c.waiting) != 0 {
		t.Error("the question still waits")
	}
	c.mu.Unlock()
	q = &Question{Peer: keen.at(), Value: testTLV(t, 2)}
	if ask(c, enough(), q); !bytes.Equal(q.Answer, q.Value) {
		t.Errorf("answer %x", q.Answer)
	}
	if c.Failed() != nil {
		t.Errorf("%v, but nothing was sent in-band", c.Failed())
	}
}

// Each datagram that is no answer by itself is counted by cause, and the question stays open
// until the right one comes.
func TestWrongReplies(t *testing.T) {
	const mode = stamp.Authenticated
	signed := func(b []byte, change func(*stamp.ReflectorPacket)) []byte {
		sender, err := stamp.DecodeSender(b, mode)
		if err != nil {
			t.Error(err)
			return nil
		}
		p := stamp.ReflectorPacket{Sequence: sender.Sequence, SSID: sender.SSID, Sender: sender}
		if change != nil {
			change(&p)
		}
		p.Put(b, mode)
		stamp.NewAuthenticator(testKey).Sign(b) // of its own: the nodes of two cases run at once
		return b
	}
	for _, tt := range []struct {
		name  string
		wrong func(b []byte) []byte
		want  Outcome
	}{
		{"another number", func(b []byte) []byte {
			return signed(b, func(p *stamp.ReflectorPacket) { p.Sender.Sequence += 1000 })
		}, Unexpected},
		{"another time", func(b []byte) []byte {
			return signed(b, func(p *stamp.ReflectorPacket) { p.Sender.Timestamp ^= 1 })
		}, WrongTime},
		{"no time", func(b []byte) []byte {
			return signed(b, func(p *stamp.ReflectorPacket) { p.Sender.Timestamp = 0 })
		}, WrongTime},
		{"another session", func(b []byte) []byte { return signed(b, func(p *stamp.ReflectorPacket) { p.SSID++ }) }, WrongSession},
		{"no session", func(b []byte) []byte { return signed(b, func(p *stamp.ReflectorPacket) { p.SSID = 0 }) }, WrongSession},
		{"no TLV", func(b []byte) []byte { return signed(b, nil)[:mode.BaseLen()] }, Empty},
		{"cut", func(b []byte) []byte { return signed(b, nil)[:mode.BaseLen()-1] }, Malformed},
		{"nothing", func([]byte) []byte { return []byte{} }, Malformed},
		{"longer than any", func(b []byte) []byte { return append(signed(b, nil), make([]byte, longest)...) }, Malformed},
		{"another key", func(b []byte) []byte {
			signed(b, nil)
			stamp.NewAuthenticator(append([]byte{1}, testKey...)).Sign(b)
			return b
		}, WrongHMAC},
		{"a changed TLV", func(b []byte) []byte {
			b = signed(b, nil)
			b[mode.BaseLen()+4] ^= 1
			return b
		}, TLVIntegrity},
		{"TLVs without an HMAC", func(b []byte) []byte { return signed(b, nil)[:mode.BaseLen()+5] }, TLVIntegrity},
	} {
		sent := make(chan struct{}, 8)
		far := newNode(t, func(number int, b []byte) [][]byte {
			sent <- struct{}{}
			if number == 1 {
				return [][]byte{tt.wrong(bytes.Clone(b))}
			}
			return [][]byte{signed(b, nil)}
		})
		c := opened(t, NewStamp(testKey))
		q := &Question{Peer: far.at(), Session: 5, Value: testTLV(t, 9)}
		ask(c, enough(), q)
		if !bytes.HasPrefix(q.Answer, q.Value) || len(sent) < 2 {
			t.Errorf("%s: answer %x after %d questions", tt.name, q.Answer, len(sent))
		}
		want := [NumOutcomes]uint64{Accepted: 1}
		want[tt.want]++
		if got := c.counters.Counts(); got != want {
			t.Errorf("%s: counted %v, want %v", tt.name, got, want)
		}
	}
}

// A reply from another address than the asked one is no answer.
func TestForeignReplies(t *testing.T) {
	other := newNode(t, func(int, []byte) [][]byte { return nil })
	c := opened(t, NewStamp(nil))
	to := c.socket.Local().Port()
	far := newNode(t, func(_ int, b []byte) [][]byte {
		_, _ = other.WriteToUDPAddrPort(reflected(b, nil), netip.AddrPortFrom(netip.IPv6Loopback(), to))
		return nil
	})
	q := &Question{Peer: far.at(), Value: testTLV(t, 9)}
	if ask(c, patience+patience/2, q); q.Answer != nil || far.heard() == 0 {
		t.Errorf("answer %x; asked %d times", q.Answer, far.heard())
	}
	c.mu.Lock() // the last one may be counted now
	defer c.mu.Unlock()
	if n := c.counters.Counts(); n[Foreign] == 0 || n[Accepted] != 0 {
		t.Errorf("counted %v", n)
	}
}

// datagramOf is a datagram as it arrives.
func datagramOf(b []byte) *udp.Datagram { return &udp.Datagram{Data: b} }

// With a key, replies without its HMACs are none, whichever octet was changed.
func TestAuthenticatedReplies(t *testing.T) {
	s := NewStamp(testKey)
	q := &Question{Value: testTLV(t, 1, 2, 3, 4)}
	packet, id, _ := s.Packet(q)
	auth := stamp.NewAuthenticator(testKey)
	if !auth.Verify(packet) || auth.VerifyTLVs(uint32(id), packet[stamp.Authenticated.BaseLen():]) != stamp.Verified {
		t.Fatal("the question is not authenticated")
	}
	sender, err := stamp.DecodeSender(packet, stamp.Authenticated)
	if err != nil {
		t.Fatal(err)
	}
	reply := stamp.ReflectorPacket{Sequence: 77, SSID: sender.SSID, Sender: sender}
	reply.Put(packet, stamp.Authenticated)
	auth.Sign(packet)
	auth.SignTLVs(77, packet[stamp.Authenticated.BaseLen():])
	if got, ok := s.ID(datagramOf(packet)); !ok || got != id {
		t.Errorf("number %d, %v; want %d", got, ok, id)
	}
	if answer, outcome := s.Answer(datagramOf(packet), q); outcome != Accepted || !bytes.HasPrefix(answer, q.Value) {
		t.Fatalf("answer %x, %v", answer, outcome)
	}
	for i := range packet {
		changed := bytes.Clone(packet)
		changed[i] ^= 0x10
		if answer, outcome := s.Answer(datagramOf(changed), q); outcome == Accepted && !bytes.Equal(answer[:len(q.Value)], q.Value) {
			t.Errorf("octet %d was changed: answer %x", i, answer)
		}
	}
	for length := range packet {
		if _, outcome := s.Answer(datagramOf(packet[:length]), q); outcome == Accepted && length != stamp.Authenticated.BaseLen() {
			t.Errorf("cut to %d octets: an answer", length)
		}
	}
}

// Loss queries are told apart by their numbers, and answered about what was asked.
func TestLossQueries(t *testing.T) {
	asked := lossquery.Query{Transmitted: lossquery.Count{Value: 100, Extended: true, Block: 42}, Control: lossquery.OutOfBand}
	q, l := &Question{Value: asked.Append(nil)}, NewLossQueries()
	first, one, _ := l.Packet(q)
	second, two, _ := l.Packet(q)
	if one == two || bytes.Equal(first, second) || len(first) != lossquery.ResponseLen {
		t.Errorf("%d: %x, %d: %x", one, first, two, second)
	}
	sent, err := lossquery.DecodeQuery(second)
	if err != nil || uint64(sent.Sequence) != two || sent.Transmitted != asked.Transmitted {
		t.Fatalf("%+v, %v", sent, err)
	}
	response := lossquery.Response{Received: 90, Sender: sent, Control: lossquery.Success}
	d := datagramOf(response.Append(nil))
	if id, ok := l.ID(d); !ok || id != two {
		t.Errorf("number %d, %v", id, ok)
	}
	if answer, outcome := l.Answer(d, q); outcome != Accepted || !bytes.Equal(answer, d.Data) {
		t.Errorf("%x, %v", answer, outcome)
	}
	for name, change := range map[string]func(*lossquery.Response){
		"another block":   func(r *lossquery.Response) { r.Sender.Transmitted.Block++ },
		"another counter": func(r *lossquery.Response) { r.Sender.Transmitted.Value++ },
		"octets":          func(r *lossquery.Response) { r.Sender.Transmitted.Octets = true },
	} {
		other := response
		change(&other)
		if _, outcome := l.Answer(datagramOf(other.Append(nil)), q); outcome != WrongSession {
			t.Errorf("%s: %v", name, outcome)
		}
	}
	if id, ok := l.ID(datagramOf(first)); ok && (id == one || id == two) {
		t.Error("a query that comes back is taken for a response")
	}
}

// Loss Measurement messages have growing times, and name the port for the response, unless it
// is to travel in-band.
func TestLossMessages(t *testing.T) {
	source := netip.MustParseAddr("2001:db8::1")
	l := NewLossMessages(func(netip.Addr) (netip.Addr, error) { return source, nil })
	l.port = 4000
	message := rfc6374.Loss{Header: rfc6374.Header{Control: rfc6374.OutOfBandRequested, Session: 9}, Extended: true, Counters: [4]uint64{7}}
	q := &Question{Peer: netip.MustParseAddrPort("[2001:db8::2]:6374"), Session: 9, Value: message.Append(nil)}
	last := uint64(0)
	for range 1000 {
		b, id, failed := l.Packet(q)
		m, err := rfc6374.DecodeLoss(b)
		if failed != nil || err != nil || uint64(m.Origin) != id || id <= last || m.Counters[0] != 7 || m.Session != 9 || m.Response {
			t.Fatalf("%+v, number %d after %d, %v", m, id, last, err)
		}
		last = id
		for tlv, err := range rfc6374.All(m.TLVs) {
			if to, bad := rfc6374.DecodeUDPReturn(tlv.Value); err != nil || bad != nil || to != netip.AddrPortFrom(source, 4000) {
				t.Fatalf("response to %v, %v, %v", to, err, bad)
			}
		}
		if len(m.TLVs) == 0 {
			t.Fatal("no return address")
		}
	}
	response := message
	response.Response, response.Origin, response.Control = true, stamp.Timestamp(last), rfc6374.Success
	d := datagramOf(response.Append(nil))
	if id, ok := l.ID(d); !ok || id != last {
		t.Errorf("number %d, %v", id, ok)
	}
	if answer, outcome := l.Answer(d, q); outcome != Accepted || !bytes.Equal(answer, d.Data) {
		t.Errorf("%x, %v", answer, outcome)
	}
	if _, outcome := l.Answer(d, &Question{Session: 8}); outcome != WrongSession {
		t.Errorf("the response of another session: %v", outcome)
	}
	if _, ok := l.ID(datagramOf(q.Value)); ok {
		t.Error("a query is a response")
	}
	message.Control = rfc6374.InBandRequested
	b, _, _ := l.Packet(&Question{Value: message.Append(nil)})
	if m, err := rfc6374.DecodeLoss(b); err != nil || len(m.TLVs) != 0 {
		t.Errorf("in-band: %+v, %v", m, err)
	}
}

// Whatever arrives, no protocol fails.
func TestRandomReplies(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 862))
	message := rfc6374.Loss{Header: rfc6374.Header{Session: 9}}
	questions := map[Protocol]*Question{
		NewStamp(nil):        {Value: testTLV(t, 1)},
		NewStamp(testKey):    {Value: testTLV(t, 1)},
		NewLossQueries():     {Value: lossquery.Query{}.Append(nil)},
		NewLossMessages(own): {Session: 9, Value: message.Append(nil)},
	}
	for p, q := range questions {
		packet, _, err := p.Packet(q)
		if err != nil {
			t.Fatal(err)
		}
		for range 20_000 {
			b := bytes.Clone(packet[:r.IntN(len(packet)+1)])
			if r.IntN(2) == 0 {
				b = append(b, make([]byte, r.IntN(100))...)
			}
			for range r.IntN(4) {
				if len(b) > 0 {
					b[r.IntN(len(b))] = byte(r.Uint32())
				}
			}
			d := datagramOf(b)
			p.ID(d)
			if answer, outcome := p.Answer(d, q); outcome == Accepted && len(answer) > len(b) {
				t.Fatalf("%T: %x of %x", p, answer, b)
			}
		}
	}
}
