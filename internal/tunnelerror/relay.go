// SPDX-License-Identifier: Apache-2.0

// Package tunnelerror relays ICMPv6 errors about tunneled packets to the sources
// of the inner packets (RFC 2473 §8), because routers send them to the source of
// the tunnel, which is the encapsulating node.
package tunnelerror

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/ioam"
)

const (
	// messagesPerSecond is how many messages are read.
	messagesPerSecond = 5000
	// longest is the maximum length of an error after its IPv6 header (RFC 4443
	// §2.4 c: the minimum MTU).
	longest = 1280 - 40
	// perSecond and burst bound how many errors are relayed (RFC 4443 §2.4 f).
	perSecond = 1000
	burst     = 100

	codeAddress     = 3   // Destination Unreachable: address (RFC 4443 §3.1)
	codePort        = 4   // Destination Unreachable: port; only the destination itself sends this
	extendedAtLeast = 128 // bytes of a quote with extensions after it (RFC 4884 §4.5)
	lengthAt        = 4   // offset of such a quote's length, in units of 8 bytes
)

// Listen receives the errors that may be about a tunneled packet, in the network
// namespace of the calling thread.
func Listen() (*icmpv6.Listener, error) {
	return icmpv6.Listen(longest+1, messagesPerSecond,
		icmpv6.Unreachable, icmpv6.TooBig, icmpv6.TimeExceeded, icmpv6.ParameterProblem)
}

// Result is what happened to an error.
type Result uint8

// The results, each with its name in status and metrics.
const (
	Relayed   Result = iota
	Limited          // more errors than are relayed in a second
	Foreign          // not about a packet that this node encapsulates
	TooShort         // it quotes too little of the inner packet
	Malformed        // not an error, or from an address that no router has
	Outside          // about a packet of this node, but from outside the domain
	TunnelOwn        // caused by the tunnel's headers
	Unsent           // the kernel did not send it
	numResults
)

var resultNames = [numResults]string{"relayed", "limited", "foreign", "too_short", "malformed", "outside", "tunnel_own", "unsent"}

// String is the result's name.
func (r Result) String() string {
	if r >= numResults {
		return "unknown"
	}
	return resultNames[r]
}

// Node is what is known about this node. The reference node is not safe for
// concurrent use.
type Node struct {
	Reference  *reference.Node
	HasAddress func(netip.Addr) bool
	Outside    map[model.IfIndex]bool // devices where no error from inside the domain arrives
}

// Relay relays errors at a bounded rate and counts the results. The zero value is
// ready; it is safe for concurrent use.
type Relay struct {
	mu     sync.Mutex
	counts [numResults]uint64
	tokens float64
	filled time.Time
}

// Hear processes an error that arrived, and sends the inner packet's source its
// error, if there is one to relay.
func (r *Relay) Hear(m icmpv6.Message, node Node, now time.Time, send func(packet []byte) error) Result {
	result := r.relay(m, node, now, send)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[result]++
	return result
}

func (r *Relay) relay(m icmpv6.Message, node Node, now time.Time, send func(packet []byte) error) Result {
	e, result := examine(m, node.Reference)
	switch {
	case (result == Relayed || result == TunnelOwn) && node.Outside[m.Interface]:
		return Outside
	case result != Relayed:
		return result
	case !r.takeToken(now):
		return Limited
	}
	hopLimit := m.HopLimit
	switch own := node.HasAddress(e.inner.Source); {
	case own && !e.inner.Own:
		return Foreign
	case own: // the error has reached its destination
	case hopLimit <= 1:
		return Unsent
	default:
		hopLimit-- // as a router forwards it
	}
	if send(e.assemble(m, hopLimit)) != nil {
		return Unsent
	}
	return Relayed
}

// takeToken takes a token from the bucket, if there is one.
func (r *Relay) takeToken(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.filled.IsZero() {
		r.tokens = burst
	} else if passed := now.Sub(r.filled); passed > 0 {
		r.tokens = min(burst, r.tokens+passed.Seconds()*perSecond)
	}
	r.filled = now
	if r.tokens < 1 {
		return false
	}
	r.tokens--
	return true
}

