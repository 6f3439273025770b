// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/record"
)

// fakeAgent answers from a table and remembers requests.
type fakeAgent struct {
	socket  string
	answers map[string]string // "METHOD PATH" → body, after "404 " or "409 " where that is the status; absent: 204

	mu    sync.Mutex
	asked []string // "METHOD PATH BODY"
}

func (f *fakeAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.asked = append(f.asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
	f.mu.Unlock()
	answer, ok := f.answers[r.Method+" "+r.URL.Path]
	gone, isGone := strings.CutPrefix(answer, "404 ")
	several, isConflict := strings.CutPrefix(answer, "409 ")
	switch {
	case isGone:
		http.Error(w, gone, http.StatusNotFound)
	case isConflict:
		http.Error(w, several, http.StatusConflict)
	case !ok:
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(answer, `{"error":`):
		w.WriteHeader(http.StatusUnprocessableEntity)
		fallthrough
	default:
		_, _ = io.WriteString(w, answer)
	}
}

// last is the last request.
func (f *fakeAgent) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) == 0 {
		return ""
	}
	return f.asked[len(f.asked)-1]
}

// shortDir is a directory for a socket: its path has at most 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newFakeAgent(t *testing.T, answers map[string]string) *fakeAgent {
	t.Helper()
	return serveFakeAgent(t, filepath.Join(shortDir(t), "agent.sock"), answers)
}

// serveFakeAgent serves at a socket, until the test ends.
func serveFakeAgent(t *testing.T, socket string, answers map[string]string) *fakeAgent {
	t.Helper()
	f := &fakeAgent{socket: socket, answers: answers}
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: f, ReadHeaderTimeout: time.Second}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return f
}

const rules = `[
 {"name":"core","interface":"eth1","match":{"destination":"2001:db8:2::/64"},"frequency":"1/100","mode":"encap","tunnel":{"source":"2001:db8::1","destination":"2001:db8::3"},"options":[{"trace":{"namespace":123,"type":"0x800000","size":12}}]},
 {"name":"port9","interface":"eth1","match":{"destination":"2001:db8:2::/64","destination_port":"9"},"frequency":"1/1","mode":"inline","options":[{"trace":{"namespace":123,"type":"0x800000","size":12}}]},
 {"name":"other","interface":"eth2","match":{"destination":"2001:db8:2::/64"},"frequency":"1/1","mode":"inline","options":[{"trace":{"namespace":123,"type":"0x800000","size":12}}]}]`

