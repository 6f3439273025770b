// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/test/e2e"
)

// An agent without a capability that it needs says which, and what to do, and
// leaves nothing.
func TestStartWithoutCapabilities(t *testing.T) {
	t.Parallel()
	l := e2e.RaiseText(t, "chain", e2e.Chain)
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte("interfaces: [{name: eth0, role: [ingress, egress]}]\nmetrics: {listen: none}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const cure = "; run it as root, or with 'AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_RAW CAP_PERFMON CAP_SYS_ADMIN' in its systemd unit\n"
	for lost, want := range map[string]string{
		"-bpf,-sys_admin":     "waymark: the agent lacks CAP_BPF (to load BPF programs and maps)" + cure,
		"-perfmon,-sys_admin": "waymark: the agent lacks CAP_PERFMON (to let programs read the kernel's queue state)" + cure,
		"-net_admin":          "waymark: the agent lacks CAP_NET_ADMIN (to attach programs to interfaces)" + cure,
	} {
		out, err := l.Node("router").Command(t.Context(), "setpriv", "--bounding-set", lost, "--inh-caps", "-all", e2e.Program, "agent", "run", "--config", file).CombinedOutput()
		if err == nil || string(out) != want {
			t.Errorf("without %s: %v, %q; want %q", lost, err, out, want)
		}
	}
	place, err := l.Node("router").Place()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{place.Socket(), filepath.Join(api.Root, "bpf", place.ID)} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	if out, err := e2e.In(t, l, "router", "agent", "stop", "--remove"); err != nil {
		t.Errorf("%v, %s", err, out)
	}
}
