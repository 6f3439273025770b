// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"
)

// SessionState is what a collecting process may keep of a session over UDP while it is restarted. Exporters
// over UDP do not notice a restart, and send their templates again only from time to time (RFC 7011 §8.4).
type SessionState struct {
	Key     SessionKey
	First   time.Time // message
	Last    time.Time // message
	Domains []DomainState
}

// DomainState is that of an observation domain.
type DomainState struct {
	ID        uint32
	Last      time.Time // message
	Next      uint32    // sequence number that was expected
	Counted   bool      // Next is exact: all records of the last message were counted
	Templates []TemplateState
}

// TemplateState is a template and when it was last received.
type TemplateState struct {
	Options bool   // it is an options template
	Octets  []byte // its template record (RFC 7011 §3.4.1, §3.4.2.2)
	Seen    time.Time
}

// TemplateChanges is a number that differs once any session has other templates than before.
func (d *Decoder) TemplateChanges() uint64 { return d.changes.Load() }

// State is what may be kept of the sessions over UDP that have templates, those that sent first before others. It holds
// the lock of one session at a time, and of none while templates are encoded.
func (d *Decoder) State() []SessionState {
	type one struct {
		key     SessionKey
		session *Session
	}
	d.mu.Lock()
	sessions := make([]one, 0, len(d.sessions))
	for key, s := range d.sessions {
		if key.Transport == UDP {
			sessions = append(sessions, one{key, s})
		}
	}
	d.mu.Unlock()
	var list []SessionState
	for _, of := range sessions {
		if state := of.session.state(of.key); len(state.Domains) > 0 {
			list = append(list, state)
		}
	}
	slices.SortFunc(list, func(a, b SessionState) int {
		return cmp.Or(a.First.Compare(b.First), a.Key.Exporter.Compare(b.Key.Exporter), a.Key.Collector.Compare(b.Key.Collector))
	})
	return list
}

func (s *Session) state(key SessionKey) SessionState {
	state, templates := s.copied(key)
	for i, list := range templates {
		for _, k := range list {
			const longest = 8 // octets of a field specifier, and those before the first one
			octets := k.appendTo(make([]byte, 0, longest*(len(k.fields)+1)))
			state.Domains[i].Templates = append(state.Domains[i].Templates, TemplateState{k.scope > 0, octets, k.seen})
		}
	}
	return state
}

// copied is the state without templates, and those of each domain.
func (s *Session) copied(key SessionKey) (state SessionState, templates [][]known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state = SessionState{Key: key, First: s.first, Last: s.last}
	for id, d := range s.domains { // none if the session was closed meanwhile
		if len(d.templates) == 0 {
			continue
		}
		of := DomainState{ID: id, Last: d.last, Next: d.sequence.next, Counted: d.sequence.counted}
		if d.restored {
			of.Next = d.expected
		}
		state.Domains = append(state.Domains, of)
		templates = append(templates, slices.Collect(maps.Values(d.templates)))
	}
	return state, templates
}

// Restore adds sessions of which there is none yet, as far as limits and lifetimes allow, and returns how
// many templates they have. ended: the state is of the end of the process that kept it, so that records are missed
// if the next message has another sequence number than was expected. Otherwise what came since is not known.
//
// An exporter may have restarted meanwhile and have other templates with the same numbers. Its sequence numbers then
// begin again (RFC 7011 §3.1): while they are not beyond those of before, data are not read by restored templates.
func (d *Decoder) Restore(list []SessionState, ended bool, now time.Time) (templates int) {
	for i := range list {
		of := &list[i]
		d.mu.Lock()
		_, known := d.sessions[of.Key]
		d.mu.Unlock()
		if known || of.Key.Transport != UDP || now.Sub(of.Last) > d.idle {
			continue
		}
		s, err := d.Open(of.Key, earlier(of.Last, now))
		if err != nil {
			break
		}
		templates += s.restore(of, ended, now)
	}
	return templates
}

// earlier is a time of before; a clock that was set back since cannot keep anything alive for longer.
func earlier(at, now time.Time) time.Time {
	if at.After(now) {
		return now
	}
	return at
}

func (s *Session) restore(from *SessionState, ended bool, now time.Time) (templates int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = earlier(from.First, now)
	for i := range from.Domains {
		of := &from.Domains[i]
		if len(s.domains) >= s.decoder.limits.Domains || s.domains[of.ID] != nil {
			continue
		}
		d := &domain{last: earlier(of.Last, now), restored: true, expected: of.Next}
		if ended && of.Counted {
			d.sequence = sequence{started: true, counted: true, next: of.Next}
		}
		for _, t := range of.Templates {
			if k := (known{s.parsed(t), earlier(t.Seen, now), true}); k.Template != nil && !s.expired(k, now) && s.learn(d, k) {
				templates++
			}
		}
		if len(d.templates) > 0 {
			s.domains[of.ID] = d
		}
	}
	return templates
}

// parsed is the template of a template record; nil: it is none that would be learned from a message.
func (s *Session) parsed(t TemplateState) *Template {
	if len(t.Octets) < 4 {
		return nil
	}
	set := uint16(setTemplates)
	if t.Options {
		set = setOptionsTemplates
	}
	p := parser{session: s, message: &Message{}}
	id, count := TemplateID(binary.BigEndian.Uint16(t.Octets)), int(binary.BigEndian.Uint16(t.Octets[2:]))
	n, scope, ok := p.specifiers(t.Octets[4:], count, set)
	if !ok || n != len(t.Octets)-4 || count == 0 || id < MinTemplateID || scope < 0 || count > len(p.fields) {
		return nil
	}
	if t := newTemplate(id, scope, p.interpreted(0, id)); t.minimum <= maxMessage-headerLen-setHeaderLen {
		return t
	}
	return nil
}

// doubts reports whether a sequence number says that the exporter may have begun again since its templates were
// kept, or that the message is older.
func (d *domain) doubts(number uint32) bool {
	ahead := int32(number - d.expected)
	return d.restored && (ahead < 0 || ahead > restartGap && number < restartNumber)
}

// compare ends the doubt in restored templates, or after several messages in a row these templates.
func (s *Session) compare(d *domain, doubted bool) {
	switch {
	case !d.restored:
	case !doubted:
		d.restored = false
	default:
		if d.doubted++; d.doubted < restartLen {
			return
		}
		for id, k := range d.templates {
			if k.restored {
				s.forget(d, id)
			}
		}
		d.restored = false
	}
}
