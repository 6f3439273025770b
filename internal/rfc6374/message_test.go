// SPDX-License-Identifier: Apache-2.0

package rfc6374

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/stamp"
	"github.com/waymark-net/waymark/test/craft"
)

// The octets are written by hand from RFC 6374 §3.1 and §3.2, and RFC 7876 §3.1.
const (
	lossOctets = "00 01 0048 82 000000 0000048d 0102030405060708 0000000100000002 0000000000000000 0000000300000004 0000000500000006" +
		"83 12 9c40 20010db8000000000000000000000009"
	delayOctets = "0c 01 002e 33 200000 00000085 1111111122222222 0000000000000000 3333333344444444 5555555566666666 0000"
)

func examples() (Loss, Delay) {
	return Loss{
			Header:   Header{Control: OutOfBandRequested, Session: 0x12, DS: 0x0d, TLVs: nil},
			Extended: true, Format: FormatNTP, Origin: 0x0102030405060708, Counters: [4]uint64{1<<32 + 2, 0, 3<<32 + 4, 5<<32 + 6},
		}, Delay{
			Header:  Header{Response: true, Class: true, Control: Success, Session: 2, DS: 5},
			Querier: FormatPTP, Responder: FormatPTP, Preferred: FormatNTP,
			Timestamps: [4]stamp.Timestamp{0x1111111122222222, 0, 0x3333333344444444, 0x5555555566666666},
		}
}

func TestMessages(t *testing.T) {
	loss, delay := examples()
	octets := craft.Hex(t, lossOctets)
	back := netip.MustParseAddrPort("[2001:db8::9]:40000")
	loss.TLVs = AppendUDPReturn(nil, back)
	if got, err := DecodeLoss(octets); err != nil || !reflect.DeepEqual(got, loss) {
		t.Errorf("%+v, %v\nwant %+v", got, err, loss)
	}
	if got := loss.Append(nil); !bytes.Equal(got, octets) {
		t.Errorf("%x\nwant %x", got, octets)
	}
	for one, err := range All(loss.TLVs) {
		if to, bad := DecodeUDPReturn(one.Value); err != nil || bad != nil || to != back || one.Type != TypeUDPReturn || one.Type.IsMandatory() {
			t.Errorf("%+v, %v, %v, %v", one, err, to, bad)
		}
	}
	octets = craft.Hex(t, delayOctets)
	delay.TLVs = []byte{0, 0}
	if got, err := DecodeDelay(octets); err != nil || !reflect.DeepEqual(got, delay) {
		t.Errorf("%+v, %v\nwant %+v", got, err, delay)
	}
	if got := delay.Append(nil); !bytes.Equal(got, octets) {
		t.Errorf("%x\nwant %x", got, octets)
	}
}

// Counters of 32 bits are in the lower half (RFC 6374 §3.1).
func TestShortCounters(t *testing.T) {
	loss, _ := examples()
	loss.Extended, loss.Octets = false, true
	b := loss.Append(nil)
	if got, err := DecodeLoss(b); err != nil || got.Counters != [4]uint64{2, 0, 4, 6} || !got.Octets || b[4] != 0x42 {
		t.Errorf("%+v, %v, %#x", got, err, b[4])
	}
}

