// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const wrongConfig = "node: {id: x}\ninterfaces: [{name: eth0, color: red}]\n"

func TestConfigCheck(t *testing.T) {
	good := write(t, "good.yaml", "node: {id: 5}\ninterfaces: [{name: eth0}]\n")
	code, stdout, stderr := runCLI(t, "", "config", "check", good)
	if code != commandline.ExitOK || stderr != "" ||
		stdout != good+": no errors; 1 interface, 0 namespaces, 0 encapsulations, 0 decapsulations, 0 measured flows\n" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	bad := write(t, "bad.yaml", wrongConfig)
	code, stdout, stderr = runCLI(t, "", "config", "check", bad)
	lines := strings.Split(stderr, "\n")
	if code != commandline.ExitFailure || stdout != "" || len(lines) != 3 || !strings.HasPrefix(lines[0], bad+":1:12: ") ||
		!strings.HasPrefix(lines[1], bad+":2:27: ") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, stderr = runCLI(t, wrongConfig, "config", "check", "-")
	if code != commandline.ExitFailure || stdout != "" || !strings.HasPrefix(stderr, "-:1:12: ") {
		t.Errorf("standard input: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, _, stderr = runCLI(t, "", "config", "check", bad+".none")
	if code != commandline.ExitFailure || !strings.HasPrefix(stderr, "waymark: open ") {
		t.Errorf("no file: code %d, stderr %q", code, stderr)
	}
}

func TestConfigCheckJSON(t *testing.T) {
	code, stdout, stderr := runCLI(t, wrongConfig, "config", "check", "--json", "-")
	if stderr != "" {
		t.Errorf("the errors are in the JSON, and repeated on standard error: %q", stderr)
	}
	var result struct {
		OK     bool
		Faults []struct {
			Line, Column        int
			Path, Problem, Cure string
		}
	}
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatal(err)
	}
	if code != commandline.ExitFailure || result.OK || len(result.Faults) != 2 || result.Faults[1].Line != 2 ||
		result.Faults[1].Path != "interfaces[0].color" ||
		result.Faults[1].Cure == "" {
		t.Errorf("code %d, %+v", code, result)
	}
	if code, stdout, _ := runCLI(t, "node: {}", "config", "check", "--json", "-"); code != commandline.ExitOK ||
		stdout != `{"file":"-","ok":true}`+"\n" {
		t.Errorf("code %d, %s", code, stdout)
	}
}

func TestConfigShow(t *testing.T) {
	code, stdout, stderr := runCLI(t, "node: {id: 0x10}", "config", "show", "-")
	if code != commandline.ExitOK || stderr != "" || !strings.HasPrefix(stdout, "node:\n  mode: full\n  id: 16\n  timestamp-format: posix\n") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, again, _ := runCLI(t, stdout, "config", "show", "-")
	if code != commandline.ExitOK || again != stdout {
		t.Errorf("shown again: code %d, %q", code, again)
	}
	code, stdout, _ = runCLI(t, "node: {id: 0x10}", "--json", "config", "show", "-")
	if code != commandline.ExitOK || !strings.HasPrefix(stdout, `{"node":{"mode":"full","id":16,`) || !json.Valid([]byte(stdout)) {
		t.Errorf("JSON: code %d, %s", code, stdout)
	}
	code, stdout, stderr = runCLI(t, wrongConfig, "config", "show", "-")
	if code != commandline.ExitFailure || stdout != "" || strings.Count(stderr, "\n") != 2 {
		t.Errorf("wrong file: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// A file for TLS that is not here may exist on another machine; a readable one must be valid.
func TestConfigCheckReadsTLSFiles(t *testing.T) {
	empty := write(t, "empty.pem", "")
	text := func(ca string) string {
		return "export:\n  - kind: ipfix\n    address: tls://[2001:db8::9]\n    tls: {ca: " + ca + "}\n"
	}
	code, stdout, stderr := runCLI(t, text(empty+".none"), "config", "check", "-")
	if code != commandline.ExitFailure || stdout != "" ||
		!strings.HasPrefix(stderr, "-:4:15: export[0].tls.ca: open "+empty+".none: no such file or directory; use a file ") {
		t.Errorf("missing here: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, stderr = runCLI(t, text(empty+".none"), "config", "check", "--elsewhere", "-")
	if code != commandline.ExitOK || !strings.HasPrefix(stdout, "-: no errors") ||
		!strings.HasPrefix(stderr, "-:4:15: warning: export[0].tls.ca: open "+empty+".none: no such file or directory; ") {
		t.Errorf("missing: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, _ = runCLI(t, text(empty+".none"), "--json", "config", "check", "-")
	if code != commandline.ExitFailure || !strings.Contains(stdout, `"faults":[{"file":"-","line":4,"column":15,"path":"export[0].tls.ca",`) ||
		strings.Contains(stdout, "warnings") {
		t.Errorf("missing here: code %d, %s", code, stdout)
	}
	code, stdout, _ = runCLI(t, text(empty+".none"), "--json", "config", "check", "--elsewhere", "-")
	if code != commandline.ExitOK ||
		!strings.HasPrefix(stdout, `{"file":"-","ok":true,"warnings":[{"file":"-","line":4,"column":15,"path":"export[0].tls.ca",`) {
		t.Errorf("missing: code %d, %s", code, stdout)
	}
	code, stdout, stderr = runCLI(t, text(empty), "config", "check", "-")
	if code != commandline.ExitFailure || stdout != "" ||
		!strings.HasPrefix(stderr, "-:4:15: export[0].tls.ca: "+empty+" has no certificate; ") {
		t.Errorf("empty: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if code, _, stderr := runCLI(t, text(empty), "config", "show", "-"); code != commandline.ExitOK || stderr != "" {
		t.Errorf("show: code %d, stderr %q", code, stderr)
	}
}

// A key is refused as by an agent that starts, with the cure; one that is for another machine
// need not be here.
func TestConfigCheckReadsKeys(t *testing.T) {
	key := write(t, "stamp.key", strings.Repeat("5a", 32))
	open := write(t, "open.key", strings.Repeat("5a", 32))
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	text := func(file string) string {
		return "node: {id: 1}\nstamp: {allow: [\"2001:db8::/32\"], key-file: " + file + "}\n"
	}
	const at = "-:2:45: "
	absent := "stamp.key-file: read the key: open " + key +
		".none: no such file or directory; write it with: (umask 077; openssl rand -hex 32 > " + key + ".none)\n"
	readable := "stamp.key-file: others can access the key " + open + " (mode 0644); run: chmod 600 " + open +
		", and change the key if they may have read it\n"
	for _, tt := range []struct {
		file, flag string
		code       int
		stderr     string
	}{
		{key, "--elsewhere=false", commandline.ExitOK, ""},
		{key + ".none", "--elsewhere=false", commandline.ExitFailure, at + absent},
		{open, "--elsewhere=false", commandline.ExitFailure, at + readable},
		{key + ".none", "--elsewhere", commandline.ExitOK, at + "warning: " + absent},
		{open, "--elsewhere", commandline.ExitFailure, at + readable},
	} {
		code, _, stderr := runCLI(t, text(tt.file), "config", "check", tt.flag, "-")
		if code != tt.code || stderr != tt.stderr {
			t.Errorf("%s %s: code %d, stderr %q, want %d, %q", tt.file, tt.flag, code, stderr, tt.code, tt.stderr)
		}
	}
}

// Problems that a configuration has on any machine are reported without failing: a
// mistyped namespace is valid, and the end of the tunnel refuses the packets.
func TestConfigCheckForesees(t *testing.T) {
	const text = "interfaces: [{name: eth0, role: [egress]}]\nnamespaces: [{id: 123}]\n" +
		"encapsulations: [{name: a, interface: eth0, tunnel: {destination: 2001:db8::3}, options: [{trace: {namespace: 132, type: 0x800000, " +
		"size: 12}}]}]\n"
	code, stdout, stderr := runCLI(t, text, "config", "check", "-")
	if code != commandline.ExitOK || !strings.HasPrefix(stdout, "-: no errors; ") || strings.Count(stderr, "\n") != 1 ||
		!strings.HasPrefix(
			stderr,
			"-: info: encapsulation a inserts options of namespace 132, ",
		) || !strings.Contains(stderr, "decap_refused_bare") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, stderr = runCLI(t, text, "--json", "config", "check", "-")
	if code != commandline.ExitOK || stderr != "" ||
		!strings.HasPrefix(stdout, `{"file":"-","ok":true,"advice":[{"code":"namespace_unfilled","severity":"info",`) {
		t.Errorf("JSON: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if code, _, stderr := runCLI(t, strings.Replace(text, "132", "123", 1), "config", "check", "-"); code != commandline.ExitOK ||
		stderr != "" {
		t.Errorf("corrected: code %d, stderr %q", code, stderr)
	}
}
