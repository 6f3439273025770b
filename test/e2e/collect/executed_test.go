// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// TestCollectBesideOthers has another program end the tcx chain before aramis' own, several
// times: packets arrive, aramis makes no postcards of them, and no packet is lost for the
// collector.
func TestCollectBesideOthers(t *testing.T) {
	t.Parallel()
	if !slices.Contains(e2e.TCModes(), config.Attach("tcx")) {
		t.Skip("this kernel has no tcx")
	}
	const port, count = 9000, 6000
	top := directExporting(t)
	e2e.Reconfigure(t, top, "athos", "mode: auto", "mode: inline", "tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::3}", "")
	e2e.Reconfigure(
		t,
		top,
		"aramis",
		"{id: 123,",
		"{id: 123, remove: true,",
		"role: [ingress, egress]",
		"role: [ingress, egress], attach: tcx",
		"boundary: drop",
		"boundary: ignore",
	)
	l := e2e.Raise(t, top)
	cmd := l.Node("aramis").
		Command(t.Context(), e2e.Program, "collect", "--json", "--listen", "tcp://[::]:4739", "--wait", patience.Of(3*time.Second).String())
	c := e2e.StartCollect(t, cmd.Cmd, cmd.Start)
	awaitConnected(t, l)
	sent := make(chan lab.TrafficResult, 1)
	go func() {
		r, err := l.Send(
			t.Context(),
			lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: count, Interval: 2 * time.Millisecond, Size: 100, Port: port},
		)
		if err != nil {
			t.Error(err)
		}
		sent <- r
	}()
	time.Sleep(time.Second)
	for range 3 {
		end := passInFront(t, l)
		time.Sleep(1300 * time.Millisecond)
		end()
		time.Sleep(2200 * time.Millisecond)
	}
	if r := <-sent; r.Lost() != 0 {
		t.Fatalf("%d packets were lost", r.Lost())
	}
	judged := func() (of map[string]int) {
		of = map[string]int{}
		for fate, list := range fates(t, c.Lines(), port) {
			for _, p := range list {
				of[fate]++
				if fate == "lost" && of[fate] <= 3 {
					t.Errorf("lost: %s", p.Text())
				}
			}
		}
		return of
	}
	e2e.Await(t, "all verdicts", 30*time.Second, func() bool {
		of := fates(t, c.Lines(), port)
		return len(of["arrived"])+len(of["unknown"])+len(of["lost"]) >= count*99/100
	})
	of := judged()
	if of["lost"] != 0 || of["unknown"] == 0 || of["arrived"] < count/4 {
		t.Errorf("%v of %d packets, none of which was lost", of, count)
	}
	c.Stop()
}

// passInFront attaches a program to aramis that ends the chain.
func passInFront(t *testing.T, l *lab.Lab) (end func()) {
	t.Helper()
	const pass = 0
	if err := l.Node("aramis").Do(func() error {
		device, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "others", Type: ebpf.SchedCLS, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, pass), asm.Return()}})
		if err != nil {
			return err
		}
		other, err := link.AttachTCX(link.TCXOptions{Program: program, Interface: device.Attrs().Index, Attach: ebpf.AttachTCXIngress,
			Anchor: link.Head()})
		end = func() { other.Close(); program.Close() }
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return end
}
