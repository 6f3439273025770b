// SPDX-License-Identifier: Apache-2.0

package otlpsink

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
)

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Requests have the headers of the file as it is then, and are compressed. Without the file, nothing
// is sent.
func TestHeaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "headers")
	write(t, file, "# of the tenant\nauthorization: Bearer first\r\n\nX-Scope-OrgID: seven\n")
	r := newReceiver(t)
	s, _ := r.run(Config{Headers: file, Gzip: true}, sink.Environment{})
	event := &record.Event{Time: instant.Of(at), Name: "x", Severity: record.SeverityInfo, Facts: strings.Repeat("the same ", 1000)}
	send := func(done func(st sink.Stats) bool) {
		s.Offer(event)
		await(t, "an answer", func() bool { return done(s.Stats()) })
	}
	send(func(st sink.Stats) bool { return st.Written == 1 })
	if st := s.Stats(); st.Octets == 0 || st.Octets > 2000 {
		t.Errorf("%d octets were sent", st.Octets)
	}
	write(t, file, "Authorization: Bearer second")
	send(func(st sink.Stats) bool { return st.Written == 2 })
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	send(func(st sink.Stats) bool { return st.Lost == 1 })
	if st := s.Stats(); !strings.Contains(st.Error, "others can access the key") || strings.Contains(st.Error, "second") ||
		st.Cure != "run: chmod 600 "+file+", and change the key if they may have read it" {
		t.Errorf("%q, cure %q", st.Error, st.Cure)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.headers) != 2 || len(r.logs) != 2 {
		t.Fatalf("%d requests, %d are understood", len(r.headers), len(r.logs))
	}
	for i, want := range []string{"Bearer first", "Bearer second"} {
		if h := r.headers[i]; h.Get("Authorization") != want || h.Get("Content-Encoding") != "gzip" ||
			(h.Get("X-Scope-OrgID") == "seven") != (i == 0) {
			t.Errorf("request %d: %v", i, h)
		}
	}
}

// An error that has no cure of its own gets the usual one.
func TestUsualCure(t *testing.T) {
	s := New(Config{Endpoint: &url.URL{Scheme: "http", Host: "[::1]:1"}}, sink.Environment{})
	s.fault.Set(errors.New("connection refused"))
	if st := s.Stats(); st.Error != "connection refused" || !strings.HasPrefix(st.Cure, "check the endpoint, and whether") {
		t.Errorf("%+v", st)
	}
	s.fault.Set(problem.New("the key is no regular file", "write one"))
	if st := s.Stats(); st.Error != "the key is no regular file" || st.Cure != "write one" {
		t.Errorf("%+v", st)
	}
	s.fault.Set(nil)
	if st := s.Stats(); st.Error != "" || st.Cure != "" {
		t.Errorf("%+v", st)
	}
}

// What is no header is refused with its line, and never quoted.
func TestHeadersRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "headers")
	for content, want := range map[string]string{
		"ok: 1\nBearer hunter2":                  "line 2 of",
		"Authorization : hunter2":                "line 1 of",
		"Authorization:":                         "has no value",
		"a: hunter2\x1b[2J":                      "control characters",
		"content-type: hunter2":                  "sets Content-Type",
		"ä: hunter2":                             "line 1 of",
		strings.Repeat("a: hunter2\n", 65):       "more than 64 headers",
		"a: " + strings.Repeat("hunter2", 10000): "more than 65536 octets",
	} {
		write(t, file, content)
		faults := (&Settings{Endpoint: "http://[::1]", Headers: file}).Files()
		if len(faults) != 1 || !strings.Contains(faults[0].Problem, want) || strings.Contains(faults[0].Problem+faults[0].Cure, "hunter2") ||
			faults[0].Cure == "" ||
			faults[0].Unread != nil {
			t.Errorf("%.30q: %+v, want %s", content, faults, want)
		}
	}
	if faults := (&Settings{Headers: file + "-none"}).Files(); len(faults) != 1 || faults[0].Unread == nil {
		t.Errorf("%+v", faults)
	}
	write(t, file, "a: b\n")
	if faults := (&Settings{Headers: file}).Files(); len(faults) != 0 {
		t.Errorf("%+v", faults)
	}
}
