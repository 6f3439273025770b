// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
)

func TestRecordsReachObserversAndFiles(t *testing.T) {
	h := newHarness(t, "")
	path := h.File + ".jsonl"
	h.Write(agenttest.BaseConfig + "export: [{kind: jsonl, path: " + path + "}]\n")
	h.Start()
	all := agenttest.Observe(t, h.Client, api.RecordFilter{})
	some := agenttest.Observe(t, h.Client, api.RecordFilter{Destination: netip.MustParsePrefix("2001:db8:7::/48")})
	h.Datapath.Records <- agenttest.RemovedHeader(t, "2001:db8:2::2")
	h.Datapath.Records <- agenttest.RemovedHeader(t, "2001:db8:7::2")

	r := agenttest.Receive(t, all)
	if r.Node != "gamma" || r.Interface != "eth0" || r.Namespace != 123 || r.Packet.Length != 128 || *r.Packet.DestinationPort != 9 ||
		!r.Time.Equal(time.Unix(1_800_000_000, 1)) || len(r.Nodes) != 1 || r.Nodes[0].NodeID.Value != 2 || r.Nodes[0].HopLimit.Value != 63 {
		t.Errorf("record %+v", r)
	}
	if second := agenttest.Receive(t, all); second.Packet.Destination != netip.MustParseAddr("2001:db8:7::2") {
		t.Errorf("second record is for %v", second.Packet.Destination)
	}
	if r := agenttest.Receive(t, some); r.Packet.Destination != netip.MustParseAddr("2001:db8:7::2") || len(some) != 0 {
		t.Errorf("the filtered observer got %v and %d more", r.Packet.Destination, len(some))
	}
	agenttest.Eventually(t, "both are written", func() bool { return h.Status().Records.Sinks[0].Written == 2 })
	if b, err := os.ReadFile(path); err != nil || strings.Count(string(b), "\n") != 2 {
		t.Errorf("the file has %q, %v", b, err)
	}
	s := h.Status()
	if s.Records.Read != 2 || s.Records.Malformed != 0 || s.Records.Observers != 2 {
		t.Errorf("counted %+v", s.Records)
	}
}

// A trace says how long its packet took to this node, if the encapsulating node's
// timestamp is known.
func TestPathDelayOfATrace(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	lines := agenttest.Observe(t, h.Client, api.RecordFilter{})
	const header = "1104" + "0100" + "31220000" + "007b1800" + "b0000000" + "3e000003ffffffffffffffff" + "3f0000026b49d1ff000f4236"
	for _, tt := range []struct {
		header string
		want   record.Field[uint64]
	}{
		{header, record.NewField[uint64](10_001, true)},
		{strings.Replace(header, "000f4236", "ffffffff", 1), record.Field[uint64]{}},
	} {
		r := agenttest.RemovedHeader(t, "2001:db8:2::2")
		var err error
		if r.Header, err = hex.DecodeString(tt.header); err != nil {
			t.Fatal(err)
		}
		h.Datapath.Records <- r
		if r := agenttest.Receive(t, lines); r.PathDelay != tt.want || len(r.Nodes) != 2 {
			t.Errorf("path delay %+v, want %+v, of %+v", r.PathDelay, tt.want, r)
		}
	}
}

func TestMalformedRecordsAreCounted(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	lines := agenttest.Observe(t, h.Client, api.RecordFilter{})
	for _, spoil := range []func(*datapath.Record){
		func(r *datapath.Record) { r.Header = r.Header[:7] },  // cut header
		func(r *datapath.Record) { r.Header[5] = 200 },        // option beyond it
		func(r *datapath.Record) { r.Packet = r.Packet[:20] }, // cut packet
		func(r *datapath.Record) { r.Header[5] = 4 },          // option too short for a trace
		func(r *datapath.Record) { r.Header = nil },
	} {
		r := agenttest.RemovedHeader(t, "2001:db8:2::2")
		spoil(&r)
		h.Datapath.Records <- r
	}
	h.Datapath.Records <- agenttest.RemovedHeader(t, "2001:db8:2::2")
	if r := agenttest.Receive(t, lines); len(r.Nodes) != 1 {
		t.Errorf("record %+v", r)
	}
	if s := h.Status(); s.Records.Read != 6 || s.Records.Malformed != 5 {
		t.Errorf("read %d, malformed %d; want 6 and 5", s.Records.Read, s.Records.Malformed)
	}
}

func TestObserversEndWithTheAgent(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		ended <- h.Client.Observe(context.Background(), api.RecordFilter{}, func() { close(ready) }, func([]byte) error { return nil })
	}()
	<-ready
	begin := time.Now()
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > shutdownTimeout {
		t.Errorf("the end took %v: the stream did not end by itself", took)
	}
	select {
	case <-ended:
	case <-time.After(patience.Of(5 * time.Second)):
		t.Error("the observer waits on")
	}
}

