// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/commandlinetest"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
)

// A command that fails prints one object with --json, and text without it: every
// command, for every error.
func TestErrorsInJSON(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // the programs of other packages are not installed
	dir := shortDir(t)
	none, bad := filepath.Join(dir, "none"), filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte(wrongConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	program.ErrorsInJSON(t, bad, []commandlinetest.Failing{
		{Command: "agent run", Args: "--config " + none, Code: commandline.ExitFailure},
		{Command: "agent run", Args: "--config " + bad, Code: commandline.ExitFailure, Faults: 2},
		{Command: "agent run", Args: "", Code: commandline.ExitUsage},
		{Command: "agent reload", Args: "--socket " + none, Code: commandline.ExitFailure},
		{Command: "agent stop", Args: "--socket " + none, Code: commandline.ExitFailure},
		{Command: "agent config", Args: "--socket " + none, Code: commandline.ExitFailure},
		{Command: "status", Args: "--socket " + none, Code: commandline.ExitFailure},
		{Command: "status", Args: "now", Code: commandline.ExitUsage},
		{Command: "ioam monitor", Args: "--socket " + none, Code: commandline.ExitFailure},
		{Command: "observe", Args: "--socket " + none, Code: commandline.ExitFailure},
		{Command: "observe", Args: "--count abc", Code: commandline.ExitUsage},
		{Command: "ioam namespace", Args: "show --socket " + none, Code: commandline.ExitFailure},
		{Command: "ioam namespace", Args: "add 1 --socket " + none, Code: commandline.ExitFailure},
		{Command: "ioam schema", Args: "del 1 --socket " + none, Code: commandline.ExitFailure},
		{Command: "route", Args: "show --socket " + none, Code: commandline.ExitFailure},
		{Command: "interface", Args: "show --socket " + none, Code: commandline.ExitFailure},
		{Command: "interface", Args: "set eth0 id 5", Code: commandline.ExitUsage},
		{Command: "decapsulation", Args: "add 2001:db8::1 --socket " + none, Code: commandline.ExitFailure},
		{Command: "queue", Args: "--socket " + none, Code: commandline.ExitFailure},
		{Command: "queue", Args: "--interval 1ms", Code: commandline.ExitUsage},
		{Command: "top", Args: "--socket " + none, Code: commandline.ExitFailure},
		{Command: "events", Args: "--socket " + none, Code: commandline.ExitFailure},
		{Command: "events", Args: "--event nothing", Code: commandline.ExitUsage},
		{Command: "loss", Args: "--flow red --socket " + none, Code: commandline.ExitFailure},
		{Command: "path history", Args: "--collector http://[::1]:1", Code: commandline.ExitFailure},
		{Command: "change history", Args: "--collector ftp://x", Code: commandline.ExitUsage},
		{Command: "segment history", Args: "--since yesterday", Code: commandline.ExitUsage},
		{Command: "events history", Args: "--limit 0", Code: commandline.ExitUsage},
		{Command: "grid history", Args: "--limit 0", Code: commandline.ExitUsage},
		{Command: "packet history", Args: "--collector http://[::1]:1", Code: commandline.ExitFailure},
		{Command: "loss history", Args: "--limit 0", Code: commandline.ExitUsage},
		{Command: "delay history", Args: "--limit 0", Code: commandline.ExitUsage},
		{Command: "flow history", Args: "--collector http://[::1]:1", Code: commandline.ExitFailure},
		{Command: "flow", Args: "add red out src ::1", Code: commandline.ExitUsage},
		{Command: "route", Args: "add nonsense", Code: commandline.ExitUsage},
		{Command: "stamp reflector", Args: "--listen nowhere", Code: commandline.ExitUsage},
		{Command: "stamp sender", Args: "::1 --key-file " + none, Code: commandline.ExitFailure},
		{Command: "pot generate", Args: "--nodes 3 --dir " + bad, Code: commandline.ExitFailure},
		{Command: "probes", Args: "--socket " + none, Code: commandline.ExitFailure},
		{Command: "trace", Args: "2001:db8::1 --socket " + none, Code: commandline.ExitFailure},
		{Command: "trace", Args: "2001:db8::1 --type 0x000001", Code: commandline.ExitUsage},
		{Command: "doctor", Args: "--nonsense", Code: commandline.ExitUsage},
		{Command: "config check", Args: none, Code: commandline.ExitFailure},
		{Command: "config check", Args: bad, Code: commandline.ExitFailure, Faults: 2},
		{Command: "config show", Args: bad, Code: commandline.ExitFailure, Faults: 2},
		{Command: "config migrate", Args: bad, Code: commandline.ExitFailure, Faults: 2},
		{Command: "decode", Args: none, Code: commandline.ExitFailure, Speaks: true},
		{Command: "completion", Args: "bash", Code: commandline.ExitUsage, Speaks: true},
		{Command: "completion", Args: "ksh", Code: commandline.ExitUsage, Speaks: true},
		{Command: "man", Args: bad + "/x", Code: commandline.ExitFailure},
		{Command: "docs", Args: bad + "/x", Code: commandline.ExitFailure},
		{Command: "version", Args: "x", Code: commandline.ExitUsage},
		{Command: "help", Args: "nosuch", Code: commandline.ExitUsage},
		{Command: "", Args: "nosuch --json", Code: commandline.ExitUsage},
		{Command: "", Args: "--nosuch --json", Code: commandline.ExitUsage}, // --json was not read when this was found
		{Command: "collect", Code: commandline.ExitFailure},
		{Command: "lab", Args: "list", Code: commandline.ExitFailure},
	})
}

// What only changes something prints an object as well.
func TestDoneInJSON(t *testing.T) {
	f := newFakeAgent(t, map[string]string{"GET /v1/encapsulations": rules})
	for _, args := range []string{
		"ioam namespace add 124", "ioam namespace del 124", "ioam namespace set 124 schema 7", "ioam namespace set 124 export every",
		"ioam schema add 7 x", "ioam schema del 7", "interface set eth0 role none", "decapsulation add 2001:db8::1", "route del 2001:db8:2::/64 dport 9 dev eth1",
		"route add 2001:db8:9::/64 encap ioam6 trace prealloc type 0x800000 ns 123 size 12 dev eth1",
		"route replace 2001:db8:9::/64 encap ioam6 trace prealloc type 0x800000 ns 123 size 12 dev eth1",
		"agent reload", "man " + t.TempDir(), "docs " + t.TempDir(),
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--json", "--socket", f.socket}, strings.Fields(args)...)...)
		if code != commandline.ExitOK || stdout != `{"ok":true}`+"\n" || stderr != "" {
			t.Errorf("%s: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestHelpInJSON(t *testing.T) { program.HelpInJSON(t) }

// Every flag of every command describes its value in plain words.
func TestWrongValuesOfFlags(t *testing.T) {
	program.WrongValues(t, "bool", "int", "duration", "string", "stringArray")
	code, _, stderr := runCLI(t, "", "status", "--socket")
	if want := "waymark: --socket needs a value: --socket PATH; see '"; code != commandline.ExitUsage || !strings.HasPrefix(stderr, want) {
		t.Errorf("code %d, %q, want %q", code, stderr, want)
	}
}

var jsonSpelling = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)

// jsonKeys calls see for every key of a decoded document.
func jsonKeys(v any, see func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			see(key)
			jsonKeys(inner, see)
		}
	case []any:
		for _, inner := range v {
			jsonKeys(inner, see)
		}
	}
}

// Keys that commands print in JSON contain no hyphens, only underscores.
func TestKeysOfEveryCommand(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	var status api.Status
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		status.Namespaces = append(status.Namespaces, c.Namespaces...)
		status.Encapsulations = append(status.Encapsulations, c.Encapsulations...)
	}
	status.Interfaces = []api.Interface{{Name: "eth0", Ingress: map[string]uint64{"no_ioam": 1}, NativeXDPRefused: "x"}}
	status.Records.KernelEvents = &api.KernelEvents{}
	status.Warnings = []health.Warning{health.EndedAgent([]string{"eth0"})}
	in := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	running, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	f := newFakeAgent(t, map[string]string{
		"GET /v1/status": in(status), "GET /v1/warnings": in(status.Warnings), "GET /v1/namespaces": in(status.Namespaces),
		"GET /v1/encapsulations": in(status.Encapsulations), "GET /v1/schemas": `[{"id":1,"data":"x","namespaces":[1]}]`,
		"GET /v1/config": string(running), "GET /v1/records": traceLine + "\n", "GET /v1/events": eventLineJSON + "\n", "POST /v1/stop": `{"warnings":[]}`,
	})
	seen := map[string]bool{}
	lines := []string{
		"status",
		"agent config",
		"agent reload",
		"agent stop",
		"ioam namespace show",
		"ioam schema show",
		"route show",
		"observe",
		"events",
		"doctor",
		"version",
		"help",
		"decode -",
		"config check -",
	}
	for _, file := range files {
		lines = append(lines, "config show "+file)
	}
	for _, args := range lines {
		_, stdout, stderr := runCLI(t, capture(t), append([]string{"--json", "--socket", f.socket}, strings.Fields(args)...)...)
		documents := json.NewDecoder(strings.NewReader(stdout))
		for n := 0; n == 0 || documents.More(); n++ {
			var v any
			if err := documents.Decode(&v); err != nil {
				t.Fatalf("%s: %v: stdout %q, stderr %q", args, err, stdout, stderr)
			}
			jsonKeys(v, func(key string) {
				seen[key] = true
				if !jsonSpelling.MatchString(key) {
					t.Errorf("%s prints the key %q", args, key)
				}
			})
		}
	}
	for _, key := range []string{"id_wide", "data_wide", "kernel_events", "extension_flags", "trace_type", "no_ioam"} {
		if !seen[key] {
			t.Errorf("no command printed %q", key)
		}
	}
}
