// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"encoding/binary"
	"slices"
)

// templates reads the records of a template set or options template set, which
// are templates and withdrawals (RFC 7011 §3.4.1, §3.4.2.2, §8.1).
func (p *parser) templates(body []byte, offset int, set uint16) *Problem {
	for at := 0; len(body)-at >= 4; {
		id, count := binary.BigEndian.Uint16(body[at:]), int(binary.BigEndian.Uint16(body[at+2:]))
		if count == 0 {
			if id == 0 {
				return nil // padding to 8 octets (§3.3.1)
			}
			p.withdraw(TemplateID(id), offset+at, set)
			at += 4
			continue
		}
		n, scope, ok := p.specifiers(body[at+4:], count, set)
		if !ok {
			p.end(TemplateID(id))
			return &Problem{CauseTruncatedTemplate, offset + at, id, 1}
		}
		p.template(TemplateID(id), scope, count, offset+at)
		at += 4 + n
	}
	return nil
}

// specifiers reads the rest of a template record: its scope field count, which only
// options templates have, and its field specifiers (RFC 7011 §3.2). It stores those
// that are allowed in p.fields. A scope of −1 means that the template is invalid.
func (p *parser) specifiers(b []byte, count int, set uint16) (n, scope int, ok bool) {
	if set == setOptionsTemplates {
		if len(b) < 2 {
			return 0, 0, false
		}
		n, scope = 2, int(binary.BigEndian.Uint16(b))
		if scope == 0 || scope > count {
			scope = -1
		}
	}
	p.fields = p.fields[:0]
	for range count {
		if len(b)-n < 4 {
			return 0, 0, false
		}
		id := binary.BigEndian.Uint16(b[n:])
		f := Field{ID: ElementID(id &^ enterpriseBit), Length: binary.BigEndian.Uint16(b[n+2:])}
		n += 4
		if id&enterpriseBit != 0 {
			if len(b)-n < 4 {
				return 0, 0, false
			}
			f.Enterprise = Enterprise(binary.BigEndian.Uint32(b[n:]))
			n += 4
			if f.Enterprise == EnterpriseIANA {
				scope = -1 // the enterprise bit is set, so the element is not IANA's
			}
		}
		if f.Length == 0 {
			scope = -1 // records would cost more to read than they have octets
		}
		if len(p.fields) < p.session.decoder.limits.Fields {
			p.fields = append(p.fields, f)
		}
	}
	return n, scope, true
}

// template takes a template whose fields are in p.fields. If it is refused, the earlier template with
// its number ends, too: the records to come have other fields (RFC 7011 §8).
func (p *parser) template(id TemplateID, scope, count, offset int) {
	switch {
	case id < MinTemplateID || scope < 0:
		p.countProblem(CauseTemplateInvalid, offset, uint16(id))
		p.end(id)
		return
	case count > len(p.fields):
		p.countProblem(CauseFieldLimit, offset, uint16(id))
		p.end(id)
		return
	}
	before, used := p.domain.templates[id]
	if used && p.session.expired(before, p.now) {
		p.end(id)
		used = false
	}
	if used && before.has(scope, p.fields) {
		// A second copy: over UDP it extends the template's lifetime (§8.4).
		p.remember(id)
		p.domain.templates[id] = known{before.Template, p.now, false}
		return
	}
	t := newTemplate(id, scope, p.interpreted(offset, id))
	if t.minimum > maxMessage-headerLen-setHeaderLen {
		p.countProblem(CauseTemplateInvalid, offset, uint16(id)) // no message has room for a record
		p.end(id)
		return
	}
	if used && p.session.transport != UDP {
		// Records under this number may now belong to either template (§8.1).
		p.countProblem(CauseTemplateRedefined, offset, uint16(id))
		p.end(id)
		return
	}
	p.remember(id)
	if !p.session.learn(p.domain, known{t, p.now, false}) {
		p.countProblem(CauseTemplateLimit, offset, uint16(id))
		return
	}
	p.message.Templates = append(p.message.Templates, t)
}

// interpreted returns the fields with their elements.
func (p *parser) interpreted(offset int, id TemplateID) []Field {
	fields := slices.Clone(p.fields)
	for i := range fields {
		f := &fields[i]
		e, ok := p.session.decoder.registry.Lookup(f.Enterprise, f.ID)
		switch {
		case !ok:
		case e.Type.Allows(f.Length):
			f.Element = e
		default:
			p.countProblem(CauseFieldLength, offset, uint16(id))
		}
	}
	return fields
}

// withdraw ends the use of a template, or of all templates of a kind (RFC 7011 §8.1).
func (p *parser) withdraw(id TemplateID, offset int, set uint16) {
	if p.session.transport == UDP {
		p.countProblem(CauseWithdrawalUDP, offset, uint16(id)) // ignored (§8.4)
		return
	}
	if uint16(id) == set {
		for id, k := range p.domain.templates {
			if k.setID() == set {
				p.end(id)
			}
		}
		return
	}
	k, ok := p.domain.templates[id]
	if !ok || k.setID() != set {
		p.countProblem(CauseWithdrawalUnknown, offset, uint16(id))
		return
	}
	p.end(id)
}
