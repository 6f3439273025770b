// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pintest"
)

// stranger is a program of someone else, which returns one verdict.
func stranger(t *testing.T, kind ebpf.ProgramType, name string, verdict int32) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: kind, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// attachStranger attaches a tcx program, as Cilium does: before all others, by a link.
func attachStranger(t *testing.T, i model.IfIndex, ingress bool, p *ebpf.Program, anchor link.Anchor) link.Link {
	t.Helper()
	kind := ebpf.AttachTCXEgress
	if ingress {
		kind = ebpf.AttachTCXIngress
	}
	l, err := link.AttachTCX(link.TCXOptions{Program: p, Interface: int(i), Attach: kind, Anchor: anchor})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

const tcxPass = 0 // ends the chain: what Cilium's programs return for packets that go on

func all(model.IfIndex, datapath.AttachMode) bool { return true }

// hooksOf are the states of the two hooks of the only interface.
func hooksOf(t *testing.T, d *datapath.Datapath) (ingress, egress datapath.HookState) {
	t.Helper()
	for _, h := range d.Hooks(all) {
		if h.Fault != "" {
			t.Errorf("%+v", h)
		}
		if h.Ingress {
			ingress = h
		} else {
			egress = h
		}
	}
	return ingress, egress
}

// neighbourly runs a test on near's interface with programs in a mode.
func neighbourly(
	t *testing.T,
	name string,
	mode datapath.AttachMode,
	do func(t *testing.T, l *lab.Lab, d *datapath.Datapath, c datapath.Config),
) {
	t.Helper()
	l := raise(t, name)
	if err := l.Node("near").Do(func() error {
		d, err := datapath.Open(datapath.Options{PinPath: pintest.Directory(t)})
		if err != nil {
			return err
		}
		defer d.Remove()
		do(t, l, d, configuration(index(t), mode))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func names(list []datapath.OtherProgram) (names []string) {
	for _, n := range list {
		names = append(names, n.Name)
	}
	return names
}

// counted sends pings, and returns how many packets the hooks saw.
func counted(t *testing.T, l *lab.Lab, d *datapath.Datapath) (ingress, egress uint64) {
	t.Helper()
	in, out := seen(t, d)
	if _, err := l.Send(t.Context(), l.Topology().Traffic[0]); err != nil {
		t.Fatal(err)
	}
	in2, out2 := seen(t, d)
	return in2 - in, out2 - out
}

// A program that ends the tcx chain stands before ours: it is listed, ours sees nothing, and
// sees all again once it has moved to its place.
func TestBehindAnEndOfTheChain(t *testing.T) {
	if tcModes(t)[0] != datapath.AttachTCX {
		t.Skip("this kernel has no tcx")
	}
	neighbourly(t, "wm-dp-chain", datapath.AttachTCX, func(t *testing.T, l *lab.Lab, d *datapath.Datapath, c datapath.Config) {
		i := index(t)
		attachStranger(t, i, true, stranger(t, ebpf.SchedCLS, "cil_from_netdev", tcxPass), link.Head())
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		if in, _ := hooksOf(t, d); !in.Attached || !in.InPlace || len(in.Before) != 0 {
			t.Errorf("attached after a stranger: %+v, want first", in)
		}
		attachStranger(t, i, true, stranger(t, ebpf.SchedCLS, "cil_late", tcxPass), link.Head())
		attachStranger(t, i, false, stranger(t, ebpf.SchedCLS, "cil_to_netdev", tcxPass), link.Head())
		in, out := hooksOf(t, d)
		if !in.Attached || in.InPlace || !slices.Equal(names(in.Before), []string{"cil_late"}) || !out.Attached || out.InPlace ||
			!slices.Equal(names(out.Before), []string{"cil_to_netdev"}) {
			t.Errorf("strangers first: %+v, %+v", in, out)
		}
		if in, out := counted(t, l, d); in != 0 || out != 0 {
			t.Errorf("behind a program that ends the chain, the hooks saw %d and %d packets", in, out)
		}
		for _, ingress := range []bool{true, false} {
			if err := d.Reposition(i, ingress); err != nil {
				t.Fatal(err)
			}
		}
		in, out = hooksOf(t, d)
		if !in.Attached || !in.InPlace || len(in.Before) != 0 || !out.Attached || !out.InPlace || len(out.Before) != 0 || !d.Intact() {
			t.Errorf("after the move: %+v, %+v", in, out)
		}
		if in, out := counted(t, l, d); in < 20 || out < 20 {
			t.Errorf("after the move, the hooks saw %d and %d packets, want all", in, out)
		}
	})
}

// The programs stand where the setting says, and names that come and go move them.
func TestPlaces(t *testing.T) {
	if tcModes(t)[0] != datapath.AttachTCX {
		t.Skip("this kernel has no tcx")
	}
	neighbourly(t, "wm-dp-place", datapath.AttachTCX, func(t *testing.T, _ *lab.Lab, d *datapath.Datapath, c datapath.Config) {
		i := index(t)
		const next = -1
		attachStranger(t, i, true, stranger(t, ebpf.SchedCLS, "one", next), link.Tail())
		two := attachStranger(t, i, true, stranger(t, ebpf.SchedCLS, "two", next), link.Tail())
		for _, tt := range []struct {
			place  string
			before []string
		}{
			{"last", []string{"one", "two"}}, {"before two", []string{"one"}}, {"first", nil},
			{"after one", []string{"one"}}, {"after two", []string{"one", "two"}}, {"after absent", nil},
		} {
			p, err := model.ParsePlace(tt.place)
			if err != nil {
				t.Fatal(err)
			}
			c.Places = map[model.IfIndex]model.Place{i: p}
			if err := d.Apply(c); err != nil {
				t.Fatal(err)
			}
			if in, _ := hooksOf(t, d); !in.InPlace {
				if err := d.Reposition(i, true); err != nil {
					t.Fatal(err)
				}
			}
			if in, _ := hooksOf(t, d); !in.InPlace || !slices.Equal(names(in.Before), tt.before) {
				t.Errorf("%s: %+v, want after %v", tt.place, in, tt.before)
			}
		}
		c.Places[i], _ = model.ParsePlace("after two")
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		if in, _ := hooksOf(t, d); in.InPlace {
			t.Error("first, but to be after two, counts as in place")
		}
		two.Close()
		if in, _ := hooksOf(t, d); !in.InPlace {
			t.Errorf("the named program has gone: %+v, want first", in)
		}
	})
}

// Programs taken off by force are missed, and Apply puts them back, edges first.
func TestTakenOff(t *testing.T) {
	for _, mode := range append([]datapath.AttachMode{datapath.AttachXDP}, tcModes(t)...) {
		t.Run(string(mode), func(t *testing.T) {
			neighbourly(t, "wm-dp-off", mode, func(t *testing.T, l *lab.Lab, d *datapath.Datapath, c datapath.Config) {
				if err := d.Apply(c); err != nil {
					t.Fatal(err)
				}
				if in, out := hooksOf(t, d); !in.Attached || !out.Attached {
					t.Fatalf("at first: %+v, %+v", in, out)
				}
				takeOff(t, d, index(t))
				if in, _ := hooksOf(t, d); in.Attached || d.Intact() {
					t.Errorf("taken off: %+v", in)
				}
				if err := d.Apply(c); err != nil {
					t.Fatal(err)
				}
				if in, out := hooksOf(t, d); !in.Attached || !in.InPlace || !in.PutBack || !out.Attached || !out.InPlace || !d.Intact() {
					t.Errorf("put back: %+v, %+v", in, out)
				}
				if in, out := hooksOf(t, d); in.PutBack || out.PutBack {
					t.Errorf("put back once: %+v, %+v", in, out)
				}
				if in, out := counted(t, l, d); in < 20 || out < 20 {
					t.Errorf("put back, the hooks saw %d and %d packets", in, out)
				}
			})
		})
	}
}

// takeOff takes our program off the ingress hook.
func takeOff(t *testing.T, d *datapath.Datapath, i model.IfIndex) {
	t.Helper()
	in, _ := hooksOf(t, d)
	takeHookOff(t, in, i)
}

// takeHookOff detaches a hook, by bpf_link_detach or with the clsact qdisc.
func takeHookOff(t *testing.T, h datapath.HookState, i model.IfIndex) {
	t.Helper()
	if h.Mode == datapath.AttachClsact {
		qdisc := &netlink.GenericQdisc{QdiscType: "clsact",
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: int(i), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
		if err := netlink.QdiscDel(qdisc); err != nil {
			t.Fatal(err)
		}
		return
	}
	var id link.ID
	for l := new(link.Iterator); l.Next(); {
		if info, err := l.Link.Info(); err == nil && uint32(info.Program) == h.Program {
			id = info.ID
		}
	}
	l, err := link.NewFromID(id)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Detach(); err != nil {
		t.Fatal(err)
	}
}

// addFilter adds a filter of others, a BPF program, at ingress.
func addFilter(t *testing.T, i model.IfIndex, priority uint16, name string, protocol uint16) {
	t.Helper()
	if err := netlink.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: int(i), Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: priority,
			Protocol: protocol},
		Fd: stranger(t, ebpf.SchedCLS, name, tcxPass).FD(), Name: name, DirectAction: true,
	}); err != nil {
		t.Fatal(err)
	}
}

// Filters of others with a lower priority number run before ours in clsact, and so does all
// of tcx.
func TestBehindFilters(t *testing.T) {
	neighbourly(t, "wm-dp-filters", datapath.AttachClsact, func(t *testing.T, l *lab.Lab, d *datapath.Datapath, c datapath.Config) {
		i := index(t)
		c.Places = map[model.IfIndex]model.Place{i: {Kind: model.PlaceLast}}
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		addFilter(t, i, 1, "cil_old", unix.ETH_P_ALL)
		addFilter(t, i, 7, "other", unix.ETH_P_ALL)
		if in, _ := hooksOf(t, d); !in.InPlace || !slices.Equal(names(in.Before), []string{"cil_old", "other"}) {
			t.Errorf("last: %+v", in)
		}
		if in, _ := counted(t, l, d); in != 0 {
			t.Errorf("behind a filter that ends the chain, the hook saw %d packets", in)
		}
		for _, tt := range []struct {
			place  string
			before []string
		}{{"first", nil}, {"after cil_old", []string{"cil_old"}}} {
			c.Places[i], _ = model.ParsePlace(tt.place)
			if err := d.Apply(c); err != nil {
				t.Fatal(err)
			}
			if in, _ := hooksOf(t, d); in.InPlace {
				t.Errorf("%s: in place before it has moved: %+v", tt.place, in)
			}
			if err := d.Reposition(i, true); err != nil {
				t.Fatal(err)
			}
			if in, _ := hooksOf(t, d); !in.InPlace || !slices.Equal(names(in.Before), tt.before) {
				t.Errorf("%s: %+v, want after %v", tt.place, in, tt.before)
			}
		}
		c.Places[i] = model.Place{}
		if err := errors.Join(d.Apply(c), d.Reposition(i, true)); err != nil {
			t.Fatal(err)
		}
		if in, _ := counted(t, l, d); in < 20 {
			t.Errorf("first, the hook saw %d packets", in)
		}
		if tcModes(t)[0] == datapath.AttachTCX {
			attachStranger(t, i, true, stranger(t, ebpf.SchedCLS, "in_tcx", -1), link.Head())
			if in, _ := hooksOf(t, d); !in.InPlace || !slices.Equal(names(in.Before), []string{"in_tcx"}) {
				t.Errorf("tcx before clsact: %+v", in)
			}
		}
	})
}

// A priority that a filter of another kind or protocol has cannot be ours: the nearest one is in
// place, and is not left again. Filters of other chains are not before ours.
func TestPlaceNextTo(t *testing.T) {
	neighbourly(t, "wm-dp-nextto", datapath.AttachClsact, func(t *testing.T, l *lab.Lab, d *datapath.Datapath, c datapath.Config) {
		i, chain := index(t), uint32(5)
		qdisc := &netlink.GenericQdisc{QdiscType: "clsact",
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: int(i), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
		at := func(priority, protocol uint16) netlink.FilterAttrs {
			return netlink.FilterAttrs{LinkIndex: int(i), Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: priority, Protocol: protocol}
		}
		elsewhere := at(1, unix.ETH_P_ALL)
		elsewhere.Chain = &chain
		next := stranger(t, ebpf.SchedCLS, "other", -1)
		if err := errors.Join(netlink.QdiscAdd(qdisc),
			netlink.FilterAdd(&netlink.BpfFilter{FilterAttrs: elsewhere, Fd: next.FD(), Name: "other", DirectAction: true}),
			netlink.FilterAdd(&netlink.BpfFilter{FilterAttrs: at(1, unix.ETH_P_IPV6), Fd: next.FD(), Name: "other", DirectAction: true}),
			netlink.FilterAdd(&netlink.BpfFilter{FilterAttrs: at(2, unix.ETH_P_ALL), Fd: next.FD(), Name: "other", DirectAction: true}),
			netlink.FilterAdd(&netlink.BpfFilter{FilterAttrs: at(65534, unix.ETH_P_IPV6), Fd: next.FD(), Name: "other",
				DirectAction: true})); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			place  string
			before []string
		}{{"first", []string{"other"}}, {"last", []string{"other", "other", "other"}}, {"before other", []string{"other"}}} {
			c.Places = map[model.IfIndex]model.Place{}
			c.Places[i], _ = model.ParsePlace(tt.place)
			if err := errors.Join(d.Apply(c), d.Reposition(i, true)); err != nil {
				t.Fatal(err)
			}
			if in, _ := hooksOf(t, d); !in.Attached || !in.InPlace || !slices.Equal(names(in.Before), tt.before) {
				t.Errorf("%s: %+v, want after %v", tt.place, in, tt.before)
			}
		}
		if in, _ := counted(t, l, d); in < 20 {
			t.Errorf("the hook saw %d packets", in)
		}
	})
}

// Where another program has the device's XDP hook, as dispatchers of libxdp and bpfman do,
// ours is in tc, and that program is listed.
func TestBehindXDP(t *testing.T) {
	neighbourly(t, "wm-dp-dispatcher", datapath.AttachAuto, func(t *testing.T, l *lab.Lab, d *datapath.Datapath, c datapath.Config) {
		const pass = 2
		x, err := link.AttachXDP(
			link.XDPOptions{Program: stranger(t, ebpf.XDP, "xdp_dispatcher", pass), Interface: int(index(t)), Flags: link.XDPDriverMode},
		)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		c.Node.Namespaces[0].Remove = true // auto prefers XDP
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		if in, _ := hooksOf(t, d); in.Mode != tcModes(t)[0] || !in.Attached {
			t.Errorf("beside a dispatcher: %+v", in)
		}
		in, out := counted(t, l, d)
		list, err := d.Devices()
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		if got := list[0]; got.XDP == nil || got.XDP.Name != "xdp_dispatcher" || got.AtIngress < in || got.AtEgress < out || got.Received < in ||
			got.Sent < out ||
			in < 20 ||
			out < 20 {
			t.Errorf("%+v, want the dispatcher and at least %d and %d packets", got, in, out)
		}
	})
}

// A program of others that comes and goes between two looks leaves a trace in the chain, where ours
// is in tcx. One that comes and stays, or goes, is seen itself. Our own changes leave none.
func TestChangeBetweenLooks(t *testing.T) {
	neighbourly(t, "wm-dp-between", datapath.AttachTCX, func(t *testing.T, _ *lab.Lab, d *datapath.Datapath, c datapath.Config) {
		look := func(what string, ingress, egress bool) {
			t.Helper()
			if in, out := hooksOf(t, d); in.Changed != ingress || out.Changed != egress || !in.Attached || !in.InPlace {
				t.Errorf("%s: changed %v and %v, want %v and %v; %+v", what, in.Changed, out.Changed, ingress, egress, in)
			}
		}
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		look("after the start", false, false)
		look("again", false, false)
		for _, ingress := range []bool{true, false} {
			l := attachStranger(t, index(t), ingress, stranger(t, ebpf.SchedCLS, "passing", tcxPass), link.Head())
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			look("after a stranger", ingress, !ingress)
			look("again", false, false)
		}
		after := attachStranger(t, index(t), false, stranger(t, ebpf.SchedCLS, "after", tcxPass), link.Tail())
		look("one that comes, and runs after ours", false, false)
		if err := after.Update(stranger(t, ebpf.SchedCLS, "after_too", tcxPass)); err != nil {
			t.Fatal(err)
		}
		look("one that is replaced", false, false)
		if err := after.Close(); err != nil {
			t.Fatal(err)
		}
		look("one that goes", false, false)
		c.Node.Interfaces[0].ID++
		c.Node.Interfaces[0].Boundary = model.BoundaryStrip
		c.Node.Interfaces[0].Roles = model.RoleIngress
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		look("after a change of ours", false, false)
		attachStranger(t, index(t), true, stranger(t, ebpf.SchedCLS, "stays", tcxPass), link.Head())
		if err := d.Reposition(index(t), true); err != nil {
			t.Fatal(err)
		}
		look("after a move", false, false)
	})
}

// The kernel runs programs in tcx before our clsact filter: that one came, or went, between two looks is seen, also if both.
func TestChangeBeforeFilter(t *testing.T) {
	if tcModes(t)[0] == datapath.AttachClsact {
		t.Skip("this kernel has no tcx")
	}
	neighbourly(t, "wm-dp-before", datapath.AttachClsact, func(t *testing.T, _ *lab.Lab, d *datapath.Datapath, c datapath.Config) {
		look := func(what string, ingress, egress bool) {
			t.Helper()
			in, out := hooksOf(t, d)
			if in.Changed != ingress || out.Changed != egress || !in.Attached || !in.InPlace || in.Mode != datapath.AttachClsact {
				t.Errorf("%s: changed %v and %v, want %v and %v; %+v", what, in.Changed, out.Changed, ingress, egress, in)
			}
		}
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		look("after the start", false, false)
		for _, ingress := range []bool{true, false} {
			for _, looks := range []bool{false, true} {
				l := attachStranger(t, index(t), ingress, stranger(t, ebpf.SchedCLS, "passing", tcxPass), link.Head())
				if looks {
					look("while it is there", ingress, !ingress)
					look("again", false, false)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				look("after a stranger", ingress, !ingress)
				look("again", false, false)
			}
		}
		c.Node.Interfaces[0].ID++
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		look("after a change of ours", false, false)
	})
}
