// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/query"
	"github.com/waymark-net/waymark/stamp"
	"github.com/waymark-net/waymark/test/e2e"
)

// Test packets measure the delay to another agent, whether it has the flow or not, and their
// records are those of "waymark loss".
func TestDelayOfProbes(t *testing.T) {
	port := agenttest.FreePort(t)
	far := newHarness(t, agenttest.BaseConfig+"stamp: {listen: \"[::1]:"+port+"\", allow: [\"::1/128\"]}\n")
	far.Start()
	near := newHarness(
		t,
		agenttest.BaseConfig+"measurement: {block: 200ms, probe-interval: 20ms}\nflows: [{name: red, direction: out, source: 2001:db8::1, "+
			"segments: [\"fc00:2::e\"], probes: out-of-band, points: [\"[::1]:"+port+"\"]}]\n",
	)
	near.Start()
	byMethod := awaitDelays(t, near, 3)
	one, two, round := byMethod[loss.OneWay], byMethod[loss.TwoWay], byMethod[loss.RoundTrip]
	for _, d := range byMethod {
		if d.Min <= 0 || d.Min > d.Mean || d.P95 < d.Min || d.From != 0 || d.To != 1 || d.Scope != record.WholeWay || d.Block.Valid ||
			d.Length != uint64(200*time.Millisecond) ||
			d.Samples > 11 {
			t.Errorf("%+v", d)
		}
	}
	if two.Min > round.Min || one.Min > round.Min {
		t.Errorf("one-way %d, two-way %d, round-trip %d", one.Min, two.Min, round.Min)
	}
}

// Delay Measurement messages of RFC 6374 measure the delay to the port that is theirs. A
// response that is routed says only when its query arrived.
func TestDelayByMessages(t *testing.T) {
	port, delayPort := agenttest.FreePort(t), agenttest.FreePort(t)
	far := newHarness(
		t,
		agenttest.BaseConfig+"responders: [{protocol: rfc6374-delay, listen: \"[::1]:"+delayPort+"\", allow: [\"::1/128\"]}]\n",
	)
	far.Start()
	near := newHarness(
		t,
		agenttest.BaseConfig+"measurement: {block: 200ms, probe-interval: 20ms, clock-error: 1ms, exchange: rfc6374, delay-port: "+delayPort+
			"}\n"+
			"flows: [{name: red, direction: out, source: 2001:db8::1, segments: [\"fc00:2::e\"], session: 7, probes: out-of-band, points: [\"[::1]:"+
			port+"\"]}]\n",
	)
	near.System.SetSource(netip.IPv6Loopback(), nil)
	near.Start()
	byMethod := awaitDelays(t, near, 2)
	one, round := byMethod[loss.OneWay], byMethod[loss.RoundTrip]
	if one == nil || round == nil || one.Min <= 0 || one.Min > round.Min || one.ToClockError.Value != uint64(time.Millisecond) ||
		one.To != 1 ||
		one.Scope != record.WholeWay {
		t.Errorf("%+v", byMethod)
	}
	if m := near.Status().Measurement; m.ProbeReplies["accepted"] == 0 || len(m.ProbeReplies) != 1 {
		t.Errorf("%+v", m.ProbeReplies)
	}
	if n, ok := near.Series(`waymark_delay_probes_total{kind="answered"}`); !ok || n == 0 {
		t.Errorf("%v answered", n)
	}
	if n, ok := near.Series(`waymark_delay_probes_total{kind="diverted"}`); ok { // no response says its way
		t.Errorf("%v diverted", n)
	}
	if n, ok := far.Series(`waymark_responder_queries_total{outcome="answered",protocol="rfc6374-delay"}`); !ok || n == 0 {
		t.Errorf("%v queries", n)
	}
}

// answerDelays is a node that answers Delay Measurement queries as a test says: the response
// is right until it is changed. It counts the queries.
func answerDelays(t *testing.T, answer func(r *rfc6374.Delay, send func(rfc6374.Delay))) (port string, queries *atomic.Int64) {
	t.Helper()
	socket, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	queries = new(atomic.Int64)
	go func() {
		for b := make([]byte, 1500); ; {
			n, from, err := socket.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			queries.Add(1)
			r, _ := rfc6374.DecodeDelay(b[:n])
			r.Response, r.Control, r.Responder, r.TLVs = true, rfc6374.Success, r.Querier, nil
			r.Timestamps = [4]stamp.Timestamp{2: r.Timestamps[0], 3: r.Timestamps[0]}
			answer(&r, func(r rfc6374.Delay) { _, _ = socket.WriteToUDPAddrPort(r.Append(nil), from) })
		}
	}()
	_, port, _ = net.SplitHostPort(socket.LocalAddr().String())
	return port, queries
}

