// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"regexp"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/ioam"
)

// Every option of a packet, in whichever namespace, is reported as a trace of
// its own.
func TestEveryOptionIsReported(t *testing.T) {
	for _, tt := range modes("xdp") {
		t.Run(tt.mode, func(t *testing.T) {
			top := domain(t, tt)
			setMTU(top, 1500, 2000)
			for _, node := range []string{"athos", "porthos", "aramis"} {
				line := regexp.MustCompile(`(?m)^ *- \{id: 123.*\}$`).FindString(string(top.Node(node).Agent.Config))
				reconfigure(t, top, node, line, line+"\n"+strings.Replace(line, "123", "456", 1))
			}
			line := regexp.MustCompile(`(?m)^ *- trace: .*$`).FindString(string(top.Node("athos").Agent.Config))
			var options []string
			for i := range ioam.MaxOptionsPerPacket {
				option := strings.Replace(line, "0xf80000, size: 60", "0xc00000, size: 24", 1)
				if i%2 == 1 {
					option = strings.Replace(option, "123", "456", 1)
				}
				options = append(options, option)
			}
			reconfigure(t, top, "athos", line, strings.Join(options, "\n"))
			l := raise(t, top)
			// a stack takes eight options unless it is told otherwise
			must(t, l.Node("porthos"), "sysctl", "-w", "net.ipv6.max_hbh_opts_number=9")
			traces := keep(t, l, "aramis")
			const count = 10
			send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 100, Port: 9000})
			in := map[ioam.NamespaceID]int{}
			for i, r := range traces.read(t, count*ioam.MaxOptionsPerPacket) {
				in[r.Namespace]++
				if got, want := way(r), "1 101>102 hop limit 63, 2 201>202 hop limit 62, 3 301>- hop limit 61"; got != want {
					t.Fatalf("trace %d: %s\nwant %s", i, got, want)
				}
			}
			if in[123] != count*5 || in[456] != count*4 {
				t.Errorf("traces by namespace are %v, want 5 and 4 of each of %d packets", in, count)
			}
			checkCounters(t, l, "porthos", map[string]uint64{"trace_filled": 2 * count})
			checkCounters(t, l, "aramis", map[string]uint64{tt.removed: count})
		})
	}
}
