// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"log/slog"
	"net/netip"
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
		instance, err := api.Here()
		if err != nil {
			t.Error(err)
			return
		}
		if left := Left(instance); left != nil {
			t.Errorf("left before there was an agent: %v", left)
		}
		pins, err := PreparePins(api.Root)
		if err != nil {
			t.Error(err)
			return
		}
		d, err := datapath.Open(datapath.Options{PinPath: pins.Path(instance)})
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
			Decapsulations: []model.Decapsulation{{TunnelDestination: netip.MustParseAddr("2001:db8:3::1")}},
		}})
		if err != nil {
			t.Error(err)
		}
		d.Close()
		if left := Left(instance); !slices.Equal(left, []string{"wma"}) {
			t.Errorf("left on %v, want wma", left)
		}
		held, err := Hold(instance)
		if err != nil {
			t.Error(err)
			return
		}
		if left := Left(instance); left != nil {
			t.Errorf("left while an agent starts: %v", left)
		}
		held.Release()
		open := func(pins string) (Removable, error) { return datapath.Open(datapath.Options{PinPath: pins}) }
		removed, ws, err := Remove(instance, open)
		if !removed || err != nil || len(ws) != 1 || ws[0].Code != health.TunnelEndRemoved || !strings.Contains(ws[0].Text, "2001:db8:3::1") {
			t.Errorf("removed %v, %v, warnings %+v; want one of the tunnel that ended here", removed, err, ws)
		}
		if left := Left(instance); left != nil {
			t.Errorf("left after the removal: %v", left)
		}
	})
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
	leave := func(instance api.Instance) {
		t.Helper()
		held, err := Hold(instance)
		if err != nil {
			t.Fatal(err)
		}
		held.Release()
		d, err := datapath.Open(datapath.Options{PinPath: filepath.Join(pins, instance.ID)})
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
	for _, instance := range []api.Instance{gone, own} {
		agenttest.Eventually(t, "the namespace is gone", func() bool {
			over, err := datapath.NamespaceGone(filepath.Join(pins, instance.ID))
			return over && err == nil
		})
	}

	log := &agenttest.Log{}
	Pins{root: pins}.Sweep(root, own, slog.New(slog.NewTextHandler(log, nil)))
	for _, path := range []string{gone.Dir, filepath.Join(pins, gone.ID)} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	for _, instance := range []api.Instance{alive, own, unknown} {
		for _, path := range []string{instance.Dir, filepath.Join(pins, instance.ID)} {
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
