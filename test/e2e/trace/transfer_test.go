// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// transfer traces every packet of a transfer with offloads enabled, which arrives unchanged and
// without IOAM.
func transfer(t *testing.T, l *lab.Lab, tt e2e.Transfer) {
	t.Helper()
	beta := e2e.StartScan(t, l, "beta", "eth0")
	r, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindTCP, From: "alpha", To: "beta", Bytes: tt.Size, Port: 9001})
	stats := beta.Stop(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf(
		"%.2f Gbit/s; beta received %d packets, its capture missed %d",
		float64(r.Bytes)*8/r.Duration.Seconds()/1e9,
		beta.Packets.Load(),
		stats.Dropped,
	)
	if beta.Packets.Load() == 0 || beta.IOAMBytes.Load() > 0 {
		t.Errorf("beta received %d packets with %d bytes of IOAM", beta.Packets.Load(), beta.IOAMBytes.Load())
	}
	e2e.CheckTransfer(t, l, tt)
}

// Where the domain's MTU has no room for the header, GSO packets get smaller
// segments and plain ones pass without a trace; nothing is lost. tc at athos
// receives GSO packets; XDP at porthos makes the kernel segment them before they
// leave athos.
func TestTransferWithoutRoom(t *testing.T) {
	t.Parallel()
	const mtu = 1500
	top := e2e.Builtin(t, "line")
	for i := range top.Links {
		top.Links[i].MTU = mtu
	}
	e2e.Reconfigure(t, top, "athos", "frequency: 1/10", "frequency: 1/1", ", role:", fmt.Sprintf(", attach: %s, role:", e2e.TCModes()[0]))
	e2e.Reconfigure(t, top, "porthos", ", role:", ", attach: xdp, role:")
	l := e2e.Raise(t, top)
	inside := e2e.StartScan(t, l, "porthos", "eth0")
	if _, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindTCP, From: "alpha", To: "beta", Bytes: 64 << 20, Port: 9001}); err != nil {
		t.Fatal(err)
	}
	inside.Stop(t)
	if inside.Marked.Load() == 0 || inside.Longest.Load() > mtu {
		t.Errorf(
			"of %d packets, %d had a trace and the longest %d bytes; want some, and at most %d",
			inside.Packets.Load(),
			inside.Marked.Load(),
			inside.Longest.Load(),
			mtu,
		)
	}
	t.Logf("%d of %d segments had a trace; athos skipped %d packets for the MTU, %d for GSO", inside.Marked.Load(), inside.Packets.Load(),
		e2e.Counter(t, l, "athos", "encap_skipped_mtu"), e2e.Counter(t, l, "athos", "encap_skipped_gso"))
	before := e2e.Counter(t, l, "athos", "encap_skipped_mtu")
	const count = 20
	r, err := l.Send(
		t.Context(),
		lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: count, Interval: time.Millisecond, Size: mtu - 48, Port: 9000},
	)
	if err != nil || r.Lost() > 0 {
		t.Errorf("full-sized datagrams: %+v, %v", r, err)
	}
	if n := e2e.Counter(t, l, "athos", "encap_skipped_mtu") - before; n != count {
		t.Errorf("encap_skipped_mtu rose by %d, want the %d datagrams", n, count)
	}
}

// The traces of several flows show both equal-cost paths; each flow keeps to one.
func TestEqualPathsInTraces(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "ecmp"))
	instance, err := l.Node("aramis").Instance()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	ways := make(chan [2]uint32, 1024) // destination port, node in the middle
	go func() {
		ended <- api.NewClient(instance.Socket()).Observe(ctx, api.RecordFilter{}, func() { close(ready) }, func(line []byte) error {
			parsed, err := record.Parse(line)
			if err != nil {
				return err
			}
			if r, ok := parsed.(*record.Trace); ok && r.Packet.DestinationPort != nil && len(r.Nodes) == 3 {
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
				t.Errorf("the flow to port %d used nodes %d and %d", w[0], before, w[1])
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
