// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// tapEnd is the test's end of a router's tap interface: a driver other than veth
// with native XDP.
type tapEnd struct {
	file   *os.File
	header int // bytes before each frame
	peer   net.HardwareAddr

	mu   sync.Mutex
	came map[int][][]byte // frames that left through it, by flow label
	done sync.WaitGroup
}

// newTap makes a tap in a node, up and with an address and neighbours.
func newTap(t *testing.T, n *lab.Node, name string, flags uint16, mtu int, address string, neighbours ...string) *tapEnd {
	t.Helper()
	p := &tapEnd{peer: net.HardwareAddr{2, 0, 0, 0, 0xaa, name[len(name)-1]}, came: map[int][][]byte{}}
	if flags&unix.IFF_VNET_HDR != 0 {
		p.header = 10 // struct virtio_net_hdr
	}
	err := n.Do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq(name)
		if err == nil {
			request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | flags)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
		}
		p.file = os.NewFile(uintptr(fd), name)
		return err
	})
	if err != nil {
		t.Fatalf("make a tap: %v", err)
	}
	t.Cleanup(func() { p.file.Close(); p.done.Wait() })
	e2e.Must(t, n, "ip", "link", "set", name, "mtu", fmt.Sprint(mtu), "up")
	e2e.Must(t, n, "ip", "-6", "addr", "add", address, "dev", name, "nodad")
	for _, neighbour := range neighbours {
		e2e.Must(t, n, "ip", "-6", "neigh", "replace", neighbour, "lladdr", p.peer.String(), "dev", name, "nud", "permanent")
	}
	p.done.Go(p.read)
	return p
}

func (p *tapEnd) read() {
	for b := make([]byte, 4096); ; {
		n, err := p.file.Read(b)
		if err != nil {
			return
		}
		frame := b[p.header:max(n, p.header)]
		if len(frame) < 14+40 || frame[12] != 0x86 || frame[13] != 0xdd || frame[0]&1 != 0 {
			continue
		}
		label := int(binary.BigEndian.Uint32(frame[14:]) & 0xfffff)
		p.mu.Lock()
		p.came[label] = append(p.came[label], bytes.Clone(frame))
		p.mu.Unlock()
	}
}

// frame is a packet as written to the tap: first the header that the driver
// needs, which may leave a checksum to the device (struct virtio_net_hdr). upper
// and sumAt locate that checksum in the packet.
func (p *tapEnd) frame(router net.HardwareAddr, packet []byte, upper, sumAt uint16) []byte {
	f := make([]byte, p.header)
	if sumAt > 0 {
		f[0] = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
		binary.NativeEndian.PutUint16(f[6:], 14+upper)
		binary.NativeEndian.PutUint16(f[8:], sumAt)
	}
	return append(f, craft.Ethernet(router, p.peer, packet)...)
}

// passTaps sends packets into one tap and returns the frames that left the other.
// Each write runs the programs before it returns.
func passTaps(t *testing.T, l *lab.Lab, in, out *tapEnd, packets [][]byte) map[int][][]byte {
	t.Helper()
	const marker = 0xfffff
	last := e2e.Packet(marker, 64, nil, []byte("end of the test"))
	last[6] = 59
	router := linkAddress(t, l.Node("router"), "eth0")
	for i, p := range append(packets[:len(packets):len(packets)], last) {
		if _, err := in.file.Write(in.frame(router, p, 0, 0)); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			time.Sleep(2 * time.Millisecond) // a tap holds 1000 frames
		}
	}
	e2e.Await(t, "the marker behind the packets", 5*time.Second, func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return len(out.came[marker]) > 0
	})
	out.mu.Lock()
	defer out.mu.Unlock()
	got := maps.Clone(out.came)
	clear(out.came)
	delete(got, marker)
	delete(got, 0) // neighbour discovery
	return got
}

