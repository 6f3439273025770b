// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"

	"github.com/waymark-net/waymark/test/testnet"
)

// Mistakes in segment routing are found before anything is created.
func TestParseSegmentFaults(t *testing.T) {
	const route = "via: 2001:db8:1::2"
	for _, tt := range []mutation{
		{"encap", route, route + `, encap: "ip id 3"`, `5:58: encap: "ip id 3" is not understood; write seg6 mode encap|encap.red|inline segs SID,SID..., or seg6local action End, End.X nh6 ADDRESS, End.DX6 nh6 ADDRESS or End.DT6 table N`},
		{"mode of segments", route, route + `, encap: "seg6 mode l2encap segs fc00::1"`, `5:58: encap: mode "l2encap" is unknown; write seg6 mode encap|encap.red|inline segs SID,SID...`},
		{"segment", route, route + `, encap: "seg6 mode encap segs fc00::1,192.0.2.1"`, `5:58: encap: "192.0.2.1" is not an IPv6 address`},
		{"segments", route, route + `, encap: "seg6 mode encap segs fc00::1` + strings.Repeat(",fc00::2", 16) + `"`, `5:58: encap: 17 segments are too many; the limit is 16`},
		{"action", ", " + route, `, encap: "seg6local action End.DT6"`, `5:38: encap: action "End.DT6" is not understood; write seg6local action End, End.X nh6 ADDRESS, End.DX6 nh6 ADDRESS or End.DT6 table N`},
		{"table", ", " + route, `, encap: "seg6local action End.DT6 table main"`, `5:38: encap: table "main" is not a number from 1 to 255; the main table is 254`},
		{"next hop of an action", ", " + route, `, encap: "seg6local action End.X nh6 b"`, `5:38: encap: "b" is not an IPv6 address`},
		{"next hop of a SID", route, route + `, encap: "seg6local action End"`, `5:14: seg6local forwards packets by their next segment; remove via`},
		{"segments without next hop", ", " + route, `, encap: "seg6 mode encap segs fc00::1"`, `5:14: a route has no next hop; add via: ADDRESS`},
		{"SID of a node without a link", "  - name: b\n", `  - {name: c, routes: [{to: "fc00::1/128", encap: seg6local action End}]}` + "\n  - name: b\n", `6:29: c has a SID, but no link by which packets reach it; add one under links`},
		{"tunnel source", "    addresses: 2001:db8:9::1/64\n", "    addresses: 2001:db8:9::1/64\n    tunnel-source: 2001:db8:9::2\n", `6:11: tunnel-source 2001:db8:9::2 is no address of b; add it under addresses`},
		{"traffic to another's address", "size: 64", `size: 64, address: "2001:db8:1::1"`, `20:23: 2001:db8:1::1 is no address of b; use one of its links or its loopback interface`},
	} {
		t.Run(tt.name, tt.check)
	}
}

// The kernel gets the segments in the order of the SRH, the last first; mode inline
// leaves room for the packet's own destination in front of them.
func TestSegmentsForTheKernel(t *testing.T) {
	const one, two = "fc000001000000000000000000000000", "fc000002000000000000000000000000"
	for _, tt := range []struct {
		words string
		mode  byte
		want  string // of the SRH, without next header and length
	}{
		{"seg6 mode encap segs fc00:1::,fc00:2::", 1, "040101000000" + two + one},
		{"seg6 mode encap.red segs fc00:1::,fc00:2::", 3, "040101000000" + two + one},
		{"seg6 mode inline segs fc00:1::", 0, "040101000000" + strings.Repeat("00", 16) + one},
	} {
		e, err := parseEncap(tt.words)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.kernel().Encode()
		if err != nil {
			t.Fatal(err)
		}
		want, _ := hex.DecodeString(tt.want)
		if !bytes.Equal(got[10:], want) || nl.NativeEndian().Uint32(got[4:]) != uint32(tt.mode) {
			t.Errorf("%s: %x, want mode %d and %x", tt.words, got, tt.mode, want)
		}
	}
}

// The kernel shows what a topology asked for.
func TestSegmentRoutes(t *testing.T) {
	testnet.NeedRoot(t)
	source := strings.NewReplacer(
		"  - name: a\n", "  - name: a\n    segment-routing: true\n    tunnel-source: 2001:db8:1::1\n",
		"2001:db8:1::2}\n", `2001:db8:1::2, encap: "seg6 mode encap segs fc00::1,fc00::2"}
      - {to: "fc00::1/128", encap: seg6local action End}
      - {to: "fc00::2/128", encap: "seg6local action End.X nh6 2001:db8:1::2"}
      - {to: "fc00::3/128", encap: "seg6local action End.DX6 nh6 2001:db8:1::2"}
      - {to: "fc00::4/128", encap: seg6local action End.DT6 table 254}
`).Replace(smallTopology)
	top, err := Parse("segments.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	l := raiseTopology(t, top)
	for command, want := range map[string][]string{
		"ip -6 route": {
			"2001:db8:9::/64  encap seg6 mode encap segs 2 [ fc00::1 fc00::2 ] via 2001:db8:1::2 dev eth0",
			"fc00::1  encap seg6local action End dev eth0",
			"fc00::2  encap seg6local action End.X nh6 2001:db8:1::2 dev eth0",
			"fc00::3  encap seg6local action End.DX6 nh6 2001:db8:1::2 dev eth0",
			"fc00::4  encap seg6local action End.DT6 table",
		},
		"ip sr tunsrc show": {"2001:db8:1::1"},
		"sysctl net.ipv6.conf.all.seg6_enabled net.ipv6.conf.eth0.seg6_enabled": {"all.seg6_enabled = 1", "eth0.seg6_enabled = 1"},
	} {
		words := strings.Fields(command)
		out, err := l.Node("a").Command(t.Context(), words[0], words[1:]...).CombinedOutput()
		for _, w := range want {
			if err != nil || !strings.Contains(string(out), w) {
				t.Errorf("%s: %v, no %q in\n%s", command, err, w, out)
			}
		}
	}
}
