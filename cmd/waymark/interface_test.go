// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
)

const (
	servedInterfaces = `[{"name":"eth0","boundary":"strip"},{"name":"eth1","id":102,"role":["ingress","egress"]}]`
	endingTunnels    = `[{"tunnel_destination":"2001:db8:ff::3"},{"tunnel_destination":"2001:db8:ff::4"}]`
)

func TestInterfaceAndDecapsulation(t *testing.T) {
	f := newFakeAgent(t, map[string]string{"GET /v1/interfaces": servedInterfaces, "GET /v1/decapsulations": endingTunnels,
		"DELETE /v1/decapsulations/2001:db8:ff::3": `{"warnings":[{"severity":"warning","text":"it no longer ends here","cure":"add it again"}]}`})
	refusing := newFakeAgent(
		t,
		map[string]string{"PATCH /v1/interfaces/eth0": `{"error":"no"}`, "DELETE /v1/decapsulations/2001:db8::9": `{"error":"no"}`},
	)
	for _, tt := range []struct {
		agent               *fakeAgent
		args                string
		code                int
		asked, stdout, says string // says: on standard error
	}{
		{f, "interface", commandline.ExitOK, "", "eth0 role none boundary strip\neth1 role ingress,egress boundary drop\n", ""},
		{f, "interface show eth1", commandline.ExitOK, "", "eth1 role ingress,egress boundary drop\n", ""},
		{f, "interface show dev eth0", commandline.ExitOK, "", "eth0 role none boundary strip\n", ""},
		{f, "--json interface show eth0", commandline.ExitOK, "", `[{"name":"eth0","role":[],"boundary":"strip","attach":"auto","place":"first","forwarding":"stack"}]` + "\n", ""},
		{f, "interface show eth9", commandline.ExitFailure, "", "", `"eth9" is not an interface that this node serves`},
		{f, "interface set eth0 role none", commandline.ExitOK, `PATCH /v1/interfaces/eth0 {"role":[]}`, "", ""},
		{f, "interface set eth0 role ingress,egress boundary ignore", commandline.ExitOK, `PATCH /v1/interfaces/eth0 {"role":["ingress","egress"],"boundary":"ignore"}`, "", ""},
		{f, "interface set dev eth0 boundary drop", commandline.ExitOK, `PATCH /v1/interfaces/eth0 {"boundary":"drop"}`, "", ""},
		{f, "interface set eth0 boundary drop ns 123 ignore ns 7 strip role egress", commandline.ExitOK,
			`PATCH /v1/interfaces/eth0 {"role":["egress"],"boundary":{"default":"drop","namespaces":{"7":"strip","123":"ignore"}}}`, "", ""},
		{f, "interface set eth0 boundary drop ns 7", commandline.ExitUsage, "", "", "ns 7"},
		{f, "interface set eth0 boundary drop ns 7 open", commandline.ExitUsage, "", "", "ns 7"},
		{f, "interface set eth0 boundary drop ns 70000 strip", commandline.ExitUsage, "", "", "ns 70000"},
		{f, "interface set eth0 boundary drop ns 7 strip ns 0x7 drop", commandline.ExitUsage, "", "", "ns 7: given twice"},
		{f, "interface set eth0 ns 7 strip", commandline.ExitUsage, "", "", "want role"},
		{refusing, "interface set eth0 boundary drop", commandline.ExitFailure, `PATCH /v1/interfaces/eth0 {"boundary":"drop"}`, "", "waymark: no\n"},
		{f, "interface set", commandline.ExitUsage, "", "", "the interface is missing"},
		{f, "interface set eth0", commandline.ExitUsage, "", "", "nothing to set"},
		{f, "interface set eth0 role transit", commandline.ExitUsage, "", "", `role "transit": want none, ingress, egress or ingress,egress`},
		{f, "interface set eth0 boundary open", commandline.ExitUsage, "", "", "boundary"},
		{f, "interface set eth0 role none role none", commandline.ExitUsage, "", "", "role: given twice"},
		{f, "interface set eth0 id 5", commandline.ExitUsage, "", "", `"id": want role ROLES or boundary POLICY [ns ID POLICY]...; the rest of an interface is set in the configuration file`},
		{f, "interface grow", commandline.ExitUsage, "", "", "use one of set, show"},
		{f, "decapsulation", commandline.ExitOK, "", "2001:db8:ff::3\n2001:db8:ff::4\n", ""},
		{f, "--json decap show", commandline.ExitOK, "", endingTunnels + "\n", ""},
		{f, "decapsulation add 2001:db8:ff::5", commandline.ExitOK, `POST /v1/decapsulations {"tunnel_destination":"2001:db8:ff::5"}`, "", ""},
		{f, "decapsulation del 2001:db8:ff::3", commandline.ExitOK, "DELETE /v1/decapsulations/2001:db8:ff::3", "", "waymark: warning: it no longer ends here; add it again\n"},
		{refusing, "decapsulation del 2001:db8::9", commandline.ExitFailure, "DELETE /v1/decapsulations/2001:db8::9", "", "waymark: no\n"},
		{f, "decapsulation add", commandline.ExitUsage, "", "", "decapsulation add ADDR: a value is missing"},
		{f, "decapsulation add here", commandline.ExitUsage, "", "", `"here": want the tunnel's destination`},
		{f, "decapsulation add 2001:db8:ff::5 source 2001:db8:ff::/64 source 2001:db8::1 nobare", commandline.ExitOK,
			`POST /v1/decapsulations {"tunnel_destination":"2001:db8:ff::5","sources":["2001:db8:ff::/64","2001:db8::1/128"],"bare":false}`, "", ""},
		{f, "decapsulation add 2001:db8:ff::5 bare", commandline.ExitOK, `{"tunnel_destination":"2001:db8:ff::5","bare":true}`, "", ""},
		{f, "decapsulation add 2001:db8:ff::5 bare nobare", commandline.ExitUsage, "", "", "bare or nobare: given twice"},
		{f, "decapsulation add 2001:db8:ff::5 source", commandline.ExitUsage, "", "", "source: a value is missing"},
		{f, "decapsulation add 2001:db8:ff::5 source here", commandline.ExitUsage, "", "", `source "here": want an IPv6 prefix or address`},
		{f, "decapsulation add 2001:db8:ff::5 now", commandline.ExitUsage, "", "", `"now": want source PREFIX, bare or nobare`},
		{f, "decapsulation del 2001:db8:ff::5 now", commandline.ExitUsage, "", "", `"now": nothing more is expected here`},
		{f, "decapsulation show all", commandline.ExitUsage, "", "", `"all": nothing more is expected here`},
	} {
		tt.agent.asked = nil
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", tt.agent.socket}, strings.Fields(tt.args)...)...)
		asked := strings.Join(tt.agent.asked, "; ")
		if code != tt.code || stdout != tt.stdout || !strings.Contains(stderr, tt.says) || tt.says == "" && stderr != "" ||
			!strings.Contains(asked, tt.asked) ||
			tt.asked == "" && strings.Contains(asked, "{") {
			t.Errorf("%s: code %d, stdout %q, stderr %q, asked %s", tt.args, code, stdout, stderr, asked)
		}
	}
}

