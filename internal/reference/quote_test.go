// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// quotedConfig encapsulates UDP, with a trace and a Direct Export.
func quotedConfig(mode model.Mode) model.NodeConfig {
	return encapConfig(mode, func(e *model.Encapsulation) {
		e.Match = model.Match{Destination: netip.MustParsePrefix("2001:db8:2::/48"), NextHeader: ptr(ioam.NextHeaderUDP)}
		e.Options = append(model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24}),
			model.InsertedOption{DirectExport: &model.DirectExportOption{Namespace: 200, Type: 0x800000, ExtensionFlags: bothExtensions}})
	})
}

// Offsets in a packet that quotedConfig has encapsulated.
const (
	quotedHBH    = 40
	quotedTrace  = quotedHBH + 4  // its option
	quotedExport = quotedHBH + 40 // its option
	quotedInner  = quotedHBH + 64
)

// quotedPacket is what a router inside the domain quotes of a UDP datagram.
func quotedPacket(t testing.TB, config model.NodeConfig) []byte {
	t.Helper()
	result := mustNode(t, config).Egress(egressFrame(ipv6Packet(ioam.NextHeaderUDP, udp(10))))
	if result.Outcome != model.OutcomeEncapTunneled {
		t.Fatal(result.Outcome)
	}
	transit := testConfig()
	transit.ID = 3
	transit.Decapsulations = nil
	quote := mustNode(t, transit).Ingress(Frame{Data: result.Data, Link: LinkNone, Interface: ifIngress, Time: testTime}).Data
	quote[7] = 1
	return quote
}

// put writes bytes into a packet.
func put(at int, values ...byte) func([]byte) []byte {
	return func(p []byte) []byte { copy(p[at:], values); return p }
}

// quoteCase is the valid quote with one thing changed.
type quoteCase struct {
	name   string
	change func([]byte) []byte
	err    error
	want   []byte // nil: the whole inner packet
}

func inside(change func([]byte) []byte) func([]byte) []byte {
	return func(q []byte) []byte {
		return append(q[:quotedInner:quotedInner], change(bytes.Clone(q[quotedInner:]))...)
	}
}

// quotedDatagram is the inner packet as the router received it.
func quotedDatagram() []byte {
	p := ipv6Packet(ioam.NextHeaderUDP, udp(10))
	p[7] = 1
	return p
}

var soundQuotes = []quoteCase{
	{"right", func(q []byte) []byte { return q }, nil, nil},
	{"more is quoted than there was", func(q []byte) []byte { return append(q, 1, 2, 3) }, nil, nil},
	{"traffic class changed on the way", put(0, 0x6b, 0x80), nil, put(0, 0x6b, 0x80)(quotedDatagram())},
	{"overflow", put(quotedTrace+6, 0x14), nil, nil},
	{"all but the last byte", cut(quotedInner + 57), nil, quotedDatagram()[:57]},
	{"a packet still to be cut", func(q []byte) []byte { return put(quotedInner+4, 0xff, 0xf0)(put(4, 0, 0)(q)) }, nil,
		put(4, 0xff, 0xf0)(quotedDatagram())},
	{"8 bytes of UDP", cut(quotedInner + 48), nil, quotedDatagram()[:48]},
}

var shortQuotes = []quoteCase{
	{"7 bytes of UDP", cut(quotedInner + 47), ErrQuoteTooShort, nil},
	{"the inner header", cut(quotedInner + 40), ErrQuoteTooShort, nil},
	{"less than the inner header", cut(quotedInner + 39), ErrQuoteTooShort, nil},
	{"the outer headers", cut(quotedInner), ErrQuoteTooShort, nil},
	{"a part of the Hop-by-Hop header", cut(quotedInner - 1), ErrQuoteTooShort, nil},
	{"the outer header", cut(40), ErrQuoteTooShort, nil},
	{"less than a header", cut(39), ErrQuoteTooShort, nil},
	{"nothing", cut(0), ErrQuoteTooShort, nil},
	{"a part of the inner Hop-by-Hop header", func(q []byte) []byte {
		return put(4, 0, 64+40+140)(put(quotedInner+4, 0, 140, 0)(put(quotedInner+40, 17, 9)(q)))
	}, ErrQuoteTooShort, nil},
}

