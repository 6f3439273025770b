// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/stamp"
	"github.com/waymark-net/waymark/test/e2e"
)

// scapyError is an error estimate as Scapy reads it.
type scapyError struct {
	Synchronized, Format, Scale, Multiplier uint8
}

// scapyTLV is a TLV as Scapy reads and writes it. Flags are the octet: Scapy 2.5.0 names its
// bits in the opposite order, U the lowest.
type scapyTLV struct {
	Flags  uint8  `json:"flags"`
	Type   uint8  `json:"type"`
	Length uint16 `json:"length"`
	Value  string `json:"value"`
}

// scapyPacket is a packet of either kind as Scapy reads it.
type scapyPacket struct {
	Octets, Again  string // as received, and as Scapy writes what it read
	Sequence       uint32
	Time           stamp.Timestamp
	Error          scapyError
	SSID           stamp.SSID
	Zero           uint64 // the sum of what must be zero
	TLVs           []scapyTLV
	Received       stamp.Timestamp
	SenderSequence uint32          `json:"sender_sequence"`
	SenderTime     stamp.Timestamp `json:"sender_time"`
	SenderError    scapyError      `json:"sender_error"`
	SenderTTL      uint8           `json:"sender_ttl"`
}

// python is that of the system, which has Debian's Scapy.
const python = "/usr/bin/python3"

// scapy is the script that sends and reflects with Scapy.
func scapy(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command(python, "-c", "import scapy.contrib.stamp").CombinedOutput(); err != nil {
		t.Fatalf("%v; run: scripts/setup.sh test\n%s", err, out)
	}
	return "testdata/stamp_scapy.py"
}

// scapyRead gives the packets that the script has read.
func scapyRead(t *testing.T, text string) (list []scapyPacket) {
	t.Helper()
	for line := range strings.Lines(text) {
		var p scapyPacket
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if p.Again != p.Octets || p.Zero != 0 {
			t.Errorf("Scapy writes %s again as %s; what must be zero is %d", p.Octets, p.Again, p.Zero)
		}
		list = append(list, p)
	}
	return list
}

