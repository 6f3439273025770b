// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// LabName returns a name that is unique on the machine.
func LabName() string { return fmt.Sprintf("we%d-%d", os.Getpid(), labs.Add(1)) }

// Raise brings a topology up with its agents, takes it down at the end of the
// test, and checks that nothing is left.
func Raise(t *testing.T, top *lab.Topology) *lab.Lab {
	t.Helper()
	name := LabName()
	l, err := lab.Up(t.Context(), top, lab.Options{Name: name, Program: Program, Owned: true})
	if err != nil {
		t.Fatal(err)
	}
	ids := AgentIDs(t, name)
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, l.Directory())
		}
		ids = append(ids, AgentIDs(t, name)...) // started later
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("take the lab down: %v", err)
		}
		CheckNothingLeft(t, name, ids)
	})
	return l
}

// Builtin is a topology that comes with the program.
func Builtin(t *testing.T, name string) *lab.Topology {
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

// AgentIDs returns the ids of a lab's agents, from its state file.
func AgentIDs(t *testing.T, name string) []string {
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

// CheckNothingLeft looks for namespaces, state, runtime directories and pinned
// objects that a lab and its agents left.
func CheckNothingLeft(t *testing.T, name string, ids []string) {
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
		t.Errorf("the lab left %v", left)
	}
}

// Bind opens a socket at a fixed port in a node. It retries while the port is in
// use: a process that another test is starting may still hold the descriptor of
// the previous socket.
func Bind(n *lab.Node, open func() error) error {
	for until := time.Now().Add(patience.Of(2 * time.Second)); ; time.Sleep(time.Millisecond) {
		err := n.Do(open)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until) {
			return err
		}
	}
}

// TCModes are the tc attachments of this kernel, best first.
func TCModes() []config.Attach {
	if tcx := health.ReadKernel().TCX; !tcx.Yes && tcx.Err == nil {
		return []config.Attach{"clsact"}
	}
	return []config.Attach{"tcx", "clsact"}
}

// RaiseText brings up a topology that is given as text.
func RaiseText(t *testing.T, name, topology string) *lab.Lab {
	t.Helper()
	parsed, err := lab.Parse(name, []byte(topology))
	if err != nil {
		t.Fatal(err)
	}
	return Raise(t, parsed)
}

// Must runs a command in a node.
func Must(t *testing.T, n *lab.Node, args ...string) string {
	t.Helper()
	out, err := n.Command(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %v\n%s", n.Name(), args, err, out)
	}
	return string(out)
}

// MustAfter runs a command in a node when a test has ended, so that the next one finds the node as it was.
func MustAfter(t *testing.T, n *lab.Node, args ...string) {
	t.Helper()
	if out, err := n.Command(context.WithoutCancel(t.Context()), args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %v\n%s", n.Name(), args, err, out)
	}
}
