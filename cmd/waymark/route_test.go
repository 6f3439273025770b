// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/health"
)

// Whoever takes iproute2's default on a router is told what it does there.
func TestRouteInlineOnRouter(t *testing.T) {
	const rule = "2001:db8:2::/64 dport 9 encap ioam6 %MODE%trace prealloc type 0x800000 ns 123 size 12 dev eth1"
	warnings, err := json.Marshal([]health.Warning{
		health.InlineOnRouter("port9", "eth1"), health.InlineOnRouter("mine", "eth1"), health.InlineOnRouter("route-2001-db8-2--_64-eth1-dport-9", "eth1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	router := newFakeAgent(t, map[string]string{"GET /v1/warnings": string(warnings), "GET /v1/encapsulations": rules})
	host := newFakeAgent(t, map[string]string{"GET /v1/warnings": "[]", "GET /v1/encapsulations": rules})
	refusing := newFakeAgent(t, map[string]string{"GET /v1/warnings": string(warnings), "POST /v1/encapsulations": `{"error":"no"}`})
	for _, tt := range []struct {
		agent *fakeAgent
		args  string
		named string // in the warning; "" is none
	}{
		{router, "add " + rule, "route-2001-db8-2--_64-eth1-dport-9"},
		{router, "add " + rule + " name mine", "mine"},
		{router, "replace " + rule, "port9"},
		{router, "replace " + rule + " name mine", "mine"},
		{router, "add " + rule + " name another", ""},
		{router, "add " + strings.Replace(rule, "%MODE%", "mode auto tundst 2001:db8::3 ", 1), ""},
		{router, "del " + rule, ""},
		{host, "add " + rule, ""},
		{refusing, "add " + rule, ""},
	} {
		args := strings.Fields("route " + strings.Replace(tt.args, "%MODE%", "", 1))
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", tt.agent.socket}, args...)...)
		want := ""
		if tt.named != "" {
			w := health.InlineOnRouter(tt.named, "eth1")
			want = "waymark: warning: " + w.Text + "; " + w.Cure + "\n"
		}
		if tt.agent == refusing {
			if code != commandline.ExitFailure || stderr != "waymark: no\n" {
				t.Errorf("refused: code %d, stderr %q", code, stderr)
			}
		} else if code != commandline.ExitOK || stdout != "" || stderr != want {
			t.Errorf("%s: code %d, stdout %q, stderr\n%s\nwant\n%s", tt.args, code, stdout, stderr, want)
		}
	}
}

// Whoever inserts Direct Exports where no collector is known is told what that
// does.
func TestRouteWithoutCollectors(t *testing.T) {
	w := health.CollectorUnspared("udp://a:4739", "nobody knows it")
	unknown, err := json.Marshal([]health.Warning{health.InlineOnRouter("other", "eth1"), w})
	if err != nil {
		t.Fatal(err)
	}
	said := "waymark: warning: " + w.Text + "; " + w.Cure + "\n"
	for _, tt := range []struct{ warnings, option, want string }{
		{string(unknown), "dex ns 123 trace-type 0x800000", said},
		{string(unknown), "trace prealloc type 0x800000 ns 123 size 12", ""},
		{"[]", "dex ns 123 trace-type 0x800000", ""},
	} {
		f := newFakeAgent(t, map[string]string{"GET /v1/warnings": tt.warnings, "GET /v1/encapsulations": rules})
		for _, verb := range []string{"add", "replace"} {
			args := "route " + verb + " 2001:db8:5::/64 encap ioam6 mode encap tundst 2001:db8::3 " + tt.option + " dev eth1"
			code, stdout, stderr := runCLI(t, "", append([]string{"--socket", f.socket}, strings.Fields(args)...)...)
			if code != commandline.ExitOK || stdout != "" || stderr != tt.want {
				t.Errorf("%s: code %d, stdout %q, stderr\n%s\nwant\n%s", args, code, stdout, stderr, tt.want)
			}
		}
	}
}

// A line for 'ip -6 route' pastes: what only the kernel's route has is taken, and
// said to be the kernel's.
func TestRoutePastes(t *testing.T) {
	const encap = " encap ioam6 freq 1/100 mode encap tundst 2001:db8::3 trace prealloc type 0x800000 ns 123 size 12 "
	for _, tt := range []struct{ args, said string }{
		{"add 2001:db8:9::/64" + encap + "via fe80::1 dev eth1 metric 1024", "via fe80::1, metric 1024"},
		{"add 2001:db8:9::/64 via inet6 2001:db8::1 dev eth1 proto static metric 0x10 pref medium" + encap, "via 2001:db8::1, proto static, metric 16, pref medium"},
		{"replace 2001:db8:9::/64" + encap + "via fe80::1 oif eth1 onlink table main", "via fe80::1, onlink, table main"},
		{"del 2001:db8:2::/64 via fe80::1 dev eth2", "via fe80::1"},
	} {
		f := newFakeAgent(t, map[string]string{"GET /v1/warnings": "[]", "GET /v1/encapsulations": rules})
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", f.socket, "route"}, strings.Fields(tt.args)...)...)
		said, rest, _ := strings.Cut(strings.TrimPrefix(stderr, "waymark: hint: "), ": the kernel's routes stay as they are")
		if code != commandline.ExitOK || stdout != "" || said != tt.said || !strings.Contains(rest, "leaves by eth") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: code %d, stdout %q, stderr %q, want %q", tt.args, code, stdout, stderr, tt.said)
		}
	}
}
