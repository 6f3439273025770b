// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/testnet"
)

// fakePlane records what the watch reports.
type fakePlane struct {
	mu          sync.Mutex
	renewals    []renewal
	beats       int
	devices     []model.IfIndex
	neighbours  []datapath.Neighbour
	segments    []datapath.SegmentRoute
	fast        map[model.IfIndex]datapath.Entrance
	why         string // the last explanation
	broken      error
	devicesTold atomic.Int64
	devicesMu   sync.Mutex // a test that holds it keeps the watch busy
}

type renewal struct {
	at       time.Time
	key      datapath.RouteKey
	mtu      uint16
	segments bool
}

func (p *fakePlane) Renew(routing datapath.Routing) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewals = append(p.renewals, renewal{time.Now(), routing.Key, routing.MTU, routing.Segments})
	return p.broken
}

func (p *fakePlane) Beat() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beats++
	return p.broken
}

func (p *fakePlane) SetSegments(list []datapath.SegmentRoute) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.segments = list
	return p.broken
}

func (p *fakePlane) SetDevices(devices []model.IfIndex) error {
	p.devicesTold.Add(1)
	p.devicesMu.Lock()
	defer p.devicesMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices = devices
	return nil
}

func (p *fakePlane) Neighbours(time.Duration) ([]datapath.Neighbour, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.neighbours, nil
}

// Entrances are the interfaces that a test named, with the addresses that they
// had then.
func (p *fakePlane) Entrances() map[model.IfIndex]datapath.Entrance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fast
}

// forwardFast makes interfaces forward fast, with programs that know their
// present addresses.
func (p *fakePlane) forwardFast(t *testing.T, names ...string) {
	t.Helper()
	fast := map[model.IfIndex]datapath.Entrance{}
	for _, name := range names {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		fast[model.IfIndex(l.Attrs().Index)] = datapath.Entrance{Address: [6]byte(l.Attrs().HardwareAddr)}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fast = fast
}

// key is the last reported key, and the number of renewals.
func (p *fakePlane) key() (datapath.RouteKey, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.renewals) == 0 {
		return datapath.RouteByStack, 0
	}
	return p.renewals[len(p.renewals)-1].key, len(p.renewals)
}

func (p *fakePlane) explain(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = why
}

// enterNamespace moves the test's thread into its own network namespace, with a
// router's settings and one link.
func enterNamespace(t *testing.T) {
	t.Helper()
	testnet.Enter(t)
	testnet.Set(t, "ipv6/conf/all/forwarding", "1")
	testnet.Set(t, "ipv6/fib_multipath_hash_policy", "0")
	testnet.Run(t, "ip link set lo up")
	testnet.Run(t, "ip link add v0 type veth peer name v1")
	testnet.Run(t, "ip link set v0 up")
	testnet.Run(t, "ip link set v1 up")
	testnet.Run(t, "ip -6 addr add 2001:db8:1::1/64 dev v0 nodad")
}

// watch watches the test's namespace until the test ends, and expects no error.
func watch(t *testing.T, p *fakePlane) {
	t.Helper()
	here := testnet.Here(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- here.Do(func() error { return Watch(ctx, p, p.explain, slog.New(slog.DiscardHandler)) })
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience.Of(2 * time.Second)):
			t.Error("the watch did not end")
		}
	})
	await(t, "the first key", time.Second, func() bool { _, n := p.key(); return n > 0 })
}

func await(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience.Of(limit)); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

// quiet waits until there has been no renewal for a while.
func quiet(p *fakePlane) {
	for before, now := -1, 0; before != now; {
		time.Sleep(100 * time.Millisecond)
		before = now
		_, now = p.key()
	}
}

