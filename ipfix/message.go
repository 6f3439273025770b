// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"encoding/binary"
	"slices"
	"time"
)

// Message is a decoded message. Its records alias the octets that were decoded.
type Message struct {
	ExportTime time.Time // UTC, whole seconds
	Sequence   uint32
	Domain     uint32 // Observation Domain ID
	Length     int    // octets
	Records    int    // data records in Sets
	Sets       []DataSet
	Templates  []*Template   // new to the session
	Problems   []Problem     // one for each cause
	Counted    SequenceState // of the domain, after the message
}

// parser reads one message.
type parser struct {
	session *Session
	domain  *domain
	now     time.Time
	octets  []byte
	message *Message
	fields  []Field // of the template being read
	undo    []undo
	records uint32
	counted bool // all data records of the message were counted
	doubted bool // restored templates may be others than those of the exporter
}

// undo is the state of a template before the message.
type undo struct {
	id     TemplateID
	before known // Template is nil when there was none
}

// Decode reads a message: all of the datagram, or what [ReadMessage] cut from a stream.
// Errors in parts are in the message's Problems; the rest is valid. A discarded message
// has one effect: templates that it defines again or withdraws end, because the exporter
// no longer uses them; the error is then a [*Problem] with a cause that
// [Cause.Discards].
func (s *Session) Decode(octets []byte, now time.Time) (*Message, error) {
	m, problem := decodeHeader(octets)
	if problem != nil {
		return nil, problem
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrSessionClosed
	}
	d := s.domains[m.Domain]
	if d == nil {
		if len(s.domains) >= s.decoder.limits.Domains {
			return nil, &Problem{Cause: CauseDomainLimit, Offset: 12, Count: 1}
		}
		d = &domain{}
	}
	p := parser{session: s, domain: d, now: now, octets: octets, message: m, counted: true, doubted: d.doubts(m.Sequence)}
	if problem := p.sets(); problem != nil {
		p.rollBack()
		return nil, problem
	}
	missed, outOfOrder := d.sequence.follow(m.Sequence, p.records, p.counted, s.transport != UDP, now)
	m.Counted = d.sequence.state
	if missed > 0 {
		m.Problems = append(m.Problems, Problem{Cause: CauseSequenceGap, Offset: 8, Count: missed})
	}
	if outOfOrder {
		p.countProblem(CauseSequenceOutOfOrder, 8, 0)
	}
	s.compare(d, p.doubted)
	s.domains[m.Domain] = d
	s.last, d.last = now, now
	return m, nil
}

// decodeHeader reads the message header (RFC 7011 §3.1).
func decodeHeader(b []byte) (*Message, *Problem) {
	if len(b) >= 2 && binary.BigEndian.Uint16(b) != Version {
		return nil, &Problem{Cause: CauseVersion, Count: 1}
	}
	if len(b) < headerLen {
		return nil, &Problem{Cause: CauseTruncatedMessage, Offset: len(b), Count: 1}
	}
	switch length := int(binary.BigEndian.Uint16(b[2:])); {
	case length > len(b):
		return nil, &Problem{Cause: CauseTruncatedMessage, Offset: len(b), Count: 1}
	case length < len(b):
		return nil, &Problem{Cause: CauseMessageLength, Offset: 2, Count: 1}
	}
	return &Message{
		ExportTime: time.Unix(int64(binary.BigEndian.Uint32(b[4:])), 0).UTC(),
		Sequence:   binary.BigEndian.Uint32(b[8:]),
		Domain:     binary.BigEndian.Uint32(b[12:]),
		Length:     len(b),
	}, nil
}

// countProblem counts a problem that does not discard the message.
func (p *parser) countProblem(c Cause, offset int, id uint16) {
	for i := range p.message.Problems {
		if q := &p.message.Problems[i]; q.Cause == c {
			q.Count++
			return
		}
	}
	p.message.Problems = append(p.message.Problems, Problem{c, offset, id, 1})
}