// A response that is none ends the measurement of a delay, too (RFC 6374 §4.3.4). One that only
// has the right source, as somebody could forge it who does not see the queries, does not.
func TestInvalidDelayResponse(t *testing.T) {
	var forged, invalid atomic.Bool
	port, queries := answerDelays(t, func(r *rfc6374.Delay, send func(rfc6374.Delay)) {
		switch {
		case forged.Load():
			bad := *r
			bad.Timestamps[2]++ // of no query
			for range 10 {
				bad.Session++
				send(bad)
			}
		case invalid.Load():
			r.Session++
		}
		send(*r)
	})
	forged.Store(true)
	near := newHarness(
		t,
		agenttest.BaseConfig+"measurement: {block: 200ms, probe-interval: 20ms, clock-error: 1ms, exchange: rfc6374, delay-port: "+port+"}\n"+
			"flows: [{name: red, direction: out, source: 2001:db8::1, segments: [\"fc00:2::e\"], session: 7, probes: out-of-band, "+
			"points: [\"::1\"]}]\n",
	)
	near.System.SetSource(netip.IPv6Loopback(), nil)
	near.Start()
	meter := near.delays
	agenttest.Eventually(t, "measuring in spite of forged responses", func() bool {
		replies := near.Status().Measurement.ProbeReplies
		return replies["accepted"] > 10 && replies["unexpected"] > 100
	})
	if ws := meter.Warnings(nil); len(ws) != 0 || near.Status().Measurement.ProbeReplies["session_wrong"] != 0 {
		t.Errorf("%+v", ws)
	}
	forged.Store(false)
	invalid.Store(true)
	agenttest.Eventually(t, "the warning", func() bool { return len(meter.Warnings(nil)) == 1 })
	w := meter.Warnings(nil)[0]
	if w.Code != health.ProbesUnsent ||
		!strings.Contains(w.Text, `flow "red": ::1 answers with an invalid message: the Session Identifier is 8 instead of 7`) ||
		!strings.Contains(w.Cure, "it is asked again after 1m0s") {
		t.Errorf("%+v", w)
	}
	before := queries.Load()
	time.Sleep(200 * time.Millisecond) // ten test packets without the pause
	if n := queries.Load(); n != before {
		t.Errorf("%d queries after the invalid response", n-before)
	}
	meter.acceptSample(query.Sample{RoundTrip: 1}) // of a later measurement
	if ws := meter.Warnings(nil); len(ws) != 0 || meter.refuses(0, time.Now()) {
		t.Errorf("it answers: %+v", ws)
	}
}

// An error ends the measurement of a delay (RFC 6374 §4.3.4) for a while, and is warned of.
func TestDelayRefused(t *testing.T) {
	port, queries := answerDelays(t, func(r *rfc6374.Delay, send func(rfc6374.Delay)) {
		r.Control = rfc6374.ConnectionMismatch
		send(*r)
	})
	near := newHarness(
		t,
		agenttest.BaseConfig+"measurement: {block: 200ms, probe-interval: 20ms, clock-error: 1ms, exchange: rfc6374, delay-port: "+port+"}\n"+
			"flows: [{name: red, direction: out, source: 2001:db8::1, segments: [\"fc00:2::e\"], session: 7, probes: out-of-band, "+
			"points: [\"::1\"]}]\n",
	)
	near.System.SetSource(netip.IPv6Loopback(), nil)
	near.Start()
	meter := near.delays
	agenttest.Eventually(t, "the warning", func() bool { return len(meter.Warnings(nil)) == 1 })
	w := meter.Warnings(nil)[0]
	if w.Code != health.ProbesUnsent || !strings.Contains(w.Text, `flow "red": ::1 refuses: connection mismatch (0x16)`) ||
		!strings.Contains(w.Cure, "session: 7") {
		t.Errorf("%+v", w)
	}
	before := queries.Load()
	time.Sleep(200 * time.Millisecond) // ten test packets without the pause
	if n := queries.Load(); n != before || before == 0 {
		t.Errorf("%d queries after the error, %d before", n-before, before)
	}
	if n := near.Status().Measurement.ProbeReplies["refused"]; n == 0 || n > uint64(before) {
		t.Errorf("%d are counted as refused", n)
	}
	how := near.agent.State.Load().Resolved.Node.Measurement.WithDefaults()
	if meter.forgetRefusals(how.Flows, how); !meter.refuses(0, time.Now()) {
		t.Error("the error is forgotten without a change")
	}
	meter.mu.Lock()
	refusal := meter.refusals[0]
	meter.mu.Unlock()
	for name, change := range map[string]func(*model.MeasuredFlow, *model.Measurement){
		"session": func(f *model.MeasuredFlow, _ *model.Measurement) { f.Session++ },
		"point": func(f *model.MeasuredFlow, _ *model.Measurement) {
			f.Points = []netip.AddrPort{netip.MustParseAddrPort("[::2]:1")}
		},
		"exchange": func(_ *model.MeasuredFlow, how *model.Measurement) { how.Exchange = model.ExchangeStamp },
	} {
		changed := how
		changed.Flows = slices.Clone(how.Flows)
		change(&changed.Flows[0], &changed)
		meter.mu.Lock()
		meter.refusals[0] = refusal
		meter.mu.Unlock()
		if meter.forgetRefusals(changed.Flows, changed); meter.refuses(0, time.Now()) {
			t.Errorf("%s: the error of before is not forgotten", name)
		}
	}
	meter.acceptSample(query.Sample{RoundTrip: 1}) // of a later measurement
	if ws := meter.Warnings(nil); len(ws) != 0 || meter.refuses(0, time.Now()) {
		t.Errorf("it answers: %+v", ws)
	}
	here := probed(&how.Flows[0], how)
	for _, late := range []query.Sample{{Session: 6, Peer: here}, {Session: 7, Peer: netip.AddrPortFrom(here.Addr(), here.Port()+1)}} {
		late.Refusal = rfc6374.ConnectionMismatch // to a test packet of an earlier configuration
		if meter.acceptSample(late); meter.refuses(0, time.Now()) {
			t.Errorf("%+v is taken for a refusal of what is configured now", late)
		}
	}
}

