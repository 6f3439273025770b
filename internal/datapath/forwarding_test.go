// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/kernelclock"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/testnet"
)

// The router of these tests: packets arrive on one interface, and those to
// 2001:db8:2::/47 leave through the other.
const (
	arrivalIndex   = model.IfIndex(1011)
	departureIndex = model.IfIndex(1012)
	departureMTU   = 600
)

var (
	arrivalAddress   = net.HardwareAddr{2, 0, 0, 0, 0, 0x11}
	departureAddress = net.HardwareAddr{2, 0, 0, 0, 0, 0x12}
	neighbourAddress = net.HardwareAddr{2, 0, 0, 0, 0, 0x22}
)

// enterRouter moves the test's thread into its own network namespace, with the
// router's interfaces, addresses, routes and neighbours.
func enterRouter(t *testing.T) {
	t.Helper()
	testnet.Enter(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	addLink := func(name string, index model.IfIndex, address net.HardwareAddr, mtu int) netlink.Link {
		link := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name, Index: int(index), HardwareAddr: address, MTU: mtu},
			PeerName:  name + "-peer",
		}
		must(netlink.LinkAdd(link))
		must(netlink.LinkSetUp(link))
		peer, err := netlink.LinkByName(name + "-peer")
		must(err)
		must(netlink.LinkSetUp(peer))
		return link
	}
	must(os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0))
	addLink("in", arrivalIndex, arrivalAddress, 1500)
	out := addLink("out", departureIndex, departureAddress, 1500)
	address := func(link netlink.Link, prefix string) {
		a, err := netlink.ParseAddr(prefix)
		must(err)
		a.Flags |= unix.IFA_F_NODAD
		must(netlink.AddrAdd(link, a))
	}
	address(out, "2001:db8:f::1/64")
	gateway := net.ParseIP("2001:db8:f::2")
	must(netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: out.Attrs().Index, IP: gateway, HardwareAddr: neighbourAddress, State: netlink.NUD_PERMANENT,
	}))
	_, prefix, err := net.ParseCIDR("2001:db8:2::/47")
	must(err)
	must(netlink.RouteAdd(&netlink.Route{LinkIndex: out.Attrs().Index, Dst: prefix, Gw: gateway, MTU: departureMTU, MTULock: true}))
}

// routes does what an agent would: it sets the devices that can send, and keeps
// routes watched until the test ends. With silent set, each call of hear sets the
// last beat to that long ago, because seconds may pass between two packets; if negative, ahead.
func (p *programs) routes(t *testing.T, routing forward.Routing, silent time.Duration) {
	t.Helper()
	f, err := forward.New(p.maps, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.hear = func() {
		t.Helper()
		now, err := kernelclock.Monotonic()
		if err != nil {
			t.Fatal(err)
		}
		alive := now + uint64(4*time.Second) // beyond five, it would be another clock
		if silent != 0 {
			alive = now - uint64(silent)
		}
		state := bpf.ABIForwarding{Alive: alive, Generation: 1, Key: uint16(routing.Key), Mtu: routing.MTU}
		if err := p.maps[bpf.MapForwarding].Put(uint32(0), state); err != nil {
			t.Fatal(err)
		}
	}
	p.hear()
	if err := f.SetDevices([]model.IfIndex{arrivalIndex, departureIndex}); err != nil {
		t.Fatal(err)
	}
}

// A report of another clock, such as that of a time namespace, is none: it is far ahead, so it would
// never become old, and packets would not go back to the stack when the agent dies.
func TestReportOfAnotherClock(t *testing.T) {
	enterRouter(t)
	onOneCPU(t)
	cfg := rightConfig()
	cfg.Encapsulations, cfg.Decapsulations = nil, nil
	cfg.Interfaces = cfg.Interfaces[:2]
	cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = arrivalIndex, departureIndex
	p := loadProgramsOn(t, cfg, arrivalIndex, fastArrival, fixedTime, hookIngressXDP, hookIngressTC)
	defer p.close()
	packet := craft.Ethernet(
		arrivalAddress,
		[]byte{2, 0, 0, 0, 0, 9},
		craft.Between("2001:db8:1::1", "2001:db8:2::2", craft.UDP).With(craft.Datagram(1, 2)),
	)
	for silent, fast := range map[time.Duration]bool{
		-24 * time.Hour: false, -time.Minute: false, -6 * time.Second: false, -4 * time.Second: true, time.Second: true, 6 * time.Second: false,
		24 * time.Hour: false,
	} {
		p.routes(t, forward.Routing{MTU: forward.AnyMTU}, silent)
		verdict, _ := runOn(t, p.xdp, packet)
		if redirected := verdict == 4; redirected != fast {
			t.Errorf("heard of %v ago: verdict %d", silent, verdict)
		}
	}
}

// A change of what is inserted holds from the next packet on, although the way of those
// before it is remembered, with what it needs.
func TestChangeOnRememberedWay(t *testing.T) {
	enterRouter(t)
	onOneCPU(t)
	generation := func(inserts model.IfIndex) *compile.Generation {
		cfg := rightConfig()
		cfg.Interfaces = cfg.Interfaces[:2]
		cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = arrivalIndex, departureIndex
		cfg.Encapsulations = []model.Encapsulation{{
			Name: "all", Interface: inserts, Mode: model.ModeInline,
			Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 16}),
		}}
		g, err := compile.Node(cfg, 0, fastArrival)
		if err != nil {
			t.Fatal(err)
		}
		g.Node.FixedTime, g.Node.FixedIfindex = uint64(fixedTime), uint32(arrivalIndex)
		return g
	}
	p := loadGeneration(t, generation(arrivalIndex), arrivalIndex, hookIngressXDP)
	p.routes(t, forward.Routing{MTU: forward.AnyMTU}, 0)
	packet := craft.Ethernet(
		arrivalAddress,
		[]byte{2, 0, 0, 0, 0, 9},
		craft.Between("2001:db8:1::1", "2001:db8:2::2", craft.UDP).With(craft.Datagram(1, 2)),
	)
	for change := range 6 {
		inserts := change%2 == 1
		for n := range 3 {
			p.hear()
			verdict, frame := runOn(t, p.xdp, packet)
			if verdict != 4 || len(frame) > len(packet) != inserts {
				t.Fatalf("after change %d, packet %d: verdict %d, %d octets of %d", change, n, verdict, len(frame), len(packet))
			}
		}
		next := generation(map[bool]model.IfIndex{false: departureIndex, true: arrivalIndex}[inserts])
		if err := p.site.set.activate(next, func(in compile.Interface) bool { return in.Device.Fast }); err != nil {
			t.Fatal(err)
		}
	}
}

