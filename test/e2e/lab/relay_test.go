// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

const twoNodes = `
name: pair
permanent-neighbours: true
nodes: [{name: left}, {name: right}]
links:
  - ends:
      - {node: left, interface: eth0, addresses: 2001:db8::1/64}
      - {node: right, interface: eth0, addresses: 2001:db8::2/64}
`

// startRelay runs a command, and waits until pings take as long as it says.
func startRelay(t *testing.T, l *lab.Lab, args ...string) (*exec.Cmd, *e2e.Transcript) {
	t.Helper()
	cmd, out := exec.Command(e2e.Program, append(append([]string{"lab"}, args...), "--name", l.Name())...), &e2e.Transcript{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	e2e.Await(t, "a delay", 5*time.Second, func() bool { return pingTime(t, l) >= 30*time.Millisecond })
	return cmd, out
}

func pingTime(t *testing.T, l *lab.Lab) time.Duration {
	t.Helper()
	r, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindPing, From: "left", To: "right", Count: 1, Interval: time.Millisecond, Size: 56})
	if err != nil {
		t.Fatal(err)
	}
	if r.Lost() > 0 {
		return 0
	}
	return r.RoundTrip[0]
}

// The command says what it did when it ends, however that happens. Killed, it leaves a
// link that works after a second.
func TestRelayCommand(t *testing.T) {
	t.Parallel()
	l := e2e.RaiseText(t, "pair", twoNodes)
	cmd, out := startRelay(t, l, "delay", "left", "eth0", "30ms", "--destination", "2001:db8::2")
	if _, other, err := e2e.Waymark(t, "lab", "reorder", "left", "eth0", "--every", "3", "--name", l.Name()); !strings.Contains(
		err,
		"another process already delays",
	) {
		t.Errorf("a second relay: %s%s", other, err)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); e2e.ExitCode(err) != 130 ||
		!strings.HasPrefix(out.String(), "left eth0 to right:eth0: delay 30ms destination 2001:db8::2/128\n    ") ||
		!strings.Contains(out.String(), " sent on, held for ") {
		t.Errorf("%v: %s", err, out)
	}
	code, text, diagnosis := e2e.Waymark(
		t,
		"lab",
		"reorder",
		"left",
		"eth0",
		"--every",
		"3",
		"--by",
		"2",
		"--for",
		"100ms",
		"--json",
		"--name",
		l.Name(),
	)
	var done []lab.Relayed
	if err := json.Unmarshal([]byte(text), &done); err != nil || code != 0 || len(done) != 1 || done[0].Every != 3 || done[0].By != 2 ||
		done[0].Peer != "right:eth0" {
		t.Errorf("%d: %s%s (%v)", code, text, diagnosis, err)
	}
	cmd, _ = startRelay(t, l, "delay", "left", "eth0", "30ms", "--jitter", "1us")
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	e2e.Await(t, "a link without a relay", 3*time.Second, func() bool { d := pingTime(t, l); return d > 0 && d < 20*time.Millisecond })
	cmd, out = startRelay(t, l, "delay", "left", "eth0", "30ms")
	if code, text, diagnosis := e2e.Waymark(t, "lab", "down", "--name", l.Name()); code != 0 {
		t.Errorf("lab down: %d, %s%s", code, text, diagnosis)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "sent on") {
		t.Errorf("ended by lab down: %v, %s", err, out)
	}
	e2e.CheckNothingLeft(t, l.Name(), nil)
}
