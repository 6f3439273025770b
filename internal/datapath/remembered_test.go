// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/craft"
)

// flowFrame is a packet to the router with a Direct Export that has a Flow-ID, and no
// Sequence Number, whose order would matter.
func flowFrame(next byte, upper []byte) []byte {
	header := craft.IPv6{Class: 1, Label: 5, HopLimit: 64, Source: addresses[0], Destination: addresses[1]}
	body := append(craft.Options(next, 2, exportOption(0x31, 123, 0x80, 0xc0000000, 7)), upper...)
	return craft.Ethernet(arrivalAddress, neighbourAddress, header.With(body))
}

// aggregating is a node that adds packets up, in every namespace.
func aggregating(c *model.NodeConfig) {
	for i := range c.Namespaces {
		c.Namespaces[i].Export = model.ExportAggregate
	}
}

// turns gives a frame, and each frame that differs from it in a bit of an octet, to a
// comparison in turns: the last flow that a CPU remembers is always another one, if the
// bit is of the flow. After each octet, the flows must have the packets that they should.
func turns(t *testing.T, frame []byte, compare func(frame []byte) bool, end func()) {
	t.Helper()
	for at := atEtherType; at < len(frame); at++ {
		for bit := range 8 {
			changed := set(at, frame[at]^1<<bit)(bytes.Clone(frame))
			if !compare(frame) || !compare(changed) || !compare(frame) {
				t.Fatalf("octet %d of the frame, bit %d", at, bit)
			}
		}
		if end(); t.Failed() {
			t.Fatalf("octet %d of the frame", at)
		}
	}
}

// TestLastFlow sends packets of a flow and of one that differs from it in a bit: the
// entry that a CPU remembers must not take the other's packets.
func TestLastFlow(t *testing.T) {
	onOneCPU(t)
	datagram := craft.Datagram(4242, 9, []byte("waymark.")...)
	inner := craft.IPv6{Label: 6, Next: craft.UDP, HopLimit: 70, Source: addresses[3], Destination: addresses[2]}.With(datagram)
	cfg := laneConfig(func(c *model.NodeConfig) {
		aggregating(c)
		c.Decapsulations = []model.Decapsulation{{TunnelDestination: addresses[1]}}
	})
	p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP, hookIngressTC, hookEgressTC)
	for _, program := range []*ebpf.Program{p.xdp, p.tcIn} { // ends of tunnels
		c := newComparison(t, cfg, p, program, bpf.ABICounterCOUNTER_INGRESS, AllRecords)
		turns(t, flowFrame(craft.IPv6InIPv6, inner), func(frame []byte) bool {
			_, same := c.compare(t, frame, 0)
			return same
		}, func() { c.exports.compareFlows(t, p) })
	}
	c := newComparison(t, cfg, p, p.tcOut, bpf.ABICounterCOUNTER_EGRESS, AllRecords)
	arrived := model.IfIndex(2)
	compare := func(frame []byte) bool {
		_, same := c.compare(t, frame, arrived)
		return same
	}
	end := func() { c.exports.compareFlows(t, p) }
	turns(t, flowFrame(craft.UDP, datagram), compare, end)
	for range 4 { // the same packet, by two interfaces in turns
		compare(flowFrame(craft.UDP, datagram))
		arrived = 3 - arrived
	}
	end()
}

// TestLastFlowForwarded does the same where XDP forwards.
func TestLastFlowForwarded(t *testing.T) {
	enterRouter(t)
	onOneCPU(t)
	cfg, routing := laneConfig(aggregating), forward.Routing{Key: forward.RouteByDestination, MTU: forward.AnyMTU}
	cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = arrivalIndex, departureIndex
	p := loadProgramsOn(t, cfg, arrivalIndex, fastArrival, fixedTime, hookIngressXDP)
	p.routes(t, routing, 0)
	c := newForwardingComparison(t, cfg, routing, p, p.xdp, AllRecords)
	turns(t, flowFrame(craft.UDP, craft.Datagram(4242, 9, []byte("waymark.")...)), func(frame []byte) bool {
		_, same := c.compare(t, frame)
		return same
	}, func() { c.exports.compareFlows(t, p) })
}

// nextHopMark is a link address that no neighbour has.
const nextHopMark = 0xee