func TestMalformed(t *testing.T) {
	loss, delay := examples()
	whole := loss.Append(nil)
	for name, tt := range map[string]struct {
		b    []byte
		want error
	}{
		"cut":            {whole[:LossLen-1], ErrTruncated},
		"nothing":        {nil, ErrTruncated},
		"length beyond":  {craft.Hex(t, "0001 0035"), ErrLength},
		"length too low": {craft.Hex(t, "0001 0033"), ErrLength},
	} {
		b := tt.b
		if len(b) == 4 {
			b = append(b, whole[4:]...)
		}
		if _, err := DecodeLoss(b); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if _, err := DecodeDelay(delay.Append(nil)[:DelayLen-1]); !errors.Is(err, ErrTruncated) {
		t.Errorf("a delay message that is cut: %v", err)
	}
	for _, block := range []string{"83", "8302", "830200"} {
		var last error
		for _, last = range All(craft.Hex(t, block)) {
		}
		if !errors.Is(last, ErrTLV) {
			t.Errorf("TLVs %s: %v", block, last)
		}
	}
	if _, err := DecodeUDPReturn(make([]byte, 7)); !errors.Is(err, ErrTLV) {
		t.Errorf("a UDP Return Object of 7 octets: %v", err)
	}
}

// tshark, an independent implementation, reads the messages. It knows them in MPLS, after an
// Associated Channel Header.
func TestTshark(t *testing.T) {
	loss, delay := examples()
	origin := time.Date(2026, 11, 23, 8, 30, 0, 0, time.UTC).UnixNano()
	loss.Origin, loss.Session = stamp.NTP.Timestamp(origin, 0), MaxSessionID
	loss.TLVs = nil
	delay.TLVs = nil
	var b []byte
	for _, word := range []uint32{0xa1b2c3d4, 2<<16 | 4, 0, 0, 1 << 16, 1} { // pcap, Ethernet
		b = binary.BigEndian.AppendUint32(b, word)
	}
	asked := Delay{
		Header:     Header{Class: true, Control: OutOfBandRequested, Session: 9, DS: 46},
		Querier:    FormatNTP,
		Timestamps: [4]stamp.Timestamp{loss.Origin},
	}
	for i, m := range [][]byte{loss.Append(nil), delay.Append(nil), asked.Append(nil)} {
		channel := []byte{0x10, 0, 0, []byte{0x0a, 0x0c, 0x0c}[i]} // DLM and DM (RFC 6374 §3)
		frame := append(make([]byte, 12), 0x88, 0x47, 0, 0, 0xd1, 0xff)
		frame = append(append(frame, channel...), m...)
		for _, word := range []int{1, i, len(frame), len(frame)} {
			b = binary.BigEndian.AppendUint32(b, uint32(word))
		}
		b = append(b, frame...)
	}
	path := filepath.Join(t.TempDir(), "messages.pcap")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ filter, fields, want string }{
		{
			"mplspmdlm", "version flags.r flags.t ctrl.code length dflags.x dflags.b otf session.id ds origin.timestamp.ntp counter1 counter2 counter3 counter4",
			// Without T, DS is "part of the Session Identifier".
			"0 0 0 0x01 52 1 0 2 4294967245  Nov 23, 2026 08:30:00.000000000 UTC 4294967298 0 12884901892 21474836486",
		},
		{"mplspmdm && mpls_pm.flags.r == 0", "version flags.r flags.t ctrl.code length qtf rtf rptf session.id ds timestamp1.ntp", "0 0 1 0x01 44 2 0 0 9 46 Nov 23, 2026 08:30:00.000000000 UTC"},
		{"mplspmdm && mpls_pm.flags.r == 1", "version flags.r flags.t ctrl.code length qtf rtf rptf session.id ds timestamp1.ptp timestamp3_ptp", "0 1 1 0x01 44 3 3 2 2 5 286331153.572662306 858993459.1145324612"},
	} {
		var args []string
		for f := range strings.FieldsSeq(tt.fields) {
			args = append(args, "-e", "mpls_pm."+f)
		}
		lines := tshark.Run(t, path, tt.filter, args...)
		if len(lines) != 1 || strings.ReplaceAll(lines[0], "\t", " ") != tt.want {
			t.Errorf("tshark reads %q, want %q", lines, tt.want)
		}
	}
}

// FuzzMessages checks that what can be read is written as it was.
func FuzzMessages(f *testing.F) {
	loss, delay := examples()
	f.Add(loss.Append(nil))
	f.Add(delay.Append(nil))
	f.Add(craft.Hex(f, lossOctets))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := DecodeLoss(b); err == nil {
			if again, err := DecodeLoss(m.Append(nil)); err != nil || !same(m.Header, again.Header) || again.Counters != m.Counters ||
				again.Origin != m.Origin ||
				again.Format != m.Format {
				t.Errorf("%+v became %+v, %v", m, again, err)
			}
			walk(t, m.TLVs)
		}
		if m, err := DecodeDelay(b); err == nil {
			if again, err := DecodeDelay(m.Append(nil)); err != nil || !same(m.Header, again.Header) || again.Timestamps != m.Timestamps ||
				again.Responder != m.Responder {
				t.Errorf("%+v became %+v, %v", m, again, err)
			}
			walk(t, m.TLVs)
		}
	})
}

func same(a, b Header) bool {
	equal := bytes.Equal(a.TLVs, b.TLVs)
	a.TLVs, b.TLVs = nil, nil
	return equal && reflect.DeepEqual(a, b)
}

func walk(t *testing.T, tlvs []byte) {
	n := 0
	for one, err := range All(tlvs) {
		if err != nil {
			return
		}
		n += 2 + len(one.Value)
		if to, err := DecodeUDPReturn(one.Value); err == nil && !to.Addr().IsValid() {
			t.Errorf("%x has no address", one.Value)
		}
	}
	if n != len(tlvs) {
		t.Errorf("%d of %d octets", n, len(tlvs))
	}
}
