// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/ioam"
)

// RouteCommand is "route add|del|show …": a rule by destination prefix.
type RouteCommand struct {
	Verb Verb
	// Rule is what to add; a tunnel source of "::" is for the agent to choose.
	// Del and Show select by name, interface and destination: those that are
	// given must agree.
	Rule config.Encapsulation
}

// RouteName is the name that a rule gets when none is given.
func RouteName(prefix netip.Prefix, dev string) string {
	if prefix.Bits() == 0 {
		return "route-default-" + dev
	}
	return "route-" + strings.NewReplacer(":", "-", "/", "_").Replace(prefix.String()) + "-" + dev
}

// ParseRoute reads what follows "route".
func ParseRoute(args []string) (RouteCommand, error) {
	p := routeParser{words: words{list: args}, seen: map[string]bool{}}
	c, err := p.parse()
	if err != nil {
		return RouteCommand{}, err
	}
	return c, nil
}

type routeParser struct {
	words
	seen map[string]bool
	rule config.Encapsulation
}

func (p *routeParser) parse() (RouteCommand, error) {
	verb, err := p.verb(Add, Del, Show)
	if err != nil {
		return RouteCommand{}, err
	}
	for p.more() {
		if err := p.clause(verb); err != nil {
			return RouteCommand{}, err
		}
	}
	switch {
	case verb == Show:
	case !p.rule.Match.Destination.IsValid() && (verb == Add || p.rule.Name == ""):
		return RouteCommand{}, errors.New("the destination is missing: give PREFIX or default")
	case verb == Del:
	case p.rule.Options == nil:
		return RouteCommand{}, errors.New("encap ioam6 is missing: this command adds IOAM rules, not routes")
	case p.rule.Interface == "":
		return RouteCommand{}, errors.New("dev is missing: name the interface by which the packets leave")
	case p.rule.Name == "":
		p.rule.Name = RouteName(p.rule.Match.Destination, p.rule.Interface)
	}
	return RouteCommand{Verb: verb, Rule: p.rule}, nil
}

// once takes a keyword, which may stand only once.
func (p *routeParser) once() (string, error) {
	word, _ := p.take("")
	if p.seen[word] {
		return word, fmt.Errorf("%s: given twice", word)
	}
	p.seen[word] = true
	return word, nil
}

// clause reads one clause of the route itself.
func (p *routeParser) clause(verb Verb) error {
	switch p.peek() {
	case "dev", "name":
		word, err := p.once()
		if err != nil {
			return err
		}
		value, err := p.take(word)
		if err != nil {
			return err
		}
		if value == "" || strings.ContainsFunc(value, unicode.IsSpace) {
			return fmt.Errorf("%s %q: want a name without spaces", word, value)
		}
		if word == "dev" {
			p.rule.Interface = value
		} else {
			p.rule.Name = value
		}
		return nil
	case "encap":
		if _, err := p.once(); err != nil {
			return err
		}
		if verb != Add {
			return fmt.Errorf("encap: not used with %s; give PREFIX, dev or name", verb)
		}
		return p.encap()
	case "via", "nexthop", "metric", "preference", "proto", "protocol", "table", "src", "mtu", "scope", "realm", "advmss", "onlink", "pref", "expires", "nhid":
		return fmt.Errorf("%s: not used here: the kernel's routes stay as they are, and this rule acts on what leaves by dev; leave it out", p.peek())
	case "to":
		p.next++
		if !p.more() {
			return errors.New("to: a value is missing")
		}
	}
	if p.rule.Match.Destination.IsValid() {
		return fmt.Errorf("%q: unknown word; say encap, dev or name", p.peek())
	}
	word, _ := p.take("")
	prefix, err := parsePrefix(word)
	p.rule.Match.Destination = prefix
	return err
}

