// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// The kernel's own transit node, between an encapsulating and a decapsulating
// node of ours, writes its part of every trace.
func TestKernelInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, tt := range e2e.Modes("xdp") {
		t.Run(tt.Mode, func(t *testing.T) {
			top := e2e.Builtin(t, "line")
			e2e.Reconfigure(t, top, "athos", append(tt.Athos, "frequency: 1/10", "frequency: 1/1")...)
			e2e.Reconfigure(t, top, "aramis", tt.Aramis...)
			top.Node("porthos").Agent = nil
			e2e.SetMTU(top, 1500, 2000)
			l := e2e.Raise(t, top)
			e2e.SetUpKernel(t, l.Node("porthos"))

			t.Run("0xf80000", func(t *testing.T) {
				crossKernel(t, l, tt, "1 101>102 hop limit 63, 2 201>202 hop limit 62, 3 301>- hop limit 61")
			})
			t.Run("0xfff002", func(t *testing.T) {
				e2e.Rewrite(t, l, "athos", func(c string) string {
					return strings.ReplaceAll(c, "type: 0xf80000, size: 60", "type: 0xfff002, size: 192")
				})
				e2e.MustIn(t, l, "athos", "agent", "reload")
				crossKernel(t, l, tt, "1 101>102 11111111 101101>102102 hop limit 63, "+
					"2 201>202 22222222 201201>202202 hop limit 62, 3 301>- 33333333 301301>- hop limit 61")
			})
		})
	}
}

// crossKernel sends every kind of traffic and checks each trace.
func crossKernel(t *testing.T, l *lab.Lab, tt e2e.Transfer, want string) {
	t.Helper()
	before := e2e.Settled(t, l, "athos", tt.Added)
	beta, traces := e2e.StartScan(t, l, "beta", "eth0"), e2e.Keep(t, l, "aramis")
	const count = 20
	e2e.Send(t, l, "alpha",
		lab.Traffic{Kind: lab.KindPing, Count: count, Size: 56},
		lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 1452, Port: 9000},
		lab.Traffic{Kind: lab.KindTCP, Bytes: 1 << 20, Port: 9001})
	added := e2e.Settled(t, l, "athos", tt.Added) - before
	byProtocol := map[int]int{}
	for i, r := range traces.Read(t, int(added)) {
		byProtocol[int(r.Packet.NextHeader)]++
		if got := e2e.Way(r); got != want {
			t.Fatalf("trace %d: %s\nwant %s", i, got, want)
		}
		checkKernelNode(t, r)
	}
	if byProtocol[58] != count || byProtocol[17] != count || byProtocol[6] == 0 {
		t.Errorf("traces by protocol: %v, want %d of 58 and of 17, and some of 6", byProtocol, count)
	}
	if stats := beta.Stop(t); stats.Dropped > 0 || beta.Packets.Load() < 2*count || beta.IOAMBytes.Load() > 0 {
		t.Errorf(
			"beta received %d packets with %d bytes of IOAM; the capture missed %d",
			beta.Packets.Load(),
			beta.IOAMBytes.Load(),
			stats.Dropped,
		)
	}
}

// checkKernelNode checks the fields of a trace that do not identify the kernel's
// node.
func checkKernelNode(t *testing.T, r record.Trace) {
	t.Helper()
	athos, kernel, aramis := r.Nodes[0], r.Nodes[1], r.Nodes[2]
	if !athos.Timestamp.Valid || kernel.Timestamp.Value.Before(athos.Timestamp.Value) ||
		aramis.Timestamp.Value.Before(kernel.Timestamp.Value) ||
		time.Since(athos.Timestamp.Value) > patience.Of(time.Minute) {
		t.Errorf("times %v, %v, %v", athos.Timestamp, kernel.Timestamp, aramis.Timestamp)
	}
	if !kernel.TransitDelay.Present || kernel.TransitDelay.Valid {
		t.Errorf("transit delay %+v, want none: the kernel does not measure it", kernel.TransitDelay)
	}
	if r.Overflow.Value || r.Remaining.Value != 0 {
		t.Errorf("overflow %v, %d words left; want a full trace", r.Overflow.Value, r.Remaining.Value)
	}
	if !kernel.NamespaceData.Present {
		return
	}
	if kernel.NamespaceData.Value != 0xdeadbeef || kernel.NamespaceDataWide.Value != 0xcafec0caf00dc0de || !kernel.QueueDepth.Valid ||
		kernel.Snapshot.Valid {
		t.Errorf("the kernel's data are %+v", kernel)
	}
	if athos.NamespaceData.Valid || aramis.NamespaceData.Valid {
		t.Errorf("our namespace data are %+v and %+v, want none", athos.NamespaceData, aramis.NamespaceData)
	}
}

const supported ioam.TraceType = 0xfff002

func clearKernel(t *testing.T, n *lab.Node) {
	t.Helper()
	err := n.Do(func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/eth0/ioam6_enabled", []byte("0"), 0) })
	if err != nil {
		t.Fatal(err)
	}
}
