// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/craft"
)

// setIDs returns the ids of a message's sets.
func setIDs(b []byte) []uint16 {
	var ids []uint16
	for at := headerLen; at < len(b); at += int(binary.BigEndian.Uint16(b[at+2:])) {
		ids = append(ids, binary.BigEndian.Uint16(b[at:]))
	}
	return ids
}

func wantSets(t *testing.T, b []byte, want ...uint16) {
	t.Helper()
	got := setIDs(b)
	if len(got) != len(want) {
		t.Fatalf("sets %v, want %v in %x", got, want, b)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("sets %v, want %v in %x", got, want, b)
		}
	}
}

func wantError(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// Records of 3 octets: sets are padded only when the padding is shorter than a record.
func TestEncoderPadding(t *testing.T) {
	short, shorter := template(t, 256, "flowLabelIPv6[3]"), template(t, 257, "ipTTL")
	e := encoder(t, TCP, 1000, short, shorter)
	b := message(t, e, short, []byte{1, 2, 3}, []byte{4, 5, 6})
	if got, want := b[len(b)-12:], craft.Hex(t, "0100 000c 010203 040506 0000"); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	b = message(t, e, shorter, []byte{9})
	if got, want := b[headerLen:], craft.Hex(t, "0101 0005 09"); !bytes.Equal(got, want) {
		t.Errorf("padding of 3 octets would be records: %x", got)
	}
	b = message(t, e, shorter, []byte{9}, []byte{9}, []byte{9}, []byte{9})
	if got, want := b[headerLen:], craft.Hex(t, "0101 0008 09090909"); !bytes.Equal(got, want) {
		t.Errorf("%x", got)
	}
}

// Messages are as long as allowed and never longer, whatever the records.
func TestEncoderLimit(t *testing.T) {
	long, name := template(t, 256, "paddingOctets[30]", "ipTTL"), template(t, 257, "interfaceName", "ipTTL")
	for limit := MinMessageLimit; limit < 400; limit++ {
		checkLimit(t, encoder(t, UDP, limit, long, name), limit, long, name)
	}
}

func TestEncoderTemplateTooLong(t *testing.T) {
	e := encoder(t, UDP, MinMessageLimit)
	wantError(t, e.Define(template(t, 256, "ipTTL", "ipTTL", "ipTTL")), ErrTooLong)
}

func checkLimit(t *testing.T, e *Encoder, limit int, long, name *Template) {
	t.Helper()
	s := session(t, UDP, Limits{})
	sent, received := 0, 0
	e.Start(nil)
	finish := func() {
		b := e.Finish(exportTime)
		if len(b) > limit {
			t.Fatalf("limit %d: a message of %d octets", limit, len(b))
		}
		m := decode(t, s, b)
		if len(m.Problems) > 0 {
			t.Fatalf("limit %d: %v", limit, m.Problems)
		}
		received += m.Records
		e.Start(nil)
	}
	for i := range 40 {
		tmpl, b := long, make([]byte, long.MinRecordLen())
		if i%3 > 0 {
			tmpl = name
			b = record(t, name, func(w *RecordWriter) { w.Text("interface-name"[:i%15]); w.Uint(64) })
		}
		err := e.Add(tmpl, b)
		for n := 0; errors.Is(err, ErrMessageFull); n++ {
			if n > 3 {
				t.Fatalf("limit %d: no message is empty enough for %d octets", limit, len(b))
			}
			finish()
			err = e.Add(tmpl, b)
		}
		if errors.Is(err, ErrTooLong) != (headerLen+setHeaderLen+len(b) > limit) {
			t.Fatalf("limit %d, record of %d octets: %v", limit, len(b), err)
		}
		if err == nil {
			sent++
		}
	}
	finish()
	if sent != received || e.Sequence() != uint32(sent) {
		t.Fatalf("limit %d: %d records sent, %d received, sequence %d", limit, sent, received, e.Sequence())
	}
}

// Sequence numbers count the data records of earlier messages, those of options
// too, and no templates (RFC 7011 §3.1).
func TestEncoderSequence(t *testing.T) {
	flow := template(t, 256, "packetDeltaCount")
	options := optionsTemplate(t, 257, "observationDomainId", "exportedMessageTotalCount[4]")
	e := encoder(t, UDP, 1000, flow, options)
	var got []uint32
	for n, tmpl := range []*Template{flow, flow, options, flow} {
		e.Start(nil)
		for range n + 1 {
			if err := e.Add(tmpl, make([]byte, 8)); err != nil {
				t.Fatal(err)
			}
		}
		got = append(got, binary.BigEndian.Uint32(e.Finish(exportTime)[8:]))
	}
	if want := []uint32{0, 1, 3, 6}; got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
		t.Errorf("sequence numbers %v, want %v", got, want)
	}
	e.sequence = 1<<32 - 1
	message(t, e, flow, make([]byte, 8), make([]byte, 8))
	if e.Sequence() != 1 {
		t.Errorf("after 2³²−1 and two records: %d", e.Sequence())
	}
}

