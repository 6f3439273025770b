// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/pathtrace/endpoint"
	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/internal/pathtrace/paths"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

var (
	key    = []byte("0123456789abcdef")
	source = netip.MustParseAddr("2001:db8::1")
	router = netip.MustParseAddr("2001:db8::7")
)

// waitingFor makes a run in which one probe waits for its reply.
func waitingFor(t *testing.T, change func(*Config)) (*Prober, message.ID) {
	t.Helper()
	c := Config{
		Destination: netip.MustParseAddr("2001:db8::2"),
		Port:        message.Port,
		Namespace:   123,
		Type:        0xf80000,
		Nodes:       3,
		Flows:       2,
		Count:       1,
		Timeout:     time.Second,
	}
	change(&c)
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	p.number = 7
	id := message.ID{Nonce: p.nonce, Number: 7, Flow: 1, HopLimit: hopLimit}
	p.waiting[7] = waiting{flow: 1, hops: hopLimit, sent: time.Now()}
	p.order = []uint32{7}
	p.paths.Sent(1)
	return p, id
}

// Each kind of answer that must not be used has its cause; the right one is used once.
func TestHostileAnswers(t *testing.T) {
	trace := func(p *Prober) []byte { return message.TraceOf(p.header) }
	for _, tt := range []struct {
		name   string
		key    []byte
		change func(*Prober, *message.Answer, *udp.Datagram)
		bytes  func([]byte) []byte
		want   Ignored
		used   bool
	}{
		{name: "right", used: true},
		{name: "right, with a key", key: key, used: true},
		{name: "without the trace", change: func(_ *Prober, a *message.Answer, _ *udp.Datagram) { a.Trace = nil }, used: true},
		{name: "another run's", change: func(_ *Prober, a *message.Answer, _ *udp.Datagram) { a.Nonce[0]++ }, want: Foreign},
		{name: "another node's", change: func(_ *Prober, _ *message.Answer, d *udp.Datagram) {
			d.Peer = netip.AddrPortFrom(router, message.Port)
		}, want: Foreign},
		{name: "another port's", change: func(_ *Prober, _ *message.Answer, d *udp.Datagram) {
			d.Peer = netip.AddrPortFrom(d.Peer.Addr(), 53)
		}, want: Foreign},
		{name: "to no probe", change: func(_ *Prober, a *message.Answer, _ *udp.Datagram) { a.Number++ }, want: Repeated},
		{name: "to another flow", change: func(_ *Prober, a *message.Answer, _ *udp.Datagram) { a.Flow = 60_000 }, want: Repeated},
		{name: "to another hop limit", change: func(_ *Prober, a *message.Answer, _ *udp.Datagram) { a.ID.HopLimit-- }, want: Repeated},
		{name: "cut", bytes: func(b []byte) []byte { return b[:len(b)-1] }, want: Malformed},
		{name: "empty", bytes: func(b []byte) []byte { return nil }, want: Malformed},
		{name: "long", bytes: func(b []byte) []byte { return append(b, make([]byte, 400)...) }, want: Malformed},
		{name: "too long for the buffer", change: func(_ *Prober, _ *message.Answer, d *udp.Datagram) { d.Cut = true }, want: Malformed},
		{name: "not the probe's trace", change: func(p *Prober, a *message.Answer, _ *udp.Datagram) {
			a.Trace = slices.Clone(a.Trace)
			a.Trace[0]++ // the namespace
		}, want: Malformed},
		{name: "a larger trace", change: func(p *Prober, a *message.Answer, _ *udp.Datagram) {
			a.Trace = append(slices.Clone(a.Trace), make([]byte, 20)...)
		}, want: Malformed},
		{name: "wrong MAC", key: key, bytes: func(b []byte) []byte { b[44]++; return b }, want: Forged},
	} {
		p, id := waitingFor(t, func(c *Config) { c.Key = tt.key })
		a := message.Answer{ID: id, HopLimit: 250, Received: time.Now(), Trace: trace(p)}
		d := udp.Datagram{Peer: netip.AddrPortFrom(p.config.Destination, p.config.Port)}
		if tt.change != nil {
			tt.change(p, &a, &d)
		}
		if d.Data = message.AppendAnswer(nil, a, tt.key); tt.bytes != nil {
			d.Data = tt.bytes(d.Data)
		}
		p.answered(&d, time.Now())
		var want [numIgnored]uint64
		if !tt.used {
			want[tt.want]++
		}
		if r := p.Report(); p.ignored != want || tt.used != (len(r.Paths) == 1) || tt.used == (len(p.waiting) == 1) {
			t.Errorf("%s: ignored %v, %d paths, %d wait", tt.name, p.ignored, len(r.Paths), len(p.waiting))
		}
		if tt.used { // a replay
			p.answered(&d, time.Now())
			if want[Repeated]++; p.ignored != want || p.Report().Paths[0].Sent != 1 {
				t.Errorf("%s, replayed: ignored %v", tt.name, p.ignored)
			}
		}
	}
}