// Every change that may send packets elsewhere makes the plane forget. The watch
// hears of it within about a hundredth of a second, or within a second if no
// message reports it.
func TestWatch(t *testing.T) {
	enterNamespace(t)
	p := &fakePlane{}
	watch(t, p)
	quiet(p)
	const soon, later = 100 * time.Millisecond, 2500 * time.Millisecond
	for _, tt := range []struct {
		command string
		want    datapath.RouteKey
		within  time.Duration
	}{
		{"ip -6 route add 2001:db8:2::/64 via 2001:db8:1::2", datapath.RouteByDestination, soon},
		{"ip -6 route replace 2001:db8:2::/64 via 2001:db8:1::3", datapath.RouteByDestination, soon},
		{"ip -6 route del 2001:db8:2::/64", datapath.RouteByDestination, soon},
		{"ip -6 neigh add 2001:db8:1::2 lladdr 02:00:00:00:00:02 dev v0", datapath.RouteByDestination, soon},
		{"ip -6 neigh change 2001:db8:1::2 lladdr 02:00:00:00:00:03 dev v0", datapath.RouteByDestination, soon},
		{"ip -6 addr add 2001:db8:9::1/64 dev v0 nodad", datapath.RouteByDestination, soon},
		{"ip link set v0 mtu 1400", datapath.RouteByDestination, soon},
		{"ip link add v2 type veth peer name v3", datapath.RouteByDestination, soon},
		{"ip link set v1 down", datapath.RouteByDestination, soon},
		{"sysctl -qw net.ipv6.conf.v0.forwarding=0", datapath.RouteByDestination, soon},
		{"ip -6 rule add to 2001:db8:3::/64 lookup 100", datapath.RouteByDestination, soon},
		{"ip -6 rule add from 2001:db8:3::/64 lookup 100", datapath.RouteByFlow, soon},
		{"ip -6 rule add ipproto udp dport 53 lookup 100", datapath.RouteByPorts, soon},
		{"ip -6 rule add fwmark 1 lookup 100", datapath.RouteByStack, soon},
		{"ip -6 rule add to 2001:db8:4::/64 lookup 100", datapath.RouteByStack, soon},
		{"ip -6 rule del fwmark 1 lookup 100", datapath.RouteByPorts, later},
		{"ip xfrm policy add src 2001:db8:5::/64 dst 2001:db8:6::/64 dir out action block", datapath.RouteByStack, soon},
		{"ip xfrm policy deleteall; ip -6 rule del ipproto udp dport 53; ip -6 rule del from 2001:db8:3::/64", datapath.RouteByDestination, later},
		{"ip -6 route add 2001:db8:7::/64 nexthop via 2001:db8:1::2 nexthop via 2001:db8:1::3", datapath.RouteByFlow, soon},
		{"sysctl -qw net.ipv6.fib_multipath_hash_policy=1", datapath.RouteByStack, later},
		{"sysctl -qw net.ipv6.fib_multipath_hash_policy=0", datapath.RouteByFlow, later},
		{"sysctl -qw net.ipv6.conf.all.forwarding=0", datapath.RouteByStack, later},
		{"sysctl -qw net.ipv6.conf.all.forwarding=1", datapath.RouteByFlow, later},
		{"ip link del v2", datapath.RouteByFlow, soon}, // no packet that arrived there was forwarded
		{"ip -6 rule add iif v0 lookup 100", datapath.RouteByFlow, soon},
		{"sysctl -qw net.ipv6.conf.v0.disable_ipv6=1", datapath.RouteByFlow, soon}, // its address is removed
	} {
		_, before := p.key()
		testnet.Run(t, tt.command)
		await(t, tt.command, tt.within, func() bool { key, n := p.key(); return n > before && key == tt.want })
	}
}

