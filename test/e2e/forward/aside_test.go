// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// aside has a router whose packets carry state outside their bytes, which no
// program can see: near sends to it, and it forwards to far.
const aside = `
name: aside
nodes:
  - {name: near}
  - name: router
    agent:
      node: {id: 1}
      interfaces:
        - {name: eth0, id: 101, attach: ATTACH, forwarding: fast, role: [ingress, egress]}
        - {name: eth1, id: 102, attach: ATTACH, role: [ingress, egress]}
      namespaces: [{id: 123}]
      ENCAPSULATIONS
  - {name: far}
links:
  - {mtu: 1700, ends: [{node: near, interface: eth0, addresses: "2001:db8:1::2/64"}, {node: router, interface: eth0, addresses: "2001:db8:1::1/64"}]}
  - {mtu: 1700, ends: [{node: router, interface: eth1, addresses: "2001:db8:2::1/64"}, {node: far, interface: eth0, addresses: "2001:db8:2::2/64"}]}
`

// raiseAside raises `aside` with neighbours that receive in batches and send
// complete checksums.
func raiseAside(t *testing.T, attach, encapsulations string) *lab.Lab {
	t.Helper()
	l := e2e.RaiseText(t, "aside", strings.NewReplacer("ATTACH", attach, "ENCAPSULATIONS", encapsulations).Replace(aside))
	e2e.Must(t, l.Node("near"), "ethtool", "-K", "eth0", "tx", "off")
	e2e.Must(t, l.Node("far"), "ethtool", "-K", "eth0", "gro", "on")
	e2e.Must(t, l.Node("far"), "ip", "route", "add", "default", "via", "2001:db8:2::1")
	return l
}

