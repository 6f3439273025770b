// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/kmsgtest"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/testnet"
)

func TestMain(m *testing.M) { os.Exit(kmsgtest.Run(m)) }

// The programs put a time into the bucket that OTLP says, at every bound and next to it.
func TestBuckets(t *testing.T) {
	testnet.NeedRoot(t)
	var objects bpf.QueueTestObjects
	if err := bpf.LoadQueueTestObjects(&objects, nil); err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	last := uint32(len(bpf.QueueQueueWaits{}.Buckets) - 1)
	check := func(ns uint64) {
		t.Helper()
		got, err := objects.BucketOfWait.Run(&ebpf.RunOptions{Data: slices.Concat(binary.NativeEndian.AppendUint64(nil, ns), make([]byte, 6))})
		if err != nil {
			t.Fatal(err)
		}
		// A unit, and one of 2^30, may be cut off or added.
		units := new(big.Int).Rsh(new(big.Int).Div(new(big.Int).Lsh(new(big.Int).SetUint64(ns), 60), big.NewInt(1e9)), 30).Uint64()
		more := units>>30 + 1
		if most, least := bucketOf(units+more), bucketOf(units-min(units, more)); got > min(most, last) || got < min(least, last) {
			t.Errorf("%d ns: bucket %d, want %d to %d", ns, got, least, most)
		}
	}
	for _, ns := range []uint64{0, 1, 2, 3, math.MaxUint64, 1 << 63, 1<<33 - 1, 1 << 33} {
		check(ns)
	}
	for index := range int(last) + 20 {
		bound := uint64(exponential.Upper(index-below, exponential.DelayScale) * 1e9)
		check(bound)
		check(bound + 1)
		check(bound - min(bound, 1))
	}
	for range 2000 {
		check(rand.Uint64() >> rand.IntN(64))
	}
}

// bucketOf is the programs' number of the bucket of units of 2^-30 s.
func bucketOf(units uint64) uint32 {
	if units == 0 {
		return 0
	}
	return uint32(exponential.IndexOf(float64(units)/(1<<30), exponential.DelayScale) + below)
}

// leastTraced is the share of packets that must be timed. Some machines run no tracing program while one of
// their own processes is interrupted.
const leastTraced = 0.7

// router is a namespace that forwards from a source's to a sink's.
type router struct {
	source, sink *testnet.Namespace
	out          model.IfIndex
	meter        *Meter
}

