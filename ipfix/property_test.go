// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// byteSource makes choices from octets; when they are used up, always the first.
type byteSource struct{ rest []byte }

func (s *byteSource) uint64() uint64 {
	var b [8]byte
	n := copy(b[:], s.rest)
	s.rest = s.rest[n:]
	return binary.BigEndian.Uint64(b[:])
}

func (s *byteSource) below(n int) int {
	v := 0
	for scale := 1; scale < n && len(s.rest) > 0; scale <<= 8 {
		v, s.rest = v<<8|int(s.rest[0]), s.rest[1:]
	}
	return v % n
}

// octets returns n octets, zero where the source has no more.
func (s *byteSource) octets(n int) []byte {
	b := make([]byte, n)
	s.rest = s.rest[copy(b, s.rest):]
	return b
}

// length is a length that a type allows, often a short or a variable one.
func (s *byteSource) length(kind DataType) uint16 {
	switch kind.class() {
	case classUnsigned, classSigned:
		return uint16(1 + s.below(int(kind.Len())))
	case classFloat:
		return kind.Len() >> min(s.below(2), int(kind.Len())/8)
	case classOctets, classString:
		if s.below(2) == 0 {
			return VariableLength
		}
		return uint16(1 + s.below(300))
	}
	return kind.Len()
}

// randomTemplate has 1 to 8 fields of any types.
func (s *byteSource) template(r *Registry, id TemplateID) (*Template, error) {
	var fields []Field
	for range 1 + s.below(8) {
		kind := DataType(s.below(len(dataTypes)))
		e, _ := r.Named(kind.String())
		fields = append(fields, Field{Enterprise: e.Enterprise, ID: e.ID, Length: s.length(kind), Element: e})
	}
	return NewTemplate(id, s.below(len(fields)+1), fields...)
}

// write writes a value for a field, and returns how a [Value] must read it.
func (s *byteSource) write(w *RecordWriter, f Field) string {
	bits := uint(8 * f.Length)
	switch f.Element.Type.class() {
	case classUnsigned:
		v := s.uint64() >> (64 - bits)
		w.Uint(v)
		return fmt.Sprint(v)
	case classSigned:
		v := int64(s.uint64()) >> (64 - bits)
		w.Int(v)
		return fmt.Sprint(v)
	case classFloat:
		v := float64(math.Float32frombits(uint32(s.uint64())))
		w.Float(v)
		return fmt.Sprint(v)
	case classBoolean:
		v := s.below(2) == 1
		w.Bool(v)
		return fmt.Sprint(v)
	case classMAC:
		v := [6]byte(s.octets(6))
		w.MAC(v)
		return fmt.Sprint(v)
	case classAddress:
		v, _ := netip.AddrFromSlice(s.octets(int(f.Length)))
		w.Addr(v)
		return v.String()
	case classTime:
		return s.writeTime(w, f.Element.Type)
	case classString:
		v := string(bytes.Trim(bytes.ToValidUTF8(s.octets(s.below(min(int(f.Length), 600)+1)), nil), "\x00"))
		w.Text(v)
		return v
	}
	v := s.octets(int(f.Length))
	if f.Length == VariableLength {
		v = v[:s.below(600)]
	}
	w.Octets(v)
	return string(v)
}

func (s *byteSource) writeTime(w *RecordWriter, kind DataType) string {
	resolution := map[DataType]time.Duration{DateTimeSeconds: time.Second, DateTimeMilliseconds: time.Millisecond,
		DateTimeMicroseconds: time.Microsecond, DateTimeNanoseconds: time.Nanosecond}[kind]
	at := time.Unix(int64(uint32(s.uint64()))&^(1<<31), int64(s.uint64()%1e9)).UTC()
	w.Time(at)
	return at.Truncate(resolution).String()
}