// quote is an error about a probe that arrived with a hop limit.
func quote(p *Prober, id message.ID, kind icmpv6.Type, code uint8, arrived uint8) []byte {
	payload := make([]byte, headerLen, 100)
	payload = message.AppendProbe(payload, id, nil)
	h := craft.IPv6{HopLimit: arrived, Source: source, Destination: p.config.Destination}
	next := ioam.NextHeaderUDP
	extension := slices.Clone(p.header)
	extension[0] = byte(next)
	return append([]byte{byte(kind), code, 0, 0, 0, 0, 0, 0}, h.With(extension, payload)...)
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kind   icmpv6.Type
		code   uint8
		from   netip.Addr
		change func([]byte) []byte
		paths  int
		broken string
	}{
		{"the port is closed", icmpv6.Unreachable, icmpv6.PortUnreachable, netip.MustParseAddr("2001:db8::2"), nil, 1, ""},
		{"a firewall says so", icmpv6.Unreachable, icmpv6.PortUnreachable, router, nil, 0, "port unreachable from 2001:db8::7"},
		{"no route", icmpv6.Unreachable, 0, router, nil, 0, "no route from 2001:db8::7"},
		{"too big", icmpv6.TooBig, 0, router, nil, 0, "packet too big from 2001:db8::7"},
		{"a loop", icmpv6.TimeExceeded, 0, router, nil, 0, "hop limit exceeded from 2001:db8::7"},
		{"of an unknown code", icmpv6.Unreachable, 200, router, nil, 0, "ICMPv6 error 1, code 200 from 2001:db8::7"},
		{"to another node", icmpv6.TimeExceeded, 0, router, func(b []byte) []byte { b[8+39]++; return b }, 0, "-"},
		{"of another run", icmpv6.TimeExceeded, 0, router, func(b []byte) []byte { b[8+40+80+8+8]++; return b }, 0, "-"},
		{"of another protocol", icmpv6.TimeExceeded, 0, router, func(b []byte) []byte { b[8+40]++; return b }, 0, "-"},
	} {
		p, id := waitingFor(t, func(*Config) {})
		b := quote(p, id, tt.kind, tt.code, 250)
		for n := range len(b) { // cut at any place
			if n < len(b)-24 {
				p.handleICMP(icmpv6.Message{Body: b[:n], Source: tt.from})
			}
		}
		if len(p.waiting) != 1 {
			t.Errorf("%s: an error that is cut is taken", tt.name)
		}
		if tt.change != nil {
			b = tt.change(b)
		}
		p.handleICMP(icmpv6.Message{Body: b, Source: tt.from})
		r := p.Report()
		if ignored := tt.broken == "-"; len(r.Paths) != tt.paths || ignored != (len(p.waiting) == 1) {
			t.Errorf("%s: %d paths, %d wait", tt.name, len(r.Paths), len(p.waiting))
		}
		if tt.broken != "" && tt.broken != "-" && (len(r.Broken) != 1 || r.Broken[0].Error != tt.broken || len(r.Broken[0].Hops) != 6) {
			t.Errorf("%s: %+v", tt.name, r.Broken)
		}
	}
}

