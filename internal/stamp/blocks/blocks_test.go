// SPDX-License-Identifier: Apache-2.0

package blocks

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/stamp"
)

func example() Message {
	return Message{Length: 1500 * time.Millisecond, Block: 1 << 40, ClockError: -1, Entries: []Entry{
		{Flow: KeyOf("red"), Sent: 1, SentBytes: 2},
		{Flow: KeyOf("blue"), Sent: 3, SentBytes: 4, State: Answered, Counters: Counters{5, 6, 7, 8, 9, 10, 11, 12, 13, true, true, 0}},
		{Flow: 1, State: Gone, Counters: Counters{Complete: true}}, {Flow: 2, State: OtherLength, Counters: Counters{Timed: true, Uncovered: InterfacesChanged | NotExecuted}},
	}}
}

func TestMessage(t *testing.T) {
	m := example()
	b := m.Append(nil)
	if got, err := Decode(b); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, change := range map[string]func(b []byte) []byte{
		"cut":              func(b []byte) []byte { return b[:len(b)-1] },
		"another vendor":   func(b []byte) []byte { b[3]++; return b },
		"another message":  func(b []byte) []byte { b[7]++; return b },
		"nothing":          func([]byte) []byte { return nil },
		"too many flows":   func(b []byte) []byte { return append(b, make([]byte, 10*entryLen)...) },
		"a part of a flow": func(b []byte) []byte { return append(b, 1) },
	} {
		if _, err := Decode(change(bytes.Clone(b))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if KeyOf("red") == KeyOf("blue") {
		t.Error("keys of names")
	}
}

func exampleSelections() Selections {
	length := 1500 * time.Millisecond
	return Selections{Length: length, Block: 1 << 40, Entries: []Selected{
		{Flow: KeyOf("red")},
		{Flow: KeyOf("blue"), State: Answered, Selection: loss.Selection{Block: 1500, Path: 1, Criteria: 2, Takers: 3, Marking: 4}},
		{Flow: 1, State: UnknownFlow},
	}}
}

func TestSelections(t *testing.T) {
	m := exampleSelections()
	b := m.Append(nil)
	if got, err := DecodeSelections(b); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, change := range map[string]func(b []byte) []byte{
		"cut":              func(b []byte) []byte { return b[:len(b)-1] },
		"another vendor":   func(b []byte) []byte { b[3]++; return b },
		"another message":  func(b []byte) []byte { b[7]++; return b },
		"nothing":          func([]byte) []byte { return nil },
		"too many flows":   func(b []byte) []byte { return append(b, make([]byte, 36*selectionLen)...) },
		"a part of a flow": func(b []byte) []byte { return append(b, 1) },
		"counters":         func([]byte) []byte { m := example(); return m.Append(nil) },
	} {
		if _, err := DecodeSelections(change(bytes.Clone(b))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Decode(b); err == nil {
		t.Error("selections are read as counters")
	}
}

// TestLength checks that the packets fit the smallest MTU of IPv6.
func TestLength(t *testing.T) {
	const headers, tlv = 40 + 8, 4
	around := headers + stamp.Authenticated.BaseLen() + tlv + stamp.HMACLen
	counters, selections := Message{Entries: make([]Entry, MostTogether)}, Selections{Entries: make([]Selected, MostTogether)}
	for name, octets := range map[string]int{
		"together":   around + tlv + len(counters.Append(nil)) + tlv + len(selections.Append(nil)),
		"selections": around + tlv + selectionsHeaderLen + MostSelections*selectionLen,
		"counters":   around + tlv + headerLen + MostFlows*entryLen,
	} {
		if octets > 1280 {
			t.Errorf("%s: %d octets", name, octets)
		}
	}
}

// FuzzSelections checks that what can be read is written as it was.
func FuzzSelections(f *testing.F) {
	m := exampleSelections()
	f.Add(m.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeSelections(b)
		if err != nil {
			return
		}
		again, err := DecodeSelections(m.Append(nil))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
	})
}

// FuzzMessage checks that what can be read is written as it was.
func FuzzMessage(f *testing.F) {
	m := example()
	f.Add(m.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(m.Append(nil))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
	})
}