// TestRequests checks the request that each command line makes.
func TestRequests(t *testing.T) {
	f := newFakeAgent(t, map[string]string{"GET /v1/encapsulations": rules, "POST /v1/stop": `{"warnings":[]}`})
	for _, tt := range []struct{ args, want string }{
		{"ioam namespace add 124 data 0x1 wide 2", `POST /v1/namespaces {"id":124,"data":"0x00000001","data_wide":"0x0000000000000002","remove":false,"export":"none","e2e":false,"loopback":false,"terminate_active":false,"incremental":false}`},
		{"ioam n a 124", `POST /v1/namespaces {"id":124,"data":"0xffffffff","data_wide":"0xffffffffffffffff","remove":false,"export":"none","e2e":false,"loopback":false,"terminate_active":false,"incremental":false}`},
		{"ioam namespace del 124", "DELETE /v1/namespaces/124"},
		{"ioam namespace set 124 schema 777", `PUT /v1/namespaces/124/schema {"schema":777}`},
		{"ioam namespace set 124 export every", `PUT /v1/namespaces/124/export {"export":"every"}`},
		{"ioam namespace set 124 export sample 9", `PUT /v1/namespaces/124/export {"export":"sample","sample":9}`},
		{"ioam namespace set 124 remove on loopback off", `PATCH /v1/namespaces/124 {"remove":true,"loopback":false}`},
		{"ioam ns set 124 e2e on incremental on terminate-active off", `PATCH /v1/namespaces/124 {"e2e":true,"incremental":true,"terminate_active":false}`},
		{"ioam namespace add 124 remove on", `POST /v1/namespaces {"id":124,"data":"0xffffffff","data_wide":"0xffffffffffffffff","remove":true,"export":"none","e2e":false,"loopback":false,"terminate_active":false,"incremental":false}`},
		{"ioam namespace set 124 schema none", `PUT /v1/namespaces/124/schema {"schema":null}`},
		{"ioam schema add 777 rack", `POST /v1/schemas {"id":777,"data":"rack"}`},
		{"ioam s d 777", "DELETE /v1/schemas/777"},
		{"route add 2001:db8:9::/64 encap ioam6 mode encap tundst 2001:db8::3 trace prealloc type 0x800000 ns 123 size 12 dev eth1",
			`POST /v1/encapsulations {"name":"route-2001-db8-9--_64-eth1","interface":"eth1","match":{"destination":"2001:db8:9::/64"},"flows":"1/1","frequency":"1/1","mode":"encap","tunnel":{"destination":"2001:db8::3"},"nested":false,"options":[{"trace":{"namespace":123,"type":"0x800000","size":12}}]}`},
		{"ioam namespace add 124 export sample 100", `POST /v1/namespaces {"id":124,"data":"0xffffffff","data_wide":"0xffffffffffffffff","remove":false,"export":"sample","sample":100,"e2e":false,"loopback":false,"terminate_active":false,"incremental":false}`},
		{"route add 2001:db8:9::/64 encap ioam6 flows 1/64 mode encap tundst 2001:db8::3 dex ns 123 trace-type 0xc00000 ext-flags 0xc0 dev eth1",
			`POST /v1/encapsulations {"name":"route-2001-db8-9--_64-eth1","interface":"eth1","match":{"destination":"2001:db8:9::/64"},"flows":"1/64","frequency":"1/1","mode":"encap","tunnel":{"destination":"2001:db8::3"},"nested":false,"options":[{"dex":{"namespace":123,"trace_type":"0xc00000","extension_flags":["flow-id","sequence"],"flow_id":"hash","option_type":"0x11"}}]}`},
		{"ioam ns add 124", `POST /v1/namespaces {"id":124,"data":"0xffffffff","data_wide":"0xffffffffffffffff","remove":false,"export":"none","e2e":false,"loopback":false,"terminate_active":false,"incremental":false}`},
		{"i name d 124", "DELETE /v1/namespaces/124"},
		{"r d 2001:db8:2::/64 dport 9", `DELETE /v1/encapsulations {"match":{"destination":"2001:db8:2::/64","destination_port":9}}`},
		{"route del name core", `DELETE /v1/encapsulations {"name":"core","match":{}}`},
		{"route replace 2001:db8:2::/64 dport 9 encap ioam6 trace prealloc type 0x800000 ns 123 size 4 dev eth1",
			`PUT /v1/encapsulations?inline=refuse {"name":"route-2001-db8-2--_64-eth1-dport-9","interface":"eth1","match":{"destination":"2001:db8:2::/64","destination_port":9},"flows":"1/1","frequency":"1/1","mode":"inline","nested":false,"options":[{"trace":{"namespace":123,"type":"0x800000","size":4}}]}`},
		{"route change 2001:db8:2::/64 dport 9 encap ioam6 trace prealloc type 0x800000 ns 123 size 4 dev eth1",
			`PUT /v1/encapsulations?existing=true&inline=refuse {"name":"route-2001-db8-2--_64-eth1-dport-9","interface":"eth1","match":{"destination":"2001:db8:2::/64","destination_port":9},"flows":"1/1","frequency":"1/1","mode":"inline","nested":false,"options":[{"trace":{"namespace":123,"type":"0x800000","size":4}}]}`},
		{"route chg default encap ioam6 trace prealloc type 0x800000 ns 123 size 4 dev eth1 name core",
			`PUT /v1/encapsulations/core?existing=true&inline=refuse {"name":"core","interface":"eth1","match":{"destination":"::/0"},"flows":"1/1","frequency":"1/1","mode":"inline","nested":false,"options":[{"trace":{"namespace":123,"type":"0x800000","size":4}}]}`},
		{"route append 2001:db8:2::/64 dport 8 encap ioam6 trace prealloc type 0x800000 ns 123 size 4 dev eth1",
			`POST /v1/encapsulations?inline=refuse {"name":"route-2001-db8-2--_64-eth1-dport-8","interface":"eth1","match":{"destination":"2001:db8:2::/64","destination_port":8},"flows":"1/1","frequency":"1/1","mode":"inline","nested":false,"options":[{"trace":{"namespace":123,"type":"0x800000","size":4}}]}`},
		{"route rep default encap ioam6 trace prealloc type 0x800000 ns 123 size 4 dev eth1 name core",
			`PUT /v1/encapsulations/core?inline=refuse {"name":"core","interface":"eth1","match":{"destination":"::/0"},"flows":"1/1","frequency":"1/1","mode":"inline","nested":false,"options":[{"trace":{"namespace":123,"type":"0x800000","size":4}}]}`},
		{"route rep default encap ioam6 trace prealloc type 0x800000 ns 123 size 4 dev eth1 name core force",
			`PUT /v1/encapsulations/core {"name":"core","interface":"eth1","match":{"destination":"::/0"},"flows":"1/1","frequency":"1/1","mode":"inline","nested":false,"options":[{"trace":{"namespace":123,"type":"0x800000","size":4}}]}`},
		{"ioam namespace add 124 data 0x1 data 2", `POST /v1/namespaces {"id":124,"data":"0x00000001","data_wide":"0x0000000000000002","remove":false,"export":"none","e2e":false,"loopback":false,"terminate_active":false,"incremental":false}`},
		{"route del name port9", `DELETE /v1/encapsulations {"name":"port9","match":{}}`},
		{"route del 2001:db8:2::/64 encap ioam6 freq 1/100 mode encap tunsrc 2001:db8::1 tundst 2001:db8::3 trace prealloc type 0x800000 ns 123 size 12 dev eth1 name core",
			`DELETE /v1/encapsulations {"name":"core","interface":"eth1","match":{"destination":"2001:db8:2::/64"},"insertion":{"flows":"1/1","frequency":"1/100","mode":"encap","tunnel":{"source":"2001:db8::1","destination":"2001:db8::3"},"nested":false,"options":[{"trace":{"namespace":123,"type":"0x800000","size":12}}]}}`},
		{"route del 2001:db8:2::/64 dev eth2", `DELETE /v1/encapsulations {"interface":"eth2","match":{"destination":"2001:db8:2::/64"}}`},
		{"agent reload", "POST /v1/reload"},
		{"agent stop", `POST /v1/stop {"remove":false}`},
		{"agent stop --remove", `POST /v1/stop {"remove":true}`},
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", f.socket}, strings.Fields(tt.args)...)...)
		if code != commandline.ExitOK || stdout != "" || stderr != "" || f.last() != tt.want {
			t.Errorf("%s: code %d, stdout %q, stderr %q, asked\n%s\nwant\n%s", tt.args, code, stdout, stderr, f.last(), tt.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	f := newFakeAgent(t, map[string]string{
		"PUT /v1/encapsulations":         `404 {"error":"no encapsulation selects the same packets"}`,
		"DELETE /v1/encapsulations":      `404 {"error":"no such encapsulation"}`,
		"PUT /v1/encapsulations/nothing": `404 {"error":"there is no encapsulation \"nothing\"; list them with: waymark route show"}`,
		"POST /v1/namespaces":            `{"error":"namespace 123 exists already; remove it first"}`,
	})
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"ioam namespace add 123", commandline.ExitFailure, "waymark: namespace 123 exists already; remove it first\n"},
		{"ioam namespace add x", commandline.ExitUsage, `ioam namespace: namespace id "x": want a number`},
		{"ioam colour", commandline.ExitUsage, `unknown command "colour" for "waymark ioam"`},
		{"route add default", commandline.ExitUsage, "route: encap ioam6 is missing"},
		{"route change default dev eth1", commandline.ExitUsage, "route: encap ioam6 is missing"},
		{"route change 2001:db8:7::/64 encap ioam6 trace prealloc type 0x800000 ns 123 size 4 dev eth1", commandline.ExitFailure, "waymark: route change: no such route; list them with: waymark route show"},
		{"route change 2001:db8:2::/64 encap ioam6 trace prealloc type 0x800000 ns 123 size 4 dev eth1 name nothing", commandline.ExitFailure, "waymark: route change: no such route"},
		{"route del 2001:db8:7::/64", commandline.ExitFailure, "waymark: route del: no such route; list them with: waymark route show\n"},
		{"route del name nothing", commandline.ExitFailure, "no such route"},
		{"observe --namespace 70000", commandline.ExitUsage, `--namespace "70000"`},
		{"observe --source 192.0.2.0/24", commandline.ExitUsage, `--source "192.0.2.0/24": want an IPv6 prefix`},
		{"observe --count -1", commandline.ExitUsage, "--count -1"},
		{"agent run", commandline.ExitUsage, "--config FILE is missing"},
		{"agent run --config x --log-format xml", commandline.ExitUsage, `--log-format "xml"`},
		{"agent run --config x --log-level loud", commandline.ExitUsage, `--log-level "loud"`},
		{"status now", commandline.ExitUsage, "waymark status"},
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", f.socket}, strings.Fields(tt.args)...)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: code %d, stdout %q, stderr %q; want code %d and %s", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}

// If several rules fit, the agent names them and changes none; the command reports that
// in its own words.
func TestSeveralRulesFit(t *testing.T) {
	several := `409 {"error":"3 encapsulations fit","encapsulations":` + rules + `}`
	f := newFakeAgent(t, map[string]string{"PUT /v1/encapsulations": several, "DELETE /v1/encapsulations": several})
	const list = ":\n  2001:db8:2::/64 dev eth1 name core\n  2001:db8:2::/64 dport 9 dev eth1 name port9\n" +
		"  2001:db8:2::/64 dev eth2 name other\n"
	for args, want := range map[string]string{
		"route del 2001:db8:2::/64": "waymark: route del: 3 routes fit, and nothing was changed; say which by one of these" + list,
		"route replace 2001:db8:2::/64 encap ioam6 trace prealloc type 0x800000 ns 123 size 4 dev eth1": "waymark: route replace: 3 routes fit, and nothing was changed; name the one you mean" + list,
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", f.socket}, strings.Fields(args)...)...)
		if code != commandline.ExitFailure || stdout != "" || stderr != want || len(f.asked) != 1 {
			t.Errorf("%s: code %d, stderr %q, asked %q", args, code, stderr, f.asked)
		}
		f.asked = nil
	}
}

// iproute2 has help as a word.
func TestHelpAsWord(t *testing.T) {
	for args, want := range map[string]string{"route help": "route del {PREFIX", "ioam ns help": "wide DATA64",
		"ioam schema help": "add ID DATA"} {
		if code, stdout, stderr := runCLI(t, "", strings.Fields(args)...); code != commandline.ExitOK || !strings.Contains(stdout, want) ||
			stderr != "" {
			t.Errorf("%s: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestNoAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none")
	for _, args := range []string{"status", "observe", "ioam namespace show", "route show", "agent reload", "agent stop",
		"agent stop --remove", "agent config"} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", socket}, strings.Fields(args)...)...)
		if code != commandline.ExitFailure || stdout != "" || !strings.HasPrefix(stderr, "waymark: no agent answers at "+socket+"; ") {
			t.Errorf("%s: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestNothingToStop(t *testing.T) {
	for want, left := range map[string][]string{
		"no agent runs in this network namespace": nil,
		"no agent runs in this network namespace, but the programs of the last one still treat the packets on eth0, eth1; remove them with 'waymark agent stop --remove'": {"eth0", "eth1"},
	} {
		if got := nothingToStop(left).Error(); got != want {
			t.Errorf("%v: %s", left, got)
		}
	}
}

func TestShow(t *testing.T) {
	f := newFakeAgent(t, map[string]string{
		"GET /v1/namespaces":     `[{"id":123,"data":"0xdeadbeef","data_wide":"0xcafec0caf00dc0de","schema":{"id":777,"data":"rack 7"},"remove":true},{"id":5,"export":"every"},{"id":6,"export":"sample","sample":100},{"id":7,"pot":{"key_file":"/etc/waymark/pot-node-3.key","drop_rejected":true}}]`,
		"GET /v1/schemas":        `[{"id":777,"data":"rack 7","namespaces":[123]},{"id":778,"data":"x"}]`,
		"GET /v1/encapsulations": rules,
		"GET /v1/config":         "node: {id: 2}\n",
	})
	for _, tt := range []struct{ args, want string }{
		{"ioam namespace show", "namespace 123 [schema 777], data 0xdeadbeef, wide 0xcafec0caf00dc0de, remove\nnamespace 5, export every\nnamespace 6, export sample 100\nnamespace 7, pot /etc/waymark/pot-node-3.key drop-rejected\n"},
		{"ioam schema", "schema 777 [namespace 123], data: 72 61 63 6b 20 37 00 00\nschema 778, data: 78 00 00 00\n"},
		{"--json ioam schema show", `[{"id":777,"data":"rack 7","namespaces":[123]},{"id":778,"data":"x"}]` + "\n"},
		{"route show dev eth2", "2001:db8:2::/64 encap ioam6 freq 1/1 mode inline trace prealloc type 0x800000 ns 123 size 12 dev eth2 name other\n"},
		{"route show name core", "2001:db8:2::/64 encap ioam6 freq 1/100 mode encap tunsrc 2001:db8::1 tundst 2001:db8::3 trace prealloc type 0x800000 ns 123 size 12 dev eth1 name core\n"},
		{"route show name port9", "2001:db8:2::/64 dport 9 encap ioam6 freq 1/1 mode inline trace prealloc type 0x800000 ns 123 size 12 dev eth1 name port9\n"},
		{"r s default", ""},
		{"--json route show default", "[]\n"},
		{"agent config", "node: {id: 2}\n"},
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", f.socket}, strings.Fields(tt.args)...)...)
		if code != commandline.ExitOK || stdout != tt.want || stderr != "" {
			t.Errorf("%s: code %d, stderr %q, stdout\n%s\nwant\n%s", tt.args, code, stderr, stdout, tt.want)
		}
	}
	code, stdout, _ := runCLI(t, "", "--socket", f.socket, "--json", "agent", "config")
	if code != commandline.ExitOK || !json.Valid([]byte(stdout)) || !strings.Contains(stdout, `"timestamp_format":"posix"`) {
		t.Errorf("agent config --json: code %d, %s", code, stdout)
	}
}

const traceLine = `{"kind":"trace","time":"2026-11-21T05:21:00.000000001Z","node":"gamma","interface":"eth0","option":"pre-allocated",` +
	`"namespace":123,"trace_type":"0xfff002","overflow":true,"remaining":0,` +
	`"packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2","next_header":17,"source_port":4242,"destination_port":9,` +
	`"flow_label":0,"length":128},` +
	`"nodes":[{"hop_limit":64,"node_id":1,"ingress_id":null,"egress_id":11,"timestamp":"2026-11-21T05:20:59.999900000Z",` +
	`"transit_delay_ns":null},` +
	`{"hop_limit":63,"node_id":2,"ingress_id":201,"egress_id":202,"timestamp":"2026-11-21T05:20:59.999938000Z","transit_delay_ns":18250,` +
	`"queue_depth":3,"snapshot":{"schema":777,"data":"cmFjayA3AAA="}},` +
	`{"hop_limit":62,"node_id_wide":33,"ingress_id_wide":301,"egress_id_wide":null,"timestamp":null,"transit_delay_ns":null,` +
	`"transit_delay_overflow":true}]}`

func TestObserve(t *testing.T) {
	lost := `{"kind":"lost","count":7}`
	later := `{"kind":"something new"}`
	f := newFakeAgent(t, map[string]string{"GET /v1/records": strings.Join([]string{traceLine, lost, later, traceLine, traceLine}, "\n") +
		"\n"})

	code, stdout, stderr := runCLI(t, "", "--socket", f.socket, "observe", "--count", "2", "--namespace", "0x7b", "--source", "2001:db8:1::2",
		"--destination", "2001:db8:2::9/64")
	if code != commandline.ExitOK || strings.Count(stdout, "2001:db8:1::2") != 2 || !strings.Contains(stderr, "7 records were lost") {
		t.Errorf("code %d, stdout\n%s\nstderr %q", code, stdout, stderr)
	}
	if want := "GET /v1/records?destination=2001%3Adb8%3A2%3A%3A%2F64&namespace=123&source=2001%3Adb8%3A1%3A%3A2%2F128"; f.last() != want {
		t.Errorf("asked %s\nwant  %s", f.last(), want)
	}

	code, stdout, stderr = runCLI(t, "", "--socket", f.socket, "observe", "--json")
	ended := `{"kind":"error","ok":false,"error":"the agent has ended"}`
	if code != commandline.ExitFailure || stdout != traceLine+"\n"+later+"\n"+traceLine+"\n"+traceLine+"\n"+ended+"\n" || stderr != lost+"\n" {
		t.Errorf("code %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
}

// Streamed records are printed as by decode, and so are the node's own exports.
func TestObserveText(t *testing.T) {
	const postcard = `{"kind":"postcard","time":"2026-11-21T05:21:00.000000001Z","node":"beta","role":"transit","ingress":"eth0",` +
		`"egress":"eth1","option":"direct-export",` +
		`"namespace":123,"trace_type":"0x880000","flags":"0x00","extension_flags":"0xc0","flow_id":7,"sequence":42,` +
		`"packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2","next_header":17,"source_port":4242,"destination_port":9,` +
		`"flow_label":0,"length":128},` +
		`"data":{"hop_limit":63,"node_id":2,"transit_delay_ns":18250}}`
	const flow = `{"kind":"flow","time":"2026-11-21T05:21:10.000000000Z","node":"beta","role":"transit","ingress":"eth0","egress":"eth1",` +
		`"namespace":123,"trace_type":"0x880000","flow_id":7,` +
		`"packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2","next_header":17,"source_port":4242,"destination_port":9,` +
		`"flow_label":0},` +
		`"packets":10,"bytes":1280,"first":"2026-11-21T05:21:00.000000000Z","last":"2026-11-21T05:21:09.000000000Z","sequence_gaps":1,` +
		`"reordered":0,"hop_limit":{"min":63,"max":63},"end_reason":"interval"}`
	exports := newFakeAgent(t, map[string]string{"GET /v1/records": postcard + "\n" + flow + "\n"})
	code, out, errs := runCLI(t, "", "--socket", exports.socket, "observe", "--count", "2")
	if code != commandline.ExitOK || !strings.Contains(out, "postcard of a transit node") || !strings.Contains(out, "sequence 42\n") ||
		!strings.Contains(out, "10 packets, 1280 bytes in 9s  1 missing") {
		t.Errorf("code %d, stderr %q, stdout\n%s", code, errs, out)
	}
	f := newFakeAgent(t, map[string]string{"GET /v1/records": traceLine + "\n"})
	var r record.Trace
	if err := record.Unmarshal([]byte(traceLine), &r); err != nil {
		t.Fatal(err)
	}
	_, stdout, _ := runCLI(t, "", "--socket", f.socket, "observe", "--count", "1", "--wide")
	if stdout != r.Text() || strings.Count(stdout, "\n    ") != 5 {
		t.Errorf("got\n%s\nwant\n%s", stdout, r.Text())
	}
	const want = "2026-11-21 05:21:00.000000  gamma eth0  100µs end to end  UDP\n" +
		"    [2001:db8:1::2]:4242 > [2001:db8:2::2]:9\n" +
		"    node 1   - > 11     at 05:20:59.999900  held -           -\n" +
		"    node 2   201 > 202  +38µs               held 18.3µs      queue 3\n" +
		"    node 33  301 > -    -                   held over 2.15s  -\n" +
		"    and further nodes, for which the trace had no room\n" +
		"    then 62.001µs to the node that removed the trace, which wrote no time\n"
	if _, stdout, _ = runCLI(t, "", "--socket", f.socket, "observe", "--count", "1"); stdout != want {
		t.Errorf("got\n%s\nwant\n%s", stdout, want)
	}
	t.Setenv("LC_ALL", "C")
	t.Setenv("COLUMNS", "100")
	if _, stdout, _ = runCLI(t, "", "--socket", f.socket, "observe", "--count", "1"); !strings.Contains(stdout,
		"    node 2   201 > 202  hop limit 63  +38us               held 18.3us      queue 3\n") {
		t.Errorf("got\n%s", stdout)
	}
}

// An agent of a node that only receives its kernel's events serves no interface.
func TestStatusWithoutInterfaces(t *testing.T) {
	f := newFakeAgent(t, map[string]string{"GET /v1/status": emptyStatus})
	code, stdout, _ := runCLI(t, "", "--socket", f.socket, "status")
	if code != commandline.ExitOK || !strings.Contains(stdout, "\n\nno interface is configured: packets are not touched\n\nrecords") ||
		strings.Contains(stdout, "INDEX") {
		t.Errorf("code %d, %s", code, stdout)
	}
}

const emptyStatus = `{"version":"1.0","interfaces":[],"namespaces":[],"encapsulations":[],"decapsulations":[],"records":{"exporters":[]},` +
	`"warnings":[]}`

func TestStatusJSON(t *testing.T) {
	f := newFakeAgent(t, map[string]string{"GET /v1/status": emptyStatus})
	code, stdout, stderr := runCLI(t, "", "--socket", f.socket, "--json", "status")
	var s api.Status
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || code != commandline.ExitOK || s.Version != "1.0" {
		t.Errorf("code %d, %v, stdout %s, stderr %s", code, err, stdout, stderr)
	}
}

func TestStopWarns(t *testing.T) {
	const warnings = `"warnings":[{"code":"tunnel_end_removed","severity":"warning","title":"x","text":"y","cure":"z"}]`
	f := newFakeAgent(t, map[string]string{"POST /v1/stop": "{" + warnings + "}"})
	code, stdout, stderr := runCLI(t, "", "--socket", f.socket, "agent", "stop", "--remove")
	if code != commandline.ExitOK || stdout != "" || stderr != "warning: tunnel_end_removed: x\n  y\n  cure: z\n" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, stderr = runCLI(t, "", "--socket", f.socket, "--json", "agent", "stop", "--remove")
	if code != commandline.ExitOK || stdout != `{"ok":true,"removed":true,`+warnings+"}\n" || stderr != "" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestDoctorWithoutAgent reports what an ended agent has left.
func TestDoctorWithoutAgent(t *testing.T) {
	absent := api.NewClient(filepath.Join(t.TempDir(), "none"))
	d := diagnose(t.Context(), health.Kernel{}, health.ReadClock, absent,
		&options{programsLeft: func() []string { return []string{"eth0", "eth1"} }})
	warned := slices.ContainsFunc(d.Warnings, func(w health.Warning) bool { return w.Code == health.AgentEnded })
	var b strings.Builder
	if err := writeDiagnosis(&b, d, false); err != nil {
		t.Fatal(err)
	}
	if d.Agent != "absent" || !warned || !isTooSevere(d.Warnings, false) ||
		!strings.Contains(b.String(), "absent   its programs still serve eth0, eth1") {
		t.Errorf("%+v\n%s", d, &b)
	}
}

func TestReloadResult(t *testing.T) {
	good := newFakeAgent(t, nil)
	if code, stdout, stderr := runCLI(t, "", "--socket", good.socket, "--json", "agent", "reload"); code != commandline.ExitOK ||
		stdout != `{"ok":true}`+"\n" || stderr != "" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	changed := newFakeAgent(t, map[string]string{"POST /v1/reload": `{"runtime_changes_ended":true}`})
	if code, stdout, stderr := runCLI(t, "", "--socket", changed.socket, "agent", "reload"); code != commandline.ExitOK || stdout != "" ||
		stderr != "changes made at runtime have ended: only the file is in force\n" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if code, stdout, stderr := runCLI(t, "", "--socket", changed.socket, "--json", "agent", "reload"); code != commandline.ExitOK ||
		stdout != `{"ok":true,"runtime_changes_ended":true}`+"\n" || stderr != "" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	const warning = `"warnings":[{"code":"tunnel_unroutable","severity":"warning","title":"t","text":"no way","cure":"add a route"}]`
	warned := newFakeAgent(t, map[string]string{"POST /v1/reload": "{" + warning + "}"})
	if code, stdout, stderr := runCLI(t, "", "--socket", warned.socket, "agent", "reload"); code != commandline.ExitOK || stdout != "" ||
		stderr != "waymark: warning: no way; add a route\n" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if code, stdout, stderr := runCLI(t, "", "--socket", warned.socket, "--json", "agent", "reload"); code != commandline.ExitOK ||
		stdout != `{"ok":true,`+warning+"}\n" || stderr != "" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	const faults = `"error":"f:3:1: a; b\nf:4:1: c; d","faults":[{"file":"f","line":3,"column":1,"problem":"a","cure":"b"},` +
		`{"file":"f","line":4,"column":1,"problem":"c","cure":"d"}]`
	bad := newFakeAgent(t, map[string]string{"POST /v1/reload": "{" + faults + "}"})
	if code, stdout, stderr := runCLI(t, "", "--socket", bad.socket, "--json", "agent", "reload"); code != commandline.ExitFailure ||
		stdout != `{"kind":"error","ok":false,`+faults+"}\n" || stderr != "" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if code, stdout, stderr := runCLI(t, "", "--socket", bad.socket, "agent", "reload"); code != commandline.ExitFailure || stdout != "" ||
		stderr != "f:3:1: a; b\nf:4:1: c; d\n" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if code, stdout, stderr := runCLI(t, "", "--socket", bad.socket+".none", "--json", "agent", "reload"); code != commandline.ExitFailure ||
		stderr != "" || !strings.HasPrefix(stdout, `{"kind":"error","ok":false,"error":"no agent answers at `) {
		t.Errorf("without an agent: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestDoctor(t *testing.T) {
	k := health.Kernel{Release: "6.12", Capability: 1<<63 - 1, BTF: true, JIT: health.Support{Yes: true},
		Classifier: health.Support{Yes: true},
		XDP:        health.Support{Yes: true}, TCX: health.Support{Yes: true}, RingBuffer: health.Support{Yes: true},
		TAI: health.Support{Yes: true}, Segments: health.Support{Yes: true}}
	absent := api.NewClient(filepath.Join(t.TempDir(), "none"))
	nothing := &options{}
	healthy := diagnose(t.Context(), k, health.ReadClock, absent, nothing)
	var printed strings.Builder
	if err := writeDiagnosis(&printed, healthy, false); err != nil ||
		!strings.Contains(printed.String(), "absent   start one with 'waymark agent run --config FILE'\n") {
		t.Errorf("%v, %s", err, printed.String())
	}
	if healthy.Agent != "absent" || health.Worst(healthy.Warnings) == health.Error {
		t.Errorf("a healthy machine: %+v", healthy)
	}
	k.RingBuffer = health.Support{}
	f := newFakeAgent(t, map[string]string{"GET /v1/warnings": `[{"code":"tcx_missing","severity":"info","title":"x","text":"y","cure":"z"}]`})
	sick := diagnose(t.Context(), k, health.ReadClock, api.NewClient(f.socket), nothing)
	if sick.Agent != "running" || sick.Warnings[0].Code != health.RingBufferMissing ||
		sick.Warnings[len(sick.Warnings)-1].Code != health.TCXMissing {
		t.Errorf("a sick machine: %+v", sick)
	}
	var b strings.Builder
	if err := writeDiagnosis(&b, sick, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ring buffer   error", "agent         running", "cure: use Linux 5.8 or later",
		"info: tcx_missing: x\n  y\n  cure: z\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
}

// TestDoctorExitCode runs the command itself: an error that the agent reports
// makes it fail, without an agent only this machine counts.
func TestDoctorExitCode(t *testing.T) {
	f := newFakeAgent(t, map[string]string{"GET /v1/warnings": `[{"code":"kernel_ioam6_enabled","severity":"error","title":"x",` +
		`"interface":"eth0","text":"y","cure":"z"}]`})
	code, stdout, stderr := runCLI(t, "", "--socket", f.socket, "doctor")
	if code != commandline.ExitFailure || stderr != "" || !strings.Contains(stdout, "error: kernel_ioam6_enabled (eth0): x\n") {
		t.Errorf("code %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
	code, stdout, _ = runCLI(t, "", "--socket", f.socket, "--json", "doctor")
	var d diagnosis
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || code != commandline.ExitFailure || d.OK || d.Agent != "running" ||
		len(d.Checks) < 10 {
		t.Errorf("code %d, %v, %s", code, err, stdout)
	}
	code, stdout, stderr = runCLI(t, "", "--socket", f.socket+".none", "doctor")
	if code != commandline.ExitFailure || stderr != "" || !strings.Contains(stdout, "error: agent_unasked: the agent could not be asked\n") ||
		!strings.Contains(stdout, "no agent answers at "+f.socket+".none") {
		t.Errorf("no agent at --socket: code %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
}
