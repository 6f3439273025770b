// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// flushAfter is how long a record waits for others to fill a message.
const flushAfter = 100 * time.Millisecond

// batchLen is how many octets of messages are handed to the kernel at once.
const batchLen = 60000

// link is a connection to a collector, or a UDP socket in place of one.
type link interface {
	// peer is the collector's address.
	peer() net.Addr
	// limit is how many octets a message may have now.
	limit() int
	// write sends the messages in out, which follow one another.
	write(out []byte, sizes []int) error
	// confirmed reports how many octets of messages are settled, and since the last
	// call, which of these messages were lost (by their ends) and the error of the
	// connection.
	confirmed() (end uint64, lost []uint64, err error)
	// unread is how many confirmed octets the collector may not have read.
	unread() uint64
	// gone is closed when the collector has ended the connection; ended says why.
	gone() <-chan struct{}
	ended() error
	// finish lets writing continue for at most closingTime; another goroutine may be
	// writing.
	finish()
	close()
}

// sent is a message, and the place in the blocks where it ends.
type sent struct {
	end      uint64 // octets of all messages up to here
	length   int
	records  uint64        // data records that were offered
	skipped  uint64        // records that no message has room for
	unsent   record.Weight // the skipped ones
	block    *block        // of the last record; nil: the message has none
	offset   int           // after that record, in the block
	consumed int           // how many of the message's records are in block
}

// session is a transport session (RFC 7011 §2): it makes messages from the queue's
// blocks. A block is held until all of it is confirmed; records that are not when the
// session ends go back to the queue.
type session struct {
	c              *Sink
	link           link
	encoder        *ipfix.Encoder
	held           []*block // the oldest first
	out            []byte   // messages to be written; the last one may be unfinished
	sizes          []int    // of the finished ones
	total          uint64   // octets of all finished messages
	pending        []sent   // messages that are not confirmed
	message        sent     // the one being written
	last           unread   // the last confirmed ones
	refresh        time.Time
	defined        int // how many templates the encoder has
	limitNow       int
	addressChanged <-chan struct{} // closed when the collector's name has other addresses
}

func newSession(c *Sink, l link) (*session, error) {
	s := &session{c: c, link: l, out: make([]byte, 0, batchLen+maxMessageSize), limitNow: l.limit()}
	s.last.room = l.unread()
	transport := ipfix.TCP
	if c.config.Transport == UDP {
		transport = ipfix.UDP
	}
	var err error
	if s.encoder, err = ipfix.NewEncoder(transport, c.config.Domain, s.limitNow); err != nil {
		return nil, err
	}
	for _, t := range c.options.Templates() {
		if err := s.encoder.Define(t); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// run exports until the context or the connection ends.
func (s *session) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.link.finish)
	defer stop()
	err := s.exchange(ctx)
	if err == nil { // the context has ended
		err = s.drain()
	}
	_ = s.confirm() // the last state of a failed connection
	inOrder := err == nil || errors.Is(err, errEnded) || errors.Is(err, errClock) || errors.Is(err, errMoved)
	if len(s.pending) > 0 || !inOrder {
		s.c.unsure.Add(s.last.sum.records) // the connection broke: a host with nothing unread closes it in order
	}
	for _, m := range s.pending {
		s.c.unacknowledged.Add(m.records)
	}
	s.restore()
	return err
}

func (s *session) exchange(ctx context.Context) error {
	began := time.Now()
	s.encoder.Start(s.out)
	if err := s.sendTemplatesAndFacts(time.Now()); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if s.encoder.Ahead(s.c.now()) > maxAhead {
			s.await(time.Now().Add(partingTime))
			return errClock
		}
		b := s.c.queue.nextBlock(ctx, flushAfter, s.link.gone())
		if b != nil {
			if err := s.add(b); err != nil {
				return err
			}
		}
		if b == nil || !s.c.queue.more() {
			if err := s.flush(); err != nil {
				return err
			}
		}
		if err := s.confirm(); err != nil {
			return err
		}
		if s.link.limit() < s.limitNow {
			s.refresh = time.Time{} // the path changed: templates may have been too long for it
		}
		if s.c.config.Transport != UDP || time.Since(began) > 2*settleTime {
			s.c.reached()
		}
		select {
		case <-s.link.gone():
			s.await(time.Now().Add(partingTime))
			return s.link.ended()
		case <-s.addressChanged:
			if s.c.config.Transport == UDP { // over TCP, silence ends the connection
				s.await(time.Now().Add(partingTime))
				return errMoved
			}
			s.addressChanged = nil
		case <-s.c.announce:
			s.refresh = time.Time{}
		default:
		}
		if now := time.Now(); now.After(s.refresh) {
			if err := s.sendTemplatesAndFacts(now); err != nil {
				return err
			}
		}
	}
	return nil
}

