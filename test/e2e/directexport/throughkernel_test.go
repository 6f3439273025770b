// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"fmt"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// The kernel's own transit node leaves Direct Exports of both option types
// unchanged, also next to a trace, which it fills. The path says that this node
// reported nothing.
func TestDirectExportThroughKernel(t *testing.T) {
	t.Parallel()
	top := directExports(t)
	top.Node("porthos").Agent = nil
	e2e.SetMTU(top, 1500, 2000)
	l, c := raiseCollecting(t, top)
	e2e.SetUpKernel(t, l.Node("porthos"))
	for _, tt := range []struct {
		name    string
		options string
		option  ioam.OptionType
		traces  int // in each packet
	}{
		{"0x11", dex, ioam.OptionIOAMStatic, 0},
		{"0x31", dex[:len(dex)-1] + ", option-type: 0x31}", ioam.OptionIOAM, 0},
		{"beside a trace", "trace: {namespace: 123, type: 0xf80000, size: 60}\n      - " + dex, ioam.OptionIOAMStatic, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.options != dex {
				apply(t, l, "athos", "- "+dex, "- "+tt.options)
			}
			links := []*triggers{startTriggers(t, l, "athos", "eth1"), startTriggers(t, l, "porthos", "eth1")}
			before, beta := len(c.Lines()), e2e.StartScan(t, l, "beta", "eth0")
			const count = 20
			e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Interval: time.Millisecond, Size: 1200, Port: 9000})
			e2e.Await(t, "the paths", 10*time.Second, func() bool { return len(c.Lines()) >= before+count*(1+tt.traces) })
			got := readCollected(t, c.Lines()[before:])
			if len(got.paths) != count || len(got.traces) != count*tt.traces {
				t.Fatalf("%d paths and %d traces", len(got.paths), len(got.traces))
			}
			for _, p := range got.paths {
				checkWithoutKernel(t, p)
			}
			for _, r := range got.traces {
				if got := e2e.Way(r); got != e2e.WayOfLine {
					t.Errorf("trace %s, want %s", got, e2e.WayOfLine)
				}
			}
			checkUnchanged(t, tt.option, links...)
			if beta.Stop(t); beta.IOAMBytes.Load() > 0 {
				t.Errorf("beta received %d bytes of IOAM", beta.IOAMBytes.Load())
			}
		})
	}
	_, stats := c.Stop()
	e2e.CheckNothingWrong(t, stats)
}

func checkWithoutKernel(t *testing.T, p record.Path) {
	t.Helper()
	const want = "athos(1) encapsulating eth0>eth1 101>102 63, aramis(3) decapsulating eth0> 301>- 61"
	if got := route(p); p.Complete || p.Reason != record.PathHopMissing || fmt.Sprint(p.Missing) != "[62]" || got != want {
		t.Errorf("complete %v (%s), missing %v: %s", p.Complete, p.Reason, p.Missing, got)
	}
}
