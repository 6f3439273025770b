// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
)

func TestCollectUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--listen [::1]:4739":     "want udp://ADDRESS:PORT",
		"--listen udp://:4739":    "want an address",
		"--listen tls://[::1]":    "TLS needs --tls-cert and --tls-key",
		"--tls-cert x":            "certificates are for TLS; add --listen tls://",
		"--tls-client-ca x":       "certificates are for TLS",
		"--wait 0s":               "--wait 0s: want a time up to 1h",
		"--wait 2h":               "want a time up to 1h",
		"--keep 0":                "--keep 0: want a number from 1",
		"--count -1":              "--count -1: want a number from 0",
		"--stats -1s":             "--stats -1s: want a time",
		"--enterprise 10383":      "this number has other elements",
		"--max-loss 101%":         "--max-loss 101% is",
		"--max-loss 1":            "--max-loss",
		"--max-delay 5":           `--max-delay "5" is not a time with a unit`,
		"--records --max-loss 1%": "--records compares nothing",
		"--enterprise 0":          "this number has other elements",
		"udp://[::1]:4739":        "takes no argument",
		"--enterprise 4294967296": `--enterprise "4294967296": want a whole number from 0 to 4294967295`,
	} {
		if code, stdout, stderr := runCollect(t, args); code != commandline.ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, stdout %q, stderr %q; want %q", args, code, stdout, stderr, want)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing", "x")
	for args, want := range map[string]string{
		"--listen tls://[::1]:0 --tls-cert " + missing + " --tls-key " + missing: "use a certificate and its key, in PEM",
		"--listen udp://[::1]:0 --output " + missing:                             "name a file in a directory that exists",
		"--listen udp://[::1]:0 --metrics [::1]:x":                               "set --metrics to an address and port of this machine",
		"--listen udp://192.0.2.1:0":                                             "listen at udp://192.0.2.1:0: cannot assign requested address; set --listen to an address of this machine",
	} {
		if code, _, stderr := runCollect(t, args); code != commandline.ExitFailure || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, stderr %q; want %q", args, code, stderr, want)
		}
	}
}

// runCollect runs the command as main does.
func runCollect(t *testing.T, args string) (code int, stdout, stderr string) {
	t.Helper()
	s := program.Start(t, append([]string{"collect"}, strings.Fields(args)...)...)
	return s.End(t), s.Out.String(), s.Errs.String()
}

// udpMessage is a message with a record of a flow that is not ours.
func udpMessage(t *testing.T) []byte {
	t.Helper()
	registry, err := ipfix.NewRegistry(ipfix.IANA())
	if err != nil {
		t.Fatal(err)
	}
	template, err := registry.Template(256, "packetDeltaCount")
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := ipfix.NewEncoder(ipfix.UDP, 1, 1400)
	if err != nil {
		t.Fatal(err)
	}
	w := template.Record(nil)
	w.Uint(12)
	record, err := w.End()
	if err != nil {
		t.Fatal(err)
	}
	if err := encoder.Define(template); err != nil {
		t.Fatal(err)
	}
	encoder.Start(nil)
	if err := encoder.Add(template, record); err != nil {
		t.Fatal(err)
	}
	return encoder.Finish(time.Now())
}

// A collector from its start to its end: text and JSON, --count, --output and
// --metrics; the counters come last.
func TestCollectRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "records")
	for _, tt := range []struct {
		args   string
		code   int
		stdout string // expressions
		stderr string
	}{
		{"", commandline.ExitOK, `packetDeltaCount=12\n$`, `(?s)receives at udp://.*statistics\n.* 1  other: `},
		{"--json", commandline.ExitOK, `^\{"kind":"record".*\n$`, `receives at.*\n\{"kind":"statistics".*"other":1.*\n$`},
		{"--json --count 1", commandline.ExitOK, `^\{"kind":"record".*\n$`, `receives at.*\n\{"kind":"statistics".*\n$`},
		{"--count 2", commandline.ExitInterrupted, `packetDeltaCount=12\n$`, `waymark-collector: interrupted\n$`},
		{"--json --output " + file, commandline.ExitOK, `^$`, `receives at`},
		{"--metrics 127.0.0.1:0", commandline.ExitOK, `packetDeltaCount=12`, `receives at`},
		{"--stats 20ms", commandline.ExitOK, `(?s)^.*packetDeltaCount=12\n$`, `(?s)receives at.*statistics\n.* other: .*statistics\n.* other: `},
	} {
		s := program.Start(t, append([]string{"collect", "--listen", "udp://127.0.0.1:0"}, strings.Fields(tt.args)...)...)
		at := s.Errs.Await(t, `udp://(\S+)\n`)
		conn, err := net.Dial("udp", at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(udpMessage(t)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		switch {
		case strings.Contains(tt.args, "--count 1"):
		case strings.Contains(tt.args, "--output"):
			waitForFile(t, file)
		default:
			s.Out.Await(t, `(?s)(packetDeltaCount.*\n)`)
			if strings.Contains(tt.args, "--stats") {
				s.Errs.Await(t, `(?s)(statistics\n.* other: )`)
			}
			s.Interrupt()
		}
		if strings.Contains(tt.args, "--output") {
			s.Interrupt()
		}
		got, stdout, stderr := s.End(t), s.Out.String(), s.Errs.String()
		if got != tt.code || !regexp.MustCompile(tt.stdout).MatchString(stdout) || !regexp.MustCompile(tt.stderr).MatchString(stderr) {
			t.Errorf("%s: code %d\nstdout %s\nstderr %s", tt.args, got, stdout, stderr)
		}
	}
	if b, err := os.ReadFile(file); err != nil || strings.Count(string(b), "\n") != 1 || !strings.HasPrefix(string(b), `{"kind":"record"`) {
		t.Errorf("--output has %q, %v", b, err)
	}
}

func waitForFile(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(patience.Of(10 * time.Second)); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return
		}
	}
	t.Fatalf("nothing in %s", path)
}