// octets are those of the packet.
func (p *scapyPacket) octets(t *testing.T) []byte {
	t.Helper()
	b, err := hex.DecodeString(p.Octets)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// estimate is an error estimate as our codec has it.
func (e scapyError) estimate() stamp.ErrorEstimate {
	high := stamp.ErrorEstimate(e.Synchronized)<<15 | stamp.ErrorEstimate(e.Format)<<14
	return high | stamp.ErrorEstimate(e.Scale)<<8 | stamp.ErrorEstimate(e.Multiplier)
}

// sender is the packet of a sender, and agrees with what our codec reads.
func (p *scapyPacket) sender(t *testing.T) stamp.SenderPacket {
	t.Helper()
	want := stamp.SenderPacket{Sequence: p.Sequence, Timestamp: p.Time, Error: p.Error.estimate(), SSID: p.SSID}
	if got, err := stamp.DecodeSender(p.octets(t), stamp.Unauthenticated); err != nil || got != want {
		t.Errorf("we read %+v, %v; Scapy %+v", got, err, want)
	}
	return want
}

// reflector is the packet of a reflector, and agrees with what our codec reads.
func (p *scapyPacket) reflector(t *testing.T) stamp.ReflectorPacket {
	t.Helper()
	want := stamp.ReflectorPacket{
		Sequence: p.Sequence, Timestamp: p.Time, Error: p.Error.estimate(), SSID: p.SSID, Received: p.Received,
		Sender:    stamp.SenderPacket{Sequence: p.SenderSequence, Timestamp: p.SenderTime, Error: p.SenderError.estimate()},
		SenderTTL: p.SenderTTL,
	}
	if got, err := stamp.DecodeReflector(p.octets(t), stamp.Unauthenticated); err != nil || got != want {
		t.Errorf("we read %+v, %v; Scapy %+v", got, err, want)
	}
	return want
}

// ordered checks that times, each in a format, follow each other within a second.
func ordered(t *testing.T, formats []stamp.TimestampFormat, times ...stamp.Timestamp) {
	t.Helper()
	state, err := health.ReadClock()
	if err != nil {
		t.Fatal(err)
	}
	before := int64(0)
	for i, at := range times {
		ns, ok := formats[i].Nanoseconds(at, state.TAIOffset)
		if !ok || i == 0 && time.Since(time.Unix(0, ns)).Abs() > time.Minute || i > 0 && (ns < before || ns > before+int64(time.Second)) {
			t.Errorf("time %d of %x (%v) is %v, after %v", i, times, formats, time.Unix(0, ns), time.Unix(0, before))
		}
		before = ns
	}
}

// format is a format by the name that the command line gives it.
func format(t *testing.T, name string) (f stamp.TimestampFormat) {
	t.Helper()
	if err := f.UnmarshalText([]byte(name)); err != nil {
		t.Fatal(err)
	}
	return f
}

// Scapy reads what our sender puts on the wire, and our sender measures with the answers that
// Scapy writes.
func TestScapyReflects(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	const count = 8
	script := scapy(t)
	for i, tt := range []struct {
		ours, theirs string
		args         []string
		tlvs         []scapyTLV // that our sender sends, without values
		unknown      []string
	}{
		{"ntp", "ntp", nil, nil, nil},
		{"ptp", "ptp", nil, nil, nil},
		{"ptp", "ntp", nil, nil, nil},
		{"ntp", "ptp", []string{"--size", "100"}, []scapyTLV{{0x80, 1, 52, ""}}, nil},
		{
			"ntp", "ntp", []string{"--reply-dscp", "46", "--direct-measurement", "--timestamp-information"},
			[]scapyTLV{{0x80, 3, 4, ""}, {0x80, 4, 4, ""}, {0x80, 5, 12, ""}}, []string{"timestamp-information", "class-of-service", "direct-measurement"},
		},
	} {
		name := fmt.Sprintf("%s to %s, %v", tt.ours, tt.theirs, tt.args)
		port := 8620 + i
		r := startFar(t, python, script, "reflect", far, strconv.Itoa(port), tt.theirs, strconv.Itoa(count))
		e2e.Await(t, "Scapy's reflector", 5*time.Second, func() bool { return listens(t, port) })
		report, err := send(
			t,
			append(
				[]string{at(far, port), "--count", strconv.Itoa(count), "--interval", "10ms", "--ssid", "4242", "--timestamps", tt.ours},
				tt.args...)...)
		r.stop(t)
		if err != nil {
			t.Errorf("%s: %v\n%s%s", name, err, r.out.String(), r.err.String())
			continue
		}
		complete(t, report, count)
		var unknown []string
		if report.Answers != nil {
			unknown = report.Answers.Unrecognized
		}
		if !slices.Equal(slices.Sorted(slices.Values(unknown)), slices.Sorted(slices.Values(tt.unknown))) {
			t.Errorf("%s: not recognized %v, want %v", name, unknown, tt.unknown)
		}
		if c := report.ReflectorTime; c.Format != tt.theirs || !c.Synchronized {
			t.Errorf("%s: the reflector's clock %+v", name, c)
		}
		packets := scapyRead(t, r.out.String())
		if len(packets) != count {
			t.Fatalf("%s: Scapy reads %d packets of %d", name, len(packets), count)
		}
		for n, p := range packets {
			f := format(t, tt.ours)
			if s := p.sender(t); s.Sequence != packets[0].sender(t).Sequence+uint32(n) || s.SSID != 4242 || s.Error.Format() != f ||
				s.Error.Multiplier() == 0 {
				t.Errorf("%s: packet %d: %+v", name, n, s)
			}
			ordered(t, []stamp.TimestampFormat{f}, p.Time)
			for k := range p.TLVs {
				p.TLVs[k].Value = ""
			}
			slices.SortFunc(p.TLVs, func(a, b scapyTLV) int { return int(a.Type) - int(b.Type) })
			if !slices.Equal(p.TLVs, tt.tlvs) {
				t.Errorf("%s: packet %d has TLVs %+v, want %+v", name, n, p.TLVs, tt.tlvs)
			}
		}
	}
}

// Our reflector answers what Scapy writes, and Scapy reads the answers.
func TestScapySends(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	const count = 4
	script := scapy(t)
	padding := scapyTLV{0x80, 1, 7, "00010203040506"}
	known := []scapyTLV{padding, {0x80, 4, 4, "b8000000"}, {0x80, 5, 12, "000000090000000000000000"}, {0x80, 200, 3, "abcdef"}}
	beyond := []scapyTLV{padding, {0x80, 1, 50, "abcd"}} // the second one ends after the packet
	for _, tt := range []struct {
		ours, theirs string
		stateful     bool
		tlvs         []scapyTLV
		flags        []uint8 // of the TLVs in the answer
		noted        string
	}{
		{"ntp", "ntp", false, nil, nil, ""},
		{"ptp", "ptp", true, nil, nil, ""},
		{"ntp", "ptp", false, []scapyTLV{padding}, []uint8{0}, ""},
		{"ptp", "ntp", true, known, []uint8{0, 0, 0, 0x80}, "tlv_unrecognized"},
		{"ntp", "ntp", false, beyond, []uint8{0, 0x40}, "tlv_malformed"},
	} {
		name := fmt.Sprintf("%s to %s, %v", tt.theirs, tt.ours, tt.tlvs)
		args := []string{"--timestamps", tt.ours, "--dscp", "46"}
		if tt.stateful {
			args = append(args, "--stateful")
		}
		r := reflect(t, args...)
		tlvs, err := json.Marshal(append([]scapyTLV{}, tt.tlvs...))
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		cmd := exec.Command(python, script, "send", far, strconv.Itoa(stamp.Port), tt.theirs, strconv.Itoa(count), string(tlvs))
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, errs.String())
		}
		packets := scapyRead(t, string(out))
		if len(packets) != 2*count {
			t.Fatalf("%s: Scapy reads %d packets of %d", name, len(packets), 2*count)
		}
		for n := range count {
			asked, answer := packets[2*n].sender(t), packets[2*n+1].reflector(t)
			number := asked.Sequence
			if tt.stateful {
				number = uint32(n)
			}
			ours, theirs := format(t, tt.ours), format(t, tt.theirs)
			if answer.Sequence != number || answer.SSID != 0xabcd || answer.SenderTTL != uint8(255-n) || answer.Error.Format() != ours ||
				answer.Error.Multiplier() == 0 {
				t.Errorf("%s: answer %d: %+v", name, n, answer)
			}
			if want := (stamp.SenderPacket{Sequence: 0xfffffffe + uint32(n), Timestamp: asked.Timestamp,
				Error: scapyError{uint8(n % 2), uint8(theirs), uint8(63 - n), uint8(255 - n)}.estimate()}); answer.Sender != want {
				t.Errorf("%s: answer %d has of the sender %+v, want %+v", name, n, answer.Sender, want)
			}
			ordered(t, []stamp.TimestampFormat{theirs, ours, ours}, asked.Timestamp, answer.Received, answer.Timestamp)
			answered(t, name, n, packets[2*n+1].TLVs, tt.tlvs, tt.flags)
		}
		c := r.counts(t)
		if c.Outcomes["reflected"] != count {
			t.Errorf("%s: %v", name, c.Outcomes)
		}
		for noteName, have := range c.Notes {
			if (noteName == tt.noted) != (have == count) || noteName != tt.noted && have != 0 {
				t.Errorf("%s: note %s: %d", name, noteName, have)
			}
		}
	}
}

// answered checks the TLVs of answer n: those of the packet with these flags, and with the
// values of a reflector.
func answered(t *testing.T, name string, n int, got, sent []scapyTLV, flags []uint8) {
	t.Helper()
	if len(got) != len(sent) {
		t.Errorf("%s: answer %d has %d TLVs, want %d", name, n, len(got), len(sent))
		return
	}
	for i, tlv := range got {
		want := sent[i]
		want.Flags = flags[i]
		switch stamp.Type(want.Type) {
		case stamp.TypeClassOfService: // the packet came with class 0, and its answer may have class 46
			want.Value = "b8000000"
		case stamp.TypeDirectMeasurement:
			want.Value = fmt.Sprintf("%08x%08x%08x", 9, n+1, n+1)
		}
		if tlv != want {
			t.Errorf("%s: answer %d has TLV %+v, want %+v", name, n, tlv, want)
		}
	}
}
