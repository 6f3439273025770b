// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"cmp"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of a [Decoder], for errors.Is.
var (
	// ErrSessionLimit: no more sessions are allowed, and none has been idle for
	// long enough to end.
	ErrSessionLimit = errors.New("too many transport sessions; allow more or wait until some end")
	// ErrSessionClosed: the session has ended.
	ErrSessionClosed = errors.New("the transport session has ended; open it again")
)

// Limits bound what senders can make a [Decoder] keep (RFC 7011 §11.4). A zero field
// means its default; with all defaults it keeps at most some 35 MB. A quarter of the
// sessions and templates is reserved for connections: forged UDP senders would
// otherwise keep them out.
type Limits struct {
	Sessions         int // transport sessions: 1024
	Domains          int // observation domains of a session: 64
	SessionTemplates int // templates of a session, in all its domains: 1024
	Templates        int // templates of all sessions: 4096
	Fields           int // fields of a template: 256
	ValueLen         int // octets of a value of variable length: 8192
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Sessions:         cmp.Or(l.Sessions, 1024),
		Domains:          cmp.Or(l.Domains, 64),
		SessionTemplates: cmp.Or(l.SessionTemplates, 1024),
		Templates:        cmp.Or(l.Templates, 4096),
		Fields:           cmp.Or(l.Fields, 256),
		ValueLen:         cmp.Or(l.ValueLen, 8192),
	}
}

// share is how much of a limit over all sessions the sessions of a transport may use.
func (t Transport) share(limit int) int {
	if t == UDP {
		return limit - limit/4
	}
	return limit
}

// DecoderConfig configures a [Decoder]. Zero fields mean defaults.
type DecoderConfig struct {
	Registry         *Registry // nil: no element is known
	Limits           Limits
	TemplateLifetime time.Duration // over UDP, since a template was last received (RFC 7011 §8.4): 30 minutes
	IdleTimeout      time.Duration // over UDP, since a session's or domain's last message (§9.3): an hour
}

// Decoder is a collecting process's state about its exporters. Goroutines may share it
// and its sessions.
type Decoder struct {
	registry  *Registry
	limits    Limits
	lifetime  time.Duration
	idle      time.Duration
	templates atomic.Int64
	changes   atomic.Uint64 // of templates
	missed    atomic.Uint64 // records, of domains that ended since the last CountMissed

	mu       sync.Mutex
	sessions map[SessionKey]*Session
	swept    time.Time // when idle sessions were last ended to make room
}

// SessionKey identifies a transport session: a connection, or for UDP what RFC
// 7011 §8.4 names.
type SessionKey struct {
	Transport Transport
	Exporter  netip.AddrPort
	Collector netip.AddrPort
}

// Session is a transport session: the templates and sequence numbers of its
// observation domains.
type Session struct {
	decoder   *Decoder
	transport Transport

	mu        sync.Mutex
	domains   map[uint32]*domain
	templates int
	first     time.Time // of a message
	last      time.Time // of a message
	closed    bool
}

// domain is an observation domain of a session.
type domain struct {
	templates map[TemplateID]known
	last      time.Time // of a message
	sequence  sequence

	restored bool   // by Restore, and no message has shown since that its templates are still those of the exporter
	expected uint32 // sequence number, when it was kept
	doubted  int    // messages in a row that make a restart of the exporter likely
}

// known is a template and when it was last received.
type known struct {
	*Template
	seen     time.Time
	restored bool // it has not come in a message since Restore
}

// NewDecoder makes a decoder without sessions.
func NewDecoder(c DecoderConfig) *Decoder {
	registry := c.Registry
	if registry == nil {
		registry = &Registry{}
	}
	return &Decoder{
		registry: registry,
		limits:   c.Limits.withDefaults(),
		lifetime: cmp.Or(c.TemplateLifetime, 30*time.Minute),
		idle:     cmp.Or(c.IdleTimeout, time.Hour),
		sessions: map[SessionKey]*Session{},
	}
}

