// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/ioam"
)

const (
	// randomConfigurations is how many configurations a regular test compares.
	randomConfigurations = 150
	// ofOneWorld is how many configurations share the settings that an agent only
	// sees when it looks, once a second.
	ofOneWorld = 50
	// trialsOfEach is how many packets each configuration gets.
	trialsOfEach = 16
)

// chooser makes configurations of a router at random.
type chooser struct {
	*rand.Rand
	commands []string // of ip
	tables   map[string]bool
	hops     int              // nexthop objects
	own      net.HardwareAddr // where packets arrive
}

func pick[T any](c *chooser, of ...T) T { return of[c.IntN(len(of))] }

// prefix chooses from a few prefixes, so that routes overlap.
func (c *chooser) prefix() string {
	return pick(
		c,
		"default",
		"2001:db8:a::/48",
		"2001:db8:a::/48",
		"2001:db8:a:0::/64",
		"2001:db8:a:1::/64",
		"2001:db8:a:1::/64",
		"2001:db8:a:1::1/128",
		"2001:db8:b::/48",
	)
}

func (c *chooser) source() string {
	return pick(c, "2001:db8:5::/48", "2001:db8:5:1::/64", "2001:db8:5:2::/64", "2001:db8:5:1::1/128")
}

func (c *chooser) table() string { return pick(c, "main", "main", "100", "101") }

// via chooses a next hop on one of the links.
func (c *chooser) via() string {
	port, hop := 1+c.IntN(twinPorts-1), 2+c.IntN(4)
	if c.IntN(3) == 0 {
		return fmt.Sprintf("via fe80::%d dev eth%d", hop, port)
	}
	return fmt.Sprintf("via 2001:db8:%d::%d dev eth%d", 10+port, hop, port)
}

func (c *chooser) metrics() string {
	switch c.IntN(12) {
	case 0:
		return fmt.Sprintf(" mtu %d", 1280+c.IntN(300))
	case 1:
		return fmt.Sprintf(" mtu lock %d", 1280+c.IntN(300))
	case 2:
		return " advmss 1200 hoplimit 9"
	case 3:
		return " pref high"
	case 4:
		return " expires 600"
	}
	return ""
}

// object makes a nexthop object or a group, and returns its number.
func (c *chooser) object() int {
	single := func() int {
		c.hops++
		c.commands = append(c.commands, fmt.Sprintf("nexthop add id %d %s", c.hops, c.via()))
		return c.hops
	}
	switch c.IntN(16) {
	case 0, 1, 2, 3, 4, 5:
		return single()
	case 6:
		c.hops++
		c.commands = append(c.commands, fmt.Sprintf("nexthop add id %d blackhole", c.hops))
	case 7:
		a, b := single(), single()
		c.hops++
		c.commands = append(c.commands, fmt.Sprintf("nexthop add id %d group %d/%d type resilient buckets 8 idle_timer 1", c.hops, a, b))
	default:
		a, b := single(), single()
		c.hops++
		c.commands = append(c.commands, fmt.Sprintf("nexthop add id %d group %d,%d/%d", c.hops, a, 1+c.IntN(5), b))
	}
	return c.hops
}

// route adds a route, unless one like it exists.
func (c *chooser) route() {
	table, prefix := c.table(), c.prefix()
	metric := 1024 + c.IntN(2)
	if key := fmt.Sprint(table, prefix, metric); c.tables[key] {
		return
	} else {
		c.tables[key] = true
	}
	where := fmt.Sprintf(" table %s metric %d", table, metric)
	var command string
	switch c.IntN(24) {
	case 0:
		command = fmt.Sprintf("route add %s %s%s", pick(c, "prohibit", "blackhole", "unreachable", "throw"), prefix, where)
	case 1, 2:
		var hops strings.Builder
		for range 2 + c.IntN(2) {
			fmt.Fprintf(&hops, " nexthop %s weight %d", c.via(), 1+c.IntN(4))
		}
		command = "route add " + prefix + where + c.metrics() + hops.String()
	case 3, 4, 5, 6:
		id := c.object()
		command = fmt.Sprintf("route add %s%s nhid %d", prefix, where, id)
	case 7:
		command = fmt.Sprintf("route add %s from %s %s%s", prefix, c.source(), c.via(), where)
	case 8:
		command = fmt.Sprintf("route add %s encap seg6 mode encap segs 2001:db8:12::2 dev eth1%s", prefix, where)
	case 9:
		command = fmt.Sprintf("route add %s dev eth%d%s", prefix, 1+c.IntN(twinPorts-1), where)
	default:
		command = "route add " + prefix + " " + c.via() + where + c.metrics()
	}
	c.commands = append(c.commands, command)
}

