// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// exportsSeen counts exports by collector and transport in what an interface sends.
type exportsSeen struct {
	lock        sync.Mutex
	plain, with map[exportTo]int // with: those that have a header with options
}

type exportTo struct {
	address  string
	protocol ioam.NextHeader
}

func watchExports(t *testing.T, l *lab.Lab, node, name string) *exportsSeen {
	t.Helper()
	s := &exportsSeen{plain: map[exportTo]int{}, with: map[exportTo]int{}}
	capture, err := l.Capture(node, name, lab.CaptureOptions{Each: func(p lab.Packet) {
		if p.Outgoing && len(p.Data) > 14+40 {
			s.see(p.Data[14:])
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = capture.Stop() })
	return s
}

const tcpReset = 0x04 // among the flags of a TCP header

// see takes a packet that begins with its IPv6 header.
func (s *exportsSeen) see(ip []byte) {
	next, at, to, count := ioam.NextHeader(ip[6]), 40, ip[24:40], s.plain
	if next == ioam.NextHeaderHopByHop {
		count = s.with
		next, at = ioam.NextHeader(ip[at]), at+8*(int(ip[at+1])+1)
	}
	if next == ioam.NextHeaderIPv6 && len(ip) > at+40 {
		next, at, to = ioam.NextHeader(ip[at+6]), at+40, ip[at+24:at+40]
	}
	if next != ioam.NextHeaderUDP && next != ioam.NextHeaderTCP || len(ip) < at+4 || binary.BigEndian.Uint16(ip[at+2:]) != collectorPort {
		return
	}
	if next == ioam.NextHeaderTCP && len(ip) >= at+14 && ip[at+13]&tcpReset != 0 {
		return // the kernel's answer to the old host, which still probes a session that ended here
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	count[exportTo{netip.AddrFrom16([16]byte(to)).String(), next}]++
}

func (s *exportsSeen) to(address string, protocol ioam.NextHeader) int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.plain[exportTo{address, protocol}]
}

// A collector's name moves, and its old host goes silent. Sessions over UDP and TCP follow it; none of the
// exports before, meanwhile and after gets a Direct Export, although they match the node's own rule.
func TestCollectorsNameMoves(t *testing.T) {
	t.Parallel()
	const before, after = "2001:db8:2::3", "2001:db8:2::2"
	top := directExports(t)
	for i := range top.Links {
		for k, end := range top.Links[i].Ends {
			if end.Node == "beta" {
				top.Links[i].Ends[k].Addresses = append(end.Addresses, netip.MustParsePrefix(before+"/64"))
			}
		}
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	moveTo := func(address string) {
		if err := os.WriteFile(hosts, []byte(address+" collector.example\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	moveTo(before)
	l, c := raiseCollecting(t, top)
	e2e.Rewrite(t, l, "athos", strings.NewReplacer(`address: "udp://[2001:db8:2::2]:4739", message-size: 1200}`,
		`address: "udp://collector.example:4739", message-size: 1200, refresh: 1s}, `+
			`{kind: ipfix, address: "tcp://collector.example:4739", observation-domain: 10, refresh: 1s}`).Replace)
	e2e.RestartWithHosts(t, l, "athos", hosts)
	awaitExporters(t, l, "athos")
	seen := watchExports(t, l, "athos", "eth1")
	transports := []ioam.NextHeader{ioam.NextHeaderUDP, ioam.NextHeaderTCP}
	sent := 0
	exported := func(address, when string, most time.Duration) {
		t.Helper()
		e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: 5, Interval: time.Millisecond, Size: 100, Port: 9000})
		sent += 5
		counts := map[ioam.NextHeader]int{}
		for _, p := range transports {
			counts[p] = seen.to(address, p)
		}
		e2e.Await(t, "athos exports "+when, most, func() bool {
			for _, p := range transports {
				if seen.to(address, p) < counts[p]+2 {
					return false
				}
			}
			return true
		})
	}
	exported(before, "to the address that the name has", 20*time.Second)
	moveTo(after)
	e2e.Must(t, l.Node("beta"), "ip", "address", "del", before+"/64", "dev", "eth0") // which drops what comes to it
	exported(before, "to the old address of the name", 20*time.Second)
	exported(after, "to the new address of the name", 120*time.Second)
	e2e.Await(t, "all packets of alpha have a Direct Export", 20*time.Second, func() bool { return pathsTo(t, c, 9000) == sent })
	if e2e.Counter(t, l, "athos", "encap_skipped_export") == 0 {
		t.Error("no export matched the rule")
	}
	seen.lock.Lock()
	defer seen.lock.Unlock()
	if len(seen.with) > 0 {
		t.Errorf("exports with a Direct Export: %v, without: %v", seen.with, seen.plain)
	}
}
