// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/loopback"
	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/internal/pathtrace/paths"
	"github.com/waymark-net/waymark/ioam"
)

const (
	// askHopLimit is the hop limit of probes that ask for copies. Those of copies are much
	// greater, so the trace shows where the way back begins.
	askHopLimit = 64
	// askNodes is for how many nodes their trace has room, there and back.
	askNodes = 60
	// loopbackType is the only trace type with which nodes return copies (RFC 9322 §4.1).
	loopbackType ioam.TraceType = 0x800000
	// nonceLen and numberLen are of what identifies a probe: copies have no payload.
	nonceLen, numberLen = 8, 4
)

// askingHeader makes the Hop-by-Hop header of a probe that asks for copies: a trace with
// both flags, in which this host is the first hop, and another one that no node writes into,
// because it says that it has no room (RFC 9197 §4.4.1): it identifies the probe.
func askingHeader(next ioam.NextHeader, namespace ioam.NamespaceID) ([]byte, error) {
	way := ioam.Trace{
		Namespace: namespace, NodeLen: uint8(loopbackType.NodeLen()), Flags: ioam.FlagLoopback | ioam.FlagActive,
		RemainingLen: askNodes - 1, Type: loopbackType, Data: make([]byte, 4*askNodes),
	}
	// A host has no node id; the hop limit is as sent.
	binary.BigEndian.PutUint32(way.Data[4*(askNodes-1):], askHopLimit<<24|uint32(ioam.NodeIDUnavailable))
	id := ioam.Trace{
		Namespace: namespace, NodeLen: uint8(loopbackType.NodeLen()), Flags: ioam.FlagOverflow, Type: loopbackType, Data: make([]byte, nonceLen+numberLen),
	}
	return ioam.AppendExtensionHeader(nil, next, way.Option(), id.Option())
}

// identify writes what identifies a probe into its header, at the end of the last option.
func identify(header []byte, nonce [nonceLen]byte, number uint32) []byte {
	const wayLen, idLen = 4 + ioam.TraceHeaderLen + 4*askNodes, 4 + ioam.TraceHeaderLen + nonceLen + numberLen
	at := 4 + wayLen + idLen - nonceLen - numberLen
	copy(header[at:], nonce[:])
	binary.BigEndian.PutUint32(header[at+nonceLen:], number)
	return header
}

// listenForCopies opens a socket for packets that have nothing after their headers.
func listenForCopies() (*net.IPConn, error) {
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

// asked is a probe that asked for copies.
type asked struct {
	flow int
	sent time.Time // with the steady clock
}

const (
	// leastWait is the least time for which answers to these probes are awaited: the first
	// packets of a flow may wait for neighbour discovery, and their readers for a processor.
	leastWait = 50 * time.Millisecond
	// roundTrips is for how many of the longest round trips: the destination may be as far
	// from the last node that returned a copy as that is from here.
	roundTrips = 2
)

// probeLoopback sends a probe with the Loopback flag in each flow, and then tells which of them were
// not answered.
func (p *Prober) probeLoopback(ctx context.Context) {
	ticker := time.NewTicker(p.config.Interval)
	defer ticker.Stop()
	for i := range p.flows {
		if i > 0 && !tick(ctx, ticker.C) {
			return
		}
		p.sendAsking(i)
	}
	wait, done := p.awaitAnswers(ctx, time.Now())
	if done {
		return
	}
	p.mu.Lock()
	for i, f := range p.flows {
		if !f.answered {
			p.paths.Unanswered(i, wait)
		}
	}
	p.mu.Unlock()
	if p.config.Unanswered != nil {
		p.config.Unanswered(p.Report())
	}
}

// awaitAnswers waits until all flows are answered, or for as long as answers may take: the
// round trips that copies show say how long that is.
func (p *Prober) awaitAnswers(ctx context.Context, sent time.Time) (waited time.Duration, done bool) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		p.mu.Lock()
		wait := min(max(leastWait, roundTrips*p.longest), p.config.Timeout)
		done = true
		for _, f := range p.flows {
			done = done && f.answered
		}
		p.mu.Unlock()
		if done || time.Since(sent) >= wait {
			return wait, done
		}
		if !tick(ctx, ticker.C) {
			return 0, true
		}
	}
}

func (p *Prober) sendAsking(number int) {
	f := &p.flows[number]
	p.mu.Lock()
	p.number++
	id := message.ID{Nonce: p.nonce, Number: p.number, Flow: uint16(number), HopLimit: askHopLimit}
	p.waiting[id.Number] = waiting{flow: number, hops: askHopLimit, sent: time.Now(), walk: true, asks: true}
	p.order = append(p.order, id.Number)
	p.asked[id.Number] = asked{number, time.Now()}
	p.mu.Unlock()
	payload := message.AppendProbe(nil, id, p.config.Key)
	header := identify(append([]byte(nil), p.askers...), p.nonce, id.Number)
	var err error
	if p.config.Echo {
		err = p.echo.Send(p.echoRequest(f, id, header, payload))
	} else {
		// By the socket of the flow: the kernel chooses among equal paths as for its other probes.
		err = f.send(p.config, header, payload, askHopLimit)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed = err
		delete(p.waiting, id.Number)
		delete(p.asked, id.Number)
	}
}

// readCopies takes copies until the socket is closed.
func (p *Prober) readCopies() {
	var data [64]byte
	oob := make([]byte, 4096)
	for {
		_, n, _, from, err := p.copies.ReadMsgIP(data[:], oob)
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
				p.returned(source, m.Data)
			}
		}
	}
}

// returned takes a copy from a node, given its Hop-by-Hop header. Those of other runs are
// none of its business.
func (p *Prober) returned(from netip.Addr, header []byte) {
	way, number, ok := p.readCopy(header)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	probe, ok := p.asked[number]
	if !ok {
		p.ignored[Repeated]++
		return
	}
	read, err := loopback.Read(way)
	if err != nil || len(read.There) < 2 {
		p.ignored[Malformed]++
		return
	}
	first, _ := read.There[0].HopLimit()
	last, _ := read.There[len(read.There)-1].HopLimit()
	if first != askHopLimit {
		p.ignored[Malformed]++
		return
	}
	// Its nodes are those after this host, up to the one that returned the copy.
	there := way
	there.RemainingLen, there.Flags = 0, 0
	there.Data = way.Data[len(way.Data)-4*len(read.There) : len(way.Data)-4]
	p.copied++
	p.longest = max(p.longest, time.Since(probe.sent))
	p.paths.Walked(probe.flow, paths.Reply{Kind: paths.Copied, From: from, SentHops: askHopLimit, Arrived: last + 1, Trace: &there})
}

// readCopy finds the two traces of a probe of this run. Their memory is their own.
func (p *Prober) readCopy(header []byte) (way ioam.Trace, number uint32, ok bool) {
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
		if err != nil || trace.Check() != nil || trace.Namespace != p.config.Namespace || trace.Type != loopbackType {
			continue
		}
		switch {
		case len(trace.Data) == 4*askNodes && trace.Flags&ioam.FlagLoopback == 0:
			way = trace
			found |= 1
		case len(trace.Data) == nonceLen+numberLen && [nonceLen]byte(trace.Data) == p.nonce:
			number = binary.BigEndian.Uint32(trace.Data[nonceLen:])
			found |= 2
		}
	}
	return way, number, found == 3
}