// read returns a value in the same form as write.
func read(v Value) string {
	var text any
	var ok bool
	switch v.Field.Element.Type.class() {
	case classUnsigned:
		text, ok = v.Uint()
	case classSigned:
		text, ok = v.Int()
	case classFloat:
		text, ok = v.Float()
	case classBoolean:
		text, ok = v.Bool()
	case classMAC:
		text, ok = v.MAC()
	case classAddress:
		text, ok = v.Addr()
	case classTime:
		text, ok = v.Time()
	case classString:
		text, ok = v.Text()
	default:
		text, ok = string(v.Octets), true
	}
	if !ok {
		return "none"
	}
	return fmt.Sprint(text)
}

// exchange is an exporter and a collector, with the values that both saw.
type exchange struct {
	t              *testing.T
	encoder        *Encoder
	limit          int
	session        *Session
	sent, received []string // values of a record each
}

// finish passes the message on and begins another.
func (x *exchange) finish() {
	b := x.encoder.Finish(exportTime)
	if len(b) > x.limit {
		x.t.Fatalf("limit %d, message of %d octets", x.limit, len(b))
	}
	m := decode(x.t, x.session, b)
	if len(m.Problems) > 0 {
		x.t.Fatalf("%v in %x", &m.Problems[0], b)
	}
	for _, set := range m.Sets {
		for r := range set.Records() {
			var values []string
			for v := range r.Values() {
				values = append(values, read(v))
			}
			x.received = append(x.received, fmt.Sprintf("%q", values))
		}
	}
	x.encoder.Start(nil)
}

// record writes a record of random values.
func (x *exchange) record(s *byteSource, tmpl *Template) {
	w := tmpl.Record(nil)
	var values []string
	for _, f := range tmpl.Fields() {
		values = append(values, s.write(&w, f))
	}
	b, err := w.End()
	if err != nil {
		x.t.Fatal(err)
	}
	err = x.encoder.Add(tmpl, b)
	for n := 0; errors.Is(err, ErrMessageFull); n++ {
		if n == 8 {
			x.t.Fatalf("limit %d: no message takes %d octets", x.limit, len(b))
		}
		x.finish()
		err = x.encoder.Add(tmpl, b)
	}
	switch {
	case err == nil:
		x.sent = append(x.sent, fmt.Sprintf("%q", values))
	case !errors.Is(err, ErrTooLong):
		x.t.Fatal(err)
	}
}

// roundTrip encodes records of up to 4 templates into messages of some limit,
// decodes them, and compares values, counts and sequence numbers. choices decide
// everything.
func roundTrip(t *testing.T, choices []byte) {
	t.Helper()
	r, err := NewRegistry(testElements())
	if err != nil {
		t.Fatal(err)
	}
	s := &byteSource{choices}
	transport, limit := Transport(s.below(2)), MinMessageLimit+s.below(3000)
	x := &exchange{t: t, encoder: encoder(t, transport, limit), limit: limit}
	x.session = open(t, NewDecoder(DecoderConfig{Registry: r}), key(transport, 1), exportTime)
	var templates []*Template
	for id := range TemplateID(1 + s.below(4)) {
		tmpl, err := s.template(r, MinTemplateID+id)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.encoder.Define(tmpl); err == nil {
			templates = append(templates, tmpl)
		} else if !errors.Is(err, ErrTooLong) {
			t.Fatal(err)
		}
	}
	x.encoder.Start(nil)
	for range 1 + s.below(30) {
		if len(templates) == 0 {
			break
		}
		x.record(s, templates[s.below(len(templates))])
		if s.below(8) == 7 {
			x.encoder.Refresh(exportTime, 0, 0)
		}
	}
	x.finish()
	if x.encoder.Sequence() != uint32(len(x.sent)) || len(x.received) != len(x.sent) {
		t.Fatalf("%d records sent, %d received, sequence %d", len(x.sent), len(x.received), x.encoder.Sequence())
	}
	for i := range x.sent {
		if x.sent[i] != x.received[i] {
			t.Fatalf("record %d: sent\n%s, received\n%s", i, x.sent[i], x.received[i])
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		choices := make([]byte, rng.IntN(3000))
		for i := range choices {
			choices[i] = byte(rng.Uint32())
		}
		roundTrip(t, choices)
	}
}
