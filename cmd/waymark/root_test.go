// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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
	} {
		code, stdout, stderr := runCLI(t, "", tt.args...)
		if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, tt.want) {
			t.Errorf("waymark %q: code %d, stdout %q, stderr %q; want code %d and stderr %q",
				tt.args, code, stdout, stderr, exitUsage, tt.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}} {
		code, stdout, stderr := runCLI(t, "", args...)
		if code != exitOK || stderr != "" || !strings.Contains(stdout, "Exit codes: 0 done") {
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
		if code != exitInterrupted || stdout.Len() != 0 || stderr.String() != "waymark: interrupted\n" {
			t.Errorf("%v: code %d, stdout %q, stderr %q", args, code, &stdout, &stderr)
		}
	}
}

func TestInterruptionHidesNothing(t *testing.T) {
	canceled, other := fmt.Errorf("wait: %w", context.Canceled), errors.New("the lab is left behind")
	for _, tt := range []struct {
		err  error
		want []string
	}{
		{canceled, []string{"interrupted"}},
		{errors.Join(canceled, other), []string{"interrupted", other.Error()}},
		{fmt.Errorf("raise: %w", errors.Join(other, canceled)), []string{"interrupted", other.Error()}},
		{fmt.Errorf("interrupted; everything has been removed: %w", context.Canceled), []string{"interrupted; everything has been removed: context canceled"}},
	} {
		if got := interruption(tt.err); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}
