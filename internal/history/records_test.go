// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
)

// ask runs the command of a noun against a collector with one answer.
func ask(t *testing.T, noun, answer string, args ...string) (asked *http.Request, stdout, stderr string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	i := slices.IndexFunc(Subjects, func(s Subject) bool { return s.Noun == noun })
	if i < 0 {
		t.Fatalf("there is no %s history", noun)
	}
	cmd := Subjects[i].Command(&commandline.Options{})
	var out, errors bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errors)
	cmd.SetArgs(append([]string{"--collector", server.URL}, args...))
	if err := cmd.Execute(); err != nil {
		t.Fatal(noun, args, err)
	}
	if asked == nil {
		t.Fatal(noun, args, "asks nothing")
	}
	return asked, out.String(), errors.String()
}

const inTime = `"from":"2026-11-21T11:00:00Z","until":"2026-11-21T12:00:00Z","files":1`

// Flows are shown by node, and what is not known of them is not shown as 0.
func TestFlowTable(t *testing.T) {
	answer := `{` + inTime + `,"flows":[
		{"node":"athos","role":"encapsulating","namespace":1,"flow_id":7,"source_address":"2001:db8:1::2",
		 "destination_address":"2001:db8:2::2","next_header":17,
		 "source_port":1005,"destination_port":443,"flow_label":9,"records":3,"postcards":0,"packets":1234,"bytes":98765,
		 "first":"2026-11-21T11:00:01Z","last":"2026-11-21T11:59:59Z",
		 "held":{"count":9,"min_ns":1500,"mean_ns":2500,"max_ns":3500000},"missing":42,"missing_unknown":2,"late":6},
		{"node":"evil\u001b[2J","role":"transit","namespace":1,"next_header":58,"flow_label":0,"records":0,"postcards":88,"packets":0,"bytes":0,
		 "first":"2026-11-21T11:00:01Z","last":"2026-11-21T11:00:01Z","missing_unknown":0}],
		"cut":{"reason":"limit","text":"there are more than 2; ask for less time or fewer addresses, or raise limit",
		 "problem":"there are more than 2","cure":"ask for less time or fewer addresses, or raise limit"}}`
	asked, out, notes := ask(t, "flow", answer, "--wide", "--source", "2001:db8:1::/48", "--protocol", "udp", "--flow-id", "7",
		"--node", "athos",
		"--order", "missing", "--where", "packets > 0", "--port", "443", "--limit", "2")
	q := asked.URL.Query()
	for name, want := range map[string]string{"source": "2001:db8:1::/48", "next_header": "17", "flow_id": "7", "node": "athos",
		"order": "missing",
		"where": "packets > 0", "port": "443", "limit": "2"} {
		if q.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, q.Get(name), want)
		}
	}
	if asked.URL.Path != "/v1/flows" || !strings.Contains(notes, "--limit says how many are shown") {
		t.Error(asked.URL.Path, notes)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 6 || !strings.HasPrefix(lines[0], "2 flows by node, 2026-11-21 11:00:00") {
		t.Fatalf("%d lines\n%s", len(lines), out)
	}
	if got, want := strings.Join(strings.Fields(lines[2]), " "),
		"athos encapsulating 1234 98765 2.5µs 1.5µs 3.5ms 42 2 6 - 11:00:01 11:59:59 17 7"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if lines[3] != "  [2001:db8:1::2]:1005 > [2001:db8:2::2]:443" || lines[5] != "  ? > ?" || strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
	const want = "transit 0 0 - - - - - - 88 11:00:01 11:00:01 58 -"
	if got := strings.Join(strings.Fields(lines[4]), " "); !strings.HasSuffix(got, want) {
		t.Errorf("%q\nwant %s", got, want)
	}
}

