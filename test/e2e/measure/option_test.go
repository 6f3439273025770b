// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/test/e2e"
)

// TestOption marks packets with the AltMark option: the kernel encapsulates them, skips
// the option at every segment and removes it with the tunnel. A reload changes its header, which needs
// no other programs.
func TestOption(t *testing.T) {
	t.Parallel()
	for _, attach := range []string{"tcx", "xdp"} {
		t.Run(attach, func(t *testing.T) {
			list := complete([]form{
				{name: "encap", mode: "encap", segments: "fc00:2::e,fc00:3::1", octets: ip6 + 8 + srh + 2*sid},
				{name: "reduced", mode: "encap.red", segments: "fc00:2::e,fc00:3::2", octets: ip6 + 8 + srh + sid},
			})
			l := raiseForms(t, attach, ", carrier: option", list)
			e2e.Must(t, l.Node("beta"), "ip", "address", "add", formTo(0).String()+"/128", "dev", "eth0", "nodad")
			if attach == "tcx" {
				t.Run("MTU", func(t *testing.T) { checkOptionMTU(t, l) })
			}
			for _, header := range []string{"destination", "hop-by-hop"} {
				if header != "destination" {
					reconfigure(t, l, onTheWay, "carrier: option", "carrier: option, header: "+header)
				}
				for i, f := range list {
					t.Run(f.name+", "+header, func(t *testing.T) {
						const count, size = 3000, 100
						c := countFlow(t, l, f.name)
						sendTo(t, l, formTo(i).String(), 0, count, size, 64, 64, 2)
						c.check(t, count, count/3, uint64(f.octets+40+8+size), 0)
					})
				}
				if attach == "tcx" {
					t.Run("offloaded TCP, "+header, func(t *testing.T) {
						out, transit, in := countOffloaded(t, l, "encap", formTo(0), func() {})
						checkOctets(t, out, transit, in)
					})
				} else {
					t.Run("dissected, "+header, func(t *testing.T) {
						dissectOption(t, l, map[string]string{"destination": "60 43", "hop-by-hop": "0 43"}[header])
					})
				}
			}
		})
	}
}

// dissectOption checks with tshark, which others have written, the headers of
// packets on the link, and that none has the option after the tunnel.
func dissectOption(t *testing.T, l *lab.Lab, chain string) {
	t.Helper()
	c := countFlow(t, l, "encap")
	marked, plain := capture(t, l, "middle", "eth0"), capture(t, l, "beta", "eth0")
	const count = 100
	sendTo(t, l, formTo(0).String(), 0, count, 100, 64)
	awaitSum(t, c.readers[0], "ingress", count)
	id := (&model.MeasuredFlow{Name: "encap"}).FlowMonID()
	const ofFlow = "ipv6.src == 2001:db8:ff::1 && udp.dstport == 9"
	lines := tshark.Run(
		t,
		marked(),
		ofFlow,
		"-E",
		"occurrence=a",
		"-E",
		"aggregator= ",
		"-e",
		"ipv6.nxt",
		"-e",
		"ipv6.opt.type",
		"-e",
		"ipv6.opt.length",
		"-e",
		"ipv6.opt.unknown",
		"-e",
		"ipv6.hopopts.nxt",
		"-e",
		"ipv6.dstopts.nxt",
		"-e",
		"_ws.malformed",
	)
	if len(lines) != count {
		t.Fatalf("tshark found %d packets, want %d", len(lines), count)
	}
	delays := 0
	for _, line := range lines {
		f := strings.Split(line, "\t")
		data := fmt.Sprintf("%05x", id)
		isMark := len(f) == 7 && len(f[3]) == 8 && strings.HasPrefix(f[3], data) && strings.HasSuffix(f[3], "00") &&
			strings.ContainsAny(f[3][5:6], "048c")
		next := strings.Fields(f[0])
		if !isMark || f[1] != "0x12" || f[2] != "4" || next[0]+" "+f[4]+f[5] != chain || f[6] != "" {
			t.Fatalf("tshark says %q", f)
		}
		if strings.ContainsAny(f[3][5:6], "4c") {
			delays++
		}
	}
	if delays == 0 || delays == count {
		t.Errorf("%d of %d packets have a delay mark", delays, count)
	}
	if lines := tshark.Run(t, plain(), "udp.dstport == 9 && !icmpv6", "-e", "ipv6.nxt"); len(lines) != count ||
		slices.ContainsFunc(lines, func(l string) bool { return l != "17" }) {
		t.Errorf("%d packets after the tunnel: %v", len(lines), lines)
	}
}

// capture captures at an interface; the function that it returns ends that, and names the
// file.
func capture(t *testing.T, l *lab.Lab, node, name string) func() string {
	t.Helper()
	path := filepath.Join(t.TempDir(), node+".pcap")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Capture(node, name, lab.CaptureOptions{Writer: file})
	if err != nil {
		t.Fatal(err)
	}
	return func() string {
		if stats, err := c.Stop(); err != nil || stats.Dropped > 0 {
			t.Fatalf("%+v, %v", stats, err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// checkOptionMTU sends packets that just fit the link with the option, and ones that just
// fit without: those arrive unmarked, and are not counted as lost.
func checkOptionMTU(t *testing.T, l *lab.Lab) {
	t.Helper()
	c, before := countFlow(t, l, "encap"), unmarkedAt(t, l, "ingress")
	const count, around = 60, 40 + 8 + 2*16 + 40 + 8 // headers, without the option's
	for _, size := range []int{1500 - around - 8, 1500 - around} {
		sendTo(t, l, formTo(0).String(), 0, count, size, 64)
	}
	for i, r := range c.readers {
		if i == 1 {
			continue
		}
		awaitSum(t, r, onTheWay[i], count)
		e2e.Await(t, "unmarked packets", closeTime, func() bool { return r.sum(t).Unmarked == count })
	}
	checkUnmarkedAt(t, l, "ingress", before, "mtu", count)
}
