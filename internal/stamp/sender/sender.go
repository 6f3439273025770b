// SPDX-License-Identifier: Apache-2.0

package sender

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/inband"
	"github.com/waymark-net/waymark/internal/stamp/measure"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// ErrNoSSID ends a session whose reflector does not know RFC 8972.
var ErrNoSSID error = problem.New(
	"the reflector returns no SSID, so it does not support RFC 8972",
	"let the session go on without --need-ssid, or use another reflector",
)

// Sender is one session.
type Sender struct {
	config Config
	mode   stamp.Mode
	socket *udp.Socket
	path   inband.Path
	along  *inband.Sender // through the path; nil without segments

	packets  [batch][]byte // each with the template's TLVs
	asked    uint16        // the types of its TLVs
	counter  int           // where the Direct Measurement's counter is, 0 without one
	outgoing []udp.Datagram
	sign     *stamp.Authenticator // of the goroutine that sends; nil without a key
	verify   *stamp.Authenticator // of the one that receives

	mu         sync.Mutex // for what follows
	session    *measure.Session
	clock      *clock.Clock
	now        func() clock.Instant
	replyFacts replyFacts
	failed     uint64 // packets that the kernel did not send
	failure    error  // the last reason
}

// New makes a sender.
func New(c Config) (*Sender, error) {
	template, err := c.template()
	if err != nil {
		return nil, err
	}
	s := &Sender{
		config:     c,
		mode:       c.mode(),
		clock:      clock.New(c.Format),
		replyFacts: replyFacts{errors: make(map[string]uint64)},
		outgoing:   make([]udp.Datagram, 0, batch),
	}
	s.now = s.clock.Now
	for i := range s.packets {
		s.packets[i] = append([]byte(nil), template...)
	}
	for t := range stamp.TLVs(template[s.mode.BaseLen():]) {
		s.asked |= typeBit(t.Type())
		if t.Type() == stamp.TypeDirectMeasurement {
			s.counter = s.mode.BaseLen() + t.Offset + stamp.TLVHeaderLen
		}
	}
	if len(c.Key) > 0 {
		s.sign, s.verify = stamp.NewAuthenticator(c.Key), stamp.NewAuthenticator(c.Key)
	}
	// Twice what can wait, so that replies after the timeout are known as late.
	window := float64(2*c.Timeout)/float64(max(c.Interval, time.Microsecond)) + 2*batch
	s.session = measure.NewSession(c.Knowledge, c.First, int(min(window, measure.MaxWindow)), c.Timeout)
	return s, nil
}

// Open opens the socket.
func (s *Sender) Open() error {
	socket, err := udp.Listen(udp.Config{Local: netip.AddrPortFrom(s.config.Local, 0), Batch: batch, Size: longest, Refused: s.refused})
	if err != nil {
		return err
	}
	s.socket = socket
	if err := s.openPath(); err != nil {
		return errors.Join(err, s.socket.Close())
	}
	return nil
}

// refused notes an ICMPv6 error about a packet.
func (s *Sender) refused(r udp.Refusal) {
	if r.Peer.Port() != s.config.Remote.Port() {
		return // about a packet that this socket did not send
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replyFacts.errors[icmpv6.ErrorName(icmpv6.Type(r.Type), r.Code)]++
	s.replyFacts.lastError = r
}

// Run sends all packets and waits for their replies, or until the context ends.
func (s *Sender) Run(ctx context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	received := make(chan error, 1)
	go func() {
		defer cancel()
		received <- s.receive()
	}()
	err := s.sendAll(inner)
	if err == nil {
		s.await(inner)
	}
	s.socket.SetDeadline(time.Unix(1, 0))
	if fault := <-received; err == nil {
		err = fault
	}
	return errors.Join(err, s.close())
}

// farBehind is how late packets may be and still be sent, all at once: this process may
// not run for a while. After a longer pause, as of a suspended machine, the schedule
// moves on instead, because a burst would harm the network and the measurement.
const farBehind = 100 * time.Millisecond

// sendAll sends packets when they are due.
func (s *Sender) sendAll(ctx context.Context) error {
	begin := time.Now()
	for sent := uint64(0); ; {
		if late := time.Since(begin) - time.Duration(sent)*s.config.Interval; late > farBehind {
			begin = begin.Add(late)
		}
		due := uint64(time.Since(begin)/s.config.Interval) + 1
		if s.config.Count > 0 {
			due = min(due, s.config.Count)
		}
		for sent < due && ctx.Err() == nil {
			n := int(min(due-sent, batch))
			if s.counter > 0 {
				n = 1 // its counter is right only if it is known which packets left before
			}
			if err := s.send(n); err != nil {
				return err
			}
			sent += uint64(n)
		}
		if s.config.Count > 0 && sent >= s.config.Count {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(begin.Add(time.Duration(sent) * s.config.Interval))):
		}
	}
}

