// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
)

// NeedRedirection skips where no kernel tells which devices can send what XDP
// redirects (before Linux 6.3): packets are left to the stack there.
func NeedRedirection(t *testing.T) {
	t.Helper()
	if _, err := netlink.GenlFamilyGet("netdev"); err != nil {
		t.Skipf("XDP cannot forward here: %v", err)
	}
}

// OpenEnds makes what is at the ends of a way through fast routers as it is in
// a network of machines: eth0 of the nodes takes what XDP redirects, and alpha
// sends packets whose checksums are in place.
func OpenEnds(t *testing.T, l *lab.Lab, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		Must(t, l.Node(node), "ethtool", "-K", "eth0", "gro", "on")
	}
	Must(t, l.Node("alpha"), "ethtool", "-K", "eth0", "tx", "off")
	AwaitRouting()
}

// AwaitRouting waits until agents know which devices can send and which neighbours
// there are: mostly they are told at once, but on a busy machine only a second is sure.
func AwaitRouting() { time.Sleep(patience.Of(1500 * time.Millisecond)) }

// Forwards is what a node has forwarded so far.
type Forwards struct {
	Fast    map[string]uint64 // in XDP, by outcome
	ToStack map[string]uint64 // by reason
	Stack   uint64            // by the kernel, whoever left it the packets
}

// Sum is what was forwarded in XDP.
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

// WayOfLine is the trace of whatever alpha sends to beta along `line`.
const WayOfLine = "1 101>102 hop limit 63, 2 201>202 hop limit 62, 3 301>- hop limit 61"

// Routers are those of `line`, from alpha to beta.
var Routers = []string{"athos", "porthos", "aramis"}
