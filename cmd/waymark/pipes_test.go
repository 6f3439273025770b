// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/commandlinetest"
)

func newPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// interrupt interrupts a command, and gives its exit code.
func interrupt(t *testing.T, s *commandlinetest.Started) (code int) {
	t.Helper()
	s.Interrupt()
	return s.End(t)
}

// A named pipe as a configuration ends the command with its cause; a capture may come later, unless the
// command is interrupted.
func TestPipesAsInput(t *testing.T) {
	pipe := newPipe(t)
	if code, _, errs := runCLI(t, "", "config", "check", pipe); code != commandline.ExitFailure ||
		!strings.Contains(errs, "no process writes into this named pipe; name a configuration file that can be read") {
		t.Errorf("config check: code %d, %s", code, errs)
	}
	s := program.Start(t, "decode", pipe)
	time.Sleep(50 * time.Millisecond)
	if code := interrupt(t, s); code != commandline.ExitInterrupted {
		t.Errorf("decode: code %d, %s", code, &s.Errs)
	}
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // it says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	s = program.Start(t, "config", "check", pipe)
	time.Sleep(50 * time.Millisecond)
	if code := interrupt(t, s); code != commandline.ExitInterrupted {
		t.Errorf("config check: code %d, %s", code, &s.Errs)
	}
}
