// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
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
	name := labName()
	down := func() { _, _, _ = waymark(t, "lab", "down", "--name", name) }
	if code, _, stderr := waymark(t, "lab", "up", "--name", name, pairFile(t)); code != 0 {
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
		{[]string{"exec", "--name", name, "b", "ip", "-6", "addr", "show", "dev", "eth0"}, 0, "2001:db8::2/64", ""},
		{[]string{"exec", "--name", name, "c", "--", "true"}, 1, "", "has no node c; it has a, b"},
		{[]string{"exec", "--name", name, "a", "--", "no-such-command"}, 1, "", "no-such-command"},
		{[]string{"traffic", "--name", name}, 0, "ping: ping from a to b, 3 sent, 3 received", ""},
		{[]string{"traffic", "--name", name, "flood"}, 2, "", "no traffic called flood; it has ping"},
		{[]string{"show", "--name", name}, 0, name + "-a", ""},
		{[]string{"show", "--name", "nowhere"}, 1, "", "no lab called nowhere is up"},
		{[]string{"up", "--name", "-bad"}, 1, "", "is not a name"},
		{[]string{"up", "ring"}, 1, "", "there are ecmp, line"},
		{[]string{"nonsense"}, 2, "", "unknown command"},
	} {
		code, stdout, stderr := waymark(t, append([]string{"lab"}, tt.args...)...)
		if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("lab %v: code %d, stdout %q, stderr %q; want %d, %q, %q", tt.args, code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
	code, stdout, _ := waymark(t, "lab", "show", "--name", name, "--json")
	var status lab.Status
	if err := json.Unmarshal([]byte(stdout), &status); code != 0 || err != nil || len(status.Nodes) != 2 {
		t.Errorf("lab show --json: %d, %v, %s", code, err, stdout)
	}
	if code, _, stderr := waymark(t, "lab", "down", "--name", name); code != 0 {
		t.Errorf("lab down: %d, %s", code, stderr)
	}
	checkNothingLeft(t, name, nil)
	if code, _, _ := waymark(t, "lab", "down", "--name", name); code != 1 {
		t.Errorf("a second lab down: code %d, want 1", code)
	}
}

// What `lab exec` left running ends with the lab.
func TestLabDownEndsExec(t *testing.T) {
	name := labName()
	if code, _, stderr := waymark(t, "lab", "up", "--name", name, pairFile(t)); code != 0 {
		t.Fatalf("lab up: %d, %s", code, stderr)
	}
	cmd := exec.Command(program, "lab", "exec", "--name", name, "a", "--", "sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	defer func() { _ = cmd.Process.Kill() }()
	await(t, "the command is recorded", 5*time.Second, func() bool {
		_, stdout, _ := waymark(t, "lab", "show", "--name", name)
		return strings.Contains(stdout, fmt.Sprintf("process %d in a: sleep 300", cmd.Process.Pid))
	})
	if code, _, stderr := waymark(t, "lab", "down", "--name", name); code != 0 {
		t.Errorf("lab down: %d, %s", code, stderr)
	}
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
		t.Error("the command outlived the lab")
	}
	checkNothingLeft(t, name, nil)
}

// An interrupted `lab up` leaves nothing, whenever the signal comes.
func TestLabUpInterrupted(t *testing.T) {
	for _, after := range []time.Duration{20 * time.Millisecond, 60 * time.Millisecond, 300 * time.Millisecond} {
		name := labName()
		cmd := exec.Command(program, "lab", "up", "--name", name, "line")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(after)
		ids := agentIDs(t, name)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil { // it was up before the signal came
			if code, _, stderr := waymark(t, "lab", "down", "--name", name); code != 0 {
				t.Errorf("lab down: %d, %s", code, stderr)
			}
		}
		checkNothingLeft(t, name, ids)
	}
}
