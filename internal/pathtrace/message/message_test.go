// SPDX-License-Identifier: Apache-2.0

package message

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/waymark-net/waymark/ioam"
)

var (
	key    = []byte("0123456789abcdef")
	id     = ID{Nonce: [8]byte{1, 2, 3}, Number: 7, Flow: 9, HopLimit: 64}
	answer = Answer{ID: id, HopLimit: 61, Received: time.Unix(1, 2), Trace: []byte{1, 2, 3, 4, 5, 6, 7, 8}}
)

func TestMessages(t *testing.T) {
	for _, k := range [][]byte{nil, key} {
		probe := AppendProbe(nil, id, k)
		if got, err := DecodeProbe(probe, k); err != nil || got != id || len(probe) != ProbeLen {
			t.Errorf("probe: %+v, %v, %d octets", got, err, len(probe))
		}
		if got, err := QuotedProbe(probe[:macAt+macLen]); err != nil || got != id {
			t.Errorf("quoted: %+v, %v", got, err)
		}
		b := AppendAnswer(nil, answer, k)
		if got, err := DecodeAnswer(b, k); err != nil || !reflect.DeepEqual(got, answer) {
			t.Errorf("answer: %+v, %v", got, err)
		}
	}
}

// Each change of a message has its cause; with a key, any change of any octet.
func TestRefused(t *testing.T) {
	probe, reply := AppendProbe(nil, id, key), AppendAnswer(nil, answer, key)
	for i := range probe {
		b := bytes.Clone(probe)
		b[i] ^= 0x40
		if _, err := DecodeProbe(b, key); err == nil {
			t.Errorf("a probe with octet %d changed is taken", i)
		}
	}
	for i := range reply {
		b := bytes.Clone(reply)
		b[i] ^= 0x40
		if _, err := DecodeAnswer(b, key); err == nil {
			t.Errorf("an answer with octet %d changed is taken", i)
		}
	}
	for i := range reply {
		if _, err := DecodeAnswer(reply[:i], nil); !errors.Is(err, ErrLength) {
			t.Errorf("an answer of %d octets: %v", i, err)
		}
	}
	for _, tt := range []struct {
		b    []byte
		want error
	}{
		{reply, ErrKind},
		{probe[:ProbeLen-1], ErrLength},
		{append(bytes.Clone(probe), 0), ErrLength},
		{AppendProbe(nil, id, []byte("another key here")), ErrMAC},
		{AppendProbe(nil, id, nil), ErrMAC},
		{bytes.Repeat([]byte("x"), ProbeLen), ErrFormat},
	} {
		if _, err := DecodeProbe(tt.b, key); !errors.Is(err, tt.want) {
			t.Errorf("%x: %v, want %v", tt.b, err, tt.want)
		}
	}
	if _, err := DecodeAnswer(probe, nil); !errors.Is(err, ErrKind) {
		t.Errorf("a probe as an answer: %v", err)
	}
}

// The longest answer is not longer than its probe.
func TestNoAmplification(t *testing.T) {
	if a := AppendAnswer(nil, Answer{}, nil); len(a) > ProbeLen {
		t.Errorf("an answer of %d octets to a probe of %d whose header was removed", len(a), ProbeLen)
	}
	for nodes := range 13 {
		h, err := Header(ioam.NextHeaderUDP, 123, 0xf80000, nodes)
		if err != nil {
			t.Fatal(err)
		}
		a := AppendAnswer(nil, Answer{Trace: TraceOf(h)}, nil)
		if len(a) > len(h)+ProbeLen {
			t.Errorf("%d nodes: an answer of %d octets to a probe of %d", nodes, len(a), len(h)+ProbeLen)
		}
	}
}

func TestHeader(t *testing.T) {
	b, err := Header(ioam.NextHeaderUDP, 123, 0xf80000, 3)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := ioam.DecodeTrace(TraceOf(b))
	if err != nil || trace.Flags != ioam.FlagActive || trace.Namespace != 123 || trace.Type != 0xf80000 || trace.RemainingLen != 15 ||
		len(trace.Data) != 60 ||
		trace.Check() != nil {
		t.Errorf("%+v, %v", trace, err)
	}
	passive := ioam.Trace{Type: 0xf80000, NodeLen: 5}
	for _, o := range []ioam.Option{passive.Option(), {Type: ioam.OptionIOAM, Data: []byte{0}},
		{Type: ioam.OptionRouterAlert, Data: []byte{0, 0}}} {
		b, err := ioam.AppendExtensionHeader(nil, ioam.NextHeaderUDP, o)
		if err != nil || TraceOf(b) != nil {
			t.Errorf("%x: %v, trace %x", b, err, TraceOf(b))
		}
	}
	if TraceOf(nil) != nil || TraceOf(b[:8]) != nil {
		t.Error("a trace is read from a header that is cut")
	}
}

func FuzzMessages(f *testing.F) {
	h, _ := Header(ioam.NextHeaderUDP, 123, 0xf80000, 2)
	f.Add(h)
	f.Add(AppendProbe(nil, id, nil))
	f.Add(AppendAnswer(nil, answer, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		TraceOf(b)
		if i, err := DecodeProbe(b, nil); err == nil {
			if got, err := DecodeProbe(AppendProbe(nil, i, nil), nil); err != nil || got != i {
				t.Errorf("%+v: %+v, %v", i, got, err)
			}
		}
		if a, err := DecodeAnswer(b, nil); err == nil {
			if got, err := DecodeAnswer(AppendAnswer(nil, a, nil), nil); err != nil || !got.Received.Equal(a.Received) || got.ID != a.ID ||
				!bytes.Equal(got.Trace, a.Trace) {
				t.Errorf("%+v: %+v, %v", a, got, err)
			}
		}
	})
}
