// SPDX-License-Identifier: Apache-2.0

// Package copies has the probes that ask all nodes on their way for copies (RFC 9322 §4), and reads
// what comes back: how far a probe got, within a round trip and without ICMPv6 errors.
package copies

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/loopback"
	"github.com/waymark-net/waymark/ioam"
)

const (
	// HopLimit is that of probes that ask for copies. Those of copies are much greater, so the
	// trace shows where the way back begins.
	HopLimit = 64
	// Nodes is for how many nodes their trace has room, there and back.
	Nodes = 60
	// Type is the only trace type with which nodes return copies (RFC 9322 §4.1).
	Type ioam.TraceType = 0x800000
	// NonceLen and NumberLen are of what identifies a probe: copies have no payload.
	NonceLen, NumberLen = 8, 4
)

// Header makes the Hop-by-Hop header of a probe that asks for copies. It has two traces. The first one
// has both flags, and this host is its first hop. The second one identifies the probe: it says that it
// has no room (RFC 9197 §4.4.1), so no node writes into it.
func Header(next ioam.NextHeader, namespace ioam.NamespaceID) ([]byte, error) {
	way := ioam.Trace{
		Namespace: namespace, NodeLen: uint8(Type.NodeLen()), Flags: ioam.FlagLoopback | ioam.FlagActive,
		RemainingLen: Nodes - 1, Type: Type, Data: make([]byte, 4*Nodes),
	}
	// A host has no node id; the hop limit is as sent.
	binary.BigEndian.PutUint32(way.Data[4*(Nodes-1):], HopLimit<<24|uint32(ioam.NodeIDUnavailable))
	id := ioam.Trace{
		Namespace: namespace, NodeLen: uint8(Type.NodeLen()), Flags: ioam.FlagOverflow, Type: Type, Data: make([]byte, NonceLen+NumberLen),
	}
	return ioam.AppendExtensionHeader(nil, next, way.Option(), id.Option())
}

// Identify writes what identifies a probe into its header, at the end of the last option.
func Identify(header []byte, nonce [NonceLen]byte, number uint32) []byte {
	const wayLen, idLen = 4 + ioam.TraceHeaderLen + 4*Nodes, 4 + ioam.TraceHeaderLen + NonceLen + NumberLen
	at := 4 + wayLen + idLen - NonceLen - NumberLen
	copy(header[at:], nonce[:])
	binary.BigEndian.PutUint32(header[at+NonceLen:], number)
	return header
}

// Listen opens a socket for packets that have nothing after their headers.
func Listen() (*net.IPConn, error) {
	conn, err := net.ListenIP(fmt.Sprintf("ip6:%d", unix.IPPROTO_NONE), &net.IPAddr{IP: net.IPv6unspecified})
	if err != nil {
		return nil, fmt.Errorf("listen for copies: %w", err)
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		var fault error
		err = raw.Control(func(fd uintptr) {
			fault = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVHOPOPTS, 1)
		})
		if err == nil {
			err = fault
		}
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("listen for copies: %w", err)
	}
	return conn, nil
}

// Receive passes on the Hop-by-Hop headers of what arrives, until the socket is closed.
func Receive(conn *net.IPConn, heard func(from netip.Addr, header []byte)) {
	var data [64]byte
	oob := make([]byte, 4096)
	for {
		_, n, _, from, err := conn.ReadMsgIP(data[:], oob)
		if err != nil {
			return
		}
		messages, err := unix.ParseSocketControlMessage(oob[:n])
		source, ok := netip.AddrFromSlice(from.IP)
		if err != nil || !ok {
			continue
		}
		for _, m := range messages {
			if m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_HOPOPTS {
				heard(source, m.Data)
			}
		}
	}
}

// Find finds the two traces of a probe that was sent with a nonce. Their memory is their own.
func Find(header []byte, namespace ioam.NamespaceID, nonce [NonceLen]byte) (way ioam.Trace, number uint32, ok bool) {
	h, err := ioam.DecodeExtensionHeader(append([]byte(nil), header...))
	if err != nil {
		return way, 0, false
	}
	found := 0
	for option, err := range h.Options() {
		if err != nil {
			return way, 0, false
		}
		if option.Type != ioam.OptionIOAM {
			continue
		}
		o, err := option.IOAM()
		if err != nil || o.Type != ioam.IOAMPreallocatedTrace {
			continue
		}
		trace, err := o.Trace()
		if err != nil || trace.Check() != nil || trace.Namespace != namespace || trace.Type != Type {
			continue
		}
		switch {
		case len(trace.Data) == 4*Nodes && trace.Flags&ioam.FlagLoopback == 0:
			way = trace
			found |= 1
		case len(trace.Data) == NonceLen+NumberLen && [NonceLen]byte(trace.Data) == nonce:
			number = binary.BigEndian.Uint32(trace.Data[NonceLen:])
			found |= 2
		}
	}
	return way, number, found == 3
}

// There is the part of a way up to the node that returned the copy, without this host, and the hop
// limit with which the probe left that node; false: it makes no sense.
func There(way ioam.Trace) (there ioam.Trace, last uint8, ok bool) {
	read, err := loopback.Read(way)
	if err != nil || len(read.There) < 2 {
		return there, 0, false
	}
	first, _ := read.There[0].HopLimit()
	last, _ = read.There[len(read.There)-1].HopLimit()
	if first != HopLimit {
		return there, 0, false
	}
	there = way
	there.RemainingLen, there.Flags = 0, 0
	there.Data = way.Data[len(way.Data)-4*len(read.There) : len(way.Data)-4]
	return there, last, true
}