// sets reads every set, in order: templates in a set apply to the sets after it (RFC
// 7011 §8.1).
func (p *parser) sets() *Problem {
	for at := headerLen; at < len(p.octets); {
		rest := p.octets[at:]
		if len(rest) < setHeaderLen {
			return &Problem{CauseTruncatedSet, at, 0, 1}
		}
		id, length := binary.BigEndian.Uint16(rest), int(binary.BigEndian.Uint16(rest[2:]))
		if length < setHeaderLen || length > len(rest) {
			return &Problem{CauseTruncatedSet, at, id, 1}
		}
		body, offset := rest[setHeaderLen:length:length], at+setHeaderLen
		var problem *Problem
		switch {
		case id == setTemplates || id == setOptionsTemplates:
			problem = p.templates(body, offset, id)
		case id < uint16(MinTemplateID):
			p.countProblem(CauseReservedSet, at, id)
		default:
			problem = p.data(body, offset, TemplateID(id))
		}
		if problem != nil {
			return problem
		}
		at += length
	}
	return nil
}

// data reads a data set (RFC 7011 §3.4.3).
func (p *parser) data(body []byte, offset int, id TemplateID) *Problem {
	t := p.lookup(id)
	if t == nil {
		p.countProblem(CauseUnknownTemplate, offset, uint16(id))
		p.counted = false
		return nil
	}
	set := DataSet{Template: t}
	end, longest := 0, 0
	// A rest shorter than any record is padding (§3.3.1).
	for len(body)-end >= t.minimum {
		n, long, ok := t.cutRecord(body[end:])
		if !ok {
			return &Problem{CauseTruncatedRecord, offset + end, uint16(id), 1}
		}
		if t.scope > 0 && !p.scopeKnown(DataRecord{t, body[end : end+n]}) {
			p.countProblem(CauseOptionsBeforeTemplate, offset+end, uint16(id))
		}
		longest = max(longest, long)
		set.Count++
		end += n
	}
	if set.Count == 0 {
		return &Problem{CauseTruncatedRecord, offset, uint16(id), 1}
	}
	p.records += uint32(set.Count)
	if longest > p.session.decoder.limits.ValueLen {
		p.countProblem(CauseValueLimit, offset, uint16(id))
		return nil
	}
	set.octets = body[:end:end]
	p.message.Records += set.Count
	p.message.Sets = append(p.message.Sets, set)
	return nil
}

// elementTemplateID is templateId of IANA.
const elementTemplateID ElementID = 145

// scopeKnown reports whether the templates in the scope of an options record are known.
func (p *parser) scopeKnown(r DataRecord) bool {
	i := 0
	for v := range r.Values() {
		if i++; i > r.Template.scope {
			break
		}
		if v.Field.ID == elementTemplateID && v.Field.Enterprise == EnterpriseIANA &&
			len(v.Octets) == 2 && p.lookup(TemplateID(binary.BigEndian.Uint16(v.Octets))) == nil {
			return false
		}
	}
	return true
}

// lookup finds a template that has not expired and is not in doubt.
func (p *parser) lookup(id TemplateID) *Template {
	k, ok := p.domain.templates[id]
	if !ok || p.session.expired(k, p.now) || k.restored && p.doubted {
		return nil
	}
	return k.Template
}

// remember keeps a template's state for rollBack.
func (p *parser) remember(id TemplateID) {
	p.undo = append(p.undo, undo{id, p.domain.templates[id]})
}

// end ends the use of a template.
func (p *parser) end(id TemplateID) {
	p.remember(id)
	p.session.forget(p.domain, id)
}

// rollBack restores the templates as they were before the message, except those that it
// changed: these end, because the exporter's next records no longer fit them (RFC 7011 §8).
func (p *parser) rollBack() {
	meant := map[TemplateID]*Template{}
	for _, u := range p.undo {
		meant[u.id] = p.domain.templates[u.id].Template
	}
	for _, u := range slices.Backward(p.undo) {
		p.session.forget(p.domain, u.id)
		if u.before.Template != nil {
			p.session.put(p.domain, u.before)
		}
	}
	for id, t := range meant {
		if before := p.domain.templates[id]; before.Template != nil && (t == nil || !before.has(t.scope, t.fields)) {
			p.session.forget(p.domain, id)
		}
	}
}
