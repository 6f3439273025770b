// SPDX-License-Identifier: Apache-2.0

package kernelevents

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/testnet"
)

// inNamespace puts the test into a network namespace whose loopback interface
// receives the kernel's IOAM in namespace 123.
func inNamespace(t *testing.T) {
	t.Helper()
	testnet.Enter(t)
	if _, _, err := find(); errors.Is(err, ErrFamily) || errors.Is(err, ErrGroup) {
		t.Skip(err)
	}
	testnet.SetUp(t, "lo")
	for name, value := range map[string]string{"ioam6_id": "2", "conf/lo/ioam6_enabled": "1", "conf/lo/ioam6_id": "201"} {
		testnet.Set(t, "ipv6/"+name, value)
	}
	testnet.Run(t, "ip ioam namespace add 123")
}

// flood sends n packets to this node itself, each with a trace for one node and
// its number in the trace's second field.
func flood(t *testing.T, n int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	one := netip.IPv6Loopback().As16()
	// PadN; a trace in namespace 123, type 0x840000 (node, namespace data), 16
	// bytes of which 8 are filled.
	header := craft.Options(
		craft.NoNext,
		2,
		append([]byte{0x31, 26, 0, 0, 0, 123, 0x10, 2, 0x84, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0x40, 0, 0, 1, 0, 0, 0, 0),
	)
	p := craft.Between("::1", "::1", craft.HopByHop).With(header)
	for i := range n {
		binary.BigEndian.PutUint32(p[len(p)-4:], uint32(i))
		if err := unix.Sendto(fd, p, 0, &unix.SockaddrInet6{Addr: one}); err != nil {
			t.Fatal(err)
		}
	}
}

// watch starts Watch in the test's namespace.
func watch(t *testing.T, buffer int, count *Counters, heard func(ioam.Trace)) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	here := testnet.Here(t)
	listening, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- here.Do(func() error {
			return Watch(ctx, buffer, count, func() { close(listening) }, heard)
		})
	}()
	select {
	case <-listening:
	case err := <-ended:
		t.Fatal(err)
	}
	return func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience.Of(5 * time.Second)):
			t.Fatal("the watch does not end with its context")
		}
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience.Of(5 * time.Second)); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// TestWatch hears each packet once, in order, with its trace as the kernel filled
// it.
func TestWatch(t *testing.T) {
	inNamespace(t)
	const count = 100
	var c Counters
	got := make(chan ioam.Trace, count+1)
	end := watch(t, DefaultBuffer, &c, func(trace ioam.Trace) { got <- trace })
	flood(t, count)
	for i := range count {
		select {
		case trace := <-got:
			want := fmt.Sprintf("3f000002ffffffff40000001%08x", i)
			if hex.EncodeToString(trace.Data) != want || trace.Namespace != 123 || trace.Type != 0x840000 || trace.NodeLen != 2 {
				t.Fatalf("event %d: %+v, want data %s", i, trace, want)
			}
		case <-time.After(patience.Of(5 * time.Second)):
			t.Fatalf("%d of %d events were heard", i, count)
		}
	}
	end()
	flood(t, count) // no one listens
	if len(got) > 0 || c.Received() != count || c.Malformed() != 0 || c.Lost() != 0 {
		t.Errorf("received %d, malformed %d, lost %d; want %d and none", c.Received(), c.Malformed(), c.Lost(), count)
	}
}

// TestOverrun fills a small buffer while no one reads: every event is heard or
// counted as lost, also those of an earlier watch.
func TestOverrun(t *testing.T) {
	inNamespace(t)
	const count = 5000
	var c Counters
	for round := range uint64(2) {
		var heard atomic.Uint64
		hold := make(chan struct{})
		end := watch(t, 4096, &c, func(ioam.Trace) {
			<-hold
			heard.Add(1)
		})
		before := c.Lost()
		flood(t, count)
		lost := c.Lost() - before
		close(hold)
		if lost == 0 || lost >= count {
			t.Errorf("%d of %d events were lost, want some", lost, count)
		}
		eventually(t, "what was not lost is not heard", func() bool { return heard.Load()+lost >= count })
		flood(t, 1) // the watch continues
		eventually(t, "nothing is heard after an overrun", func() bool { return heard.Load()+lost > count })
		end()
		if total := c.Received() + c.Lost(); total != (round+1)*(count+1) {
			t.Errorf("received %d, lost %d; want %d together", c.Received(), c.Lost(), (round+1)*(count+1))
		}
	}
}

// subscriber is the address of the only generic netlink socket in this network
// namespace that has joined a group.
func subscriber(t *testing.T) uint32 {
	t.Helper()
	b, err := os.ReadFile("/proc/thread-self/net/netlink")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) { // sk, protocol, address, groups, …
		f := strings.Fields(line)
		if f[1] != strconv.Itoa(unix.NETLINK_GENERIC) || f[3] == "00000000" {
			continue
		}
		port, err := strconv.ParseUint(f[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(port)
	}
	t.Fatalf("no socket is in a group:\n%s", b)
	return 0
}

// TestForeign sends to the socket, as any process may.
func TestForeign(t *testing.T) {
	inNamespace(t)
	var c Counters
	var heard atomic.Uint64
	end := watch(t, DefaultBuffer, &c, func(ioam.Trace) { heard.Add(1) })
	port := subscriber(t)
	family, _, err := find()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_GENERIC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: port}
	content := event(1, attribute(attributeNamespace, native16(123)...), attribute(attributeNodeLen, 1),
		attribute(attributeType, native32(0x80000000)...), attribute(attributeData, 0x3f, 0, 0, 2))
	if err := unix.Sendto(fd, message(family, content), 0, to); err != nil {
		t.Fatal(err)
	}
	flood(t, 1) // is read after the foreign message
	eventually(t, "the kernel's event is not heard", func() bool { return heard.Load() > 0 })
	end()
	if heard.Load() != 1 || c.Received() != 1 {
		t.Errorf("%d events were heard, %d counted; want the kernel's alone", heard.Load(), c.Received())
	}
}

// TestUnprivileged checks that the error names the cause when the process may not
// subscribe.
func TestUnprivileged(t *testing.T) {
	inNamespace(t)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		t.Fatal(err)
	}
	data[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	if err := unix.Capset(&header, &data[0]); err != nil { // of this thread alone
		t.Fatal(err)
	}
	var c Counters
	err := Watch(t.Context(), DefaultBuffer, &c, func() { t.Error("Watch listens") }, nil)
	if !errors.Is(err, ErrRight) {
		t.Errorf("error %v, want %v", err, ErrRight)
	}
}
