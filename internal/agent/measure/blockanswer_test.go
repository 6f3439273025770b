// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/internal/stamp/query"
	"github.com/waymark-net/waymark/stamp"
)

// What another node says about a block is counted by cause, and only counters of the block and
// the flow that were asked about are taken.
func TestWrongAnswersAboutBlocks(t *testing.T) {
	m, verdict := judge(t)
	s := &stampExchange{meter: m, others: make(map[flowPoint]runningCount)}
	good := func(b *closedBlock) blocks.Message {
		return blocks.Message{Length: b.measurement.Block, Block: b.number, ClockError: 1000, Entries: []blocks.Entry{{
			Flow: blocks.KeyOf("red"), State: blocks.Answered, Counters: blocks.Counters{Packets: 90, Complete: true},
		}}}
	}
	for _, tt := range []struct {
		name   string
		change func(*blocks.Message)
		want   blockAnswer
		final  bool
	}{
		{"counters", func(*blocks.Message) {}, answerCounters, true},
		{"another block", func(m *blocks.Message) { m.Block++ }, answerOther, false},
		{"blocks of another length", func(m *blocks.Message) { m.Length *= 2 }, answerOther, false},
		{"another flow", func(m *blocks.Message) { m.Entries[0].Flow++ }, answerOther, false},
		{"more flows", func(m *blocks.Message) { m.Entries = append(m.Entries, m.Entries[0]) }, answerOther, false},
		{"no flow", func(m *blocks.Message) { m.Entries = nil }, answerOther, false},
		{"not yet", func(m *blocks.Message) { m.Entries[0].State = blocks.NotYet }, answerNotYet, false},
		{"gone", func(m *blocks.Message) { m.Entries[0].State = blocks.Gone }, answerGone, true},
		{"unknown flow", func(m *blocks.Message) { m.Entries[0].State = blocks.UnknownFlow }, answerUnknownFlow, true},
		{"other length", func(m *blocks.Message) { m.Entries[0].State = blocks.OtherLength }, answerOtherLength, true},
		{"left as it was", func(m *blocks.Message) { m.Entries[0].State = blocks.Unanswered }, answerNothing, true},
		{"no such state", func(m *blocks.Message) { m.Entries[0].State = 99 }, answerMalformed, true},
		{"no message", nil, answerMalformed, false},
		{"a TLV that is not known there", nil, answerNothing, true},
	} {
		m.answers = [numBlockAnswers]uint64{}
		r := verdict(10, func(b *closedBlock) {
			value, flags := make([]byte, 28), stamp.Flags(0)
			switch {
			case tt.change != nil:
				message := good(b)
				tt.change(&message)
				value = message.Append(nil)
			case tt.want == answerNothing:
				flags = stamp.FlagUnrecognized
			}
			answer, err := stamp.AppendTLV(nil, flags, blocks.Type, value)
			if err != nil {
				t.Fatal(err)
			}
			q := &asked{block: b, Question: query.Question{Answer: answer}, flows: []*model.MeasuredFlow{&b.measurement.Flows[0]}, points: []int{1}}
			if final := s.acceptAnswer(q); final != tt.final {
				t.Errorf("%s: final %v", tt.name, final)
			}
		})
		want := [numBlockAnswers]uint64{}
		want[tt.want], want[answerNoSelection] = 1, 1 // the answer has no TLV of selections
		if m.answers != want {
			t.Errorf("%s: counted %v, want %v", tt.name, m.answers, want)
		}
		if exact := r.Whole.Verdict == loss.Measured; exact != (tt.want == answerCounters) {
			t.Errorf("%s: %v", tt.name, r.Whole.Verdict)
		}
	}
	for code, want := range map[rfc6374.ControlCode]blockAnswer{
		rfc6374.Success: answerCounters, rfc6374.Initializing: answerNotYet, rfc6374.TemporarilyUnavailable: answerNotYet,
		rfc6374.ResourceUnavailable: answerGone,
		rfc6374.ConnectionMismatch:  answerUnknownFlow, rfc6374.DataReset: answerRefused, rfc6374.UnsupportedVersion: answerRefused,
	} {
		if got := answerFromCode(code); got != want {
			t.Errorf("control code %#x: %v, want %v", code, got, want)
		}
	}
}

