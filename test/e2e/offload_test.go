// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/tshark"
)

// segmented sends UDP as one large packet per call, which the kernel cuts into
// datagrams of the same size where it must (UDP_SEGMENT).
type segmented struct {
	from   string
	size   int // of a datagram's payload
	each   int // datagrams per call
	calls  int
	number uint32
}

// datagram is the payload of one number, different in every byte's place.
func (s *segmented) datagram(number uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, number)
	for len(b) < s.size {
		b = append(b, byte(len(b)>>8)^byte(len(b))^byte(number))
	}
	return b
}

// run sends to beta and wants every datagram, in order.
func (s *segmented) run(t *testing.T, l *lab.Lab) {
	t.Helper()
	destination, _ := l.Topology().Address("beta")
	to := &net.UDPAddr{IP: destination.AsSlice(), Port: 9000}
	var receiver, sender *net.UDPConn
	open := func(node string, f func() error) {
		if err := bind(l.Node(node), f); err != nil {
			t.Fatal(err)
		}
	}
	open("beta", func() (err error) { receiver, err = net.ListenUDP("udp6", to); return err })
	defer receiver.Close()
	if err := control(receiver, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
		t.Fatal(err)
	}
	open(s.from, func() (err error) { sender, err = net.DialUDP("udp6", nil, to); return err })
	defer sender.Close()
	if err := control(sender, unix.SOL_UDP, unix.UDP_SEGMENT, s.size); err != nil {
		t.Fatal(err)
	}
	for range s.calls {
		var all []byte
		for range s.each {
			all = append(all, s.datagram(s.number)...)
			s.number++
		}
		if _, err := sender.Write(all); err != nil {
			t.Fatal(err)
		}
	}
	if err := receiver.SetReadDeadline(time.Now().Add(patience.Of(3 * time.Second))); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1<<16)
	for number := range s.number {
		n, err := receiver.Read(got)
		if err != nil {
			t.Fatalf("datagram %d of %d: %v", number, s.number, err)
		}
		if !bytes.Equal(got[:n], s.datagram(number)) {
			t.Fatalf("datagram %d: %d bytes came, want %d: %.20x…", number, n, s.size, got[:n])
		}
	}
}

func control(conn *net.UDPConn, level, option, value int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), level, option, value) })
	return errors.Join(err, set)
}

// Large UDP packets get one trace each where their segments can grow, and go on
// without where they cannot.
func TestUDPSegmentation(t *testing.T) {
	t.Parallel()
	for _, tt := range modes(tcModes()[0]) {
		t.Run(tt.mode, func(t *testing.T) {
			top := domain(t, tt)
			setMTU(top, 1500, 1700)
			l := raise(t, top)
			beta := startScan(t, l, "beta", "eth0")
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
			must(t, l.Node("athos"), "ip", "link", "set", "eth1", "mtu", "1500")
			crossWhole(t, l, &segmented{from: "alpha", size: 1452, each: 20, calls: calls})
			skipped += calls
			checkCounters(t, l, "athos", map[string]uint64{
				tt.added: traced, "encap_skipped_mtu": skipped, "encap_skipped_gso": 0, "encap_skipped_headroom": 0,
			})
			checkCounters(t, l, "porthos", map[string]uint64{"trace_filled": 2 * traced})
			checkCounters(t, l, "aramis", map[string]uint64{tt.removed: traced, "boundary_dropped": 0})
			beta.stop(t)
			if n := beta.ioamBytes.Load(); n > 0 {
				t.Errorf("beta received %d bytes of IOAM", n)
			}
		})
	}
}

// crossWhole sends large packets, which must cross the domain in one piece.
func crossWhole(t *testing.T, l *lab.Lab, s *segmented) {
	t.Helper()
	inside := startScan(t, l, "porthos", "eth0")
	s.run(t, l)
	inside.stop(t)
	if n := inside.longest.Load(); n < int64(s.size*s.each) {
		t.Errorf("the longest packet in the domain has %d bytes; want more than %d datagrams of %d, uncut", n, s.each, s.size)
	}
}

