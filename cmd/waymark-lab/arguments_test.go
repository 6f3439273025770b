// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A surplus argument, or a missing one, gives an error that says what to type.
func TestMisplacedArguments(t *testing.T) {
	program.Usage(t, map[string]string{
		"down newc1":                "waymark-lab down takes no argument; use --name newc1",
		"show newc1":                "waymark-lab show takes no argument; use --name newc1",
		"demo newc1":                "waymark-lab demo takes no argument; use --name newc1",
		"demo --port 8080":          "--port and --move are for --console; add it",
		"demo --console --packets":  "--console prints no packets; remove --packets and --json",
		"demo --console --move 1ms": "--move 1ms: want a time from 1s to 1h",
		"exec":                      "NODE is missing; see 'waymark-lab exec --help'",
		"loss add ingress":          "INTERFACE is missing; see 'waymark-lab loss add --help'",
		"loss add a eth0":           "which frames are lost? Give one of --every, --burst and --random; see 'waymark-lab loss add --help'",
		"loss del a eth0 1 2":       "waymark-lab loss del takes NODE INTERFACE NUMBER, but got 4 arguments; see 'waymark-lab loss del --help'",
		"up a b":                    "waymark-lab up takes one TOPOLOGY or FILE, but got 2: a b; see 'waymark-lab up --help'",
		"up --name= line":           "--name has an empty value; give one, or remove --name for waymark",
	})
}

func TestCommandExitCodes(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"waymark-no-such-command": exitNotFound, text + ".none": exitNotFound, text: exitNoExec} {
		_, err := exec.LookPath(name)
		if got := (commandError{err}).ExitCode(); err == nil || got != want {
			t.Errorf("%s: %v, code %d, want %d", name, err, got, want)
		}
	}
}

func TestEmptyValues(t *testing.T) { program.EmptyValues(t, 8) }
