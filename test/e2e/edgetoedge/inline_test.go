// SPDX-License-Identifier: Apache-2.0

package edgetoedge

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/lab/linkrelay"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// inlineTopology is a line: the host numbers its own packets, and the last router ends the
// options. Of the routers between, the first one loses and reorders, the second one duplicates;
// they have no agents.
const inlineTopology = `
name: inline
permanent-neighbours: true
nodes:
  - name: alpha
    routes: [{to: "::/0", via: 2001:db8:1::1}]
    agent:
      interfaces: [{name: eth0, role: [ingress, egress]}]
      namespaces: [{id: 7}]
      encapsulations:
        - {name: numbered, interface: eth0, match: {destination: 2001:db8:2::/64}, mode: inline, options: [{e2e: {namespace: 7, type: TYPE}}]}
  - name: porthos
    routes: [{to: 2001:db8:2::/64, via: 2001:db8:12::2}]
  - name: athos
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:12::1}, {to: 2001:db8:2::/64, via: 2001:db8:23::2}]
  - name: aramis
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:23::1}]
    agent:
      node: {export-interval: 3s}
      interfaces: [{name: eth0, role: [ingress, egress]}, {name: eth1}]
      namespaces: [{id: 7, e2e: true, remove: true}]
      export: [{kind: jsonl, path: FILE}]
  - name: beta
    routes: [{to: "::/0", via: 2001:db8:2::1}]
links:
  - {mtu: 1600, ends: [{node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}, {node: porthos, interface: eth0, addresses: 2001:db8:1::1/64}]}
  - {mtu: 1600, ends: [{node: porthos, interface: eth1, addresses: 2001:db8:12::1/64}, {node: athos, interface: eth0, addresses: 2001:db8:12::2/64}]}
  - {mtu: 1600, ends: [{node: athos, interface: eth1, addresses: 2001:db8:23::1/64}, {node: aramis, interface: eth0, addresses: 2001:db8:23::2/64}]}
  - ends: [{node: aramis, interface: eth1, addresses: 2001:db8:2::1/64}, {node: beta, interface: eth0, addresses: 2001:db8:2::2/64}]
`

// The last node counts as many packets as the lab lost, reordered and sent twice, and each has
// a delay, with numbers of 32 and of 64 bits in inline headers.
func TestReorderingAndDuplicatesInline(t *testing.T) {
	for _, kind := range []string{"0x7000", "0xb000"} {
		t.Run(kind, func(t *testing.T) { reorderAndDuplicate(t, kind) })
	}
}

