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
	if code, stdout, stderr := runCLI(t, "", "completion", "tcsh"); code != commandline.ExitUsage || stdout != "" || !strings.Contains(stderr, "tcsh") {
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
