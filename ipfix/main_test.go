// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"net/netip"
	"testing"
	"time"
)

var exportTime = time.Date(2026, 11, 21, 5, 21, 0, 0, time.UTC)

// registry has everything, our own elements under the enterprise for examples.
func registry(t testing.TB) *Registry {
	t.Helper()
	r, err := NewRegistry(IANA(), IOAM(), Waymark(EnterpriseExample))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func template(t testing.TB, id TemplateID, specs ...string) *Template {
	t.Helper()
	tmpl, err := registry(t).Template(id, specs...)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func optionsTemplate(t testing.TB, id TemplateID, scope string, specs ...string) *Template {
	t.Helper()
	tmpl, err := registry(t).OptionsTemplate(id, []string{scope}, specs...)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// record encodes with write.
func record(t testing.TB, tmpl *Template, write func(w *RecordWriter)) []byte {
	t.Helper()
	w := tmpl.Record(nil)
	write(&w)
	b, err := w.End()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func encoder(t testing.TB, transport Transport, limit int, templates ...*Template) *Encoder {
	t.Helper()
	e, err := NewEncoder(transport, 7, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, tmpl := range templates {
		if err := e.Define(tmpl); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// message encodes records of one template into one message.
func message(t testing.TB, e *Encoder, tmpl *Template, records ...[]byte) []byte {
	t.Helper()
	e.Start(nil)
	for _, r := range records {
		if err := e.Add(tmpl, r); err != nil {
			t.Fatal(err)
		}
	}
	return e.Finish(exportTime)
}

func session(t testing.TB, transport Transport, limits Limits) *Session {
	t.Helper()
	d := NewDecoder(DecoderConfig{Registry: registry(t), Limits: limits})
	s, err := d.Open(key(transport, 1), exportTime)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// key is that of the n-th exporter.
func key(transport Transport, n int) SessionKey {
	return SessionKey{
		transport,
		netip.AddrPortFrom(netip.MustParseAddr("2001:db8::1"), uint16(n)),
		netip.MustParseAddrPort("[2001:db8::9]:4739"),
	}
}

func decode(t testing.TB, s *Session, b []byte) *Message {
	t.Helper()
	m, err := s.Decode(b, exportTime)
	if err != nil {
		t.Fatalf("%x: %v", b, err)
	}
	return m
}