// A packet that leaves its tunnel here has the smaller of both hop limits, and goes on
// while that can be lowered.
func TestHopLimitOfTunnel(t *testing.T) {
	enterRouter(t)
	onOneCPU(t)
	at := slices.IndexFunc(lanes(), func(l lane) bool { return l.name == "tunnel with a trace" })
	l := lanes()[at]
	cfg := laneConfig(l.config)
	cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = arrivalIndex, departureIndex
	p := loadProgramsOn(t, cfg, arrivalIndex, fastArrival, fixedTime, hookIngressXDP)
	p.routes(t, forward.Routing{Key: forward.RouteByDestination, MTU: forward.AnyMTU}, 0)
	p.wantRecords(t, false) // else the packet is another path's
	const hopLimit = 14 + 7
	for range 2 { // the second time, the way is remembered
		for _, c := range []struct{ outer, inner, left byte }{{64, 64, 63}, {2, 64, 1}, {64, 2, 1}, {1, 64, 0}, {64, 1, 0}, {0, 64, 0}} {
			p.hear()
			frame := slices.Clone(l.frames[len(l.frames)-1])
			frame[hopLimit], frame[hopLimit+40+8*(1+int(frame[55]))] = c.outer, c.inner
			verdict, after := runOn(t, p.xdp, frame)
			if forwarded := verdict == 4; forwarded != (c.left > 0) || (forwarded && after[hopLimit] != c.left) {
				t.Errorf("%d around %d: verdict %d, left with %d", c.outer, c.inner, verdict, after[hopLimit])
			}
		}
	}
}

