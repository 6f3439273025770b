// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/history"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// commanded runs a command that asks a collector.
func commanded(t *testing.T, url, line string) (out, notes string, err error) {
	t.Helper()
	words := strings.Fields(line)
	for i := range history.Subjects {
		if s := &history.Subjects[i]; s.Noun == words[0] {
			opts := &commandline.Options{}
			root := opts.NewRoot("waymark", "")
			root.AddCommand(commandline.Group(s.Noun, s.Short, s.Command(opts)))
			opts.Finish(root)
			var stdout, stderr bytes.Buffer
			root.SetOut(&stdout)
			root.SetErr(&stderr)
			root.SetArgs(append([]string{s.Noun, "history", "--collector", url}, words[1:]...))
			err = root.ExecuteContext(t.Context())
			return stdout.String(), stderr.String(), err
		}
	}
	t.Fatal(line)
	return "", "", nil
}

// lossEvent is of packets that are lost, with what must not reach a terminal.
func lossEvent(at time.Time) *record.Event {
	return &record.Event{Time: instant.Of(at), Node: "keeper", Name: record.EventLoss, Severity: record.SeverityError,
		Facts: "packets are lost\x1b[2J after r2 > r3"}
}

// The commands that ask about the past show what the API answers, in 80 columns, and say what an answer lacks.
func TestHistoryCommands(t *testing.T) {
	// the path changes with a minute: within one, some phases make two changes of it
	now := time.Now().Add(-12 * time.Minute).Truncate(time.Minute).Add(-500 * time.Second)
	list := steadily(now, 1000)
	for i, r := range list {
		if p := r.(*record.Path); i%100 == 7 {
			p.Nodes[1].Node = "evil\x1b[2J\u202e" + strings.Repeat("long", 30)
		}
	}
	m := record.Measurement{Time: instant.Of(now), Flow: "gold", FlowID: 5, Scope: record.WholeWay, From: 1, To: 2, FromNode: "athos",
		Start: instant.Of(now)}
	list = append(list, &record.Loss{Measurement: m, Verdict: loss.Measured, Sent: record.NewField(uint64(100), true),
		Received: record.NewField(uint64(97), true), Lost: record.NewField(uint64(3), true)},
		&record.Loss{Measurement: m, Verdict: loss.Uncertain, Lost: record.NewField(uint64(0), false)}, lossEvent(now))
	s := serve(t, time.Now(), list)
	for line, want := range map[string][]string{
		"path":                            {"1000 packets on 2 paths", "50%", "SLOWEST", "nodeb>"},
		"path --nodes --source ::/0":      {"NODE", "eth0", "SINCE P50"},
		"path --limit 1":                  {"1000 packets on 1 path,"},
		"path --protocol UDP":             {"1000 packets on 2 paths"},
		"path --protocol tcp":             {"0 packets"},
		"path --where delay_ns>0":         {"1000 packets on 2 paths"},
		"segment --where delay_ns>0":      {"5 segments"},
		"grid --where delay_ns>0":         {"1 pair of nodes", "1000"},
		"change --where delay_ns>0":       {"1 change,"},
		"loss --where lost>0":             {"gold", "3%"},
		"loss --where lost>9":             {"0 segments of measured flows"},
		"packet --where delay_ns<0":       {"0 packets"},
		"change":                          {"1 change,", "of the packets moved", "was", "became"},
		"segment --compare 24h":           {"5 segments", "LINK P50", "1000"},
		"segment --order packets":         {"nodej"},
		"path --source-port 53":           {"0 packets"},
		"path --destination-port 443":     {"1000 packets on 2 paths"},
		"grid":                            {"1 pair of nodes", "nodeb", "nodej", "1000"},
		"packet --limit 3":                {"3 packets", "arrived", "[2001:db8::1]:"},
		"packet --flow-id 2 --sequence 5": {"1 packet,", "TIMESTAMP", "HELD"},
		"loss":                            {"gold", "athos", "3%", "UNCERTAIN"},
		"events":                          {"1 event,", "loss_began: ", "after r2 > r3", "(keeper)"},
		"events --event paths_moved":      {"0 events,"},
		"loss --since 02:00 --flow x":     {"0 segments of measured flows"},
	} {
		out, notes, err := commanded(t, s.URL, line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s lacks %q:\n%s", line, text, out)
			}
		}
		for _, shown := range strings.Split(out, "\n") { // a note stays one line where no terminal is
			if columns.Width(shown) > 80 || strings.ContainsAny(shown, "\x1b\u202e") {
				t.Errorf("%s: %q", line, shown)
			}
		}
		if more := strings.Contains(line, "--limit"); more != regexp.MustCompile("there are more than [13]; --limit says").MatchString(notes) ||
			strings.Contains(notes, "cut") { // it has what was asked for
			t.Errorf("%s: %s", line, notes)
		}
	}
	out, _, err := commanded(t, s.URL, "grid --json --limit 7")
	var grid query.Grid
	if err != nil || json.Unmarshal([]byte(out), &grid) != nil || len(grid.Pairs) != 1 {
		t.Errorf("%s %v", out, err)
	}
	if out, notes, err := commanded(t, s.URL, "packet --csv --limit 2"); err != nil || strings.Count(out, "\n") != 7 ||
		!strings.Contains(notes, "there are more than 2; --limit says how many are shown") {
		t.Errorf("%s %s %v", out, notes, err)
	}
	if _, notes, err := commanded(t, s.URL, "packet"); err != nil || !strings.Contains(notes, "cut: there are more than 100; ") ||
		!strings.HasSuffix(notes, "or raise --limit\n") {
		t.Errorf("%s %v", notes, err)
	}
}