// Open returns the session of a key, and begins it when there is none. Call it once for
// a connection, but for every datagram of UDP. Its error is [ErrSessionLimit].
func (d *Decoder) Open(key SessionKey, now time.Time) (*Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.sessions[key]; s != nil {
		s.touch(now)
		return s, nil
	}
	if limit := key.Transport.share(d.limits.Sessions); len(d.sessions) >= limit {
		d.makeRoom(now)
		if len(d.sessions) >= limit {
			return nil, ErrSessionLimit
		}
	}
	s := &Session{decoder: d, transport: key.Transport, domains: map[uint32]*domain{}, first: now, last: now}
	d.sessions[key] = s
	return s, nil
}

// Close ends a session, as when its connection ends. Its templates are dropped (RFC
// 7011 §8.1).
func (d *Decoder) Close(key SessionKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.sessions[key]; s != nil {
		delete(d.sessions, key)
		s.close()
	}
}

// Expire drops state that UDP senders no longer refresh: templates past their lifetime,
// and idle domains and sessions. Call it regularly; a template past its lifetime is
// never used, even before the call.
func (d *Decoder) Expire(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(now)
}

func (d *Decoder) expire(now time.Time) {
	for key, s := range d.sessions {
		if key.Transport == UDP && s.expire(now) {
			delete(d.sessions, key)
			s.close()
		}
	}
}

// sweepSpan is the minimum time between two searches for sessions to end, so that
// forged senders do not cause one with each datagram.
const sweepSpan = 10 * time.Millisecond

func (d *Decoder) makeRoom(now time.Time) {
	if since := now.Sub(d.swept); since >= 0 && since < sweepSpan {
		return
	}
	d.swept = now
	d.expire(now)
	d.discard()
}

// discard ends the UDP sessions without templates, so that forged senders do not keep
// exporters out.
func (d *Decoder) discard() {
	for key, s := range d.sessions {
		if key.Transport == UDP && s.ignorant() {
			delete(d.sessions, key)
			s.close()
		}
	}
}

// Sessions is the number of sessions.
func (d *Decoder) Sessions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sessions)
}

// Templates is the number of templates of all sessions.
func (d *Decoder) Templates() int { return int(d.templates.Load()) }

// Transport is that of the session.
func (s *Session) Transport() Transport { return s.transport }

// Templates is how many templates an observation domain has; false: the session, or the domain in it, is over.
func (s *Session) Templates(domain uint32) (count int, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.domains[domain]
	if s.closed || d == nil {
		return 0, false
	}
	return len(d.templates), true
}

func (s *Session) touch(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = now
}

func (s *Session) ignorant() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.templates == 0
}

func (s *Session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decoder.templates.Add(-int64(s.templates))
	for _, d := range s.domains {
		s.leave(d)
	}
	s.domains, s.templates, s.closed = nil, 0, true
}

// expire reports whether the whole session is idle; if not, it drops expired parts.
func (s *Session) expire(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.last) > s.decoder.idle {
		return true
	}
	for id, d := range s.domains {
		idle := now.Sub(d.last) > s.decoder.idle
		for t, k := range d.templates {
			if idle || s.expired(k, now) {
				s.forget(d, t)
			}
		}
		if idle {
			s.leave(d)
			delete(s.domains, id)
		}
	}
	return false
}

func (s *Session) expired(k known, now time.Time) bool {
	return s.transport == UDP && now.Sub(k.seen) > s.decoder.lifetime
}

// learn keeps a template, unless a limit is reached.
func (s *Session) learn(d *domain, k known) bool {
	if _, replaces := d.templates[k.id]; !replaces {
		limits := s.decoder.limits
		if s.templates >= limits.SessionTemplates || s.decoder.templates.Load() >= int64(s.transport.share(limits.Templates)) {
			return false
		}
	}
	s.put(d, k)
	return true
}

// put keeps a template. Concurrent sessions may exceed the limit over all sessions by
// one template each.
func (s *Session) put(d *domain, k known) {
	if _, replaces := d.templates[k.id]; !replaces {
		s.templates++
		s.decoder.templates.Add(1)
	}
	if d.templates == nil {
		d.templates = map[TemplateID]known{}
	}
	d.templates[k.id] = k
	s.decoder.changes.Add(1)
}

func (s *Session) forget(d *domain, id TemplateID) {
	if _, ok := d.templates[id]; ok {
		delete(d.templates, id)
		s.templates--
		s.decoder.templates.Add(-1)
		s.decoder.changes.Add(1)
	}
}