func TestBadRequests(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1/namespaces", `{"id":1,"colour":"red"}`, 400, "colour"},
		{"POST", "/v1/namespaces", `{"id":70000}`, 400, "70000"},
		{"POST", "/v1/namespaces", `{"id":1`, 400, "request:1:"},
		{"POST", "/v1/schemas", `{"id":1,"data":"x"} {}`, 400, "more than one value"},
		{"POST", "/v1/schemas", `{"id":1,"data":"x","y":2}`, 400, "unknown field"},
		{"POST", "/v1/schemas", strings.Repeat(" ", 1<<20+1), 400, "more than 1048576 bytes"},
		{"POST", "/v1/stop", `{"remove":"perhaps"}`, 400, "not valid"},
		{"DELETE", "/v1/namespaces/x", "", 400, `"x" is not a number of 16 bits`},
		{"PUT", "/v1/namespaces/123/schema", `{"schema":9}`, 422, "there is no schema 9"},
		{"PUT", "/v1/encapsulations/a", `{"name":"b","interface":"eth1","options":[{"trace":{"namespace":123,"type":"0x800000","size":4}}]}`, 400, `called "a" in the path and "b" in the body`},
		{"GET", "/v1/records?namespace=x", "", 400, "namespace: \"x\": want a number from 0 to 65535"},
		{"GET", "/v1/records?source=x", "", 400, "source: \"x\": want an IPv6 prefix"},
		{"GET", "/v1/records?colour=9", "", 400, "colour"},
		{"GET", "/v1/records?source=::1/200", "", 400, "source:"},
		{"GET", "/v1/records?source=::/0&source=::/0", "", 400, "source is given 2 times"},
		{"PATCH", "/v1/status", "", 405, ""},
		{"GET", "/v2/status", "", 404, ""},
	} {
		status, body := h.Request(tt.method, tt.path, tt.body)
		if status != tt.status || !strings.Contains(body, strings.ReplaceAll(tt.want, `"`, `\"`)) {
			t.Errorf("%s %s: %d %s; want %d and %s", tt.method, tt.path, status, body, tt.status, tt.want)
		}
	}
	if h.Datapath.Applications() != 1 {
		t.Error("a bad request changed what runs")
	}
}

func TestSocketIsPrivate(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	for path, want := range map[string]os.FileMode{h.Instance.Socket(): 0o600, h.Instance.Dir: 0o700} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func TestRunningConfigParses(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	if _, err := h.Client.AddNamespace(context.Background(), config.Namespace{ID: 124, Data: 5}); err != nil {
		t.Fatal(err)
	}
	yaml, err := h.Client.Config(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("running", yaml)
	if err != nil || len(c.Namespaces) != 2 || c.Namespaces[1].Data != 5 {
		t.Errorf("%v; running configuration:\n%s", err, yaml)
	}
}

func TestExporterChangesOnReload(t *testing.T) {
	h := newHarness(t, "")
	first, second := h.File+".1", h.File+".2"
	with := func(paths ...string) string {
		out := agenttest.BaseConfig + "export:\n"
		for _, p := range paths {
			out += "  - {kind: jsonl, path: " + p + "}\n"
		}
		return out
	}
	count := func(path string) int { b, _ := os.ReadFile(path); return strings.Count(string(b), "\n") }
	h.Write(with(first))
	h.Start()
	h.Datapath.Records <- agenttest.RemovedHeader(t, "2001:db8:2::2")
	agenttest.Eventually(t, "the first file has it", func() bool { return count(first) == 1 })
	h.Write(with(first, second))
	if _, err := h.Client.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s := h.Status().Records.Sinks; len(s) != 2 || s[0].Written != 1 {
		t.Errorf("exporters %+v; the first must go on counting", s)
	}
	h.Datapath.Records <- agenttest.RemovedHeader(t, "2001:db8:2::2")
	agenttest.Eventually(t, "both files have it", func() bool { return count(first) == 2 && count(second) == 1 })
	h.Write(with(second))
	if _, err := h.Client.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.Datapath.Records <- agenttest.RemovedHeader(t, "2001:db8:2::2")
	agenttest.Eventually(t, "the second file has it", func() bool { return count(second) == 2 })
	if count(first) != 2 {
		t.Error("an exporter that is no longer configured still writes")
	}
	if isOpen(t, first) || !isOpen(t, second) {
		t.Errorf("open: first %v, second %v; want the second alone", isOpen(t, first), isOpen(t, second))
	}
}

// isOpen reports whether this process has a file open.
func isOpen(t *testing.T, path string) bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		return err == nil && target == path
	})
}

func TestRecently(t *testing.T) {
	var r service.Samples
	begin := time.Unix(0, 0)
	if r.Growth(5) != 0 {
		t.Error("growth before anything is known")
	}
	for i := range 30 {
		r.Add(begin.Add(time.Duration(i)*5*time.Second), uint64(i))
	}
	// The last sample is at 145 s with 29; 12 samples are kept, from 18 on.
	if got := r.Growth(40); got != 22 {
		t.Errorf("growth %d, want 22", got)
	}
	if got := r.Growth(3); got != 0 {
		t.Errorf("a counter that went back grew by %d", got)
	}
}

// TestReferenceIsComplete compares the reference with the code.
func TestReferenceIsComplete(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile("../../docs/reference/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	documented := regexp.MustCompile("(?m)^### `([A-Z]+ /[^`]+)`$").FindAllStringSubmatch(read("api.md"), -1)
	var have []string
	for _, m := range documented {
		have = append(have, m[1])
	}
	want := []string{"GET /metrics", "GET /healthz"}
	for _, r := range New(Options{}).api() {
		want = append(want, r.pattern)
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("docs/reference/api.md has\n%q\nthe code\n%q", have, want)
	}
	warnings := read("warnings.md")
	for _, k := range health.Kinds() {
		if row := fmt.Sprintf("| `%s` | %s | %s |", k.Code, k.Severity, k.Title); !strings.Contains(warnings, row) {
			t.Errorf("docs/reference/warnings.md lacks the row\n%s", row)
		}
	}
}
