// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
)

// What an encapsulating node sends without its own data is filled by the nodes of
// the path, and left alone where the overflow flag is set: the kernel's transit
// node and ours do the same.
func TestUnfilledTraces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		athos    []string
		added    string
		way      string
		overflow bool
		left     int // words
	}{
		{"unknown namespace", []string{"- {id: 123}", "- {id: 9}"}, "encap_unfilled",
			"2 201>202 hop limit 62, 3 301>- hop limit 61", false, 5},
		{"too small", []string{"node: {", "node: {compatibility: mainline, ", "type: 0xf80000, size: 60", "type: 0xc00000, size: 4"}, "encap_overflow",
			"", true, 1},
	} {
		for _, mode := range modes("xdp") {
			for _, transit := range []string{"kernel", "ours"} {
				t.Run(tt.name+", "+mode.mode+", "+transit, func(t *testing.T) {
					t.Parallel()
					top := domain(t, mode)
					reconfigure(t, top, "athos", tt.athos...)
					if transit == "kernel" {
						top.Node("porthos").Agent = nil
					}
					l := raise(t, top)
					if transit == "kernel" {
						setUpKernel(t, l.Node("porthos"))
					}
					beta, traces := startScan(t, l, "beta", "eth0"), keep(t, l, "aramis")
					const count = 20
					send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 100, Port: 9000})
					checkCounters(t, l, "athos", map[string]uint64{tt.added: count})
					for i, r := range traces.read(t, count) {
						if got := way(r); got != tt.way || r.Overflow.Value != tt.overflow || r.Remaining.Value != tt.left {
							t.Fatalf("trace %d: %q, overflow %v, %d words left; want %q, %v, %d", i, got, r.Overflow.Value, r.Remaining.Value, tt.way, tt.overflow, tt.left)
						}
					}
					if beta.stop(t); beta.packets.Load() < count || beta.ioamBytes.Load() > 0 {
						t.Errorf("beta received %d packets with %d bytes of IOAM", beta.packets.Load(), beta.ioamBytes.Load())
					}
				})
			}
		}
	}
}
