// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/patience"
)

// serve answers one request as an agent does.
func serve(t *testing.T, pattern string, handle http.HandlerFunc) (socket string) {
	t.Helper()
	socket = filepath.Join(shortDir(t), "agent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, handle)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return socket
}

// The command follows one agent after another, and says when there was none.
func TestLossFollowsTheNextAgent(t *testing.T) {
	var requests atomic.Int32
	socket := serve(t, "GET /v1/records", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.RawQuery; q != "flow=red&kinds=loss%2Cdelay" {
			t.Errorf("asked for %q", q)
		}
		if requests.Add(1) > 2 {
			<-r.Context().Done() // until the command ends
			return
		}
		fmt.Fprintln(w, lossLines[0])
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out bytes.Buffer
	var notes bytes.Buffer
	l := newLossList(&out, &notes, true, false, "red")
	ended := make(chan error, 1)
	go func() { ended <- l.follow(ctx, api.NewClient(socket)) }()
	for end := time.Now().Add(patience.Of(10 * time.Second)); requests.Load() < 3 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || strings.Count(out.String(), lossLines[0]) != 2 {
		t.Errorf("%v: %s", err, out.String())
	}
	if n := notes.String(); strings.Count(n, "the agent has ended; waiting") != 2 || strings.Count(n, "an agent runs again") < 1 {
		t.Errorf("notes: %s", n)
	}
	if code, _, stderr := runCLI(t, "", "--socket", t.TempDir()+"/none", "loss", "--follow"); code == 0 ||
		!strings.Contains(stderr, "no agent answers") {
		t.Errorf("without an agent at first: %d, %s", code, stderr)
	}
}

// The results of the last time come as a stream; where the agent does not have them all, the
// command says since when it does.
func TestLossOfThePast(t *testing.T) {
	socket := serve(t, "GET /v1/loss/history", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.RawQuery; q != "flow=red&last=30m0s" {
			t.Errorf("asked for %q", q)
		}
		w.Header().Set(api.CompleteSince, "2026-11-23T12:00:00.000000000Z")
		fmt.Fprintln(w, lossLines[0])
		fmt.Fprintln(w, lossLines[1])
	})
	code, stdout, stderr := runCLI(t, "", "--socket", socket, "loss", "--last", "30m", "--flow", "red", "--csv")
	if code != commandline.ExitOK || !strings.HasPrefix(stdout, csvHead+"loss,red,5,") || strings.Count(stdout, "\n") != 3 ||
		!strings.Contains(stderr, "does not have all results before 2026-11-23T12:00:00.000000000Z") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	socket = serve(t, "GET /v1/loss/history", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintln(w, `{"error":"no flow \"rde\" is measured here, and there are no results of one; choose one of: red"}`)
	})
	if code, stdout, stderr := runCLI(t, "", "--socket", socket, "loss", "--last", "30m", "--flow", "rde"); code != commandline.ExitFailure ||
		stdout != "" ||
		!strings.Contains(stderr, "choose one of: red") {
		t.Errorf("a flow that is not there: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	for args, want := range map[string]string{
		"--last 5": `--last "5": want a time`, "--last 2h": `--last "2h": want a time up to 1h`,
		"--last 5m --follow":      "choose --follow, or --last",
		"--since 12:00 --follow":  "choose --follow, or --last",
		"--last 5m --since 12:00": "choose --last or --since", "--since noon": "want a time of UTC",
		"--since 2026-11-23T12:00:00Z --until 2026-11-23T11:00:00Z": "is not before"} {
		if code, _, stderr := runCLI(t, "", append([]string{"--socket", socket, "loss"},
			strings.Fields(args)...)...); code != commandline.ExitUsage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: %d, %s", args, code, stderr)
		}
	}
}

// A part of the hour is chosen by when blocks began.
func TestLossOfATime(t *testing.T) {
	asked := ""
	socket := serve(t, "GET /v1/loss/history", func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		for _, line := range lossLines { // whose blocks began at 12:00:05
			fmt.Fprintln(w, line)
		}
	})
	for args, want := range map[string]int{
		"--since 2026-11-23T12:00:05Z --until 2026-11-23T12:00:06Z": 5, "--since 2026-11-23T12:00:06Z": 0, "--until 2026-11-23T12:00:05Z": 0,
		"--until 2026-11-23T12:00:06Z": 5,
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", socket, "--json", "loss"}, strings.Fields(args)...)...)
		if code != commandline.ExitOK || strings.Count(stdout, "\n") != want || asked != "last=1h0m0s" ||
			strings.Contains(args, "since") != strings.Contains(stderr, "does not have all results before") {
			t.Errorf("%s: code %d, asked for %q, stdout %q, stderr %q", args, code, asked, stdout, stderr)
		}
	}
	now := time.Date(2026, 11, 23, 12, 10, 0, 0, time.UTC)
	if p, err := newLossTime("", "12:05", "", now); err != nil || p.last != 5*time.Minute+time.Second {
		t.Errorf("%+v, %v", p, err)
	}
}

// A table of the past has no rows of blocks without packets, unless a filter asks for them, and says how many there were.
func TestLossOfThePastFoldsIdle(t *testing.T) {
	idle := strings.NewReplacer(`"verdict":"measured"`, `"verdict":"idle"`, `"sent":1000`, `"sent":0`).Replace(lossLines[0])
	socket := serve(t, "GET /v1/loss/history", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s\n%s\n%s\n", idle, lossLines[0], idle)
	})
	for args, want := range map[string]int{"": 1, "--csv": 3, "--where true": 3} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", socket, "loss", "--last", "30m"}, strings.Fields(args)...)...)
		if rows := strings.Count(stdout, "\n") - 1; code != commandline.ExitOK || rows != want ||
			strings.Contains(stderr, "2 results of blocks without packets are left out") != (want == 1) {
			t.Errorf("%s: code %d, %d rows in %q, stderr %q", args, code, rows, stdout, stderr)
		}
	}
}
