// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/waymark-net/waymark/test/craft"
)

func open(t testing.TB, d *Decoder, k SessionKey, now time.Time) *Session {
	t.Helper()
	s, err := d.Open(k, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Sessions and domains do not share templates.
func TestTemplatesAreOfTheirSessionAndDomain(t *testing.T) {
	d := NewDecoder(DecoderConfig{Registry: registry(t)})
	a, b := open(t, d, key(UDP, 1), exportTime), open(t, d, key(UDP, 2), exportTime)
	if again := open(t, d, key(UDP, 1), exportTime); again != a {
		t.Error("one key, two sessions")
	}
	decode(t, a, sets(t, 0, portTemplate))
	checkProblems(t, decode(t, a, sets(t, 0, portData)).Problems, NumCauses)
	checkProblems(t, decode(t, b, sets(t, 0, portData)).Problems, CauseUnknownTemplate)
	other := append(sets(t, 0)[:15], 8)
	other = append(other, craft.Hex(t, portData)...)
	binary.BigEndian.PutUint16(other[2:], uint16(len(other)))
	checkProblems(t, decode(t, a, other).Problems, CauseUnknownTemplate)

	// A session that has ended is dropped (RFC 7011 §8.1).
	d.Close(key(UDP, 1))
	if _, err := a.Decode(sets(t, 0, portData), exportTime); !errors.Is(err, ErrSessionClosed) {
		t.Errorf("%v", err)
	}
	if d.Templates() != 0 || d.Sessions() != 1 {
		t.Errorf("%d templates, %d sessions", d.Templates(), d.Sessions())
	}
	d.Close(key(UDP, 9))
	checkProblems(t, decode(t, open(t, d, key(UDP, 1), exportTime), sets(t, 0, portData)).Problems, CauseUnknownTemplate)
}

// Over UDP templates live on only while they are refreshed (RFC 7011 §8.4).
func TestExpiry(t *testing.T) {
	const lifetime, idle = 10 * time.Minute, time.Hour
	after := func(d time.Duration) time.Time { return exportTime.Add(d) }
	for _, transport := range []Transport{UDP, TCP} {
		d := NewDecoder(DecoderConfig{TemplateLifetime: lifetime, IdleTimeout: idle})
		s := open(t, d, key(transport, 1), exportTime)
		at := func(when time.Duration, list ...string) []Problem {
			m, err := s.Decode(sets(t, 0, list...), after(when))
			if err != nil {
				t.Fatal(err)
			}
			s.domains[7].sequence = sequence{}
			return m.Problems
		}
		gone := map[Transport]Cause{UDP: CauseUnknownTemplate, TCP: NumCauses}[transport]
		at(0, portTemplate, nameTemplate)
		checkProblems(t, at(lifetime, portData), NumCauses)
		checkProblems(t, at(lifetime, portTemplate), NumCauses) // refreshed
		checkProblems(t, at(2*lifetime, portData), NumCauses)
		checkProblems(t, at(2*lifetime, nameData), gone)
		d.Expire(after(2 * lifetime))
		if want := map[Transport]int{UDP: 1, TCP: 2}[transport]; d.Templates() != want || s.templates != want {
			t.Errorf("%v: %d templates, want %d", transport, d.Templates(), want)
		}
		checkProblems(t, at(4*lifetime, portData), gone)
		checkProblems(
			t,
			at(4*lifetime, "0002 000c 0100 0001 0007 0002"),
			map[Transport]Cause{UDP: NumCauses, TCP: CauseTemplateRedefined}[transport],
		)

		d.Expire(after(4*lifetime + idle))
		if d.Sessions() != 1 {
			t.Errorf("%v: a session ended before its time", transport)
		}
		d.Expire(after(4*lifetime + idle + 1))
		if want := map[Transport]int{UDP: 0, TCP: 1}[transport]; d.Sessions() != want || transport == UDP && d.Templates() != 0 {
			t.Errorf("%v: %d sessions, %d templates", transport, d.Sessions(), d.Templates())
		}
	}
}

func TestIdleDomain(t *testing.T) {
	d := NewDecoder(DecoderConfig{IdleTimeout: time.Hour, Limits: Limits{Domains: 2}})
	s := open(t, d, key(UDP, 1), exportTime)
	message := func(domain byte) []byte { return append(sets(t, 0)[:15], domain) }
	decodeAt := func(domain byte, after time.Duration) error {
		_, err := s.Decode(message(domain), exportTime.Add(after))
		return err
	}
	for _, c := range []struct {
		domain byte
		after  time.Duration
		want   error
	}{{1, 0, nil}, {2, 30 * time.Minute, nil}, {3, 30 * time.Minute, CauseDomainLimit}} {
		if err := decodeAt(c.domain, c.after); !errors.Is(err, c.want) {
			t.Errorf("domain %d: %v", c.domain, err)
		}
	}
	d.Expire(exportTime.Add(61 * time.Minute))
	if err := decodeAt(3, 61*time.Minute); err != nil {
		t.Error(err)
	}
}

func TestSessionLimit(t *testing.T) {
	d := NewDecoder(DecoderConfig{Limits: Limits{Sessions: 3}})
	good, tcp := open(t, d, key(UDP, 1), exportTime), open(t, d, key(TCP, 1), exportTime)
	decode(t, good, sets(t, 0, portTemplate))
	open(t, d, key(UDP, 2), exportTime)
	// The one without templates makes room.
	last := open(t, d, key(UDP, 3), exportTime)
	decode(t, last, sets(t, 0, portTemplate))
	if _, err := d.Open(key(UDP, 4), exportTime); !errors.Is(err, ErrSessionLimit) {
		t.Errorf("%v", err)
	}
	for _, s := range []*Session{good, tcp, last} {
		if s.closed {
			t.Error("a session ended that has templates or a connection")
		}
	}
	if _, err := d.Open(key(UDP, 4), exportTime.Add(2*time.Hour)); err != nil {
		t.Errorf("after the others were idle: %v", err)
	}
}

// Forged senders without templates make room for others, but not with each datagram,
// because searching for them takes time.
func TestRoomForSessions(t *testing.T) {
	d := NewDecoder(DecoderConfig{Limits: Limits{Sessions: 3}})
	for n := range 5 { // the fourth ends three
		open(t, d, key(UDP, n), exportTime)
	}
	open(t, d, key(UDP, 5), exportTime)
	if _, err := d.Open(key(UDP, 6), exportTime.Add(sweepSpan-1)); !errors.Is(err, ErrSessionLimit) || d.Sessions() != 3 {
		t.Errorf("%d sessions, %v; want 3 and %v", d.Sessions(), err, ErrSessionLimit)
	}
	if open(t, d, key(UDP, 6), exportTime.Add(sweepSpan)); d.Sessions() != 1 {
		t.Errorf("%d sessions, want 1", d.Sessions())
	}
}

func TestTemplateLimitOfAllSessions(t *testing.T) {
	d := NewDecoder(DecoderConfig{Limits: Limits{Templates: 3}})
	first, second := open(t, d, key(UDP, 1), exportTime), open(t, d, key(UDP, 2), exportTime)
	checkProblems(t, decode(t, first, sets(t, 0, portTemplate, nameTemplate)).Problems, NumCauses)
	checkProblems(t, decode(t, second, sets(t, 0, portTemplate, nameTemplate)).Problems, CauseTemplateLimit)
	d.Close(key(UDP, 1))
	checkProblems(t, decode(t, second, sets(t, 0, portTemplate, nameTemplate)).Problems, NumCauses)
	if d.Templates() != 2 {
		t.Errorf("%d templates", d.Templates())
	}
}

// UDP senders always leave room for connections.
func TestRoomForConnections(t *testing.T) {
	d := NewDecoder(DecoderConfig{Limits: Limits{Sessions: 8, Templates: 8}})
	refused := 0
	for n := range 20 {
		s, err := d.Open(key(UDP, n), exportTime)
		if err != nil {
			refused++
			continue
		}
		if _, err := s.Decode(sets(t, 0, portTemplate, nameTemplate), exportTime); err != nil {
			t.Fatal(err)
		}
	}
	if d.Sessions() != 6 || d.Templates() != 6 || refused == 0 {
		t.Errorf("%d sessions and %d templates over UDP, %d refused", d.Sessions(), d.Templates(), refused)
	}
	s := open(t, d, key(TCP, 1), exportTime)
	checkProblems(t, decode(t, s, sets(t, 0, portTemplate, nameTemplate)).Problems, NumCauses)
}

// Even a hostile sender cannot exceed the limits.
func TestHostileSenders(t *testing.T) {
	limits := Limits{Sessions: 8, Domains: 4, SessionTemplates: 16, Templates: 64, Fields: 8}
	d := NewDecoder(DecoderConfig{Limits: limits})
	refused := 0
	for n := range 2000 {
		s, err := d.Open(key(UDP, n%20), exportTime)
		if err != nil {
			refused++
			continue
		}
		b := sets(t, uint32(n), fmt.Sprintf("0002 000c %04x 0001 0007 0002", 256+n%5000))
		binary.BigEndian.PutUint32(b[12:], uint32(n/20))
		if _, err := s.Decode(b, exportTime); err != nil && !errors.Is(err, CauseDomainLimit) {
			t.Fatal(err)
		}
	}
	counted := 0
	for _, s := range d.sessions {
		if len(s.domains) > limits.Domains || s.templates > limits.SessionTemplates {
			t.Errorf("%d domains, %d templates of a session", len(s.domains), s.templates)
		}
		for _, domain := range s.domains {
			counted += len(domain.templates)
		}
	}
	if len(d.sessions) > limits.Sessions || d.Templates() > limits.Templates || counted != d.Templates() {
		t.Errorf("%d sessions, %d templates, %d counted", len(d.sessions), d.Templates(), counted)
	}
	if len(d.sessions) == 0 || counted == 0 || refused > 1500 {
		t.Errorf("%d of 2000 messages were not looked at; %d sessions, %d templates are left", refused, len(d.sessions), counted)
	}
}

// Goroutines share a decoder.
func TestConcurrentSessions(t *testing.T) {
	d := NewDecoder(DecoderConfig{Limits: Limits{Sessions: 3}})
	message := sets(t, 0, portTemplate, portData)
	var group sync.WaitGroup
	var decoded atomic.Int32
	for n := range 8 {
		group.Go(func() {
			for range 200 {
				s, err := d.Open(key(UDP, n%4), exportTime)
				if err != nil {
					continue
				}
				decoded.Add(1)
				if _, err := s.Decode(message, exportTime); err != nil && !errors.Is(err, ErrSessionClosed) {
					t.Error(err)
				}
				d.Expire(exportTime)
				d.Close(key(UDP, n%3))
			}
		})
	}
	group.Wait()
	for n := range 4 {
		d.Close(key(UDP, n))
	}
	if d.Sessions() != 0 || d.Templates() != 0 {
		t.Errorf("%d sessions, %d templates are left", d.Sessions(), d.Templates())
	}
	if decoded.Load() < 100 {
		t.Errorf("%d of 1600 messages were decoded", decoded.Load())
	}
}

func TestReadMessage(t *testing.T) {
	one, two := sets(t, 0, portTemplate, portData), sets(t, 1)
	r := iotest.OneByteReader(bytes.NewReader(bytes.Join([][]byte{one, two, one[:20]}, nil)))
	var buf []byte
	for _, want := range []struct {
		b   []byte
		err error
	}{{one, nil}, {two, nil}, {nil, io.ErrUnexpectedEOF}, {nil, io.EOF}} {
		var err error
		if buf, err = ReadMessage(r, buf); !bytes.Equal(buf, want.b) || !errors.Is(err, want.err) {
			t.Errorf("%x, %v", buf, err)
		}
	}
	for _, c := range []struct {
		b    []byte
		want error
	}{
		{bytes.Repeat([]byte("GET "), 9), CauseVersion},
		{append([]byte{0, 10, 0, 15}, make([]byte, 12)...), CauseMessageLength},
		{one[:16], io.ErrUnexpectedEOF},
		{one[:3], io.ErrUnexpectedEOF},
	} {
		if _, err := ReadMessage(bytes.NewReader(c.b), nil); !errors.Is(err, c.want) {
			t.Errorf("%x: %v", c.b, err)
		}
	}
	failing := io.MultiReader(bytes.NewReader(one[:17]), iotest.ErrReader(net.ErrClosed))
	if _, err := ReadMessage(failing, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// Values are invalid when their field has another type or their octets are not such a
// value.
func TestValuesThatAreNone(t *testing.T) {
	value := func(kind DataType, length uint16, octets string) Value {
		return Value{&Field{Length: length, Element: &Element{Name: "x", Type: kind, Range: Range{1, 2}}}, craft.Hex(t, octets)}
	}
	tooLong := value(Unsigned64, VariableLength, "000000000000000000")
	for name, ok := range map[string]bool{
		"uint of string":    second(value(String, 1, "01").Uint()),
		"uint of 9 octets":  second(tooLong.Uint()),
		"uint out of range": value(Unsigned8, 1, "03").InRange(),
		"int of unsigned":   second(value(Unsigned8, 1, "01").Int()),
		"int of no octets":  second(value(Signed8, 1, "").Int()),
		"float of 2 octets": second(value(Float64, 2, "0001").Float()),
		"float of unsigned": second(value(Unsigned8, 1, "01").Float()),
		"boolean 0":         second(value(Boolean, 1, "00").Bool()),
		"boolean 3":         second(value(Boolean, 1, "03").Bool()),
		"address of octets": second(value(OctetArray, 4, "01020304").Addr()),
		"mac of 5 octets":   second(value(MACAddress, 5, "0102030405").MAC()),
		"text of octets":    second(value(OctetArray, 1, "61").Text()),
		"text not UTF-8":    second(value(String, 1, "ff").Text()),
		"time of unsigned":  second(value(Unsigned64, 8, "0000000000000001").Time()),
		"time of 4 octets":  second(value(DateTimeNanoseconds, 4, "00000001").Time()),
		"time beyond Go's":  second(value(DateTimeMilliseconds, 8, "ffffffffffffffff").Time()),
		"no element":        second(Value{&Field{Length: 1}, []byte{1}}.Uint()),
		"no field":          second(Value{}.Uint()),
	} {
		if ok {
			t.Error(name)
		}
	}
	if v := value(Unsigned8, 1, "02"); !v.InRange() {
		t.Error("2 is in the range of 1 to 2")
	}
	if n, ok := value(Signed64, 3, "fffffe").Int(); !ok || n != -2 {
		t.Errorf("signed of 3 octets: %d", n)
	}
	if f, ok := value(Float64, 4, "7f800000").Float(); !ok || !math.IsInf(f, 1) {
		t.Errorf("float64 of 4 octets: %v", f)
	}
}

func second[T any](_ T, ok bool) bool { return ok }
