// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ioam"
)

// RouteCommand is "route add|append|change|replace|del|show …": a rule by
// destination prefix.
type RouteCommand struct {
	Verb Verb
	// Kernels are the words that only concern the kernel's route, which does not
	// change: next hop and metric.
	Kernels []string
	// Rule is what to add; a tunnel without a source gets the one that the kernel would
	// use. For Change and Replace, Named reports whether the name was given or made up.
	// Del and Show use the fields that are given, see Selection.
	Rule  config.Encapsulation
	Named bool
	// Via is a next hop without the interface of it; see Through.
	Via netip.Addr
	// Force adds a rule of mode inline on a node that forwards, too.
	Force bool
}

// Through completes a rule with the interface of its next hop.
func (c *RouteCommand) Through(iface string) {
	if c.Rule.Interface = iface; !c.Named {
		c.Rule.Name = RouteName(c.Rule)
	}
}

// otherVerbs are the verbs of "ip route" that do not apply to rules, in its order, and
// what to do instead.
var otherVerbs = []struct{ spelling, instead string }{
	{"get", "'route show' lists the rules, and 'ip -6 route get ADDRESS' says by which interface packets leave"},
	{"prepend", "use add; among equal prefixes the older rule applies"},
	{"test", "use show"},
	{"flush", "remove rules one by one with del"},
	{"save", "'waymark agent config' prints all that is in force"},
	{"restore", "write the rules into the configuration file"},
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
	seen    map[string]bool
	rule    config.Encapsulation
	kernels []string
	via     netip.Addr
}

func (p *routeParser) parse() (RouteCommand, error) {
	verb, err := p.verb(Add, Append, Change, Replace, Del, Show)
	if err != nil {
		for _, v := range otherVerbs {
			if word := p.list[0]; word != "" && strings.HasPrefix(v.spelling, word) {
				return RouteCommand{}, fmt.Errorf("%s: not supported here: %s", v.spelling, v.instead)
			}
		}
		return RouteCommand{}, err
	}
	for p.more() {
		if err := p.clause(verb); err != nil {
			return RouteCommand{}, err
		}
	}
	named := p.rule.Name != ""
	switch {
	case verb == Show:
	case !p.rule.Match.Destination.IsValid() && (verb != Del || !named):
		return RouteCommand{}, errors.New("the destination is missing: give PREFIX or default")
	case verb == Del:
	case p.rule.Options == nil:
		return RouteCommand{}, fmt.Errorf("encap ioam6 is missing: %s is for IOAM rules here, not for routes", verb)
	case p.rule.Interface == "" && p.via.IsLinkLocalUnicast():
		return RouteCommand{}, problem.New(fmt.Sprintf("dev is missing: via %s is valid on one link only", p.via), "name its interface: dev IF")
	case p.rule.Interface == "" && p.via.IsValid():
		return RouteCommand{Verb: verb, Rule: p.rule, Named: named, Kernels: p.kernels, Via: p.via, Force: p.seen["force"]}, nil
	case p.rule.Interface == "":
		return RouteCommand{}, errors.New("dev is missing: name the interface by which the packets leave")
	case !named:
		p.rule.Name = RouteName(p.rule)
	}
	return RouteCommand{Verb: verb, Rule: p.rule, Named: named, Kernels: p.kernels, Force: p.seen["force"]}, nil
}

// once takes a keyword, which may appear only once.
func (p *routeParser) once() (string, error) {
	word, _ := p.nextWord("")
	if p.seen[word] {
		return word, fmt.Errorf("%s: given twice", word)
	}
	p.seen[word] = true
	return word, nil
}

// clause reads one clause of the route itself.
func (p *routeParser) clause(verb Verb) error {
	switch word := p.peek(); word {
	case "dev", "oif", "name", "from", "ipproto", "sport", "dport", "tos", "dsfield", "flowlabel":
		if synonym := map[string]string{"dsfield": "tos", "oif": "dev"}[word]; synonym != "" {
			p.list[p.next] = synonym
		}
		word, err := p.once()
		if err != nil {
			return err
		}
		value, err := p.nextWord(word)
		if err != nil {
			return err
		}
		if err := p.selector(word, value); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
		return nil
	case "encap":
		if _, err := p.once(); err != nil {
			return err
		}
		if verb == Show {
			return problem.New("encap: not used with show", "give PREFIX, dev, name or the rule's criteria")
		}
		return p.encap()
	case "via", "metric", "preference", "priority", "proto", "protocol", "pref", "onlink", "table":
		if verb == Show {
			return problem.New(fmt.Sprintf("%s: not used with show", word), "it belongs to the kernel's routes, see 'ip -6 route show'")
		}
		return p.kernelRoute()
	case "force":
		if verb == Show || verb == Del {
			return fmt.Errorf("force: not used with %s", verb)
		}
		_, err := p.once()
		return err
	case "nexthop", "nhid", "src", "mtu", "advmss", "hoplimit", "scope", "realm", "realms", "expires":
		return problem.New(
			fmt.Sprintf("%s: not used here: the kernel's routes do not change, and this rule acts on packets that leave by an interface", word),
			refusedCures[word],
		)
	case "to":
		p.next++
		if !p.more() {
			return errors.New("to: a value is missing")
		}
	}
	if p.rule.Match.Destination.IsValid() {
		return problem.New(
			fmt.Sprintf("%q: unknown word", p.peek()),
			"use encap, dev, name, or one of from, ipproto, sport, dport, tos, flowlabel",
		)
	}
	word, _ := p.nextWord("")
	prefix, err := parsePrefix(word)
	p.rule.Match.Destination = prefix
	return err
}

