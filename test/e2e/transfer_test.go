// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/ioam"
)

// reconfigure changes the text of a node's configuration; each old text must
// be there.
func reconfigure(t *testing.T, top *lab.Topology, node string, oldnew ...string) {
	t.Helper()
	spec := top.Node(node).Agent
	text := string(spec.Config)
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(text, oldnew[i]) {
			t.Fatalf("the configuration of %s has no %q", node, oldnew[i])
		}
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	settings, err := config.Parse(node, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	spec.Config, spec.Settings = []byte(text), settings
}

// scan counts IOAM in what an interface receives until the test ends it.
type scan struct {
	capture                    *lab.Capture
	packets, marked, ioamBytes atomic.Int64
	longest                    atomic.Int64 // bytes of an IPv6 packet
}

func startScan(t *testing.T, l *lab.Lab, node, name string) *scan {
	t.Helper()
	s := &scan{}
	var err error
	s.capture, err = l.Capture(node, name, lab.CaptureOptions{Each: func(p lab.Packet) {
		if p.Outgoing {
			return
		}
		s.packets.Add(1)
		s.longest.Store(max(s.longest.Load(), int64(p.Length-14)))
		if n := lab.IOAMBytes(p.Data); n > 0 {
			s.marked.Add(1)
			s.ioamBytes.Add(int64(n))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scan) stop(t *testing.T) lab.CaptureStats {
	t.Helper()
	stats, err := s.capture.Stop()
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

// counter sums an outcome over a node's interfaces.
func counter(t *testing.T, l *lab.Lab, node, outcome string) uint64 {
	t.Helper()
	place, err := l.Node(node).Place()
	if err != nil {
		t.Fatal(err)
	}
	status, err := api.NewClient(place.Socket()).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sum uint64
	for _, i := range status.Interfaces {
		sum += i.Ingress[outcome] + i.Egress[outcome]
	}
	return sum
}

// transfer is one way to trace every packet of a TCP connection.
type transfer struct {
	mode    string
	attach  config.Attach
	size    int64
	athos   []string // changes of its configuration
	aramis  []string
	added   string // outcome of athos
	removed string // outcome of aramis
}

// transfers are both modes by both hooks. XDP at a veth turns the offloads of
// its peer off; with tc, packets of up to 64 KiB cross the domain.
func transfers() []transfer {
	large, small := int64(1<<30), int64(64<<20)
	if testing.Short() {
		large = small
	}
	encap := transfer{
		mode:  "encap",
		athos: []string{"mode: auto", "mode: encap"},
		added: "encap_tunneled", removed: "tunnel_decapsulated",
	}
	inline := transfer{
		mode:   "inline",
		athos:  []string{"mode: auto", "mode: inline", "    tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::3}\n", ""},
		aramis: []string{"{id: 123}", "{id: 123, remove: true}"},
		added:  "encap_inserted", removed: "inline_removed",
	}
	var all []transfer
	for _, t := range []transfer{encap, inline} {
		t.attach, t.size = tcModes()[0], large
		all = append(all, t)
		t.attach, t.size = "xdp", small
		all = append(all, t)
	}
	return all
}

// Every packet of a transfer with offloads on is traced; it arrives unchanged
// and without IOAM.
func TestTransfer(t *testing.T) {
	t.Parallel()
	for _, tt := range transfers() {
		t.Run(fmt.Sprintf("%s by %s", tt.mode, tt.attach), func(t *testing.T) {
			top := builtin(t, "line")
			reconfigure(t, top, "athos", append(tt.athos, "frequency: 1/10", "frequency: 1/1")...)
			reconfigure(t, top, "aramis", tt.aramis...)
			for _, node := range []string{"athos", "porthos", "aramis"} {
				reconfigure(t, top, node, ", role:", fmt.Sprintf(", attach: %s, role:", tt.attach))
			}
			l := raise(t, top)
			beta := startScan(t, l, "beta", "eth0")
			r, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindTCP, From: "alpha", To: "beta", Bytes: tt.size, Port: 9001})
			stats := beta.stop(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.2f Gbit/s; beta received %d packets, its capture missed %d", float64(r.Bytes)*8/r.Duration.Seconds()/1e9, beta.packets.Load(), stats.Dropped)
			if beta.packets.Load() == 0 || beta.ioamBytes.Load() > 0 {
				t.Errorf("beta received %d packets with %d bytes of IOAM", beta.packets.Load(), beta.ioamBytes.Load())
			}
			checkTransfer(t, l, tt)
		})
	}
}

// checkTransfer checks that every packet was traced.
func checkTransfer(t *testing.T, l *lab.Lab, tt transfer) {
	t.Helper()
	// porthos counts a packet at each of its hooks. The connection's last
	// packets may still be on their way.
	var added, filled, removed uint64
	for range 100 {
		added, filled, removed = counter(t, l, "athos", tt.added), counter(t, l, "porthos", "trace_filled"), counter(t, l, "aramis", tt.removed)
		if added > 0 && filled == 2*added && removed == added {
			break
		}
		time.Sleep(patience.Of(20 * time.Millisecond))
	}
	if added == 0 || filled != 2*added || removed != added {
		t.Errorf("athos added %d headers, porthos filled %d, aramis removed %d", added, filled, removed)
	}
	for _, skipped := range []string{"encap_not_selected", "encap_skipped_mtu", "encap_skipped_gso", "encap_skipped_headroom", "encap_skipped_hbh"} {
		if n := counter(t, l, "athos", skipped); n > 0 {
			t.Errorf("athos: %s %d, want 0: all are selected, and the inner links have room", skipped, n)
		}
	}
	for _, refused := range []string{"removal_partial", "decap_failed", "boundary_dropped"} {
		if n := counter(t, l, "aramis", refused); n > 0 {
			t.Errorf("aramis: %s %d, want 0", refused, n)
		}
	}
}

// Over links with no room to spare, GSO packets get smaller segments and plain
// ones go on without a trace; nothing is lost. tc at athos lets GSO packets in;
// XDP at porthos makes the kernel segment them before they leave athos.
func TestTransferWithoutRoom(t *testing.T) {
	t.Parallel()
	const mtu = 1500
	top := builtin(t, "line")
	for i := range top.Links {
		top.Links[i].MTU = mtu
	}
	reconfigure(t, top, "athos", "frequency: 1/10", "frequency: 1/1", ", role:", fmt.Sprintf(", attach: %s, role:", tcModes()[0]))
	reconfigure(t, top, "porthos", ", role:", ", attach: xdp, role:")
	l := raise(t, top)
	inside := startScan(t, l, "porthos", "eth0")
	if _, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindTCP, From: "alpha", To: "beta", Bytes: 64 << 20, Port: 9001}); err != nil {
		t.Fatal(err)
	}
	inside.stop(t)
	if inside.marked.Load() == 0 || inside.longest.Load() > mtu {
		t.Errorf("of %d packets, %d had a trace and the longest %d bytes; want some, and at most %d", inside.packets.Load(), inside.marked.Load(), inside.longest.Load(), mtu)
	}
	t.Logf("%d of %d segments had a trace; athos skipped %d packets for the MTU, %d for GSO", inside.marked.Load(), inside.packets.Load(),
		counter(t, l, "athos", "encap_skipped_mtu"), counter(t, l, "athos", "encap_skipped_gso"))
	before := counter(t, l, "athos", "encap_skipped_mtu")
	const count = 20
	r, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: count, Interval: time.Millisecond, Size: mtu - 48, Port: 9000})
	if err != nil || r.Lost() > 0 {
		t.Errorf("full-sized datagrams: %+v, %v", r, err)
	}
	if n := counter(t, l, "athos", "encap_skipped_mtu") - before; n != count {
		t.Errorf("encap_skipped_mtu rose by %d, want the %d datagrams", n, count)
	}
}

// The traces of several flows show both of two equal paths, each flow one.
func TestEqualPathsInTraces(t *testing.T) {
	t.Parallel()
	l := raise(t, builtin(t, "ecmp"))
	place, err := l.Node("aramis").Place()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	ways := make(chan [2]uint32, 1024) // destination port, node in the middle
	go func() {
		ended <- api.NewClient(place.Socket()).Observe(ctx, api.RecordFilter{}, func() { close(ready) }, func(line []byte) error {
			var r export.TraceRecord
			if err := json.Unmarshal(bytes.Clone(line), &r); err != nil {
				return err
			}
			if r.Kind == "trace" && r.Packet.DestinationPort != nil && len(r.Nodes) == 3 {
				ways <- [2]uint32{uint32(*r.Packet.DestinationPort), uint32(r.Nodes[1].NodeID.Value)}
			}
			return nil
		})
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	const flows, count = 16, 4
	for i := range flows {
		r, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: count, Size: 64, Port: uint16(9000 + i)})
		if err != nil || r.Lost() > 0 {
			t.Errorf("flow %d: %+v, %v", i, r, err)
		}
	}
	used, by := map[uint32]int{}, map[uint32]ioam.NodeID{}
	for range flows * count {
		select {
		case w := <-ways:
			used[w[1]]++
			if before, seen := by[w[0]]; seen && before != ioam.NodeID(w[1]) {
				t.Errorf("the flow to port %d went by nodes %d and %d", w[0], before, w[1])
			}
			by[w[0]] = ioam.NodeID(w[1])
		case <-time.After(patience.Of(5 * time.Second)):
			t.Fatalf("only %v packets were traced, want %d", used, flows*count)
		}
	}
	cancel()
	<-ended
	if used[2] == 0 || used[4] == 0 || used[2]+used[4] != flows*count {
		t.Errorf("packets by node are %v; want both 2 and 4, and no other", used)
	}
}