// The how-to lists every reason, verdict, doubt and fault.
func TestCollectDocument(t *testing.T) {
	b, err := os.ReadFile("../../../docs/how-to/collect-postcards.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for r := record.PathComplete + 1; r < record.NumPathReasons; r++ {
		names[r.String()] = true
	}
	for _, c := range (&collect.Stats{}).Impossible() {
		names[c.Name] = true
	}
	for v := record.PathArrived; v <= record.PathUnknown; v++ {
		names[v.String()] = true
	}
	for d := record.DoubtNone + 1; d < record.NumDoubts; d++ {
		names[d.String()] = true
	}
	known := maps.Clone(names)
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(b), -1) {
		if !known[m[1]] {
			t.Errorf("%s is not known", m[1])
		}
		delete(names, m[1])
	}
	for name := range names {
		t.Errorf("%s is not explained", name)
	}
	for _, word := range regexp.MustCompile("`(postcards_[a-z]+)`").FindAllStringSubmatch(string(b), -1) {
		known := false
		for _, c := range (&collect.Stats{}).Counts() {
			known = known || c.Name == word[1]
		}
		if !known {
			t.Errorf("%s is not known", word[1])
		}
	}
}

// Warnings go to standard error, as text or JSON, and do not count as records.
func TestCollectWarnings(t *testing.T) {
	w := &record.Warning{
		Code:   "flow_loss_high",
		Flow:   "red",
		FlowID: 7,
		Beyond: true,
		Facts:  "flow red lost 10 of 1000 packets",
		Cure:   "look for the cause",
	}
	trace := &record.Lost{Count: 1}
	for asJSON, want := range map[bool]string{
		true:  `{"kind":"warning","code":"flow_loss_high","flow":"red","flow_id":7,"beyond":true,"text":"flow red lost 10 of 1000 packets","cure":"look for the cause"}` + "\n",
		false: "waymark-collector: flow_loss_high: flow red lost 10 of 1000 packets; look for the cause\n",
	} {
		var out, errs bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		cmd.SetErr(&errs)
		enough := 0
		records, notes, err := (&collectFlags{count: 1}).sinks(cmd, &commandline.Options{JSON: asJSON}, func() { enough++ })
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if records.Offer(w); enough > 0 {
			t.Error("a warning counts as a record")
		}
		notes.Offer(w)
		for _, s := range []sink.Sink{records, notes} {
			s.Offer(w, trace, trace, w)
			s.Run(ended)
		}
		if enough != 1 || strings.Count(out.String(), "\n") != 1 || errs.String() != strings.Repeat(want, 3) {
			t.Errorf("%d times enough, output %q, standard error %q, want %q three times", enough, out.String(), errs.String(), want)
		}
	}
}

// A collector receives although no process reads its output: it says so, and ends on SIGTERM.
func TestCollectIntoUnreadPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s := program.Start(t, "collect", "--listen", "udp://[::1]:0", "--output", pipe)
	s.Errs.Await(t, "receives at ")
	s.Errs.Await(
		t,
		regexp.QuoteMeta(
			pipe+": no process reads this named pipe; start one that does, or name a file; it keeps trying, and counts the records that are lost\n",
		),
	)
	s.Interrupt()
	if code := s.End(t); code != commandline.ExitOK {
		t.Errorf("code %d, %s", code, &s.Errs)
	}
}