// wire is a capture of what an interface receives, as a file.
type wire struct {
	path    string
	file    *os.File
	capture *lab.Capture
}

func startWire(t *testing.T, l *lab.Lab, node, name string) *wire {
	t.Helper()
	w := &wire{path: filepath.Join(t.TempDir(), node+".pcap")}
	var err error
	if w.file, err = os.Create(w.path); err != nil {
		t.Fatal(err)
	}
	if w.capture, err = l.Capture(node, name, lab.CaptureOptions{Writer: w.file}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *wire) stop(t *testing.T) {
	t.Helper()
	stats, err := w.capture.Stop()
	if err := errors.Join(err, w.file.Close()); err != nil {
		t.Fatal(err)
	}
	if stats.Dropped > 0 {
		t.Errorf("the capture missed %d packets", stats.Dropped)
	}
}

// checkSums has tshark compute the checksum of every TCP and UDP packet to beta.
func checkSums(t *testing.T, path string, least int) {
	t.Helper()
	lines := tshark.Run(t, path, "ipv6.dst == 2001:db8:2::2 && (tcp || udp)", "-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
		"-e", "frame.number", "-e", "tcp.checksum.status", "-e", "udp.checksum.status")
	if len(lines) < least {
		t.Errorf("tshark found %d TCP and UDP packets, want at least %d", len(lines), least)
	}
	for _, line := range lines {
		frame, status, _ := strings.Cut(line, "\t")
		if status = strings.TrimSpace(status); status != "1" { // 0 bad, 1 good, 2 not verified
			whole, _ := exec.Command("tshark", "-r", path, "-Y", "frame.number == "+frame, "-V", "-x", "-o", "tcp.check_checksum:TRUE").CombinedOutput()
			t.Fatalf("frame %s: the status of the checksum is %q, want 1, good\n%s", frame, status, whole)
		}
	}
}

// The kernel cuts GSO packets behind our egress program, and sums the pieces:
// none is longer than the link allows.
func TestSegmentsWithinMTU(t *testing.T) {
	t.Parallel()
	const mtu = 1500
	for _, tt := range modes(tcModes()[0]) {
		t.Run(tt.mode, func(t *testing.T) {
			top := domain(t, tt)
			setMTU(top, mtu, mtu)
			l := raise(t, top)
			must(t, l.Node("athos"), "ethtool", "-K", "eth1", "tso", "off", "gso", "off", "tx", "off")
			scan, wire := startScan(t, l, "porthos", "eth0"), startWire(t, l, "porthos", "eth0")
			send(t, l, "alpha", lab.Traffic{Kind: lab.KindTCP, Bytes: 8 << 20, Port: 9001})
			(&segmented{from: "alpha", size: 1200, each: 20, calls: 10}).run(t, l)
			wire.stop(t)
			scan.stop(t)
			t.Logf("%d of %d segments had a trace; athos marked %d packets and skipped %d for the MTU, %d for GSO", scan.marked.Load(), scan.packets.Load(),
				counter(t, l, "athos", tt.added), counter(t, l, "athos", "encap_skipped_mtu"), counter(t, l, "athos", "encap_skipped_gso"))
			if scan.longest.Load() > mtu {
				t.Errorf("a packet of %d bytes left athos by a link of %d", scan.longest.Load(), mtu)
			}
			// Most of the transfer was in GSO packets: more than can have been sent whole.
			if scan.marked.Load() < 1000 || uint64(scan.marked.Load()) < 2*counter(t, l, "athos", tt.added) {
				t.Errorf("%d segments had a trace, of %d packets that athos marked; want the segments of large packets", scan.marked.Load(), counter(t, l, "athos", tt.added))
			}
			checkCounters(t, l, "athos", map[string]uint64{"encap_skipped_gso": 0, "encap_skipped_headroom": 0})
			checkSums(t, wire.path, int(scan.marked.Load()))
		})
	}
}

// Packets that athos itself sends are not summed yet when they get the header:
// cut and summed behind us or not at all, they come out right.
func TestChecksumPartial(t *testing.T) {
	t.Parallel()
	l := raise(t, domain(t, transfer{attach: tcModes()[0], aramis: []string{"{id: 123}", "{id: 123, remove: true}"}}))
	const size, each, calls = 1400, 20, 20
	for _, tt := range []struct {
		name      string
		off       []string // offloads of athos's eth1
		segmented int      // packets that come of one call with UDP_SEGMENT; 0: do not call
	}{
		{"all offloads", nil, 1},
		{"no segmentation", []string{"tso", "off", "gso", "off", "tx-udp-segmentation", "off"}, each},
		{"no segmentation, no checksums", []string{"tx", "off"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.off != nil {
				must(t, l.Node("athos"), append([]string{"ethtool", "-K", "eth1"}, tt.off...)...)
			}
			wire := startWire(t, l, "porthos", "eth0")
			sendLocal(t, l, func() int {
				if tt.segmented == 0 {
					return 0
				}
				(&segmented{from: "athos", size: size, each: each, calls: calls}).run(t, l)
				return calls * tt.segmented
			})
			wire.stop(t)
			if tt.name == "no segmentation, no checksums" { // otherwise veth leaves them open
				checkSums(t, wire.path, localBytes/1500+localPackets)
			}
			// In the same configuration, forwarded packets are tunnelled.
			before := settled(t, l, "athos", "encap_tunneled")
			send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: localPackets, Size: size, Port: 9000})
			checkCounters(t, l, "athos", map[string]uint64{"encap_tunneled": before + localPackets})
		})
	}
}

