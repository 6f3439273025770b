// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
)

// What may follow 'waymark lab' and 'waymark collect' is asked of the program that carries it out.
func TestHandoverCompletes(t *testing.T) {
	directory := t.TempDir()
	for _, name := range []string{"waymark-lab", "waymark-collector"} {
		script := "#!/bin/sh\necho \"" + name + " $*.\"\necho :4\n"
		if err := os.WriteFile(filepath.Join(directory, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", directory+":"+os.Getenv("PATH"))
	for args, want := range map[string]string{
		"lab loss --na":     "waymark-lab __complete loss --na.\n:4\n",
		"collect --listen=": "waymark-collector __complete collect --listen=.\n:4\n",
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"__complete"}, strings.Fields(args)...)...)
		if code != commandline.ExitOK || stdout != want {
			t.Errorf("%s: code %d, %q, want %q; %s", args, code, stdout, want, stderr)
		}
	}
}
