// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// routers is a path with one segment between its ends, all measured.
const routers = `
name: routers
permanent-neighbours: true
nodes:
  - {name: alpha, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: ingress
    addresses: 2001:db8:ff::1/128
    routes: [{to: "fc00::/16", via: 2001:db8:12::2}, {to: 2001:db8:23::/64, via: 2001:db8:12::2}, {to: 2001:db8:2::/64, via: 2001:db8:12::2}]
    agent: %s
  - name: middle
    routes: [{to: "fc00:3::/32", via: 2001:db8:23::3}, {to: 2001:db8:2::/64, via: 2001:db8:23::3}, {to: 2001:db8:1::/64, via: 2001:db8:12::1}, {to: 2001:db8:ff::1/128, via: 2001:db8:12::1}]
    agent: %s
  - name: egress
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:23::2}, {to: 2001:db8:12::/64, via: 2001:db8:23::2}, {to: 2001:db8:ff::1/128, via: 2001:db8:23::2}]
    agent: %s
  - {name: beta, routes: [{to: "::/0", via: 2001:db8:2::1}]}
links:
  - ends:
      - {node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}
      - {node: ingress, interface: eth0, addresses: 2001:db8:1::1/64}
  - ends:
      - {node: ingress, interface: eth1, addresses: 2001:db8:12::1/64}
      - {node: middle, interface: eth0, addresses: 2001:db8:12::2/64}
  - ends:
      - {node: middle, interface: eth1, addresses: 2001:db8:23::2/64}
      - {node: egress, interface: eth0, addresses: 2001:db8:23::3/64}
  - ends:
      - {node: egress, interface: eth1, addresses: 2001:db8:2::1/64}
      - {node: beta, interface: eth0, addresses: 2001:db8:2::2/64}
`

const (
	endSID  = "fc00:2::e"
	lastSID = "fc00:3::d6"
	// collector is at the egress.
	collector = "[2001:db8:23::3]:4739"
	// block is long enough that the reader below, which asks far more often, misses
	// none.
	block = "1s"
	// closeTime is long enough for the last blocks to close.
	closeTime = 8 * time.Second
)

// agentOf is the configuration of a router that measures one flow.
func agentOf(id int, direction, attach string, how asking, flow string) string {
	role, more := "[]", ""
	if direction == "out" && how.ioam != "" {
		role, more = "[egress]", "\n      namespaces: [{id: 123}]\n      encapsulations: ["+how.ioam+"]"
	}
	if how.exchange == "ipfix" {
		more += "\n      export: [{kind: ipfix, address: \"tcp://" + collector + "\"}]"
	}
	exchange := cmp.Or(how.exchange, "stamp")
	if exchange == "rfc6374" {
		exchange += ", delay-port: 6375"
	}
	return fmt.Sprintf(`
      node: {id: %d}
      metrics: {listen: none}
      interfaces: [{name: eth0, boundary: ignore, attach: %[3]s}, {name: eth1, boundary: ignore, attach: %[3]s, role: %[7]s}]
      measurement: {block: %[5]s, guard: 200ms, mean-delay: true, clock-error: 1ms, probe-interval: 50ms, exchange: %[6]s}
      stamp: {allow: ["2001:db8::/32"], return-segments: true}
      responders: [{protocol: twamp-light, listen: "[::]:1205", allow: ["2001:db8::/32"]}, {protocol: rfc6374-loss, listen: "[::]:6374", allow: ["2001:db8::/32"]},
        {protocol: rfc6374-delay, listen: "[::]:6375", allow: ["2001:db8::/32"]}]
      flows: [{name: red, direction: %[2]s, %[4]s}]`, id, direction, attach, flow, block, exchange, role) + more
}

// raise brings the path up for packets that get their segments in a mode.
func raise(t *testing.T, mode, attach string) *lab.Lab { return raiseWith(t, mode, attach, asking{}) }

// asking is how the ingress asks the others, and probes the flow.
type asking struct {
	exchange, port string
	out, in        string // more settings of the flow at the ingress, and at the others
	ioam           string // an encapsulation of the ingress
	middle         string // how the middle attaches, if in another way
}

// raiseWith also says how the ingress asks the others.
func raiseWith(t *testing.T, mode, attach string, how asking) *lab.Lab {
	t.Helper()
	return raiseMarked(t, mode, attach, lastSID, lastSID, "", how)
}

