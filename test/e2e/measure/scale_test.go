// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/lab/linkrelay"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// manyFlows are of a path of four routers, with a policy for each flow.
const (
	manyFlows    = 100    // of UDP
	manyTCP      = 2      // more flows, of TCP, whose senders leave it for the network card to cut
	packetRate   = 50_000 // per second: what a queue of the kernel takes without loss
	shortest     = 16     // seconds in which few packets are sent, so that there are blocks before and after the restart
	shortPackets = 100_000
	blockOfMany  = 2 * time.Second
	restarted    = 2 // of lossyLinks, its point's number, too
	packetsName  = "WAYMARK_MEASURED_PACKETS"
	aggregated   = 8 // packets in an offloaded frame, of each tenth flow
)

const manyTopology = `
name: many
permanent-neighbours: true
nodes:
  - {name: alpha, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: ingress
    addresses: 2001:db8:ff::1/128
    segment-routing: true
    tunnel-source: 2001:db8:ff::1
    routes: [%s, {to: "fc00::/16", via: 2001:db8:12::2}, {to: "2001:db8:23::/64", via: 2001:db8:12::2}, {to: "2001:db8:34::/64", via: 2001:db8:12::2}]
    agent: {%s, flows: [%s]}
  - name: middle
    segment-routing: true
    routes: [{to: "fc00:1::e/128", encap: seg6local action End}, {to: "fc00::/16", via: 2001:db8:23::2}, {to: "2001:db8:34::/64", via: 2001:db8:23::2}, {to: "2001:db8:1::/64", via: 2001:db8:12::1}]
    agent: {%s, flows: [%s]}
  - name: later
    segment-routing: true
    routes: [{to: "fc00:2::e/128", encap: seg6local action End}, {to: "fc00::/16", via: 2001:db8:34::2}, {to: "2001:db8:12::/64", via: 2001:db8:23::1}, {to: "2001:db8:1::/64", via: 2001:db8:23::1}]
    agent: {%s, flows: [%s]}
  - name: egress
    segment-routing: true
    routes: [{to: "fc00:3::d6:0/112", encap: seg6local action End.DT6 table 254}, {to: "2001:db8:12::/64", via: 2001:db8:34::1}, {to: "2001:db8:1::/64", via: 2001:db8:34::1}, {to: "2001:db8:2::/48", via: 2001:db8:45::2}]
    agent: {%s, flows: [%s]}
  - {name: beta, routes: [{to: "::/0", via: 2001:db8:45::1}]}
links:
  - ends: [{node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}, {node: ingress, interface: eth0, addresses: 2001:db8:1::1/64}]
  - {mtu: 1700, ends: [{node: ingress, interface: eth1, addresses: 2001:db8:12::1/64}, {node: middle, interface: eth0, addresses: 2001:db8:12::2/64}]}
  - {mtu: 1700, ends: [{node: middle, interface: eth1, addresses: 2001:db8:23::1/64}, {node: later, interface: eth0, addresses: 2001:db8:23::2/64}]}
  - {mtu: 1700, ends: [{node: later, interface: eth1, addresses: 2001:db8:34::1/64}, {node: egress, interface: eth0, addresses: 2001:db8:34::2/64}]}
  - ends: [{node: egress, interface: eth1, addresses: 2001:db8:45::1/64}, {node: beta, interface: eth0, addresses: 2001:db8:45::2/64}]
`

// lossyLinks are the links on which packets are lost, in the order of the path.
var lossyLinks = [...]string{"ingress", "middle", "later"}

func sidOf(flow int) string  { return fmt.Sprintf("fc00:3::d6:%x", flow) }
func nameOf(flow int) string { return fmt.Sprintf("flow%d", flow) }
func modeOf(flow int) string { return []string{"encap", "encap.red"}[flow%2] }
func addressOf(flow int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:2:%x::1", flow))
}
func flowsFrom1() (list []int) {
	for i := range manyFlows + manyTCP {
		list = append(list, i+1)
	}
	return list
}

