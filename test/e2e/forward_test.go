// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/lab"
)

// needRedirection skips where no kernel tells which devices can send what XDP
// redirects (before Linux 6.3): packets are left to the stack there.
func needRedirection(t *testing.T) {
	t.Helper()
	if _, err := netlink.GenlFamilyGet("netdev"); err != nil {
		t.Skipf("XDP cannot forward here: %v", err)
	}
}

// forwardFast changes the configuration of nodes.
func forwardFast(t *testing.T, top *lab.Topology, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		reconfigure(t, top, node, ", role:", ", forwarding: fast, role:")
	}
}

// openEnds makes what is at the ends of a way through fast routers as it is in
// a network of machines: eth0 of the nodes takes what XDP redirects, and alpha
// sends packets whose checksums are in place.
func openEnds(t *testing.T, l *lab.Lab, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		must(t, l.Node(node), "ethtool", "-K", "eth0", "gro", "on")
	}
	must(t, l.Node("alpha"), "ethtool", "-K", "eth0", "tx", "off")
	awaitRouting()
}

// awaitRouting waits until agents know which devices can send and which neighbours
// there are: mostly they are told at once, but on a busy machine only a second is sure.
func awaitRouting() { time.Sleep(1500 * time.Millisecond) }

// forwards is what a node has forwarded so far.
type forwards struct {
	fast    map[string]uint64 // in XDP, by outcome
	toStack map[string]uint64 // by reason
	stack   uint64            // by the kernel, whoever left it the packets
}

func (f forwards) sum() (n uint64) {
	for _, count := range f.fast {
		n += count
	}
	return n
}

func forwardsOf(t *testing.T, l *lab.Lab, node string) forwards {
	t.Helper()
	f := forwards{fast: map[string]uint64{}, toStack: map[string]uint64{}, stack: stackForwards(t, l, node)}
	for _, i := range statusOf(t, l, node).Interfaces {
		for outcome, n := range i.Forwarded {
			f.fast[outcome] += n
		}
		for reason, n := range i.ToStack {
			f.toStack[reason] += n
		}
	}
	return f
}