// A node without a route to a point asks it nothing, and says why.
func TestNoSourceOfMessages(t *testing.T) {
	near := newHarness(
		t,
		agenttest.BaseConfig+"measurement: {block: 200ms, probe-interval: 20ms, clock-error: 1ms, exchange: rfc6374, delay-port: 6375}\n"+
			"flows: [{name: red, direction: out, source: 2001:db8::1, segments: [\"fc00:2::e\"], session: 7, probes: out-of-band, "+
			"points: [\"2001:db8::7\"]}]\n",
	)
	near.System.SetSource(netip.Addr{}, errors.New("network is unreachable"))
	near.Start()
	agenttest.Eventually(t, "the agent counts packets that it did not send", func() bool {
		m := near.Status().Measurement
		return m.ProbesUnsent["no_source"] > 0 && m.QuestionsUnsent["no_source"] > 0 && len(m.ProbesUnsent) == 1 && len(m.QuestionsUnsent) == 1
	})
	for _, to := range []string{"probes", "questions"} {
		if n, ok := near.Series(`waymark_measurement_unsent_total{cause="no_source",to="` + to + `"}`); !ok || n == 0 {
			t.Errorf("%s: %v", to, n)
		}
	}
	if n, ok := near.Series(`waymark_delay_probes_total{kind="sent"}`); !ok || n != 0 {
		t.Errorf("%v are sent", n)
	}
	if log := near.Log.String(); !strings.Contains(log, "another node cannot be asked") || !strings.Contains(log, "network is unreachable") {
		t.Error(log)
	}
}

// awaitDelays waits until the flow has delays by that many methods.
func awaitDelays(t *testing.T, h *harness, methods int) map[loss.Method]*record.Delay {
	t.Helper()
	byMethod := make(map[loss.Method]*record.Delay)
	e2e.Await(t, "delays", 10*time.Second, func() bool {
		lines, err := h.Client.Loss(context.Background(), api.RecordFilter{})
		if err != nil {
			t.Fatal(err)
		}
		clear(byMethod)
		for _, line := range lines {
			r, err := record.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			if d, ok := r.(*record.Delay); ok && d.Flow == "red" && d.Samples > 5 && d.Jitter.Valid {
				byMethod[d.Method] = d
			}
		}
		return len(byMethod) == methods
	})
	return byMethod
}

// While no prober can be opened, there is a warning.
func TestNoProber(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stamp.key")
	write := func() {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Repeat("ab", 32)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	h := newHarness(t, agenttest.BaseConfig+"stamp: {listen: \"[::1]:"+agenttest.FreePort(t)+"\", allow: [\"::1/128\"], key-file: "+file+"}\n")
	h.Start()
	m := NewDelayMeter(h.d)
	t.Cleanup(m.end)
	how := model.Measurement{
		Block: time.Second,
		Flows: []model.MeasuredFlow{{Name: "red", Probes: model.ProbesOutOfBand, Points: make([]netip.AddrPort, 1)}},
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if m.prepareFlows(how) {
			t.Fatal("there is a prober without its key")
		}
	}
	ws := m.Warnings(nil)
	if len(ws) != 1 || ws[0].Code != health.ProbesUnsent || !strings.Contains(ws[0].Text, "do not measure the delay of flow \"red\": ") ||
		!strings.Contains(ws[0].Text, file) ||
		ws[0].Cure == "" {
		t.Errorf("%+v", ws)
	}
	if n := strings.Count(h.Log.String(), "delays cannot be measured"); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
	if m.prepareFlows(model.Measurement{Block: time.Second}); len(m.Warnings(nil)) != 0 {
		t.Error("a warning without flows")
	}
	m.prepareFlows(how)
	write()
	if !m.prepareFlows(how) || len(m.Warnings(nil)) != 0 {
		t.Errorf("with the key: %+v", m.Warnings(nil))
	}
}

// Test packets that come back with times that cannot be are counted.
func TestImpossibleTimesAreCounted(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	h.delays.acceptSample(query.Sample{RoundTrip: 1, Impossible: true})
	if n, ok := h.Series(`waymark_delay_probes_total{kind="time_impossible"}`); !ok || n != 1 {
		t.Errorf("%v are counted", n)
	}
}
