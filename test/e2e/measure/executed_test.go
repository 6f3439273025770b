// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/test/e2e"
)

// ahead are programs of others that run before the egress' own at an interface.
var ahead = []struct {
	name, attach string
	kind         ebpf.ProgramType
	verdict      int32
	do           func(index int, p *ebpf.Program) (link.Link, error)
}{
	// XDP_DROP, as what gets packets by XDP_REDIRECT
	{"consumed in XDP", "clsact", ebpf.XDP, 1, func(index int, p *ebpf.Program) (link.Link, error) {
		return link.AttachXDP(link.XDPOptions{Program: p, Interface: index})
	}},
	{"passed in tcx", "tcx", ebpf.SchedCLS, 0, func(index int, p *ebpf.Program) (link.Link, error) { // TCX_PASS ends the chain
		return link.AttachTCX(link.TCXOptions{Program: p, Interface: index, Attach: ebpf.AttachTCXIngress, Anchor: link.Head()})
	}},
}

// TestNotExecuted keeps the egress' program from packets of a flow, several times for some
// seconds: no block says that packets were lost, whenever that begins, and blocks are measured
// again afterwards.
func TestNotExecuted(t *testing.T) {
	t.Parallel()
	for _, tt := range ahead {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(e2e.TCModes(), config.Attach(tt.attach)) {
				t.Skip("this kernel has no tcx")
			}
			top := srv6With(t, []string{"north1", "north2"})                                     // they are not on the way of the flow
			e2e.Reconfigure(t, top, "ingress", "egress=2001:db8:45::2", "egress=2001:db8:35::2") // questions come by another interface
			e2e.Reconfigure(t, top, "egress", "attach: clsact", "attach: "+tt.attach)
			l := e2e.Raise(t, top)
			r := observe(t, l)
			r.awaitExact(t, south)
			var traffic sync.WaitGroup
			began := time.Now()
			traffic.Go(func() { datagrams(t, l, 54_000, toSouth) })
			// Hooks are looked at twice a block, so a gap may begin almost a block before it is caused,
			// and the block before it needs a guard: two blocks are whole by then.
			time.Sleep(3500 * time.Millisecond)
			for round := range 5 {
				time.Sleep(time.Duration(round) * 210 * time.Millisecond) // to begin at other times of a block
				var undo func()
				if err := l.Node("egress").Do(func() error {
					device, err := netlink.LinkByName("eth2")
					if err != nil {
						return err
					}
					p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "others", Type: tt.kind, License: "GPL",
						Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, tt.verdict), asm.Return()}})
					if err != nil {
						return err
					}
					other, err := tt.do(device.Attrs().Index, p)
					undo = func() { other.Close(); p.Close() }
					return err
				}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(1300 * time.Millisecond)
				undo()
				time.Sleep(2200 * time.Millisecond)
			}
			traffic.Wait()
			r.awaitAfter(t, time.Now(), south)
			var reasons loss.Reasons
			var verdicts []loss.Verdict
			for _, each := range r.lossesOf(south) {
				if each.Start.Add(time.Second).Before(began) || each.Sent.Value == 0 {
					continue
				}
				reasons |= each.ToReasons
				verdicts = append(verdicts, each.Verdict)
				if each.Verdict == loss.Measured && each.Lost.Value > 0 {
					t.Errorf("block %d: %d of %d lost; none was before the egress", each.Block.Value, each.Lost.Value, each.Sent.Value)
				}
			}
			first, last := slices.Index(verdicts, loss.Uncertain), len(verdicts)-1
			for last > 0 && verdicts[last] != loss.Uncertain {
				last--
			}
			if reasons&loss.NotExecuted == 0 || first < 1 || last == len(verdicts)-1 || !slices.Contains(verdicts[first:last], loss.Measured) {
				t.Errorf("reasons %v, verdicts %v: none is measured before the gaps, between them, or after them", reasons, verdicts)
			}
		})
	}
}