var foreignQuotes = []quoteCase{
	{"version 4", put(0, 0x45), ErrQuoteForeign, nil},
	{"version 4 inside", put(quotedInner, 0x45), ErrQuoteForeign, nil},
	{"no Hop-by-Hop header", put(6, 41), ErrQuoteForeign, nil},
	{"another tunnel source", put(23, 9), ErrQuoteForeign, nil},
	{"another tunnel destination", put(39, 9), ErrQuoteForeign, nil},
	{"another protocol inside", put(quotedHBH, 17), ErrQuoteForeign, nil},
	{"a shorter Hop-by-Hop header", put(quotedHBH+1, 6), ErrQuoteForeign, nil},
	{"another outer length", put(4, 0, 0), ErrQuoteForeign, nil},
	{"no outer length, and it would fit", put(4, 0, 0), ErrQuoteForeign, nil},
	{"an outer length that cannot be", func(q []byte) []byte { return put(quotedInner+4, 0xff, 0xf0)(put(4, 0, 0x58)(q)) }, ErrQuoteForeign, nil},
	{"another inner length", put(quotedInner+4, 0, 19), ErrQuoteForeign, nil},
	{"another flow label", put(3, 1), ErrQuoteForeign, nil},
	{"hop limit above the inner one", put(7, 65), ErrQuoteForeign, nil},
	{"another option", put(quotedTrace, 0x1e), ErrQuoteForeign, nil},
	{"another namespace", put(quotedTrace+5, 7), ErrQuoteForeign, nil},
	{"another node length", put(quotedTrace+6, 0x18), ErrQuoteForeign, nil},
	{"more room than was made", put(quotedTrace+7, 7), ErrQuoteForeign, nil},
	{"another flag", put(quotedTrace+6, 0x12), ErrQuoteForeign, nil},
	{"another trace type", put(quotedTrace+8, 0x80), ErrQuoteForeign, nil},
	{"another option-type", put(quotedTrace+3, 1), ErrQuoteForeign, nil},
	{"reserved byte of the option", put(quotedTrace+2, 1), ErrQuoteForeign, nil},
	{"reserved byte of the trace", put(quotedTrace+11, 1), ErrQuoteForeign, nil},
	{"Direct Export of another namespace", put(quotedExport+5, 7), ErrQuoteForeign, nil},
	{"Direct Export in 0x31", put(quotedExport, 0x31), ErrQuoteForeign, nil},
	{"Direct Export with flags", put(quotedExport+6, 1), ErrQuoteForeign, nil},
	{"Direct Export with other Extension-Flags", put(quotedExport+7, 0x30), ErrQuoteForeign, nil},
	{"Direct Export of another type", put(quotedExport+8, 0x40), ErrQuoteForeign, nil},
	{"padding only", func(q []byte) []byte { clear(q[quotedHBH+2 : quotedInner]); return q }, ErrQuoteForeign, nil},
	{"an option beyond the header", put(quotedHBH+3, 0xff), ErrQuoteForeign, nil},
	{"IOAM inside", func(q []byte) []byte {
		header := append([]byte{17}, q[quotedHBH+1:quotedInner]...)
		q = append(append(q[:quotedInner+40:quotedInner+40], header...), q[quotedInner+40:]...)
		return put(quotedInner+4, 0, 18+64, 0)(put(4, 0, 64+40+18+64)(q))
	}, ErrQuoteForeign, nil},
	{"no destination of the rule", inside(func(p []byte) []byte { return withDestination(p, netip.MustParseAddr("2001:db8:3::2")) }), ErrQuoteForeign, nil},
	{"no next header of the rule", put(quotedInner+6, 6), ErrQuoteForeign, nil},
	{"to a multicast group", inside(func(p []byte) []byte { return withDestination(p, netip.MustParseAddr("ff0e::1")) }), ErrQuoteForeign, nil},
	{"from nowhere", put(quotedInner+8, make([]byte, 16)...), ErrQuoteForeign, nil},
	{"from a multicast group", put(quotedInner+8, 0xff, 0x0e), ErrQuoteForeign, nil},
	{"from a link-local address", put(quotedInner+8, 0xfe, 0x80), ErrQuoteForeign, nil},
	{"from loopback", put(quotedInner+8, append(make([]byte, 15), 1)...), ErrQuoteForeign, nil},
}

