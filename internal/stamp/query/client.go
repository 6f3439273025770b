// SPDX-License-Identifier: Apache-2.0

// Package query asks other nodes what they counted of measured flows, by STAMP (RFC 8972),
// by loss queries of TWAMP Light, or by Loss Measurement messages (RFC 6374), and measures
// the delay of flows with test packets of STAMP. Packets travel as they are routed, or
// through a flow's segments.
package query

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/inband"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

const (
	batch   = 32   // packets of one system call
	longest = 1500 // octets of a packet
	// patience is how long a reply may take before the question is sent again.
	patience = 250 * time.Millisecond
)

// Question is a question to another node.
type Question struct {
	Peer    netip.AddrPort
	Session uint16       // of the flow that it is about; 0: none
	Path    *inband.Path // nil: as routed
	Value   []byte       // what is asked, as the protocol says

	Answer []byte // as the protocol says; nil until there is one

	sent stamp.SenderPacket // that asked it last, by STAMP
}

// SourceTo finds the source of packets to an address, where their answers then go.
type SourceTo func(netip.Addr) (netip.Addr, error)

// Protocol makes packets of questions, and finds the answers in replies. The methods of
// replies are called by another goroutine than Packet.
type Protocol interface {
	// Packet is a packet of a question, and a number that tells it apart from others. An
	// error is that of a SourceTo.
	Packet(q *Question) (packet []byte, id uint64, err error)
	// ID is the number of the packet that a datagram answers.
	ID(d *udp.Datagram) (id uint64, ok bool)
	// Answer is the answer to the question, if the datagram is Accepted.
	Answer(d *udp.Datagram, q *Question) ([]byte, Outcome)
}

// Client asks. One goroutine may use it.
type Client struct {
	link
	protocol Protocol

	mu      sync.Mutex
	waiting map[uint64]*Question
	arrived chan struct{}
	done    chan struct{}
}

// Open opens a socket with a port, 0 for any, in the network namespace of the calling
// thread. Replies are counted, and questions that were not sent.
func Open(p Protocol, port uint16, counters *Counters) (*Client, error) {
	l, err := open(port, counters)
	if err != nil {
		return nil, err
	}
	if m, ok := p.(*LossMessages); ok {
		m.port = l.socket.Local().Port()
	}
	c := &Client{link: l, protocol: p, waiting: make(map[uint64]*Question), arrived: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.receive(c.reply, c.arrived)
	}()
	return c, nil
}

// Close ends the client.
func (c *Client) Close() { c.close(c.done) }

// Ask sends the questions, again those without an answer, until all are answered or
// the context ends.
func (c *Client) Ask(ctx context.Context, list []*Question) {
	for {
		open := c.send(list)
		if open == 0 {
			return
		}
		if !c.await(ctx) {
			c.forget()
			return
		}
	}
}

// await waits until all waiting questions are answered, or it is time to ask again;
// false: the context has ended.
func (c *Client) await(ctx context.Context) bool {
	again := time.NewTimer(patience)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-again.C:
			return true
		case <-c.arrived:
			c.mu.Lock()
			open := len(c.waiting)
			c.mu.Unlock()
			if open == 0 {
				return true
			}
		}
	}
}

func (c *Client) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.waiting)
}

// send sends the questions that have no answer, and returns how many there are.
func (c *Client) send(list []*Question) (open int) {
	c.forget()
	var out []udp.Datagram
	for _, q := range list {
		c.mu.Lock()
		answered := q.Answer != nil
		c.mu.Unlock()
		if answered {
			continue
		}
		open++
		packet, id, err := c.protocol.Packet(q)
		if err != nil {
			c.counters.NotSent(NoSource)
			continue
		}
		c.mu.Lock()
		c.waiting[id] = q
		c.mu.Unlock()
		if q.Path != nil {
			c.sendThrough(q.Path, packet, q.Peer, 0)
			continue
		}
		if out = append(out, udp.Datagram{Data: packet, Peer: q.Peer}); len(out) == batch {
			c.routed(out...)
			out = out[:0]
		}
	}
	c.routed(out...)
	return open
}

// reply takes an answer from a reply to a question that waits.
func (c *Client) reply(d *udp.Datagram) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counters.add(c.acceptDatagram(d))
}

// acceptDatagram is called with c.mu held.
func (c *Client) acceptDatagram(d *udp.Datagram) Outcome {
	id, ok := c.protocol.ID(d)
	if !ok || d.Cut {
		return Malformed
	}
	q := c.waiting[id]
	switch {
	case q == nil:
		return Unexpected
	case d.Peer != q.Peer:
		return Foreign
	}
	answer, outcome := c.protocol.Answer(d, q)
	if outcome == Accepted {
		q.Answer = append([]byte{}, answer...)
		delete(c.waiting, id)
	}
	return outcome
}

// link sends packets and receives replies.
type link struct {
	socket   *udp.Socket
	counters *Counters
	along    *inband.Sender // nil until a packet has a path
	failed   error          // why packets cannot be sent through a path
}

func open(port uint16, counters *Counters) (link, error) {
	s, err := udp.Listen(udp.Config{Local: netip.AddrPortFrom(netip.IPv6Unspecified(), port), Batch: batch, Size: longest})
	return link{socket: s, counters: counters}, err
}

func (l *link) close(done chan struct{}) {
	l.socket.SetDeadline(time.Unix(1, 0))
	<-done
	l.socket.Close()
	if l.along != nil {
		l.along.Close()
	}
}

// sendThrough sends a packet through a path. What cannot be sent is counted, and lost as on the
// way.
func (l *link) sendThrough(path *inband.Path, packet []byte, peer netip.AddrPort, class uint8) (sent int) {
	if l.along == nil {
		if l.along, l.failed = inband.NewSender(); l.failed != nil {
			_, cure := problem.Of(l.failed)
			l.failed = problem.Wrap(l.failed, cure+", or set probes: out-of-band")
		}
	}
	if l.along == nil {
		l.counters.NotSent(NoPath)
		return 0
	}
	if err := l.along.Send(path, l.socket.Local().Port(), peer, class, packet); err != nil {
		l.counters.NotSent(SendFailed)
		return 0
	}
	return 1
}

// Failed is why packets cannot be sent through segments; nil unless one was tried.
func (l *link) Failed() error { return l.failed }

// routed sends packets as they are routed, and counts those that cannot be sent.
func (l *link) routed(list ...udp.Datagram) (sent int) {
	if len(list) == 0 || l.socket.Send(list) != nil { // it is closed
		return 0
	}
	for i := range list {
		if list[i].Err != nil {
			l.counters.NotSent(SendFailed)
		} else {
			sent++
		}
	}
	return sent
}

// receive reads replies until the deadline.
func (l *link) receive(reply func(*udp.Datagram), arrived chan<- struct{}) {
	for {
		list, err := l.socket.Receive()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			return
		case err != nil: // of one packet, or of the moment
			time.Sleep(patience)
			continue
		}
		for i := range list {
			reply(&list[i])
		}
		select {
		case arrived <- struct{}{}:
		default:
		}
	}
}