// raiseTaps is a chain with taps in place of its hosts, served by a hook.
func raiseTaps(t *testing.T, text string, flags uint16, hook string) (l *lab.Lab, in, out *tapEnd) {
	t.Helper()
	top, err := lab.Parse("taps", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	router := *top.Node("router")
	router.Forwarding = true
	top.Nodes, top.Links = []lab.NodeSpec{router}, nil
	l = e2e.Raise(t, top)
	in = newTap(t, l.Node("router"), "eth0", flags, 1500, "2001:db8:1::1/64", "2001:db8:1::2")
	out = newTap(t, l.Node("router"), "eth1", flags, 1400, "2001:db8:2::1/64", "2001:db8:2::2")
	e2e.Await(t, hook+" on the taps", 10*time.Second, func() bool {
		a, b := e2e.StatusInterface(t, l, "router", "eth0"), e2e.StatusInterface(t, l, "router", "eth1")
		return a.IngressHook == hook && b.IngressHook == hook
	})
	e2e.AwaitRouting(t, l)
	return l, in, out
}

// bound sets or lifts the limit on written data that the kernel holds: with a
// limit, the driver makes an skb of each frame before XDP.
func (p *tapEnd) bound(t *testing.T, limit int) {
	t.Helper()
	conn, err := p.file.SyscallConn()
	if err == nil {
		cerr := conn.Control(func(fd uintptr) { err = unix.IoctlSetPointerInt(int(fd), unix.TUNSETSNDBUF, limit) })
		err = errors.Join(err, cerr)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// warnsOfTap checks for a warning about the router's first tap.
func warnsOfTap(t *testing.T, l *lab.Lab, code health.Code) {
	t.Helper()
	warnings := e2e.StatusOf(t, l, "router").Warnings
	if !slices.ContainsFunc(warnings, func(w health.Warning) bool { return w.Code == code && w.Interface == "eth0" }) {
		t.Errorf("no warning %s for eth0: %+v", code, warnings)
	}
}

// openChecksum leaves the checksum of a UDP packet to the device: it holds only
// the sum of the pseudo-header. at is its offset in the UDP header.
func openChecksum(whole []byte) (open []byte, at uint16) {
	at, open = 6, bytes.Clone(whole)
	binary.BigEndian.PutUint16(open[40+at:], craft.Sum(len(open)-40+17, open[8:40]))
	return open, at
}

// A virtual machine's tap passes the offset of an open checksum outside the
// frame. Bytes that XDP removes would make it wrong, so headers are removed in
// tc, and the checksum is completed at the right place.
func TestTapOfVirtualMachineRemoves(t *testing.T) {
	t.Parallel()
	tc := string(e2e.TCModes()[0])
	l, in, out := raiseTaps(t, fastChain, unix.IFF_VNET_HDR, tc)
	warnsOfTap(t, l, health.XDPFallback)
	whole := toPort("2001:db8:2::2")
	open, at := openChecksum(whole)
	trace := ioam.Trace{Namespace: 456, NodeLen: 1, Type: 0x800000, RemainingLen: 2, Data: make([]byte, 8)}
	header, err := ioam.AppendExtensionHeader(nil, 17, trace.Option())
	if err != nil {
		t.Fatal(err)
	}
	sent := slices.Concat(open[:40], header, open[40:])
	sent[6] = 0
	binary.BigEndian.PutUint16(sent[4:], uint16(len(sent)-40))
	frame := in.frame(linkAddress(t, l.Node("router"), "eth0"), sent, uint16(40+len(header)), at)
	if _, err := in.file.Write(frame); err != nil {
		t.Fatalf("the tap refuses the frame: %v", err)
	}
	e2e.Await(t, "the header's removal", 5*time.Second, func() bool {
		return e2e.StatusInterface(t, l, "router", "eth0").Ingress["inline_removed"] == 1
	})
	came := passTaps(t, l, in, out, nil)[1]
	whole[7]--
	if len(came) != 1 || !bytes.Equal(came[0][14:], whole) {
		t.Errorf("it arrived as\n%swant\n%s", dump(came), hex.Dump(whole))
	}
}