// The watch's first report includes what it finds at its start.
func TestWatchBegins(t *testing.T) {
	for command, want := range map[string]datapath.RouteKey{
		"true": datapath.RouteByDestination,
		"ip -6 route add 2001:db8:7::/64 nexthop via 2001:db8:1::2 nexthop via 2001:db8:1::3": datapath.RouteByFlow,
		"ip -6 rule add sport 53 lookup 100":                                                  datapath.RouteByPorts,
		"ip -6 rule add fwmark 0x10 lookup 100":                                               datapath.RouteByStack,
		"ip -6 rule add not fwmark 0/0xff lookup 100":                                         datapath.RouteByStack,
		"ip -6 rule add lookup main suppress_prefixlength 0":                                  datapath.RouteByStack,
		"ip -6 rule add lookup main suppress_ifgroup 7":                                       datapath.RouteByStack,
		"ip xfrm policy setdefault out block":                                                 datapath.RouteByStack,
		"ip -6 nexthop add id 7 dev v0;ip nexthop add id 8 group 7 type resilient buckets 4":  datapath.RouteByStack,
		"ip xfrm policy add src 2001:db8:5::/64 dst 2001:db8:6::/64 dir fwd action block":     datapath.RouteByStack,
		"sysctl -qw net.ipv6.conf.all.forwarding=0":                                           datapath.RouteByStack,
	} {
		t.Run(command, func(t *testing.T) {
			enterNamespace(t)
			testnet.Run(t, command)
			seen := traits{entrances: (&fakePlane{}).Entrances}
			err := seen.read()
			if got, why := seen.routing(); err != nil || got.Key != want || (why != "") != (want == datapath.RouteByStack) {
				t.Errorf("key %d, %q, %v, want %d", got.Key, why, err, want)
			}
			if want == datapath.RouteByStack {
				return // the plane starts with it, without a report
			}
			p := &fakePlane{}
			watch(t, p)
			if p.mu.Lock(); p.renewals[0].key != want {
				t.Errorf("the first key is %d, want %d", p.renewals[0].key, want)
			}
			p.mu.Unlock()
		})
	}
}

// Masses of changes keep neither the plane from caching nor the watch from
// beating; the last one counts.
func TestWatchMasses(t *testing.T) {
	enterNamespace(t)
	p := &fakePlane{}
	watch(t, p)
	quiet(p)
	const count = 3000
	_, before := p.key()
	p.mu.Lock()
	beats := p.beats
	p.mu.Unlock()
	var batch strings.Builder
	for i := range count {
		verb := []string{"add", "del"}[i%2]
		batch.WriteString("route " + verb + " 2001:db8:2::/64 via 2001:db8:1::2\n")
	}
	cmd := exec.Command("ip", "-6", "-batch", "-")
	cmd.Stdin = strings.NewReader(batch.String())
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ended := time.Now()
	quiet(p)
	_, after := p.key()
	took := time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := after - before; n < 2 || n > int(took/renewPause)+2 {
		t.Errorf("%d changes in %v made the plane forget %d times, want every %v at most", count, took, n, renewPause)
	}
	// the last change came before the command ended
	if last := p.renewals[len(p.renewals)-1].at; last.Before(ended.Add(-100 * time.Millisecond)) {
		t.Errorf("the plane forgot last %v before the last change", ended.Sub(last))
	}
	// a renewal is a beat, too
	if n, least := p.beats-beats+after-before, int(took/beatPeriod)/2; n < least {
		t.Errorf("%d beats in %v, want at least %d", n, took, least)
	}
}

// The plane learns which devices can send when that changes.
func TestWatchDevices(t *testing.T) {
	if _, err := netlink.GenlFamilyGet(netdevFamily); err != nil {
		t.Skipf("the kernel does not report devices: %v", err)
	}
	enterNamespace(t)
	v0, err := netlink.LinkByName("v0")
	if err != nil {
		t.Fatal(err)
	}
	p := &fakePlane{}
	watch(t, p)
	has := func(want bool) func() bool {
		return func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return slices.Contains(p.devices, model.IfIndex(v0.Attrs().Index)) == want
		}
	}
	for range 10 {
		testnet.Run(t, "ethtool -K v1 gro on")
		await(t, "v0 can send", 100*time.Millisecond, has(true))
		testnet.Run(t, "ethtool -K v1 gro off")
		await(t, "v0 cannot send any more", 100*time.Millisecond, has(false))
	}
	for range 100 { // the bytes after the request in memory must not matter
		if got, err := SendingDevices(); err != nil || len(got) > 0 {
			t.Fatalf("devices that can send: %v, %v; want none", got, err)
		}
	}
}

