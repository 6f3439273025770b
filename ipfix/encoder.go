// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Lengths in octets.
const (
	headerLen    = 16 // of a message (RFC 7011 §3.1)
	setHeaderLen = 4  // of a set (RFC 7011 §3.3.2)
	maxMessage   = 65535
)

// MinMessageLimit is the least length in octets that messages may be limited to:
// that of a message with a template of one field.
const MinMessageLimit = headerLen + setHeaderLen + 12

// Version is IPFIX' version number.
const Version = 10

// Transport is what a transport session runs over.
type Transport uint8

// Transports.
const (
	UDP Transport = iota
	TCP           // with or without TLS
)

// String is the transport's name.
func (t Transport) String() string {
	if t == TCP {
		return "tcp"
	}
	return "udp"
}

// Errors of an [Encoder], for errors.Is.
var (
	// ErrMessageFull: the record belongs into the next message.
	ErrMessageFull = errors.New("the message is full; finish it and add the record to the next one")
	// ErrTooLong: no message has room for the record or template.
	ErrTooLong = errors.New("too long for any message; raise the limit of messages or shorten the record")
	// ErrNotRecord: the octets are not a record of the template.
	ErrNotRecord = errors.New("not a record of this template")
	// ErrTemplateInUse: the number belongs to another template.
	ErrTemplateInUse = errors.New("the number belongs to another template; use another number, or over TCP withdraw that template first")
	// ErrTemplateUndefined: the encoder has no such template.
	ErrTemplateUndefined = errors.New("no template of this number is defined; define it first")
)

// Encoder packs data records and templates into the messages of one transport
// session and observation domain. Messages are written one at a time: [Encoder.Start],
// [Encoder.Add] as often as it takes records, [Encoder.Finish]. It is for one
// goroutine.
type Encoder struct {
	transport Transport
	domain    uint32
	limit     int
	sequence  uint32 // data records in messages before this one

	templates map[TemplateID]*exported
	order     []*exported // in order of definition
	due       []action    // changes to send to collectors, in this order
	announced int         // how many of due are in the message
	latest    int64       // export time of the last message, in seconds

	buf     []byte // the buffer's earlier content, and the message being written
	start   int    // where the message begins
	set     int    // where its last set begins, 0: none is open
	kind    setKind
	current *Template // of an open data set
	records uint32    // in the message
}

// NewEncoder makes the encoder of a transport session's observation domain. Messages
// have up to limit octets: for UDP, the payload that the path MTU allows (RFC 7011
// §10.3.3).
func NewEncoder(transport Transport, domain uint32, limit int) (*Encoder, error) {
	if limit < MinMessageLimit || limit > maxMessage {
		return nil, fmt.Errorf("messages of up to %d octets: choose a limit from %d to %d", limit, MinMessageLimit, maxMessage)
	}
	return &Encoder{transport: transport, domain: domain, limit: limit, templates: map[TemplateID]*exported{}}, nil
}

// Sequence is how many data records the finished messages of the session have,
// modulo 2³².
func (e *Encoder) Sequence() uint32 { return e.sequence }

// SetLimit changes the limit of messages from the next one on, as when the path MTU
// changes. Templates that no longer fit are an error of [Encoder.Add].
func (e *Encoder) SetLimit(limit int) error {
	if limit < MinMessageLimit || limit > maxMessage {
		return fmt.Errorf("messages of up to %d octets: choose a limit from %d to %d", limit, MinMessageLimit, maxMessage)
	}
	e.limit = limit
	return nil
}

// Start begins a message at the end of dst. A message that was started and not finished
// is discarded: its records do not count, and its template changes are due again.
func (e *Encoder) Start(dst []byte) {
	e.buf, e.start, e.announced = dst, len(dst), 0
	e.buf = binary.BigEndian.AppendUint16(e.buf, Version)
	e.buf = append(e.buf, make([]byte, headerLen-2)...)
	e.set, e.current, e.records = 0, nil, 0
}

