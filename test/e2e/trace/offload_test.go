// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// udpSegmentation sends large UDP packets, which get one trace each where their segments can grow,
// and pass without one where they cannot.
func udpSegmentation(t *testing.T, l *lab.Lab, tt e2e.Transfer) {
	t.Helper()
	changeMTU(t, l, 1500, 1700)
	counted := e2e.CountedFrom(t, l, domain...)
	beta := e2e.StartScan(t, l, "beta", "eth0")
	const calls = 50
	var traced, skipped uint64
	for _, s := range []*segmented{
		{from: "alpha", size: 1200, each: 20, calls: calls},
		{from: "alpha", size: 1452, each: 40, calls: calls},
		{from: "alpha", size: 100, each: 64, calls: calls},
	} {
		crossWhole(t, l, s)
		traced += calls
	}
	e2e.Must(t, l.Node("athos"), "ip", "link", "set", "eth1", "mtu", "1500")
	crossWhole(t, l, &segmented{from: "alpha", size: 1452, each: 20, calls: calls})
	skipped += calls
	counted.Check(t, "athos", map[string]uint64{
		tt.Added: traced, "encap_skipped_mtu": skipped, "encap_skipped_gso": 0, "encap_skipped_headroom": 0,
	})
	counted.Check(t, "porthos", map[string]uint64{"trace_filled": 2 * traced})
	counted.Check(t, "aramis", map[string]uint64{tt.Removed: traced, "boundary_dropped": 0})
	beta.Stop(t)
	if n := beta.IOAMBytes.Load(); n > 0 {
		t.Errorf("beta received %d bytes of IOAM", n)
	}
}

// crossWhole sends large packets, which must cross the domain unsegmented.
func crossWhole(t *testing.T, l *lab.Lab, s *segmented) {
	t.Helper()
	inside := e2e.StartScan(t, l, "porthos", "eth0")
	s.run(t, l)
	inside.Stop(t)
	if n := inside.Longest.Load(); n < int64(s.size*s.each) {
		t.Errorf("the longest packet in the domain has %d bytes; want more than %d datagrams of %d, unsegmented", n, s.each, s.size)
	}
}

// segmentsWithinMTU has the kernel segment GSO packets after our egress program, and compute the
// segments' checksums: no segment is longer than the link allows.
func segmentsWithinMTU(t *testing.T, l *lab.Lab, tt e2e.Transfer) {
	t.Helper()
	const mtu = 1500
	changeMTU(t, l, mtu, mtu)
	counted := e2e.CountedFrom(t, l, domain...)
	e2e.Must(t, l.Node("athos"), "ethtool", "-K", "eth1", "tso", "off", "gso", "off", "tx", "off")
	t.Cleanup(func() {
		e2e.MustAfter(t, l.Node("athos"), "ethtool", "-K", "eth1", "tx", "on", "gso", "on", "tso", "on")
	})
	scan, wire := e2e.StartScan(t, l, "porthos", "eth0"), e2e.StartWire(t, l, "porthos", "eth0")
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindTCP, Bytes: 8 << 20, Port: 9001})
	(&segmented{from: "alpha", size: 1200, each: 20, calls: 10}).run(t, l)
	wire.Stop(t)
	scan.Stop(t)
	t.Logf(
		"%d of %d segments had a trace; athos marked %d packets and skipped %d for the MTU, %d for GSO",
		scan.Marked.Load(),
		scan.Packets.Load(),
		counted.Counter(t, "athos", tt.Added),
		counted.Counter(t, "athos", "encap_skipped_mtu"),
		counted.Counter(t, "athos", "encap_skipped_gso"),
	)
	if scan.Longest.Load() > mtu {
		t.Errorf("a packet of %d bytes left athos on a link with MTU %d", scan.Longest.Load(), mtu)
	}
	// Most of the transfer was in GSO packets: there are more segments
	// with a trace than packets that athos marked.
	if scan.Marked.Load() < 1000 || uint64(scan.Marked.Load()) < 2*counted.Counter(t, "athos", tt.Added) {
		t.Errorf(
			"%d segments had a trace, of %d packets that athos marked; want the segments of large packets",
			scan.Marked.Load(),
			counted.Counter(t, "athos", tt.Added),
		)
	}
	counted.Check(t, "athos", map[string]uint64{"encap_skipped_gso": 0, "encap_skipped_headroom": 0})
	checkSums(t, wire.Path, int(scan.Marked.Load()))
}

