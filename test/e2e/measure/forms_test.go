// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/test/e2e"
)

// A form is a way in which the kernel gives packets their segments.
type form struct {
	name, mode string
	segments   string
	flow       string // settings of the flow besides
	out        string // and at the ingress
	octets     int    // that packets get at the ingress
	popped     int    // and lose at the middle
	end        string // the route of the last SID, at the egress
	last       string // the last SID of the header, as it leaves the middle
	source     string
	ownMode    string // of the flow, if the kernel's word is another one
	expires    bool   // the hop limit of each third packet ends at the middle
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

const ip6, srh, sid, ethernet = 40, 8, 16, 14

// forms are all modes of the kernel, with few and many segments, with a header that the middle
// removes, and with compressed SIDs.
func forms() []form {
	return complete([]form{
		{name: "encap", mode: "encap", segments: "fc00:2::e,fc00:3::d6", octets: ip6 + srh + 2*sid, expires: true},
		{name: "encap-red", mode: "encap.red", segments: "fc00:2::e,fc00:3::d7", octets: ip6 + srh + sid, expires: true},
		{name: "inline-one", mode: "inline", segments: "fc00:2::3", octets: srh + 2*sid, end: "none", source: "2001:db8:1::2", expires: true},
		{name: "one", mode: "encap", segments: "fc00:3::1", octets: ip6 + srh + sid},
		{name: "plain", mode: "encap.red", segments: "fc00:3::2", octets: ip6},
		{name: "sixteen", mode: "encap", segments: sixteen("fc00:3::3"), octets: ip6 + srh + 16*sid},
		{name: "reduced", mode: "encap.red", segments: sixteen("fc00:3::4"), octets: ip6 + srh + 15*sid},
		{name: "inline", mode: "inline", segments: "fc00:2::1,fc00:2::2", octets: srh + 3*sid, end: "none", source: "2001:db8:1::2"},
		{name: "containers", mode: "encap", segments: "fcbb:bb00:2:2::,fcbb:bb00:2:2:2::,fc00:3::6", flow: ", container: 32/16", octets: ip6 + srh + 3*sid},
		{name: "container", mode: "encap.red", segments: "fcbb:bb00:2:3::", flow: ", container: 32/16", octets: ip6, last: "fcbb:bb00:3::"},
		{name: "popped", mode: "encap.red", segments: "fc00:2::99,fc00:3::7", flow: ", psp: true", octets: ip6 + srh + sid, popped: srh + sid},
		{name: "popped-two", mode: "encap", segments: "fc00:2::99,fc00:3::9", flow: ", psp: true", octets: ip6 + srh + 2*sid, popped: srh + 2*sid},
		{name: "frames", mode: "l2encap.red", ownMode: "encap.red", segments: "fc00:2::1,fc00:3::8", octets: ip6 + srh + sid + ethernet, end: "End.DX2 oif eth1"},
		{name: "frames-two", mode: "l2encap", ownMode: "encap", segments: "fc00:2::1,fc00:3::a", octets: ip6 + srh + 2*sid + ethernet, end: "End.DX2 oif eth1"},
	})
}

// complete gives forms what most of them have.
func complete(list []form) []form {
	for i := range list {
		f := &list[i]
		f.end, f.source, f.ownMode = cmp.Or(f.end, "End.DT6 table 254"), cmp.Or(f.source, "2001:db8:ff::1"), cmp.Or(f.ownMode, f.mode)
		f.last = cmp.Or(f.last, f.segments[strings.LastIndex(f.segments, ",")+1:])
		if f.mode == "inline" {
			f.last = formTo(i).String()
		}
	}
	return list
}

// formTo is the destination of a form's packets before they get segments, and after.
func formTo(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:f:%d::1", i+1)) }

// raiseForms brings the path up with a flow for each form. Beta discards what arrives.
func raiseForms(t *testing.T, attach, marking string, list []form) *lab.Lab {
	t.Helper()
	flows := func(direction, more string) string {
		var all []string
		for _, f := range list {
			mode, more := "", more
			if direction == "out" {
				more += f.out
			}
			if f.ownMode != "" {
				mode = ", mode: " + f.ownMode
			}
			all = append(all, fmt.Sprintf(`{name: %s, direction: %s, source: %q, segments: ["%s"]%s%s%s}`,
				f.name, direction, f.source, strings.ReplaceAll(f.segments, ",", `", "`), mode, f.flow, more))
		}
		return strings.Join(all, ", ")
	}
	agent := func(id int, flows string) string {
		text := strings.Replace(agentOf(id, "", attach, asking{}, ""), "{name: red, direction: , }", flows, 1)
		return strings.Replace(text, "mean-delay: true", "mean-delay: true"+marking, 1)
	}
	l := e2e.RaiseText(t, "routers", fmt.Sprintf(routers, agent(1, flows("out", `, points: ["2001:db8:12::2", "2001:db8:23::3"]`)),
		agent(2, flows("transit", "")), agent(3, flows("in", ""))))
	route := func(node, text string) { e2e.Must(t, l.Node(node), strings.Fields("ip -6 route add "+text)...) }
	for _, name := range onTheWay {
		e2e.Must(t, l.Node(name), "sysctl", "-qw", "net.ipv6.conf.all.seg6_enabled=1", "net.ipv6.conf.eth0.seg6_enabled=1",
			"net.ipv6.conf.eth1.seg6_enabled=1")
	}
	e2e.Must(t, l.Node("ingress"), "ip", "sr", "tunsrc", "set", "2001:db8:ff::1")
	route("ingress", "fcbb:bb00::/32 via 2001:db8:12::2")
	route("middle", "2001:db8:f::/48 via 2001:db8:23::3")
	route("middle", "fcbb:bb00:3::/48 via 2001:db8:23::3")
	route("middle", "fc00:2::/64 encap seg6local action End dev eth1")
	route("middle", "fc00:2::e encap seg6local action End dev eth1")
	route("middle", "fc00:2::c encap seg6local action End.X nh6 2001:db8:23::3 dev eth1")
	route("middle", "fc00:2::99 encap seg6local action End flavors psp dev eth1")
	route("middle", "fcbb:bb00:2::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev eth1")
	route("egress", "fc00:3:e::/64 encap seg6local action End dev eth1")
	route("egress", "2001:db8:f::/48 via 2001:db8:2::2")
	route("beta", "blackhole 2001:db8:f::/48")
	for i, f := range list {
		if f.mode != "" {
			route("ingress", fmt.Sprintf("%s/128 encap seg6 mode %s segs %s dev eth1", formTo(i), f.mode, f.segments))
		}
		if f.end != "none" {
			route("egress", fmt.Sprintf("%s encap seg6local action %s dev eth1", f.last, f.end))
		}
	}
	return l
}

// TestKernelsForms counts packets in every form that the kernel gives them, of a flow each, at
// the three routers of a path, by both hooks; what its second link loses is what they find to be lost,
// and so is what the middle drops because of its hop limit.
func TestKernelsForms(t *testing.T) {
	t.Parallel()
	for _, attach := range []string{"tcx", "xdp"} {
		t.Run(attach, func(t *testing.T) { countForms(t, attach) })
	}
}

func countForms(t *testing.T, attach string) {
	t.Helper()
	list := forms()
	l := raiseForms(t, attach, "", list)
	var whole []part
	for _, f := range list {
		whole = append(whole, part{f.name, 0, 2})
	}
	r := observe(t, l)
	r.awaitExact(t, whole...)
	counted := make(map[string]map[string]*reader)
	for _, node := range onTheWay {
		counted[node] = readFlows(t, l, node, names(list)...)
	}
	for i, f := range list {
		rule := linkloss.Rule{Burst: 1, Every: uint32(5 + i), LastSID: netip.PrefixFrom(netip.MustParseAddr(f.last), 128)}
		if _, err := l.AddLoss("middle", "eth1", rule); err != nil {
			t.Fatal(err)
		}
	}
	headers := seenAt(t, l, "egress", "eth0", false, func(outer []byte) string {
		to, _ := netip.AddrFromSlice(outer[24:40])
		return fmt.Sprintf("%v %d", to, outer[6])
	})
	const count, size = 300, 100
	sendForms(t, l.Node("alpha").Do, list, count, size)
	end := time.Now()
	rules := lossesByLink(t, l)["middle eth1"]
	r.awaitAfter(t, end, whole...)
	for i, f := range list {
		passed := uint64(count)
		if f.expires {
			passed -= count / 3
		}
		onLink := passed / uint64(5+i)
		if rules[i].Packets != passed || rules[i].LostPackets != onLink {
			t.Errorf("%s: the link had %+v, want %d packets", f.name, rules[i].Counts, passed)
		}
		c := counting{flow: f.name, results: r, ended: end}
		for _, node := range onTheWay {
			c.readers = append(c.readers, counted[node][f.name])
		}
		c.check(t, count, count-passed+onLink, uint64(f.octets+40+8+size), uint64(f.popped))
	}
	checkHeaders(t, headers())
}

// checkHeaders checks what the egress gets, by destination and next header: without an SRH where the
// middle removes it, and containers that the middle has shifted.
func checkHeaders(t *testing.T, seen []string) {
	t.Helper()
	var containers, popped []string
	for _, pair := range seen {
		if strings.HasPrefix(pair, "fcbb:") {
			containers = append(containers, pair)
		} else if to, _, _ := strings.Cut(pair, " "); to == "fc00:3::7" || to == "fc00:3::9" {
			popped = append(popped, pair)
		}
	}
	if !slices.Equal(containers, []string{"fcbb:bb00:3:: 41"}) {
		t.Errorf("the egress got the containers %v, want the shifted one alone", containers)
	}
	if !slices.Equal(popped, []string{"fc00:3::7 41", "fc00:3::9 41"}) {
		t.Errorf("the egress got %v of those whose header the middle removes", popped)
	}
}

func names(list []form) (all []string) {
	for _, f := range list {
		all = append(all, f.name)
	}
	return all
}

// sendForms sends so many datagrams in each form, in turn.
func sendForms(t *testing.T, at func(func() error) error, forms []form, count, size int) {
	t.Helper()
	err := at(func() error {
		conn, err := net.ListenUDP("udp6", nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		expiring, err := net.ListenUDP("udp6", nil)
		if err != nil {
			return err
		}
		defer expiring.Close()
		if err := e2e.Control(expiring, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 2); err != nil {
			return err
		}
		for n := range count {
			for i, f := range forms {
				from := conn
				if f.expires && n%3 == 2 {
					from = expiring
				}
				if _, err := from.WriteToUDPAddrPort(make([]byte, size), netip.AddrPortFrom(formTo(i), 9)); err != nil {
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
