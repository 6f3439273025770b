// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// faultsOf are the errors of a file, "" without any.
func faultsOf(t *testing.T, text string, elsewhere bool) (errs, unread string) {
	t.Helper()
	_, warnings, err := Check("node.yaml", []byte(text), elsewhere)
	if err != nil {
		errs = err.Error()
	}
	return errs, warnings.Error()
}

// Every address at which a socket listens, or to or from which it sends, is refused where it
// could not work: without a zone, with one that it may not have, or as no node's.
func TestAddressesOfOneLink(t *testing.T) {
	const (
		base  = "node: {id: 1}\ninterfaces: [{name: eth0, id: 1, role: [ingress, egress]}]\nnamespaces: [{id: 123}]\n"
		trace = "options: [{trace: {namespace: 123, type: 0x800000, size: 12}}]"
		flow  = "measurement: {clock-error: 1ms%s}\nflows: [{name: a, direction: out, source: \"2001:db8::1\", segments: [\"fc00::1\"]%s}]\n"
	)
	const zone, link = "name its interface, as in fe80::1%eth0", "valid beyond the link"
	for _, tt := range []struct{ name, text, wants string }{
		{"export", `export: [{kind: ipfix, address: "udp://[fe80::1]:4739"}]`, zone},
		{"export, with %25", `export: [{kind: ipfix, address: "udp://[fe80::1%25eth0]:4739"}]`, "write fe80::1%eth0"},
		{"export, source", `export: [{kind: ipfix, address: "udp://[2001:db8::1]:4739", source: "fe80::1"}]`, zone},
		{"export, with a zone of a global address", `export: [{kind: ipfix, address: "udp://[2001:db8::1%eth0]:4739"}]`, "write 2001:db8::1"},
		{"export, multicast of a link", `export: [{kind: ipfix, address: "udp://[ff02::1]:4739"}]`, "as in ff02::1%eth0"},
		{"export, multicast over TCP", `export: [{kind: ipfix, address: "tcp://[ff05::1]:4739"}]`, "not the address of a host"},
		{"export, source is multicast", `export: [{kind: ipfix, address: "udp://[2001:db8::1]:4739", source: "ff05::1"}]`, "not the address of a node"},
		{"collectors", `collectors: ["udp://[fe80::1]:4739"]`, zone},
		{"stamp", `stamp: {listen: "[fe80::1]:862", allow: ["::/0"]}`, link},
		{"stamp, without a port", `stamp: {listen: "fe80::1", allow: ["::/0"]}`, link},
		{"stamp, multicast", `stamp: {listen: "[ff05::1]:862", allow: ["::/0"]}`, "multicast"},
		{"metrics", `metrics: {listen: "[fe80::1]:9598"}`, zone},
		{"path-trace", `path-trace: {listen: "[fe80::1]:33434", allow: ["::/0"]}`, link},
		{"responders", `responders: [{protocol: rfc6374-loss, listen: "[fe80::1]:6374", allow: ["::/0"]}]`, link},
		{"points", fmt.Sprintf(flow, "", `, points: ["fe80::3"]`), link},
		{"points, with a port", fmt.Sprintf(flow, "", `, points: ["x=[fe80::3]:862"]`), link},
		{"points, multicast", fmt.Sprintf(flow, "", `, points: ["ff05::3"]`), "not the address of a node"},
		{"probe-source", fmt.Sprintf(flow, `, probe-source: "fe80::3"`, ""), link},
		{"probe-source, unspecified", fmt.Sprintf(flow, `, probe-source: "::"`, ""), "not the address of a node"},
		{"return-segments", fmt.Sprintf(flow, "", `, return-segments: ["fe80::3"], probes: in-band, points: ["2001:db8::9"]`), "use IPv6 addresses that routers forward to"},
		{"tunnel.destination", "encapsulations: [{name: a, interface: eth0, mode: encap, tunnel: {destination: \"fe80::1\"}, " + trace + "}]", link},
		{"tunnel.source", "encapsulations: [{name: a, interface: eth0, mode: encap, tunnel: {source: \"fe80::1\", destination: \"2001:db8::1\"}, " + trace + "}]", link},
		{"decapsulations", `decapsulations: [{tunnel-destination: "fe80::1"}]`, link},
		{"tunnel-destinations", `tunnel-destinations: ["fe80::1"]`, link},

		// What works stays possible.
		{"export, with a zone", `export: [{kind: ipfix, address: "udp://[fe80::1%eth0]:4739", source: "fe80::2%eth0"}]`, ""},
		{"export, with the number of an interface", `export: [{kind: ipfix, address: "udp://[fe80::1%25]:4739"}]`, ""},
		{"export, multicast", `export: [{kind: ipfix, address: "udp://[ff05::1]:4739"}]`, ""},
		{"metrics, with a zone", `metrics: {listen: "[fe80::1%eth0]:9598"}`, ""},
		{"metrics, IPv4", `metrics: {listen: "127.0.0.1:9598"}`, ""},
		{"stamp, any", `stamp: {listen: "[::]:862", allow: ["::/0"]}`, ""},
	} {
		got, _ := faultsOf(t, base+tt.text+"\n", false)
		if (got == "") != (tt.wants == "") || !strings.Contains(got, tt.wants) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.wants)
		}
	}
}

// A file of records is checked as an agent would open it, but is not created.
func TestRecordFileIsChecked(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, wants, elsewhere string }{
		{"-", "", ""},
		{file, "", ""},
		{filepath.Join(dir, "new"), "", ""},
		{dir, "is a directory; name a file in it", "is a directory"},
		{filepath.Join(dir, "none", "new"), "or create it: mkdir -p " + filepath.Join(dir, "none"), ""},
		{filepath.Join(file, "new"), "not a directory", "not a directory"},
	} {
		for elsewhere, wants := range map[bool]string{false: tt.wants, true: tt.elsewhere} {
			got, unread := faultsOf(t, fmt.Sprintf("node: {id: 1}\nexport: [{kind: jsonl, path: %q}]\n", tt.path), elsewhere)
			if (got == "") != (wants == "") || !strings.Contains(got, wants) {
				t.Errorf("%s, elsewhere %v: %q, want %q", tt.path, elsewhere, got, wants)
			}
			if elsewhere && wants == "" && (unread == "") != (tt.wants == "") {
				t.Errorf("%s, elsewhere: warning %q", tt.path, unread)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the check has created a file: %v", err)
	}
}

// An unquoted address that ends with a colon gets the cure that helps.
func TestAddressWithColonAtEnd(t *testing.T) {
	for text, wants := range map[string]string{
		"decapsulations:\n  - tunnel-destination: 2001:db8:ff::\n":               `put the address in quotes: "2001:db8:ff::"`,
		"decapsulations:\n  - tunnel-destination: 2001:db8:ff:: # the exit\n":    `put the address in quotes: "2001:db8:ff::"`,
		"tunnel-destinations:\n  - 2001:db8:ff::\n":                              "in quotes",
		"decapsulations:\n  - tunnel-destination: \"2001:db8:ff::\"\n":           "",
		"decapsulations:\n  - tunnel-destination: \"2001:db8:ff::\"\n   x: y:\n": "correct the text here",
	} {
		if got, _ := faultsOf(t, text, false); (got == "") != (wants == "") || !strings.Contains(got, wants) {
			t.Errorf("%q: %q, want %q", text, got, wants)
		}
	}
}