// begin starts a message in a new buffer when none was started.
func (e *Encoder) begin() {
	if e.buf == nil {
		e.Start(make([]byte, 0, e.limit))
	}
}

// Add adds a data record, as returned by [RecordWriter.End], and before it all template
// records that are due. The template must be defined. [ErrMessageFull] means that the
// record was not added because the message has no room; templates may have been. For a
// record that no message has room for, the error is [ErrTooLong].
func (e *Encoder) Add(t *Template, record []byte) error {
	if len(record) < t.minimum || t.fixed && len(record) != t.minimum {
		return ErrNotRecord
	}
	if e.current == t && e.announced == len(e.due) && len(e.buf)-e.start+len(record) <= e.limit {
		e.buf = append(e.buf, record...)
		e.records++
		return nil
	}
	return e.addFirst(t, record)
}

// addFirst adds a record that begins a set or follows templates.
func (e *Encoder) addFirst(t *Template, record []byte) error {
	e.begin()
	if known := e.templates[t.id]; known == nil || known.retired || known.template != t && !known.template.Same(t) {
		return ErrTemplateUndefined
	}
	if headerLen+setHeaderLen+len(record) > e.limit {
		return ErrTooLong
	}
	if e.announced < len(e.due) {
		if err := e.AddTemplates(); err != nil {
			return err
		}
	}
	if e.current != t {
		e.closeSet()
		if len(e.buf)-e.start+setHeaderLen+len(record) > e.limit {
			return ErrMessageFull
		}
		e.openSet(uint16(t.id))
		e.current = t
	} else if len(e.buf)-e.start+len(record) > e.limit {
		return ErrMessageFull
	}
	e.buf = append(e.buf, record...)
	e.records++
	return nil
}

// Empty reports whether the message has neither records nor templates yet.
func (e *Encoder) Empty() bool { return len(e.buf)-e.start <= headerLen }

// Finish ends the message and returns the buffer with it at the end. The export time is
// when it leaves, but never before that of the last message, because a record must not
// seem older than its template (RFC 7011 §8.2).
func (e *Encoder) Finish(exportTime time.Time) []byte {
	e.begin()
	e.closeSet()
	e.latest = max(e.latest, exportTime.Unix())
	message := e.buf[e.start:]
	binary.BigEndian.PutUint16(message[2:], uint16(len(message)))
	binary.BigEndian.PutUint32(message[4:], uint32(e.latest))
	binary.BigEndian.PutUint32(message[8:], e.sequence)
	binary.BigEndian.PutUint32(message[12:], e.domain)
	e.sequence += e.records
	e.markSent()
	buf := e.buf
	e.buf, e.start, e.set, e.current, e.records = nil, 0, 0, nil, 0
	return buf
}

// Ahead is how far the export time of the last message is ahead of now: by how much the
// clock was set back, less the time since. It is negative if the clock was not set
// back. Only a new session, by [Encoder.Reset], has lower export times.
func (e *Encoder) Ahead(now time.Time) time.Duration { return time.Unix(e.latest, 0).Sub(now) }

// openSet begins a set (RFC 7011 §3.3.2).
func (e *Encoder) openSet(id uint16) {
	e.set = len(e.buf)
	e.buf = binary.BigEndian.AppendUint16(e.buf, id)
	e.buf = append(e.buf, 0, 0)
}

// closeSet ends the set with padding to 4 octets, if that is shorter than any record of
// the set (RFC 7011 §3.3.1) and the message has room.
func (e *Encoder) closeSet() {
	if e.set == 0 {
		return
	}
	shortest := 4 // of template records: a withdrawal
	if e.current != nil {
		shortest = e.current.minimum
	}
	if padding := -(len(e.buf) - e.start) & 3; padding < shortest && len(e.buf)-e.start+padding <= e.limit {
		e.buf = append(e.buf, "\x00\x00\x00"[:padding]...)
	}
	binary.BigEndian.PutUint16(e.buf[e.set+2:], uint16(len(e.buf)-e.set))
	e.set, e.current = 0, nil
}
