// SPDX-License-Identifier: Apache-2.0

// Package query asks STAMP reflectors of other nodes for counters, in a TLV of a test
// packet (RFC 8972).
package query

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

const (
	batch   = 32   // packets of one system call
	longest = 1500 // octets of a packet
	// patience is how long a reply may take before the question is sent again.
	patience = 250 * time.Millisecond
)

// Question is a TLV for a reflector.
type Question struct {
	Peer  netip.AddrPort
	Type  stamp.Type
	Value []byte

	Answer []byte // the TLV's value in the reply; nil until there is one
}

// Client asks. One goroutine may use it.
type Client struct {
	socket *udp.Socket
	clock  *clock.Clock
	next   uint32
	ssid   stamp.SSID
	mode   stamp.Mode
	sign   *stamp.Authenticator // nil without a key
	verify *stamp.Authenticator // of the goroutine that receives

	mu      sync.Mutex
	waiting map[uint32]*Question
	arrived chan struct{}
	done    chan struct{}
}

// Open opens a socket in the network namespace of the calling thread. Replies of other
// sessions have another SSID. With a key, questions and answers are authenticated.
func Open(ssid stamp.SSID, key []byte) (*Client, error) {
	s, err := udp.Listen(udp.Config{Batch: batch, Size: longest})
	if err != nil {
		return nil, err
	}
	c := &Client{
		socket: s, clock: clock.New(stamp.NTP), ssid: ssid, waiting: make(map[uint32]*Question),
		arrived: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if len(key) > 0 {
		c.mode, c.sign, c.verify = stamp.Authenticated, stamp.NewAuthenticator(key), stamp.NewAuthenticator(key)
	}
	go c.receive()
	return c, nil
}

// Close ends the client.
func (c *Client) Close() {
	c.socket.SetDeadline(time.Unix(1, 0))
	<-c.done
	c.socket.Close()
}

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
	flush := func() {
		_ = c.socket.Send(out) // what was not sent is sent again
		out = out[:0]
	}
	c.clock.Look(c.clock.Now())
	for _, q := range list {
		c.mu.Lock()
		answered := q.Answer != nil
		if !answered {
			c.next++
			c.waiting[c.next] = q
		}
		c.mu.Unlock()
		if answered {
			continue
		}
		open++
		out = append(out, udp.Datagram{Data: c.packet(q), Peer: q.Peer})
		if len(out) == batch {
			flush()
		}
	}
	if len(out) > 0 {
		flush()
	}
	return open
}

func (c *Client) packet(q *Question) []byte {
	p := stamp.SenderPacket{Sequence: c.next, Timestamp: c.clock.Timestamp(c.clock.Now().Wall), Error: c.clock.Estimate(), SSID: c.ssid}
	b := make([]byte, c.mode.BaseLen(), longest)
	p.Put(b, c.mode)
	b, _ = stamp.AppendTLV(b, stamp.FlagUnrecognized, q.Type, q.Value) // a value is never too long
	if c.sign != nil {
		b, _ = stamp.AppendTLV(b, stamp.FlagUnrecognized, stamp.TypeHMAC, make([]byte, stamp.HMACLen))
		c.sign.SignTLVs(p.Sequence, b[c.mode.BaseLen():])
		c.sign.Sign(b)
	}
	return b
}

// receive reads replies until the deadline.
func (c *Client) receive() {
	defer close(c.done)
	for {
		list, err := c.socket.Receive()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			return
		case err != nil: // of one packet, or of the moment
			time.Sleep(patience)
			continue
		}
		for i := range list {
			c.reply(&list[i])
		}
		select {
		case c.arrived <- struct{}{}:
		default:
		}
	}
}

// reply takes an answer from a reply to a question that waits.
func (c *Client) reply(d *udp.Datagram) {
	p, err := stamp.DecodeReflector(d.Data, c.mode)
	if err != nil || p.SSID != c.ssid {
		return
	}
	tlvs := d.Data[c.mode.BaseLen():]
	if c.verify != nil && (!c.verify.Verify(d.Data) || c.verify.VerifyTLVs(p.Sequence, tlvs) != stamp.Verified) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.waiting[p.Sender.Sequence]
	if q == nil || d.Peer != q.Peer {
		return
	}
	for t, err := range stamp.TLVs(tlvs) {
		if err != nil {
			return
		}
		if t.Type() == q.Type && t.Flags() == 0 {
			q.Answer = append([]byte{}, t.Value()...)
			delete(c.waiting, p.Sender.Sequence)
			return
		}
	}
}
