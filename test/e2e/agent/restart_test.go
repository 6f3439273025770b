// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// While agents are reloaded, stopped, killed and started again, no packet is lost
// and none misses its treatment.
func TestAgentsComeAndGoUnderTraffic(t *testing.T) {
	t.Parallel()
	all := []string{"athos", "porthos", "aramis"}
	for _, tt := range []struct {
		name string
		act  func(t *testing.T, l *lab.Lab, node string)
	}{
		{"reload", reload},
		{"kill", func(t *testing.T, l *lab.Lab, node string) { e2e.Restart(t, l, node, syscall.SIGKILL) }},
		{"terminate", func(t *testing.T, l *lab.Lab, node string) { e2e.Restart(t, l, node, syscall.SIGTERM) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := e2e.Raise(t, e2e.Builtin(t, "line"))
			beta := e2e.StartScan(t, l, "beta", "eth0")
			stop := e2e.StartTraffic(t, l)
			for _, node := range all {
				tt.act(t, l, node)
			}
			r := stop()
			beta.Stop(t)
			if r.Sent == 0 || r.Lost() > 0 || r.Duplicate > 0 {
				t.Errorf("traffic: %+v", r)
			}
			count := uint64(r.Sent)
			if n := beta.IOAMBytes.Load(); n > 0 {
				t.Errorf("beta received %d bytes of IOAM", n)
			}
			for _, c := range []struct {
				node, outcome string
				want          uint64
			}{{"athos", "encap_tunneled", count}, {"porthos", "trace_filled", 2 * count}, {"aramis", "tunnel_decapsulated", count}} {
				if got := e2e.Counter(t, l, c.node, c.outcome); got != c.want {
					t.Errorf("%s: %s is %d, want %d", c.node, c.outcome, got, c.want)
				}
			}
		})
	}
}

// reload changes an agent's file several times and waits for each change.
func reload(t *testing.T, l *lab.Lab, node string) {
	t.Helper()
	instance, err := l.Node(node).Instance()
	if err != nil {
		t.Fatal(err)
	}
	client, before := api.NewClient(instance.Socket()), string(l.Topology().Node(node).Agent.Config)
	for data := 1; data <= 5; data++ {
		changed := strings.Replace(before, "{id: 123}", fmt.Sprintf("{id: 123, data: 0x%08x}", data), 1)
		if changed == before {
			t.Fatalf("the configuration of %s has no plain namespace", node)
		}
		if err := os.WriteFile(filepath.Join(l.Directory(), node+".yaml"), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		e2e.SignalAgent(t, l, node, syscall.SIGHUP)
		e2e.Await(t, "the new configuration", 30*time.Second, func() bool { // loading and verifying programs takes time
			running, err := client.Config(t.Context())
			return err == nil && strings.Contains(string(running), fmt.Sprintf("0x%08x", data))
		})
	}
}
