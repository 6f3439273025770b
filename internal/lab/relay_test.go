// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/lab/linkrelay"
)

// twoHosts are joined by one link.
const twoHosts = `
name: pair
permanent-neighbours: true
nodes: [{name: left}, {name: right}]
links:
  - ends:
      - {node: left, interface: eth0, addresses: 2001:db8::1/64}
      - {node: right, interface: eth0, addresses: 2001:db8::2/64}
`

func raisePair(t *testing.T) *Lab {
	t.Helper()
	top, err := Parse("pair", []byte(twoHosts))
	if err != nil {
		t.Fatal(err)
	}
	return raiseTopology(t, top)
}

func relay(t *testing.T, l *Lab, rule linkrelay.Rule) *Relay {
	t.Helper()
	r, err := l.StartRelay("left", "eth0", rule)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func exchanged(t *testing.T, l *Lab, traffic Traffic) TrafficResult {
	t.Helper()
	traffic.From, traffic.To = "left", "right"
	r, err := l.Send(t.Context(), traffic)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// toRight are the frames that left sends to right, without neighbour discovery.
var toRight = linkloss.Selection{Destination: netip.MustParsePrefix("2001:db8::2/128")}

// Each ping takes as much longer as the link delays it, and no packet is lost.
func TestRelayDelays(t *testing.T) {
	l := raisePair(t)
	r := relay(t, l, linkrelay.Rule{Delay: 20 * time.Millisecond, Selection: toRight})
	if _, err := l.StartRelay("left", "eth0", linkrelay.Rule{Delay: time.Millisecond}); err == nil ||
		!strings.Contains(err.Error(), "another process already delays") {
		t.Errorf("a second relay: %v", err)
	}
	pings := exchanged(t, l, Traffic{Kind: KindPing, Count: 20, Interval: 5 * time.Millisecond, Size: 56})
	for _, d := range pings.RoundTrip {
		if d < 20*time.Millisecond || d > 60*time.Millisecond {
			t.Errorf("a ping took %v", d)
		}
	}
	done, err := r.Stop()
	if err != nil || pings.Lost() > 0 || done.Frames != 20 || done.Packets != 20 || done.Sent != 20 || done.NotRead+done.NotSent > 0 {
		t.Errorf("%+v, %v, %+v", done, err, pings)
	}
	if done.ShortestNS < uint64(20*time.Millisecond) || done.MeanNS < done.ShortestNS || done.LongestNS < done.MeanNS {
		t.Errorf("%+v", done)
	}
	if rest := exchanged(t, l, Traffic{Kind: KindPing, Count: 3, Interval: time.Millisecond, Size: 56}); rest.Lost() > 0 ||
		rest.RoundTrip[0] > 15*time.Millisecond {
		t.Errorf("after the relay: %+v", rest)
	}
	if list, err := l.Losses(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// What Stop finds held goes on.
func TestRelayDrains(t *testing.T) {
	l := raisePair(t)
	r := relay(t, l, linkrelay.Rule{Delay: 300 * time.Millisecond, Selection: toRight})
	var conn net.PacketConn
	if err := l.Node("right").Do(func() (err error) {
		conn, err = net.ListenPacket("udp6", "[::]:9000")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const count = 100
	if err := l.Node("left").Do(func() error {
		out, err := net.Dial("udp6", "[2001:db8::2]:9000")
		for range count {
			if err == nil {
				_, err = out.Write([]byte("held"))
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if done, err := r.Stop(); err != nil || done.Packets != count || done.Sent != count {
		t.Errorf("%+v, %v", done, err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	for i := range count {
		if _, _, err := conn.ReadFrom(make([]byte, 10)); err != nil {
			t.Fatalf("%d of %d came: %v", i, count, err)
		}
	}
}

// Every tenth datagram comes after three later ones, and no other is late.
func TestRelayReorders(t *testing.T) {
	l := raisePair(t)
	r := relay(t, l, linkrelay.Rule{Every: 10, By: 3, Hold: time.Second, Selection: toRight})
	const count = 1004 // the last one that is held is overtaken, too
	sent := exchanged(t, l, Traffic{Kind: KindUDP, Count: count, Interval: 200 * time.Microsecond, Size: 100, Port: 9000})
	done, err := r.Stop()
	if err != nil || sent.Lost() > 0 || sent.Late != count/10 || sent.Duplicate > 0 {
		t.Errorf("%+v, %v", sent, err)
	}
	if done.Sent != done.Packets || done.Packets < count || done.Overtaken < count/10 || done.NotRead+done.NotSent > 0 {
		t.Errorf("%+v", done)
	}
}

// Offloaded TCP arrives whole through a relay with jitter, which sees it as packets, and
// losses come first.
func TestRelayOfOffloads(t *testing.T) {
	l := raisePair(t)
	if _, err := l.AddLoss("left", "eth0", linkloss.Rule{Burst: 1, Every: 100, Destination: toRight.Destination}); err != nil {
		t.Fatal(err)
	}
	r := relay(t, l, linkrelay.Rule{Delay: 2 * time.Millisecond, Jitter: 500 * time.Microsecond, Seed: 3, Selection: toRight})
	exchanged(t, l, Traffic{Kind: KindTCP, Bytes: 8 << 20, Port: 9001})
	done, err := r.Stop()
	if err != nil || done.Sent != done.Packets || done.Frames >= done.Packets || done.NotRead+done.NotSent > 0 {
		t.Errorf("%+v, %v", done, err)
	}
	lost, err := l.Losses()
	if err != nil || len(lost) != 1 || lost[0].LostFrames == 0 || lost[0].Frames-lost[0].LostFrames < done.Frames {
		t.Errorf("%+v, %v; relayed %+v", lost, err, done)
	}
}
