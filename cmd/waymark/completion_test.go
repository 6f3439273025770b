// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
)

func TestCompletion(t *testing.T) {
	for shell, want := range map[string]string{"bash": "__start_waymark", "zsh": "#compdef waymark", "fish": "complete -c waymark"} {
		code, stdout, stderr := runCLI(t, "", "completion", shell)
		if code != commandline.ExitOK || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("%s: code %d, stderr %q, %d bytes without %q", shell, code, stderr, len(stdout), want)
		}
		if shell == "bash" {
			check := exec.Command("bash", "-n")
			check.Stdin = strings.NewReader(stdout)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("bash does not read it: %v: %s", err, out)
			}
		}
	}
	if code, stdout, stderr := runCLI(t, "", "completion", "tcsh"); code != commandline.ExitUsage || stdout != "" ||
		!strings.Contains(stderr, "tcsh") {
		t.Errorf("unknown shell: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestCompletionOfWords(t *testing.T) {
	_, stdout, _ := runCLI(t, "", "__complete", "decode", "--timestamp-format", "")
	if !strings.HasPrefix(stdout, "posix\nptp\nntp\n") {
		t.Errorf("%q", stdout)
	}
	_, stdout, _ = runCLI(t, "", "__complete", "config", "")
	if !strings.HasPrefix(stdout, "check\t") {
		t.Errorf("%q", stdout)
	}
}

// The words of a namespace: what may follow, and nothing where an own value follows.
func TestCompletionOfNamespaces(t *testing.T) {
	for args, want := range map[string]string{
		"":                          "show\nadd\ndel\nset\n",
		"set 1":                     "remove\ne2e\nincremental\nloopback\nterminate-active\ndrop-rejected\npot\nschema\nexport\n",
		"set 1 remove":              "on\noff\n",
		"set 1 remove on":           "remove\ne2e\nincremental\nloopback\nterminate-active\ndrop-rejected\npot\n",
		"set 1 schema":              "none\n",
		"set 1 schema none":         "",
		"set 1 export":              "none\nevery\naggregate\nsample\n",
		"set 1 export every":        "",
		"add 1 data 5":              "remove\ne2e\nincremental\nloopback\nterminate-active\ndrop-rejected\npot\ndata\nwide\nexport\n",
		"add 1 data 5 loopback":     "on\noff\n",
		"add 1 data":                "",
		"add 1 pot":                 "none\n",
		"set 1 pot":                 "none\n",
		"set 1 pot /etc/key":        "remove\ne2e\nincremental\nloopback\nterminate-active\ndrop-rejected\npot\n",
		"add 1 export sample":       "",
		"del 1":                     "",
		"add":                       "",
		"add 1 terminate-active on": "remove\ne2e\nincremental\nloopback\nterminate-active\ndrop-rejected\npot\ndata\nwide\nexport\n",
	} {
		_, stdout, _ := runCLI(t, "", append(append([]string{"__complete", "ioam", "namespace"}, strings.Fields(args)...), "")...)
		if got, _, _ := strings.Cut(stdout, ":"); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
		if files := strings.HasSuffix(stdout, ":0\n"); files != strings.HasSuffix(args, " pot") {
			t.Errorf("%s: completes files: %v, %q", args, files, stdout)
		}
	}
}
