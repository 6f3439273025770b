// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/test/e2e"
)

// TestOption marks packets with the AltMark option: the kernel encapsulates them, skips
// the option at every segment and removes it with the tunnel.
func TestOption(t *testing.T) {
	t.Parallel()
	for i, mode := range []string{"encap", "encap.red"} {
		for j, header := range []string{"destination", "hop-by-hop"} {
			for _, attach := range []string{"tcx", "xdp"}[(i+j)%2 : (i+j)%2+1] { // each pair of two settings once
				t.Run(mode+", "+header+", "+attach, func(t *testing.T) {
					countKernelsPackets(t, raiseMarked(t, mode, attach, lastSID, lastSID, ", carrier: option, header: "+header, asking{}))
				})
			}
		}
	}
}

// TestOptionOffloadedTCP marks TCP in packets that hosts leave for the network card to
// cut: each of those has the option.
func TestOptionOffloadedTCP(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"destination", "hop-by-hop"} {
		t.Run(header, func(t *testing.T) {
			out, transit, in := countOffloaded(
				t,
				raiseMarked(t, "encap", "tcx", lastSID, lastSID, ", carrier: option, header: "+header, asking{}),
				func() {},
			)
			checkOctets(t, out, transit, in)
		})
	}
}

// TestOptionDissected checks with tshark, which others have written, the headers of
// packets on the link, and that none has the option after the tunnel.
func TestOptionDissected(t *testing.T) {
	t.Parallel()
	for header, chain := range map[string]string{"destination": "60 43", "hop-by-hop": "0 43"} {
		t.Run(header, func(t *testing.T) {
			l := raiseMarked(t, "encap", "xdp", lastSID, lastSID, ", carrier: option, header: "+header, asking{})
			marked, plain := capture(t, l, "middle", "eth0"), capture(t, l, "beta", "eth0")
			const count = 100
			out := read(t, l, "ingress")
			out.awaitComplete(t)
			send(t, l, count, 100, 64)
			awaitSum(t, out, "ingress", count)
			id := (&model.MeasuredFlow{Name: "red"}).FlowMonID()
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
		})
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

// TestOptionMTU sends packets that just fit the link with the option, and ones that just
// fit without: those arrive unmarked, and are not counted as lost.
func TestOptionMTU(t *testing.T) {
	t.Parallel()
	for _, attach := range []string{"tcx", fast} {
		t.Run(attach, func(t *testing.T) { checkOptionMTU(t, attach) })
	}
}

func checkOptionMTU(t *testing.T, attach string) {
	t.Helper()
	l := raiseMarked(t, "encap", attach, lastSID, lastSID, ", carrier: option", asking{})
	if attach == fast {
		open(t, l)
		time.Sleep(time.Second)
	}
	out, in := read(t, l, "ingress"), read(t, l, "egress")
	for _, r := range []*reader{out, in} {
		r.awaitComplete(t)
	}
	const count, around = 60, 40 + 8 + 2*16 + 40 + 8 // headers, without the option's
	send(t, l, count, 1500-around-8, 64)
	send(t, l, count, 1500-around, 64)
	for name, r := range map[string]*reader{"ingress": out, "egress": in} {
		awaitSum(t, r, name, count)
		var sum api.Block
		e2e.Await(t, "unmarked packets", closeTime, func() bool { sum = r.sum(t); return sum.Unmarked == count })
	}
	text := e2e.Must(t, l.Node("ingress"), e2e.Program, "status", "--json")
	if !strings.Contains(text, fmt.Sprintf(`"unmarked":{"mtu":%d}`, count)) {
		t.Errorf("status does not count %d packets as too long: %s", count, text)
	}
	if attach == fast {
		checkFast(t, l, "ingress", count)
	}
}