// raiseMany brings the path up, whose last node discards what arrives, but for TCP.
func raiseMany(t *testing.T) *lab.Lab {
	t.Helper()
	var routes []string
	flows := func(direction, more string) string {
		var list []string
		for _, i := range flowsFrom1() {
			list = append(
				list,
				fmt.Sprintf(
					`{name: %s, direction: %s, source: "2001:db8:ff::1", segments: ["fc00:1::e", "fc00:2::e", "%s"], mode: %s%s}`,
					nameOf(i),
					direction,
					sidOf(i),
					modeOf(i),
					more,
				),
			)
		}
		return strings.Join(list, ", ")
	}
	for _, i := range flowsFrom1() {
		routes = append(
			routes,
			fmt.Sprintf(
				`{to: "2001:db8:2:%x::/64", via: 2001:db8:12::2, encap: "seg6 mode %s segs fc00:1::e,fc00:2::e,%s"}`,
				i,
				modeOf(i),
				sidOf(i),
			),
		)
	}
	attach := string(e2e.TCModes()[0])
	agent := func(id int) string {
		return fmt.Sprintf(
			`node: {id: %d}, metrics: {listen: none}, interfaces: [{name: eth0, boundary: ignore, attach: %[2]s}, {name: eth1, boundary: ignore, `+
				`attach: %[2]s}], measurement: {block: %[3]v, guard: 900ms, clock-error: 1ms}, stamp: {allow: ["2001:db8::/32"]}`,
			id,
			attach,
			blockOfMany,
		)
	}
	l := e2e.RaiseText(t, "many", fmt.Sprintf(manyTopology, strings.Join(routes, ", "),
		agent(1), flows("out", `, points: ["2001:db8:12::2", "2001:db8:23::2", "2001:db8:34::2"]`),
		agent(2), flows("transit", ""), agent(3), flows("transit", ""), agent(4), flows("in", "")))
	e2e.Must(t, l.Node("beta"), "ip", "-6", "route", "add", "blackhole", "2001:db8:2::/48")
	for i := range manyTCP {
		e2e.Must(t, l.Node("beta"), "ip", "address", "add", addressOf(manyFlows+1+i).String()+"/128", "dev", "eth0", "nodad")
	}
	return l
}

// TestManyFlows sends packets of 100 flows over three links, each of which loses some of
// each flow in its own way; the second also reorders those of 15 flows, and each tenth
// flow is offloaded. Two more flows are TCP, which is offloaded, too. In the middle, the agent
// of the node between the second and the third link ends with its programs, and begins anew.
// What the agents find to be lost is what each link lost of each flow, in every block; next to
// the restarted node, but for the blocks of the restart, which are uncertain.
// WAYMARK_MEASURED_PACKETS has the number of packets, without those of TCP.
func TestManyFlows(t *testing.T) {
	packets := shortPackets
	if text := os.Getenv(packetsName); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < shortPackets || n > 1e9 {
			t.Fatalf("%s=%q: give a number of packets, from %d", packetsName, text, shortPackets)
		}
		packets = n
	}
	l := raiseMany(t)
	r := observe(t, l)
	var whole []part
	for _, i := range flowsFrom1() {
		whole = append(whole, part{nameOf(i), 0, 3})
	}
	r.awaitExact(t, whole...)
	loseOfEach(t, l)
	relay, err := l.StartRelay("middle", "eth1", linkrelay.Rule{Delay: 20 * time.Millisecond, Jitter: 15 * time.Millisecond, Seed: 5,
		Selection: linkloss.Selection{LastSID: netip.MustParsePrefix("fc00:3::d6:0/124")}})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for i := range manyTCP {
		group.Go(func() { sendTCP(ctx, t, l, manyFlows+1+i) })
	}
	group.Go(func() {
		defer cancel()
		sendMany(t, l, packets)
	})
	time.Sleep(patience.Of(time.Duration(packets) * time.Second / time.Duration(2*rateOf(packets))))
	o := during(func() { restart(t, l, lossyLinks[restarted]) })
	group.Wait()
	awaitQuiet(t, l)
	took := time.Since(began)
	held, err := relay.Stop()
	if err != nil || held.Sent != held.Packets {
		t.Errorf("%+v, %v", held, err)
	}
	r.awaitAfter(t, time.Now(), whole...)
	compareMany(t, l, r, began, packets, o.to.Sub(o.from))
	t.Logf("%d packets of %d flows in %v; %d of them were reordered on a link", packets, manyFlows, took.Round(time.Millisecond), held.Packets)
}

// loseOfEach has each link lose packets of each flow, and count them by block.
func loseOfEach(t *testing.T, l *lab.Lab) {
	t.Helper()
	for k, node := range lossyLinks {
		for _, i := range flowsFrom1() {
			rule := []linkloss.Rule{
				{Burst: 1, Every: uint32(20 + i)}, {Probability: 0.01, Seed: uint64(i)}, {Burst: 3, Every: uint32(100 + i)},
			}[k]
			rule.LastSID = netip.PrefixFrom(netip.MustParseAddr(sidOf(i)), 128)
			if _, err := l.AddLoss(node, "eth1", rule); err != nil {
				t.Fatal(err)
			}
		}
		// as the agents mark by default
		if err := l.CountBlocks(node, "eth1", linkloss.Colours{Length: blockOfMany, Mask: 0x0c, Even: 0x04, Odd: 0x0c}); err != nil {
			t.Fatal(err)
		}
	}
}

// sendTCP sends TCP of a flow until it is told to end, with pauses that leave time for others.
func sendTCP(ctx context.Context, t *testing.T, l *lab.Lab, flow int) {
	const size = 512 << 10
	for ; ctx.Err() == nil; pause(ctx, time.Now().Add(200*time.Millisecond)) {
		r, err := l.Send(
			t.Context(),
			lab.Traffic{Kind: lab.KindTCP, From: "alpha", To: "beta", Address: addressOf(flow), Bytes: size, Port: uint16(9000 + flow)},
		)
		if err != nil || r.Bytes != size {
			t.Errorf("%s: %+v, %v", nameOf(flow), r, err)
			return
		}
	}
}

