// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
)

// lastReply is how long the receiver waits after the last packet.
var lastReply = patience.Of(2 * time.Second)

// portFreed is how long an exchange waits for a port that an earlier one has closed: a
// process being started briefly holds a copy of its socket.
var portFreed = patience.Of(time.Second)

const (
	// slowestTransfer is the minimum rate of a TCP transfer in bytes per second, from
	// which its time limit follows.
	slowestTransfer = 4 << 20
	transferGrace   = 15 * time.Second
)

// TrafficResult is the result of an exchange.
type TrafficResult struct {
	Sent      int           // packets (ping, udp)
	Received  int           // distinct packets that arrived (udp) or were answered (ping)
	Duplicate int           // packets that arrived again
	Late      int           // packets that arrived after a later one
	Bytes     int64         // payload that arrived unchanged
	Duration  time.Duration // from the first packet to the last
	RoundTrip []time.Duration
}

// Lost is the number of packets that did not arrive.
func (r TrafficResult) Lost() int { return r.Sent - r.Received }

// Send runs one exchange of the topology, or one made up by the caller, between two
// nodes. It ends when everything has arrived or its time is up; losses are in the
// result, not in the error.
func (l *Lab) Send(ctx context.Context, t Traffic) (TrafficResult, error) {
	from, to := l.Node(t.From), l.Node(t.To)
	if from == nil || to == nil {
		return TrafficResult{}, fmt.Errorf("traffic from %q to %q: the lab has no such node", t.From, t.To)
	}
	source, ok := l.topology.Address(t.From)
	destination, ok2 := l.topology.Address(t.To)
	if t.Address.IsValid() {
		destination, ok2 = t.Address, true
	}
	if !ok || !ok2 {
		return TrafficResult{}, fmt.Errorf("traffic from %s to %s: both need an address", t.From, t.To)
	}
	ctx, cancel := context.WithTimeout(ctx, t.limit())
	defer cancel()
	e := exchange{Traffic: t, from: from, to: to, source: source, destination: destination}
	var r TrafficResult
	var err error
	switch t.Kind {
	case KindPing:
		r, err = e.ping(ctx)
	case KindUDP:
		r, err = e.udp(ctx)
	case KindTCP:
		r, err = e.tcp(ctx)
	default:
		err = errors.New("the kind is ping, udp or tcp")
	}
	if err != nil {
		return r, fmt.Errorf("%s from %s to %s: %w", t.Kind, t.From, t.To, err)
	}
	return r, nil
}

// limit is the time that an exchange may take.
func (t Traffic) limit() time.Duration {
	if t.Kind == KindTCP {
		return patience.Of(transferGrace + time.Duration(t.Bytes/slowestTransfer)*time.Second)
	}
	return patience.Of(time.Duration(t.Count)*(t.Interval+time.Millisecond)) + 2*lastReply
}

// exchange is one running piece of traffic.
type exchange struct {
	Traffic
	from, to            *Node
	source, destination netip.Addr
}

// tally counts numbered packets as they arrive.
type tally struct {
	seen    []bool
	highest int
	result  TrafficResult
}

func newTally(count int) *tally { return &tally{seen: make([]bool, count), highest: -1} }

// countNumber counts packet number n; false when it was not sent by this lab.
func (t *tally) countNumber(n uint64) bool {
	if n >= uint64(len(t.seen)) {
		return false
	}
	i := int(n)
	if t.seen[i] {
		t.result.Duplicate++
		return true
	}
	t.seen[i] = true
	t.result.Received++
	if i < t.highest {
		t.result.Late++
	}
	t.highest = max(t.highest, i)
	return true
}

func (t *tally) complete() bool { return t.result.Received == len(t.seen) }

// pace sends count packets, one per interval, and returns the number sent.
func pace(ctx context.Context, count int, interval time.Duration, send func(i int) error) (int, error) {
	start := time.Now()
	for i := range count {
		if wait := time.Until(start.Add(time.Duration(i) * interval)); wait > 0 {
			if err := sleep(ctx, wait); err != nil {
				return i, err
			}
		}
		if err := ctx.Err(); err != nil {
			return i, err
		}
		if err := send(i); err != nil {
			return i, err
		}
	}
	return count, nil
}

// listen calls open until the port is free.
func listen(open func() error) error {
	for until := time.Now().Add(portFreed); ; time.Sleep(time.Millisecond) {
		err := open()
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until) {
			return err
		}
	}
}
