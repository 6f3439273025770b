// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"encoding/binary"
	"slices"
	"time"
)

// exported is a template defined in the session.
type exported struct {
	template *Template
	due      bool  // to be sent
	sent     int64 // export time of the last message with it, in seconds
	retired  bool  // over UDP: no longer sent; its number is not used again
}

// action is a change of templates to send to collectors.
type action struct {
	*exported
	withdrawal bool
}

func (a action) len() int {
	if a.withdrawal {
		return 4
	}
	return len(a.template.encoded)
}

// Define adds a template to the session. It is sent before the first record that needs
// it, or by [Encoder.AddTemplates]. Defining it again changes nothing;
// [ErrTemplateInUse] means that the number has another template.
func (e *Encoder) Define(t *Template) error {
	if headerLen+setHeaderLen+len(t.encoded) > e.limit {
		return ErrTooLong
	}
	if known := e.templates[t.id]; known != nil {
		if known.retired || !known.template.Same(t) {
			return ErrTemplateInUse
		}
		return nil
	}
	entry := &exported{template: t, due: true}
	e.templates[t.id] = entry
	e.order = append(e.order, entry)
	e.due = append(e.due, action{entry, false})
	return nil
}

// Withdraw ends the use of a template. Over TCP collectors are notified, and the number
// may be used again (RFC 7011 §8.1). Over UDP they must not be (§8.4): the template is
// no longer refreshed, and its number is not reused.
func (e *Encoder) Withdraw(id TemplateID) error {
	known := e.templates[id]
	if known == nil || known.retired {
		return ErrTemplateUndefined
	}
	if e.current != nil && e.current.id == id {
		e.closeSet()
	}
	if e.transport == UDP {
		known.retired = true
		return nil
	}
	delete(e.templates, id)
	e.order = slices.DeleteFunc(e.order, func(x *exported) bool { return x == known })
	e.due = append(e.due, action{known, true})
	return nil
}

// Refresh makes templates due again that were last sent at least that long ago, as UDP
// requires (RFC 7011 §8.4): templateRefreshTimeout and optionsTemplateRefreshTimeout of
// RFC 6728. With 0 all are due; so are those sent later than now, because the clock was
// set back. The caller decides when to call it; [Encoder.Add] and
// [Encoder.AddTemplates] send the due ones. It returns how many template records are
// due.
func (e *Encoder) Refresh(now time.Time, templates, options time.Duration) int {
	for _, x := range e.order {
		age := templates
		if x.template.scope > 0 {
			age = options
		}
		if since := now.Sub(time.Unix(x.sent, 0)); !x.due && !x.retired && (since >= age || since < 0) {
			x.due = true
			e.due = append(e.due, action{x, false})
		}
	}
	return len(e.due) - e.announced
}

// Reset begins a new transport session: sequence numbers start at 0, and all templates
// that are in use are due. An unfinished message is discarded.
func (e *Encoder) Reset() {
	e.buf, e.start, e.set, e.current, e.records = nil, 0, 0, nil, 0
	e.sequence, e.latest, e.announced = 0, 0, 0
	e.due = e.due[:0]
	e.order = slices.DeleteFunc(e.order, func(x *exported) bool { return x.retired })
	clear(e.templates)
	for _, x := range e.order {
		x.due = true
		e.templates[x.template.id] = x
		e.due = append(e.due, action{x, false})
	}
}

// AddTemplates adds the template records and withdrawals that are due. [ErrMessageFull]
// means that some are left for the next message.
func (e *Encoder) AddTemplates() error {
	e.begin()
	for ; e.announced < len(e.due); e.announced++ {
		a := e.due[e.announced]
		if headerLen+setHeaderLen+a.len() > e.limit {
			return ErrTooLong
		}
		if e.set == 0 || e.current != nil || e.kind != a.kind() {
			e.closeSet()
			if len(e.buf)-e.start+setHeaderLen+a.len() > e.limit {
				return ErrMessageFull
			}
			e.openSet(a.template.setID())
			e.kind = a.kind()
		} else if len(e.buf)-e.start+a.len() > e.limit {
			return ErrMessageFull
		}
		if a.withdrawal {
			e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(a.template.id))
			e.buf = append(e.buf, 0, 0)
		} else {
			e.buf = append(e.buf, a.template.encoded...)
		}
	}
	return nil
}

// kind distinguishes sets: a set holds only records of one kind (RFC 7011 §3.3.1), and
// ours hold either templates or withdrawals.
func (a action) kind() setKind { return setKind{a.template.setID(), a.withdrawal} }

type setKind struct {
	id         uint16
	withdrawal bool
}

// markSent marks the changes in a finished message as sent.
func (e *Encoder) markSent() {
	for _, a := range e.due[:e.announced] {
		if !a.withdrawal {
			a.due, a.sent = false, e.latest
		}
	}
	e.due = slices.Delete(e.due, 0, e.announced)
	e.announced = 0
}
