// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"strconv"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/test/e2e"
)

// growLarge sends large packets of TCP, which grow whole, inline and in a tunnel. What the kernel cuts
// them into afterwards is no longer than it was, has right checksums, and has the data of both nodes.
func growLarge(t *testing.T, l *lab.Lab, tt e2e.Transfer) {
	t.Helper()
	const edge, data = 1500, "ipv6.dst == 2001:db8:2::2 && tcp.len > 0"
	const whole = 80 + 24                                                // what a packet that need not be cut becomes longer by, at most
	e2e.Must(t, l.Node("porthos"), "ethtool", "-K", "eth1", "tx", "off") // so the kernel cuts, and computes checksums
	before, wire := e2e.StartScan(t, l, "porthos", "eth0"), e2e.StartWire(t, l, "aramis", "eth0")
	transferTo(t, l, "2001:db8:2::2", 2<<20)
	before.Stop(t)
	wire.Stop(t)
	if n := before.Longest.Load(); n < 10*edge {
		t.Fatalf("the longest packet to porthos has %d bytes; want large ones", n)
	}
	e2e.CheckCounters(t, l, "porthos", map[string]uint64{"trace_overflow": 0})
	checkGrowthOfLargeUDP(t, l, tt)
	e2e.CheckCounters(t, l, "aramis", map[string]uint64{"decap_failed": 0, "removal_partial": 0})
	segments, cut := 0, 0
	for _, line := range tshark.Run(t, wire.Path, data, "-X", "lua_script:../../../packaging/wireshark/ioam.lua", "-o",
		"tcp.check_checksum:TRUE",
		"-e", "frame.len", "-e", "tcp.checksum.status", "-e", "ioam.node", "-e", "_ws.malformed") {
		f := strings.Split(line, "\t")
		length, err := strconv.Atoi(f[0])
		if err != nil || length > 14+edge+whole || f[1] != "1" || strings.Count(f[2], ",") != 1 || f[3] != "" {
			t.Fatalf("segment %d: %q, %v", segments, line, err)
		}
		if segments++; length <= 14+edge {
			cut++
		}
	}
	if least := (2 << 20) / edge; cut < least {
		t.Errorf("%d of %d segments are no longer than they were, want at least %d", cut, segments, least)
	}
}

// checkGrowthOfLargeUDP checks that large packets of UDP grow inline, and get the overflow flag in a tunnel.
func checkGrowthOfLargeUDP(t *testing.T, l *lab.Lab, tt e2e.Transfer) {
	t.Helper()
	sent, grown := segmented{from: "alpha", size: 1200, each: 20, calls: 10}, e2e.Settled(t, l, "porthos", "trace_grown")
	want := map[string]uint64{"trace_grown": grown + uint64(sent.calls), "trace_overflow": 0}
	if tt.Mode == "encap" {
		want = map[string]uint64{"trace_grown": grown, "trace_overflow": uint64(sent.calls)}
	}
	sent.run(t, l)
	e2e.CheckCounters(t, l, "porthos", want)
}
