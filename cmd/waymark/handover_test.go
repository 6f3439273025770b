// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
)

// otherPrograms makes programs that print their name and arguments, and have them in the PATH.
func otherPrograms(t *testing.T) {
	t.Helper()
	directory := t.TempDir()
	for _, name := range []string{"waymark-lab", "waymark-collector"} {
		script := "#!/bin/sh\necho \"" + name + " $*.\"\necho :4\n"
		if err := os.WriteFile(filepath.Join(directory, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", directory+":"+os.Getenv("PATH"))
}

// What may follow 'waymark lab' and 'waymark collect' is asked of the program that carries it out.
func TestHandoverCompletes(t *testing.T) {
	otherPrograms(t)
	for args, want := range map[string]string{
		"lab loss --na":                 "waymark-lab __complete loss --na.\n:4\n",
		"collect --listen=":             "waymark-collector __complete collect --listen=.\n:4\n",
		"--socket /a collect --listen=": "waymark-collector __complete collect --listen=.\n:4\n",
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"__complete"}, strings.Fields(args)...)...)
		if code != commandline.ExitOK || stdout != want {
			t.Errorf("%s: code %d, %q, want %q; %s", args, code, stdout, want, stderr)
		}
	}
}

// handedOver has a command line for a second process of this test, which another program replaces.
const handedOver = "WAYMARK_TEST_HANDED_OVER"

// The program that carries out a command gets its arguments, but no flags of waymark alone, and explains it and the
// commands below it.
func TestHandover(t *testing.T) {
	if line := os.Getenv(handedOver); line != "" {
		os.Exit(run(t.Context(), strings.Fields(line), os.Stdin, os.Stdout, os.Stderr))
	}
	otherPrograms(t)
	for line, want := range map[string]string{
		"lab up --json line":                         "waymark-lab up --json line.",
		"--socket /a --json collect --listen b":      "waymark-collector collect --json --listen b.",
		"--socket=/a lab exec c waymark --socket /a": "waymark-lab exec c waymark --socket /a.",
		"collect --socket /a":                        "waymark-collector collect.",
		"collect --socket":                           "waymark-collector collect --socket.",
		"help lab":                                   "waymark-lab help.",
		"help lab up":                                "waymark-lab help up.",
		"help --json lab up":                         "waymark-lab help up --json.",
		"help collect":                               "waymark-collector help collect.",
		"help collect nosuch":                        "waymark-collector help collect nosuch.",
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHandover$")
		cmd.Env = append(os.Environ(), handedOver+"="+line)
		out, err := cmd.CombinedOutput()
		if first, _, _ := strings.Cut(string(out), "\n"); err != nil || first != want {
			t.Errorf("%s: %v, %q, want %q", line, err, first, want)
		}
	}
}
