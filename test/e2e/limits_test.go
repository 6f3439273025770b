// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/ioam"
)

// A host's own large UDP packets leave by an interface that sums nothing: the
// kernel could not cut them once they have grown.
func TestSegmentsOfHostWithoutChecksums(t *testing.T) {
	for _, mode := range []string{"auto", "encap"} {
		t.Run(mode, func(t *testing.T) {
			l := raise(t, domain(t, transfer{attach: "tcx", athos: []string{"mode: auto", "mode: " + mode}, aramis: []string{"{id: 123}", "{id: 123, remove: true}"}}))
			must(t, l.Node("athos"), "ethtool", "-K", "eth1", "tx", "off")
			wire := startWire(t, l, "porthos", "eth0")
			(&segmented{from: "athos", size: 1400, each: 20, calls: 20}).run(t, l)
			wire.stop(t)
			checkSums(t, wire.path, 400)
		})
	}
}

// Nine options cross a domain whose stacks accept them.
func TestNineOptions(t *testing.T) {
	for _, tt := range modes("xdp") {
		t.Run(tt.mode, func(t *testing.T) {
			top := domain(t, tt)
			setMTU(top, 1500, 2000)
			one := "      - trace: {namespace: 123, type: 0xf80000, size: 60}\n"
			reconfigure(t, top, "athos", "type: 0xf80000, size: 60}", "type: 0x800000, size: 12}")
			one = strings.Replace(one, "0xf80000, size: 60", "0x800000, size: 12", 1)
			nine := strings.Join(slices.Repeat([]string{one}, ioam.MaxOptionsPerPacket), "")
			config := string(top.Node("athos").Agent.Config)
			config = strings.TrimSuffix(strings.ReplaceAll(config+"\n", strings.TrimLeft(one, " "), strings.TrimLeft(nine, " ")), "\n")
			reconfigure(t, top, "athos", string(top.Node("athos").Agent.Config), config)
			l := raise(t, top)
			// a stack takes eight options unless it is told otherwise
			for _, name := range []string{"porthos", "aramis"} {
				must(t, l.Node(name), "sysctl", "-w", "net.ipv6.max_hbh_opts_number=9")
			}
			send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: 20, Size: 100, Port: 9000})
			if traced := counter(t, l, "porthos", "trace_filled"); traced < 20 {
				t.Errorf("porthos filled %d traces, want 20 at least", traced)
			}
		})
	}
}
