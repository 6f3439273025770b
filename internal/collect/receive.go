// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/ipfix"
)

// mostArrivals is how many messages wait for the joining stage, each of at most 64 KiB. Beyond it,
// sockets are not read: the kernel's buffers fill, and exporters over TCP wait.
const mostArrivals = 256

// arrival is a message of a session, or the end of one.
type arrival struct {
	session *ipfix.Session
	from    join.Exporter
	at      time.Time
	octets  int
	message *ipfix.Message // nil: it was not understood
	err     error          // why not
	read    []read         // the records of the message, if they were read ahead
	over    bool           // the session has ended; err is that of its stream
}

// records is how many records a message has.
func (a *arrival) records() int {
	if a.message == nil {
		return 0
	}
	return a.message.Records
}

// receiving is the first stage: sockets, sessions, and the messages in them.
type receiving struct {
	config   *Config
	decoder  *ipfix.Decoder
	tcp      connections
	sockets  []listener
	arrivals chan arrival

	counting sync.Mutex
	received Received

	notes notes
}

// notes keeps senders from filling a log.
type notes struct {
	mu   sync.Mutex
	next time.Time
}

// noteSpan is the time between two notes about senders; the rest is only counted.
const noteSpan = time.Second

// reportToOperator writes a note about what a sender did, unless it wrote one within noteSpan.
func (c *receiving) reportToOperator(format string, args ...any) {
	c.notes.mu.Lock()
	defer c.notes.mu.Unlock()
	if now := time.Now(); !now.Before(c.notes.next) {
		c.notes.next = now.Add(noteSpan)
		c.config.Notify(slog.LevelWarn, fmt.Sprintf(format, args...))
	}
}

// listener is an open socket.
type listener interface {
	Endpoint() Endpoint
	serve(ctx context.Context) error
	end() // makes serve read pending input, and return
	Close() error
}

// decode decodes a message of a session. The arrival refers to the octets.
func (c *receiving) decode(s *ipfix.Session, from join.Exporter, octets []byte) arrival {
	a := arrival{session: s, from: from, at: time.Now(), octets: len(octets)}
	if a.message, a.err = s.Decode(octets, a.at); errors.Is(a.err, ipfix.ErrSessionLimit) || errors.Is(a.err, ipfix.ErrSessionClosed) {
		c.count(func(r *Received) { r.SessionsRefused++ })
	}
	return a
}

// receive decodes a message and passes it on. It reports whether the message was good, at least in
// parts.
func (c *receiving) receive(s *ipfix.Session, from join.Exporter, octets []byte) bool {
	a := c.decode(s, from, octets)
	c.arrivals <- a
	return a.err == nil
}

// count changes counters.
func (c *receiving) count(change func(*Received)) {
	c.counting.Lock()
	defer c.counting.Unlock()
	change(&c.received)
}

// counted is what was counted so far.
func (c *receiving) counted() Received {
	c.counting.Lock()
	defer c.counting.Unlock()
	for _, l := range c.sockets {
		if d, ok := l.(*datagrams); ok {
			d.countDropped()
		}
	}
	return c.received
}

// closeSockets closes the sockets of a collector that does not run.
func (c *receiving) closeSockets() error {
	var errs []error
	for _, l := range c.sockets {
		errs = append(errs, l.Close())
	}
	c.sockets = nil
	return errors.Join(errs...)
}

// Endpoints are where the collector listens, with the actual ports.
func (c *receiving) Endpoints() []Endpoint {
	var list []Endpoint
	for _, l := range c.sockets {
		list = append(list, l.Endpoint())
	}
	return list
}
