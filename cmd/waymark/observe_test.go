// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/record"
)

// The exit code of an interrupted stream says so, even if interruption is the only way
// to end it: a script can distinguish it from a normal end.
func TestObserveInterrupted(t *testing.T) {
	socket := filepath.Join(shortDir(t), "agent.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/records" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.WriteString(w, traceLine+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	for args, want := range map[string]struct {
		code   int
		stderr string
	}{
		"observe":           {commandline.ExitInterrupted, "waymark: interrupted\n"},
		"observe --count 2": {commandline.ExitInterrupted, "waymark: interrupted\n"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &cancelling{cancel: cancel}
		var stderr bytes.Buffer
		code := run(ctx, append([]string{"--socket", socket}, strings.Fields(args)...), strings.NewReader(""), out, &stderr)
		cancel()
		if code != want.code || stderr.String() != want.stderr || !strings.Contains(out.written.String(), "2001:db8:1::2") {
			t.Errorf("%s: code %d, stderr %q, stdout %q; want code %d, %q", args, code, &stderr, &out.written, want.code, want.stderr)
		}
	}
}

// cancelling interrupts as soon as something is written.
type cancelling struct {
	written bytes.Buffer
	cancel  context.CancelFunc
}

func (c *cancelling) Write(b []byte) (int, error) {
	defer c.cancel()
	return c.written.Write(b)
}

// The command says why an observer will get no records.
func TestObserveWhereNothingEnds(t *testing.T) {
	for status, want := range map[string]string{
		`{}`:                              "",
		`{"records":{"advice":"no way"}}`: "waymark: no way\n",
	} {
		f := newFakeAgent(t, map[string]string{"GET /v1/status": status, "GET /v1/records": traceLine + "\n"})
		code, _, stderr := runCLI(t, "", "--socket", f.socket, "observe", "--count", "1")
		if code != commandline.ExitOK || stderr != want {
			t.Errorf("%s: code %d, stderr %q", status, code, stderr)
		}
	}
}

// A filter that no record can pass is named at once.
func TestObserveWhatIsNotConfigured(t *testing.T) {
	for _, tt := range []struct{ status, args, want string }{
		{`{"namespaces":[{"id":123}]}`, "--namespace 123", ""},
		{`{"namespaces":[{"id":123},{"id":5}]}`, "--namespace 7", "waymark: namespace 7 is not configured here, so no record has it; configured: 123, 5\n"},
		{`{}`, "--namespace 7", "waymark: namespace 7 is not configured here, so no record has it; configured: none\n"},
		{`{"records":{"kernel_events":{}}}`, "--namespace 7", ""}, // the kernel has namespaces of its own
		{`{"encapsulations":[{"name":"a","interface":"eth0","mode":"inline","match":{"destination":"::/0"},"options":[{"trace":{"namespace":7,"type":"0x800000","size":12}}]}]}`, "--namespace 7", ""},
		{`{"records":{"advice":"no way"}}`, "--namespace 7", "waymark: no way\n"},
		{`{"interfaces":[{"name":"east0"},{"name":"west0"}]}`, "--interface east1", "waymark: interface east1 is not configured here, so no record has it; configured: east0, west0\n"},
		{`{"interfaces":[{"name":"east0"}]}`, "--interface east0", ""},
		{`{}`, "--interface 7", ""}, // another node's, by its number
		{`{}`, "--kind path", "waymark: no record of the kind path is made here; there are trace, postcard, flow, loss, delay, block, edge-flow, event\n"},
		{`{}`, "--kind path,trace", ""},
		{`{}`, "--flow blue", "waymark: flow blue is not configured here, so no record has it; configured: red\n"},
		{`{}`, "--flow red", ""},
	} {
		f := newFakeAgent(
			t,
			map[string]string{
				"GET /v1/status":  tt.status,
				"GET /v1/records": traceLine + "\n",
				"GET /v1/flows":   `[{"flow":{"name":"red","direction":"out","source":"2001:db8::1","segments":["fc00::1"]}}]`,
			},
		)
		code, _, stderr := runCLI(t, "", append([]string{"--socket", f.socket, "observe", "--count", "1"}, strings.Fields(tt.args)...)...)
		if code != commandline.ExitOK || stderr != tt.want {
			t.Errorf("%s %s: code %d, stderr %q, want %q", tt.status, tt.args, code, stderr, tt.want)
		}
	}
}

// A wrong expression is refused before the agent is asked, with a caret below the place.
func TestObserveWrongExpression(t *testing.T) {
	code, _, stderr := runCLI(t, "", "--socket", "/nonexistent", "observe", "--where", "packet.destination_prot == 443")
	want := "waymark: --where: column 8: unknown field destination_prot; names are the keys of a record with --json\n" +
		"  packet.destination_prot == 443\n  .......^\n"
	if code != commandline.ExitUsage || !strings.HasPrefix(stderr, want) {
		t.Errorf("code %d, stderr %q, want %q", code, stderr, want)
	}
}

// The monitor prints the agent's lines as they are, and what it has lost elsewhere.
func TestMonitor(t *testing.T) {
	const line = "[TRACE] Namespace=123 NodeLen=2 Type=0xc0000000 Data=3f00000200010002\n"
	f := newFakeAgent(t, map[string]string{"GET /v1/status": "{}", "GET /v1/records": line + `{"kind":"lost","count":3}` + "\n" + line})
	code, stdout, stderr := runCLI(t, "", "--socket", f.socket, "i", "mon")
	if code != commandline.ExitFailure || stdout != line+line || !strings.Contains(stderr, "3 records") ||
		!strings.Contains(stderr, "the agent has ended") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// In the end, an observer says what came in all: not of one record, and not in JSON.
func TestObserveSumsUp(t *testing.T) {
	begin := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	trace := func(ns uint64, known bool) record.Record { return &record.Trace{PathDelay: record.NewField(ns, known)} }
	for want, list := range map[string][]record.Record{
		"": {trace(5, true)},
		"3 records in 2s, 1.5 a second; end to end p50 983µs, p99 3ms, max 3ms": {trace(1e6, true), trace(1e6, true), trace(3e6, true)},
		"4 records in 2s, 2.0 a second: trace 2, postcard 1, event 1; end to end p50 1ms, p99 1ms, max 1ms; of 1 trace, the whole delay is not known": {
			trace(1e6, true), &record.Postcard{}, trace(0, false), &record.Event{},
		},
		"2 records in 2s, 1.0 a second: flow 2": {&record.Flow{}, &record.Flow{}},
	} {
		s := observedSum{began: begin}
		for _, r := range list {
			s.add(r)
		}
		if got := s.text(begin.Add(2 * time.Second)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		for _, asJSON := range []bool{false, true} {
			var notes bytes.Buffer
			o := observation{notes: &notes, json: asJSON, sum: s}
			if o.sumUp(); (notes.Len() > 0) != (want != "" && !asJSON) {
				t.Errorf("JSON %v: %q", asJSON, &notes)
			}
		}
	}
}
