// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
)

func TestHelpCommand(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // without waymark-lab
	for _, tt := range []struct {
		args string
		code int
		want string // of stdout, or of stderr when the code is not 0
	}{
		{"help", commandline.ExitOK, "Exit codes: 0 success"},
		{"help decode", commandline.ExitOK, "Show the IOAM options in packet captures"},
		{"help r add", commandline.ExitOK, "Change which packets get an IOAM header"},
		{"help ioam n", commandline.ExitOK, "waymark ioam namespace add 123"},
		{"help nosuch", commandline.ExitUsage, `waymark: unknown command "nosuch" for "waymark"; help explains commands; list them with 'waymark help'`},
		{"help foo", commandline.ExitUsage, `waymark: unknown command "foo" for "waymark"; help explains commands`},
		{"help staus", commandline.ExitUsage, `did you mean stamp or status? List all commands with 'waymark help'`},
		{"help roles", commandline.ExitUsage, `waymark: unknown command "roles" for "waymark"; did you mean interface? List all commands with 'waymark help'`},
		{"help encapsulation", commandline.ExitUsage, `did you mean route?`},
		{"help namespace", commandline.ExitUsage, `did you mean 'waymark ioam namespace'?`},
		{"help config nosuch", commandline.ExitUsage, `waymark: unknown command "nosuch" for "waymark config"; help explains commands; list them with 'waymark help config'`},
		{"help lab", commandline.ExitOK, "It is in the package\nwaymark-lab."},
		{"help lab up", commandline.ExitFailure, "waymark: the program waymark-lab is not installed; install the package waymark-lab"},
	} {
		code, stdout, stderr := runCLI(t, "", strings.Fields(tt.args)...)
		said, silent := stdout, stderr
		if tt.code != commandline.ExitOK {
			said, silent = stderr, stdout
		}
		if code != tt.code || !strings.Contains(said, tt.want) || silent != "" {
			t.Errorf("%s: code %d, stdout %q, stderr %q; want code %d and %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}

// Abbreviations do not appear in the help.
func TestHelpHasNoAliases(t *testing.T) {
	for _, args := range [][]string{{"route", "--help"}, {"ioam", "n", "--help"}} {
		code, stdout, _ := runCLI(t, "", args...)
		if code != commandline.ExitOK || strings.Contains(stdout, "Aliases") || !strings.Contains(stdout, "Usage:") {
			t.Errorf("%q: code %d, stdout\n%s", args, code, stdout)
		}
	}
}

func TestHelpCompletes(t *testing.T) {
	for args, want := range map[string]string{"deco": "decode\t", "deca": "decapsulation\t", "config ch": "check\t"} {
		_, stdout, _ := runCLI(t, "", append([]string{"__complete", "help"}, strings.Fields(args)...)...)
		if !strings.HasPrefix(stdout, want) {
			t.Errorf("help %s completes to %q, want %q", args, stdout, want)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if code, stdout, stderr := runCLI(t, "", args...); code != commandline.ExitOK || stdout != "waymark "+commandline.Version()+"\n" ||
			stderr != "" {
			t.Errorf("%q: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
		code, stdout, _ := runCLI(t, "", append(args, "--json")...)
		var got struct{ Version, Go, Platform string }
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != commandline.ExitOK || got.Version != commandline.Version() ||
			got.Go == "" ||
			got.Platform == "" {
			t.Errorf("%q --json: code %d, %v, %s", args, code, err, stdout)
		}
	}
	if code, stdout, stderr := runCLI(t, "", "--version", "nonsense"); code != commandline.ExitUsage || stdout != "" ||
		!strings.Contains(stderr, "nonsense") {
		t.Errorf("--version nonsense: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