// Another time is in the tables and in CSV: the path that packets took before they moved, and what was lost.
func TestHistoryCommandsCompare(t *testing.T) {
	moved := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	list := steadily(moved.Add(-5*time.Minute), 600) // they move in the middle
	for i, lost := range []uint64{9, 3} {
		at := instant.Of(moved.Add(time.Duration(i-1) * 4 * time.Minute))
		list = append(list, &record.Loss{Measurement: record.Measurement{Time: at, Start: at, Flow: "gold", FlowID: 5, Scope: record.WholeWay},
			Verdict: loss.Measured, Sent: record.NewField(uint64(100), true), Lost: record.NewField(lost, true)})
	}
	s := serve(t, time.Now(), list)
	period := " --since " + moved.Format(time.RFC3339) + " --until " + moved.Add(4*time.Minute).Format(time.RFC3339) + " --compare 4m"
	for line, want := range map[string]string{
		"path": `(?s)^240 packets on 1 path, .*\nbefore: 240 packets on 1 path, .* SHARE +BEFORE .* P99 +BEFORE .*` +
			`\n +240 +100% +- .*\n +- +- +100% +- .*\d[µm]s`,
		"path --where delay_ns>0": `\n +- +- +100% +- .*\d[µm]s`,
		"grid":                    `P99 +BEFORE\s[^ ]+ +[^ ]+ +240 .* [\d.]+[µm]s +[\d.]+[µm]s\s+$`,
		"loss":                    `RATIO +BEFORE.*\s.* 3% +9% `,
		"path --csv":              `(?s)^period,path,.*\nnow,(\w+),.*\nbefore,`,
		"grid --csv":              `before\.packets,.*,before\.delay\.p99_ns.*\n.*,240,`,
		"loss --csv":              `before\.lost.*\n.*,0\.03,.*,9,0\.09`,
		"path --json":             `"before": ?\{`,
	} {
		out, notes, err := commanded(t, s.URL, line+period)
		if err != nil || notes != "" || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s: %v %s\n%s", line, err, notes, out)
		}
	}
}

// Of traces, it cannot be known that packets were lost: that is no zero. Postcards tell it.
func TestHistoryCommandsLossKnown(t *testing.T) {
	at := time.Now().Add(-10 * time.Minute)
	for source, one := range map[string]func(time.Time) record.Record{
		"traces":    func(at time.Time) record.Record { return carried(at, 124, true) },
		"postcards": func(at time.Time) record.Record { return postcards(at, 0xf80000, "2001:db8::1", 5) },
	} {
		var list []record.Record
		for i := range 100 {
			list = append(list, one(at.Add(time.Duration(i)*time.Second)))
		}
		known, shown := source == "postcards", map[bool]string{true: "0", false: "-"}[source == "postcards"]
		s := serve(t, time.Now(), list)
		var paths query.Paths
		var segments query.Segments
		var grid query.Grid
		for path, into := range map[string]any{"/v1/paths": &paths, "/v1/segments": &segments, "/v1/grid": &grid} {
			s.ask(path, into)
		}
		if len(paths.Paths) != 1 || len(grid.Pairs) != 1 || len(segments.Segments) != 2 || paths.Paths[0].LossKnown != known ||
			grid.Pairs[0].LossKnown != known || segments.Segments[0].LossKnown != known || segments.Segments[1].LossKnown != known {
			t.Errorf("%s: %+v %+v %+v", source, paths.Paths, grid.Pairs, segments.Segments)
		}
		for line, want := range map[string]string{
			"path":                `(?s) P99 +(LOST +)?SLOWEST.* 1µs( +0)? +west`,
			"grid":                `west +east +100 +` + shown + ` +1 `,
			"path --where true":   `(?s) P99 +(LOST +)?SLOWEST.* 1µs( +0)? +west`,
			"grid --where true":   `west +east +100 +` + shown + ` +1 `,
			"segment --limit 999": `PACKETS`,
		} {
			out, _, err := commanded(t, s.URL, line)
			if err != nil || !regexp.MustCompile(want).MatchString(out) ||
				!strings.HasPrefix(line, "grid") && strings.Contains(out, "LOST") != known {
				t.Errorf("%s, %s: %v\n%s", source, line, err, out)
			}
		}
	}
}

