// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) {
	s, err := Read("")
	if err != nil {
		t.Fatal(err)
	}
	const want = `listen: ["udp://[::1]:4739", "tcp://[::1]:4739"]
enterprise: 32473
join:
  wait: 2s
  hold: 1m
  postcards: 1000000
store:
  directory: "/var/lib/waymark"
  age: "30d"
  free: "500MB"
  memory: "1GB"
api:
  address: "http://[::1]:4780"
  time: 10s
  queries: 4
metrics:
  series: 100
`
	if got := string(s.Marshal()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	again, err := Parse("F", s.Marshal())
	if err != nil || string(again.Marshal()) != want {
		t.Errorf("%v", err)
	}
	if c, err := s.Collect(); err != nil || len(c.Listen) != 2 || c.ListenName != "listen" || c.Join.Keep != 1000000 {
		t.Errorf("%+v, %v", c, err)
	}
}

// Each key has a text, and each text a key.
func TestTextsOfKeys(t *testing.T) {
	for _, problem := range format.CheckTexts(&Settings{}, texts()) {
		t.Error(problem)
	}
}

// Without the key, it is unknown how good clocks are.
func TestClockError(t *testing.T) {
	for text, want := range map[string]time.Duration{"{}": -1, "{clock-error: 100us}": 100 * time.Microsecond, "{clock-error: 0s}": 0} {
		s, err := Parse("F", []byte("events: "+text))
		if err != nil || s.Events.OrUnknown() != want {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	if s, err := Parse("F", []byte("store: {age: 30d}")); err != nil || s.Events.OrUnknown() >= 0 {
		t.Error(err)
	}
	for _, wrong := range []string{"-1us", "2s", "1"} {
		if _, err := Parse("F", []byte("events: {clock-error: "+wrong+"}")); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

// An error of a file that is not there says what to do.
func TestAbsentFile(t *testing.T) {
	if _, err := Read("/nonexistent/x"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "name a file of settings") {
		t.Error(err)
	}
}

func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"export: [{kind: otlp}]":                                  "export[0].endpoint: otlp needs an endpoint",
		"export: [{kind: file}]":                                  `export[0].kind: "file" is not a valid value; write one of otlp, jsonl`,
		"export: [{kind: otlp, endpoint: \"http://x\", path: a}]": "export[0].path: otlp does not have this key",
		"export: [{kind: jsonl}, {kind: jsonl}]":                  "export[1].path: another export also writes to",
		"export: [{kind: jsonl, records: [hop]}]":                 `export[0].records[0]: "hop" is not a valid value`,
		"metrics: {series: 0}":                                    "0 is none",
		"listen: [\"udp:/x\"]":                                    `F:1:10: listen[0]: "udp:/x" is no endpoint; write udp://ADDRESS:PORT, tcp://ADDRESS:PORT or tls://ADDRESS:PORT`,
		"listen: [\"udp://::4739\"]":                              `F:1:10: listen[0]: "::4739" may be an address, or the address :: and a port; write udp://[::]:4739, or udp://[::4739] if all of it is the address`,
		"listen: [\"tls://[::]\"]":                                "listen[0]: TLS needs a certificate; add tls: {certificate: FILE, key: FILE}",
		"tls: {certificate: a}":                                   `key "key" is missing in tls; add it, as in "key: VALUE"`,
		"store: {age: 30}":                                        "store.age is the number 30",
		"store: {age: 4000d}":                                     "store.age: 4000d is too long",
		"store: {size: 20G}":                                      `store.size: "20G" is not a size; write a whole number of MB, GB or TB, such as 500MB or 20GB`,
		"store: {directry: /a}":                                   `unknown key "directry" in store; did you mean "directory"?`,
		"api: {address: \"http://[::]:4780\"}":                    "api.address: the address :: can be reached from other machines: it needs TLS and users; write https://[::]:4780 and set api.web, or use http://[::1]:4780",
		"api: {address: \"https://[::1]:4780\"}":                  "api.address: https needs a certificate",
		"api: {address: \"ftp://[::1]:4780\"}":                    "does not begin with http:// or https://",
		"api: {hosts: [\"a:1\"]}":                                 `api.hosts[0]: "a:1" is not the name of a host`,
		"api: {roles: [{role: viewer, users: [a]}]}":              "api.roles: nobody is asked who they are",
		"api: {web: w, roles: [{role: root, users: [a]}]}":        `api.roles[0].role: "root" is no role; write viewer or admin`,
		"api: {web: w, roles: [{role: viewer}]}":                  "api.roles[0]: it has no users and no groups",
		"api: {web: w, roles: [{role: viewer, groups: [a]}]}":     "groups come from api.oidc, which is not there",
		"api: {web: w, roles: [{role: admin, users: [a], prefixes: [\"2001:db8::/32\"]}]}":   "an admin sees everything",
		"api: {web: w, roles: [{role: viewer, users: [a], flows: [gold]}]}":                  "with flows alone, the role would see all packets",
		"api: {web: w, roles: [{role: viewer, users: [a], prefixes: [\"2001:db8::1/32\"]}]}": "2001:db8::1/32 has bits beyond its length",
		"api: {oidc: {issuer: i, client-id: c, client-secret-file: f, url: u}}":              "without roles, everybody with an account at the provider would be let in",
		"enterprise: 0":                 "enterprise: 0 has other elements",
		"join: {wait: 2h}":              "join.wait: 2h is out of range",
		"tls: {certificate: a, key: b}": "tls: no endpoint of listen has TLS",
		"":                              "the file is empty",
	} {
		_, err := Parse("F", []byte(text))
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}