// The agent's warnings after a change are printed.
func TestChangesAreAdvisedOn(t *testing.T) {
	const advice = `{"warnings":[{"severity":"warning","text":"nothing ends","cure":"add a role"},` +
		`{"severity":"hint","text":"so","cure":"do"}]}`
	f := newFakeAgent(
		t,
		map[string]string{
			"PATCH /v1/interfaces/eth0": advice,
			"POST /v1/decapsulations":   advice,
			"POST /v1/encapsulations":   advice,
			"PUT /v1/encapsulations":    advice,
		},
	)
	const rule = " 2001:db8:2::/64 encap ioam6 trace prealloc type 0x800000 ns 123 size 12 dev eth1"
	for _, args := range []string{"interface set eth0 role none", "decapsulation add 2001:db8::1", "route add" + rule, "route replace" +
		rule} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", f.socket}, strings.Fields(args)...)...)
		if code != commandline.ExitOK || stdout != "" || stderr != "waymark: warning: nothing ends; add a role\nwaymark: hint: so; do\n" {
			t.Errorf("%s: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestCompletionOfInterfacesAndDecapsulations(t *testing.T) {
	f := newFakeAgent(t, map[string]string{"GET /v1/interfaces": servedInterfaces, "GET /v1/decapsulations": endingTunnels})
	for args, want := range map[string]string{
		"interface ":                                   "show\nset\n",
		"interface set ":                               "eth0\neth1\n",
		"interface set eth1 ":                          "role\nboundary\n",
		"interface set eth1 role ":                     "none\ningress\negress\ningress,egress\n",
		"interface set eth1 role none ":                "role\nboundary\n",
		"interface set eth1 boundary i":                "ignore\n",
		"interface set eth1 boundary drop ":            "ns\nrole\n",
		"interface set eth1 boundary drop ns 7 ":       "drop\nstrip\nignore\n",
		"interface set eth1 boundary drop ns 7 strip ": "ns\nrole\n",
		"interface show eth1 ":                         "",
		"decapsulation ":                               "show\nadd\ndel\n",
		"decapsulation del 2001:db8:ff::4":             "2001:db8:ff::4\n",
		"decapsulation add ":                           "",
		"decapsulation del 2001:db8:ff::4 2":           "",
	} {
		_, stdout, _ := runCLI(t, "", append([]string{"__complete", "--socket", f.socket}, strings.Split(args, " ")...)...)
		if stdout != want+":4\n" {
			t.Errorf("%q: %q, want %q", args, stdout, want)
		}
	}
}

// The other commands in iproute2's words offer these, and no files.
func TestCompletionOfRoutesAndIOAM(t *testing.T) {
	for args, want := range map[string]string{
		"route ":              "show\nadd\nappend\nchange\nreplace\ndel\n",
		"route a":             "add\nappend\n",
		"route add ":          "",
		"ioam namespace ":     "show\nadd\ndel\nset\n",
		"ioam namespace add ": "",
		"ioam schema ":        "show\nadd\ndel\n",
	} {
		_, stdout, _ := runCLI(t, "", append([]string{"__complete"}, strings.Split(args, " ")...)...)
		if stdout != want+":4\n" {
			t.Errorf("%q: %q, want %q", args, stdout, want)
		}
	}
}

// The status shows the rules of tunnels that end here, as decapsulation does.
func TestStatusShowsWhatTunnelEndsTake(t *testing.T) {
	f := newFakeAgent(t, map[string]string{
		"GET /v1/status":         `{"decapsulations":["2001:db8:ff::3","2001:db8:ff::4"]}`,
		"GET /v1/decapsulations": `[{"tunnel_destination":"2001:db8:ff::3","sources":["2001:db8:ff::7/128"],"bare":false}]`,
	})
	_, stdout, stderr := runCLI(t, "", "--socket", f.socket, "status", "--verbose")
	if want := "tunnel ends at 2001:db8:ff::3 source 2001:db8:ff::7/128 nobare\ntunnel ends at 2001:db8:ff::4\n"; !strings.Contains(
		stdout,
		want,
	) {
		t.Errorf("%s%s, want %s", stdout, stderr, want)
	}
}