// parsePrefix reads an IPv6 prefix, "default", or an address, which is a
// prefix of 128 bits.
func parsePrefix(word string) (netip.Prefix, error) {
	if word == "default" || word == "any" || word == "all" {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0), nil
	}
	prefix, err := netip.ParsePrefix(word)
	if addr, addrErr := netip.ParseAddr(word); addrErr == nil && addr.Zone() == "" {
		prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q: want an IPv6 prefix, such as 2001:db8:2::/64, or default", word)
	case !prefix.Addr().Is6() || prefix.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%s: IOAM rides on IPv6; want an IPv6 prefix, such as 2001:db8:2::/64", prefix)
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("%s: bits are set behind the prefix; say %s", prefix, prefix.Masked())
	}
	return prefix, nil
}

// encap reads what follows "encap".
func (p *routeParser) encap() error {
	if kind, err := p.take("encap"); err != nil {
		return err
	} else if kind != "ioam6" {
		return fmt.Errorf("encap %s: only ioam6 is served here; use 'ip route' for others", kind)
	}
	e := &p.rule
	e.Frequency, e.Mode = ioam.Frequency{K: 1, N: 1}, ioam.ModeInline
	var source, destination netip.Addr
	for {
		if !p.more() {
			return errors.New("trace is missing: end the rule with trace prealloc type TYPE ns ID size BYTES")
		}
		word, err := p.once()
		if err != nil {
			return err
		}
		switch word {
		case "freq":
			e.Frequency, err = p.frequency()
		case "mode":
			e.Mode, err = p.mode()
		case "tunsrc":
			source, err = p.tunnelAddress(word)
		case "tundst":
			destination, err = p.tunnelAddress(word)
		case "trace":
			if err := p.trace(); err != nil {
				return err
			}
			return p.tunnel(source, destination)
		case "dex":
			return errors.New("dex: direct exporting is not served yet; use trace prealloc")
		default:
			return fmt.Errorf("%q: unknown word; say freq, mode, tunsrc, tundst or trace", word)
		}
		if err != nil {
			return err
		}
	}
}

func (p *routeParser) frequency() (ioam.Frequency, error) {
	var none ioam.Frequency
	word, err := p.take("freq")
	if err != nil {
		return none, err
	}
	first, second, ok := strings.Cut(word, "/")
	if !ok {
		return none, fmt.Errorf("freq %q: want K/N, such as 1/100", word)
	}
	k, err := parseNumber("freq K", first, 32)
	if err != nil {
		return none, err
	}
	n, err := parseNumber("freq N", second, 32)
	if err != nil {
		return none, err
	}
	if k < 1 || k > n || n > ioam.MaxFrequency {
		return none, fmt.Errorf("freq %s: the first K of every N packets need 1 ≤ K ≤ N ≤ %d", word, ioam.MaxFrequency)
	}
	return ioam.Frequency{K: uint32(k), N: uint32(n)}, nil
}

func (p *routeParser) mode() (ioam.Mode, error) {
	word, err := p.take("mode")
	if err != nil {
		return 0, err
	}
	var mode ioam.Mode
	if mode.UnmarshalText([]byte(word)) != nil {
		return 0, fmt.Errorf("mode %q: want inline, encap or auto", word)
	}
	return mode, nil
}

func (p *routeParser) tunnelAddress(name string) (netip.Addr, error) {
	word, err := p.take(name)
	if err != nil {
		return netip.Addr{}, err
	}
	addr, err := netip.ParseAddr(word)
	switch {
	case err != nil || addr.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%s %q: want an IPv6 address", name, word)
	case addr.Is4() || addr.Is4In6():
		return netip.Addr{}, fmt.Errorf("%s %s: the tunnel is IPv6-in-IPv6; want an IPv6 address", name, addr)
	case addr.IsUnspecified() || addr.IsMulticast():
		return netip.Addr{}, fmt.Errorf("%s %s: want the unicast address of a node", name, addr)
	}
	return addr, nil
}

