// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
)

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0x12, 0xff, 3, 7, 0x80, 0}, 100))
	f.Fuzz(roundTrip)
}

// FuzzDecode reads messages of one session, one after the other. The first
// octet chooses the transport.
func FuzzDecode(f *testing.F) {
	f.Add(append([]byte{0}, rfcMessage(f)...))
	f.Add(append([]byte{1}, bytes.Join([][]byte{
		sets(f, 0, portTemplate, nameTemplate, aboutTemplate, portData, nameData, aboutData),
		sets(f, 3, "0002 0008 0100 0000", "0003 0008 0003 0000", portData, "0005 0004"),
		sets(f, 9, portTemplate, "0101 000c ff0005 616263 6465", "0100 0006 0001"),
	}, nil)...))
	registry := registry(f)
	limits := Limits{Domains: 2, SessionTemplates: 5, Fields: 4, ValueLen: 50}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		d := NewDecoder(DecoderConfig{Registry: registry, Limits: limits})
		s := open(t, d, key(Transport(b[0]%2), 1), exportTime)
		for rest := b[1:]; len(rest) > 0; {
			n := len(rest)
			if len(rest) >= headerLen {
				n = min(n, max(headerLen, int(rest[2])<<8|int(rest[3])))
			}
			before := held(s)
			m, err := s.Decode(rest[:n], exportTime)
			if after := held(s); err != nil && !before.onlyEnds(after) {
				t.Fatalf("%v changed\n%+v to\n%+v", err, before, after)
			}
			if err == nil {
				checkMessage(t, m)
			}
			checkLimits(t, s, limits)
			rest = rest[n:]
		}
		checkKept(t, d, exportTime)
	})
}

// state is the state of a session's domains.
type state struct {
	sequences map[uint32]string
	templates map[uint32]map[TemplateID]*Template
}

func held(s *Session) state {
	h := state{map[uint32]string{}, map[uint32]map[TemplateID]*Template{}}
	for id, d := range s.domains {
		h.sequences[id], h.templates[id] = fmt.Sprintf("%+v", d.sequence), map[TemplateID]*Template{}
		for n, k := range d.templates {
			h.templates[id][n] = k.Template
		}
	}
	return h
}

// onlyEnds reports whether the later state is the same but for templates that have ended.
func (h state) onlyEnds(later state) bool {
	if !maps.Equal(h.sequences, later.sequences) {
		return false
	}
	for id, templates := range later.templates {
		for n, t := range templates {
			if h.templates[id][n] != t {
				return false
			}
		}
	}
	return true
}

// snapshot is the whole state of a session.
func snapshot(s *Session) string {
	text := fmt.Sprint(s.templates, s.decoder.Templates())
	for _, id := range slices.Sorted(maps.Keys(s.domains)) {
		d := s.domains[id]
		text += fmt.Sprintf("\ndomain %d %+v", id, d.sequence)
		for _, id := range slices.Sorted(maps.Keys(d.templates)) {
			text += fmt.Sprintf(" %d:%d %v", id, d.templates[id].scope, d.templates[id].fields)
		}
	}
	return text
}

func checkLimits(t *testing.T, s *Session, limits Limits) {
	t.Helper()
	count := 0
	for _, d := range s.domains {
		count += len(d.templates)
		for _, k := range d.templates {
			if len(k.fields) > limits.Fields {
				t.Fatalf("%d fields", len(k.fields))
			}
		}
	}
	if len(s.domains) > limits.Domains || count > limits.SessionTemplates || count != s.templates || count != s.decoder.Templates() {
		t.Fatalf("%d domains, %d templates, counted %d and %d", len(s.domains), count, s.templates, s.decoder.Templates())
	}
}

// checkMessage: records are those of the message, and our encoding of them decodes to
// the same octets.
func checkMessage(t *testing.T, m *Message) {
	t.Helper()
	records := 0
	for _, set := range m.Sets {
		n := 0
		for r := range set.Records() {
			length := 0
			for v := range r.Values() {
				length += len(v.Octets)
			}
			if length > len(r.Octets) || len(r.Octets) < set.Template.MinRecordLen() {
				t.Fatalf("values of %d octets in a record of %d", length, len(r.Octets))
			}
			n++
		}
		if n != set.Count || n == 0 {
			t.Fatalf("%d records, counted %d", n, set.Count)
		}
		records += n
		checkEncoded(t, set)
	}
	if records != m.Records || len(m.Problems) > int(NumCauses) {
		t.Fatalf("%d records, %+v", records, m)
	}
}

// checkEncoded encodes a set of known elements again.
func checkEncoded(t *testing.T, set DataSet) {
	t.Helper()
	tmpl, err := NewTemplate(set.Template.ID(), set.Template.Scope(), set.Template.Fields()...)
	if err != nil {
		return // a field that is not known
	}
	e := encoder(t, UDP, maxMessage, tmpl)
	e.Start(nil)
	for r := range set.Records() {
		if err := e.Add(tmpl, r.Octets); err != nil {
			return // longer than it was, by its template
		}
	}
	m := decode(t, session(t, UDP, Limits{ValueLen: maxMessage}), e.Finish(exportTime))
	if len(m.Sets) != 1 || !bytes.Equal(m.Sets[0].octets, set.octets) || !m.Templates[0].Same(set.Template) {
		t.Fatalf("%+v became %+v", set, m.Sets)
	}
}
