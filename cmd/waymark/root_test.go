// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		{[]string{"status", "--jsn"}, `waymark: unknown flag: --jsn; did you mean --json?`},
		{[]string{"path"}, `waymark: unknown command "path" for "waymark"; did you mean trace?`},
		{[]string{"logs"}, `waymark: unknown command "logs" for "waymark"; did you mean observe?`},
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
