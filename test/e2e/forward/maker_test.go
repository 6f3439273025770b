// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// fastChain is `chain` with an agent that has every treatment, and with a
// narrower link after the router.
const fastChain = `
name: chain
permanent-neighbours: true
nodes:
  - {name: alpha, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: router
    agent:
      node: {id: 2, id-wide: 22222222}
      interfaces:
        - {name: eth0, id: 201, id-wide: 201201, role: [ingress, egress], forwarding: fast}
        - {name: eth1, id: 202, id-wide: 202202, role: [ingress, egress], forwarding: fast}
      namespaces:
        - {id: 123, data: 0xdeadbeef, data-wide: 0xcafec0caf00dc0de}
        - {id: 124, schema: {id: 777, data: "rack 7, row 3"}}
        - {id: 456, remove: true}
      encapsulations:
        - name: tunnelled
          interface: eth1
          match: {destination-port: 7000}
          mode: encap
          tunnel: {source: 2001:db8:1::1, destination: 2001:db8:2::2}
          options: [{trace: {namespace: 123, type: 0xc4e000, size: 80}}]
        - name: inline
          interface: eth1
          match: {destination-port: 7001}
          mode: inline
          options: [{trace: {namespace: 124, type: 0x804002, size: 60}}, {trace: {namespace: 123, type: 0x800000, size: 8}}]
      decapsulations:
        - {tunnel-destination: "2001:db8:2::9"}
  - {name: beta, routes: [{to: "::/0", via: 2001:db8:2::1}]}
links:
  - ends:
      - {node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}
      - {node: router, interface: eth0, addresses: 2001:db8:1::1/64}
  - mtu: 1400
    ends:
      - {node: router, interface: eth1, addresses: 2001:db8:2::1/64}
      - {node: beta, interface: eth0, addresses: 2001:db8:2::2/64}
`

// maker makes packets from alpha to beta of every kind that a router may receive.
type maker struct{ *rand.Rand }

func (m maker) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(m.Uint32())
	}
	return b
}

// upper is an upper-layer packet: mostly ports, then random bytes.
func (m maker) upper(next byte) []byte {
	body := binary.BigEndian.AppendUint16(nil, uint16(m.Uint32()))
	body = binary.BigEndian.AppendUint16(body, []uint16{7000, 7001, 9000}[m.IntN(3)])
	if next == 58 {
		body[0] = []byte{128, 129, 1, 3}[m.IntN(4)]
	}
	return append(body, m.bytes(m.IntN([]int{60, 600, 1500}[m.IntN(3)]))...)
}

// trace is an option with room for more or less than what the router writes; none
// of its fields is a time or a queue depth. Each node's data include its id:
// where tunnels end, only fast forwarding recognizes data without an id as its
// own.
func (m maker) trace() ioam.Option {
	kind := ioam.TraceType(m.Uint32()) & 0xc4e002
	if kind == 0 || m.IntN(3) == 0 {
		kind = 0xc00000
	}
	if !kind.Has(ioam.BitNode) && !kind.Has(ioam.BitNodeWide) {
		kind |= 0x800000
	}
	words := m.IntN(30)
	return ioam.Trace{
		Namespace: ioam.NamespaceID([]int{123, 124, 456, 999}[m.IntN(4)]), NodeLen: uint8(kind.NodeLen()), Type: kind,
		Flags: ioam.TraceFlags(max(m.IntN(12)-8, 0)), RemainingLen: uint8(m.IntN(words + 1)), Data: m.bytes(4 * words),
	}.Option()
}

// hopByHop is a header with one or more traces.
func (m maker) hopByHop(t *testing.T, next byte) []byte {
	t.Helper()
	options := []ioam.Option{m.trace()}
	for m.IntN(4) == 0 {
		options = append(options, m.trace())
	}
	if m.IntN(8) == 0 { // an unknown option that nodes skip
		options = append(options, ioam.Option{Type: 0x1e, Data: m.bytes(6)})
	}
	h, err := ioam.AppendExtensionHeader(nil, ioam.NextHeader(next), options...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// packet makes a random packet; its flow label is its number.
func (m maker) packet(t *testing.T, number int) []byte {
	next := []byte{6, 17, 17, 17, 58, 59, 132, 253}[m.IntN(8)]
	body := m.upper(next)
	for m.IntN(4) == 0 {
		kind := []byte{43, 60, 44, 51}[m.IntN(4)]
		header := append([]byte{next, 0}, m.bytes(6)...)
		if kind == 43 {
			header[3] = 0 // no segments left
		}
		next, body = kind, append(header, body...)
	}
	source, destination := e2e.LeftAddress, e2e.RightAddress
	if m.IntN(5) == 0 { // a packet to the router itself
		inner := m.header(number, next, len(body), source, destination)
		next, body = 41, append(inner, body...)
		destination = netip.MustParseAddr("2001:db8:2::9")
	}
	if m.IntN(2) == 0 {
		body = append(m.hopByHop(t, next), body...)
		next = 0
	}
	if m.IntN(10) == 0 {
		source = []netip.Addr{netip.MustParseAddr("fe80::1"), netip.MustParseAddr("2001:db8:1::77"), netip.MustParseAddr("::1"),
			netip.MustParseAddr("2001:db8:77::1")}[m.IntN(4)]
	}
	p := append(m.header(number, next, len(body), source, destination), body...)
	if m.IntN(20) == 0 {
		p = append(p, m.bytes(1+m.IntN(20))...) // padding as on a link
	}
	return p[:min(len(p), 1500)] // longer packets are truncated
}

func (m maker) header(number int, next byte, length int, source, destination netip.Addr) []byte {
	h := craft.IPv6{Class: uint8(m.Uint32()), Label: uint32(number), Next: next, Source: source, Destination: destination}
	h.HopLimit = []byte{1, 2, 64, 64, 64, 255}[m.IntN(6)]
	return h.Header(length)
}

// randomPackets makes packets numbered from 1.
func randomPackets(t *testing.T, count int) (packets [][]byte) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := maker{rand.New(rand.NewPCG(seed, 0))}
	for number := 1; number <= count; number++ {
		packets = append(packets, m.packet(t, number))
	}
	return packets
}

func dump(frames [][]byte) string {
	var out strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&out, "%d bytes\n%s", len(f), hex.Dump(f[:min(len(f), 250)]))
	}
	return out.String()
}