// A template is sent once, before the first record that needs it.
func TestEncoderTemplatesFirst(t *testing.T) {
	flow := template(t, 256, "packetDeltaCount")
	options := optionsTemplate(t, 257, "observationDomainId", "exportedMessageTotalCount[4]")
	other := template(t, 258, "ipTTL")
	e := encoder(t, TCP, 1000, flow, options)
	wantError(t, e.Add(other, []byte{1}), ErrTemplateUndefined)
	wantError(t, e.Add(flow, []byte{1}), ErrNotRecord)
	wantSets(t, message(t, e, flow, make([]byte, 8)), 2, 3, 256)
	wantSets(t, message(t, e, flow, make([]byte, 8)), 256)
	e.Start(nil)
	for _, tmpl := range []*Template{flow, options, flow} {
		if err := e.Add(tmpl, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
	}
	wantSets(t, e.Finish(exportTime), 256, 257, 256)

	wantError(t, e.Define(template(t, 256, "ipTTL")), ErrTemplateInUse)
	if err := e.Define(template(t, 256, "packetDeltaCount")); err != nil {
		t.Error(err)
	}
	// Templates in a message that is never finished are still due.
	if err := e.Define(other); err != nil {
		t.Fatal(err)
	}
	e.Start(nil)
	if err := e.Add(other, []byte{1}); err != nil {
		t.Fatal(err)
	}
	before := e.Sequence()
	wantSets(t, message(t, e, other, []byte{1}), 2, 258)
	if e.Sequence() != before+1 {
		t.Errorf("sequence %d after %d and one record", e.Sequence(), before)
	}
}

func TestEncoderWithdrawal(t *testing.T) {
	flow, again := template(t, 256, "packetDeltaCount"), template(t, 256, "ipTTL")
	options := optionsTemplate(t, 257, "observationDomainId", "exportedMessageTotalCount[4]")
	e := encoder(t, TCP, 1000, flow, options)
	s := session(t, TCP, Limits{})
	decode(t, s, message(t, e, flow, make([]byte, 8)))

	e.Start(nil)
	if err := e.Add(flow, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []TemplateID{256, 257} {
		if err := e.Withdraw(id); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, e.Withdraw(256), ErrTemplateUndefined)
	wantError(t, e.Add(flow, make([]byte, 8)), ErrTemplateUndefined)
	if err := e.Define(again); err != nil {
		t.Fatal(err)
	}
	if err := e.Add(again, []byte{64}); err != nil {
		t.Fatal(err)
	}
	b := e.Finish(exportTime)
	wantSets(t, b, 256, 2, 3, 2, 256)
	if withdrawal := craft.Hex(t, "0002 0008 0100 0000 0003 0008 0101 0000"); !bytes.Contains(b, withdrawal) {
		t.Errorf("no withdrawal in %x", b)
	}
	if m := decode(t, s, b); len(m.Problems) > 0 || m.Records != 2 || len(m.Templates) != 1 || s.templates != 1 {
		t.Errorf("%+v, %d templates", m, s.templates)
	}
}

// Over UDP nothing is withdrawn, and a number is not used twice (RFC 7011 §8.4).
func TestEncoderWithdrawalUDP(t *testing.T) {
	flow := template(t, 256, "packetDeltaCount")
	e := encoder(t, UDP, 1000, flow)
	message(t, e, flow, make([]byte, 8))
	if err := e.Withdraw(256); err != nil {
		t.Fatal(err)
	}
	wantError(t, e.Add(flow, make([]byte, 8)), ErrTemplateUndefined)
	wantError(t, e.Define(template(t, 256, "ipTTL")), ErrTemplateInUse)
	if n := e.Refresh(exportTime, 0, 0); n != 0 {
		t.Errorf("%d templates are due", n)
	}
	e.Start(nil)
	if err := e.AddTemplates(); err != nil || !e.Empty() {
		t.Errorf("%v, empty %v", err, e.Empty())
	}
}

func TestEncoderRefresh(t *testing.T) {
	flow := template(t, 256, "packetDeltaCount")
	options := optionsTemplate(t, 257, "observationDomainId", "exportedMessageTotalCount[4]")
	e := encoder(t, UDP, 60, flow, options)
	e.Start(nil)
	if err := e.AddTemplates(); err != nil {
		t.Fatal(err)
	}
	wantSets(t, e.Finish(exportTime), 2, 3)
	for _, c := range []struct {
		after              time.Duration
		templates, options time.Duration
		want               int
	}{
		{9 * time.Second, 10 * time.Second, 20 * time.Second, 0},
		{10 * time.Second, 10 * time.Second, 20 * time.Second, 1},
		{10 * time.Second, 10 * time.Second, 20 * time.Second, 1}, // still due, not twice
		{20 * time.Second, 10 * time.Second, 20 * time.Second, 2},
	} {
		if n := e.Refresh(exportTime.Add(c.after), c.templates, c.options); n != c.want {
			t.Errorf("after %v: %d due, want %d", c.after, n, c.want)
		}
	}
	if err := e.SetLimit(40); err != nil {
		t.Fatal(err)
	}
	e.Start(nil)
	wantError(t, e.AddTemplates(), ErrMessageFull)
	wantSets(t, e.Finish(exportTime.Add(20*time.Second)), 2)
	e.Start(nil)
	if err := e.AddTemplates(); err != nil {
		t.Fatal(err)
	}
	wantSets(t, e.Finish(exportTime.Add(20*time.Second)), 3)
	if n := e.Refresh(exportTime.Add(29*time.Second), 10*time.Second, 10*time.Second); n != 0 {
		t.Errorf("%d due", n)
	}
	if err := e.SetLimit(MinMessageLimit - 1); err == nil {
		t.Error("a limit that no template fits")
	}
}

func TestEncoderReset(t *testing.T) {
	flow, gone := template(t, 256, "packetDeltaCount"), template(t, 257, "ipTTL")
	e := encoder(t, UDP, 1000, flow, gone)
	message(t, e, flow, make([]byte, 8))
	if err := e.Withdraw(257); err != nil {
		t.Fatal(err)
	}
	e.Reset()
	if err := e.Define(template(t, 257, "flowEndReason")); err != nil {
		t.Errorf("the number of a template of the last session: %v", err)
	}
	b := message(t, e, flow, make([]byte, 8))
	wantSets(t, b, 2, 256)
	if n := binary.BigEndian.Uint32(b[8:]); n != 0 {
		t.Errorf("a session begins with sequence number %d", n)
	}
}

// No message has an earlier export time than an earlier message with a template (RFC
// 7011 §8.2).
func TestEncoderExportTime(t *testing.T) {
	e := encoder(t, UDP, 1000)
	for _, c := range []struct{ at, want int64 }{{100, 100}, {90, 100}, {101, 101}} {
		e.Start([]byte("before"))
		b := e.Finish(time.Unix(c.at, 0))
		if got := binary.BigEndian.Uint32(b[6+4:]); string(b[:6]) != "before" || int64(got) != c.want ||
			binary.BigEndian.Uint16(b[6+2:]) != headerLen {
			t.Errorf("at %d: %x", c.at, b)
		}
	}
}

// A clock that is set back keeps no template from being sent again.
func TestEncoderClockSetBack(t *testing.T) {
	e := encoder(
		t,
		UDP,
		1000,
		template(t, 256, "packetDeltaCount"),
		optionsTemplate(t, 257, "observationDomainId", "exportedMessageTotalCount[4]"),
	)
	if err := e.AddTemplates(); err != nil {
		t.Fatal(err)
	}
	e.Finish(exportTime)
	back := exportTime.Add(-time.Hour)
	if n := e.Refresh(back, 0, time.Minute); n != 2 {
		t.Errorf("%d templates are due, want 2", n)
	}
	if err := e.AddTemplates(); err != nil {
		t.Fatal(err)
	}
	e.Finish(back)
	if ahead := e.Ahead(back); ahead != time.Hour {
		t.Errorf("ahead by %v", ahead)
	}
	if e.Reset(); e.Ahead(back) > 0 {
		t.Errorf("a new session is ahead by %v", e.Ahead(back))
	}
}

func TestEncoderWithoutStart(t *testing.T) {
	flow := template(t, 256, "packetDeltaCount")
	e := encoder(t, UDP, 1000, flow)
	if err := e.Add(flow, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	wantSets(t, e.Finish(exportTime), 2, 256)
	wantSets(t, e.Finish(exportTime))
}

func TestEncoderAllocatesNothing(t *testing.T) {
	flow := template(t, 256, "packetDeltaCount")
	e := encoder(t, UDP, 1000, flow)
	buf, b := make([]byte, 0, 1000), make([]byte, 8)
	e.Start(buf)
	if n := testing.AllocsPerRun(1000, func() {
		if err := e.Add(flow, b); errors.Is(err, ErrMessageFull) {
			e.Finish(exportTime)
			e.Start(buf)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a record", n)
	}
}
