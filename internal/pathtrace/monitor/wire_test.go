// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/pathtrace/endpoint"
	"github.com/waymark-net/waymark/test/testnet"
)

// BenchmarkWire is the CPU time of the thread that probes 100 destinations in 16 flows ten times a
// second over a pair of virtual interfaces, as a share of one CPU. It includes what the kernel does
// in the other network namespace until a probe is in the socket there, which veth does on the
// sender's CPU. An iteration is an interval.
//
//	go test -run xxx -bench Wire -benchtime 100x ./internal/pathtrace/monitor
func BenchmarkWire(b *testing.B) {
	const count, flows, interval = 100, 16, 100 * time.Millisecond
	testnet.NeedRoot(b)
	here, there := testnet.New(b), testnet.New(b)
	list := raisePair(b, here, there, count)
	e := endpoint.New(
		endpoint.Config{Local: netip.MustParseAddrPort("[::]:33434"), Allowed: []netip.Prefix{netip.MustParsePrefix("::/0")}, Rate: 1_000_000},
	)
	if err := there.Do(e.Open); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	answering := make(chan error, 1)
	go func() { answering <- e.Run(ctx) }()
	m, err := New(Config{
		Destinations: list, Port: 33434, Namespace: 123, Flows: flows, Interval: interval, Timeout: time.Second, Rate: 20_000, SearchRate: 1600,
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	var used [2]time.Duration
	took := time.Duration(b.N) * interval
	if err := here.Do(func() error { // in a thread of its own, which does all the work
		until, end := context.WithTimeout(ctx, took)
		defer end()
		err := m.Run(until, func() {})
		used = threadTime()
		return err
	}); err != nil {
		b.Fatal(err)
	}
	cancel()
	if err := <-answering; err != nil {
		b.Fatal(err)
	}
	c, lost := m.Counts(), uint64(0)
	for _, s := range m.States() {
		lost += s.Unanswered
	}
	for i, unit := range []string{"%user", "%system"} {
		b.ReportMetric(100*used[i].Seconds()/took.Seconds(), unit)
	}
	b.ReportMetric(float64(c.Sent)/took.Seconds(), "probes/s")
	b.ReportMetric(float64(c.Suppressed+c.Skipped+lost), "missed")
	b.ReportMetric(0, "ns/op")
}

// threadTime is the CPU time of this thread, in user space and in the kernel.
func threadTime() (t [2]time.Duration) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err == nil {
		t = [2]time.Duration{time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())}
	}
	return t
}

// raisePair joins two namespaces; the second one has so many addresses to be probed.
func raisePair(b *testing.B, here, there *testnet.Namespace, count int) (list []Destination) {
	b.Helper()
	var addresses []string
	for i := range count {
		a := fmt.Sprintf("2001:db8:1::%x", i+1)
		addresses = append(addresses, a+"/128")
		list = append(list, Destination{Address: netip.MustParseAddr(a)})
	}
	var peer netns.NsHandle
	steps := []struct {
		in *testnet.Namespace
		do func() error
	}{
		{there, func() (err error) { peer, err = netns.Get(); return err }},
		{here, func() error {
			link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "here", MTU: 1500}, PeerName: "there", PeerNamespace: netlink.NsFd(peer)}
			if err := netlink.LinkAdd(link); err != nil {
				return err
			}
			testnet.SetUp(b, "here", "2001:db8::1/64")
			testnet.Run(b, "ip -6 route add 2001:db8:1::/64 via 2001:db8::2")
			return nil
		}},
		{there, func() error {
			testnet.SetUp(b, "lo", addresses...)
			testnet.SetUp(b, "there", "2001:db8::2/64")
			return nil
		}},
	}
	for _, step := range steps {
		if err := step.in.Do(step.do); err != nil {
			b.Fatal(err)
		}
	}
	peer.Close()
	return list
}
