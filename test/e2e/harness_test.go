// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
)

var labs atomic.Int32

// labName is a name that nothing else on the machine has.
func labName() string { return fmt.Sprintf("we%d-%d", os.Getpid(), labs.Add(1)) }

// raise brings a topology up with its agents and takes it down at the end of
// the test, checking that nothing is left.
func raise(t *testing.T, top *lab.Topology) *lab.Lab {
	t.Helper()
	name := labName()
	l, err := lab.Up(t.Context(), top, lab.Options{Name: name, Program: program, Owned: true})
	if err != nil {
		t.Fatal(err)
	}
	ids := agentIDs(t, name)
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, l.Directory())
		}
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("take the lab down: %v", err)
		}
		checkNothingLeft(t, name, ids)
	})
	return l
}

// builtin is a topology that comes with the program.
func builtin(t *testing.T, name string) *lab.Topology {
	t.Helper()
	top, err := lab.Builtin(name)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func showLogs(t *testing.T, directory string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(directory, "*.log"))
	if err != nil {
		t.Error(err)
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		t.Logf("%s (%v):\n%s", filepath.Base(path), err, text)
	}
}

// agentIDs are the names of the agents of a lab, as its state has them now.
func agentIDs(t *testing.T, name string) []string {
	t.Helper()
	var state struct {
		Agents []struct {
			ID string `json:"id"`
		} `json:"agents"`
	}
	text, err := os.ReadFile(filepath.Join(lab.DefaultDirectory, name, "state.json"))
	if err != nil {
		return nil
	}
	if err := json.Unmarshal(text, &state); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, a := range state.Agents {
		ids = append(ids, a.ID)
	}
	return ids
}

// checkNothingLeft looks for what a lab and its agents may leave: namespaces,
// state, runtime directories, pinned objects.
func checkNothingLeft(t *testing.T, name string, ids []string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join("/run/netns", name+"-*"))
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{filepath.Join(lab.DefaultDirectory, name)}
	for _, id := range ids {
		paths = append(paths, filepath.Join(api.Root, id), filepath.Join(api.Root, "bpf", id))
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			left = append(left, path)
		}
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// transcript collects what a process writes, and can be waited for.
type transcript struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (o *transcript) Write(b []byte) (int, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.text.Write(b)
}

func (o *transcript) String() string {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.text.String()
}

// sideBySide is how much longer a test waits because others run beside it.
const sideBySide = 4

// await waits until something holds, limit on a machine of its own.
func await(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	limit = patience.Of(sideBySide * limit)
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(patience.Of(10 * time.Millisecond)) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

// bind opens a socket at a fixed port in a node. It tries again while a process
// that another test is starting still holds the descriptor of the last one.
func bind(n *lab.Node, open func() error) error {
	for until := time.Now().Add(patience.Of(2 * time.Second)); ; time.Sleep(time.Millisecond) {
		err := n.Do(open)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until) {
			return err
		}
	}
}

// waymark runs the program to its end.
func waymark(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute)) // cleanups run it, too
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// tcModes are the tc attachments of this kernel, best first.
func tcModes() []config.Attach {
	if tcx := health.ReadKernel().TCX; !tcx.Yes && tcx.Err == nil {
		return []config.Attach{"clsact"}
	}
	return []config.Attach{"tcx", "clsact"}
}