// await waits until no reply can come in time.
func (s *Sender) await(ctx context.Context) {
	const step = 2 * time.Millisecond
	for s.waiting() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(step):
		}
	}
}

func (s *Sender) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session.Waiting(s.now().Steady)
}

// send sends n packets at once.
func (s *Sender) send(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.Look(s.now())
	s.outgoing = s.outgoing[:0]
	numbers := [batch]uint32{}
	for i := range n {
		now := s.now()
		p := stamp.SenderPacket{Timestamp: s.clock.Timestamp(now.Wall), Error: s.clock.Estimate(), SSID: s.config.SSID}
		p.Sequence = s.session.Send(now.Wall, now.Steady, uint64(p.Timestamp))
		numbers[i] = p.Sequence
		s.fill(s.packets[i], p, s.session.Sent())
		s.outgoing = append(
			s.outgoing,
			udp.Datagram{Data: s.packets[i], Peer: s.config.Remote, Scope: s.config.Scope, TrafficClass: s.config.DSCP << 2},
		)
	}
	if err := s.transmit(); err != nil {
		return err
	}
	for i, d := range slices.Backward(s.outgoing) { // so that the last numbers are used again
		if d.Err != nil {
			s.session.Unsent(numbers[i])
			s.failed, s.failure = s.failed+1, d.Err
		}
	}
	return nil
}

// fill writes what differs between packets; transmitted counts this one, too (RFC 8972
// §4.5).
func (s *Sender) fill(b []byte, p stamp.SenderPacket, transmitted uint64) {
	p.Put(b, s.mode)
	if s.counter > 0 {
		m := stamp.DirectMeasurement{SenderTransmitted: uint32(transmitted)}
		m.Append(b[s.counter:s.counter])
	}
	if s.sign == nil {
		return
	}
	s.sign.SignTLVs(p.Sequence, b[s.mode.BaseLen():])
	if s.mode == stamp.Authenticated {
		s.sign.Sign(b)
	}
}

// receive reads replies until its deadline, and then those that came before it.
func (s *Sender) receive() error {
	for {
		list, err := s.socket.Receive()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return s.drain()
		case err != nil:
			return fmt.Errorf("receive replies: %w", err)
		}
		if err := s.handleReplies(list); err != nil {
			return err
		}
	}
}

// drain reads the replies that the socket has at the end: if this process did not run
// for a while, they came in time and were not read yet.
func (s *Sender) drain() error {
	end := time.Now().UnixNano()
	for {
		list, err := s.socket.TryReceive()
		if err != nil {
			return fmt.Errorf("receive replies: %w", err)
		}
		if len(list) == 0 {
			return nil
		}
		if err := s.handleReplies(list); err != nil || list[len(list)-1].Received > end {
			return err
		}
	}
}

func (s *Sender) handleReplies(list []udp.Datagram) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for i := range list {
		d := &list[i]
		if d.Received == 0 {
			d.Received = now.Wall
		}
		// The kernel stamps by the wall clock alone.
		if s.reply(d, now.Steady-max(0, now.Wall-d.Received)); s.config.NeedSSID && s.replyFacts.refused[withoutSSID] > 0 {
			return ErrNoSSID
		}
	}
	return nil
}