// Count is how many errors had a result.
type Count struct {
	Result Result
	Errors uint64
}

// Counts lists every result.
func (r *Relay) Counts() []Count {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Count, 0, numResults)
	for result, n := range r.counts {
		out = append(out, Count{Result(result), n})
	}
	return out
}

// quoting is an error about a packet that this node has encapsulated.
type quoting struct {
	inner      reference.Quoted
	extensions []byte // extensions after the quote (RFC 4884 §4)
}

// examine finds out what an error is about; Relayed means that it should be sent
// to the inner packet's source.
func examine(m icmpv6.Message, node *reference.Node) (e quoting, result Result) {
	if len(m.Body) < icmpv6.HeaderLen || len(m.Body) > longest || !isRouters(m.Source) {
		return e, Malformed
	}
	kind, quote := icmpv6.Type(m.Body[0]), m.Body[icmpv6.HeaderLen:]
	switch kind {
	case icmpv6.Unreachable, icmpv6.TimeExceeded:
		quote, e.extensions = splitExtensions(m.Body)
	case icmpv6.TooBig, icmpv6.ParameterProblem:
	default:
		return e, Malformed
	}
	var err error
	e.inner, err = node.Quoted(quote)
	switch {
	case errors.Is(err, reference.ErrQuoteTooShort):
		return e, TooShort
	case err != nil:
		return e, Foreign
	case kind == icmpv6.ParameterProblem, // only the tunnel's end reads beyond the tunnel's headers
		kind == icmpv6.TooBig && int64(e.inner.Length) <= int64(binary.BigEndian.Uint32(m.Body[lengthAt:])):
		return e, TunnelOwn
	}
	return e, Relayed
}

// isRouters reports whether an address may be the source of an error to relay.
func isRouters(a netip.Addr) bool {
	return a.Is6() && !a.Is4In6() && a.Zone() == "" && a.IsGlobalUnicast()
}

// splitExtensions separates an error's quote from the extensions after it (RFC
// 4884 §4); an impossible length means that there are none.
func splitExtensions(body []byte) (quote, extensions []byte) {
	quote = body[icmpv6.HeaderLen:]
	length := 8 * int(body[lengthAt])
	if length < extendedAtLeast || length >= len(quote) {
		return quote, nil
	}
	return quote[:length], quote[length:]
}

// assemble makes the packet that the router would have sent without the tunnel,
// to the source of the inner packet. It is not longer than the error that
// arrived.
func (e quoting) assemble(m icmpv6.Message, hopLimit uint8) []byte {
	source, destination := m.Source.As16(), e.inner.Source.As16()
	packet := []byte{0x60 | m.TrafficClass>>4, m.TrafficClass << 4, 0, 0, 0, 0, byte(ioam.NextHeaderICMPv6), hopLimit}
	packet = append(packet, source[:]...)
	packet = append(packet, destination[:]...)

	head := [icmpv6.HeaderLen]byte(m.Body)
	padding := 0
	switch kind := icmpv6.Type(head[0]); {
	case kind == icmpv6.TooBig:
	case e.extensions == nil:
		head[lengthAt] = 0
	default:
		length := max(extendedAtLeast, (len(e.inner.Packet)+7)&^7)
		head[lengthAt], padding = byte(length/8), length-len(e.inner.Packet)
	}
	if icmpv6.Type(head[0]) == icmpv6.Unreachable && head[1] == codePort {
		head[1] = codeAddress // the tunnel's end refuses the tunnel, not a port (RFC 2473 §8)
	}
	packet = append(packet, head[:]...)
	packet = append(packet, e.inner.Packet...)
	packet = append(packet, make([]byte, padding)...)
	packet = append(packet, e.extensions...)
	icmpv6.Seal(packet)
	return packet
}
