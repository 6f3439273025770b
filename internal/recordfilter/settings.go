// SPDX-License-Identifier: Apache-2.0

package recordfilter

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/nearword"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Setting is a part of a filter as text: a flag, and a parameter of the agent's API.
type Setting struct {
	Flag, Key string // of the API
	Usage     string // with the value's name in backticks
	Switch    bool   // it has no value besides true
	set       func(*Filter, string) error
	get       func(*Filter) string // "" if it is not set
}

// Set puts a value into a filter.
func (s *Setting) Set(f *Filter, value string) error { return s.set(f, value) }

// Settings are all parts of a filter.
var Settings = []Setting{
	{Flag: "kind", Key: "kinds", Usage: "only records of these `KINDS`, with commas between them", set: setKinds, get: func(f *Filter) string { return f.Kinds }},
	{Flag: "namespace", Key: "namespace", Usage: "only records of this namespace `ID`", set: setNamespace, get: func(f *Filter) string {
		if f.Namespace == nil {
			return ""
		}
		return strconv.Itoa(int(*f.Namespace))
	}},
	{Flag: "source", Key: "source", Usage: "only packets from this `PREFIX`",
		set: func(f *Filter, v string) error { return setPrefix(&f.Source, v) }, get: func(f *Filter) string { return prefixText(f.Source) }},
	{Flag: "destination", Key: "destination", Usage: "only packets to this `PREFIX`",
		set: func(f *Filter, v string) error { return setPrefix(&f.Destination, v) }, get: func(f *Filter) string { return prefixText(f.Destination) }},
	{Flag: "port", Key: "port", Usage: "only packets from or to this `PORT`", set: setPort, get: func(f *Filter) string {
		if f.Port == 0 {
			return ""
		}
		return strconv.Itoa(int(f.Port))
	}},
	{Flag: "protocol", Key: "protocol", Usage: ProtocolUsage, set: setProtocol, get: func(f *Filter) string {
		if f.Protocol == nil {
			return ""
		}
		return strconv.Itoa(int(*f.Protocol))
	}},
	{Flag: "node", Key: "node", Usage: "only records in which this `NODE` is, by name or number",
		set: func(f *Filter, v string) error { return setName(&f.Node, v) }, get: func(f *Filter) string { return f.Node }},
	{Flag: "interface", Key: "interface", Usage: "only records in which this `INTERFACE` is, by name or by its number in IOAM data",
		set: func(f *Filter, v string) error { return setName(&f.Interface, v) }, get: func(f *Filter) string { return f.Interface }},
	{Flag: "flow", Key: "flow", Usage: "only records of this `FLOW`, by name or number",
		set: func(f *Filter, v string) error { return setName(&f.Flow, v) }, get: func(f *Filter) string { return f.Flow }},
	{Flag: "min-delay", Key: "min-delay", Usage: "only records with a delay of at least this `TIME`: of the path, between two nodes, or at one", set: setMinDelay, get: func(f *Filter) string {
		if f.MinDelay <= 0 {
			return ""
		}
		return f.MinDelay.String()
	}},
	{Flag: "incomplete", Key: "incomplete", Usage: "only records that say that something is missing: paths without all nodes, traces without room, losses that are not known", Switch: true, set: setIncomplete, get: func(f *Filter) string {
		if f.Incomplete {
			return "true"
		}
		return ""
	}},
	{Flag: "where", Key: "where", Usage: "only records for which this `EXPRESSION` is true, such as 'packet.destination_port == 443'",
		set: func(f *Filter, v string) error { f.Where = v; return nil }, get: func(f *Filter) string { return f.Where }},
}

// Query is the filter as parameters of the agent's API.
func (f Filter) Query() url.Values {
	q := url.Values{}
	for _, s := range Settings {
		if value := s.get(&f); value != "" {
			q.Set(s.Key, value)
		}
	}
	return q
}

// FromQuery reads parameters of the agent's API.
func FromQuery(q url.Values) (f Filter, err error) {
	for key, values := range q {
		i := slices.IndexFunc(Settings, func(s Setting) bool { return s.Key == key })
		switch {
		case i < 0:
			return f, problem.New(fmt.Sprintf("%s: unknown", key), fmt.Sprintf("filter by %s", keys()))
		case len(values) != 1:
			return f, fmt.Errorf("%s is given %d times", key, len(values))
		}
		if err := Settings[i].set(&f, values[0]); err != nil {
			return f, fmt.Errorf("%s: %w", key, err)
		}
	}
	return f, nil
}

func keys() string {
	var list []string
	for _, s := range Settings {
		list = append(list, s.Key)
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

func setKinds(f *Filter, value string) error {
	f.Kinds = value
	return checkKinds(value)
}

func checkKinds(list string) error {
	var known []string
	for _, k := range record.Kinds() {
		known = append(known, k.Name)
	}
	slices.Sort(known)
	for kind := range strings.SplitSeq(list, ",") {
		if slices.Contains(known, kind) {
			continue
		}
		cure := "want one of " + strings.Join(known, ", ")
		if meant := nearword.Meant(kind, known); meant != "" {
			cure = fmt.Sprintf("did you mean %s? All kinds are %s", meant, strings.Join(known, ", "))
		}
		return problem.New(fmt.Sprintf("%q is no kind of records", kind), cure)
	}
	return nil
}

func setNamespace(f *Filter, value string) error {
	n, err := strconv.ParseUint(value, 0, 16)
	if err != nil {
		return fmt.Errorf("%q: want a number from 0 to 65535", value)
	}
	id := ioam.NamespaceID(n)
	f.Namespace = &id
	return nil
}

// parsePrefix reads a prefix, or an address as the prefix of it alone.
func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

func setPrefix(to *netip.Prefix, value string) error {
	p, err := parsePrefix(value)
	if err != nil || !p.Addr().Is6() {
		return fmt.Errorf("%q: want an IPv6 prefix or address", value)
	}
	*to = p
	return nil
}

func prefixText(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}

func setPort(f *Filter, value string) error {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil || n == 0 {
		return fmt.Errorf("%q: want a number from 1 to 65535", value)
	}
	f.Port = uint16(n)
	return nil
}

// ProtocolUsage is the help of flags that take what ParseProtocol reads.
const ProtocolUsage = "only packets of this `PROTOCOL`: a number, tcp, udp, icmpv6 or sctp"

// protocols are those with a word.
var protocols = map[string]ioam.NextHeader{"tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132}

// ParseProtocol reads a protocol: its number, or the word of a known one.
func ParseProtocol(text string) (ioam.NextHeader, error) {
	if p, ok := protocols[strings.ToLower(text)]; ok {
		return p, nil
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("%q: want a number from 0 to 255, tcp, udp, icmpv6 or sctp", text)
	}
	return ioam.NextHeader(n), nil
}

func setProtocol(f *Filter, value string) error {
	p, err := ParseProtocol(value)
	if err != nil {
		return err
	}
	f.Protocol = &p
	return nil
}

// setName bounds a name: those of nodes, interfaces and flows are shorter.
func setName(to *string, value string) error {
	if value == "" || len(value) > 1024 {
		return errors.New("want a name or a number")
	}
	*to = value
	return nil
}

func setMinDelay(f *Filter, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: want a time such as 1ms", value)
	}
	f.MinDelay = d
	return nil
}

func setIncomplete(f *Filter, value string) error {
	is, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("%q: want true or false", value)
	}
	f.Incomplete = is
	return nil
}
