// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/test/testnet"
)

// describe is a behaviour in words.
func describe(b datapath.Behaviour) string {
	switch b.Kind {
	case datapath.BehaviourEnd:
		return strings.TrimSpace(fmt.Sprintf("End %v %d/%d", b.NextHop, b.BlockBits, b.SIDBits))
	case datapath.BehaviourDecapsulate:
		return fmt.Sprintf("DT6 %d", b.Table)
	case datapath.BehaviourEncapsulate:
		return fmt.Sprintf("encaps %v %s", b.KeepsLabel, hex.EncodeToString([]byte(b.Header)))
	}
	return b.Reason.String()
}

// sids is some segments, separated by commas.
func sids(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("fc00::%x", i+1)
	}
	return strings.Join(list, ",")
}

const (
	sourceHex  = "20010db800ff00000000000000000001"
	sid1, sid2 = "fc000000000000000000000000000001", "fc000000000000000000000000000002"
)

// The kernel's routes give the behaviours that programs carry out; of any others, the
// stack's.
func TestSegments(t *testing.T) {
	enterNamespace(t)
	testnet.Run(t, "ip sr tunsrc set 2001:db8:ff::1")
	local := "encap seg6local action "
	for _, tt := range []struct{ route, want string }{
		{local + "End dev v0", "End invalid IP 0/0"},
		{local + "End.X nh6 2001:db8:1::2 dev v0", "End 2001:db8:1::2 0/0"},
		{local + "End flavors next-csid lblen 32 nflen 16 dev v0", "End invalid IP 32/16"},
		{local + "End flavors next-csid dev v0", "End invalid IP 32/16"},
		{local + "End.DT6 table 254 dev v0", "DT6 254"},
		{local + "End.DT6 table 77 dev v0", "DT6 77"},
		{"encap seg6 mode encap segs fc00::1,fc00::2 dev v0", "encaps true 6000000000002b00" + sourceHex + sid1 + "2904040101000000" + sid2 + sid1},
		{"encap seg6 mode encap segs fc00::1 dev v0", "encaps true 6000000000002b00" + sourceHex + sid1 + "2902040000000000" + sid1},
		{"encap seg6 mode encap.red segs fc00::1,fc00::2 dev v0", "encaps true 6000000000002b00" + sourceHex + sid1 + "2902040100000000" + sid2},
		{"encap seg6 mode encap.red segs fc00::1 dev v0", "encaps true 6000000000002900" + sourceHex + sid1},
		{"encap seg6 mode encap segs " + sids(11) + " dev v0", "segment_behaviour"},
		{"encap seg6 mode inline segs fc00::1 dev v0", "segment_behaviour"},
		{"encap seg6 mode l2encap segs fc00::1 dev v0", "segment_behaviour"},
		{"encap seg6 mode encap segs fe80::1 dev v0", "segment_behaviour"},
		{"encap seg6 mode encap segs fc00::1,fc00::2 hmac 7 dev v0", "segment_hmac"},
		{"encap ip6 id 1 dst 2001:db8:9::1 dev v0", "encap"},
		{local + "End flavors psp dev v0", "segment_flavour"},
		{local + "End flavors psp,next-csid lblen 32 nflen 16 dev v0", "segment_flavour"},
		{local + "End.X nh6 fe80::2 dev v0", "segment_behaviour"},
		{local + "End count dev v0", "segment_behaviour"},
		{local + "End.T table 77 dev v0", "segment_behaviour"},
		{local + "End.DX6 nh6 2001:db8:1::2 dev v0", "segment_behaviour"},
		{local + "End.B6.Encaps srh segs fc00::1 dev v0", "segment_behaviour"},
		{"expires 600 " + local + "End dev v0", "segment_ambiguous"},
		{"from 2001:db8:5::/64 " + local + "End dev v0", "segment_ambiguous"},
		{"nexthop encap seg6local action End via 2001:db8:1::2 dev v0 nexthop via 2001:db8:1::3 dev v0", "segment_ambiguous"},
	} {
		testnet.Run(t, "ip -6 route add fc01::/48 "+tt.route)
		list, err := Segments()
		if err != nil || len(list) != 1 || list[0].Prefix != netip.MustParsePrefix("fc01::/48") {
			t.Errorf("%s: %v, %v", tt.route, list, err)
		} else if got := describe(list[0].Behaviour); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.route, got, tt.want)
		}
		of := ""
		if strings.HasPrefix(tt.route, "from") {
			of = " from 2001:db8:5::/64"
		}
		testnet.Run(t, "ip -6 route del fc01::/48"+of)
	}
}