// A run against an endpoint of this machine, over the kernel: with and without a key, and
// with the wrong one.
func TestRun(t *testing.T) {
	local := netip.AddrPortFrom(netip.IPv6Loopback(), 0)
	e := endpoint.New(endpoint.Config{Local: local, Allowed: []netip.Prefix{netip.MustParsePrefix("::1/128")}, Rate: 100_000, Key: key})
	if err := e.Open(); err != nil {
		t.Fatal(err)
	}
	go e.Run(t.Context())
	for _, tt := range []struct {
		name string
		key  []byte
		echo bool
		lost uint64
	}{{"right key", key, false, 0}, {"no key", nil, false, 12}, {"echo", nil, true, 0}} {
		c := Config{
			Destination: netip.IPv6Loopback(), Port: e.Local().Port(), Namespace: 123, Type: 0xf80000, Nodes: 12, Flows: 4, Count: 3,
			Interval: time.Millisecond, Timeout: patience.Of(200 * time.Millisecond), MaxHops: 2, Key: tt.key, Echo: tt.echo,
		}
		p := run(t, c)
		r := p.Report()
		if r.Sent != 12 || r.Lost != tt.lost || r.Live || len(p.waiting) != 0 || (tt.lost == 0) != (len(r.Paths) == 1) {
			t.Errorf("%s: %s", tt.name, r.Text(columns.Screen{}))
		}
		if tt.lost == 0 && (len(r.Paths[0].Flows) != 4 || !r.Paths[0].Endpoint || len(r.Paths[0].Hops) != 1) {
			t.Errorf("%s: %+v", tt.name, r.Paths[0])
		}
	}
	if n := e.Counts(); n[endpoint.Answered] != 12 || n[endpoint.Forged] < 12 {
		t.Errorf("the endpoint counted %v", n)
	}
}

// run traces to the end.
func run(t *testing.T, c Config) *Prober {
	t.Helper()
	p, err := New(c)
	if err == nil {
		err = p.Open()
	}
	if err == nil {
		err = p.Run(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A run that nothing answers says so long before it ends; one that is answered does not.
func TestSilence(t *testing.T) {
	local := netip.AddrPortFrom(netip.IPv6Loopback(), 0)
	e := endpoint.New(endpoint.Config{Local: local, Allowed: []netip.Prefix{netip.MustParsePrefix("::1/128")}, Rate: 100_000, Key: key})
	if err := e.Open(); err != nil {
		t.Fatal(err)
	}
	go e.Run(t.Context())
	for name, right := range map[string]bool{"right key": true, "wrong key": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reports := make(chan *paths.Report, 2)
			c := Config{
				Destination: netip.IPv6Loopback(), Port: e.Local().Port(), Namespace: 123, Type: 0xf80000, Nodes: 12, Flows: 2, Count: 2,
				Interval: Silence, Timeout: 500 * time.Millisecond, Key: key, Silent: func(r *paths.Report) { reports <- r },
			}
			if !right {
				c.Key = []byte("another key of 16")
			}
			run(t, c)
			if n := len(reports); (n == 0) != right || n > 1 {
				t.Fatalf("told %d times", n)
			}
			if !right {
				if r := <-reports; len(r.Paths) != 0 || !r.Live {
					t.Errorf("%s", r.Text(columns.Screen{}))
				}
			}
		})
	}
}

// An interrupted run counts what it does not know as neither arrived nor lost.
func TestInterrupted(t *testing.T) {
	p, _ := waitingFor(t, func(*Config) {})
	p.giveUp(time.Time{})
	if r := p.Report(); r.Sent != 0 || r.Lost != 0 || len(r.Broken) != 0 {
		t.Errorf("%+v", r)
	}
}
