// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pintest"
	"github.com/waymark-net/waymark/srv6"
)

// measuring is a configuration that measures a flow in blocks of a second.
func measuring(i model.IfIndex, mode datapath.AttachMode) datapath.Config {
	c := configuration(i, mode)
	c.Node.Measurement = model.Measurement{Block: time.Second, Flows: []model.MeasuredFlow{{Name: "red", Direction: model.DirectionIn,
		Source: netip.MustParseAddr(
			"2001:db8:a::1",
		), Path: srv6.Path{Segments: []netip.Addr{netip.MustParseAddr("2001:db8:5:1::e0")}}}}}.WithDefaults()
	return c
}

// TestCoverageOfRestart ends an agent and changes a hook: a block that passed while no agent ran is
// complete for the next one only if it finds the programs on their hooks, in their places.
func TestCoverageOfRestart(t *testing.T) {
	for _, mode := range tcModes(t) {
		for _, tt := range []struct {
			name   string
			change func(t *testing.T, d *datapath.Datapath, path string, i model.IfIndex)
			why    loss.Reasons
		}{
			{"nothing", func(*testing.T, *datapath.Datapath, string, model.IfIndex) {}, 0},
			{"all programs are gone", takeAllOff, loss.InterfacesChanged},
			{"others came before", overtake(mode), loss.NotExecuted},
			{"the agent ended in a move", endInMove, loss.InterfacesChanged},
		} {
			if tt.name == "the agent ended in a move" && mode != datapath.AttachTCX {
				continue // a filter is removed and added: all programs are gone
			}
			t.Run(string(mode)+"/"+tt.name, func(t *testing.T) {
				l, path := raise(t, "wm-dp-inherit"), pintest.Directory(t)
				if err := l.Node("near").Do(func() error {
					d, err := datapath.Open(datapath.Options{PinPath: path})
					if err != nil {
						return err
					}
					c := measuring(index(t), mode)
					if err := d.Apply(c); err != nil {
						return err
					}
					time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
					tt.change(t, d, path, index(t))
					block := uint64(time.Now().Unix()) + 1
					if err := d.Close(); err != nil {
						return err
					}
					time.Sleep(time.Until(time.Unix(int64(block)+1, 5e8)))
					if d, err = datapath.Open(datapath.Options{PinPath: path}); err != nil {
						return err
					}
					if err := d.Apply(c); err != nil {
						return err
					}
					blocks := 0
					d.Blocks(block, func(b datapath.BlockCounts) {
						blocks++
						if b.Complete != (tt.why == 0) || b.Uncovered != tt.why {
							t.Errorf("complete %v, uncovered %q, want %q", b.Complete, b.Uncovered, tt.why)
						}
					})
					if blocks != 1 {
						t.Errorf("%d blocks", blocks)
					}
					return d.Remove()
				}); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// takeAllOff takes our programs off both hooks.
func takeAllOff(t *testing.T, d *datapath.Datapath, _ string, i model.IfIndex) {
	for _, h := range d.Hooks(all) {
		takeHookOff(t, h, i)
		if h.Mode == datapath.AttachClsact {
			return // with the qdisc
		}
	}
}

// overtake puts a program of others before ours that ends the chain.
func overtake(mode datapath.AttachMode) func(*testing.T, *datapath.Datapath, string, model.IfIndex) {
	return func(t *testing.T, _ *datapath.Datapath, _ string, i model.IfIndex) {
		if mode == datapath.AttachClsact {
			addFilter(t, i, 1, "other", unix.ETH_P_ALL)
			return
		}
		attachStranger(t, i, true, stranger(t, ebpf.SchedCLS, "cil_from_netdev", tcxPass), link.Head())
	}
}

// endInMove leaves both links with a program that does nothing.
func endInMove(t *testing.T, _ *datapath.Datapath, path string, i model.IfIndex) {
	from, to := beginMove(t, path, i)
	from.Close()
	to.Close()
}