// Settings and further routes may leave a behaviour, or all, to the stack.
func TestSegmentsBesides(t *testing.T) {
	enterNamespace(t)
	testnet.Run(t, "ip sr tunsrc set 2001:db8:ff::1")
	testnet.Run(t, "ip -6 route add fc01::1 encap seg6local action End dev v0")
	testnet.Run(t, "ip -6 route add fc01::2 encap seg6local action End.X nh6 2001:db8:1::2 dev v0")
	testnet.Run(t, "ip -6 route add fc01::3 encap seg6 mode encap.red segs fc00::1 dev v0")
	for _, tt := range []struct{ do, undo, want string }{
		{"", "", "End, End, encaps"},
		{"ip sr tunsrc set ::", "ip sr tunsrc set 2001:db8:ff::1", "End, End, segment_setting"},
		{"sysctl -qw net.ipv6.seg6_flowlabel=1", "sysctl -qw net.ipv6.seg6_flowlabel=0", "End, End, segment_setting"},
		{"sysctl -qw net.ipv6.seg6_flowlabel=-1", "sysctl -qw net.ipv6.seg6_flowlabel=0", "End, End, encaps"},
		{"ip -6 route add 2001:db8:9::/64 nexthop via 2001:db8:1::2 nexthop via 2001:db8:1::3", "ip -6 route del 2001:db8:9::/64", "End, segment_ambiguous, segment_ambiguous"},
		{"ip -6 route add fc01::1 encap seg6local action End dev v0 metric 7", "ip -6 route del fc01::1 metric 7", "segment_ambiguous, End, encaps"},
		{"ip -6 route add fc01::9 encap seg6local action End dev v0 table 77", "ip -6 route del fc01::9 table 77", "End, End, encaps"},
		{"ip -6 route add fc01::9 encap seg6local action End dev v0 table local", "ip -6 route del fc01::9 table local", ""},
		{"ip -6 nexthop add id 7 encap seg6local action End dev v0", "ip -6 nexthop del id 7", ""},
		{"ip -6 rule add to fc01::/64 lookup main", "ip -6 rule del to fc01::/64 lookup main", "End, End, encaps"},
		{"ip -6 rule add lookup 77", "ip -6 rule del lookup 77", ""},
		{"ip -6 rule add iif v0 lookup main", "ip -6 rule del iif v0 lookup main", ""},
		{"ip -6 rule add to fc01::/64 blackhole", "ip -6 rule del to fc01::/64 blackhole", ""},
		{"ip -6 rule add not to fc01::/64 lookup main", "ip -6 rule del not to fc01::/64 lookup main", ""},
		{"sysctl -qw net.ipv6.conf.v0.seg6_require_hmac=1", "sysctl -qw net.ipv6.conf.v0.seg6_require_hmac=0", ""},
		{"sysctl -qw net.ipv6.conf.v0.seg6_require_hmac=-1", "sysctl -qw net.ipv6.conf.v0.seg6_require_hmac=0", "End, End, encaps"},
	} {
		if tt.do != "" {
			testnet.Run(t, tt.do)
		}
		list, err := Segments()
		slices.SortFunc(list, func(a, b datapath.SegmentRoute) int { return a.Prefix.Addr().Compare(b.Prefix.Addr()) })
		var got []string
		for _, r := range list {
			kind, _, _ := strings.Cut(describe(r.Behaviour), " ")
			got = append(got, kind)
		}
		if text := strings.Join(got, ", "); err != nil || text != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.do, text, err, tt.want)
		}
		if tt.undo != "" {
			testnet.Run(t, tt.undo)
		}
	}
}

// A route by a link without a carrier may be passed over.
func TestSegmentsLinkDown(t *testing.T) {
	enterNamespace(t)
	testnet.Run(t, "ip -6 route add fc01::1 encap seg6local action End dev v0")
	testnet.Run(t, "ip link set v1 down")
	await(t, "the stack's", 3*time.Second, func() bool {
		list, err := Segments()
		return err == nil && len(list) == 1 && list[0].Behaviour.Kind == datapath.BehaviourStack &&
			list[0].Behaviour.Reason == datapath.StackSegmentAmbiguous
	})
}

// A change of a route with segments turns the table off at once, and on again when it
// has been read.
func TestWatchSegments(t *testing.T) {
	enterNamespace(t)
	testnet.Run(t, "ip sr tunsrc set 2001:db8:ff::1")
	p := &fakePlane{}
	watch(t, p)
	state := func() (segments bool, list int, renewals int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.renewals[len(p.renewals)-1].segments, len(p.segments), len(p.renewals)
	}
	for i, tt := range []struct {
		command string
		routes  int
	}{
		{"ip -6 route add fc01::/48 encap seg6local action End dev v0", 1},
		{"ip -6 route add 2001:db8:7::/48 encap seg6 mode encap segs fc00::1 dev v0", 2},
		{"ip -6 route replace fc01::/48 encap seg6local action End.DT6 table 254 dev v0", 2},
		{"ip -6 route replace fc01::/48 via 2001:db8:1::2", 1},
	} {
		quiet(p)
		_, _, before := state()
		testnet.Run(t, tt.command)
		await(t, tt.command+": the table off", time.Second, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return slices.ContainsFunc(p.renewals[before:], func(r renewal) bool { return !r.segments })
		})
		await(t, tt.command+": the new table", 10*time.Second, func() bool { on, n, _ := state(); return on && n == tt.routes })
		if i > 0 { // it was on before
			p.mu.Lock()
			if first := p.renewals[before]; first.segments {
				t.Errorf("%s: the first report after it leaves the table on", tt.command)
			}
			p.mu.Unlock()
		}
	}
	quiet(p)
	testnet.Run(t, "ip -6 rule add from 2001:db8:5::/64 lookup 77")
	await(t, "the table off by a rule", time.Second, func() bool { on, _, _ := state(); return !on })
}
