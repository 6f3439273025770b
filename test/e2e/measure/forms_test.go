// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/test/e2e"
)

// A form is a way in which the kernel gives packets their segments.
type form struct {
	name, mode string
	segments   string
	flow       string // settings of the flow besides
	octets     int    // that packets get at the ingress
	popped     int    // and lose at the middle
	end        string // the route of the last SID, at the egress
	last       string // the last SID of the header, as it leaves the middle
	source     string
	ownMode    string // of the flow, if the kernel's word is another one
}

// sixteen are the most SIDs of a flow: of the middle, and of the egress. (The kernel does not
// carry out many more than eight behaviours of one node for a packet.)
func sixteen(last string) string {
	var list []string
	for i := range 15 {
		list = append(list, fmt.Sprintf("fc00:%s::%x", []string{"2", "3:e"}[i/8], i+1))
	}
	return strings.Join(append(list, last), ",")
}

// forms are those that TestSegmentRouting has not.
func forms() []form {
	const ip6, srh, sid, ethernet = 40, 8, 16, 14
	list := []form{
		{name: "one", mode: "encap", segments: "fc00:3::1", octets: ip6 + srh + sid},
		{name: "plain", mode: "encap.red", segments: "fc00:3::2", octets: ip6},
		{name: "sixteen", mode: "encap", segments: sixteen("fc00:3::3"), octets: ip6 + srh + 16*sid},
		{name: "reduced", mode: "encap.red", segments: sixteen("fc00:3::4"), octets: ip6 + srh + 15*sid},
		{name: "inline", mode: "inline", segments: "fc00:2::1,fc00:2::2", octets: srh + 3*sid, end: "none", source: "2001:db8:1::2"},
		{name: "containers", mode: "encap", segments: "fcbb:bb00:2:2::,fcbb:bb00:2:2:2::,fc00:3::6", flow: ", container: 32/16", octets: ip6 + srh + 3*sid},
		{name: "popped", mode: "encap.red", segments: "fc00:2::99,fc00:3::7", flow: ", psp: true", octets: ip6 + srh + sid, popped: srh + sid},
		{name: "frames", mode: "l2encap.red", ownMode: "encap.red", segments: "fc00:2::1,fc00:3::8", octets: ip6 + srh + sid + ethernet, end: "End.DX2 oif eth1"},
	}
	for i := range list {
		f := &list[i]
		f.end, f.source, f.ownMode = cmp.Or(f.end, "End.DT6 table 254"), cmp.Or(f.source, "2001:db8:ff::1"), cmp.Or(f.ownMode, f.mode)
		f.last = f.segments[strings.LastIndex(f.segments, ",")+1:]
		if f.mode == "inline" {
			f.last = formTo(i).String()
		}
	}
	return list
}

