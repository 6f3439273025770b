// SPDX-License-Identifier: Apache-2.0

package lossquery

import (
	"bytes"
	"errors"
	"testing"

	"github.com/waymark-net/waymark/test/craft"
)

// The octets are written by hand from the layout in the draft.
const (
	queryOctets    = "00000007 0000000100000002 80 2a 0000000000 01"
	responseOctets = "00000009 0000000000000003 c0 2b 0000 0000000200000001 00000007 0000000100000002 80 2a 00 01 fe"
)

func TestQuery(t *testing.T) {
	want := Query{Sequence: 7, Transmitted: Count{Value: 1<<32 + 2, Extended: true, Block: 42}, Control: InBand}
	octets := craft.Hex(t, queryOctets)
	if got, err := DecodeQuery(octets); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got := want.Append(nil); !bytes.Equal(got, append(octets, make([]byte, ResponseLen-QueryLen)...)) || IsResponse(got) {
		t.Errorf("%x", got)
	}
	if _, err := DecodeQuery(octets[:QueryLen-1]); !errors.Is(err, ErrTruncated) {
		t.Errorf("a query that is cut: %v", err)
	}
	// Without X, the counter has 32 bits.
	want.Transmitted.Extended, octets[12] = false, 0x40
	want.Transmitted.Octets = true
	if got, _ := DecodeQuery(octets); got.Transmitted.Value != 2 || !got.Transmitted.Octets {
		t.Errorf("%+v", got)
	}
	if got := want.Append(nil)[4:13]; !bytes.Equal(got, craft.Hex(t, "0000000000000002 40")) {
		t.Errorf("%x", got)
	}
}

func TestResponse(t *testing.T) {
	want := Response{
		Sequence: 9, Transmitted: Count{3, true, true, 43}, Received: 2<<32 + 1, Control: Failure, SenderTTL: 254,
		Sender: Query{Sequence: 7, Transmitted: Count{Value: 1<<32 + 2, Extended: true, Block: 42}},
	}
	octets := craft.Hex(t, responseOctets)
	if got, err := DecodeResponse(octets); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got := want.Append(nil); !bytes.Equal(got, octets) || !IsResponse(got) {
		t.Errorf("%x, want %x", got, octets)
	}
	if _, err := DecodeResponse(octets[:ResponseLen-1]); !errors.Is(err, ErrTruncated) {
		t.Errorf("a response that is cut: %v", err)
	}
	want.SenderTTL, want.Sender.Transmitted.Extended = 0, false
	got := want.Append(nil)
	if !IsResponse(got) || len(got) != ResponseLen {
		t.Errorf("a response without a TTL looks like a query: %x", got)
	}
	if again, _ := DecodeResponse(got); again.Received != 1 || again.Sender.Transmitted.Value != 2 {
		t.Errorf("the received counter has not the form of the sender's: %+v", again)
	}
}

// FuzzMessages checks that what can be read is written as it was.
func FuzzMessages(f *testing.F) {
	f.Add(craft.Hex(f, queryOctets))
	f.Add(craft.Hex(f, responseOctets))
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := DecodeQuery(b); err == nil {
			if again, err := DecodeQuery(q.Append(nil)); err != nil || again != q {
				t.Errorf("%+v became %+v, %v", q, again, err)
			}
		}
		if r, err := DecodeResponse(b); err == nil {
			r.SenderTTL = max(r.SenderTTL, 1)
			if again, err := DecodeResponse(r.Append(nil)); err != nil || again != r {
				t.Errorf("%+v became %+v, %v", r, again, err)
			}
		}
	})
}