// compareMany compares each flow on each link, in every block.
func compareMany(t *testing.T, l *lab.Lab, r *results, began time.Time, packets int, gap time.Duration) {
	t.Helper()
	var all, ofTCP, offloaded, lost uint64
	var lossy [len(lossyLinks)]int // flows
	c := comparison{began: began, most: 3 + int(gap/blockOfMany)}
	for i, links := range injectedLosses(t, l) {
		for k := range links {
			had := linkloss.Counts{}
			for _, b := range links[k] {
				had.LostPackets += b.LostPackets
				had.Frames, had.Packets = had.Frames+b.Frames, had.Packets+b.Packets
			}
			lost += had.LostPackets
			if had.LostPackets > 0 {
				lossy[k]++
			}
			if i > manyFlows {
				offloaded += had.Packets - had.Frames
			}
		}
		if sent := c.flow(t, r, nameOf(i), links); i > manyFlows {
			ofTCP += sent
		} else {
			all += sent
		}
	}
	t.Logf(
		"%d packets were lost: %d after %s, %d after %s and %d after %s in exact blocks, "+
			"%d in %d blocks of %d flows in which %s had no agent for %v; %d blocks next to it are exact; TCP sent %d packets",
		lost,
		c.lost[0],
		lossyLinks[0],
		c.lost[1],
		lossyLinks[1],
		c.lost[2],
		lossyLinks[2],
		c.hidden,
		c.uncertain,
		manyFlows+manyTCP,
		lossyLinks[restarted],
		gap.Round(time.Millisecond),
		c.exact,
		ofTCP,
	)
	for k, n := range lossy {
		if n < manyFlows*3/4 { // a short run has few frames of the offloaded flows
			t.Errorf("after %s: only %d flows lost packets", lossyLinks[k], n)
		}
	}
	if c.lost[0]+c.lost[1]+c.lost[2]+c.hidden != lost {
		t.Errorf("%d were lost, and %d in exact and %d in uncertain blocks", lost, c.lost[0]+c.lost[1]+c.lost[2], c.hidden)
	}
	if all != uint64(packets) {
		t.Errorf("%d packets were sent, %d counted", packets, all)
	}
	if offloaded < ofTCP/2 {
		t.Errorf("TCP is %d packets, but only %d were saved in offloaded frames", ofTCP, offloaded)
	}
}

// rateOf is how many packets are sent in a second.
func rateOf(packets int) int { return min(packetRate, packets/shortest) }

// sendMany sends packets of all flows in turn, at a steady rate.
func sendMany(t *testing.T, l *lab.Lab, packets int) {
	t.Helper()
	err := l.Node("alpha").Do(func() error {
		var plain, offloaded [manyFlows]int
		var to [manyFlows]netip.AddrPort
		left := 0
		for i := range manyFlows {
			to[i] = netip.AddrPortFrom(addressOf(i+1), 9)
			plain[i] = packets / manyFlows
			if (i+1)%10 == 0 { // offloaded frames, and the rest one by one
				offloaded[i], plain[i] = plain[i]/aggregated, plain[i]%aggregated
			}
			left += plain[i] + offloaded[i]
		}
		single, several, err := openSenders()
		if err != nil {
			return err
		}
		defer single.Close()
		defer several.Close()
		sent, start := 0, time.Now()
		send := func(from *net.UDPConn, flow, size, parts int) error {
			if sent += parts; sent%64 < parts {
				pause(t.Context(), start.Add(patience.Of(time.Duration(sent)*time.Second/time.Duration(rateOf(packets)))))
			}
			left--
			_, err := from.WriteToUDPAddrPort(payload[:size], to[flow])
			return err
		}
		for round := 0; left > 0; round++ {
			for i := range manyFlows {
				switch {
				case offloaded[i] > 0 && round%aggregated == 0:
					offloaded[i]--
					err = send(several, i, aggregated*segmentSize, aggregated)
				case plain[i] > 0:
					plain[i]--
					err = send(single, i, segmentSize, 1)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

const segmentSize = 100

var payload [aggregated * segmentSize]byte

// openSenders opens a socket for single datagrams, and one whose writes the network card
// cuts.
func openSenders() (single, several *net.UDPConn, err error) {
	if single, err = net.ListenUDP("udp6", nil); err != nil {
		return nil, nil, err
	}
	if several, err = net.ListenUDP("udp6", nil); err == nil {
		raw, rerr := several.SyscallConn()
		if err = rerr; err == nil {
			err = raw.Control(func(fd uintptr) { rerr = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, segmentSize) })
		}
		if err == nil {
			err = rerr
		}
	}
	return single, several, err
}

func pause(ctx context.Context, until time.Time) {
	if wait := time.Until(until); wait > 0 && ctx.Err() == nil {
		time.Sleep(wait)
	}
}
