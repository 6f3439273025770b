// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// customs are the configurations of routers to compare. Lookups that a program
// cannot do like the kernel are left to the stack; the rest are forwarded fast.
var customs = []custom{
	{name: "a route", commands: []string{toFirst}, fast: true},
	{name: "a gateway of the link", commands: []string{"route add 2001:db8:a::/48 via fe80::3 dev eth2"}, fast: true},
	{name: "rule to", commands: []string{toFirst, toSecond, "rule add to 2001:db8:a:1::/64 lookup 100"}, fast: true},
	{name: "rule from", commands: []string{toFirst, toSecond, "rule add from 2001:db8:5:1::/64 lookup 100"}, fast: true},
	{name: "rule not from", commands: []string{toFirst, toSecond, "rule add not from 2001:db8:5:1::/64 lookup 100"}, fast: true},
	{name: "rule by class", commands: []string{toFirst, toSecond, "rule add tos 0x10 lookup 100"}, fast: true},
	{name: "rule by ports", commands: []string{toFirst, toSecond, "rule add ipproto udp dport 1000-2000 lookup 100"}, fast: true},
	{name: "rule by iif", commands: []string{toFirst, toSecond, "rule add iif eth0 lookup 100"}, fast: true},
	{name: "rule by oif", commands: []string{toFirst, toSecond, "rule add oif eth2 lookup 100"}, fast: true},
	{name: "rule not by oif", commands: []string{toFirst, toSecond, "rule add not oif eth2 lookup 100"}, fast: true},
	{name: "rules goto and nop", commands: []string{toFirst, toSecond, "rule add pref 100 from 2001:db8:5:1::/64 goto 300", "rule add pref 200 lookup 100", "rule add pref 300 nop"}, fast: true},
	{name: "rule prohibit", commands: []string{toFirst, "rule add to 2001:db8:a::/48 prohibit"}},
	{name: "rule blackhole", commands: []string{toFirst, "rule add to 2001:db8:a::/48 blackhole"}},
	{name: "rule unreachable", commands: []string{toFirst, "rule add to 2001:db8:a::/48 unreachable"}},
	{name: "suppress_prefixlength", commands: []string{"route add default via 2001:db8:11::2", toSecond, "rule add pref 100 lookup main suppress_prefixlength 0", "rule add pref 200 lookup 100"}},
	{name: "suppress_ifgroup", commands: []string{toFirst, toSecond, "link set eth1 group 7", "rule add pref 100 lookup main suppress_ifgroup 7", "rule add pref 200 lookup 100"},
		undo: []string{"link set eth1 group 0"}},
	{name: "fwmark", commands: []string{toFirst, toSecond, "rule add fwmark 1 lookup 100"}},
	{name: "fwmark 0/0xff", commands: []string{toFirst, toSecond, "rule add fwmark 0/0xff lookup 100"}},
	{name: "not fwmark 0/0xff", commands: []string{toFirst, toSecond, "rule add not fwmark 0/0xff lookup 100"}},
	{name: "uidrange", commands: []string{toFirst, toSecond, "rule add uidrange 0-0 lookup 100"}},
	{name: "tun_id", commands: []string{toFirst, toSecond, "rule add tun_id 5 lookup 100"}},

	{name: "throw", commands: []string{toFirst, "route add throw 2001:db8:a::/48 table 100", "rule add pref 100 lookup 100"}},
	{name: "prohibit", commands: []string{"route add prohibit 2001:db8:a::/48"}},
	{name: "blackhole", commands: []string{"route add blackhole 2001:db8:a::/48"}},
	{name: "local", commands: []string{"route add local 2001:db8:a::/48 dev lo"}},
	{name: "to lo", commands: []string{"route add 2001:db8:a::/48 dev lo"}},
	{name: "several next hops", commands: []string{"route add 2001:db8:a::/48 nexthop via 2001:db8:11::2 nexthop via 2001:db8:12::2 weight 3 nexthop via 2001:db8:13::2"}, fast: true},
	{name: "by source", commands: []string{toFirst, "route add 2001:db8:a::/48 from 2001:db8:5:1::/64 via 2001:db8:12::2"}, fast: true},
	{name: "encap", commands: []string{"route add 2001:db8:a::/48 encap seg6 mode encap segs 2001:db8:12::2 dev eth1"}},
	{name: "encap of a next hop", commands: []string{"nexthop add id 7 encap seg6 mode encap segs 2001:db8:12::2 dev eth1", "route add 2001:db8:a::/48 nhid 7"}},
	{name: "a next hop", commands: []string{"nexthop add id 7 via 2001:db8:12::2 dev eth2", "route add 2001:db8:a::/48 nhid 7"}, fast: true},
	{name: "a group of next hops", commands: []string{"nexthop add id 7 via 2001:db8:12::2 dev eth2", "nexthop add id 8 via 2001:db8:13::2 dev eth3", "nexthop add id 9 group 7,3/8", "route add 2001:db8:a::/48 nhid 9"}, fast: true},
	{name: "a resilient group", commands: []string{"nexthop add id 7 via 2001:db8:12::2 dev eth2", "nexthop add id 8 via 2001:db8:13::2 dev eth3", "nexthop add id 9 group 7/8 type resilient buckets 8 idle_timer 1", "route add 2001:db8:a::/48 nhid 9"}},
	{name: "a next hop that is a black hole", commands: []string{"nexthop add id 7 blackhole", "route add 2001:db8:a::/48 nhid 7"}},
	{name: "metrics that do not matter", commands: []string{toFirst + " advmss 1200 hoplimit 3 initcwnd 20"}, fast: true},
	{name: "mtu", commands: []string{toFirst + " mtu 1300"}, fast: true},
	{name: "mtu lock", commands: []string{toFirst + " mtu lock 1300"}, fast: true},
	{name: "mtu lock above the link's", commands: []string{toFirst + " mtu lock 2000"}, fast: true},
	{name: "mtu elsewhere", commands: []string{toFirst, "route add 2001:db8:b::/48 via 2001:db8:12::2 mtu 1290"}, fast: true},
	{name: "the interface's mtu", commands: []string{toFirst}, sysctls: []string{"net.ipv6.conf.eth1.mtu=1350=1500"}, fast: true},

	{name: "policy 1", commands: []string{"route add 2001:db8:a::/48 nexthop via 2001:db8:11::2 nexthop via 2001:db8:12::2"}, sysctls: []string{"net.ipv6.fib_multipath_hash_policy=1=0"}},
	{name: "disable_ipv6 behind a next hop", commands: []string{"nexthop add id 7 via 2001:db8:12::2 dev eth2", "route add 2001:db8:a::/48 nhid 7"}, sysctls: []string{"net.ipv6.conf.eth2.disable_ipv6=1=0"}},
	{name: "forwarding off at the interface", commands: []string{toFirst}, sysctls: []string{"net.ipv6.conf.eth0.forwarding=0=1"}},
	{name: "redirects are followed", commands: []string{toFirst}, sysctls: []string{"net.ipv6.conf.eth1.forwarding=0=1"}},
	{name: "proxied neighbours", commands: []string{toFirst, "neigh add proxy 2001:db8:a::1 dev eth0"}, sysctls: []string{"net.ipv6.conf.all.proxy_ndp=1=0"}},
	{name: "blocked by default", commands: []string{toFirst, "xfrm policy setdefault fwd block"}, undo: []string{"xfrm policy setdefault fwd accept"}},
}

