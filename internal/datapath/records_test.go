// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/datapath/rings"
	"github.com/waymark-net/waymark/internal/patience"
)

// recording returns a function that runs a program which writes a record, and the
// program's rings.
func recording(t *testing.T) (packet func(), p *programs, list []*rings.Ring) {
	t.Helper()
	cfg := rightConfig()
	decapsulating(&cfg)
	p = loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP)
	list, err := rings.Open(p.maps[bpf.MapRecords], &p.site.cards)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rings.Close(list) })
	frame := tunnelled(rightPacket())
	return func() { run(t, p.xdp, frame, 0) }, p, list
}

// reading reads rings until the test ends, and returns when each record arrived.
func reading(t *testing.T, list []*rings.Ring, wish *rings.Demand) <-chan time.Time {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	came, ended := make(chan time.Time, 1<<16), make(chan error, 1)
	go func() {
		offset := func() time.Duration { return taiUTC }
		ended <- rings.Read(ctx, list, wish, offset, rings.Taker{Sample: func([]byte, time.Duration) { came <- time.Now() }})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience.Of(time.Second)):
			t.Error("the readers did not end")
		}
	})
	return came
}

func comes(came <-chan time.Time, within time.Duration) bool {
	select {
	case <-came:
		return true
	case <-time.After(within):
		return false
	}
}

// TestReadersRest checks that no ring is polled while records are not wanted,
// except for older ones, and that every record arrives soon while they are.
func TestReadersRest(t *testing.T) {
	packet, _, list := recording(t)
	const soon = 300 * time.Millisecond // readers look ten times a second
	wish := rings.NewDemand()
	packet()
	came := reading(t, list, wish)
	if !comes(came, patience.Of(soon)) {
		t.Error("what an earlier reader left was not read")
	}
	time.Sleep(soon)
	packet()
	if comes(came, soon) {
		t.Error("a ring was read although records are not wanted")
	}
	wish.Set(true)
	if !comes(came, patience.Of(soon)) {
		t.Error("records are wanted, and what was there was not read")
	}
	for range 3 {
		packet()
		if !comes(came, patience.Of(soon)) {
			t.Error("a record did not come soon")
		}
	}
	time.Sleep(time.Second + soon)
	packet()
	if !comes(came, patience.Of(soon)) {
		t.Error("a record after a pause did not come soon")
	}
	wish.Set(false)
	packet()
	if !comes(came, patience.Of(soon)) {
		t.Error("the last record was not read")
	}
}

// TestProgramsWakeReaders checks that a ring that fills up is read before the
// next poll.
func TestProgramsWakeReaders(t *testing.T) {
	packet, _, list := recording(t)
	came := reading(t, list, rings.NewDemand())
	time.Sleep(300 * time.Millisecond) // polling has stopped
	packet()
	if comes(came, 300*time.Millisecond) {
		t.Error("one record woke a reader")
	}
	for range 10_000 { // more than all rings hold, however much else the machine does
		packet()
	}
	if !comes(came, patience.Of(time.Second)) {
		t.Error("full rings did not wake a reader")
	}
}

// TestReaderEndsAtAFullRing ends a reader by its context while its ring has more
// than it reads in a round: it passes on nothing any more.
func TestReaderEndsAtAFullRing(t *testing.T) {
	packet, p, list := recording(t)
	for p.snapshotCounters(t)[bpf.ABICounterCOUNTER_RECORDS_LOST] == 0 {
		for range 500 {
			packet()
		}
	}
	for cpu, r := range list {
		if !r.Holds() {
			continue
		}
		const enough = 3
		ctx, cancel := context.WithCancel(t.Context())
		read, corrections := 0, 0
		err := r.Serve(ctx, func() time.Duration { corrections++; return taiUTC }, rings.Taker{Sample: func([]byte, time.Duration) {
			if read++; read == enough {
				cancel()
			}
		}})
		if err != nil || !errors.Is(ctx.Err(), context.Canceled) || read != enough || corrections != 1 {
			t.Errorf("CPU %d: %v, %d records in %d rounds; want the %d of before the end", cpu, err, read, corrections, enough)
		}
		if !r.Holds() {
			t.Errorf("CPU %d: the ring ran empty", cpu)
		}
	}
}

// While the agent is silent, the kernel is asked for each packet. Among several
// next hops, a packet with a Hop-by-Hop header gets the same one as before: the
// stack hashes only the Next Header of the IPv6 header.
func TestSilenceKeepsNextHops(t *testing.T) {
	enterRouter(t)
	onOneCPU(t)
	gateways := []net.IP{net.ParseIP("2001:db8:f::2"), net.ParseIP("2001:db8:f::3")}
	if err := netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: int(departureIndex), IP: gateways[1], HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 0x23}, State: netlink.NUD_PERMANENT,
	}); err != nil {
		t.Fatal(err)
	}
	_, prefix, err := net.ParseCIDR("2001:db8:2::/48")
	if err != nil {
		t.Fatal(err)
	}
	route := &netlink.Route{Dst: prefix}
	for _, gateway := range gateways {
		route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{LinkIndex: int(departureIndex), Gw: gateway})
	}
	if err := netlink.RouteAdd(route); err != nil {
		t.Fatal(err)
	}
	cfg := rightConfig()
	cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = arrivalIndex, departureIndex
	p := loadProgramsOn(t, cfg, arrivalIndex, fastArrival, fixedTime, hookIngressXDP, hookIngressTC)
	const flows = 64
	for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
		var before [flows]byte
		used := make(map[byte]int)
		for _, silent := range []time.Duration{0, time.Second} {
			p.routes(t, forward.Routing{Key: forward.RouteByFlow, MTU: forward.AnyMTU}, silent)
			for i := range before {
				frame := set(atTrace+1, 124)(rightPacket()) // with an unknown namespace, so it goes on unchanged
				copy(frame, arrivalAddress)
				copy(frame[atIPv6+24:], net.ParseIP("2001:db8:2::1"))
				frame[atIPv6+24+15] = byte(i)
				_, out := runOn(t, program, frame)
				if silent == 0 {
					before[i] = out[5]
					used[out[5]]++
				} else if out[5] != before[i] {
					t.Errorf("%v, flow %d: next hop %x, and %x while the agent is silent", program.Type(), i, before[i], out[5])
				}
			}
		}
		if used[0x22] == 0 || used[0x23] == 0 || len(used) != 2 {
			t.Errorf("%v: next hops %v, want both", program.Type(), used)
		}
	}
}