// tunnel checks the addresses against the mode.
func (p *routeParser) tunnel(source, destination netip.Addr) error {
	switch mode := p.rule.Mode; {
	case mode == ioam.ModeInline && source.IsValid():
		return errors.New("tunsrc: mode inline adds no outer header; leave it out, or say mode encap or auto")
	case mode == ioam.ModeInline && destination.IsValid():
		return errors.New("tundst: mode inline adds no outer header; leave it out, or say mode encap or auto")
	case mode != ioam.ModeInline && !destination.IsValid():
		return fmt.Errorf("tundst is missing: mode %s needs the address of the node that decapsulates", mode)
	case destination.IsValid():
		if !source.IsValid() {
			source = netip.IPv6Unspecified()
		}
		p.rule.Tunnel = &config.Tunnel{Source: source, Destination: destination}
	}
	return nil
}

// trace reads what follows "trace": prealloc, and its three values in any order.
func (p *routeParser) trace() error {
	if word, err := p.take("trace"); err != nil || word != "prealloc" {
		return errors.New("trace: want prealloc; other kinds of trace are not defined for IPv6")
	}
	var t config.TraceOption
	for p.more() {
		word := p.peek()
		if word != "type" && word != "ns" && word != "size" {
			break
		}
		if _, err := p.once(); err != nil {
			return err
		}
		if err := p.traceValue(word, &t); err != nil {
			return err
		}
	}
	for _, word := range []string{"type", "ns", "size"} {
		if !p.seen[word] {
			return fmt.Errorf("%s is missing: trace prealloc needs type TYPE ns ID size BYTES", word)
		}
	}
	p.rule.Options = []config.Option{{Trace: &t}}
	return nil
}

func (p *routeParser) traceValue(word string, t *config.TraceOption) error {
	switch word {
	case "type":
		n, err := p.number("type", 24)
		if err != nil {
			return err
		}
		t.Type = ioam.TraceType(n)
		if err := t.Type.Validate(); err != nil {
			return fmt.Errorf("type %s: %w", t.Type, err)
		}
	case "ns":
		n, err := p.number("ns", 16)
		if err != nil {
			return err
		}
		t.Namespace = ioam.NamespaceID(n)
	case "size":
		n, err := p.number("size", 16)
		if err != nil {
			return err
		}
		if n%4 != 0 || n < 4 || n > ioam.MaxTraceDataSize {
			return fmt.Errorf("size %d: want a multiple of 4 from 4 to %d", n, ioam.MaxTraceDataSize)
		}
		t.Size = config.DataSize(n)
	}
	return nil
}

// DestinationOnly is whether a rule is what a route would be: it selects by
// destination prefix and nothing else.
func DestinationOnly(m config.Match) bool {
	return !m.Source.IsValid() && m.NextHeader == nil && m.SourcePort == nil &&
		m.DestinationPort == nil && m.TrafficClass == nil && m.FlowLabel == nil
}

// FormatRoute writes a rule as the words that add it. It says so where a rule
// selects by more than these words can.
func FormatRoute(e config.Encapsulation) string {
	var b strings.Builder
	if !e.Match.Destination.IsValid() || e.Match.Destination.Bits() == 0 {
		b.WriteString("default")
	} else {
		b.WriteString(e.Match.Destination.String())
	}
	fmt.Fprintf(&b, " encap ioam6 freq %d/%d mode %s", e.Frequency.K, e.Frequency.N, e.Mode)
	if e.Tunnel != nil {
		if !e.Tunnel.Source.IsUnspecified() {
			fmt.Fprintf(&b, " tunsrc %s", e.Tunnel.Source)
		}
		fmt.Fprintf(&b, " tundst %s", e.Tunnel.Destination)
	}
	for _, o := range e.Options {
		if o.Trace != nil {
			fmt.Fprintf(&b, " trace prealloc type %s ns %d size %d", o.Trace.Type, o.Trace.Namespace, o.Trace.Size)
		}
	}
	fmt.Fprintf(&b, " dev %s", e.Interface)
	if !e.Match.Destination.IsValid() || e.Name != RouteName(e.Match.Destination, e.Interface) {
		fmt.Fprintf(&b, " name %s", e.Name)
	}
	if !DestinationOnly(e.Match) {
		b.WriteString(" [and more criteria]")
	}
	return b.String()
}
