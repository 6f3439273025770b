// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// rewriteAs rewrites an agent's file to its initial text with another value of
// `forwarding`.
func rewriteAs(t *testing.T, l *lab.Lab, node, forwarding string) {
	t.Helper()
	before := string(l.Topology().Node(node).Agent.Config)
	after := strings.ReplaceAll(before, "forwarding: fast", "forwarding: "+forwarding)
	if err := os.WriteFile(filepath.Join(l.Directory(), node+".yaml"), []byte(after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// forwarding reloads an agent's file with another value of `forwarding`.
func forwarding(t *testing.T, l *lab.Lab, node, how string) {
	t.Helper()
	rewriteAs(t, l, node, how)
	e2e.SignalAgent(t, l, node, syscall.SIGHUP)
	e2e.Await(t, "forwarding by "+how, 10*time.Second, func() bool { return e2e.StatusInterface(t, l, node, "eth0").Forwarding == how })
}

// neighbourOf is a node's entry for an address; empty when there is none.
func neighbourOf(t *testing.T, n *lab.Node, address string) (found netlink.Neigh) {
	t.Helper()
	err := n.Do(func() error {
		all, err := netlink.NeighList(0, unix.AF_INET6)
		for _, n := range all {
			if n.IP.Equal(net.ParseIP(address)) {
				found = n
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// forwardFast changes the configuration of nodes.
func forwardFast(t *testing.T, top *lab.Topology, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		e2e.Reconfigure(t, top, node, ", role:", ", forwarding: fast, role:")
	}
}
