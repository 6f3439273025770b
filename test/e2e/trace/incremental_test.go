// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/test/e2e"
)

// Incremental traces grow at every node whose namespace allows it; the kernel's node passes
// them unchanged, and what would not fit the next link sets the overflow flag.
func TestIncrementalTraces(t *testing.T) {
	t.Parallel()
	const (
		athos, porthos, aramis = "1 101>102 hop limit 63", "2 201>202 hop limit 62", "3 301>- hop limit 61"
		count, largest         = 20, 1488 // bytes inside the domain: athos' data fit, and porthos' do not
	)
	for _, tt := range e2e.Modes("xdp") {
		for _, transit := range map[string][]string{"inline": {"kernel"}, "encap": {"ours", "fast"}}[tt.Mode] {
			t.Run(tt.Mode+", "+transit, func(t *testing.T) {
				t.Parallel()
				top := e2e.Domain(t, tt)
				e2e.SetMTU(top, 1500, 2000)
				e2e.Reconfigure(t, top, "athos", "- {id: 123}", "- {id: 123, incremental: true}", "size: 60}", "size: 60, incremental: true}")
				e2e.Reconfigure(t, top, "aramis", "- {id: 123", "- {id: 123, incremental: true")
				for i, link := range top.Links {
					if link.Ends[0].Node == "porthos" || link.Ends[1].Node == "porthos" {
						top.Links[i].MTU = map[bool]int{true: 1500, false: 2000}[link.Ends[0].Node == "aramis" || link.Ends[1].Node == "aramis"]
					}
				}
				switch transit {
				case "kernel":
					top.Node("porthos").Agent = nil
				case "fast":
					e2e.NeedRedirection(t)
					e2e.Reconfigure(t, top, "porthos", ", role:", ", forwarding: fast, role:")
					fallthrough
				default:
					e2e.Reconfigure(t, top, "porthos", "- {id: 123}", "- {id: 123, incremental: true}")
				}
				l := e2e.Raise(t, top)
				switch transit {
				case "kernel":
					e2e.SetUpKernel(t, l.Node("porthos"))
				case "fast":
					e2e.OpenEnds(t, l, "athos", "aramis")
				}
				wire, beta, traces := e2e.StartWire(t, l, "porthos", "eth1"), e2e.StartScan(t, l, "beta", "eth0"), e2e.Keep(t, l, "aramis")
				overhead := map[string]int{"inline": 48 + 40, "encap": 48 + 80}[tt.Mode]
				for _, size := range []int{100, largest - overhead} {
					e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: size, Port: 9000})
					way, overflow, left := athos+", "+porthos+", "+aramis, false, 0
					switch {
					case transit == "kernel":
						way, left = athos+", "+aramis, 5
					case size > 100:
						way, overflow, left = athos, true, 10
					}
					for i, r := range traces.Read(t, count) { // of one size: those of two CPUs are in no order
						if got := e2e.Way(r); r.Option != "incremental" || got != way || r.Overflow.Value != overflow || r.Remaining.Value != left {
							t.Fatalf("trace %d of %d bytes: %s %q, overflow %v, %d words left; want %q, %v, %d", i, size, r.Option, got, r.Overflow.Value,
								r.Remaining.Value, way, overflow, left)
						}
						checkTimes(t, r, transit == "kernel")
					}
				}
				checkGrowth(t, l, transit, count)
				e2e.CheckCounters(t, l, "aramis", map[string]uint64{tt.Removed: 2 * count, "decap_failed": 0, "removal_partial": 0})
				if beta.Stop(t); beta.Packets.Load() < 2*count || beta.IOAMBytes.Load() > 0 {
					t.Errorf("beta received %d packets with %d bytes of IOAM", beta.Packets.Load(), beta.IOAMBytes.Load())
				}
				wire.Stop(t)
				if transit == "fast" { // no capture sees what XDP redirects
					return
				}
				if lines := tshark.Run(t, wire.Path, "ipv6.opt.ioam.opt_type == 1", "-e", "frame.number"); len(lines) != 2*count {
					t.Errorf("tshark finds %d incremental traces, want %d", len(lines), 2*count)
				}
				decode(t, wire.Path, 2*count)
				checkDissected(t, wire.Path, transit == "kernel", count)
			})
		}
	}
}

// checkGrowth checks what porthos counted of packets of which the first half can grow.
func checkGrowth(t *testing.T, l *lab.Lab, transit string, count uint64) {
	t.Helper()
	switch transit {
	case "kernel":
	case "fast": // ingress sees the traces; those that it forwards have the growth
		e2e.CheckCounters(t, l, "porthos", map[string]uint64{"incremental_trace": 2 * count})
		if n := e2e.ForwardsOf(t, l, "porthos").Fast; n["trace_grown"] != count || n["trace_overflow"] != count {
			t.Errorf("porthos forwarded %v", n)
		}
	default:
		e2e.CheckCounters(t, l, "porthos", map[string]uint64{"trace_grown": count, "trace_overflow": count})
	}
}

// checkDissected reads the traces that leave porthos with our dissector. The kernel adds no
// data; Waymark adds data to small packets, and sets the overflow flag of large ones.
func checkDissected(t *testing.T, path string, kernel bool, count int) {
	t.Helper()
	got := map[string]int{}
	for _, p := range e2e.Dissect(t, path, "ioam.type == 1", "ioam.namespace", "ioam.trace.type", "ioam.trace.nodelen", "ioam.trace.overflow",
		"ioam.trace.loopback", "ioam.trace.active", "ioam.trace.remaining", "ioam.node", "_ws.malformed") {
		nodes := len(strings.Split(p[7], ","))
		p[7] = strconv.Itoa(nodes)
		for i, value := range map[string]string{"True": "1", "False": "0"} {
			for at := 3; at <= 5; at++ {
				p[at] = strings.ReplaceAll(p[at], i, value)
			}
		}
		got[strings.Join(p, " ")]++
	}
	want := map[string]int{"123 0xf80000 5 0 0 0 10 1 ": 2 * count}
	if !kernel {
		want = map[string]int{"123 0xf80000 5 0 0 0 5 2 ": count, "123 0xf80000 5 1 0 0 10 1 ": count}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the dissector reads %v, want %v", got, want)
	}
}

// checkTimes checks that nodes on the way say when a packet came, and how long it stayed.
func checkTimes(t *testing.T, r record.Trace, kernel bool) {
	t.Helper()
	for i, n := range r.Nodes {
		if !n.Timestamp.Valid || i > 0 && n.Timestamp.Value.Before(r.Nodes[i-1].Timestamp.Value) {
			t.Fatalf("node %d has the time %v", i, n.Timestamp)
		}
		if transit := i == 1 && len(r.Nodes) == 3 && !kernel; transit && !n.TransitDelay.Valid {
			t.Fatal("the node in the middle has no transit delay")
		}
	}
}

// decode checks that `waymark decode` reads the traces of a capture.
func decode(t *testing.T, path string, want int) {
	t.Helper()
	records := decoded(t, path, "posix")
	for _, r := range records {
		if r.Option != "incremental" || len(r.Nodes) == 0 {
			t.Fatalf("waymark decode: %+v", r)
		}
	}
	if len(records) != want {
		t.Errorf("waymark decode reads %d traces, want %d", len(records), want)
	}
}
