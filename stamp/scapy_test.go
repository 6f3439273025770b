// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

// scapyPacket is a test packet that Scapy built, and its fields.
type scapyPacket struct {
	Kind           string
	Sequence       uint32
	SSID           uint16
	Error          string
	Time, Received uint64
	SenderTime     uint64 `json:"sender_time"`
	SenderError    string `json:"sender_error"`
	SenderSequence uint32 `json:"sender_sequence"`
	SenderTTL      uint8  `json:"sender_ttl"`
	TLVs           []struct {
		Flags, Type uint8
		Value       string
	}
	Packet string
}

// TestScapy reads packets that Scapy built (testdata/scapy/make.py), and writes the same octets
// again from what they mean.
func TestScapy(t *testing.T) {
	text, err := os.ReadFile("testdata/scapy/packets.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	octets := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	estimate := func(s string) ErrorEstimate { return ErrorEstimate(octets(s)[0])<<8 | ErrorEstimate(octets(s)[1]) }
	count := map[string]int{}
	for line := range bytes.Lines(text) {
		var want scapyPacket
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		count[want.Kind]++
		packet := octets(want.Packet)
		again := make([]byte, Unauthenticated.BaseLen())
		switch want.Kind {
		case "sender":
			p, err := DecodeSender(packet, Unauthenticated)
			if expected := (SenderPacket{want.Sequence, Timestamp(want.Time), estimate(want.Error), SSID(want.SSID)}); err != nil || p != expected {
				t.Errorf("%+v, %v; want %+v", p, err, expected)
			}
			p.Put(again, Unauthenticated)
		default:
			p, err := DecodeReflector(packet, Unauthenticated)
			expected := ReflectorPacket{
				Sequence: want.Sequence, Timestamp: Timestamp(want.Time), Error: estimate(want.Error), SSID: SSID(want.SSID),
				Received:  Timestamp(want.Received),
				Sender:    SenderPacket{Sequence: want.SenderSequence, Timestamp: Timestamp(want.SenderTime), Error: estimate(want.SenderError)},
				SenderTTL: want.SenderTTL,
			}
			if err != nil || p != expected {
				t.Errorf("%+v, %v; want %+v", p, err, expected)
			}
			p.Put(again, Unauthenticated)
		}
		i := 0
		for tlv, err := range TLVs(packet[Unauthenticated.BaseLen():]) {
			if err != nil || i >= len(want.TLVs) {
				t.Fatalf("%s: TLV %d: %v", want.Packet, i, err)
			}
			w := want.TLVs[i]
			if uint8(tlv.Flags()) != w.Flags || uint8(tlv.Type()) != w.Type || hex.EncodeToString(tlv.Value()) != w.Value {
				t.Errorf("TLV %#x %d %x, want %+v", tlv.Flags(), tlv.Type(), tlv.Value(), w)
			}
			if again, err = AppendTLV(again, tlv.Flags(), tlv.Type(), tlv.Value()); err != nil {
				t.Fatal(err)
			}
			count["TLV"]++
			i++
		}
		if i != len(want.TLVs) || !bytes.Equal(again, packet) {
			t.Errorf("%d of %d TLVs; written as\n%x, want\n%x", i, len(want.TLVs), again, packet)
		}
	}
	if count["sender"] != 40 || count["reflector"] != 40 || count["TLV"] < 50 {
		t.Errorf("%v", count)
	}
}