// What is missing in an answer is said with its time and its reason, and has no characters that control a terminal.
func TestHistoryCommandsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("format") == "csv" {
			w.Header().Set("Waymark-Gaps", "1")
			return
		}
		_, _ = io.WriteString(w, `{"packets":0,"paths":[],"gaps":[{"from":"2026-11-29T21:00:00Z","until":"2026-11-29T21:02:30Z",`+
			`"reason":"nothing is written: the disk is full\u001b[2J"}]}`)
	}))
	defer s.Close()
	out, notes, err := commanded(t, s.URL, "path")
	const missing = `waymark: from 2026-11-29 21:00:00 to 2026-11-29 21:02:30 UTC, something is missing here: "nothing is written: the disk`
	if err != nil || !strings.HasPrefix(out, "0 packets on 0 paths") || strings.Contains(notes, "\x1b") || !strings.HasPrefix(notes, missing) {
		t.Errorf("%s %s %v", out, notes, err)
	}
	if _, notes, err := commanded(t, s.URL, "path --csv"); err != nil || !strings.Contains(notes, "something is missing of 1 time; --json") {
		t.Errorf("%s %v", notes, err)
	}
}

// What they refuse, and what the collector refuses, they say by the flag.
func TestHistoryCommandErrors(t *testing.T) {
	s := serve(t, start)
	for line, want := range map[string]string{
		"path --source x":                   "--source \"x\": want an address or a prefix",
		"path --since yesterday":            "--since \"yesterday\": want a time, such as 3h",
		"path --since 1h --until 2h":        "is not before",
		"path --limit 0":                    "want a number from 1",
		"path --where nodes[":               "--where: column 6: unexpected token EOF\n  nodes[\n  .....^",
		"path --where x=1":                  "--where: column 2: unexpected token Operator(\"=\")\n  x=1\n  .^",
		"path --protocol ipx":               "--protocol \"ipx\": want a number from 0 to 255, tcp, udp, icmpv6 or sctp",
		"change --window 1y":                "--window \"1y\": want a time with its unit",
		"grid --csv --json":                 "choose --json or --csv",
		"grid --collector ftp://x":          "want a URL",
		"grid --collector http://[::1]:1":   "no collector answers at http://[::1]:1",
		"grid --collector " + s.URL + "/v2": "there is nothing at this path",
	} {
		if _, _, err := commanded(t, s.URL, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// Over TLS, commands say who asks, and trust the authority that a flag names.
func TestHistoryOverTLS(t *testing.T) {
	s := serve(t, start)
	behind, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	to := httputil.NewSingleHostReverseProxy(behind)
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "secret word" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.Host = behind.Host
		to.ServeHTTP(w, r)
	}))
	defer front.Close()
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	directory := t.TempDir()
	ca, password := filepath.Join(directory, "ca.pem"), filepath.Join(directory, "password")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	if err := errors.Join(os.WriteFile(ca, certificate, 0o600), os.WriteFile(password, []byte("secret word\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, _, err := commanded(t, front.URL, "grid --ca "+ca+" --user ann --password-file "+password); err != nil ||
		!strings.Contains(out, "0 pairs of nodes") {
		t.Errorf("%s %v", out, err)
	}
	for flags, want := range map[string]string{"": "certificate", " --ca " + ca: "give --user and --password-file",
		" --user ann": `user "ann" needs a password: --password-file`, " --ca " + password: "no certificate in PEM"} {
		if _, _, err := commanded(t, front.URL, "grid"+flags); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flags, err)
		}
	}
}
