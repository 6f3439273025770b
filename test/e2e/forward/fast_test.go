// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// All traffic crosses three routers in XDP: intact, traced, and without IOAM
// beyond the domain.
func TestForwardFast(t *testing.T) {
	t.Parallel()
	e2e.NeedRedirection(t)
	const count, size = 50, 1400
	for _, tt := range e2e.Modes("xdp") {
		t.Run(tt.Mode, func(t *testing.T) {
			t.Parallel()
			top := e2e.Domain(t, tt)
			forwardFast(t, top, e2e.Routers...)
			l := e2e.Raise(t, top)
			e2e.OpenEnds(t, l, "alpha", "beta")
			e2e.Must(t, l.Node("beta"), "ethtool", "-K", "eth0", "tx", "off")
			beta := e2e.StartScan(t, l, "beta", "eth0")
			sendTraced(t, l, count, size)
			e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindTCP, Bytes: 32 << 20, Port: 9001})
			sendBack(t, l, lab.Traffic{Kind: lab.KindUDP, Count: count, Size: size, Port: 9002},
				lab.Traffic{Kind: lab.KindTCP, Bytes: 8 << 20, Port: 9003})
			beta.Stop(t)
			if n := beta.IOAMBytes.Load(); n > 0 {
				t.Errorf("beta received %d bytes of IOAM", n)
			}
			checkFast(t, l, tt)
		})
	}
}