// changeNextHops changes every set of remembered next hops.
func (p *programs) changeNextHops(t *testing.T, change func(*bpf.ABINextHopSet)) {
	t.Helper()
	for index := range p.maps[bpf.MapNextHops].MaxEntries() {
		var set bpf.ABINextHopSet
		if err := p.maps[bpf.MapNextHops].Lookup(index, &set); err != nil {
			t.Fatal(err)
		}
		change(&set)
		if err := p.maps[bpf.MapNextHops].Put(index, set); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRememberedNextHop makes the next hop that is remembered for a packet recognizable.
// Packets that differ in a bit must not get it if that bit is looked up by, and must get
// it if it is not.
func TestRememberedNextHop(t *testing.T) {
	enterRouter(t)
	onOneCPU(t)
	third := arrivalIndex + 10
	link := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: "third", Index: int(third), HardwareAddr: arrivalAddress}, PeerName: "third-peer",
	}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	cfg := rightConfig()
	cfg.Interfaces[0].Index, cfg.Interfaces[1].Index, cfg.Interfaces[2].Index = arrivalIndex, departureIndex, third
	cfg.Interfaces[2].Roles = model.RoleIngress
	fast := func(i model.IfIndex) attach.Device {
		return attach.Device{LinkHeader: 14, Fast: i != departureIndex, Address: [6]byte(arrivalAddress)}
	}
	g, err := compile.Node(cfg, 1, fast) // one set, where every entry is compared
	if err != nil {
		t.Fatal(err)
	}
	p := loadGeneration(t, g, arrivalIndex, hookIngressXDP, hookIngressTC)
	frames := map[string][]byte{
		"trace":         set(0, arrivalAddress...)(set(atIPv6+24, addresses[1].AsSlice()...)(rightPacket())),
		"Direct Export": flowFrame(craft.UDP, craft.Datagram(4242, 9, 1, 2)),
		"plain": craft.Ethernet(arrivalAddress, neighbourAddress, craft.IPv6{
			Next: craft.UDP, HopLimit: 64, Source: addresses[0], Destination: addresses[1],
		}.With(craft.Datagram(4242, 9, 1, 2))),
	}
	for _, key := range []forward.RouteKey{forward.RouteByDestination, forward.RouteByFlow} {
		p.routes(t, forward.Routing{Key: key, MTU: forward.AnyMTU}, 0)
		for name, frame := range frames {
			for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
				n := nextHops{p, program, frame, key, name}
				n.everyBit(t)
				n.mark(t)
				if out := n.run(t, frame, third); out[0] != neighbourAddress[0] || out[5] != neighbourAddress[5] {
					t.Errorf("%s, %v: a packet by another interface went to %x", name, program.Type(), out[:6])
				}
			}
		}
	}
}

// nextHops are those of one frame and of those that differ from it.
type nextHops struct {
	p       *programs
	program *ebpf.Program
	frame   []byte
	key     forward.RouteKey
	name    string
}

// everyBit changes the IPv6 header, and after it the ports or what is in their place.
func (n nextHops) everyBit(t *testing.T) {
	t.Helper()
	redirected := 0
	for at := atIPv6; at < atHBH+4; at++ {
		if at >= atIPv6+4 && at < atIPv6+6 || at == atHBH+1 {
			continue // lengths: another packet
		}
		for bit := range 8 {
			n.mark(t)
			changed := set(at, n.frame[at]^1<<bit)(bytes.Clone(n.frame))
			keyed := at >= atIPv6+24 && at < atHBH || n.key == forward.RouteByFlow && at < atHBH && at != atHopLimit
			got := n.isMarked(t, changed)
			if keyed && got {
				t.Fatalf("%s, %v, by %v: octet %d, bit %d: got the next hop of another packet", n.name, n.program.Type(), n.key, at, bit)
			}
			if got {
				redirected++
			}
		}
	}
	if n.key == forward.RouteByDestination && redirected < 8*16 {
		t.Errorf("%s, %v: only %d packets of other flows got the next hop that is remembered", n.name, n.program.Type(), redirected)
	}
}

// mark lets the programs remember the frame's next hop and no other, and marks it. It
// tries again when a second passes, after which they ask anew.
func (n nextHops) mark(t *testing.T) {
	t.Helper()
	for range 10 {
		n.p.changeNextHops(t, func(s *bpf.ABINextHopSet) { *s = bpf.ABINextHopSet{} })
		n.isMarked(t, n.frame)
		n.p.changeNextHops(t, func(s *bpf.ABINextHopSet) {
			for i := range s.Ways {
				s.Ways[i].Macs[0] = nextHopMark * 0x01010101
			}
		})
		if n.isMarked(t, n.frame) {
			return
		}
	}
	t.Fatalf("%s, %v: the next hop is not remembered", n.name, n.program.Type())
}

// isMarked reports whether a frame goes to the next hop that is marked.
func (n nextHops) isMarked(t *testing.T, frame []byte) bool {
	t.Helper()
	return n.run(t, frame, arrivalIndex)[0] == nextHopMark
}

func (n nextHops) run(t *testing.T, frame []byte, index model.IfIndex) []byte {
	t.Helper()
	n.p.hear()
	_, out := runBy(t, n.program, frame, index)
	return out
}
