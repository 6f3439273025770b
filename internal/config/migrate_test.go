// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// A file of 0.1.0 gets today's keys; comments, quotes, line ends and all else stay.
func TestMigrate(t *testing.T) {
	const block = `# trace: this comment stays
node: {id: 1}   # and so does trace: in this one

# who may ask
trace:
  allow: ["2001:db8::/32"] # trace
interfaces: [{name: eth0, role: [egress]}]
namespaces: [{id: 1}]
encapsulations:
  - name: trace
    interface: eth0
    mode: inline
    options:
      - trace: {namespace: 1, type: 0xf00000, size: 64}
`
	tests := map[string]struct{ before, key, after string }{
		"block":              {block, "\ntrace:", "\npath-trace:"},
		"spaces":             {"node: {id: 1}\ntrace   : {allow: [any]}", "trace   :", "path-trace   :"},
		"flow":               {`{trace: {allow: [any]}, node: {id: 1}} # trace:`, "{trace", "{path-trace"},
		"flow, after others": {`{node: {id: 1, name: "é trace:"}, trace: {allow: [any]}}`, ", trace", ", path-trace"},
		"JSON":               {`{"node":{"id":1},"trace":{"allow":["any"]}}`, `"trace"`, `"path-trace"`},
		"single quotes":      {"'trace': {allow: [any]}", "'trace'", "'path-trace'"},
		"byte order mark":    {"\ufefftrace: {allow: [any]}\n", "trace", "path-trace"},
		"document":           {"---\n\"trace\":\n    allow:\n      - any\n...\n", `"trace"`, `"path-trace"`},
	}
	for name, tt := range tests {
		for _, end := range []string{"\n", "\r\n"} {
			before := strings.ReplaceAll(tt.before, "\n", end)
			want := strings.ReplaceAll(strings.Replace(tt.before, tt.key, tt.after, 1), "\n", end)
			then, err := Parse("F", []byte(before))
			if err != nil || len(then.Renamed()) != 1 {
				t.Fatalf("%s: %v", name, err)
			}
			text, done, err := Migrate("F", []byte(before))
			if err != nil || string(text) != want || len(done) != 1 || done[0].Path != "trace" {
				t.Errorf("%s: %q, %v, %v\nwant %q", name, text, done, err, want)
				continue
			}
			now, err := Parse("F", text)
			if err != nil || len(now.Renamed()) != 0 || !bytes.Equal(now.Marshal(), then.Marshal()) {
				t.Errorf("%s: %v, means %s", name, err, now.Marshal())
			}
			again, done, err := Migrate("F", text)
			if err != nil || !bytes.Equal(again, text) || len(done) != 0 {
				t.Errorf("%s, again: %q, %v, %v", name, again, done, err)
			}
		}
	}
}

// A file with errors is not rewritten, nor one whose key cannot be replaced as it is written.
func TestMigrateRefuses(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"errors":   {"trace: {allow: [any]}\nnode: {id: x}\n", "F:2:12: "},
		"both":     {"trace: {allow: [any]}\npath-trace: {allow: [any]}\n", "is already in line 1"},
		"escaped":  {`{"tra\u0063e": {allow: [any]}}`, `F:1:2: the key "trace" in the file is now called "path-trace", and cannot be replaced as it is written`},
		"not YAML": {"trace: [", "this is not YAML"},
	}
	for name, tt := range tests {
		text, done, err := Migrate("F", []byte(tt.text))
		var faults Faults
		if text != nil || done != nil || !errors.As(err, &faults) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %q, %v, %v", name, text, done, err)
		}
	}
}