// formTo is the destination of a form's packets before they get segments, and after.
func formTo(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:f:%d::1", i+1)) }

// TestKernelsForms counts packets in every form that the kernel gives them, of a flow each, at
// the three routers of a path; what its second link loses is what they find to be lost.
func TestKernelsForms(t *testing.T) {
	t.Parallel()
	list := forms()
	flows := func(direction, more string) string {
		var all []string
		for _, f := range list {
			all = append(all, fmt.Sprintf(`{name: %s, direction: %s, source: %q, segments: ["%s"], mode: %s%s%s}`,
				f.name, direction, f.source, strings.ReplaceAll(f.segments, ",", `", "`), f.ownMode, f.flow, more))
		}
		return strings.Join(all, ", ")
	}
	agent := func(id int, flows string) string {
		return strings.Replace(agentOf(id, "", "tcx", asking{}, ""), "{name: red, direction: , }", flows, 1)
	}
	l := e2e.RaiseText(t, "routers", fmt.Sprintf(routers, agent(1, flows("out", `, points: ["2001:db8:12::2", "2001:db8:23::3"]`)),
		agent(2, flows("transit", "")), agent(3, flows("in", ""))))
	route := func(node, text string) { e2e.Must(t, l.Node(node), strings.Fields("ip -6 route add "+text)...) }
	for _, name := range []string{"ingress", "middle", "egress"} {
		e2e.Must(t, l.Node(name), "sysctl", "-qw", "net.ipv6.conf.all.seg6_enabled=1", "net.ipv6.conf.eth0.seg6_enabled=1",
			"net.ipv6.conf.eth1.seg6_enabled=1")
	}
	e2e.Must(t, l.Node("ingress"), "ip", "sr", "tunsrc", "set", "2001:db8:ff::1")
	route("ingress", "fcbb:bb00::/32 via 2001:db8:12::2")
	route("middle", "2001:db8:f::/48 via 2001:db8:23::3")
	route("middle", "fc00:2::/64 encap seg6local action End dev eth1")
	route("middle", "fc00:2::99 encap seg6local action End flavors psp dev eth1")
	route("middle", "fcbb:bb00:2::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev eth1")
	route("egress", "fc00:3:e::/64 encap seg6local action End dev eth1")
	route("egress", "blackhole 2001:db8:f::/48")
	var whole []part
	for i, f := range list {
		route("ingress", fmt.Sprintf("%s/128 encap seg6 mode %s segs %s dev eth1", formTo(i), f.mode, f.segments))
		if f.end != "none" {
			route("egress", fmt.Sprintf("%s encap seg6local action %s dev eth1", f.last, f.end))
		}
		whole = append(whole, part{f.name, 0, 2})
	}
	r := observe(t, l)
	r.awaitExact(t, whole...)
	counted := make(map[string]map[string]*reader)
	for _, node := range []string{"ingress", "middle", "egress"} {
		counted[node] = readFlows(t, l, node, names(list)...)
	}
	for i, f := range list {
		rule := linkloss.Rule{Burst: 1, Every: uint32(5 + i), LastSID: netip.PrefixFrom(netip.MustParseAddr(f.last), 128)}
		if _, err := l.AddLoss("middle", "eth1", rule); err != nil {
			t.Fatal(err)
		}
	}
	const count, size = 300, 100
	sendForms(t, l.Node("alpha").Do, len(list), count, size)
	end := time.Now()
	rules := lossesByLink(t, l)["middle eth1"]
	r.awaitAfter(t, end, whole...)
	for i, f := range list {
		lost := uint64(count / (5 + i))
		if rules[i].Packets != count || rules[i].LostPackets != lost {
			t.Errorf("%s: the link had %+v, want %d packets", f.name, rules[i].Counts, count)
		}
		octets := uint64(f.octets + 40 + 8 + size)
		for node, want := range map[string][2]uint64{
			"ingress": {count, count * octets}, "middle": {count, count * octets}, "egress": {count - lost, (count - lost) * (octets - uint64(f.popped))},
		} {
			counts := counted[node][f.name]
			awaitSum(t, counts, f.name+", "+node, want[0])
			if s := counts.sum(t); s.Octets != want[1] || s.Unmarked+s.Late+s.Early+s.Unsized > 0 {
				t.Errorf("%s, %s: %+v, want %d octets", f.name, node, s, want[1])
			}
		}
		for _, tt := range []struct {
			part
			lost uint64
		}{{part{f.name, 0, 2}, lost}, {part{f.name, 0, 1}, 0}, {part{f.name, 1, 2}, lost}} {
			if sent, lost, _ := r.sum(t, tt.part, time.Time{}); sent != count || lost != tt.lost {
				t.Errorf("%v: %d sent, %d lost; want %d and %d", tt.part, sent, lost, count, tt.lost)
			}
		}
	}
}

func names(list []form) (all []string) {
	for _, f := range list {
		all = append(all, f.name)
	}
	return all
}

// sendForms sends so many datagrams in each form, in turn.
func sendForms(t *testing.T, at func(func() error) error, forms, count, size int) {
	t.Helper()
	err := at(func() error {
		conn, err := net.ListenUDP("udp6", nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		for range count {
			for i := range forms {
				if _, err := conn.WriteToUDPAddrPort(make([]byte, size), netip.AddrPortFrom(formTo(i), 9)); err != nil {
					return err
				}
			}
			time.Sleep(2 * time.Millisecond)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
