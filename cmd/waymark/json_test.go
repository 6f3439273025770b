// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
)

// walkCommands calls see for every command that does something, hidden ones and
// help included.
func walkCommands(cmd *cobra.Command, see func(*cobra.Command)) {
	if !cmd.HasSubCommands() {
		see(cmd)
	}
	for _, child := range cmd.Commands() {
		walkCommands(child, see)
	}
}

// A command that fails prints one object with --json, and text without it: every
// command, for every error.
func TestErrorsInJSON(t *testing.T) {
	dir := shortDir(t)
	none, bad := filepath.Join(dir, "none"), filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte(wrongConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []failing{
		{"agent run", "--config " + none, commandline.ExitFailure, 0},
		{"agent run", "--config " + bad, commandline.ExitFailure, 2},
		{"agent run", "", commandline.ExitUsage, 0},
		{"agent reload", "--socket " + none, commandline.ExitFailure, 0},
		{"agent stop", "--socket " + none, commandline.ExitFailure, 0},
		{"agent config", "--socket " + none, commandline.ExitFailure, 0},
		{"status", "--socket " + none, commandline.ExitFailure, 0},
		{"status", "now", commandline.ExitUsage, 0},
		{"ioam monitor", "--socket " + none, commandline.ExitFailure, 0},
		{"observe", "--socket " + none, commandline.ExitFailure, 0},
		{"observe", "--count abc", commandline.ExitUsage, 0},
		{"collect", "--listen udp://127.0.0.1:0 --output " + none + "/x", commandline.ExitFailure, 0},
		{"ioam namespace", "show --socket " + none, commandline.ExitFailure, 0},
		{"ioam namespace", "add 1 --socket " + none, commandline.ExitFailure, 0},
		{"ioam schema", "del 1 --socket " + none, commandline.ExitFailure, 0},
		{"route", "show --socket " + none, commandline.ExitFailure, 0},
		{"interface", "show --socket " + none, commandline.ExitFailure, 0},
		{"interface", "set eth0 id 5", commandline.ExitUsage, 0},
		{"decapsulation", "add 2001:db8::1 --socket " + none, commandline.ExitFailure, 0},
		{"loss", "--flow red --socket " + none, commandline.ExitFailure, 0},
		{"flow", "add red out src ::1", commandline.ExitUsage, 0},
		{"route", "add nonsense", commandline.ExitUsage, 0},
		{"stamp reflector", "--listen nowhere", commandline.ExitUsage, 0},
		{"stamp sender", "::1 --key-file " + none, commandline.ExitFailure, 0},
		{"pot generate", "--nodes 3 --dir " + bad, commandline.ExitFailure, 0},
		{"trace", "2001:db8::1 --socket " + none, commandline.ExitFailure, 0},
		{"trace", "2001:db8::1 --type 0x000001", commandline.ExitUsage, 0},
		{"doctor", "--nonsense", commandline.ExitUsage, 0},
		{"config check", none, commandline.ExitFailure, 0},
		{"config check", bad, commandline.ExitFailure, 2},
		{"config show", bad, commandline.ExitFailure, 2},
		{"decode", none, commandline.ExitFailure, 0},
		{"lab up", none + ".yaml", commandline.ExitFailure, 0},
		{"lab up", bad, commandline.ExitFailure, 1},
		{"lab down", "--name nosuchlab", commandline.ExitFailure, 0},
		{"lab exec", "--name nosuchlab node", commandline.ExitFailure, 0},
		{"lab show", "--name nosuchlab", commandline.ExitFailure, 0},
		{"lab list", "x", commandline.ExitUsage, 0},
		{"lab traffic", "--name nosuchlab", commandline.ExitFailure, 0},
		{"lab loss add", "north1 eth1", commandline.ExitUsage, 0},
		{"lab loss del", "north1 eth1 1 --name nosuchlab", commandline.ExitFailure, 0},
		{"lab loss show", "--name nosuchlab", commandline.ExitFailure, 0},
		{"lab delay", "north1 eth1 10ms --name nosuchlab", commandline.ExitFailure, 0},
		{"lab reorder", "north1 eth1 --every 3 --by 3", commandline.ExitUsage, 0},
		{"lab demo", "x", commandline.ExitUsage, 0},
		{"bench run", "nosuch", commandline.ExitUsage, 0},
		{"bench list", "x", commandline.ExitUsage, 0},
		{"bench report", none, commandline.ExitUsage, 0},
		{"bench instructions", "", commandline.ExitUsage, 0},
		{"bench exporter", "kind 5", commandline.ExitUsage, 0},
		{"completion", "bash", commandline.ExitUsage, 0},
		{"completion", "ksh", commandline.ExitUsage, 0},
		{"man", bad + "/x", commandline.ExitFailure, 0},
		{"docs", bad + "/x", commandline.ExitFailure, 0},
		{"version", "x", commandline.ExitUsage, 0},
		{"help", "nosuch", commandline.ExitUsage, 0},
		{"", "nosuch --json", commandline.ExitUsage, 0},
		{"", "--nosuch --json", commandline.ExitUsage, 0}, // --json was not read when this was found
	} {
		tt.check(t, bad)
	}
}

// failing is a command that fails.
type failing struct {
	command, args string
	code          int
	faults        int
}

// check runs the command with --json and without; bad is the file that has faults.
func (tt failing) check(t *testing.T, bad string) {
	t.Helper()
	args := append(strings.Fields(tt.command), strings.Fields(tt.args)...)
	code, stdout, stderr := runCLI(t, "", append([]string{"--json"}, args...)...)
	var got failure
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != tt.code || got.Kind != "error" || got.OK || got.Error == "" ||
		len(got.Faults) != tt.faults || !strings.HasSuffix(stdout, "}\n") {
		t.Errorf("waymark --json %q: code %d, want %d; %v, %d faults, want %d, stdout %q", args, code, tt.code, err, len(got.Faults), tt.faults, stdout)
	}
	if stderr != "" && tt.command != "decode" { // which continues, and reports each error as it finds it
		t.Errorf("waymark --json %q says it once more: %q", args, stderr)
	}
	args = slices.DeleteFunc(args, func(a string) bool { return a == "--json" })
	code, stdout, stderr = runCLI(t, "", args...)
	said := strings.HasPrefix(stderr, "waymark: ") || tt.faults > 0 && strings.HasPrefix(stderr, bad+":")
	if tt.command != "completion" && tt.command != "bench report" && (code != tt.code || stdout != "" || !said) {
		t.Errorf("waymark %q: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
	}
}

// No command is left out of the table above, which is read from this file.
func TestErrorsOfEveryCommand(t *testing.T) {
	text, err := os.ReadFile("json_test.go")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(newOptions())
	walkCommands(root, func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "waymark ")
		if !strings.Contains(string(text), "\t\t{\""+name+"\", ") {
			t.Errorf("no row of TestErrorsInJSON is of %s", cmd.CommandPath())
		}
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

// The help of every command has a form in JSON, in the three ways to ask for it.
func TestHelpInJSON(t *testing.T) {
	_, all, _ := runCLI(t, "", "help", "--json")
	var whole commandline.Help
	if err := json.Unmarshal([]byte(all), &whole); err != nil || whole.Command != "waymark" || len(whole.Commands) < 10 {
		t.Fatalf("%v: %s", err, all)
	}
	for _, args := range []string{"--json", "--json --help", "--help --json"} {
		if code, stdout, stderr := runCLI(t, "", strings.Fields(args)...); code != commandline.ExitOK || stdout != all || stderr != "" {
			t.Errorf("waymark %s: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	walkCommands(newRoot(newOptions()), func(cmd *cobra.Command) {
		words := strings.Fields(cmd.CommandPath())[1:]
		for _, args := range [][]string{append([]string{"help", "--json"}, words...), append(words, "--json", "--help")} {
			code, stdout, _ := runCLI(t, "", args...)
			var help commandline.Help
			if err := json.Unmarshal([]byte(stdout), &help); err != nil || code != commandline.ExitOK || help.Command != cmd.CommandPath() || help.Usage == "" || len(help.GlobalFlags) == 0 {
				t.Errorf("%q: code %d, %v, %s", args, code, err, stdout)
			}
		}
	})
}

// goWords are words of Go's own errors.
var goWords = regexp.MustCompile(`strconv|parsing|invalid syntax|invalid argument|time: |value out of range`)

// Every flag of every command describes its value in plain words.
func TestWrongValuesOfFlags(t *testing.T) {
	seen := map[string]bool{}
	check := func(words []string, flag *pflag.Flag, value string) {
		args := append(slices.Clone(words), "--"+flag.Name+"="+value)
		code, stdout, stderr := runCLI(t, "", args...)
		if code != commandline.ExitUsage || stdout != "" || goWords.MatchString(stderr) || !strings.HasPrefix(stderr, "waymark: --"+flag.Name+" ") ||
			!strings.Contains(stderr, "want") && !strings.Contains(stderr, "out of range") {
			t.Errorf("waymark %q: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	walkCommands(newRoot(newOptions()), func(cmd *cobra.Command) {
		words := strings.Fields(cmd.CommandPath())[1:]
		see := func(flag *pflag.Flag) {
			seen[flag.Value.Type()] = true
			if flag.Value.Type() == "string" || flag.Value.Type() == "stringArray" {
				return // each value is checked by its command
			}
			for _, value := range []string{"abc", "", "99999999999999999999x", "1e99999"} {
				check(words, flag, value)
			}
			if strings.Contains(flag.Value.Type(), "int") {
				check(words, flag, "99999999999999999999")
				check(words, flag, "1.5")
			}
		}
		cmd.InitDefaultHelpFlag()
		cmd.NonInheritedFlags().VisitAll(see)
		cmd.InheritedFlags().VisitAll(see)
		code, _, stderr := runCLI(t, "", append(words, "--socket")...)
		if code != commandline.ExitUsage || !strings.HasPrefix(stderr, "waymark: --socket needs a value: --socket PATH; see '") {
			t.Errorf("%q --socket: code %d, stderr %q", words, code, stderr)
		}
	})
	for _, kind := range []string{"bool", "int", "uint32", "duration", "string", "stringArray"} {
		if !seen[kind] {
			t.Errorf("no flag is of the type %s", kind)
		}
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
		"GET /v1/config": string(running), "GET /v1/records": traceLine + "\n", "POST /v1/stop": `{"warnings":[]}`,
	})
	seen := map[string]bool{}
	lines := []string{"status", "agent config", "agent reload", "agent stop", "ioam namespace show", "ioam schema show", "route show", "observe",
		"doctor", "lab list", "version", "help", "decode -", "config check -"}
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
