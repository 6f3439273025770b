// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/srv6"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// TestInterfacesChange takes the interface by which a flow arrives from the egress, gives it
// back, and renames it, while packets flow and none is lost: no block is measured that an
// interface was not counted in, with the reason and a warning, and those after it are.
func TestInterfacesChange(t *testing.T) {
	t.Parallel()
	l := raiseSRv6(t, string(e2e.TCModes()[0]))
	r, egress := observe(t, l), l.Node("egress")
	r.awaitExact(t, south)
	full := l.Topology().Node("egress").Agent.Config
	line := bytes.Index(full, []byte("{name: eth2"))
	end := line + bytes.IndexByte(full[line:], '}') + 1
	partly := slices.Concat(full[:line], []byte("{name: eth1}"), full[end:])
	reconfigure := func(text []byte) {
		t.Helper()
		if err := egress.Reconfigure(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	var traffic sync.WaitGroup
	began := time.Now()
	traffic.Go(func() { datagrams(t, l, 42_000, toSouth) })
	time.Sleep(2 * time.Second)
	reconfigure(partly)
	time.Sleep(3 * time.Second)
	warned(t, l, "egress", "eth2")
	reconfigure(full)
	time.Sleep(3500 * time.Millisecond) // a block with a guard on both sides, whenever it begins
	e2e.Must(t, egress, "ip", "link", "set", "eth2", "name", "eth9")
	time.Sleep(3 * time.Second)
	warned(t, l, "egress", "eth9")
	e2e.Must(t, egress, "ip", "link", "set", "eth9", "name", "eth2")
	traffic.Wait()
	r.awaitAfter(t, time.Now(), south)

	var reasons loss.Reasons
	var verdicts []loss.Verdict
	for _, each := range r.lossesOf(south) {
		if each.Start.Add(time.Second).Before(began) || each.Sent.Value == 0 {
			continue
		}
		reasons |= each.ToReasons
		verdicts = append(verdicts, each.Verdict)
		if each.Lost.Valid && each.Lost.Value > 0 || each.Verdict == loss.Uncertain && each.ToReasons&loss.Uncovered == 0 {
			t.Errorf(
				"block %d: %v, %d of %d lost, reasons %q at the ingress and %q at the egress; no packet was lost",
				each.Block.Value,
				each.Verdict,
				each.Lost.Value,
				each.Sent.Value,
				each.FromReasons,
				each.ToReasons,
			)
		}
	}
	if reasons&(loss.InterfacesChanged|loss.UnservedInterface) != loss.InterfacesChanged|loss.UnservedInterface {
		t.Errorf("reasons %v", reasons)
	}
	first, last := slices.Index(verdicts, loss.Uncertain), len(verdicts)-1
	for last > 0 && verdicts[last] != loss.Uncertain {
		last--
	}
	if first < 1 || last == len(verdicts)-1 || !slices.Contains(verdicts[first:last], loss.Measured) {
		t.Errorf("verdicts %v: none is measured before the changes, between them, or after them", verdicts)
	}
}

// warned checks that a node warns of flows that are not counted at an interface.
func warned(t *testing.T, l *lab.Lab, node, name string) {
	t.Helper()
	if ws := e2e.StatusOf(t, l, node).Warnings; !slices.ContainsFunc(
		ws,
		func(w health.Warning) bool { return w.Code == health.FlowsUncovered && w.Interface == name },
	) {
		t.Errorf("no warning about %s: %+v", name, ws)
	}
}

// TestOutsider loses one packet of ten before the egress, while a host on its access link
// sends as many with the flow's headers and the colour of the time, and others without a
// mark: the loss is that of the link in each block.
func TestOutsider(t *testing.T) {
	t.Parallel()
	top := e2e.Builtin(t, "srv6")
	e2e.Reconfigure(t, top, "egress", "- {name: eth2", "- {name: eth1}\n  - {name: eth2")
	l := e2e.Raise(t, top)
	r := observe(t, l)
	r.awaitExact(t, south)
	const every = 10
	if _, err := l.AddLoss("south", "eth1", linkloss.Rule{Burst: 1, Every: every, LastSID: ofFlows.LastSID}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		datagrams(t, l, 12_000, toSouth)
	}()
	forged := 0
	for to := hardwareOf(t, l, "egress", "eth1"); ; forged++ {
		select {
		case <-done:
		case <-time.After(5 * time.Millisecond):
			class := []uint8{0, 0x04, 0x0c}[forged%3]
			if forged%3 > 0 {
				class = []uint8{0x04, 0x0c}[time.Now().Unix()&1]
			}
			if err := l.Node("beta").Do(func() error { return e2e.Inject("eth0", to, [][]byte{forgedPacket(t, class)}) }); err != nil {
				t.Fatal(err)
			}
			continue
		}
		break
	}
	r.awaitAfter(t, time.Now(), south)
	sent, lost, blocks := r.sum(t, south, began) // all blocks are exact
	if injected := lossesByLink(t, l)["south eth1"][0]; sent != 12_000 || lost != injected.LostPackets || lost != sent/every {
		t.Errorf("%d sent, %d lost in %d blocks; the link lost %d, and %d packets were forged", sent, lost, blocks, injected.LostPackets, forged)
	}
	if forged < 100 {
		t.Errorf("only %d packets were forged", forged)
	}
}

// forgedPacket is one with the headers of the flow south, as its last router would get it.
func forgedPacket(t *testing.T, class uint8) []byte {
	const last = "fc00:3::d6"
	header, err := srv6.SRH{NextHeader: 41, Segments: []netip.Addr{netip.MustParseAddr(last), netip.MustParseAddr("fc00:21::e")}}.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	inner := craft.Between("2001:db8:22::2", "2001:db8:1::2", craft.UDP).With(craft.Datagram(9, 9, 0, 0))
	outer := craft.Between("2001:db8:ff::1", last, srv6.NextHeaderRouting)
	outer.Class = class
	return outer.With(header, inner)
}

// hardwareOf is the link-layer address of a node's interface.
func hardwareOf(t *testing.T, l *lab.Lab, node, name string) (address net.HardwareAddr) {
	t.Helper()
	err := l.Node(node).Do(func() error {
		device, err := net.InterfaceByName(name)
		if err == nil {
			address = device.HardwareAddr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return address
}