// Neighbours in use that the kernel considers idle are used; all others stay
// unchanged.
func TestWatchNeighbours(t *testing.T) {
	enterNamespace(t)
	v0, err := netlink.LinkByName("v0")
	if err != nil {
		t.Fatal(err)
	}
	index := model.IfIndex(v0.Attrs().Index)
	p := &fakePlane{neighbours: []datapath.Neighbour{{Address: netip.MustParseAddr("2001:db8:1::99"), Interface: index}}} // unknown
	type entry struct{ state, flags int }
	want := map[string]entry{}
	for _, n := range []struct {
		address, words string
		used           bool
		want           entry
	}{
		{"2001:db8:1::2", "nud stale", true, entry{netlink.NUD_DELAY, 0}},
		{"2001:db8:1::3", "nud stale", false, entry{netlink.NUD_STALE, 0}},
		{"2001:db8:1::4", "nud permanent", true, entry{netlink.NUD_PERMANENT, 0}},
		{"2001:db8:1::5", "nud noarp", true, entry{netlink.NUD_NOARP, 0}},
		{"2001:db8:1::6", "nud reachable", true, entry{netlink.NUD_REACHABLE, 0}},
		{"2001:db8:1::7", "nud stale extern_learn", true, entry{netlink.NUD_DELAY, netlink.NTF_EXT_LEARNED}},
		{"2001:db8:1::8", "nud stale router", true, entry{netlink.NUD_DELAY, netlink.NTF_ROUTER}},
	} {
		testnet.Run(t, "ip -6 neigh add "+n.address+" lladdr 02:00:00:00:00:02 dev v0 "+n.words)
		want[n.address] = n.want
		if n.used {
			p.neighbours = append(p.neighbours, datapath.Neighbour{Address: netip.MustParseAddr(n.address), Interface: index})
		}
	}
	watch(t, p)
	differences := func() (list []string) {
		all, err := netlink.NeighList(int(index), unix.AF_INET6)
		if err != nil {
			t.Fatal(err)
		}
		left := maps.Clone(want)
		for _, n := range all {
			e, ok := left[n.IP.String()]
			if ok && (n.State != e.state || n.Flags != e.flags) {
				list = append(list, fmt.Sprintf("%s is in state %#x with flags %#x, want %#x, %#x", n.IP, n.State, n.Flags, e.state, e.flags))
			}
			if !ok && n.IP.IsGlobalUnicast() {
				list = append(list, fmt.Sprintf("the neighbour %s was created", n.IP))
			}
			delete(left, n.IP.String())
		}
		if len(left) > 0 {
			list = append(list, fmt.Sprintf("gone: %v", left))
		}
		return list
	}
	const delayed = 5 * time.Second // the kernel's delay_first_probe_time, after which the state is another
	for end := time.Now().Add(delayed - time.Second); len(differences()) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	if list := differences(); len(list) > 0 {
		t.Error(strings.Join(list, "\n"))
	}
}

// The watch beats in time, and ends when the plane fails.
func TestWatchBeats(t *testing.T) {
	enterNamespace(t)
	p := &fakePlane{}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(10*time.Second))
	defer cancel()
	began := time.Now()
	broken := errors.New("broken")
	time.AfterFunc(500*time.Millisecond, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.broken = broken
	})
	if err := Watch(ctx, p, p.explain, slog.New(slog.DiscardHandler)); !errors.Is(err, broken) {
		t.Errorf("the watch ended with %v, want what the plane said", err)
	}
	took := time.Since(began)
	if n := p.beats; n < int(took/beatPeriod)/2 || n > int(took/beatPeriod)+1 {
		t.Errorf("%d beats in %v, want one every %v", n, took, beatPeriod)
	}
}

// A watch that is handling a change or a look does not beat.
func TestWatchBeatsWhenDone(t *testing.T) {
	enterNamespace(t)
	p := &fakePlane{}
	watch(t, p)
	quiet(p)
	count := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.beats
	}
	p.devicesMu.Lock()
	release := sync.OnceFunc(p.devicesMu.Unlock)
	defer release()
	reported := p.devicesTold.Load()
	testnet.Run(t, "ip link set v0 mtu 1400")
	await(t, "the change", time.Second, func() bool { return p.devicesTold.Load() > reported })
	beats := count()
	time.Sleep(5 * beatPeriod)
	if n := count() - beats; n > 0 {
		t.Errorf("%d beats meanwhile", n)
	}
	release()
	await(t, "the next beat", time.Second, func() bool { return count() > beats })
}
