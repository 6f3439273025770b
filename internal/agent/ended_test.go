// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/testnet"
)

// TestLeftByAnEndedAgent lists and removes the programs left by an agent that ended
// without removing them.
func TestLeftByAnEndedAgent(t *testing.T) {
	testnet.Alone(t, func() {
		testnet.AddVeth(t, "wma", "wmb", 1600)
		place, err := api.Here()
		if err != nil {
			t.Error(err)
			return
		}
		if left := Left(place); left != nil {
			t.Errorf("left before there was an agent: %v", left)
		}
		d, _, err := openDatapath(place, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Error(err)
			return
		}
		device, err := netlink.LinkByName("wma")
		if err != nil {
			t.Error(err)
			return
		}
		err = d.Apply(datapath.Config{Node: model.NodeConfig{
			Interfaces:     []model.Interface{{Index: model.IfIndex(device.Attrs().Index), Name: "wma", Roles: model.RoleIngress}},
			Decapsulations: []model.Decapsulation{{TunnelDestination: mustAddr("2001:db8:3::1")}},
		}})
		if err != nil {
			t.Error(err)
		}
		d.Close()
		if left := Left(place); !slices.Equal(left, []string{"wma"}) {
			t.Errorf("left on %v, want wma", left)
		}
		held, err := acquire(place)
		if err != nil {
			t.Error(err)
			return
		}
		if left := Left(place); left != nil {
			t.Errorf("left while an agent starts: %v", left)
		}
		held.release()
		open := func(pins string) (Datapath, error) { return datapath.Open(datapath.Options{PinPath: pins}) }
		removed, ws, err := Remove(place, open)
		if !removed || err != nil || len(ws) != 1 || ws[0].Code != health.TunnelEndRemoved || !strings.Contains(ws[0].Text, "2001:db8:3::1") {
			t.Errorf("removed %v, %v, warnings %+v; want one of the tunnel that ended here", removed, err, ws)
		}
		if left := Left(place); left != nil {
			t.Errorf("left after the removal: %v", left)
		}
	})
}

// A reload that removes the ends of tunnels names them, also in the log.
func TestReloadWarnsOfRemovedTunnelEnds(t *testing.T) {
	const base = "node: {id: 2}\nmetrics: {listen: none}\ninterfaces: [{name: eth0, role: [ingress]}]\nnamespaces: [{id: 7}]\n"
	const one, other = `{tunnel-destination: "2001:db8:ff::3"}`, `{tunnel-destination: "2001:db8:ff::4", sources: ["2001:db8:ff::7"]}`
	h := newHarness(t, base+"decapsulations: ["+one+", "+other+"]\n")
	h.Start()
	for _, tt := range []struct {
		ends string
		want []string
	}{
		{one + ", " + other, nil},
		{`{tunnel-destination: "2001:db8:ff::4"}`, []string{"2001:db8:ff::3"}},
		{"", []string{"2001:db8:ff::4"}},
		{"", nil},
	} {
		h.Write(base + "decapsulations: [" + tt.ends + "]\n")
		done, err := h.Client.Reload(t.Context())
		if err != nil || done.Warnings == nil {
			t.Fatalf("%v: %+v", err, done)
		}
		var got []string
		for _, w := range done.Warnings {
			if w.Code == health.TunnelEndRemoved {
				got = append(got, w.Text)
			}
		}
		if len(got) != len(tt.want) || len(got) == 1 && !strings.Contains(got[0], tt.want[0]) {
			t.Errorf("[%s]: warns %q, want of %q", tt.ends, got, tt.want)
		}
	}
	if n := strings.Count(h.Log.String(), "warning=tunnel_end_removed"); n != 2 {
		t.Errorf("%d lines in the log, want 2:\n%s", n, h.Log)
	}
}

// TestSweep removes only the state of a namespace that is gone.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	pins := filepath.Join(root, "bpf")
	testnet.NeedRoot(t)
	if err := mountBPF(pins); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(pins, 0); err != nil {
			t.Error(err)
		}
	})
	leave := func(place api.Place) {
		t.Helper()
		held, err := acquire(place)
		if err != nil {
			t.Fatal(err)
		}
		held.release()
		d, err := datapath.Open(datapath.Options{PinPath: filepath.Join(pins, place.ID)})
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
	}
	gone, alive, own, unknown := api.At(root, 1), api.At(root, 2), api.At(root, 3), api.At(root, 4)
	var held *testnet.Namespace
	testnet.Alone(t, func() { leave(gone) })
	testnet.Alone(t, func() { leave(own) })
	testnet.Alone(t, func() {
		leave(alive)
		held = testnet.Here(t)
	})
	defer held.Close()
	testnet.Alone(t, func() { leave(unknown) })
	if err := os.Remove(filepath.Join(pins, unknown.ID, "loopback")); err != nil { // as another version may leave it
		t.Fatal(err)
	}
	foreign := filepath.Join(pins, "somebody-elses")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, place := range []api.Place{gone, own} {
		agenttest.Eventually(t, "the namespace is gone", func() bool {
			over, err := datapath.NamespaceGone(filepath.Join(pins, place.ID))
			return over && err == nil
		})
	}

	log := &agenttest.Log{}
	sweep(root, pins, own, slog.New(slog.NewTextHandler(log, nil)))
	for _, path := range []string{gone.Dir, filepath.Join(pins, gone.ID)} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	for _, place := range []api.Place{alive, own, unknown} {
		for _, path := range []string{place.Dir, filepath.Join(pins, place.ID)} {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("removed: %v", err)
			}
		}
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("removed: %v", err)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, gone.ID) {
		t.Errorf("the log says\n%s", text)
	}
}