// Traces of localBytes find room in a CPU's ring, however late they are read.
const (
	localPackets = 20
	localBytes   = 1 << 20
)

// sendLocal sends from athos to beta and checks the traces; more sends UDP, too,
// and says how many packets come of it.
func sendLocal(t *testing.T, l *lab.Lab, more func() int) {
	t.Helper()
	const size = 1400
	removed, tunneled := settled(t, l, "aramis", "inline_removed"), settled(t, l, "athos", "encap_tunneled")
	traces, beta := keep(t, l, "aramis"), startScan(t, l, "beta", "eth0")
	send(t, l, "athos",
		lab.Traffic{Kind: lab.KindPing, Count: localPackets, Size: size},
		lab.Traffic{Kind: lab.KindUDP, Count: localPackets, Size: size, Port: 9000},
		lab.Traffic{Kind: lab.KindTCP, Bytes: localBytes, Port: 9001})
	datagrams := localPackets + more()
	byProtocol := map[int]int{}
	for i, r := range traces.read(t, int(settled(t, l, "aramis", "inline_removed")-removed)) {
		byProtocol[int(r.Packet.NextHeader)]++
		if got, want := way(r), "1 ->102 hop limit 64, 2 201>202 hop limit 63, 3 301>- hop limit 62"; got != want {
			t.Fatalf("trace %d: %s\nwant %s", i, got, want)
		}
	}
	if byProtocol[58] != localPackets || byProtocol[17] != datagrams || byProtocol[6] == 0 {
		t.Errorf("traces by protocol: %v, want %d of 58, %d of 17, and some of 6", byProtocol, localPackets, datagrams)
	}
	checkCounters(t, l, "athos", map[string]uint64{
		"encap_tunneled": tunneled, "encap_skipped_mtu": 0, "encap_skipped_gso": 0, "encap_skipped_headroom": 0, "encap_skipped_hbh": 0,
	})
	beta.stop(t)
	if beta.packets.Load() == 0 || beta.ioamBytes.Load() > 0 {
		t.Errorf("beta received %d packets with %d bytes of IOAM", beta.packets.Load(), beta.ioamBytes.Load())
	}
}
