// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/pathtrace/copies"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/udp"
)

const (
	longestError = 1280 // octets of an error (RFC 4443 §2.4)
	mostErrors   = 20_000
	longest      = 512 // octets of an answer
	readBatch    = 64  // answers of one read
)

// sockets are one for each flow, so that each has its source port.
type sockets struct {
	list       []*udp.Socket
	next       int // to be read
	generation int
}

// open opens the sockets of the configuration.
func (m *Monitor) open() (*sockets, error) {
	m.mu.Lock()
	s, source, header, flows := &sockets{generation: m.generation}, m.config.Source, m.header, m.config.Flows
	m.mu.Unlock()
	for range flows {
		one, err := udp.Listen(
			udp.Config{Local: netip.AddrPortFrom(source, 0), Batch: readBatch, Size: longest, HopByHop: header, Unpolled: true},
		)
		if err != nil {
			s.close()
			return nil, err
		}
		s.list = append(s.list, one)
	}
	return s, nil
}

func (s *sockets) close() {
	for _, one := range s.list {
		one.Close()
	}
}

// readEvery is how often a socket is read, less than the time after which a probe is overdue. The
// kernel keeps when datagrams came, so reading them together is cheaper and no less exact.
const readEvery = leastWait / 2

// due is how many sockets are to be read after a pause, so that each has its turn in time.
func (s *sockets) due(pause time.Duration) int {
	n := len(s.list)
	if pause <= 0 {
		return n
	}
	return min(n, int((time.Duration(n)*pause+readEvery-1)/readEvery))
}

// send is the wire of the kernel. An error of the socket is one of each datagram.
func (s *sockets) send(flow int, list []udp.Datagram) {
	if err := s.list[flow].Send(list); err != nil {
		for i := range list {
			list[i].Err = err
		}
	}
}

// Run sends probes and takes answers until the context ends. It calls notify after it has added events.
func (m *Monitor) Run(ctx context.Context, notify func()) error {
	errors, err := icmpv6.Listen(longestError, mostErrors, icmpv6.Unreachable, icmpv6.TooBig, icmpv6.TimeExceeded, icmpv6.ParameterProblem)
	if err != nil {
		return problem.Wrap(err, "it needs root or CAP_NET_RAW")
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = errors.Read(ctx, func(one icmpv6.Message) { // without errors there are still answers
			now := m.Now()
			m.mu.Lock()
			defer m.mu.Unlock()
			m.icmp(one, now)
		})
	}()
	defer func() {
		cancel()
		errors.Close()
		<-ended
	}()
	stop, err := m.hearCopies()
	if err != nil {
		return err
	}
	defer func() { stop() }()
	s, err := m.open()
	if err != nil {
		return err
	}
	defer func() { s.close() }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	list, pause, any := make([]udp.Datagram, 0, batch), time.Duration(0), false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		for range s.due(pause) {
			if err := m.receive(s.list[s.next]); err != nil {
				return err
			}
			s.next = (s.next + 1) % len(s.list)
		}
		m.mu.Lock()
		anew := m.generation != s.generation
		if !anew {
			list = m.step(m.Now, s, list)
		}
		any, pause = len(m.events) > 0, m.pause()
		m.mu.Unlock()
		if anew {
			s.close()
			if s, err = m.open(); err != nil {
				s = &sockets{}
				return err
			}
			pause = 0
		}
		if any {
			notify()
		}
		timer.Reset(pause)
	}
}

// hearCopies takes the copies that nodes return, until stop is called. It listens whether or not they
// are asked for now: another configuration may ask.
func (m *Monitor) hearCopies() (stop func(), err error) {
	conn, err := copies.Listen()
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		copies.Receive(conn, func(from netip.Addr, header []byte) {
			now := m.Now()
			m.mu.Lock()
			defer m.mu.Unlock()
			m.copied(from, header, now)
		})
	}()
	return func() { conn.Close(); <-ended }, nil
}

// receive takes the answers that came to a socket. The kernel says when they did, by a clock that
// may be set, so only the time since then counts.
func (m *Monitor) receive(s *udp.Socket) error {
	for {
		list, err := s.TryReceive()
		if err != nil || len(list) == 0 {
			return err
		}
		m.mu.Lock()
		read, now := time.Now(), m.Now()
		for i := range list {
			d := &list[i]
			if d.Cut {
				m.counts.Malformed++
				continue
			}
			ago := time.Duration(0)
			if d.Received != 0 {
				ago = min(max(time.Duration(read.UnixNano()-d.Received), 0), m.config.Timeout)
			}
			m.answered(d.Data, d.Peer, max(now-ago, 0))
		}
		m.mu.Unlock()
		if len(list) < readBatch {
			return nil // there was no more; asking again would be a system call for nothing
		}
	}
}
