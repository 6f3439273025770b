// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

// While the agent is silent, the kernel is asked for each packet. Of several
// next hops, a packet with a Hop-by-Hop header gets the one that it had before:
// the stack hashes the Next Header of the IPv6 header alone.
func TestSilenceKeepsNextHops(t *testing.T) {
	enterRouter(t)
	onOneCPU(t)
	gateways := []net.IP{net.ParseIP("2001:db8:f::2"), net.ParseIP("2001:db8:f::3")}
	if err := netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: int(departureIndex), IP: gateways[1], HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 0x23}, State: netlink.NUD_PERMANENT,
	}); err != nil {
		t.Fatal(err)
	}
	_, prefix, err := net.ParseCIDR("2001:db8:2::/48")
	if err != nil {
		t.Fatal(err)
	}
	route := &netlink.Route{Dst: prefix}
	for _, gateway := range gateways {
		route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{LinkIndex: int(departureIndex), Gw: gateway})
	}
	if err := netlink.RouteAdd(route); err != nil {
		t.Fatal(err)
	}
	cfg := rightConfig()
	cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = arrivalIndex, departureIndex
	p := loadProgramsOn(t, cfg, arrivalIndex, fastArrival, fixedTime, hookIngressXDP, hookIngressTC)
	const flows = 64
	for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
		var before [flows]byte
		used := make(map[byte]int)
		for _, silent := range []time.Duration{0, time.Second} {
			p.routes(t, Routing{Key: RouteByFlow, MTU: AnyMTU}, silent)
			for i := range before {
				frame := set(atTrace+1, 124)(rightPacket()) // of an unknown namespace: it goes on as it is
				copy(frame, arrivalAddress)
				copy(frame[atIPv6+24:], net.ParseIP("2001:db8:2::1"))
				frame[atIPv6+24+15] = byte(i)
				_, out := runOn(t, program, frame)
				if silent == 0 {
					before[i] = out[5]
					used[out[5]]++
				} else if out[5] != before[i] {
					t.Errorf("%v, flow %d: next hop %x, and %x while the agent is silent", program.Type(), i, before[i], out[5])
				}
			}
		}
		if used[0x22] == 0 || used[0x23] == 0 || len(used) != 2 {
			t.Errorf("%v: next hops %v, want both", program.Type(), used)
		}
	}
}
