// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/routing"
	"github.com/waymark-net/waymark/test/testnet"
)

// NeedRedirection skips the test on kernels that do not report which devices can
// send what XDP redirects (before Linux 6.3): there, packets are left to the
// stack.
func NeedRedirection(t *testing.T) {
	t.Helper()
	if _, err := netlink.GenlFamilyGet("netdev"); err != nil {
		t.Skipf("XDP cannot forward here: %v", err)
	}
}

// OpenEnds sets up the ends of a path through fast routers as in a network of
// machines: eth0 of the nodes accepts what XDP redirects, and alpha sends packets
// with complete checksums.
func OpenEnds(t *testing.T, l *lab.Lab, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		Must(t, l.Node(node), "ethtool", "-K", "eth0", "gro", "on")
	}
	Must(t, l.Node("alpha"), "ethtool", "-K", "eth0", "tx", "off")
	AwaitRouting(t, l)
}

// AwaitRouting waits until the agents of a laboratory watch routes, know which
// devices can send, and have heard of no change for a while. Agent and kernel may
// never agree on the devices, because an agent leaves out those that only the
// stack may send to; it then waits for the agent's next full look, which comes
// once a second.
func AwaitRouting(t *testing.T, l *lab.Lab) {
	t.Helper()
	status, err := l.Status()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience.Of(1500 * time.Millisecond))
	for _, p := range status.Processes {
		if strings.Contains(p.Command, " agent run ") {
			awaitRouting(t, l.Node(p.Node), deadline)
		}
	}
}

// AwaitSegments waits until the programs of these nodes know the behaviours of all
// segments, and the source of what they encapsulate. The agent reads both once a second, and
// may be without a processor for a second.
func AwaitSegments(t *testing.T, l *lab.Lab, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		state := openPinned(t, l.Node(node), "forwarding")
		Await(t, node+"'s programs to know the behaviours", 10*time.Second, func() bool { return KnowsSegments(t, state) })
		state.Close()
	}
}

// KnowsSegments reports whether programs with this state of fast forwarding know the behaviours
// of all segments.
func KnowsSegments(t *testing.T, state *ebpf.Map) bool {
	t.Helper()
	const keySegments = 8
	value := make([]byte, 16) // struct forwarding
	if err := state.Lookup(uint32(0), &value); err != nil {
		t.Fatal(err)
	}
	return binary.NativeEndian.Uint16(value[12:])&keySegments != 0
}

// openPinned opens a map of an agent's programs.
func openPinned(t *testing.T, n *lab.Node, name string) *ebpf.Map {
	t.Helper()
	instance, err := n.Instance()
	if err != nil {
		t.Fatal(err)
	}
	m, err := ebpf.LoadPinnedMap(filepath.Join(api.Root, "bpf", instance.ID, name), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func awaitRouting(t *testing.T, n *lab.Node, deadline time.Time) {
	t.Helper()
	state, devices := openPinned(t, n, "forwarding"), openPinned(t, n, "devices")
	defer state.Close()
	defer devices.Close()
	quiet := patience.Of(200 * time.Millisecond)
	var last uint32
	for since := time.Now(); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		value := make([]byte, 16) // struct forwarding
		if err := state.Lookup(uint32(0), &value); err != nil {
			t.Fatal(err)
		}
		alive := binary.NativeEndian.Uint64(value) > 0
		if now := binary.NativeEndian.Uint32(value[8:]); now != last || !alive || !knowsDevices(n, devices) {
			last, since = now, time.Now()
		}
		if time.Since(since) > quiet {
			return
		}
	}
}

// knowsDevices reports whether an agent's list of sending devices equals the
// kernel's.
func knowsDevices(n *lab.Node, known *ebpf.Map) bool {
	var can, has []model.IfIndex
	err := n.Do(func() (err error) { can, err = routing.SendingDevices(); return err })
	var key, value uint32
	for it := known.Iterate(); it.Next(&key, &value); {
		has = append(has, model.IfIndex(key))
	}
	slices.Sort(can)
	slices.Sort(has)
	return err == nil && slices.Equal(can, has)
}

// Forwards is what a node has forwarded so far.
type Forwards struct {
	Fast    map[string]uint64 // in XDP, by outcome
	ToStack map[string]uint64 // by reason
	Stack   uint64            // the kernel's own count, for all packets
}

// Sum is the number of packets forwarded in XDP.
func (f Forwards) Sum() (n uint64) {
	for _, count := range f.Fast {
		n += count
	}
	return n
}

// ForwardsOf is what a node has forwarded so far.
func ForwardsOf(t *testing.T, l *lab.Lab, node string) Forwards {
	t.Helper()
	f := Forwards{Fast: map[string]uint64{}, ToStack: map[string]uint64{}, Stack: StackForwards(t, l, node)}
	for _, i := range StatusOf(t, l, node).Interfaces {
		for outcome, n := range i.Forwarded {
			f.Fast[outcome] += n
		}
		for reason, n := range i.ToStack {
			f.ToStack[reason] += n
		}
	}
	return f
}

// StackForwards is the kernel's own count of what it has forwarded.
func StackForwards(t *testing.T, l *lab.Lab, node string) (n uint64) {
	t.Helper()
	if err := l.Node(node).Do(func() error { n = testnet.Counter(t, "Ip6OutForwDatagrams"); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// WayOfLine is the trace of every packet from alpha to beta along `line`.
const WayOfLine = "1 101>102 hop limit 63, 2 201>202 hop limit 62, 3 301>- hop limit 61"

// Routers are the routers of `line`, from alpha to beta.
var Routers = []string{"athos", "porthos", "aramis"}