func reorderAndDuplicate(t *testing.T, kind string) {
	file := filepath.Join(t.TempDir(), "records.jsonl")
	l := e2e.RaiseText(t, "inline", strings.NewReplacer("FILE", file, "TYPE", kind).Replace(inlineTopology))
	send := func(count int) lab.TrafficResult {
		t.Helper()
		r, err := l.Send(
			t.Context(),
			lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: count, Interval: time.Millisecond, Size: 100, Port: 9000},
		)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	// An interval begins when the records of the last one are there, and is longer than what follows.
	send(5)
	e2e.Await(t, "the end of an interval", 10*time.Second, func() bool { return len(edgeFlows(t, file)) > 0 })
	first := edgeFlows(t, file)
	toBeta := netip.MustParsePrefix("2001:db8:2::2/128")
	if _, err := l.AddLoss("porthos", "eth1", linkloss.Rule{Destination: toBeta, Burst: 2, Every: 25}); err != nil {
		t.Fatal(err)
	}
	relay, err := l.StartRelay(
		"porthos",
		"eth1",
		linkrelay.Rule{Every: 10, By: 3, Hold: time.Second, Selection: linkloss.Selection{Destination: toBeta}},
	)
	if err != nil {
		t.Fatal(err)
	}
	copier := startCopier(t, l, "athos", "eth1")
	const packets = 410 // the last ones arrive, and overtake those that are held
	r := send(packets)
	copies := copier.stop(t)
	relayed, err := relay.Stop()
	if err != nil {
		t.Fatal(err)
	}
	lost, err := l.RemoveLoss("porthos", "eth1", 1)
	if err != nil || lost.LostPackets == 0 || relayed.Overtaken == 0 || relayed.OutOfTime+relayed.NotRead+relayed.NotSent > 0 || copies == 0 {
		t.Fatalf("the lab lost %+v, reordered %+v and made %d copies: %v", lost, relayed, copies, err)
	}
	if r.Duplicate != copies || r.Received != packets-int(lost.LostPackets) {
		t.Fatalf(
			"%d of %d packets arrived, and %d copies; the lab lost %d and made %d copies",
			r.Received,
			packets,
			r.Duplicate,
			lost.LostPackets,
			copies,
		)
	}
	var flows []*record.EdgeFlow
	e2e.Await(t, "the record of the flow", 10*time.Second, func() bool {
		flows = edgeFlows(t, file)[len(first):]
		return len(flows) > 0
	})
	f := flows[0]
	if len(flows) != 1 || f.Packets != uint64(r.Received+copies) || f.Lost.Value != lost.LostPackets || f.Duplicates.Value != uint64(copies) ||
		f.Reordered.Value != relayed.Overtaken || f.Late.Value+f.Restarts.Value > 0 {
		t.Errorf(
			"%d records, the first: %s\nwant %d packets, %d lost, %d duplicates, %d reordered",
			len(flows),
			f.Text(),
			r.Received+copies,
			lost.LostPackets,
			copies,
			relayed.Overtaken,
		)
	}
	if d := f.Delay; d == nil || d.Count != f.Packets || d.Min <= 0 || d.Max < int64(relayed.LongestNS) || d.Max > int64(2*time.Second) ||
		d.Sum < int64(relayed.MeanNS*relayed.Packets) {
		t.Errorf("delays %+v; the relay held packets for %d ns, %d at most", d, relayed.MeanNS, relayed.LongestNS)
	}
}

// edgeFlows are the records of flows in a file.
func edgeFlows(t *testing.T, file string) (list []*record.EdgeFlow) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		r, err := record.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := r.(*record.EdgeFlow); ok {
			list = append(list, f)
		}
	}
	return list
}

// copier sends packets with an option once more by the interface by which they left.
type copier struct {
	fd    int
	ended chan int
}

// copyEach is how many packets with an option there are to one copy.
const copyEach = 7

func startCopier(t *testing.T, l *lab.Lab, node, device string) *copier {
	t.Helper()
	c := &copier{ended: make(chan int, 1)}
	if err := l.Node(node).Do(func() (err error) {
		link, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in the order of the network
		if c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return errors.Join(
			unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000}),
			unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}))
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(c.fd) })
	go c.run()
	return c
}

// run copies until no packet comes for half a second after the first one.
func (c *copier) run() {
	seen, copies := 0, 0
	frame := make([]byte, 2000)
	for quiet := 0; seen == 0 || quiet < 25; quiet++ {
		n, from, err := unix.Recvfrom(c.fd, frame, 0)
		if errors.Is(err, unix.EBADF) {
			return
		}
		if at, ok := from.(*unix.SockaddrLinklayer); err != nil || !ok || at.Pkttype != unix.PACKET_OUTGOING || n < 60 || frame[12] != 0x86 ||
			frame[20] != 60 {
			continue
		}
		quiet = 0
		if seen++; seen%copyEach == 0 {
			if _, err := unix.Write(c.fd, frame[:n]); err == nil {
				copies++
			}
		}
	}
	c.ended <- copies
}

// stop waits for the end of the packets, and says how many copies were sent.
func (c *copier) stop(t *testing.T) int {
	t.Helper()
	select {
	case n := <-c.ended:
		return n
	case <-time.After(patience.Of(10 * time.Second)):
		t.Fatal("the copier saw no packets")
		return 0
	}
}
