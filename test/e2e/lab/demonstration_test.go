// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// demoLimit is how long the demo may take after the build.
var demoLimit = patience.Of(time.Minute)

// demonstration is a running `waymark lab demo`.
type demonstration struct {
	e2e.Transcript
	process *os.Process
	ended   chan struct{}
	err     error
}

// startDemo runs the demo without a terminal.
func startDemo(t *testing.T, name string, flags ...string) *demonstration {
	t.Helper()
	return start(t, append([]string{"lab", "demo", "--packets", "--name", name}, flags...)...)
}

// start runs the program without a terminal.
func start(t *testing.T, args ...string) *demonstration {
	t.Helper()
	d := &demonstration{ended: make(chan struct{})}
	cmd := exec.Command(e2e.Program, args...)
	cmd.Stdout, cmd.Stderr = d, d
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.process = cmd.Process
	go func() {
		d.err = cmd.Wait()
		close(d.ended)
	}()
	return d
}

// awaitOutput waits until the demo has written something.
func (d *demonstration) awaitOutput(t *testing.T, text string) {
	t.Helper()
	e2e.Await(t, text, demoLimit, func() bool {
		select {
		case <-d.ended:
			if !strings.Contains(d.String(), text) {
				t.Fatalf("the demo ended (%v) before %q:\n%s", d.err, text, d)
			}
		default:
		}
		return strings.Contains(d.String(), text)
	})
}

// wait waits until the demo ends.
func (d *demonstration) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-d.ended:
		return d.err
	case <-time.After(demoLimit):
		t.Fatalf("the demo does not end:\n%s", d)
		return nil
	}
}

// insist signals a process repeatedly until it has ended.
func insist(t *testing.T, p *os.Process, signal syscall.Signal, ended <-chan struct{}) {
	t.Helper()
	for deadline := time.Now().Add(demoLimit); time.Now().Before(deadline); {
		_ = p.Signal(signal) // it may have ended just now
		select {
		case <-ended:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatalf("the process did not end within %v", demoLimit)
}