// rule adds a rule; few need the stack, so that most configurations are forwarded
// fast.
func (c *chooser) rule() {
	words := []string{"rule add pref", strconv.Itoa(100 + c.IntN(100)*10)}
	if c.IntN(6) == 0 {
		words = append(words, "not")
	}
	for range 1 + c.IntN(2) {
		switch c.IntN(18) {
		case 0, 1, 2, 11, 12, 13:
			words = append(words, "from "+c.source())
		case 3, 4, 5:
			words = append(words, "to "+strings.Replace(c.prefix(), "default", "::/0", 1))
		case 6:
			words = append(words, "tos "+pick(c, "0x10", "0x20"))
		case 7:
			words = append(words, "ipproto "+pick(c, "udp", "tcp")+fmt.Sprintf(" dport %d-%d", 1000*c.IntN(3), 3000+1000*c.IntN(3)))
		case 8:
			words = append(words, "iif "+pick(c, "eth0", "eth1"))
		case 9:
			words = append(words, "oif "+pick(c, "eth0", "eth1"))
		case 10:
			words = append(words, "ipproto "+pick(c, "udp", "tcp"))
		}
	}
	if c.IntN(25) == 0 {
		words = append(words, pick(c, "fwmark 7", "fwmark 0/0xff", "fwmark 0x1/0x10", "uidrange 0-0", "tun_id 5"))
	}
	switch c.IntN(16) {
	case 0:
		words = append(words, pick(c, "prohibit", "blackhole", "unreachable"))
	case 1:
		words = append(words, "goto 2000")
	default:
		words = append(words, "lookup "+c.table())
		if c.IntN(25) == 0 {
			words = append(words, pick(c, "suppress_prefixlength 0", "suppress_prefixlength 48", "suppress_ifgroup 0"))
		}
	}
	command := ""
	seen := map[string]bool{}
	for _, w := range words { // of two criteria of one kind, keep the first
		if kind, _, _ := strings.Cut(w, " "); !seen[kind] || kind == "rule" {
			seen[kind] = true
			command += " " + w
		}
	}
	c.commands = append(c.commands, strings.TrimSpace(command))
}

// configuration returns what is added to a plain router.
func (c *chooser) configuration() (commands, undo []string) {
	c.commands, c.tables, c.hops = []string{"rule add pref 2000 nop", "route add default " + c.via() + " metric 2048"}, map[string]bool{}, 10
	c.own = twinAddress(0)
	for range 2 + c.IntN(7) {
		c.route()
	}
	for range c.IntN(4) {
		c.rule()
	}
	undo = inverse(c.commands)
	port := 1 + c.IntN(twinPorts-1)
	switch c.IntN(12) {
	case 0:
		c.commands = append(c.commands, fmt.Sprintf("link set eth%d mtu %d", port, 1280+c.IntN(200)))
		undo = append(undo, fmt.Sprintf("link set eth%d mtu 1500", port))
	case 1:
		hop := 2 + c.IntN(4)
		neighbour := fmt.Sprintf("2001:db8:%d::%d", 10+port, hop)
		mac := nextHopAddress(port, hop)
		c.commands = append(
			c.commands,
			fmt.Sprintf(
				"neigh replace %s lladdr %v dev eth%d nud %s",
				neighbour,
				nextHopAddress(port, 9),
				port,
				pick(c, "permanent", "noarp", "stale"),
			),
		)
		undo = append(undo, fmt.Sprintf("neigh replace %s lladdr %v dev eth%d nud permanent", neighbour, mac, port))
	case 2:
		c.commands = append(c.commands, atAddress(port, twinAddress(0x20+port))...)
		undo = append(undo, atAddress(port, twinAddress(port))...)
	case 3: // the agent follows only after a second or two
		if c.IntN(4) == 0 {
			c.own = twinAddress(0x20)
			c.commands = append(c.commands, atAddress(0, c.own)...)
			undo = append(undo, atAddress(0, twinAddress(0))...)
		}
	}
	return c.commands, undo
}