// raiseMarked does so with more settings of the measurement. The egress decapsulates
// packets for a prefix, which the last SID is from.
func raiseMarked(t *testing.T, mode, attach, last, prefix, marking string, how asking) *lab.Lab {
	t.Helper()
	const source = "2001:db8:ff::1"
	segments := endSID + "," + last
	flow := fmt.Sprintf(`source: %q, segments: ["%s"], mode: %s`, source, strings.ReplaceAll(segments, ",", `", "`), mode)
	route := []string{"ip", "-6", "route", "add", "2001:db8:2::/64", "encap", "seg6", "mode", mode, "segs", segments, "dev", "eth1"}
	if mode == "inline" { // the packet goes on to its own destination
		flow = fmt.Sprintf("source: 2001:db8:1::2, segments: [%q], mode: inline", endSID)
		route[10] = endSID
	}
	out, transit, in := fmt.Sprintf(`, points: ["[2001:db8:12::2]:%[1]s", "[2001:db8:23::3]:%[1]s"]`, cmp.Or(how.port, "862")), "", ""
	if how.exchange == "ipfix" {
		out, transit, in = ", last-point: 2", ", point: 1, last-point: 2", ", point: 2"
	}
	topology := fmt.Sprintf(routers, agentOf(1, "out", attach, how, flow+out+how.out),
		agentOf(2, "transit", cmp.Or(how.middle, attach), how, flow+transit+how.in), agentOf(3, "in", attach, how, flow+in+how.in))
	l := e2e.RaiseText(t, "routers", strings.ReplaceAll(topology, "mean-delay: true", "mean-delay: true"+marking))
	for _, name := range []string{"ingress", "middle", "egress"} {
		e2e.Must(t, l.Node(name), "sysctl", "-qw", "net.ipv6.conf.all.seg6_enabled=1", "net.ipv6.conf.eth0.seg6_enabled=1",
			"net.ipv6.conf.eth1.seg6_enabled=1")
	}
	if how.exchange == "ipfix" {
		journal(t, l, "egress", "collect", "--json", "--listen", "tcp://"+collector)
	} else {
		journal(t, l, "ingress", "loss", "--follow", "--json", "--flow", "red")
	}
	e2e.Must(t, l.Node("ingress"), "ip", "sr", "tunsrc", "set", source)
	e2e.Must(t, l.Node("ingress"), "ip", "-6", "route", "del", "2001:db8:2::/64")
	e2e.Must(t, l.Node("ingress"), route...)
	e2e.Must(t, l.Node("middle"), "ip", "-6", "route", "add", endSID, "encap", "seg6local", "action", "End", "dev", "eth1")
	e2e.Must(t, l.Node("egress"), "ip", "-6", "route", "add", prefix, "encap", "seg6local", "action", "End.DT6", "table", "254", "dev", "eth1")
	return l
}

// journal writes the losses that a command says at a node into a file, until the test ends, and
// its notes into another one.
func journal(t *testing.T, l *lab.Lab, node string, args ...string) {
	t.Helper()
	file, err := os.Create(filepath.Join(l.Directory(), "loss.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	notes, err := os.Create(filepath.Join(l.Directory(), "notes"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := l.Node(node).Command(ctx, e2e.Program, args...)
	cmd.Stdout, cmd.Stderr = file, notes
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was interrupted
		file.Close()
		notes.Close()
	})
}

// reader adds up a router's blocks.
type reader struct {
	mu     sync.Mutex
	blocks map[uint64]api.Block
	hidden map[uint64]api.Block // that another router's agent could not read
	from   uint64               // the first block
}

func newReader() *reader {
	return &reader{blocks: make(map[uint64]api.Block), hidden: make(map[uint64]api.Block)}
}

// addFlow adds the last two blocks of a flow. An agent that begins anew has read both.
func (r *reader) addFlow(f api.MeasuredFlow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range []*api.Block{f.Last, f.Previous} {
		if b != nil && b.Number >= r.from {
			r.blocks[b.Number] = *b
		}
	}
}

// read reads the blocks of a router's flow red until the test ends.
func read(t *testing.T, l *lab.Lab, node string) *reader {
	t.Helper()
	return readFlows(t, l, node, "red")["red"]
}

// sum is what was counted so far, in complete blocks that follow each other.
func (r *reader) sum(t *testing.T) (sum api.Block) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.blocks {
		sum.Packets += b.Packets
		sum.Octets += b.Octets
		sum.Late += b.Late
		sum.Early += b.Early
		sum.Unmarked += b.Unmarked
		sum.Unsized += b.Unsized
	}
	return sum
}

