// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/test/craft"
)

// tshark, an independent implementation, reads the values that we wrote: unauthenticated
// STAMP has the packets of TWAMP-Test (RFC 8762 §4.6), and TLVs are padding there.
func TestTshark(t *testing.T) {
	at := time.Date(2026, 11, 23, 8, 30, 0, 123456789, time.UTC)
	stamps := func(format TimestampFormat, after time.Duration) Timestamp {
		return format.Timestamp(at.Add(after).UnixNano(), 0)
	}
	sent := SenderPacket{Sequence: 7, Timestamp: stamps(NTP, 0), Error: NewErrorEstimate(time.Millisecond, true, NTP)}
	reply := ReflectorPacket{
		Sequence: 5, Timestamp: stamps(NTP, 2*time.Second), Error: NewErrorEstimate(time.Second, false, NTP), Received: stamps(NTP, time.Second),
		Sender: sent, SenderTTL: 254,
	}
	request, answer := make([]byte, 44), make([]byte, 44)
	sent.Put(request, Unauthenticated)
	reply.Put(answer, Unauthenticated)
	answer, err := AppendTLV(answer, 0, TypeExtraPadding, []byte{0xab, 0xcd})
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, word := range []uint32{0xa1b2c3d4, 2<<16 | 4, 0, 0, 1 << 16, 101} { // pcap, raw IP
		b = binary.BigEndian.AppendUint32(b, word)
	}
	for i, m := range [][]byte{request, answer} {
		ports := [2]uint16{40000, Port}
		if i == 1 {
			ports = [2]uint16{Port, 40000}
		}
		packet := craft.Seal(craft.Between("::1", "::1", craft.UDP).With(craft.Datagram(ports[0], ports[1], m...)))
		for _, word := range []int{int(at.Unix()), i, len(packet), len(packet)} {
			b = binary.BigEndian.AppendUint32(b, uint32(word))
		}
		b = append(b, packet...)
	}
	path := filepath.Join(t.TempDir(), "stamp.pcap")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	fields := []string{"seq_number", "timestamp", "error_estimate.s", "error_estimate.z", "error_estimate.scale", "error_estimate.multiplier",
		"receive_timestamp", "sender_seq_number", "sender_timestamp", "sender_ttl", "padding"}
	args := []string{"-d", "udp.port==862,twamp.test"}
	for _, f := range fields {
		args = append(args, "-e", "twamp.test."+f)
	}
	lines := tshark.Run(t, path, "twamp.test", args...)
	// It rounds fractions down, and reads requests like replies.
	const none, first, second, third = "Jan  1, 1970 00:00:00.000000000 UTC", "Nov 23, 2026 08:30:00.123456788 UTC",
		"Nov 23, 2026 08:30:01.123456788 UTC", "Nov 23, 2026 08:30:02.123456788 UTC"
	for i, want := range [][]string{
		{"7", first, "1,0", "0,0", "15,0", "132,0", none, "0", none, "0", "000000"},
		{"5", third, "0,1", "0,0", "25,15", "128,132", second, "7", first, "254", "00000000010002abcd"},
	} {
		if i >= len(lines) || lines[i] != strings.Join(want, "\t") {
			t.Errorf("tshark reads %q, want line %d to be %q", lines, i, want)
		}
	}
}