// Delays have the error of both clocks, and the warnings about it.
func TestDelayTable(t *testing.T) {
	one := func(method, more string) string {
		return `{"flow":"gold","flow_id":5,"scope":"whole","from":1,"to":2,"from_node":"athos","method":"` + method +
			`","records":4,"samples":40,"min_ns":-1500,"mean_ns":2500,"p95_ns":3500,"p95_max_ns":4000,"clock_unknown":0,"beyond":0` + more + `}`
	}
	const clocks = `,"from_clock_error_ns":2000,"to_clock_error_ns":1000`
	list := []string{one("mean-of-sums", clocks+`,"jitter_ns":500,"warnings":["clocks\u001b[2J differ"],"before":{"mean_ns":1000}`),
		one("round-trip", clocks),
		one("one-way", `,"beyond":3`), one("double-marking", strings.Replace(clocks, "2000", "5000", 1)+`,"clock_unknown":2`)}
	for i := range 7 {
		list = append(list, one("one-way", fmt.Sprintf(`,"warnings":["w%d"]`, i)))
	}
	answer := `{` + inTime + `,"delays":[` + strings.Join(list, ",") + `]}`
	asked, out, _ := ask(t, "delay", answer, "--wide", "--flow", "gold", "--compare", "7d", "--where", "mean_ns > 0")
	if q := asked.URL.Query(); asked.URL.Path != "/v1/delay" || q.Get("flow") != "gold" || q.Get("compare") != "7d" ||
		q.Get("where") != "mean_ns > 0" {
		t.Error(asked.URL)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range []string{
		"FLOW FROM TO METHOD SAMPLES MIN MEAN P95 JITTER CLOCKS BEYOND SCOPE BEFORE",
		"gold athos 2 mean-of-sums 40 -1.5µs 2.5µs 3.5µs 500ns ±3µs - whole 1µs",
		"gold athos 2 round-trip 40 -1.5µs 2.5µs 3.5µs - - - whole -",
		"gold athos 2 one-way 40 -1.5µs 2.5µs 3.5µs - unknown 3 whole -",
		"gold athos 2 double-marking 40 -1.5µs 2.5µs 3.5µs - ±6µs? - whole -",
	} {
		if got := strings.Join(strings.Fields(lines[i+1]), " "); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	if strings.Contains(out, "\x1b") || !strings.Contains(out, "gold, athos > 2, mean-of-sums: \"clocks") ||
		!strings.Contains(out, "one-way: w3") || strings.Contains(out, "w4") || !strings.Contains(out, "and 3 further warnings; --json has all") {
		t.Error(out)
	}
}

// Where no packet came with its path, what came instead is said with what to do, and no empty table.
func TestPathsInstead(t *testing.T) {
	answer := `{` + inTime + `,"packets":0,"paths":[],"nodes":[],"segments":[],"instead":{"flow_records":12,"postcards":0,` +
		`"text":"no packet with its path came in this time, but 12 records of aggregated flows did",` +
		`"cure":"/v1/flows and waymark flow history show them"}}`
	_, out, _ := ask(t, "path", answer, "--wide")
	if want := "0 packets on 0 paths, 2026-11-21 11:00:00 to 12:00:00 UTC\nno packet with its path came in this time, but 12 records of " +
		"aggregated flows did; /v1/flows and waymark flow history show them\n"; out != want {
		t.Errorf("%s\nwant %s", out, want)
	}
}

// Times of several days have their date.
func TestDates(t *testing.T) {
	const days = `"from":"2026-11-20T11:00:00Z","until":"2026-11-21T12:00:00Z"`
	flow := func(first string) string {
		return `,"flows":[{"node":"athos","packets":1,"first":"` + first + `","last":"2026-11-21T11:59:59Z"}]}`
	}
	for _, tt := range []struct{ noun, answer, want string }{
		{"flow", `{` + days + flow("2026-11-20T11:00:01Z"), "2026-11-20 11:00:01 2026-11-21 11:59:59"},
		{"flow", `{` + inTime + flow("2026-11-20T11:00:01Z"), "2026-11-20 11:00:01 2026-11-21 11:59:59"}, // begun before
		{"flow", `{` + inTime + flow("2026-11-21T11:00:01Z"), " 11:00:01 11:59:59"},
		{"packet", `{` + days + `,"packets":[{"time":"2026-11-20T11:00:01.5Z"},{"time":"2026-11-21T11:00:01.5Z"}]}`, "2026-11-20 11:00:01.500"},
		{"packet", `{` + inTime + `,"packets":[{"time":"2026-11-21T11:00:01.5Z"},{"time":"2026-11-21T11:00:01Z"}]}`, " 11:00:01.500"},
	} {
		_, out, _ := ask(t, tt.noun, tt.answer, "--wide")
		_, table, _ := strings.Cut(out, "\n")
		table = " " + strings.Join(strings.Fields(table), " ")
		if !strings.Contains(table, tt.want) || strings.Contains(table, "2026") != strings.HasPrefix(tt.want, "2026") {
			t.Errorf("%s history: %s", tt.noun, out)
		}
	}
}