// forwardable is an independent model of which packets go on without the stack,
// given the ingress core's result (docs/data-plane/fast-forwarding.md).
func forwardable(cfg model.NodeConfig, routing forward.Routing, arrived []byte, after reference.Result, completes bool) bool {
	frame := after.Data
	if after.Verdict == reference.Drop || len(frame) < 14+40 || !bytes.Equal(frame[:6], arrivalAddress) ||
		frame[12] != 0x86 || frame[13] != 0xdd || frame[14]>>4 != 6 {
		return false
	}
	ip := frame[14:]
	if len(ip) == 40 || int(ip[4])<<8+int(ip[5])+40 != len(ip) || len(ip) > longest(routing) || ip[7] <= 1 {
		return false
	}
	source, destination := ip[8:24], ip[24:40]
	if !bytes.Equal(destination[:5], []byte{0x20, 0x01, 0x0d, 0xb8, 0}) || destination[5] != 2 && destination[5] != 3 {
		return false // no other route
	}
	from := netip.AddrFrom16([16]byte(source))
	if from.IsMulticast() || from.IsLinkLocalUnicast() || bytes.Equal(source[:8], make([]byte, 8)) {
		return false
	}
	next, options := ip[6], 0
	upper := next
	if next == 0 && len(ip) > 40 {
		upper = ip[40]
	}
	extensions := []byte{0, 43, 44, 51, 60}
	if routing.Key == forward.RouteByPorts && slices.Contains(extensions, upper) {
		return false // only the stack finds ports there
	}
	if next == 58 && (len(ip) == 40 || ip[40] != 128 && ip[40] != 129) {
		return false
	}
	if next != 0 && !completes && len(ip)+largestInsertion(cfg) > longest(routing) {
		return false // routes have smaller MTUs here than the link, whose MTU is the only one that the egress hook sees
	}
	if more := mostGrowth(cfg, ip); next == 0 && !completes && len(ip)+more > longest(routing) {
		return false // the same
	}
	if after.Outer != nil {
		arrived = after.Outer.Data // its tunnel ended here
	}
	if next != 0 && arrived[14+6] == 0 && after.Outcome == model.OutcomeOptionsRemoved {
		return false // what is put together anew after a Hop-by-Hop header is left to the stack
	}
	if after.Outcome == model.OutcomeBoundaryIgnored || after.Outcome == model.OutcomeBoundaryStripPartial {
		return false // IOAM is left in it
	}
	if next != 0 {
		return (after.Outcome < model.OutcomeRemovalPartial || after.Outcome > model.OutcomeDecapRefusedInner) && !after.Outcome.Malformed()
	}
	if slices.ContainsFunc(cfg.Encapsulations, func(e model.Encapsulation) bool { return e.Nested }) {
		return false // the egress hook may insert more
	}
	switch after.Outcome {
	case model.OutcomeOptionUnsupported, model.OutcomeNamespaceUnknown, model.OutcomeOverflowSet,
		model.OutcomeDirectExport, model.OutcomeTraceFilled, model.OutcomeTraceOverflow, model.OutcomePotUpdated, model.OutcomePotAccepted,
		model.OutcomePotTooOld, model.OutcomePotAhead, model.OutcomePotReplayed, model.OutcomePotInvalid, model.OutcomePotRejected,
		model.OutcomeIncrementalTrace:
	default:
		return false
	}
	header := ip[40 : 40+8*(int(ip[41])+1)]
	for at := 2; at < len(header); {
		switch kind := header[at]; {
		case kind == 1 && header[at+1] == 0 && at == 2:
		case kind == 1 && header[at+1] == 4 && at == 2 && bytes.Equal(header[4:8], make([]byte, 4)): // a trace has grown
		case kind == 1 && header[at+1] == 2 && at+4 == len(header) && header[at+2]|header[at+3] == 0:
		case (kind == 0x31 || kind == 0x11 && isImmutable(header, at)) && options < 8:
			options++
		default:
			return false
		}
		at += 2 + int(header[at+1])
	}
	return !completes || cfg.Interfaces[1].Roles&model.RoleEgress != 0
}

// largestInsertion is the most that an encapsulation adds; 0 without one.
func largestInsertion(cfg model.NodeConfig) (most int) {
	for _, e := range cfg.Encapsulations {
		most = max(most, e.Insertion())
	}
	return most
}

// longest is the size up to which packets are forwarded fast.
func longest(routing forward.Routing) int { return min(departureMTU, int(routing.MTU)) }

// fastArrival makes the arrival interface forward fast.
func fastArrival(i model.IfIndex) attach.Device {
	return attach.Device{LinkHeader: 14, Fast: i == arrivalIndex, Address: [6]byte(arrivalAddress)}
}

// isImmutable reports whether an option of type 0x11 is edge-to-edge or direct
// exporting IOAM, aligned and long enough.
func isImmutable(header []byte, at int) bool {
	length := header[at+1]
	return at%4 == 0 && length >= 6 && header[at+2] == 0 && (header[at+3] == 3 || header[at+3] == 4 && length >= 10)
}

