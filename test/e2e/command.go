// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
)

// Line is a trace as a line of JSON.
func Line(t *testing.T, r record.Trace) string {
	t.Helper()
	return string(record.AppendJSON(nil, &r))
}

// ExitCode is the exit code of a command that was waited for; -1 when a signal
// ended it.
func ExitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// Waymark runs the program until it exits.
func Waymark(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute)) // not t.Context: cleanups run it, too
	defer cancel()
	cmd := exec.CommandContext(ctx, Program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// AgentProcess is the process ID of the running agent of a node.
func AgentProcess(t *testing.T, l *lab.Lab, node string) int {
	t.Helper()
	status, err := l.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range status.Processes {
		if p.Node == node && strings.Contains(p.Command, " agent run ") {
			return p.PID
		}
	}
	t.Fatalf("no agent runs in %s", node)
	return 0
}

// SignalAgent sends a signal to the agent of a node.
func SignalAgent(t *testing.T, l *lab.Lab, node string, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(AgentProcess(t, l, node), sig); err != nil {
		t.Fatal(err)
	}
}

// StopAgent stops the agent of a node until resume, or the end of the test. When it returns, none of the agent's threads
// runs any more.
func StopAgent(t *testing.T, l *lab.Lab, node string) (resume func()) {
	t.Helper()
	pid := AgentProcess(t, l, node)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	t.Cleanup(resume)
	Await(t, "the agent's threads to stop", 5*time.Second, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, runs)
	})
	return resume
}

// runs reports whether a thread is not stopped; file is its stat (proc_pid_stat(5)).
func runs(file string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return false // it has ended
	}
	_, state, found := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
	return !found || !strings.HasPrefix(state, "T")
}

// Restart ends an agent with a signal and starts it again.
func Restart(t *testing.T, l *lab.Lab, node string, sig syscall.Signal) {
	t.Helper()
	pid := AgentProcess(t, l, node)
	SignalAgent(t, l, node, sig)
	Await(t, "the agent's end", 10*time.Second, func() bool { return syscall.Kill(pid, 0) != nil })
	time.Sleep(100 * time.Millisecond) // packets go on without it
	if _, err := l.Node(node).StartAgent(t.Context(), l.Topology().Node(node).Agent.Config); err != nil {
		t.Fatal(err)
	}
}

// In runs the program in a node and returns its output.
func In(t *testing.T, l *lab.Lab, node string, args ...string) (string, error) {
	t.Helper()
	out, err := l.Node(node).Command(t.Context(), Program, args...).CombinedOutput()
	return string(out), err
}

// MustIn runs the program in a node and returns its output; it has to succeed.
func MustIn(t *testing.T, l *lab.Lab, node string, args ...string) string {
	t.Helper()
	out, err := In(t, l, node, args...)
	if err != nil {
		t.Fatalf("in %s: waymark %s: %v\n%s", node, strings.Join(args, " "), err, out)
	}
	return out
}

// Rewrite changes the configuration file of a node's agent.
func Rewrite(t *testing.T, l *lab.Lab, node string, change func(string) string) {
	t.Helper()
	before := string(l.Topology().Node(node).Agent.Config)
	after := change(before)
	if after == before {
		t.Fatalf("the rewrite of the configuration of %s changes nothing", node)
	}
	if err := os.WriteFile(filepath.Join(l.Directory(), node+".yaml"), []byte(after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// RestartInTime ends the agent of a node and starts it in a time namespace whose clocks are ahead, as
// in containers and restored checkpoints. The function that it returns ends it as SIGKILL does.
func RestartInTime(t *testing.T, l *lab.Lab, node string, ahead time.Duration) (kill func()) {
	t.Helper()
	seconds := strconv.Itoa(int(ahead / time.Second))
	return restartUnder(t, l, node, "unshare", "--time", "--monotonic", seconds, "--boottime", seconds, "--fork", "--kill-child")
}

// RestartWithHosts starts a node's agent again with a file of hosts of its own in place of /etc/hosts.
func RestartWithHosts(t *testing.T, l *lab.Lab, node, hosts string) (kill func()) {
	t.Helper()
	return restartUnder(t, l, node, "unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, hosts)
}

// restartUnder starts a node's agent again as the argument of another program.
func restartUnder(t *testing.T, l *lab.Lab, node string, wrapper ...string) (kill func()) {
	t.Helper()
	pid := AgentProcess(t, l, node)
	SignalAgent(t, l, node, syscall.SIGTERM)
	Await(t, "the agent's end", 10*time.Second, func() bool { return syscall.Kill(pid, 0) != nil })
	file := filepath.Join(l.Directory(), node+".yaml")
	args := append(wrapper, Program, "agent", "run", "--config", file, "--node-name", node, "--one-clock")
	cmd := l.Node(node).Command(context.WithoutCancel(t.Context()), args[0], args[1:]...)
	log := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		if kill(); t.Failed() {
			t.Logf("the agent of %s wrote:\n%s", node, log)
		}
	})
	Await(t, "the agent in a namespace of its own", 20*time.Second, func() bool {
		_, err := In(t, l, node, "status")
		return err == nil
	})
	return kill
}
