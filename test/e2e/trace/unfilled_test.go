// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// Traces that an encapsulating node sends without its own data are filled by the
// nodes on the path, except with the overflow flag set: the kernel's transit node
// and ours do the same.
func TestUnfilledTraces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		athos    []string
		added    string
		way      string
		overflow bool
		left     int // RemainingLen, in words
	}{
		{"unknown namespace", []string{"- {id: 123}", "- {id: 9}"}, "encap_unfilled",
			"2 201>202 hop limit 62, 3 301>- hop limit 61", false, 5},
		{"too small", []string{"node: {", "node: {compatibility: mainline, ", "type: 0xf80000, size: 60", "type: 0xc00000, size: 4"},
			"encap_overflow",
			"", true, 1},
	} {
		for _, mode := range e2e.Modes("xdp") {
			t.Run(tt.name+", "+mode.Mode, func(t *testing.T) {
				t.Parallel()
				top := e2e.Domain(t, mode)
				e2e.Reconfigure(t, top, "athos", tt.athos...)
				l := e2e.Raise(t, top)
				check := func(t *testing.T) {
					t.Helper()
					counted := e2e.CountedFrom(t, l, "athos")
					beta, traces := e2e.StartScan(t, l, "beta", "eth0"), e2e.Keep(t, l, "aramis")
					const count = 20
					e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 100, Port: 9000})
					counted.Check(t, "athos", map[string]uint64{tt.added: count})
					for i, r := range traces.Read(t, count) {
						if got := e2e.Way(r); got != tt.way || r.Overflow.Value != tt.overflow || r.Remaining.Value != tt.left {
							t.Fatalf(
								"trace %d: %q, overflow %v, %d words left; want %q, %v, %d",
								i,
								got,
								r.Overflow.Value,
								r.Remaining.Value,
								tt.way,
								tt.overflow,
								tt.left,
							)
						}
					}
					if beta.Stop(t); beta.Packets.Load() < count || beta.IOAMBytes.Load() > 0 {
						t.Errorf("beta received %d packets with %d bytes of IOAM", beta.Packets.Load(), beta.IOAMBytes.Load())
					}
				}
				t.Run("ours", check)
				e2e.MustIn(t, l, "porthos", "agent", "stop", "--remove")
				e2e.SetUpKernel(t, l.Node("porthos"))
				t.Run("kernel", check)
			})
		}
	}
}
