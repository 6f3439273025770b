// SPDX-License-Identifier: Apache-2.0

package blocks

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

func example() Message {
	return Message{Length: 1500 * time.Millisecond, Block: 1 << 40, ClockError: -1, Entries: []Entry{
		{Flow: KeyOf("red"), Sent: 1, SentBytes: 2},
		{Flow: KeyOf("blue"), Sent: 3, SentBytes: 4, State: Answered, Counters: Counters{5, 6, 7, 8, 9, 10, 11, 12, 13, true, true, 0}},
		{Flow: 1, State: Gone, Counters: Counters{Complete: true}}, {Flow: 2, State: OtherLength, Counters: Counters{Timed: true, Gaps: GapChanged | GapNotExecuted}},
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
