// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// sharing is a way to keep the edge's program at porthos' eth1 from running.
type sharing struct {
	attach string
	warned health.Code
	do     func(t *testing.T, index int) (undo func())
}

var sharings = []sharing{
	{"tcx", health.HookDisplaced, func(t *testing.T, index int) func() {
		const pass = 0 // ends the chain, as Cilium's programs do
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "cil_to_netdev", Type: ebpf.SchedCLS, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, pass), asm.Return()}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := link.AttachTCX(link.TCXOptions{Program: program, Interface: index, Attach: ebpf.AttachTCXEgress, Anchor: link.Head()})
		if err != nil {
			t.Fatal(err)
		}
		return func() { l.Close(); program.Close() }
	}},
	{"clsact", health.HookDetached, func(t *testing.T, index int) func() {
		err := netlink.QdiscDel(&netlink.GenericQdisc{QdiscType: "clsact",
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}})
		if err != nil {
			t.Fatal(err)
		}
		return func() {}
	}},
}

// Where another program keeps the edge's from running, the agent closes the edge within
// seconds, and warns of an error.
func TestSharedEdge(t *testing.T) {
	t.Parallel()
	for _, s := range sharings {
		t.Run(s.attach, func(t *testing.T) {
			if !slices.Contains(e2e.TCModes(), config.Attach(s.attach)) {
				t.Skip("this kernel has no tcx")
			}
			l := e2e.RaiseText(t, "shared-"+s.attach, fmt.Sprintf(edges, s.attach))
			const count = 20
			marked := func() int {
				host := e2e.StartScan(t, l, "drop", "eth0")
				if _, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "drop", Count: count, Size: 100,
					Port: 9000}); err != nil {
					t.Error(err)
				}
				e2e.Settled(t, l, "athos", "encap_inserted")
				host.Stop(t)
				return int(host.Marked.Load())
			}
			hook := func() (state []string) {
				for _, h := range e2e.StatusInterface(t, l, "porthos", "eth1").Hooks {
					if h.Direction == "egress" {
						return append([]string{fmt.Sprint(h.Attached && h.InPlace)}, h.Before...)
					}
				}
				return nil
			}
			e2e.Await(t, "the agent looks at the hook", 5*time.Second, func() bool { return slices.Equal(hook(), []string{"true"}) })
			if n := marked(); n != 0 {
				t.Errorf("before: %d packets with IOAM left the domain", n)
			}
			dropped := e2e.Settled(t, l, "porthos", "boundary_dropped")
			if err := l.Node("porthos").Do(func() error {
				device, err := netlink.LinkByName("eth1")
				if err != nil {
					return err
				}
				t.Cleanup(s.do(t, device.Attrs().Index))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			var found []health.Warning
			e2e.Await(t, "the warning", 5*time.Second, func() bool {
				found = slices.DeleteFunc(e2e.StatusOf(t, l, "porthos").Warnings, func(w health.Warning) bool { return w.Code != s.warned })
				return len(found) > 0
			})
			e2e.Await(t, "the program is back", 5*time.Second, func() bool { return slices.Equal(hook(), []string{"true"}) })
			if w := found[0]; w.Severity != health.Error || w.Interface != "eth1" {
				t.Errorf("%+v, want an error at eth1", w)
			}
			if n := marked(); n != 0 {
				t.Errorf("afterwards, %d packets with IOAM left the domain", n)
			}
			if now := e2e.Settled(t, l, "porthos", "boundary_dropped"); now != dropped+count {
				t.Errorf("afterwards, the edge dropped %d of %d packets", now-dropped, count)
			}
		})
	}
}
