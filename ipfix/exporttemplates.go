// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"encoding/binary"
	"slices"
	"time"
)

// exported is a template that the session knows.
type exported struct {
	template *Template
	due      bool  // to be sent
	sent     int64 // export time of the last message with it, in seconds
	retired  bool  // over UDP: no longer sent, its number not used again
}

// action is a change of templates that collectors have to be told.
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

// Define makes a template known to the session. It is sent before the first
// record that needs it, or by [Encoder.AddTemplates]. To define it again changes
// nothing; [ErrTemplateInUse] says that the number has another template.
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

// Withdraw ends the use of a template. Over TCP collectors are told, and the
// number may be used again (RFC 7011 §8.1). Over UDP they must not be (§8.4):
// the template is no longer refreshed, and its number stays its own.
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

// Refresh makes those templates due again that were last sent at least so long
// ago, as UDP needs it (RFC 7011 §8.4): templateRefreshTimeout and
// optionsTemplateRefreshTimeout of RFC 6728. With 0 all are due, and so are those
// that were sent later than now, when the clock was set back. The caller
// decides when to ask; [Encoder.Add] and [Encoder.AddTemplates] send what is due.
// It returns how many template records are due.
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
	return len(e.due) - e.told
}

// Reset begins a new transport session: sequence numbers start at 0, and all
// templates that are in use are due. A message that was begun is forgotten.
func (e *Encoder) Reset() {
	e.buf, e.start, e.set, e.current, e.records = nil, 0, 0, nil, 0
	e.sequence, e.latest, e.told = 0, 0, 0
	e.due = e.due[:0]
	e.order = slices.DeleteFunc(e.order, func(x *exported) bool { return x.retired })
	clear(e.templates)
	for _, x := range e.order {
		x.due = true
		e.templates[x.template.id] = x
		e.due = append(e.due, action{x, false})
	}
}

// AddTemplates adds the template records and withdrawals that are due.
// [ErrMessageFull] says that some are left for the next message.
func (e *Encoder) AddTemplates() error {
	e.begin()
	for ; e.told < len(e.due); e.told++ {
		a := e.due[e.told]
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

// kind tells sets apart: one holds only records of one kind (RFC 7011 §3.3.1),
// and ours either templates or withdrawals.
func (a action) kind() setKind { return setKind{a.template.setID(), a.withdrawal} }

type setKind struct {
	id         uint16
	withdrawal bool
}

// settle notes what a finished message has told.
func (e *Encoder) settle() {
	for _, a := range e.due[:e.told] {
		if !a.withdrawal {
			a.due, a.sent = false, e.latest
		}
	}
	e.due = slices.Delete(e.due, 0, e.told)
	e.told = 0
}