// refusedCures are the words of "ip route" for what no rule here can do, and what to do
// instead.
var refusedCures = map[string]string{
	"nexthop":  "remove it, and add one rule for each dev",
	"nhid":     "remove it, and name the interface with dev IF",
	"src":      "remove it; to select packets by their source, use from PREFIX",
	"mtu":      "remove it; 'waymark status' shows the size that packets may have",
	"advmss":   "remove it",
	"hoplimit": "remove it",
	"scope":    "remove it",
	"realm":    "remove it",
	"realms":   "remove it",
	"expires":  "remove it, and delete the rule with del in time",
}

// kernelRoute reads the words of "ip -6 route" that only concern the kernel's route.
// They do not affect the rule, and are kept to be reported.
func (p *routeParser) kernelRoute() error {
	word, err := p.once()
	if err != nil {
		return err
	}
	said := word
	switch word {
	case "via":
		if p.more() && p.peek() == "inet6" {
			p.next++
		}
		via, err := p.nextWord(word)
		if err != nil {
			return err
		}
		addr, err := netip.ParseAddr(via)
		if err != nil || !addr.Is6() || addr.Is4In6() || addr.IsMulticast() {
			return fmt.Errorf("via %q: want the IPv6 address of a router", via)
		}
		p.via = addr
		said += " " + via
	case "table":
		table, err := p.nextWord(word)
		if err != nil {
			return err
		}
		if table != "main" && table != "254" {
			return problem.New(
				fmt.Sprintf("table %s: a rule acts on all packets that leave by an interface, whatever the table of their route", table),
				"remove it, and select packets by from, tos or ipproto",
			)
		}
		said += " " + table
	case "metric", "preference", "priority":
		n, err := p.number(word, 32)
		if err != nil {
			return err
		}
		said += fmt.Sprint(" ", n)
	case "proto", "protocol", "pref":
		value, err := p.nextWord(word)
		if err != nil {
			return err
		}
		said += " " + value
	}
	p.kernels = append(p.kernels, said)
	return nil
}

// selector reads the value of a keyword of "ip rule", of dev or of name.
func (p *routeParser) selector(word, value string) (err error) {
	m := &p.rule.Match
	switch word {
	case "from":
		if m.Source, err = parsePrefix(value); err == nil && m.Source.Bits() == 0 {
			m.Source = netip.Prefix{} // any
		}
	case "ipproto":
		m.NextHeader, err = parseText[ioam.NextHeader](value)
	case "sport":
		m.SourcePort, err = parseText[model.PortRange](value)
	case "dport":
		m.DestinationPort, err = parseText[model.PortRange](value)
	case "tos":
		m.TrafficClass, err = parseText[config.TrafficClass](value)
	case "flowlabel":
		m.FlowLabel, err = parseText[config.FlowLabel](value)
	case "dev":
		if p.rule.Interface = value; value == "" || strings.ContainsFunc(value, unicode.IsSpace) {
			err = fmt.Errorf("%q: want a name without spaces", value)
		}
	case "name":
		if p.rule.Name = value; strings.TrimSpace(value) == "" || strings.ContainsFunc(value, unicode.IsControl) {
			err = fmt.Errorf("%q: want a name that can be printed", value)
		}
	}
	return err
}

func parseText[T any](text string) (*T, error) {
	v, err := config.ParseText[T](text)
	return &v, err
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
		return netip.Prefix{}, problem.New(fmt.Sprintf("%s: IOAM needs IPv6", prefix), "want an IPv6 prefix, such as 2001:db8:2::/64")
	case prefix != prefix.Masked():
		return netip.Prefix{}, problem.New(fmt.Sprintf("%s: bits are set after the prefix", prefix), fmt.Sprintf("use %s", prefix.Masked()))
	}
	return prefix, nil
}