// deliver sends datagrams from near's address to far, and counts those that
// arrive. All but the first are sent at once.
func deliver(t *testing.T, l *lab.Lab, from string, count int) (came int) {
	t.Helper()
	const port = 9000
	var receiver, sender *net.UDPConn
	to := netip.AddrPortFrom(netip.MustParseAddr("2001:db8:2::2"), port)
	err := e2e.Bind(l.Node("far"), func() (err error) {
		receiver, err = net.ListenUDP("udp6", net.UDPAddrFromAddrPort(to))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	err = l.Node("near").Do(func() (err error) {
		own := netip.AddrPortFrom(netip.MustParseAddr(from), 0)
		sender, err = net.DialUDP("udp6", net.UDPAddrFromAddrPort(own), net.UDPAddrFromAddrPort(to))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	b := make([]byte, 100)
	comes := func() bool {
		if err := receiver.SetReadDeadline(time.Now().Add(patience.Of(2 * time.Second))); err != nil {
			t.Fatal(err)
		}
		n, err := receiver.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		if err != nil || string(b[:n]) != fmt.Sprintf("datagram %d", came) {
			t.Fatalf("datagram %d arrived as %q, %v", came, b[:n], err)
		}
		came++
		return true
	}
	for i := range count {
		if _, err := fmt.Fprintf(sender, "datagram %d", i); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			comes() // the first one resolves the neighbours for the others
			e2e.AwaitRouting(t, l)
		}
	}
	for came < count && comes() {
	}
	return came
}

// pushTags makes a node leave the VLAN tag of what it sends to its device.
func pushTags(t *testing.T, n *lab.Node, name string) {
	t.Helper()
	const protocol, tag = 0x0081, 5 // 0x8100 as in a frame
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R2, protocol),
		asm.Mov.Imm(asm.R3, tag),
		asm.FnSkbVlanPush.Call(),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	err = n.Do(func() error {
		device, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		clsact := netlink.QdiscAttrs{LinkIndex: device.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
		if err := netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: clsact}); err != nil {
			return err
		}
		return netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{
				LinkIndex: device.Attrs().Index,
				Parent:    netlink.HANDLE_MIN_EGRESS,
				Handle:    1,
				Protocol:  unix.ETH_P_IPV6,
				Priority:  1,
			},
			Fd: program.FD(), DirectAction: true,
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A VLAN tag that a stack on this machine left to the device is kept outside the
// packet's bytes, which look untagged: only the stack knows that it is not a
// member of that VLAN.
func TestForwardTagBeside(t *testing.T) {
	t.Parallel()
	e2e.NeedRedirection(t)
	const count = 50
	l := raiseAside(t, "xdp", "")
	near := l.Node("near")
	e2e.Must(t, near, "ip", "route", "add", "2001:db8:2::/64", "via", "2001:db8:1::1")
	e2e.AwaitRouting(t, l)
	if n := deliver(t, l, "2001:db8:1::2", count); n != count {
		t.Errorf("%d of %d untagged packets arrived", n, count)
	}
	untagged := e2e.ForwardsOf(t, l, "router")
	if untagged.Sum() < count-1 { // the first waits for neighbours
		t.Fatalf("router forwarded %d untagged packets fast; left to the stack: %v", untagged.Sum(), untagged.ToStack)
	}
	mac := linkAddress(t, l.Node("router"), "eth0").String()
	e2e.Must(t, near, "ip", "neigh", "replace", "2001:db8:1::1", "lladdr", mac, "nud", "permanent", "dev", "eth0")
	pushTags(t, near, "eth0")
	if n := deliver(t, l, "2001:db8:1::2", count); n != 0 {
		t.Errorf("%d packets arrived from a VLAN that the router is not a member of", n)
	}
	f := e2e.ForwardsOf(t, l, "router")
	if f.Sum() > untagged.Sum() || f.ToStack["link"] < untagged.ToStack["link"]+count {
		t.Errorf(
			"router forwarded %d packets of the VLAN fast; left to the stack: %v, and before: %v",
			f.Sum()-untagged.Sum(),
			f.ToStack,
			untagged.ToStack,
		)
	}
}

// Packets from a VXLAN with a checksum carry the kernel's sum over their bytes.
// tc updates the sum for a new hop limit; packets that get a header go through
// the stack, because the sum cannot be updated for it. All arrive intact.
func TestForwardOutOfVXLAN(t *testing.T) {
	t.Parallel()
	const count = 50
	for _, tt := range []struct{ name, encapsulations string }{
		{"as they are", ""},
		{"with a trace", `encapsulations: [{name: all, interface: eth1, match: {destination: "2001:db8:2::/64"}, mode: inline, options: [{trace: {namespace: 123, type: 0xc00000, size: 8}}]}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := raiseAside(t, string(e2e.TCModes()[0]), tt.encapsulations)
			for node, ends := range map[string][3]string{
				"near": {"2001:db8:1::2", "2001:db8:1::1", "2001:db8:9::2/64"}, "router": {"2001:db8:1::1", "2001:db8:1::2", "2001:db8:9::1/64"},
			} {
				n := l.Node(node)
				e2e.Must(
					t,
					n,
					"ip",
					"link",
					"add",
					"vx0",
					"type",
					"vxlan",
					"id",
					"7",
					"local",
					ends[0],
					"remote",
					ends[1],
					"dstport",
					"4789",
					"dev",
					"eth0",
				)
				e2e.Must(t, n, "ip", "addr", "add", ends[2], "dev", "vx0", "nodad")
				e2e.Must(t, n, "ip", "link", "set", "vx0", "mtu", "1430", "up")
			}
			e2e.Must(t, l.Node("near"), "ip", "route", "add", "2001:db8:2::/64", "via", "2001:db8:9::1")
			config := string(l.Topology().Node("router").Agent.Config)
			file := filepath.Join(l.Directory(), "router.yaml")
			if err := os.WriteFile(file, []byte(strings.Replace(config, "name: eth0", "name: vx0", 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			e2e.SignalAgent(t, l, "router", syscall.SIGHUP)
			e2e.Await(t, "vx0 is served", 5*time.Second, func() bool {
				for _, i := range e2e.StatusOf(t, l, "router").Interfaces {
					if i.Name == "vx0" {
						return i.IngressHook != ""
					}
				}
				return false
			})
			e2e.AwaitRouting(t, l)
			if n := deliver(t, l, "2001:db8:9::2", count); n != count {
				t.Errorf("%d of %d packets arrived", n, count)
			}
			f := e2e.ForwardsOf(t, l, "router")
			if tt.encapsulations == "" {
				if f.Stack > 5 || f.ToStack["checksum"] > 0 { // the first waits for neighbours
					t.Errorf("the stack of the router forwarded %d packets; left to it: %v", f.Stack, f.ToStack)
				}
				return
			}
			if f.ToStack["checksum"] < count-1 || f.Stack < count {
				t.Errorf("the stack of the router forwarded %d packets; left to it: %v", f.Stack, f.ToStack)
			}
			e2e.CheckCounters(t, l, "router", map[string]uint64{"encap_inserted": count})
		})
	}
}
