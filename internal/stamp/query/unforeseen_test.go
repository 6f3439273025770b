// SPDX-License-Identifier: Apache-2.0

package query

import (
	"bytes"
	"testing"

	"github.com/waymark-net/waymark/internal/lossquery"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// Nothing of a packet can be foreseen from those of an earlier agent: neither numbers nor SSIDs.
func TestBeginningsDiffer(t *testing.T) {
	numbers, sessions, queries := map[uint32]bool{}, map[stamp.SSID]bool{}, map[uint64]bool{}
	const begun = 64
	for range begun {
		p := NewStamp(nil)
		b, _, err := p.Packet(&Question{})
		first, fault := stamp.DecodeSender(b, stamp.Unauthenticated)
		if err != nil || fault != nil || first.SSID == 0 {
			t.Fatalf("%+v, %v, %v", first, err, fault)
		}
		numbers[first.Sequence], sessions[first.SSID] = true, true
		_, id, err := NewLossQueries().Packet(&Question{Value: lossquery.Query{}.Append(nil)})
		if err != nil {
			t.Fatal(err)
		}
		queries[id] = true
	}
	// Of 64 numbers of 16 bits, seven equal ones are as unlikely as one in a billion.
	if len(numbers) < begun-1 || len(queries) < begun-1 || len(sessions) < begun-6 {
		t.Errorf("of %d: %d numbers, %d SSIDs, %d numbers of loss queries", begun, len(numbers), len(sessions), len(queries))
	}
}

// An answer with a right HMAC that was recorded before a restart answers no question after it, not
// even one with the same number and session.
func TestRecordedAnswer(t *testing.T) {
	record := func(s *Stamp) (q *Question, reply []byte) {
		q = &Question{Session: 9, Value: testTLV(t, 1)}
		b, _, err := s.Packet(q)
		if err != nil {
			t.Fatal(err)
		}
		sent, _ := stamp.DecodeSender(b, stamp.Authenticated)
		p := stamp.ReflectorPacket{Sequence: sent.Sequence, SSID: sent.SSID, Sender: sent}
		reply = bytes.Clone(b)
		p.Put(reply, stamp.Authenticated)
		stamp.NewAuthenticator(testKey).Sign(reply)
		return q, reply
	}
	before, after := NewStamp(testKey), NewStamp(testKey)
	after.next = before.next
	_, old := record(before)
	q, fresh := record(after)
	if _, got := after.Answer(&udp.Datagram{Data: old}, q); got != WrongTime {
		t.Errorf("the recorded answer: %v, want %v", got, WrongTime)
	}
	if _, got := after.Answer(&udp.Datagram{Data: fresh}, q); got != Accepted {
		t.Errorf("the right answer: %v", got)
	}
}
