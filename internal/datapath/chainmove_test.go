// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pintest"
)

// ingressPin is where the link of the ingress hook in tcx is pinned.
func ingressPin(path string, i model.IfIndex) string {
	return filepath.Join(path, fmt.Sprintf("interface_%d", i), "ingress_tcx")
}

// beginMove does what an agent does to move a program until it has taken it off its place: both
// links have a program that does nothing.
func beginMove(t *testing.T, path string, i model.IfIndex) (from, to link.Link) {
	t.Helper()
	from, err := link.LoadPinnedLink(ingressPin(path, i), nil)
	if err != nil {
		t.Fatal(err)
	}
	to = attachStranger(t, i, true, stranger(t, ebpf.SchedCLS, "waymark_moves", -1), link.Head())
	if err := to.Pin(ingressPin(path, i) + "_moving"); err != nil {
		t.Fatal(err)
	}
	if err := from.Update(stranger(t, ebpf.SchedCLS, "waymark_moves", -1)); err != nil {
		t.Fatal(err)
	}
	return from, to
}

// programsAtIngress is how many programs the tcx hook has.
func programsAtIngress(t *testing.T, i model.IfIndex) int {
	t.Helper()
	found, err := link.QueryPrograms(link.QueryOptions{Target: int(i), Attach: ebpf.AttachTCXIngress})
	if err != nil {
		t.Error(err)
		return -1
	}
	return len(found.Programs)
}

// An agent that ended in the middle of a move leaves two links, of which one at most has our
// program: the next agent goes on with that one alone.
func TestMoveInterrupted(t *testing.T) {
	if tcModes(t)[0] != datapath.AttachTCX {
		t.Skip("this kernel has no tcx")
	}
	l := raise(t, "wm-dp-half")
	path := pintest.Directory(t)
	for _, tt := range []struct {
		end   string
		leave func(i model.IfIndex, ours *ebpf.Program) error
		found int // programs that the next agent leaves on the hook until it applies its configuration
	}{
		{"before the exchange", func(i model.IfIndex, _ *ebpf.Program) error {
			moving := attachStranger(t, i, true, stranger(t, ebpf.SchedCLS, "waymark_moves", -1), link.Head())
			return moving.Pin(ingressPin(path, i) + "_moving")
		}, 1},
		{"in the exchange", func(i model.IfIndex, _ *ebpf.Program) error {
			from, _ := beginMove(t, path, i)
			return from.Close()
		}, 0},
		{"after the exchange", func(i model.IfIndex, ours *ebpf.Program) error {
			from, to := beginMove(t, path, i)
			defer from.Close()
			return to.Update(ours)
		}, 1},
		{"after the old link has gone", func(i model.IfIndex, _ *ebpf.Program) error {
			main, err := link.LoadPinnedLink(ingressPin(path, i), nil)
			if err != nil {
				return err
			}
			defer main.Close()
			return main.Pin(ingressPin(path, i) + "_moving")
		}, 1},
	} {
		if err := l.Node("near").Do(func() error {
			d, err := datapath.Open(datapath.Options{PinPath: path})
			if err != nil {
				return err
			}
			i := index(t)
			c := configuration(i, datapath.AttachTCX)
			if err := d.Apply(c); err != nil {
				return err
			}
			in, _ := hooksOf(t, d)
			ours, err := ebpf.NewProgramFromID(ebpf.ProgramID(in.Program))
			if err != nil {
				return err
			}
			defer ours.Close()
			d.Close()
			if err := tt.leave(i, ours); err != nil {
				return err
			}
			if d, err = datapath.Open(datapath.Options{PinPath: path}); err != nil {
				return err
			}
			if got := programsAtIngress(t, i); got != tt.found {
				t.Errorf("%s: the next agent finds %d programs, want %d", tt.end, got, tt.found)
			}
			if err := d.Apply(c); err != nil {
				return err
			}
			if in, _ := hooksOf(t, d); !in.Attached || !in.InPlace || len(in.Before) != 0 || programsAtIngress(t, i) != 1 {
				t.Errorf("%s: %+v, and %d programs", tt.end, in, programsAtIngress(t, i))
			}
			if list, err := datapath.Attached(path); err != nil || len(list) != 1 || list[0].Ingress != datapath.AttachTCX {
				t.Errorf("%s: pinned %+v, %v", tt.end, list, err)
			}
			return d.Remove()
		}); err != nil {
			t.Fatal(err)
		}
	}
}
