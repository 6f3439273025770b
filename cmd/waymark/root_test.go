// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/instances"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
)

// runCLI executes one command line as main does.
func runCLI(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"nonsense"}, `waymark: unknown command "nonsense" for "waymark"`},
		{[]string{"--nonsense"}, `waymark: unknown flag: --nonsense; see 'waymark --help'`},
		{[]string{"observe", "--sorce", "::/0"}, `waymark: unknown flag: --sorce; did you mean --source?`},
		{[]string{"observe", "--kind", "trce"}, `waymark: --kind "trce" is no kind of records; did you mean trace? All kinds are block,`},
		{[]string{"status", "--jsn"}, `waymark: unknown flag: --jsn; did you mean --json?`},
		{[]string{"path", "histry"}, `waymark: unknown command "histry" for "waymark path"; did you mean history?`},
		{[]string{"paths"}, `waymark: unknown command "paths" for "waymark"; did you mean path?`},
		{[]string{"traceroute"}, `waymark: unknown command "traceroute" for "waymark"; did you mean trace?`},
		{[]string{"logs"}, `waymark: unknown command "logs" for "waymark"; did you mean observe?`},
		{[]string{"drops"}, `waymark: unknown command "drops" for "waymark"; did you mean loss?`},
		{[]string{"agent", "restart"}, `waymark: unknown command "restart" for "waymark agent"; did you mean reload?`},
		{[]string{"-v"}, `waymark: unknown flag: -v; did you mean -V (--version)?`},
		{[]string{"status", "-v"}, `waymark: unknown flag: -v; did you mean --verbose?`},
		{[]string{"status", "-j"}, `waymark: unknown flag: -j; did you mean --json?`},
		{[]string{"status", "-x"}, `waymark: unknown flag: -x; see 'waymark status --help'`},
		{[]string{"agent", "start"}, `waymark: unknown command "start" for "waymark agent"; did you mean run?`},
	} {
		code, stdout, stderr := runCLI(t, "", tt.args...)
		if code != commandline.ExitUsage || stdout != "" || !strings.HasPrefix(stderr, tt.want) {
			t.Errorf("waymark %q: code %d, stdout %q, stderr %q; want code %d and stderr %q",
				tt.args, code, stdout, stderr, commandline.ExitUsage, tt.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}} {
		code, stdout, stderr := runCLI(t, "", args...)
		if code != commandline.ExitOK || stderr != "" || !strings.Contains(stdout, "Exit codes: 0 success") {
			t.Errorf("waymark %q: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// TestInterruption interrupts commands that wait for an agent that never
// answers, or for input that never comes.
func TestInterruption(t *testing.T) {
	socket := filepath.Join(shortDir(t), "agent.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	silent, never := net.Pipe()
	defer silent.Close()
	defer never.Close()
	for _, args := range [][]string{
		{"status"}, {"doctor"}, {"--json", "doctor"}, {"agent", "config"}, {"agent", "reload"}, {"--json", "agent", "reload"}, {"agent", "stop"},
		{"agent", "stop", "--remove"}, {"ioam", "namespace", "show"}, {"route", "show"}, {"config", "check", "-"}, {"config", "show", "-"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(50*time.Millisecond, cancel)
		var stdout, stderr bytes.Buffer
		code := run(ctx, append([]string{"--socket", socket}, args...), silent, &stdout, &stderr)
		timer.Stop()
		cancel()
		if code != commandline.ExitInterrupted || stdout.Len() != 0 || stderr.String() != "waymark: interrupted\n" {
			t.Errorf("%v: code %d, stdout %q, stderr %q", args, code, &stdout, &stderr)
		}
	}
}

func TestAgentsElsewhere(t *testing.T) {
	instance := api.At("/run/waymark", 4097)
	for _, tt := range []struct {
		others []instances.Other
		asked  string
		want   string
	}{
		{nil, "", "no agent runs in this network namespace; start one with 'waymark agent run --config FILE'"},
		{[]instances.Other{{Instance: instance}}, "", "FILE'; other network namespaces have one: netns-4097; ask the first with: waymark --socket /run/waymark/netns-4097/agent.sock status"},
		{[]instances.Other{{Instance: instance, Namespace: "a\x1b[2J"}, {Instance: instance, Namespace: "b"}}, "status", `have one: "a\x1b[2J", b; ask the first with`},
		{slices.Repeat([]instances.Other{{Instance: instance, Namespace: "b"}}, 10), "agent stop", "b, b, b, b, b, b, b, b, 2 more; ask the first with: ip netns exec b waymark status"},
		{[]instances.Other{{Instance: instance, Namespace: "b"}}, "--json loss --flow it's", `ask the first with: ip netns exec b waymark --json loss --flow 'it'\''s'`},
		{[]instances.Other{{Instance: instance}}, "loss --follow", "ask the first with: waymark --socket /run/waymark/netns-4097/agent.sock loss --follow"},
	} {
		opts := newOptions()
		opts.asked = strings.Fields(tt.asked)
		opts.agentsElsewhere = func() []instances.Other { return tt.others }
		if err := opts.withoutAgent(api.ErrNoAgent); !strings.HasSuffix(err.Error(), tt.want) && !strings.Contains(err.Error(), tt.want) ||
			!errors.Is(err, api.ErrNoAgent) {
			t.Errorf("%v\nwant %s", err, tt.want)
		}
	}
}
