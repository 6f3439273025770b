// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
)

// agentProcess is the number of the running agent of a node.
func agentProcess(t *testing.T, l *lab.Lab, node string) int {
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

func signalAgent(t *testing.T, l *lab.Lab, node string, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(agentProcess(t, l, node), sig); err != nil {
		t.Fatal(err)
	}
}

// While agents are reloaded, stopped, killed and started again, not one packet
// is lost and not one goes without its treatment.
func TestAgentsComeAndGoUnderTraffic(t *testing.T) {
	t.Parallel()
	all := []string{"athos", "porthos", "aramis"}
	for _, tt := range []struct {
		name string
		act  func(t *testing.T, l *lab.Lab, node string)
	}{
		{"reload", reload},
		{"kill", func(t *testing.T, l *lab.Lab, node string) { restart(t, l, node, syscall.SIGKILL) }},
		{"terminate", func(t *testing.T, l *lab.Lab, node string) { restart(t, l, node, syscall.SIGTERM) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := raise(t, builtin(t, "line"))
			beta := startScan(t, l, "beta", "eth0")
			stop := startTraffic(t, l)
			for _, node := range all {
				tt.act(t, l, node)
			}
			r := stop()
			beta.stop(t)
			if r.Sent == 0 || r.Lost() > 0 || r.Duplicate > 0 {
				t.Errorf("traffic: %+v", r)
			}
			count := uint64(r.Sent)
			if n := beta.ioamBytes.Load(); n > 0 {
				t.Errorf("beta received %d bytes of IOAM", n)
			}
			for _, c := range []struct {
				node, outcome string
				want          uint64
			}{{"athos", "encap_tunneled", count}, {"porthos", "trace_filled", 2 * count}, {"aramis", "tunnel_decapsulated", count}} {
				if got := counter(t, l, c.node, c.outcome); got != c.want {
					t.Errorf("%s: %s is %d, want %d", c.node, c.outcome, got, c.want)
				}
			}
		})
	}
}

// startTraffic sends datagrams, one per millisecond, until stop is called, which
// gives their sum. Where patience is asked for they leave the agents time: the
// verifier, and not the reload, would be what they disturb.
func startTraffic(t *testing.T, l *lab.Lab) (stop func() lab.TrafficResult) {
	t.Helper()
	const burst = 250
	enough, done := make(chan struct{}), make(chan lab.TrafficResult, 1)
	go func() {
		var sum lab.TrafficResult
		defer func() { done <- sum }()
		for {
			r, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: burst, Interval: patience.Of(time.Millisecond), Size: 100, Port: 9000})
			if t.Context().Err() != nil { // the test has failed already
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			sum.Sent += r.Sent
			sum.Received += r.Received
			sum.Duplicate += r.Duplicate
			select {
			case <-enough:
				return
			default:
			}
		}
	}()
	stop = sync.OnceValue(func() lab.TrafficResult {
		close(enough)
		return <-done
	})
	t.Cleanup(func() { stop() })
	return stop
}

// reload changes an agent's file several times and waits for each change.
func reload(t *testing.T, l *lab.Lab, node string) {
	t.Helper()
	place, err := l.Node(node).Place()
	if err != nil {
		t.Fatal(err)
	}
	client, before := api.NewClient(place.Socket()), string(l.Topology().Node(node).Agent.Config)
	for data := 1; data <= 5; data++ {
		changed := strings.Replace(before, "{id: 123}", fmt.Sprintf("{id: 123, data: 0x%08x}", data), 1)
		if changed == before {
			t.Fatalf("the configuration of %s has no plain namespace", node)
		}
		if err := os.WriteFile(filepath.Join(l.Directory(), node+".yaml"), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		signalAgent(t, l, node, syscall.SIGHUP)
		await(t, "the new configuration", 30*time.Second, func() bool { // programs are verified meanwhile
			running, err := client.Config(t.Context())
			return err == nil && strings.Contains(string(running), fmt.Sprintf("0x%08x", data))
		})
	}
}

// restart ends an agent by a signal and starts it again.
func restart(t *testing.T, l *lab.Lab, node string, sig syscall.Signal) {
	t.Helper()
	pid := agentProcess(t, l, node)
	signalAgent(t, l, node, sig)
	await(t, "the agent's end", 10*time.Second, func() bool { return syscall.Kill(pid, 0) != nil })
	time.Sleep(100 * time.Millisecond) // packets go on without it
	if _, err := l.Node(node).StartAgent(t.Context(), l.Topology().Node(node).Agent.Config); err != nil {
		t.Fatal(err)
	}
}