// TestForwardingAgreement gives random packets to an interface that forwards
// fast. A redirected packet must equal, byte for byte, the result of ingress
// hook, router step and egress hook, and every packet that can be redirected must
// be; a packet left to the stack must equal the result of the ingress hook alone.
func TestForwardingAgreement(t *testing.T) {
	enterRouter(t)
	onOneCPU(t)
	run := newAgreementRun(t, 20_000)
	redirected := make(map[string]int)
	hooks := []hookName{hookIngressTC}
	if attach.FastEthernet(1).FastIn(attach.XDP) { // else the agent loads no such program
		hooks = append(hooks, hookIngressXDP)
	}
	for done := run.first; done < run.end; done += packetsPerConfig {
		g := generator{rand.New(rand.NewPCG(run.seed, done))}
		cfg := g.config()
		cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = arrivalIndex, departureIndex
		for i := range cfg.Encapsulations {
			cfg.Encapsulations[i].Interface = departureIndex
		}
		if len(cfg.Encapsulations) == 0 && g.IntN(3) == 0 {
			cfg.Interfaces[1].Roles, cfg.Interfaces[1].Boundary = model.RoleIngress, model.Boundary(g.IntN(3))
			if g.IntN(2) == 0 {
				cfg.Interfaces[1].Policies = g.policies()
			}
		}
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		p := loadProgramsOn(t, cfg, arrivalIndex, fastArrival, fixedTime, hooks...)
		key := []forward.RouteKey{forward.RouteByDestination, forward.RouteByFlow, forward.RouteByPorts}[g.IntN(3)]
		routing := forward.Routing{Key: key, MTU: forward.AnyMTU}
		if g.IntN(4) == 0 { // routes with an MTU are elsewhere
			routing.MTU = uint16(100 + g.IntN(2*departureMTU))
		}
		p.routes(t, routing, map[forward.RouteKey]time.Duration{forward.RouteByPorts: time.Second}[key])
		for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
			if program == nil {
				continue
			}
			name := program.Type().String()
			redirected[name] += agreeForwarding(t, cfg, routing, p, program, g)
			if t.Failed() {
				t.Logf("%s: %+v", name, cfg)
			}
			run.failed(t, done)
		}
		p.close()
	}
	t.Log(redirected)
	least := int(run.end-run.first) / 100
	if len(hooks) == 1 { // before Linux 6.2, tc leaves what may be encapsulated to the stack
		least /= 2
	}
	for name, number := range redirected {
		if run.first == 0 && number < least {
			t.Errorf("%s: only %d packets were redirected", name, number)
		}
	}
}

// agreeForwarding compares one program with the reference node and a router.
func agreeForwarding(
	t *testing.T,
	cfg model.NodeConfig,
	routing forward.Routing,
	p *programs,
	program *ebpf.Program,
	g generator,
) (redirected int) {
	t.Helper()
	c := newForwardingComparison(t, cfg, routing, p, program, g.wanted(packetsPerConfig))
	before := p.snapshotCounters(t)
	for range packetsPerConfig / 2 {
		frame := g.frame()
		if g.IntN(10) > 0 {
			copy(frame, arrivalAddress)
		}
		if len(frame) < shortestSKB {
			continue
		}
		if g.IntN(3) > 0 { // the most common packets
			copy(frame[14+24:], addresses[1+g.IntN(2)].AsSlice())
			frame[14+7] = 64
		}
		forward, same := c.compare(t, frame)
		if forward {
			redirected++
		}
		if !same {
			return redirected
		}
	}
	c.compareCounters(t, before)
	c.exports.compareFlows(t, p)
	return redirected
}

// xdpContext is the kernel's struct xdp_md.
type xdpContext struct{ Data, DataEnd, DataMeta, IngressIfindex, RxQueueIndex, EgressIfindex uint32 }

// runOn runs a program on a frame as if it had arrived at the router.
func runOn(t *testing.T, program *ebpf.Program, frame []byte) (uint32, []byte) {
	t.Helper()
	return runBy(t, program, frame, arrivalIndex)
}

// runBy runs a program on a frame as if it had arrived by an interface.
func runBy(t *testing.T, program *ebpf.Program, frame []byte, index model.IfIndex) (uint32, []byte) {
	t.Helper()
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+1024)}
	if program.Type() == ebpf.XDP {
		options.Context = &xdpContext{DataEnd: uint32(len(frame)), IngressIfindex: uint32(index)}
	} else {
		options.Context = &skb{IngressIfindex: uint32(index), Ifindex: uint32(index)}
	}
	verdict, err := program.Run(options)
	if err != nil {
		t.Fatalf("run %d bytes: %v", len(frame), err)
	}
	return verdict, options.DataOut
}