func TestQuoted(t *testing.T) {
	config := quotedConfig(model.ModeEncap)
	for _, test := range slices.Concat(soundQuotes, shortQuotes, foreignQuotes) {
		t.Run(test.name, func(t *testing.T) {
			quote := test.change(quotedPacket(t, config))
			before := bytes.Clone(quote)
			if test.want == nil && test.err == nil {
				test.want = quotedDatagram()
			}
			got, err := mustNode(t, config).Quoted(quote)
			if !errors.Is(err, test.err) || !bytes.Equal(got.Packet, test.want) {
				t.Errorf("%x, %v; want %x, %v", got.Packet, err, test.want, test.err)
			}
			if err == nil &&
				(got.Length != 40+int(binary.BigEndian.Uint16(test.want[4:])) || got.Removed != quotedInner ||
					got.Source.String() != "2001:db8:1::2" || !got.Own) {
				t.Errorf("%+v", got)
			}
			if !bytes.Equal(quote, before) {
				t.Error("the quote changed")
			}
		})
	}
}

// A packet that no rule encapsulates now, or ever did, is not ours.
func TestQuotedOfOthers(t *testing.T) {
	right := quotedConfig(model.ModeEncap)
	quote := quotedPacket(t, right)
	for _, test := range []struct {
		name   string
		change func(*model.NodeConfig)
		ok     bool
	}{
		{"unchanged", func(*model.NodeConfig) {}, true},
		{"no encapsulation", func(c *model.NodeConfig) { c.Encapsulations = nil }, false},
		{"inline", func(c *model.NodeConfig) { c.Encapsulations = quotedConfig(model.ModeInline).Encapsulations }, false},
		{"a longer prefix goes elsewhere", func(c *model.NodeConfig) {
			other := c.Encapsulations[0]
			other.Name, other.TunnelDestination = "other", netip.MustParseAddr("2001:db8:f::9")
			other.Match.Destination = netip.MustParsePrefix("2001:db8:2::/64")
			c.Encapsulations = append(c.Encapsulations, other)
		}, false},
		{"a longer prefix has other options", func(c *model.NodeConfig) {
			other := c.Encapsulations[0]
			other.Name, other.Options = "other", other.Options[:1]
			other.Match.Destination = netip.MustParsePrefix("2001:db8:2::/64")
			c.Encapsulations = append(c.Encapsulations, other)
		}, false},
		{"to a collector", func(c *model.NodeConfig) {
			c.Collectors = []model.Collector{{Address: netip.MustParseAddr("2001:db8:2::2"), Port: 9, Protocol: ioam.NextHeaderUDP}}
		}, false},
		{"another port of the collector", func(c *model.NodeConfig) {
			c.Collectors = []model.Collector{{Address: netip.MustParseAddr("2001:db8:2::2"), Port: 10, Protocol: ioam.NextHeaderUDP}}
		}, true},
	} {
		config := quotedConfig(model.ModeEncap)
		test.change(&config)
		if _, err := mustNode(t, config).Quoted(quote); (err == nil) != test.ok || err != nil && !errors.Is(err, ErrQuoteForeign) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	// only selected flows match
	selected := 0
	config := quotedConfig(model.ModeEncap)
	config.Encapsulations[0].Flows = 4
	node := mustNode(t, config)
	for port := range uint16(400) {
		q := bytes.Clone(quote)
		binary.BigEndian.PutUint16(q[quotedInner+40:], port)
		frame := egressFrame(q[quotedInner:])
		frame.Data[7] = 64
		tunneled := node.Egress(frame).Outcome == model.OutcomeEncapTunneled
		if _, err := node.Quoted(q); (err == nil) != tunneled {
			t.Fatalf("port %d: %v, tunneled %v", port, err, tunneled)
		} else if tunneled {
			selected++
		}
	}
	if selected < 50 || selected > 150 {
		t.Errorf("%d of 400 flows", selected)
	}
}

// A trace may have the Loopback flag only if its encapsulation asks for copies, which it does in
// one of N packets (RFC 9322 §4.1.1).
func TestQuotedThatAsksForCopies(t *testing.T) {
	for _, test := range []struct {
		name     string
		loopback uint32
		flags    byte
		err      error
	}{
		{"it asks", 100, 0x4, nil},
		{"it asks, and found no room", 100, 0xc, nil},
		{"this one does not ask", 100, 0, nil},
		{"none asks", 0, 0x4, ErrQuoteForeign},
		{"a probe", 100, 0x6, ErrQuoteForeign},
	} {
		config := quotedConfig(model.ModeEncap)
		config.Encapsulations[0].Options[0].Trace.Type, config.Encapsulations[0].Options[0].Trace.Size = model.LoopbackType, 24
		quote := quotedPacket(t, config)
		quote[quotedTrace+6] = quote[quotedTrace+6]&0xf8 | test.flags>>1
		quote[quotedTrace+7] = quote[quotedTrace+7]&0x7f | test.flags<<7
		config.Encapsulations[0].Options[0].Trace.Loopback = test.loopback
		if _, err := mustNode(t, config).Quoted(quote); !errors.Is(err, test.err) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestQuotedInControl(t *testing.T) {
	config := quotedConfig(model.ModeAuto)
	config.Encapsulations[0].Match.NextHeader = nil
	quote := quotedPacket(t, config)
	if got, err := mustNode(t, config).Quoted(quote); err != nil || got.Own {
		t.Errorf("mode auto: %+v, %v", got, err)
	}
	for kind, ok := range map[byte]bool{1: false, 3: false, 127: false, 128: true, 129: true, 135: false} {
		q := bytes.Clone(quote)
		q[quotedInner+6], q[quotedInner+40] = 58, kind
		if _, err := mustNode(t, config).Quoted(q); (err == nil) != ok {
			t.Errorf("ICMPv6 of type %d: %v", kind, err)
		}
	}
}

// A node recognizes every packet that it encapsulated, whatever nodes on the path
// wrote into it, and recovers the original packet.
func TestQuotedRandomly(t *testing.T) {
	s := randomSource{rand.New(rand.NewPCG(2473, 4443))}
	known := 0
	for range 30_000 {
		config := randomConfig(s)
		packet := randomPacket(s)
		if len(packet) < 48 || len(packet) != 40+int(binary.BigEndian.Uint16(packet[4:])) {
			continue
		}
		result := mustNode(
			t,
			config,
		).Egress(Frame{Data: packet, Link: LinkNone, Interface: ifEgress, Ingress: oneOf(s, 0, ifIngress), Time: testTime})
		if result.Outcome != model.OutcomeEncapTunneled {
			continue
		}
		quote := result.Data
		for range s.below(6) {
			if quote[7] > 1 {
				quote[7]--
			}
			next := testConfig()
			next.ID, next.Decapsulations, next.Namespaces[2].Remove = ioam.NodeID(10+s.below(9)), nil, false
			quote = mustNode(t, next).Ingress(Frame{Data: quote, Link: LinkNone, Interface: ifIngress, Time: testTime}).Data
		}
		got, err := mustNode(t, config).Quoted(quote)
		if len(mustParse(t, packet, LinkNone).options) > 0 { // which this node generated
			if !errors.Is(err, ErrQuoteForeign) {
				t.Fatalf("IOAM would go to the sender: %v", err)
			}
			continue
		}
		want := bytes.Clone(packet)
		want[7] = quote[7]
		if err != nil || !bytes.Equal(got.Packet, want) || got.Length != len(packet) {
			t.Fatalf("of\n%x in\n%x\n%+v, %v", packet, quote, got, err)
		}
		known++
	}
	if known < 500 {
		t.Errorf("only %d packets were in tunnels", known)
	}
}

// FuzzQuoted never panics; a quote that it accepts is of a packet that this node
// encapsulates, and the result holds no byte of the removed headers.
func FuzzQuoted(f *testing.F) {
	right := quotedPacket(f, quotedConfig(model.ModeEncap))
	for _, n := range []int{0, 39, 40, 41, quotedInner, quotedInner + 40, quotedInner + 48, len(right)} {
		f.Add(right[:n])
	}
	f.Fuzz(func(t *testing.T, quote []byte) {
		config := quotedConfig(model.ModeEncap)
		got, err := mustNode(t, config).Quoted(quote)
		if err != nil {
			if got.Packet != nil || !errors.Is(err, ErrQuoteForeign) && !errors.Is(err, ErrQuoteTooShort) {
				t.Fatalf("%+v, %v", got, err)
			}
			return
		}
		inner := quote[got.Removed:]
		if got.Removed != quotedInner || len(got.Packet) > got.Length || len(got.Packet) > len(inner) ||
			!bytes.Equal(got.Packet[8:], inner[8:len(got.Packet)]) || !bytes.Equal(got.Packet[2:7], inner[2:7]) {
			t.Fatalf("%x: %+v", quote, got)
		}
		whole := append(bytes.Clone(inner[:len(got.Packet)]), make([]byte, got.Length-len(got.Packet))...)
		config.Interfaces[1].MTU = 0
		if result := mustNode(t, config).Egress(egressFrame(whole)); result.Outcome != model.OutcomeEncapTunneled &&
			result.Outcome != model.OutcomeEncapSkippedMTU {
			t.Fatalf("%x: this node would not encapsulate it: %v", quote, result.Outcome)
		}
	})
}