// TestForwardByNewSelectors does the same for rules that iproute2 may not know
// yet.
func TestForwardByNewSelectors(t *testing.T) {
	e2e.NeedRedirection(t)
	w := raiseTwins(t, "xdp")
	w.both(t, toFirst, toSecond)
	for _, tt := range []struct {
		name       string
		attributes []*nl.RtAttr
	}{ // by their numbers in linux/fib_rules.h
		{"dscp", []*nl.RtAttr{nl.NewRtAttr(25, []byte{0x10 >> 2})}},
		{"dscp with a mask", []*nl.RtAttr{nl.NewRtAttr(25, []byte{0x20 >> 2}), nl.NewRtAttr(30, []byte{0x20 >> 2})}},
		{"flowlabel with a mask", []*nl.RtAttr{nl.NewRtAttr(26, []byte{0, 0, 0, 1}), nl.NewRtAttr(27, []byte{0, 0, 0, 1})}},
		{"ports with masks", []*nl.RtAttr{nl.NewRtAttr(22, []byte{17}), nl.NewRtAttr(23, []byte{2, 0, 2, 0}), nl.NewRtAttr(28, []byte{2, 0})}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rule := func(kind, flags int, n *lab.Node) error {
				return n.Do(func() error {
					r := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
					r.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET6, Table: 100, Type: unix.RTN_UNICAST}})
					r.AddData(nl.NewRtAttr(6, []byte{200, 0, 0, 0}))
					for _, a := range tt.attributes {
						r.AddData(a)
					}
					_, err := r.Execute(unix.NETLINK_ROUTE, 0)
					return err
				})
			}
			before := w.generation(t)
			if err := errors.Join(rule(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, w.plain),
				rule(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, w.fast)); err != nil {
				t.Skipf("this kernel has no such rule: %v", err)
			}
			w.awaitGeneration(t, before)
			if _, n := w.compare(t, w.someTrials()); n < 12 {
				t.Errorf("%d packets went fast; left to the stack: %v", n, e2e.ForwardsOf(t, w.lab, "fast").ToStack)
			}
			if ways := w.used(); ways != 2 {
				t.Errorf("the packets took %d ways, want 2", ways)
			}
			if err := errors.Join(rule(unix.RTM_DELRULE, 0, w.plain), rule(unix.RTM_DELRULE, 0, w.fast)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Whatever a router's configuration is, packets leave it as they would leave the
// kernel; usual configurations are forwarded fast.
func TestForwardAsTheKernel(t *testing.T) {
	for _, attach := range []string{"xdp", string(e2e.TCModes()[0])} {
		t.Run(attach, func(t *testing.T) {
			if attach == "xdp" {
				e2e.NeedRedirection(t)
			}
			w := raiseTwins(t, attach)
			for _, c := range customs {
				t.Run(c.name, func(t *testing.T) { w.holdTo(t, c) })
			}
		})
	}
}