// What the reflector of an agent finds wrong with packets is in its metrics and in its status,
// and outlives it.
func TestReflectorCounts(t *testing.T) {
	key := []byte(strings.Repeat("Z", 32)) // 5a
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	port := agenttest.FreePort(t)
	h := newHarness(t, agenttest.BaseConfig+"stamp: {listen: \"[::1]:"+port+"\", allow: [\"::1/128\"], key-file: "+file+"}\n")
	h.Start()
	agenttest.Eventually(t, "a reflector", func() bool { return strings.Contains(h.Log.String(), "the STAMP reflector answers") })
	conn, err := net.Dial("udp6", "[::1]:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(sequence uint32, change func([]byte) []byte) {
		t.Helper()
		b := make([]byte, stamp.Authenticated.BaseLen())
		p := stamp.SenderPacket{Sequence: sequence, Timestamp: 1, SSID: 7}
		p.Put(b, stamp.Authenticated)
		stamp.NewAuthenticator(key).Sign(b)
		if change != nil {
			b = change(b)
		}
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	send(1, nil)
	send(2, nil)
	send(2, nil) // replayed
	send(1, func(b []byte) []byte { b[20] ^= 1; return b })
	send(3, func(b []byte) []byte { return b[:len(b)-1] })
	send(4, func(b []byte) []byte { return append(b, 0, byte(stamp.TypeLocation), 0, 200) })
	packets := map[string]uint64{"reflected": 4, "hmac_wrong": 1, "truncated": 1}
	notes := map[string]uint64{"sequence_repeated": 1, "tlv_integrity_failed": 1} // without an HMAC, TLVs are not read
	agenttest.Eventually(t, "counts of all packets", func() bool {
		m := h.Status().Measurement
		return maps.Equal(m.StampPackets, packets) && m.StampNotes["sequence_repeated"] == 1 && m.StampSessions == 1
	})
	if got := h.Status().Measurement.StampNotes; !maps.Equal(got, notes) {
		t.Errorf("notes %v, want %v", got, notes)
	}
	seen := func(sessions float64) {
		t.Helper()
		for series, want := range map[string]float64{
			`waymark_stamp_packets_total{outcome="hmac_wrong"}`: 1, `waymark_stamp_packets_total{outcome="reflected"}`: 4,
			`waymark_stamp_notes_total{note="sequence_repeated"}`: 1, `waymark_stamp_notes_total{note="tlv_malformed"}`: 0,
			`waymark_stamp_notes_total{note="tlv_integrity_failed"}`: 1, "waymark_stamp_socket_dropped_total": 0, "waymark_stamp_sessions": sessions,
		} {
			if n, ok := h.Series(series); !ok || n != want {
				t.Errorf("%s: %v, %v; want %v", series, n, ok, want)
			}
		}
	}
	seen(1)
	h.reflector.set(nil, "")
	seen(0)
}

// checkAsked compares what an agent that has measured blocks counted of its questions.
func checkAsked(t *testing.T, h *harness) {
	t.Helper()
	agenttest.Eventually(t, "counts of questions", func() bool {
		m := h.Status().Measurement
		return m.QuestionReplies["accepted"] > 0 && m.BlockAnswers["answered"] > 0 && m.Readings["taken"] >= 2
	})
	for _, series := range []string{
		`waymark_measurement_replies_total{outcome="accepted",to="questions"}`, `waymark_block_answers_total{answer="answered"}`,
		`waymark_loss_readings_total{fate="taken"}`,
	} {
		if n, ok := h.Series(series); !ok || n == 0 {
			t.Errorf("%s: %v, %v", series, n, ok)
		}
	}
	for _, series := range []string{
		`waymark_measurement_replies_total{outcome="hmac_wrong",to="questions"}`, `waymark_loss_readings_total{fate="contradicted"}`,
		`waymark_block_answers_total{answer="other_block"}`, "waymark_loss_blocks_skipped_total", "waymark_loss_restarts_total",
	} {
		if n, ok := h.Series(series); !ok || n != 0 {
			t.Errorf("%s: %v, %v", series, n, ok)
		}
	}
}

// A node with another key gives no result, and its replies are counted. So are counters that
// come too late.
func TestWrongKeyIsCounted(t *testing.T) {
	port, directory := agenttest.FreePort(t), t.TempDir()
	stampOf := func(digits, listen string) string {
		file := filepath.Join(directory, digits)
		if err := os.WriteFile(file, []byte(strings.Repeat(digits, 32)), 0o600); err != nil {
			t.Fatal(err)
		}
		return "stamp: {listen: \"[::1]:" + listen + "\", allow: [\"::1/128\"], key-file: " + file + "}\n"
	}
	flow := "flows: [{name: red, direction: out, source: 2001:db8::1, segments: [\"fc00:2::e\"], probes: out-of-band, points: [\"[::1]:" +
		port + "\"]}]\n" +
		"measurement: {block: 200ms, guard: 40ms, clock-error: 1ms, probe-interval: 20ms}\n"
	far, err := net.ListenPacket("udp6", "[::1]:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	go func() { // a reflector with another key
		auth := stamp.NewAuthenticator([]byte(strings.Repeat("x", 32)))
		b := make([]byte, 1500)
		for {
			n, from, err := far.ReadFrom(b)
			if err != nil {
				return
			}
			p, err := stamp.DecodeSender(b[:n], stamp.Authenticated)
			if err != nil {
				continue
			}
			reply := stamp.ReflectorPacket{Sequence: p.Sequence, SSID: p.SSID, Received: p.Timestamp, Timestamp: p.Timestamp, Sender: p}
			reply.Put(b[:n], stamp.Authenticated)
			auth.Sign(b[:n])
			_, _ = far.WriteTo(b[:n], from)
		}
	}()
	near := newHarness(t, agenttest.BaseConfig+flow+stampOf("5a", agenttest.FreePort(t)))
	near.Start()
	for _, to := range []string{"questions", "probes"} {
		agenttest.Eventually(t, "wrong replies to "+to, func() bool {
			n, ok := near.Series(`waymark_measurement_replies_total{outcome="hmac_wrong",to="` + to + `"}`)
			return ok && n > 0
		})
		if n, ok := near.Series(`waymark_measurement_replies_total{outcome="accepted",to="` + to + `"}`); !ok || n != 0 {
			t.Errorf("accepted replies to %s: %v, %v", to, n, ok)
		}
	}
	if m := near.Status().Measurement; m.QuestionReplies["hmac_wrong"] == 0 || m.ProbeReplies["hmac_wrong"] == 0 {
		t.Errorf("%+v", m)
	}
}

// Counters that come too late are counted, also those of an earlier computation.
func TestReadingsAreCounted(t *testing.T) {
	m, verdict := judge(t)
	for range 2 {
		verdict(10, func(b *closedBlock) {
			for _, packets := range []uint64{90, 90, 91} {
				m.add(b, &b.measurement.Flows[0], 1, answered{known: true, Counters: blocks.Counters{Packets: packets, Complete: true}})
			}
			b.number -= 5
			m.add(b, &b.measurement.Flows[0], 1, answered{known: true})
		})
		m.countAssembled()
		m.ended = m.ended.Plus(m.assembler.Counters())
		m.assembler = nil
	}
	m.countAssembled()
	want := [loss.NumFates]uint64{loss.Taken: 4, loss.Repeated: 2, loss.Contradicted: 2, loss.Past: 2}
	if m.assembled.Readings != want {
		t.Errorf("%v, want %v", m.assembled.Readings, want)
	}
}