func newRouter(t *testing.T) *router {
	t.Helper()
	testnet.Enter(t)
	r := &router{source: testnet.New(t), sink: testnet.New(t)}
	testnet.Set(t, "ipv6/conf/all/forwarding", "1")
	testnet.Set(t, "ipv6/conf/default/accept_dad", "0")
	for _, n := range []*testnet.Namespace{r.source, r.sink} {
		if err := n.Do(func() error { testnet.Set(t, "ipv6/conf/default/accept_dad", "0"); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, side := range []struct {
		name, address string
		to            *testnet.Namespace
	}{{"in0", "2001:db8:1::1/64", r.source}, {"out0", "2001:db8:2::1/64", r.sink}} {
		testnet.AddVeth(t, side.name, "peer", 1500)
		moveTo(t, "peer", side.to)
		testnet.SetUp(t, side.name, side.address)
	}
	for to, address := range map[*testnet.Namespace]string{r.source: "2001:db8:1::2/64", r.sink: "2001:db8:2::2/64"} {
		if err := to.Do(func() error {
			testnet.SetUp(t, "lo")
			testnet.SetUp(t, "peer", address)
			testnet.Run(t, "ip -6 route add default via "+address[:len(address)-4]+"1")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := netlink.LinkByName("out0")
	if err != nil {
		t.Fatal(err)
	}
	r.out = model.IfIndex(out.Attrs().Index)
	if r.meter, err = Open(cookie(t), []model.IfIndex{r.out}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.meter.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// moveTo moves a link of the caller's namespace into another.
func moveTo(t *testing.T, name string, to *testnet.Namespace) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int)
	leave := make(chan struct{})
	go func() {
		_ = to.Do(func() error { done <- unix.Gettid(); <-leave; return nil })
	}()
	err = netlink.LinkSetNsPid(l, <-done)
	close(leave)
	if err != nil {
		t.Fatal(err)
	}
}

// cookie is that of the caller's network namespace.
func cookie(t *testing.T) uint64 {
	t.Helper()
	s, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	number, err := unix.GetsockoptUint64(s, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// waits are how long datagrams were on their way from the source to the sink.
func (r *router) waits(t *testing.T, count, size int) (list []int64) {
	t.Helper()
	var conn *net.UDPConn
	err := r.sink.Do(func() (err error) {
		conn, err = net.ListenUDP("udp6", &net.UDPAddr{IP: net.ParseIP("2001:db8:2::2"), Port: 9000})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := stampArrivals(conn); err != nil {
		t.Fatal(err)
	}
	if err := r.source.Do(func() error {
		to, err := net.Dial("udp6", "[2001:db8:2::2]:9000")
		if err != nil {
			return err
		}
		defer to.Close()
		datagram := make([]byte, size)
		for range count {
			binary.BigEndian.PutUint64(datagram, uint64(time.Now().UnixNano()))
			if _, err := to.Write(datagram); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	buffer, control := make([]byte, size), make([]byte, 64)
	for range count {
		if err := conn.SetReadDeadline(time.Now().Add(patience.Of(2 * time.Second))); err != nil {
			t.Fatal(err)
		}
		_, n, _, _, err := conn.ReadMsgUDP(buffer, control)
		if err != nil {
			t.Fatalf("after %d datagrams: %v", len(list), err)
		}
		arrived, err := arrival(control[:n])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, arrived-int64(binary.BigEndian.Uint64(buffer)))
	}
	slices.Sort(list)
	return list
}

// stampArrivals asks the kernel when datagrams arrive: a reader may be late.
func stampArrivals(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) }); e != nil {
		return e
	}
	return err
}

// arrival is when a datagram arrived, in nanoseconds of the wall clock.
func arrival(control []byte) (int64, error) {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(list) != 1 || len(list[0].Data) < 16 {
		return 0, fmt.Errorf("%d control messages: %w", len(list), err)
	}
	return int64(binary.NativeEndian.Uint64(list[0].Data))*1e9 + int64(binary.NativeEndian.Uint64(list[0].Data[8:])), nil
}

func (r *router) read(t *testing.T) Waits {
	t.Helper()
	all, err := r.meter.Read()
	if err != nil {
		t.Fatal(err)
	}
	return all[r.out]
}

// Packets that leave a slow link one by one are counted with the times that they waited.
func TestSlowQueue(t *testing.T) {
	r := newRouter(t)
	testnet.Run(t, "tc qdisc replace dev out0 root tbf rate 8mbit burst 3000 limit 1000000")
	testnet.Run(t, "tc qdisc replace dev out0 root tbf rate 8mbit burst 3000 limit 1000000")
	_ = r.waits(t, 1, 1000) // the neighbours know each other
	before := r.read(t)
	const count = 100
	exact := r.waits(t, count, 1000)
	w := r.read(t)
	for i, b := range before.Buckets { // nothing but the first datagram and neighbour discovery
		w.Buckets = slices.Clone(w.Buckets)
		k := slices.IndexFunc(w.Buckets, func(one exponential.Bucket) bool { return one.Index == b.Index })
		w.Buckets[k].Count -= before.Buckets[i].Count
	}
	w.Packets -= before.Packets
	if float64(w.Packets) < count*leastTraced || w.Packets > count+4 {
		t.Fatalf("%d packets were timed: %+v", w.Packets, w)
	}
	for _, q := range []float64{0.5, 0.9, 0.99} {
		at, missing := int(math.Ceil(q*count))-1, count-int(min(w.Packets, count))
		least, most := float64(exact[max(at-missing, 0)]), float64(exact[min(at+missing, count-1)])
		if got := float64(w.Quantile(q)); got < 0.97*least-1e6 || got > 1.03*most+1e6 {
			t.Errorf("quantile %v is %v, want %v to %v", q, time.Duration(got), time.Duration(least), time.Duration(most))
		}
	}
	if mean := float64(w.Total-before.Total) / float64(w.Packets); mean < 1e6 {
		t.Errorf("the mean is %v", time.Duration(mean))
	}
}

// A packet of many segments counts as many, with another queue too. The time in a packet does not keep it
// back in a queue that reads it.
func TestSegments(t *testing.T) {
	r := newRouter(t)
	if exec.Command("tc", "qdisc", "replace", "dev", "out0", "root", "fq").Run() != nil { // not in every kernel
		testnet.Run(t, "tc qdisc replace dev out0 root pfifo limit 1000")
	}
	_ = r.waits(t, 1, 1000)
	before := r.read(t)
	waits := r.waits(t, 60, 1000)
	if middle := time.Duration(waits[len(waits)/2]); middle > patience.Of(20*time.Millisecond) {
		t.Errorf("datagrams need %v", middle)
	}
	between := r.read(t)
	if n := between.Packets - before.Packets; float64(n) < 60*leastTraced || n > 64 {
		t.Errorf("%d packets were timed", n)
	}
	for try := 1; r.read(t).Packets < between.Packets+10; try++ {
		if try == 10 {
			t.Fatal("no packet of 10 segments was timed")
		}
		if err := r.source.Do(sendSegments); err != nil {
			t.Fatal(err)
		}
		time.Sleep(patience.Of(20 * time.Millisecond))
	}
	if n := (r.read(t).Packets - between.Packets) % 10; n > 4 {
		t.Errorf("of 10 segments, %d were timed", n)
	}
}

// sendSegments sends 10 datagrams as one packet.
func sendSegments() error {
	to, err := net.Dial("udp6", "[2001:db8:2::2]:9000")
	if err != nil {
		return err
	}
	defer to.Close()
	raw, err := to.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, 500) }); e != nil || err != nil {
		return errors.Join(e, err)
	}
	_, err = to.Write(make([]byte, 5000))
	return err
}

// A packet that two devices time, a bridge and its slow port, is once at each: the wait is that of the device that
// has the queue, and is not in the other's.
func TestTwoDevices(t *testing.T) {
	r := newRouter(t)
	testnet.Run(t, "ip link add br0 type bridge")
	testnet.Run(t, "ip -6 address del 2001:db8:2::1/64 dev out0")
	testnet.Run(t, "ip link set out0 master br0")
	testnet.SetUp(t, "br0", "2001:db8:2::1/64")
	upper, err := netlink.LinkByName("br0")
	if err != nil {
		t.Fatal(err)
	}
	bridge := model.IfIndex(upper.Attrs().Index)
	if err := r.meter.Close(); err != nil {
		t.Fatal(err)
	}
	if r.meter, err = Open(cookie(t), []model.IfIndex{r.out, bridge}); err != nil {
		t.Fatal(err)
	}
	_ = r.waits(t, 1, 1000) // the neighbours know each other
	testnet.Run(t, "tc qdisc replace dev out0 root tbf rate 8mbit burst 3000 limit 1000000")
	testnet.Run(t, "tc qdisc replace dev out0 root tbf rate 8mbit burst 3000 limit 1000000")
	_ = r.waits(t, 1, 1000)
	before, err := r.meter.Read()
	if err != nil {
		t.Fatal(err)
	}
	const count = 60
	_ = r.waits(t, count, 1000)
	after, err := r.meter.Read()
	if err != nil {
		t.Fatal(err)
	}
	since := func(i model.IfIndex) Waits {
		return Waits{Packets: after[i].Packets - before[i].Packets, Total: after[i].Total - before[i].Total}
	}
	below, above := since(r.out), since(bridge)
	for _, w := range []Waits{below, above} {
		if float64(w.Packets) < count*leastTraced || w.Packets > count+6 { // and neighbour discovery
			t.Fatalf("of %d packets, %d are timed at the bridge, %d at its port", count, above.Packets, below.Packets)
		}
	}
	if mean := below.Total / below.Packets; mean < 5e6 {
		t.Errorf("at the port, packets waited %v", time.Duration(mean))
	}
	if above.Total > below.Total/10 {
		t.Errorf("the bridge has %v of the wait of %v at its port", time.Duration(above.Total), time.Duration(below.Total))
	}
}

// Packets whose sender paces them are left alone, and counted as such; a device that goes and comes is
// measured again.
func TestPacedAndGone(t *testing.T) {
	r := newRouter(t)
	before := r.read(t)
	var listener net.Listener
	if err := r.sink.Do(func() (err error) { listener, err = net.Listen("tcp6", "[2001:db8:2::2]:9001"); return err }); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for try := 1; r.read(t).Untimed == before.Untimed; try++ {
		if try == 10 {
			t.Fatal("no packet of TCP is untimed")
		}
		conn, err := net.Dial("tcp6", "[2001:db8:2::2]:9001")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	if err := r.meter.Follow(nil); err != nil || len(r.meter.Devices()) != 0 {
		t.Errorf("%v, %v", r.meter.Devices(), err)
	}
	testnet.Run(t, "ip link del out0")
	if err := r.meter.Follow([]model.IfIndex{r.out}); err == nil {
		t.Error("a device that has gone is timed")
	}
	in, err := netlink.LinkByName("in0")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.meter.Follow([]model.IfIndex{model.IfIndex(in.Attrs().Index)}); err != nil {
		t.Error(err)
	}
	testnet.Run(t, "ip link del in0")
	if err := r.meter.Follow(nil); err != nil || len(r.meter.begins) != 0 {
		t.Errorf("after a device has gone: %v", err)
	}
}