// world returns settings of the node, and what undoes them.
func (c *chooser) world(number int) (settings, undo []string) {
	if number == 0 { // without settings, the test checks that packets go fast
		return nil, nil
	}
	for _, s := range []struct{ name, usual, other string }{
		{"net.ipv6.fib_multipath_hash_policy", "0", pick(c, "0", "1", "2", "3")},
		{"net.ipv6.conf.eth0.forwarding", "1", "0"},
		{"net.ipv6.conf.all.forwarding", "1", pick(c, "0", "1", "1", "1")},
		{fmt.Sprintf("net.ipv6.conf.eth%d.forwarding", 1+c.IntN(3)), "1", "0"},
		{fmt.Sprintf("net.ipv6.conf.eth%d.mtu", 1+c.IntN(3)), "1500", strconv.Itoa(1280 + c.IntN(200))},
		{fmt.Sprintf("net.ipv6.conf.eth%d.ignore_routes_with_linkdown", 1+c.IntN(3)), "0", "1"},
		{fmt.Sprintf("net.ipv6.conf.eth%d.disable_policy", c.IntN(4)), "0", "1"},
		{"net.ipv6.conf.all.proxy_ndp", "0", "1"},
		{"net.ipv6.conf.eth0.accept_source_route", "0", "1"},
	} {
		if c.IntN(8) == 0 {
			settings, undo = append(settings, s.name+"="+s.other), append(undo, s.name+"="+s.usual)
		}
	}
	slices.Reverse(undo)
	return settings, undo
}

// wrap puts an upper layer after another header, in a minority of cases.
func (c *chooser) wrap(next byte, body []byte) (byte, []byte) {
	if len(body) < 8+20 {
		return next, body
	}
	body = body[:len(body)-8]
	switch c.IntN(16) {
	case 0: // destination options: a PadN
		return 60, append([]byte{next, 0, 1, 4, 0, 0, 0, 0}, body...)
	case 1: // a first fragment
		return 44, append([]byte{next, 0, 0, 1, 0, 0, 0, byte(c.IntN(256))}, body...)
	case 2: // a later fragment
		return 44, append([]byte{next, 0, 1, 0, 0, 0, 0, byte(c.IntN(256))}, body...)
	case 3: // IOAM of an unknown namespace: a trace of 8 bytes
		trace := ioam.Trace{Namespace: 77, NodeLen: 1, Type: 0x800000, RemainingLen: 2, Data: make([]byte, 8)}
		if h, err := ioam.AppendExtensionHeader(nil, ioam.NextHeader(next), trace.Option()); err == nil && len(body) > len(h) {
			return 0, append(h, body[:len(body)-len(h)+8]...)
		}
	}
	return next, append(body, make([]byte, 8)...)
}

// trials are packets that vary in everything that the rules and routes of such
// configurations match on.
func (c *chooser) trials(w *twins) (out []trial) {
	for range trialsOfEach {
		source := fmt.Sprintf("2001:db8:5:%d::%d", c.IntN(3), 1+c.IntN(2))
		destination := fmt.Sprintf("2001:db8:%s:%d::%d", pick(c, "a", "a", "a", "b", "c"), c.IntN(2), 1+c.IntN(3))
		length := pick(c, 100, 100, 1280, 1281+c.IntN(219), 1500)
		next, body := c.wrap(
			pick(c, byte(17), 17, 17, 6, 6, 59, 33, 50, 132, 136, 47),
			datagram(uint16(c.IntN(65536)), uint16(c.IntN(8000)), length),
		)
		out = append(out, w.newTrial(source, destination, pick(c, byte(0), 0x10, 0x20, 0x13), next, body))
		copy(out[len(out)-1].frame, pick(c, c.own, c.own, c.own, twinAddress(0)))
	}
	return out
}