// stackForwards is the kernel's own count of what it has forwarded.
func stackForwards(t *testing.T, l *lab.Lab, node string) (n uint64) {
	t.Helper()
	err := l.Node(node).Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp6")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); f[0] == "Ip6OutForwDatagrams" {
				n, err = strconv.ParseUint(f[1], 10, 64)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// wayOfLine is the trace of whatever alpha sends to beta along `line`.
const wayOfLine = "1 101>102 hop limit 63, 2 201>202 hop limit 62, 3 301>- hop limit 61"

// All traffic crosses three routers past their stacks: whole, traced, and
// without IOAM behind them.
func TestForwardFast(t *testing.T) {
	needRedirection(t)
	const count, size = 50, 1400
	for _, tt := range modes("xdp") {
		t.Run(tt.mode, func(t *testing.T) {
			top := domain(t, tt)
			forwardFast(t, top, routers...)
			l := raise(t, top)
			openEnds(t, l, "alpha", "beta")
			must(t, l.Node("beta"), "ethtool", "-K", "eth0", "tx", "off")
			beta := startScan(t, l, "beta", "eth0")
			sendTraced(t, l, count, size)
			send(t, l, "alpha", lab.Traffic{Kind: lab.KindTCP, Bytes: 32 << 20, Port: 9001})
			sendBack(t, l, lab.Traffic{Kind: lab.KindUDP, Count: count, Size: size, Port: 9002},
				lab.Traffic{Kind: lab.KindTCP, Bytes: 8 << 20, Port: 9003})
			beta.stop(t)
			if n := beta.ioamBytes.Load(); n > 0 {
				t.Errorf("beta received %d bytes of IOAM", n)
			}
			checkFast(t, l, tt)
		})
	}
}

var routers = []string{"athos", "porthos", "aramis"}

// sendTraced sends ping and UDP and wants the whole trace of each packet.
func sendTraced(t *testing.T, l *lab.Lab, count, size int) {
	t.Helper()
	traces := keep(t, l, "aramis")
	send(t, l, "alpha",
		lab.Traffic{Kind: lab.KindPing, Count: count, Size: size},
		lab.Traffic{Kind: lab.KindUDP, Count: count, Size: size, Port: 9000})
	byProtocol := map[int]int{}
	for i, r := range traces.read(t, 2*count) {
		byProtocol[int(r.Packet.NextHeader)]++
		if got := way(r); got != wayOfLine || r.Overflow.Value || r.Remaining.Value != 0 {
			t.Fatalf("trace %d: %s, %d words left\nwant %s, none left", i, got, r.Remaining.Value, wayOfLine)
		}
	}
	if byProtocol[58] != count || byProtocol[17] != count {
		t.Errorf("traces by protocol: %v, want %d of 58 and of 17", byProtocol, count)
	}
}

// sendBack runs exchanges from beta to alpha.
func sendBack(t *testing.T, l *lab.Lab, exchanges ...lab.Traffic) {
	t.Helper()
	for _, e := range exchanges {
		e.From, e.To = "beta", "alpha"
		if r, err := l.Send(t.Context(), e); err != nil || r.Lost() > 0 || r.Duplicate > 0 {
			t.Errorf("%s of %d bytes back: %+v, %v", e.Kind, e.Size, r, err)
		}
	}
}

// checkFast wants each router to have traced the same packets, to have forwarded
// the same number, and to have left none to its stack.
func checkFast(t *testing.T, l *lab.Lab, tt transfer) {
	t.Helper()
	settled(t, l, "aramis", tt.removed)
	var all, traced []uint64
	for _, node := range routers {
		f := forwardsOf(t, l, node)
		all = append(all, f.sum())
		outcome := map[string]string{"athos": tt.added, "porthos": "trace_filled", "aramis": tt.removed}[node]
		if node == "aramis" { // its trace ends with the removal, at ingress
			traced = append(traced, counter(t, l, node, outcome))
		} else {
			traced = append(traced, f.fast[outcome])
		}
		checkLeft(t, node, f)
		if f.stack > 0 {
			t.Errorf("the stack of %s forwarded %d packets; left to it: %v", node, f.stack, f.toStack)
		}
	}
	if state := neighbourOf(t, l.Node("athos"), "2001:db8:12::2").State; state != netlink.NUD_PERMANENT {
		t.Errorf("a permanent neighbour in use came to be in state %#x", state)
	}
	if traced[0] < 1000 || traced[0] != traced[1] || traced[1] != traced[2] {
		t.Errorf("the routers traced %v packets; want one number, of thousands", traced)
	}
	if all[0] <= traced[0] || all[0] != all[1] || all[1] != all[2] {
		t.Errorf("the routers forwarded %v packets; want one number, more than the %d to beta", all, traced[0])
	}
}

// checkLeft wants nothing to have been left to the stack but what neighbours
// say to each other: multicast, link-local, with a router alert.
func checkLeft(t *testing.T, node string, f forwards, reasons ...string) {
	t.Helper()
	reasons = append(reasons, "link", "packet", "headers", "control")
	for reason := range f.toStack {
		if !slices.Contains(reasons, reason) {
			t.Errorf("%s left packets to the stack: %v", node, f.toStack)
		}
	}
}

// In tc, packets go past the stack's routing, too, offloaded ones as they are.
func TestForwardFastInTC(t *testing.T) {
	const count, size = 50, 1400
	for _, attach := range tcModes() {
		t.Run(string(attach), func(t *testing.T) {
			tt := modes(tcModes()[0])[0]
			tt.attach = attach
			top := domain(t, tt)
			forwardFast(t, top, routers...)
			l := raise(t, top)
			beta := startScan(t, l, "beta", "eth0")
			sendTraced(t, l, count, size)
			send(t, l, "alpha", lab.Traffic{Kind: lab.KindTCP, Bytes: 32 << 20, Port: 9001})
			sendBack(t, l, lab.Traffic{Kind: lab.KindTCP, Bytes: 8 << 20, Port: 9003})
			checkTransfer(t, l, tt)
			beta.stop(t)
			if n := beta.ioamBytes.Load(); n > 0 || beta.longest.Load() <= 1500 {
				t.Errorf("beta received %d bytes of IOAM, and packets of %d bytes; want none, and larger ones than the link's", n, beta.longest.Load())
			}
			for _, node := range routers {
				f := forwardsOf(t, l, node)
				checkLeft(t, node, f)
				// porthos looks into no segments behind a trace
				if f.stack > 0 && (node != "porthos" || f.stack > f.toStack["packet"]) {
					t.Errorf("the stack of %s forwarded %d packets; left to it: %v", node, f.stack, f.toStack)
				}
			}
		})
	}
}

// What a sender on this machine leaves to the device to sum goes to the stack of
// athos, whose device sums; the other routers forward it fast. beta sums nothing,
// so its answers are everywhere the stack's. All arrives whole.
func TestForwardWithOpenChecksums(t *testing.T) {
	needRedirection(t)
	const count = 50
	top := domain(t, modes("xdp")[0])
	forwardFast(t, top, routers...)
	l := raise(t, top)
	must(t, l.Node("athos"), "ethtool", "-K", "eth1", "tx", "off")
	must(t, l.Node("beta"), "ethtool", "-K", "eth0", "gro", "on")
	awaitRouting()
	send(t, l, "alpha",
		lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 1400, Port: 9000},
		lab.Traffic{Kind: lab.KindTCP, Bytes: 16 << 20, Port: 9001})
	traced := settled(t, l, "athos", "encap_tunneled") // by its egress hook
	for _, node := range routers {
		f := forwardsOf(t, l, node)
		checkLeft(t, node, f, "checksum")
		if f.stack != f.toStack["checksum"] {
			t.Errorf("the stack of %s forwarded %d packets, want those with open checksums; left to it: %v", node, f.stack, f.toStack)
		}
		if want := map[string]uint64{"porthos": traced, "aramis": traced}[node]; f.sum() != want || traced < 1000 {
			t.Errorf("%s forwarded %d packets, want %d: %v", node, f.sum(), want, f.fast)
		}
	}
}