// sendTraced sends ping and UDP and checks that each packet has a complete trace.
func sendTraced(t *testing.T, l *lab.Lab, count, size int) {
	t.Helper()
	traces := e2e.Keep(t, l, "aramis")
	e2e.Send(t, l, "alpha",
		lab.Traffic{Kind: lab.KindPing, Count: count, Size: size},
		lab.Traffic{Kind: lab.KindUDP, Count: count, Size: size, Port: 9000})
	byProtocol := map[int]int{}
	for i, r := range traces.Read(t, 2*count) {
		byProtocol[int(r.Packet.NextHeader)]++
		if got := e2e.Way(r); got != e2e.WayOfLine || r.Overflow.Value || r.Remaining.Value != 0 {
			t.Fatalf("trace %d: %s, %d words left\nwant %s, none left", i, got, r.Remaining.Value, e2e.WayOfLine)
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

// checkFast checks that all routers traced the same number of packets, forwarded
// the same number, and left none to the stack.
func checkFast(t *testing.T, l *lab.Lab, tt e2e.Transfer) {
	t.Helper()
	e2e.Settled(t, l, "aramis", tt.Removed)
	var all, traced []uint64
	for _, node := range e2e.Routers {
		f := e2e.ForwardsOf(t, l, node)
		all = append(all, f.Sum())
		outcome := map[string]string{"athos": tt.Added, "porthos": "trace_filled", "aramis": tt.Removed}[node]
		if node == "aramis" { // it removes the trace at ingress
			traced = append(traced, e2e.Counter(t, l, node, outcome))
		} else {
			traced = append(traced, f.Fast[outcome])
		}
		checkLeft(t, node, f)
		if f.Stack > 0 {
			t.Errorf("the stack of %s forwarded %d packets; left to it: %v", node, f.Stack, f.ToStack)
		}
	}
	if state := neighbourOf(t, l.Node("athos"), "2001:db8:12::2").State; state != netlink.NUD_PERMANENT {
		t.Errorf("a permanent neighbour in use has changed to state %#x", state)
	}
	if traced[0] < 1000 || traced[0] != traced[1] || traced[1] != traced[2] {
		t.Errorf("the routers traced %v packets; want the same number at each, in the thousands", traced)
	}
	if all[0] <= traced[0] || all[0] != all[1] || all[1] != all[2] {
		t.Errorf("the routers forwarded %v packets; want the same number at each, more than the %d to beta", all, traced[0])
	}
}

// checkLeft checks that only neighbours' own messages were left to the stack:
// multicast, link-local, with a router alert.
func checkLeft(t *testing.T, node string, f e2e.Forwards, reasons ...string) {
	t.Helper()
	reasons = append(reasons, "link", "packet", "headers", "control")
	for reason := range f.ToStack {
		if !slices.Contains(reasons, reason) {
			t.Errorf("%s left packets to the stack: %v", node, f.ToStack)
		}
	}
}

// In tc, packets bypass the stack's routing, too; offloaded ones are not
// segmented.
func TestForwardFastInTC(t *testing.T) {
	t.Parallel()
	const count, size = 50, 1400
	for _, attach := range e2e.TCModes() {
		t.Run(string(attach), func(t *testing.T) {
			t.Parallel()
			tt := e2e.Modes(e2e.TCModes()[0])[0]
			tt.Attach = attach
			top := e2e.Domain(t, tt)
			forwardFast(t, top, e2e.Routers...)
			l := e2e.Raise(t, top)
			e2e.AwaitRouting(t, l)
			beta := e2e.StartScan(t, l, "beta", "eth0")
			sendTraced(t, l, count, size)
			e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindTCP, Bytes: 32 << 20, Port: 9001})
			sendBack(t, l, lab.Traffic{Kind: lab.KindTCP, Bytes: 8 << 20, Port: 9003})
			e2e.CheckTransfer(t, l, tt)
			beta.Stop(t)
			if n := beta.IOAMBytes.Load(); n > 0 || beta.Longest.Load() <= 1500 {
				t.Errorf("beta received %d bytes of IOAM, and packets of %d bytes; want none, and larger ones than the link's", n, beta.Longest.Load())
			}
			for _, node := range e2e.Routers {
				f := e2e.ForwardsOf(t, l, node)
				if node == "athos" && !e2e.ReadsQueues(t) {
					// before Linux 6.2, its program cannot see which checksums are left to a device
					checkLeft(t, node, f, "checksum")
					continue
				}
				checkLeft(t, node, f)
				// porthos does not read segments after a trace
				if f.Stack > 0 && (node != "porthos" || f.Stack > f.ToStack["packet"]) {
					t.Errorf("the stack of %s forwarded %d packets; left to it: %v", node, f.Stack, f.ToStack)
				}
			}
		})
	}
}

// When a sender on this machine leaves the checksum to the device, the stack of
// athos, whose device computes checksums, forwards the packet; the other routers
// forward it fast. beta leaves its checksums open, so every router's stack
// forwards its answers. All packets arrive intact.
func TestForwardWithOpenChecksums(t *testing.T) {
	t.Parallel()
	e2e.NeedRedirection(t)
	const count = 50
	top := e2e.Domain(t, e2e.Modes("xdp")[0])
	forwardFast(t, top, e2e.Routers...)
	l := e2e.Raise(t, top)
	e2e.Must(t, l.Node("athos"), "ethtool", "-K", "eth1", "tx", "off")
	e2e.Must(t, l.Node("beta"), "ethtool", "-K", "eth0", "gro", "on")
	e2e.AwaitRouting(t, l)
	e2e.Send(t, l, "alpha",
		lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 1400, Port: 9000},
		lab.Traffic{Kind: lab.KindTCP, Bytes: 16 << 20, Port: 9001})
	traced := e2e.Settled(t, l, "athos", "encap_tunneled") // by its egress hook
	for _, node := range e2e.Routers {
		f := e2e.ForwardsOf(t, l, node)
		checkLeft(t, node, f, "checksum")
		if f.Stack != f.ToStack["checksum"] {
			t.Errorf("the stack of %s forwarded %d packets, want those with open checksums; left to it: %v", node, f.Stack, f.ToStack)
		}
		if want := map[string]uint64{"porthos": traced, "aramis": traced}[node]; f.Sum() != want || traced < 1000 {
			t.Errorf("%s forwarded %d packets, want %d: %v", node, f.Sum(), want, f.Fast)
		}
	}
}