// of is what was counted in a block.
func (r *reader) of(number uint64) api.Block {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.blocks[number]
}

// awaitComplete waits until a block was counted from its start.
func (r *reader) awaitComplete(t *testing.T) {
	t.Helper()
	e2e.Await(t, "a complete block", 8*time.Second, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, b := range r.blocks {
			if b.Complete {
				return true
			}
		}
		return false
	})
}

// differ names the blocks in which two routers counted different numbers of packets.
func differ(a, b *reader) (list []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for n, x := range a.blocks {
		if y, ok := b.blocks[n]; ok && x.Packets != y.Packets {
			list = append(list, fmt.Sprintf("block %d: %d and %d", n, x.Packets, y.Packets))
		}
	}
	return list
}

// send sends datagrams from alpha to beta with hop limits in turn.
func send(t *testing.T, l *lab.Lab, count, size int, hopLimits ...int) {
	t.Helper()
	sendIn(t, l, 0, count, size, hopLimits...)
}

// sendIn sends them with a traffic class, which the kernel's outer header has, too.
func sendIn(t *testing.T, l *lab.Lab, class, count, size int, hopLimits ...int) {
	t.Helper()
	sendTo(t, l, "2001:db8:2::2", class, count, size, hopLimits...)
}

// sendTo sends them to another address.
func sendTo(t *testing.T, l *lab.Lab, address string, class, count, size int, hopLimits ...int) {
	t.Helper()
	err := l.Node("alpha").Do(func() error {
		// not connected: an ICMPv6 error would otherwise take the place of a datagram
		conn, err := net.ListenUDP("udp6", nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		raw, err := conn.SyscallConn()
		if err != nil {
			return err
		}
		if cerr := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS,
				class)
		}); cerr != nil || err != nil {
			return errors.Join(cerr, err)
		}
		payload, to := make([]byte, size), netip.AddrPortFrom(netip.MustParseAddr(address), 9)
		for i := range count {
			limit := hopLimits[i%len(hopLimits)]
			if err := raw.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS,
					limit)
			}); err != nil {
				return err
			}
			if _, err := conn.WriteToUDPAddrPort(payload, to); err != nil {
				return err
			}
			if i%50 == 49 {
				time.Sleep(2 * time.Millisecond)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitSum waits until a router has counted so many packets in closed blocks.
func awaitSum(t *testing.T, r *reader, what string, packets uint64) {
	t.Helper()
	for deadline := time.Now().Add(patience.Of(8 * time.Second)); ; time.Sleep(20 * time.Millisecond) {
		if got := r.sum(t); got.Packets == packets {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("%s: %+v, want %d packets", what, got, packets)
		}
	}
}

// losses are the records of a journal.
func losses(t *testing.T, l *lab.Lab) (sent, lost map[string]uint64, delays []int64) {
	t.Helper()
	sent, lost = make(map[string]uint64), make(map[string]uint64)
	text, err := os.ReadFile(filepath.Join(l.Directory(), "loss.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		r, err := record.Parse([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		switch r := r.(type) {
		case *record.Loss:
			// before the first packet, the agents begin one after the other
			if r.Verdict == loss.Uncertain && r.Sent.Value+r.Received.Value > 0 {
				t.Fatalf("%s", line)
			}
			segment := fmt.Sprintf("%d-%d", r.From, r.To)
			sent[segment] += r.Sent.Value
			lost[segment] += r.Lost.Value
		case *record.Delay:
			delays = append(delays, r.Min)
		}
	}
	return sent, lost, delays
}

// checkLoss compares what the agents found out together: two thirds of the packets
// reach the egress, all others are lost behind the middle.
func checkLoss(t *testing.T, l *lab.Lab, count, want uint64) {
	t.Helper()
	var sent, lost map[string]uint64
	var delays []int64
	e2e.Await(t, "the results of all blocks", 8*time.Second, func() bool {
		sent, lost, delays = losses(t, l)
		return sent["0-2"] >= count && sent["1-2"] >= count
	})
	if sent["0-2"] != count || sent["0-1"] != count || lost["0-2"] != want || lost["0-1"] != 0 || lost["1-2"] != want {
		t.Errorf("sent %v, lost %v; want %d of %d lost behind the middle", sent, lost, want, count)
	}
	if len(delays) == 0 || slices.Min(delays) < 0 || slices.Max(delays) > int64(100*time.Millisecond) {
		t.Errorf("delays %v", delays)
	}
}
