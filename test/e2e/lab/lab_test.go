// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

const pair = `name: pair
nodes: [{name: a}, {name: b}]
links:
  - ends:
      - {node: a, interface: eth0, addresses: 2001:db8::1/64}
      - {node: b, interface: eth0, addresses: 2001:db8::2/64}
traffic:
  - {kind: ping, from: a, to: b, count: 3, interval: 10ms}
`

func pairFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pair.yaml")
	if err := os.WriteFile(path, []byte(pair), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLabCommands(t *testing.T) {
	t.Parallel()
	name := e2e.LabName()
	down := func() { _, _, _ = e2e.Waymark(t, "lab", "down", "--name", name) }
	if code, _, stderr := e2e.Waymark(t, "lab", "up", "--name", name, pairFile(t)); code != 0 {
		t.Fatalf("lab up: %d, %s", code, stderr)
	}
	t.Cleanup(down)
	for _, tt := range []struct {
		args   []string
		code   int
		stdout string // contained
		stderr string // contained
	}{
		{[]string{"up", "--name", name}, 1, "", "take it down (waymark lab down --name " + name + ")"},
		{[]string{"list"}, 0, name, ""},
		{[]string{"exec", "--name", name, "a", "--", "sh", "-c", "exit 7"}, 7, "", ""},
		{[]string{"exec", "a", "--name", name, "--", "sh", "-c", "exit 7"}, 7, "", ""},
		{[]string{"exec", "a", "--name=" + name, "sh", "-c", "echo $0", "--name"}, 0, "--name\n", ""},
		{[]string{"exec", "a", "--nam", name, "--", "true"}, 2, "", "unknown flag: --nam"},
		{[]string{"exec", "a", "--help"}, 0, "Run a command in a node", ""},
		{[]string{"exec", "--name", name, "b", "ip", "-6", "addr", "show", "dev", "eth0"}, 0, "2001:db8::2/64", ""},
		{[]string{"exec", "--name", name, "c", "--", "true"}, 1, "", "has no node c; it has a, b"},
		{[]string{"exec", "--name", name, "a", "--", "no-such-command"}, 127, "", "no-such-command"},
		{[]string{"traffic", "--name", name}, 0, "ping: ping from a to b, 3 sent, 3 received", ""},
		{[]string{"traffic", "--name", name, "flood"}, 2, "", "no traffic called flood; it has ping"},
		{[]string{"loss", "show", "--name", name}, 0, "", ""},
		{[]string{"loss", "add", "--name", name, "b", "eth0", "--every", "1", "--source", "2001:db8::/64"}, 0, "b eth0 1 to a:eth0: every 1 source 2001:db8::/64\n    lost 0 of 0 packets, in 0 of 0 frames\n", ""},
		{[]string{"traffic", "--name", name}, 1, "", "ping: 3 of 3 packets were lost"},
		{[]string{"loss", "show", "--name", name}, 0, "    lost 3 of 3 packets, in 3 of 3 frames\n", ""},
		{[]string{"loss", "add", "--name", name, "a", "eth1", "--every", "1"}, 1, "", "no link of the lab begins at a eth1; list them with: waymark lab show --name " + name},
		{[]string{"loss", "del", "--name", name, "b", "eth0", "2"}, 1, "", "losses at b eth0: eth0 has no rule 2"},
		{[]string{"loss", "del", "--name", name, "b", "eth0", "1"}, 0, "    lost 3 of 3 packets", ""},
		{[]string{"traffic", "--name", name}, 0, "ping: ping from a to b, 3 sent, 3 received", ""},
		{[]string{"loss", "add", "--name", name, "a", "eth0", "--random", "0.5"}, 0, "a eth0 1 to b:eth0: random 0.5 seed 1\n", ""},
		{[]string{"show", "--name", name}, 0, name + "-a", ""},
		{[]string{"show", "--name", "nowhere"}, 1, "", "no lab called nowhere is up; give --name with one of "},
		{[]string{"up", "../../../examples/athos.yaml"}, 1, "", "../../../examples/athos.yaml:9:1: this is an agent's configuration, not a topology"},
		{[]string{"up", "--name", "-bad"}, 1, "", "is not a name"},
		{[]string{"up", "ring"}, 1, "", "use one of ecmp, line, srv6"},
		{[]string{"nonsense"}, 2, "", "unknown command"},
	} {
		code, stdout, stderr := e2e.Waymark(t, append([]string{"lab"}, tt.args...)...)
		if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("lab %v: code %d, stdout %q, stderr %q; want %d, %q, %q", tt.args, code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
	code, stdout, _ := e2e.Waymark(t, "lab", "show", "--name", name, "--json")
	var status lab.Status
	if err := json.Unmarshal([]byte(stdout), &status); code != 0 || err != nil || len(status.Nodes) != 2 {
		t.Errorf("lab show --json: %d, %v, %s", code, err, stdout)
	}
	if code, _, stderr := e2e.Waymark(t, "lab", "down", "--name", name); code != 0 {
		t.Errorf("lab down: %d, %s", code, stderr)
	}
	e2e.CheckNothingLeft(t, name, nil)
	if code, _, _ := e2e.Waymark(t, "lab", "down", "--name", name); code != 1 {
		t.Errorf("a second lab down: code %d, want 1", code)
	}
}

// A command that `lab exec` left running ends with the lab.
func TestLabDownEndsExec(t *testing.T) {
	t.Parallel()
	name := e2e.LabName()
	if code, _, stderr := e2e.Waymark(t, "lab", "up", "--name", name, pairFile(t)); code != 0 {
		t.Fatalf("lab up: %d, %s", code, stderr)
	}
	cmd := exec.Command(e2e.Program, "lab", "exec", "--name", name, "a", "--", "sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	defer func() { _ = cmd.Process.Kill() }()
	e2e.Await(t, "the command is recorded", 5*time.Second, func() bool {
		_, stdout, _ := e2e.Waymark(t, "lab", "show", "--name", name)
		return strings.Contains(stdout, fmt.Sprintf("process %d in a: sleep 300", cmd.Process.Pid))
	})
	if code, _, stderr := e2e.Waymark(t, "lab", "down", "--name", name); code != 0 {
		t.Errorf("lab down: %d, %s", code, stderr)
	}
	select {
	case <-ended:
	case <-time.After(patience.Of(2 * time.Second)):
		t.Error("the command outlived the lab")
	}
	e2e.CheckNothingLeft(t, name, nil)
}

// An interrupted `lab up` leaves nothing and prints only that it was interrupted,
// whenever the signals come and however often.
func TestLabUpInterrupted(t *testing.T) {
	t.Parallel()
	for _, agents := range []int{0, 1, 3} {
		name := e2e.LabName()
		var stderr e2e.Transcript
		cmd := exec.Command(e2e.Program, "lab", "up", "--name", name, "line")
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		var err error
		go func() { err = cmd.Wait(); close(ended) }()
		e2e.Await(t, fmt.Sprintf("%d agents are starting", agents), demoLimit, func() bool {
			_, err := os.Stat(filepath.Join(lab.DefaultDirectory, name))
			return err == nil && len(e2e.AgentIDs(t, name)) >= agents // they start together
		})
		ids := e2e.AgentIDs(t, name)
		insist(t, cmd.Process, syscall.SIGINT, ended)
		const words = "waymark-lab: tidying up; further signals are ignored until that is done\n" +
			"waymark-lab: interrupted; everything was removed\n"
		if code := e2e.ExitCode(err); code != 130 || stderr.String() != words {
			t.Errorf("interrupted with %d agents: code %d, %v, stderr\n%s", agents, code, err, &stderr)
		}
		e2e.CheckNothingLeft(t, name, ids)
	}
}

// An interrupted `lab down` still runs to its end.
func TestLabDownInterrupted(t *testing.T) {
	t.Parallel()
	name := e2e.LabName()
	if code, _, stderr := e2e.Waymark(t, "lab", "up", "--name", name, "line"); code != 0 {
		t.Fatalf("lab up: %d, %s", code, stderr)
	}
	t.Cleanup(func() { _, _, _ = e2e.Waymark(t, "lab", "down", "--name", name) })
	ids := e2e.AgentIDs(t, name)
	// A process that ignores SIGTERM makes `lab down` take a while.
	deaf := exec.Command(
		e2e.Program,
		"lab",
		"exec",
		"alpha",
		"--name",
		name,
		"--",
		"sh",
		"-c",
		"trap '' TERM; echo ready; while :; do sleep 0.1; done",
	)
	ready, err := deaf.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := deaf.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	go func() { _ = deaf.Wait() }()
	var stderr e2e.Transcript
	cmd := exec.Command(e2e.Program, "lab", "down", "--name", name)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { err = cmd.Wait(); close(ended) }()
	e2e.Await(t, "the agents have ended", demoLimit, func() bool {
		_, stdout, _ := e2e.Waymark(t, "lab", "show", "--name", name)
		return !strings.Contains(stdout, " agent run ")
	})
	insist(t, cmd.Process, syscall.SIGINT, ended)
	if code := e2e.ExitCode(err); code != 0 || stderr.String() != "waymark-lab: tidying up; further signals are ignored until that is done\n" {
		t.Errorf("code %d, %v, stderr\n%s", code, err, &stderr)
	}
	e2e.CheckNothingLeft(t, name, ids)
}

// `lab show` distinguishes live agents from dead ones. An agent started again by
// hand serves and ends like the lab's own.
func TestLabShowsAgents(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "line"))
	shown := func(row ...string) func() bool {
		return func() bool {
			_, stdout, _ := e2e.Waymark(t, "lab", "show", "--name", l.Name())
			for line := range strings.Lines(stdout) {
				if slices.Equal(strings.Fields(line), row) {
					return true
				}
			}
			return false
		}
	}
	if _, status, stderr := e2e.Waymark(t, "lab", "exec", "porthos", "--name", l.Name(), "--", e2e.Program, "status"); !strings.Contains(
		status,
		"node porthos",
	) ||
		strings.Contains(status, "warning: ") {
		t.Errorf("an agent of the line warns:\n%s%s", status, stderr)
	}
	ns := l.Name() + "-porthos"
	e2e.Await(t, "the agent is shown", 5*time.Second, shown("porthos", ns, "runs", "lo", "-", "2001:db8:ff::2/128"))
	e2e.SignalAgent(t, l, "porthos", syscall.SIGKILL)
	e2e.Await(t, "the agent's end is shown", 5*time.Second, shown("porthos", ns, "ended", "eth1", "aramis:eth0", "2001:db8:23::1/64"))
	e2e.Await(
		t,
		"its log is named",
		time.Second,
		shown(strings.Fields("the agent of porthos has ended; its log is "+filepath.Join(l.Directory(), "porthos.log"))...),
	)

	again := exec.Command(e2e.Program, "lab", "exec", "porthos", "--name", l.Name(), "--",
		e2e.Program, "agent", "run", "--config", filepath.Join(l.Directory(), "porthos.yaml"), "--node-name", "porthos")
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = again.Wait(); close(ended) }()
	e2e.Await(t, "the new agent is shown", 10*time.Second, shown("porthos", ns, "runs", "lo", "-", "2001:db8:ff::2/128"))
	t.Cleanup(func() { // runs before Raise takes the lab down
		if err := l.Down(t.Context()); err != nil {
			t.Error(err)
		}
		select {
		case <-ended:
		case <-time.After(patience.Of(5 * time.Second)):
			t.Error("the agent outlived the lab")
		}
	})
}

// `lab show` also shows a node without links.
func TestLabShowsLonelyNode(t *testing.T) {
	t.Parallel()
	top, err := lab.Parse("one.yaml", []byte("name: one\nnodes: [{name: hermit}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	l := e2e.Raise(t, top)
	if _, stdout, stderr := e2e.Waymark(t, "lab", "show", "--name", l.Name()); !strings.Contains(stdout, "\nhermit") {
		t.Errorf("lab show: %s%s", stdout, stderr)
	}
}

func TestLabCompletion(t *testing.T) {
	t.Parallel()
	name := e2e.LabName()
	if code, _, stderr := e2e.Waymark(t, "lab", "up", "--name", name, pairFile(t)); code != 0 {
		t.Fatalf("lab up: %d, %s", code, stderr)
	}
	t.Cleanup(func() { _, _, _ = e2e.Waymark(t, "lab", "down", "--name", name) })
	for _, tt := range []struct {
		args string
		want string // whole, the directive included
	}{
		{"up ", "ecmp\talpha - athos = porthos or dartagnan = aramis - beta, two equal paths\nline\talpha - athos - porthos - aramis - beta, one way through an IOAM domain\nsrv6\talpha - ingress = north1, north2 or south = egress - beta, two SRv6 policies, measured\n:0\n"},
		{"up l", "line\talpha - athos - porthos - aramis - beta, one way through an IOAM domain\n:0\n"},
		{"exec --name NAME ", "a\nb\n:4\n"},
		{"exec --name NAME a ", ":0\n"},
		{"exec --name no-such-lab ", ":4\n"},
		{"loss add --name NAME ", "a\nb\n:4\n"},
		{"loss del --name NAME b ", "eth0\n:4\n"},
		{"traffic --name NAME p", "ping\tping from a to b\n:4\n"},
		{"down --name NAME", name + "\n:4\n"},
	} {
		args := append([]string{"__complete", "lab"}, strings.Split(strings.ReplaceAll(tt.args, "NAME", name), " ")...)
		if code, stdout, _ := e2e.Waymark(t, args...); code != 0 || stdout != tt.want {
			t.Errorf("%q completes to code %d, %q, want %q", tt.args, code, stdout, tt.want)
		}
	}
}
