// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"sync/atomic"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// jumbo sends packets that span several pages, which XDP programs see in fragments.
func jumbo(t *testing.T, l *lab.Lab, tt e2e.Transfer) {
	t.Helper()
	const count = 20
	changeMTU(t, l, 9000, 9200)
	counted := e2e.CountedFrom(t, l, domain...)
	inside, beta, traces := e2e.StartScan(t, l, "porthos", "eth0"), e2e.StartScan(t, l, "beta", "eth0"), e2e.Keep(t, l, "aramis")
	sizes := []int{8000, 9000 - 48} // the larger one fills the edge's links
	for _, size := range sizes {
		e2e.Send(t, l, "alpha",
			lab.Traffic{Kind: lab.KindPing, Count: count, Size: size},
			lab.Traffic{Kind: lab.KindUDP, Count: count, Size: size, Port: 9000})
	}
	want := 2 * count * len(sizes)
	for i, r := range traces.Read(t, want) {
		if got, want := e2e.Way(r), "1 101>102 hop limit 63, 2 201>202 hop limit 62, 3 301>- hop limit 61"; got != want ||
			r.Packet.Length < sizes[0]+48 {
			t.Fatalf("trace %d: %d bytes, %s; want at least %d bytes, %s", i, r.Packet.Length, got, sizes[0]+48, want)
		}
	}
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindTCP, Bytes: 16 << 20, Port: 9001})
	counted.Check(t, "athos", map[string]uint64{"encap_skipped_mtu": 0, "encap_skipped_gso": 0, "encap_skipped_headroom": 0})
	counted.Check(t, "aramis", map[string]uint64{tt.Removed: counted.Settled(t, "athos", tt.Added), "decap_failed": 0, "removal_partial": 0})
	for _, node := range domain {
		if hook := e2e.StatusInterface(t, l, node, "eth0").IngressHook; hook != "xdp" {
			t.Errorf("the ingress hook of %s is %s, want xdp", node, hook)
		}
	}
	inside.Stop(t)
	beta.Stop(t)
	if n := inside.Longest.Load(); n <= 9000 {
		t.Errorf("the longest packet in the domain has %d bytes, want more than the edge's 9000", n)
	}
	if n := beta.IOAMBytes.Load(); n > 0 {
		t.Errorf("beta received %d bytes of IOAM", n)
	}
}

// fragments gives every fragment of a datagram a trace; beyond the domain they reassemble to the same
// datagram.
func fragments(t *testing.T, l *lab.Lab, tt e2e.Transfer) {
	t.Helper()
	const count, size, pieces = 20, 4000, 3
	counted := e2e.CountedFrom(t, l, domain...)
	var fragments, marked atomic.Int64
	capture, err := l.Capture("porthos", "eth0", lab.CaptureOptions{Each: func(p lab.Packet) {
		if p.Outgoing || !isFragment(p.Data) {
			return
		}
		fragments.Add(1)
		if lab.IOAMBytes(p.Data) > 0 {
			marked.Add(1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	beta, traces := e2e.StartScan(t, l, "beta", "eth0"), e2e.Keep(t, l, "aramis")
	e2e.Send(t, l, "alpha",
		lab.Traffic{Kind: lab.KindUDP, Count: count, Size: size, Port: 9000},
		lab.Traffic{Kind: lab.KindPing, Count: count, Size: size})
	const want = 2 * count * pieces
	first := 0
	for i, r := range traces.Read(t, want) {
		if got, want := e2e.Way(r), "1 101>102 hop limit 63, 2 201>202 hop limit 62, 3 301>- hop limit 61"; got != want {
			t.Fatalf("trace %d: %s\nwant %s", i, got, want)
		}
		if r.Packet.DestinationPort != nil {
			first++
		}
	}
	if first != count {
		t.Errorf("%d traces name a port, want the first fragment of each of %d datagrams", first, count)
	}
	if _, err := capture.Stop(); err != nil {
		t.Fatal(err)
	}
	beta.Stop(t)
	if fragments.Load() != want || marked.Load() != want || beta.IOAMBytes.Load() > 0 {
		t.Errorf(
			"of %d fragments, %d had a trace, want %d; beta received %d bytes of IOAM",
			fragments.Load(),
			marked.Load(),
			want,
			beta.IOAMBytes.Load(),
		)
	}
	counted.Check(t, "athos", map[string]uint64{tt.Added: want})
	counted.Check(t, "aramis", map[string]uint64{tt.Removed: want})
}

// isFragment reports whether a Fragment header follows the headers that the
// domain adds, an outer IPv6 header and a Hop-by-Hop header.
func isFragment(frame []byte) bool {
	const ethernet, ipv6, fragment, inner = 14, 40, 44, 41
	if len(frame) < ethernet+ipv6 || binary.BigEndian.Uint16(frame[12:]) != 0x86dd {
		return false
	}
	next, rest := frame[ethernet+6], frame[ethernet+ipv6:]
	if next == 0 && len(rest) >= 8 {
		size := 8 * (int(rest[1]) + 1)
		next, rest = rest[0], rest[min(size, len(rest)):]
	}
	if next == inner && len(rest) >= ipv6 {
		next = rest[6]
	}
	return next == fragment
}