// Packets that athos itself sends have no checksum yet when they get the header.
// Whether they are segmented and summed after our program or not at all, they
// arrive intact.
func TestChecksumPartial(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Domain(t, e2e.Transfer{Attach: e2e.TCModes()[0], Aramis: []string{"{id: 123}", "{id: 123, remove: true}"}}))
	const size, each, calls = 1400, 20, 20
	for _, tt := range []struct {
		name      string
		off       []string // offloads of athos's eth1
		segmented int      // packets on the wire for each call with UDP_SEGMENT; 0: do not call
	}{
		{"all offloads", nil, 1},
		{"no segmentation", []string{"tso", "off", "gso", "off", "tx-udp-segmentation", "off"}, each},
		{"no segmentation, no checksums", []string{"tx", "off"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.off != nil {
				e2e.Must(t, l.Node("athos"), append([]string{"ethtool", "-K", "eth1"}, tt.off...)...)
			}
			wire := e2e.StartWire(t, l, "porthos", "eth0")
			sendLocal(t, l, func() int {
				if tt.segmented == 0 {
					return 0
				}
				(&segmented{from: "athos", size: size, each: each, calls: calls}).run(t, l)
				return calls * tt.segmented
			})
			wire.Stop(t)
			if tt.name == "no segmentation, no checksums" { // otherwise veth leaves checksums open
				checkSums(t, wire.Path, localBytes/1500+localPackets)
			}
			// The same configuration encapsulates forwarded packets.
			before := e2e.Settled(t, l, "athos", "encap_tunneled")
			e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: localPackets, Size: size, Port: 9000})
			e2e.CheckCounters(t, l, "athos", map[string]uint64{"encap_tunneled": before + localPackets})
		})
	}
	t.Run("large UDP without checksums, auto", func(t *testing.T) { sendWithoutChecksums(t, l) })
	e2e.Reconfigure(t, l.Topology(), "athos", "mode: auto", "mode: encap")
	if err := l.Node("athos").Reconfigure(t.Context(), l.Topology().Node("athos").Agent.Config); err != nil {
		t.Fatal(err)
	}
	t.Run("large UDP without checksums, encap", func(t *testing.T) { sendWithoutChecksums(t, l) })
}

// Traces of localBytes fit in a CPU's ring, however late they are read.
const (
	localPackets = 20
	localBytes   = 1 << 20
)

// sendLocal sends from athos to beta and checks the traces; more also sends UDP,
// and returns the resulting number of packets.
func sendLocal(t *testing.T, l *lab.Lab, more func() int) {
	t.Helper()
	const size = 1400
	removed, tunneled := e2e.Settled(t, l, "aramis", "inline_removed"), e2e.Settled(t, l, "athos", "encap_tunneled")
	traces, beta := e2e.Keep(t, l, "aramis"), e2e.StartScan(t, l, "beta", "eth0")
	e2e.Send(t, l, "athos",
		lab.Traffic{Kind: lab.KindPing, Count: localPackets, Size: size},
		lab.Traffic{Kind: lab.KindUDP, Count: localPackets, Size: size, Port: 9000},
		lab.Traffic{Kind: lab.KindTCP, Bytes: localBytes, Port: 9001})
	datagrams := localPackets + more()
	byProtocol := map[int]int{}
	for i, r := range traces.Read(t, int(e2e.Settled(t, l, "aramis", "inline_removed")-removed)) {
		byProtocol[int(r.Packet.NextHeader)]++
		if got, want := e2e.Way(r), "1 ->102 hop limit 64, 2 201>202 hop limit 63, 3 301>- hop limit 62"; got != want {
			t.Fatalf("trace %d: %s\nwant %s", i, got, want)
		}
	}
	if byProtocol[58] != localPackets || byProtocol[17] != datagrams || byProtocol[6] == 0 {
		t.Errorf("traces by protocol: %v, want %d of 58, %d of 17, and some of 6", byProtocol, localPackets, datagrams)
	}
	e2e.CheckCounters(t, l, "athos", map[string]uint64{
		"encap_tunneled": tunneled, "encap_skipped_mtu": 0, "encap_skipped_gso": 0, "encap_skipped_headroom": 0, "encap_skipped_hbh": 0,
	})
	beta.Stop(t)
	if beta.Packets.Load() == 0 || beta.IOAMBytes.Load() > 0 {
		t.Errorf("beta received %d packets with %d bytes of IOAM", beta.Packets.Load(), beta.IOAMBytes.Load())
	}
}

// sendWithoutChecksums sends a host's own large UDP packets through an interface without checksum
// offload: the kernel could not segment them once they have grown.
func sendWithoutChecksums(t *testing.T, l *lab.Lab) {
	t.Helper()
	e2e.Must(t, l.Node("athos"), "ethtool", "-K", "eth1", "tx", "on", "gso", "on", "tso", "on", "tx-udp-segmentation", "on")
	e2e.Must(t, l.Node("athos"), "ethtool", "-K", "eth1", "tx", "off")
	wire := e2e.StartWire(t, l, "porthos", "eth0")
	(&segmented{from: "athos", size: 1400, each: 20, calls: 20}).run(t, l)
	wire.Stop(t)
	checkSums(t, wire.Path, 400)
}
