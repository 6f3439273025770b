// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/patience"
)

func newPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// started is a command that runs.
type started struct {
	out, errs spoken
	code      chan int
	end       context.CancelFunc
}

func start(t *testing.T, args ...string) *started {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s := &started{code: make(chan int, 1), end: cancel}
	go func() { s.code <- run(ctx, args, strings.NewReader(""), &s.out, &s.errs) }()
	return s
}

func (s *started) awaitText(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(patience.Of(10 * time.Second)); !strings.Contains(s.errs.String(), want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q does not come: %s", want, s.errs.String())
		}
	}
}

// awaitEnd waits for the end after an interruption.
func (s *started) awaitEnd(t *testing.T) (code int) {
	t.Helper()
	s.end()
	select {
	case code = <-s.code:
	case <-time.After(patience.Of(5 * time.Second)):
		t.Fatalf("it does not end: %s", s.errs.String())
	}
	return code
}

// A collector receives although no process reads its output: it says so, and ends on SIGTERM.
func TestCollectIntoUnreadPipe(t *testing.T) {
	pipe := newPipe(t)
	s := start(t, "collect", "--listen", "udp://[::1]:0", "--output", pipe)
	s.awaitText(t, "receives at ")
	s.awaitText(t, pipe+": no process reads this named pipe; start one that does, or name a file; records are lost until then\n")
	if code := s.awaitEnd(t); code != commandline.ExitOK {
		t.Errorf("code %d, %s", code, s.errs.String())
	}
}

// A named pipe as a configuration ends the command with its cause; a capture may come later, unless the
// command is interrupted.
func TestPipesAsInput(t *testing.T) {
	pipe := newPipe(t)
	if code, _, errs := runCLI(t, "", "config", "check", pipe); code != commandline.ExitFailure || !strings.Contains(errs, "no process writes into this named pipe; name a configuration file that can be read") {
		t.Errorf("config check: code %d, %s", code, errs)
	}
	s := start(t, "decode", pipe)
	time.Sleep(50 * time.Millisecond)
	if code := s.awaitEnd(t); code != commandline.ExitInterrupted {
		t.Errorf("decode: code %d, %s", code, s.errs.String())
	}
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // it says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	s = start(t, "config", "check", pipe)
	time.Sleep(50 * time.Millisecond)
	if code := s.awaitEnd(t); code != commandline.ExitInterrupted {
		t.Errorf("config check: code %d, %s", code, s.errs.String())
	}
}
