// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
)

// tapEnd is the test's end of an interface of a router: another driver
// than veth, with XDP of its own.
type tapEnd struct {
	file   *os.File
	header int // bytes before each frame
	peer   net.HardwareAddr

	mu   sync.Mutex
	came map[int][][]byte // frames that left by it, by flow label
	done sync.WaitGroup
}

// newTap makes one in a node, up and with an address and neighbours.
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
	must(t, n, "ip", "link", "set", name, "mtu", fmt.Sprint(mtu), "up")
	must(t, n, "ip", "-6", "addr", "add", address, "dev", name, "nodad")
	for _, neighbour := range neighbours {
		must(t, n, "ip", "-6", "neigh", "replace", neighbour, "lladdr", p.peer.String(), "dev", name, "nud", "permanent")
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

// frame is a packet as it is written: behind what its driver needs, a header
// like that of a device that sums the upper layer's bytes (struct virtio_net_hdr)
// among it. These begin at an offset in the packet.
func (p *tapEnd) frame(router net.HardwareAddr, packet []byte, upper, sumAt uint16) []byte {
	f := make([]byte, p.header)
	if sumAt > 0 {
		f[0] = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
		binary.NativeEndian.PutUint16(f[6:], 14+upper)
		binary.NativeEndian.PutUint16(f[8:], sumAt)
	}
	return slices.Concat(f, router, p.peer, []byte{0x86, 0xdd}, packet)
}

// passTaps sends packets into one tap and returns the frames that came out of
// another. Each write goes through the programs before it returns.
func passTaps(t *testing.T, l *lab.Lab, in, out *tapEnd, packets [][]byte) map[int][][]byte {
	t.Helper()
	const marker = 0xfffff
	last := packet(marker, 64, nil, []byte("end of the test"))
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
	await(t, "the marker behind the packets", 5*time.Second, func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return len(out.came[marker]) > 0
	})
	out.mu.Lock()
	defer out.mu.Unlock()
	got := maps.Clone(out.came)
	clear(out.came)
	delete(got, marker)
	delete(got, 0) // what neighbours say
	return got
}

// raiseTaps is a chain with taps where its hosts were, served by a hook.
func raiseTaps(t *testing.T, text string, flags uint16, hook string) (l *lab.Lab, in, out *tapEnd) {
	t.Helper()
	top, err := lab.Parse("taps", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	router := *top.Node("router")
	router.Forwarding = true
	top.Nodes, top.Links = []lab.NodeSpec{router}, nil
	l = raise(t, top)
	in = newTap(t, l.Node("router"), "eth0", flags, 1500, "2001:db8:1::1/64", "2001:db8:1::2")
	out = newTap(t, l.Node("router"), "eth1", flags, 1400, "2001:db8:2::1/64", "2001:db8:2::2")
	await(t, hook+" on the taps", 10*time.Second, func() bool {
		a, b := statusInterface(t, l, "router", "eth0"), statusInterface(t, l, "router", "eth1")
		return a.IngressHook == hook && b.IngressHook == hook
	})
	awaitRouting()
	return l, in, out
}

// A tap has XDP in its driver as a veth has, and sends what XDP redirects: all
// that a router does with packets, encapsulation and decapsulation among it, is
// byte for byte what the stack's path gives. Where the driver makes an skb first,
// the kernel's generic XDP runs the same program, to the same effect.
func TestForwardTaps(t *testing.T) {
	needRedirection(t)
	const count = 1000
	packets := randomPackets(t, count)
	l, in, out := raiseTaps(t, fastChain, 0, "xdp")
	came, fast := map[string]map[int][][]byte{}, map[string]forwards{}
	for _, way := range []string{"driver", "generic", "stack"} {
		if way == "stack" {
			forwarding(t, l, "router", "stack")
		}
		limit := math.MaxInt32
		if way == "generic" {
			limit = 1 << 20
		}
		in.bound(t, limit)
		came[way] = passTaps(t, l, in, out, packets)
		fast[way] = forwardsOf(t, l, "router")
	}
	first, second, third := fast["driver"], fast["generic"], fast["stack"]
	t.Logf("%d packets came; fast %v, to the stack %v", len(came["driver"]), first.fast, first.toStack)
	if n := first.sum(); n < count/4 || second.sum() != 2*n || third.sum() != 2*n {
		t.Errorf("forwarded fast: %d in the driver, %d with generic XDP besides, %d by the stack", n, second.sum()-n, third.sum()-second.sum())
	}
	for _, outcome := range []string{"trace_filled", "encap_tunneled", "encap_inserted"} {
		if first.fast[outcome] == 0 {
			t.Errorf("no packet was forwarded fast with the outcome %s: %v", outcome, first.fast)
		}
	}
	if n := statusInterface(t, l, "router", "eth0").Ingress["tunnel_decapsulated"]; n == 0 {
		t.Error("no tunnel was decapsulated")
	}
	for _, way := range []string{"driver", "generic"} {
		faults := 0
		for i, p := range packets {
			if a, b := fmt.Sprintf("%x", came[way][i+1]), fmt.Sprintf("%x", came["stack"][i+1]); a != b && faults < 3 {
				faults++
				t.Errorf("packet %x\n%s\n%sby the stack\n%s", p[:min(len(p), 200)], way, dump(came[way][i+1]), dump(came["stack"][i+1]))
			}
		}
	}
}

// bound limits what the kernel holds of what is written, or not: where there is
// a limit, the driver makes an skb of each frame before XDP.
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

// warnsOfTap wants a warning about the router's first tap.
func warnsOfTap(t *testing.T, l *lab.Lab, code health.Code) {
	t.Helper()
	warnings := statusOf(t, l, "router").Warnings
	if !slices.ContainsFunc(warnings, func(w health.Warning) bool { return w.Code == code && w.Interface == "eth0" }) {
		t.Errorf("no %s tells of eth0: %+v", code, warnings)
	}
}

// openChecksum leaves the checksum of a UDP packet to whom sends it: only the
// pseudo-header is summed up. at is its place in the UDP header.
func openChecksum(whole []byte) (open []byte, at uint16) {
	at, open = 6, bytes.Clone(whole)
	binary.BigEndian.PutUint16(open[40+at:], folded(open[8:40], len(open)-40+17))
	return open, at
}

// A virtual machine's tap may leave checksums open in a header that no program
// sees: its packets go through the stack, which closes them, and a warning says
// so.
func TestForwardTapOfVirtualMachine(t *testing.T) {
	keeps := strings.NewReplacer(", remove: true", "", `decapsulations:
        - {tunnel-destination: "2001:db8:2::9"}`, "decapsulations: []").Replace(fastChain)
	l, in, out := raiseTaps(t, keeps, unix.IFF_VNET_HDR, "xdp")
	warnsOfTap(t, l, health.FastRefused)
	whole := toPort("2001:db8:2::2")
	open, at := openChecksum(whole)
	if _, err := in.file.Write(in.frame(linkAddress(t, l.Node("router"), "eth0"), open, 40, at)); err != nil {
		t.Fatal(err)
	}
	came := passTaps(t, l, in, out, nil)[1]
	whole[7]--
	if len(came) != 1 || !bytes.Equal(came[0][14:], whole) {
		t.Errorf("it came as\n%swant\n%s", dump(came), hex.Dump(whole))
	}
	if f := forwardsOf(t, l, "router"); f.sum() > 0 || f.stack == 0 {
		t.Errorf("the router forwarded %d packets fast, %d by the stack", f.sum(), f.stack)
	}
}
