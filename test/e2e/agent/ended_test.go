// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// inNode runs the program in a node until it exits.
func inNode(t *testing.T, l *lab.Lab, node string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := l.Node(node).Command(t.Context(), e2e.Program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// Commands at a node whose agent has died say that its programs still run;
// removing the end of a tunnel warns that other nodes lose packets.
func TestAgentThatHasEnded(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "line"))
	top := l.Topology().Node("aramis")
	pid := e2e.AgentProcess(t, l, "aramis")
	e2e.SignalAgent(t, l, "aramis", syscall.SIGKILL)
	e2e.Await(t, "the agent's end", 10*time.Second, func() bool { return syscall.Kill(pid, 0) != nil })

	var code int
	var stdout, stderr string
	for _, args := range []string{"status", "observe", "agent reload", "agent config", "route show", "ioam namespace show",
		"ioam schema show"} {
		for _, want := range []string{"still treat the packets on eth0, eth1", "waymark agent run --config FILE", "waymark agent stop --remove"} {
			code, stdout, stderr = inNode(t, l, "aramis", strings.Fields(args)...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, want) {
				t.Errorf("%s: code %d, stdout %q, stderr %q; want %q", args, code, stdout, stderr, want)
			}
		}
	}
	if code, stdout, stderr = inNode(t, l, "aramis", "doctor", "--wide"); code != 1 || stderr != "" ||
		!strings.Contains(stdout, "error: agent_ended") {
		t.Errorf("doctor: code %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
	_, stdout, stderr = inNode(t, l, "aramis", "--json", "doctor")
	var doctor struct {
		Agent    string
		Left     []string
		Checks   []health.Check
		Warnings []health.Warning
	}
	if err := json.Unmarshal([]byte(stdout), &doctor); err != nil {
		t.Fatal(err, stderr)
	}
	warned := slices.ContainsFunc(doctor.Warnings, func(w health.Warning) bool { return w.Code == health.AgentEnded })
	if doctor.Agent != "absent" || !slices.Equal(doctor.Left, []string{"eth0", "eth1"}) || !warned {
		t.Errorf("doctor: %s", stdout)
	}
	if i := slices.IndexFunc(doctor.Checks, func(c health.Check) bool { return c.Name == "bpf jit" }); i < 0 ||
		doctor.Checks[i].State == "unknown" {
		t.Errorf("inside a namespace, doctor does not know whether programs are compiled: %s", stdout)
	}
	if _, stdout, _ = inNode(t, l, "aramis", "doctor", "--wide"); !strings.Contains(stdout, "its programs still serve eth0, eth1") {
		t.Errorf("doctor:\n%s", stdout)
	}

	const end = "2001:db8:ff::3"
	if code, stdout, stderr = inNode(t, l, "aramis", "agent", "stop", "--remove"); code != 0 || stdout != "" ||
		!strings.Contains(stderr, "warning: tunnel_end_removed") || !strings.Contains(stderr, "packets to "+end) {
		t.Errorf("agent stop --remove, of an agent that has died: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if _, err := l.Node("aramis").StartAgent(t.Context(), top.Agent.Config); err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]int{"aramis": 1, "porthos": 0} {
		var stopped struct {
			Removed  bool
			Warnings []health.Warning
		}
		code, stdout, stderr = inNode(t, l, node, "--json", "agent", "stop", "--remove")
		if err := json.Unmarshal([]byte(stdout), &stopped); err != nil || code != 0 || stderr != "" || !stopped.Removed ||
			stopped.Warnings == nil ||
			len(stopped.Warnings) != want || want == 1 && !strings.Contains(stopped.Warnings[0].Text, end) {
			t.Errorf("agent stop --remove of %s: code %d, stdout %q, stderr %q, %v", node, code, stdout, stderr, err)
		}
	}
	if code, _, stderr = inNode(t, l, "porthos", "status"); code != 1 || strings.Contains(stderr, "still treat") {
		t.Errorf("status without an agent and its programs: code %d, %q", code, stderr)
	}
}
