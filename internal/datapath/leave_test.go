// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"errors"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pintest"
)

// tcxPrograms are the names of the tcx programs on both hooks of interfaces.
func tcxPrograms(t *testing.T, interfaces []model.Interface) map[string]int {
	t.Helper()
	names := make(map[string]int)
	for _, i := range interfaces {
		for _, hook := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			found, err := link.QueryPrograms(link.QueryOptions{Target: int(i.Index), Attach: hook})
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range found.Programs {
				program, err := ebpf.NewProgramFromID(p.ID)
				if err != nil {
					continue // it has just gone
				}
				if info, err := program.Info(); err == nil {
					names[info.Name]++
				}
				program.Close()
			}
		}
	}
	return names
}

// The kernel takes some milliseconds for each program that it takes off a tcx hook. Whoever
// leaves many interfaces does not wait for all of them: at once nothing is treated any more,
// and nothing is pinned. It does not matter whether all interfaces are left, or some, or the
// configuration that brought them fails.
func TestManyInterfacesAreLeftAtOnce(t *testing.T) {
	if tcModes(t)[0] != datapath.AttachTCX {
		t.Skip("this kernel has no tcx")
	}
	const number = 60
	l := raise(t, "wm-dp-leave")
	err := l.Node("near").Do(func() error {
		cfg := manyInterfaces(t, number)
		cfg.Node.Encapsulations = nil
		for index := range cfg.Attach {
			cfg.Attach[index] = datapath.AttachTCX
		}
		all := cfg.Node.Interfaces
		pins := pintest.Directory(t)
		d, err := datapath.Open(datapath.Options{PinPath: pins})
		if err != nil {
			return err
		}
		isLeft := func(what string, interfaces []model.Interface) {
			t.Helper()
			found := tcxPrograms(t, interfaces)
			t.Logf("%s: %v are still on the hooks of %d interfaces", what, found, len(interfaces))
			delete(found, "waymark_ended")
			if len(found) > 0 {
				t.Errorf("%s: %v still treat packets", what, found)
			}
			d.AwaitLeft()
			if found := tcxPrograms(t, interfaces); len(found) > 0 {
				t.Errorf("%s: %v have never been taken off", what, found)
			}
		}

		failing := cfg // the last interface takes no program: XDP is not for loopback
		failing.Node.Interfaces = append(
			all[:number:number],
			model.Interface{Index: 1, Name: "lo", ID: 1000, IDWide: 1000, Roles: model.RoleIngress},
		)
		failing.Attach[1] = datapath.AttachXDP
		if err := d.Apply(failing); err == nil {
			t.Error("XDP in the driver of loopback was not refused")
		}
		isLeft("a start that failed", all)

		if err := d.Apply(cfg); err != nil {
			return err
		}
		cfg.Node.Interfaces = all[:1]
		if err := d.Apply(cfg); err != nil {
			return err
		}
		isLeft("a configuration without them", all[1:])
		if found := tcxPrograms(t, all[:1]); found["ingress_tc"] != 1 || found["egress_tc"] != 1 {
			t.Errorf("the interface that is still served has %v", found)
		}

		cfg.Node.Interfaces = all
		if err := d.Apply(cfg); err != nil {
			return err
		}
		if err := d.Remove(); err != nil {
			return err
		}
		isLeft("removal", all)
		if _, err := os.Stat(pins); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the pins are still there: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