// drain sends the queued records, and waits until they are confirmed.
func (s *session) drain() error {
	deadline := time.Now().Add(closingTime)
	for {
		for time.Now().Before(deadline) {
			b, _ := s.c.queue.ready(0)
			if b == nil {
				break
			}
			if err := s.add(b); err != nil {
				return err
			}
		}
		if err := s.sendTemplatesAndFacts(time.Now()); err != nil { // the last statistics
			return err
		}
		s.await(deadline)
		if s.c.queue.stats().waiting == 0 || !time.Now().Before(deadline) {
			return nil
		}
	}
}

// maxAhead is how far the time of a message may be ahead of the node's clock: after the
// clock was set back, messages of this session would keep the earlier time (RFC 7011
// §8.2), and their records would seem older than they are.
const maxAhead = time.Second

// errClock ends the session because the clock was set back, which needs a new one.
var errClock = errors.New("the clock was set back")

// errMoved ends the session because the collector's name has other addresses now.
var errMoved = errors.New("the collector's name has other addresses")

// partingTime is how long a collector that has ended the connection may still
// acknowledge messages in flight.
const partingTime = 500 * time.Millisecond

// await waits until everything is confirmed, the connection fails, or the deadline.
func (s *session) await(deadline time.Time) {
	for time.Now().Before(deadline) {
		if err := s.confirm(); err != nil || len(s.pending) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// add puts the records of a block into messages.
func (s *session) add(b *block) error {
	s.held = append(s.held, b)
	if err := s.resize(); err != nil {
		return err
	}
	list := s.c.templates.Layouts()
	s.message.consumed = 0
	for at := b.start; at < len(b.data); {
		index, record, end := b.next(at)
		if index == markLayout {
			if err := s.tellReported(record); err != nil {
				return err
			}
			s.message.block, s.message.offset, at = b, end, end
			continue
		}
		t := list[index].Template
		err := s.encoder.Add(t, record)
		if errors.Is(err, ipfix.ErrTemplateUndefined) {
			if err := s.define(t); err != nil {
				return err
			}
			err = s.encoder.Add(t, record)
		}
		switch {
		case err == nil:
			s.message.records++
		case errors.Is(err, ipfix.ErrMessageFull):
			if err := s.finish(); err != nil {
				return err
			}
			continue
		default:
			s.message.skipped++
			s.message.unsent.Add(list[index].Weigh(record))
		}
		s.message.block, s.message.offset = b, end
		s.message.consumed++
		at = end
	}
	return nil
}

// resize applies the link's limit.
func (s *session) resize() error {
	l := s.link.limit()
	if l == s.limitNow {
		return nil
	}
	s.limitNow = l
	return s.encoder.SetLimit(l)
}

// define sends a new template. Over UDP it goes into a separate message, which fits
// every path: if it were lost, collectors would lose all its records until the next
// refresh.
func (s *session) define(t *ipfix.Template) error {
	if s.c.config.Transport != UDP {
		return ignoreTooLong(s.encoder.Define(t))
	}
	if err := s.finish(); err != nil {
		return err
	}
	if err := s.encoder.SetLimit(MinMessageSize); err != nil {
		return err
	}
	if err := ignoreTooLong(s.encoder.Define(t)); err != nil {
		return err
	}
	if err := s.addTemplates(); err != nil {
		return err
	}
	if err := s.finish(); err != nil {
		return err
	}
	return s.encoder.SetLimit(s.limitNow)
}

// ignoreTooLong ignores templates that fit no message: their records are counted when they
// come.
func ignoreTooLong(err error) error {
	if errors.Is(err, ipfix.ErrTooLong) {
		return nil
	}
	return err
}

// finish ends a message, and writes the finished ones when there are enough.
func (s *session) finish() error {
	start := len(s.out)
	if !s.encoder.Empty() {
		s.out = s.encoder.Finish(s.c.now())
		s.sizes = append(s.sizes, len(s.out)-start)
	} else if s.message.block == nil {
		return nil
	}
	s.total += uint64(len(s.out) - start)
	m := s.message
	m.end, m.length = s.total, len(s.out)-start
	s.pending = append(s.pending, m)
	s.message = sent{}
	if len(s.out) >= batchLen || len(s.sizes) >= maxBatch {
		return s.write()
	}
	s.encoder.Start(s.out)
	return nil
}

// flush writes all messages, also the unfinished one.
func (s *session) flush() error {
	if err := s.finish(); err != nil || len(s.sizes) == 0 {
		return err
	}
	return s.write()
}

func (s *session) write() error {
	err := s.link.write(s.out, s.sizes)
	s.out, s.sizes = s.out[:0], s.sizes[:0]
	s.encoder.Start(s.out)
	if err != nil {
		return err
	}
	return s.confirm()
}

// confirm counts confirmed messages, and releases their blocks.
func (s *session) confirm() error {
	end, lost, err := s.link.confirmed()
	n := 0
	for n < len(s.pending) && s.pending[n].end <= end {
		m := s.pending[n]
		n++
		if len(lost) > 0 && lost[0] == m.end {
			lost = lost[1:]
			s.again(m)
		} else {
			s.count(m)
		}
		if m.block != nil {
			s.releaseMessage(m)
		}
	}
	s.pending = append(s.pending[:0], s.pending[n:]...)
	return err
}

// count counts a message that was exported.
func (s *session) count(m sent) {
	s.c.exported.Add(m.records)
	if m.skipped > 0 {
		s.c.unencodable.Add(m.skipped)
		s.c.unsent.add(m.unsent)
	}
	s.c.octets.Add(uint64(m.length))
	s.last.add(uint64(m.length), m.records)
	if m.length > 0 {
		s.c.messages.Add(1)
	}
}

// again queues a lost message's records once more: all held records up to its end,
// because the messages before it are settled.
func (s *session) again(m sent) {
	if m.block == nil {
		return
	}
	for _, b := range s.held {
		if b == m.block {
			break
		}
		s.c.queue.again(b, len(b.data))
	}
	s.c.queue.again(m.block, m.offset)
}

// releaseMessage releases a message's records from the held blocks.
func (s *session) releaseMessage(m sent) {
	for s.held[0] != m.block {
		s.c.queue.release(s.held[0])
		s.held = s.held[1:]
	}
	m.block.start, m.block.records = m.offset, m.block.records-m.consumed
	if m.offset == len(m.block.data) {
		s.c.queue.release(m.block)
		s.held = s.held[1:]
	}
}

// restore puts unconfirmed blocks back into the queue.
func (s *session) restore() {
	s.c.queue.restore(s.held)
	s.held = nil
}

// sendTemplatesAndFacts sends templates (over UDP all, else new ones), then names and statistics.
func (s *session) sendTemplatesAndFacts(now time.Time) error {
	s.refresh = now.Add(s.c.config.Refresh)
	if err := s.resize(); err != nil {
		return err
	}
	if s.c.config.Transport == UDP { // as in define
		if err := s.encoder.SetLimit(MinMessageSize); err != nil {
			return err
		}
	}
	for _, l := range s.c.templates.Layouts()[s.defined:] {
		s.defined++
		if err := ignoreTooLong(s.encoder.Define(l.Template)); err != nil {
			return err
		}
	}
	if s.c.config.Transport == UDP {
		s.encoder.Refresh(s.c.now(), 0, 0)
	}
	if err := s.addTemplates(); err != nil {
		return err
	}
	if s.c.config.Transport == UDP {
		// The options records are then in one message. nfcapd does not count them, and takes
		// those of a second one for missing records.
		if err := s.finish(); err != nil {
			return err
		}
	}
	facts := s.c.facts()
	if err := s.tellNames(facts); err != nil {
		return err
	}
	if err := s.tellStatistics(facts); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	return s.encoder.SetLimit(s.limitNow)
}

// addTemplates adds the templates that are due.
func (s *session) addTemplates() error {
	for {
		err := s.encoder.AddTemplates()
		if !errors.Is(err, ipfix.ErrMessageFull) {
			return err
		}
		if err := s.finish(); err != nil {
			return err
		}
	}
}

// option adds an options record. One that has no room is left out.
func (s *session) option(t *ipfix.Template, record []byte) error {
	err := s.encoder.Add(t, record)
	if errors.Is(err, ipfix.ErrMessageFull) {
		if err := s.finish(); err != nil {
			return err
		}
		err = s.encoder.Add(t, record)
	}
	if errors.Is(err, ipfix.ErrTooLong) {
		return nil
	}
	return err
}
