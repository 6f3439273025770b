// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// Probes are sent by this node as long as its agent runs.
type Probes struct {
	Destinations []ProbeDestination `key:"destinations" required:"true"`
	Interval     ProbeTime          `key:"interval" default:"1s"`
	Flows        ProbeFlows         `key:"flows" default:"16"`
	Timeout      ProbeTime          `key:"timeout" default:"1s"`
	Budget       ProbeBudget        `key:"budget" default:"1000"`
	Port         UDPPort            `key:"port" default:"33434"`
	Namespace    *ioam.NamespaceID  `key:"namespace" optional:"true"`
	Source       netip.Addr         `key:"source" optional:"true"`
	Loopback     bool               `key:"loopback" default:"false"`
	KeyFile      string             `key:"key-file" optional:"true"`
}

// probesTexts say what the keys of probes mean.
var probesTexts = yamlfile.KeyTexts{
	"destinations": "The nodes that are probed, 1 to 1024: an address; the name of a host, which is looked up every " +
		"minute; or a prefix, which means the node to which this one tunnels packets to it: the tunnel's " +
		"destination of the encapsulation with the longest match.destination that contains the prefix. NAME= before " +
		"it names the destination in results, which otherwise have what stands here. A node leaves its own " +
		"addresses out, so all nodes of a mesh can have the same list. Their agents need path-trace, whose allow " +
		"has this node and whose rate is enough for all probes to them.",
	"interval": "Time between two probes of a flow. A failure is known after about four intervals, at least 0.4s.",
	"flows": "Flows to each destination, 1 to 64, each with its source port and flow label. Routers spread flows over " +
		"equal paths by chance, so have about four for each path.",
	"timeout": "Time after which a probe counts as lost, at most 10s and 256 intervals. It does not delay the search " +
		"for a failure.",
	"budget": "The most packets a second that this node sends for all probes, 1 to 50000. What destinations, flows and " +
		"interval need must fit, and a tenth more (at least 20), with which broken links are found; otherwise the " +
		"configuration is refused.",
	"port":              "UDP port of the destinations' path-trace.",
	"namespace":         "IOAM namespace of the probes' traces.",
	"namespace, absent": "the first of namespaces",
	"source":            "Address of this node from which probes are sent.",
	"source, absent":    "the kernel's choice",
	"loopback": "Where probes vanish, also send some with the Loopback flag (RFC 9322 §4): nodes whose namespace has " +
		"loopback return copies, which show how far probes get also where errors about hop limits are filtered.",
	"key-file": "File with the key of path-trace.key-file of the destinations, in hexadecimal digits, mode 0600 or " +
		"stricter.",
	"key-file, absent": "messages are not authenticated",
}

// ProbeDestination is a node that is probed: Address, a host whose name is looked up, or the node to which packets to
// a prefix are tunnelled.
type ProbeDestination struct {
	Name    string
	Address netip.Addr // invalid: that of Host, or of the node behind Prefix
	Host    string
	Prefix  netip.Prefix // invalid: none
}

// NodeBehind is the node to which packets to a prefix are tunnelled from here, by the encapsulation with the longest
// destination that contains it; not valid if there is none.
func (c *Config) NodeBehind(p netip.Prefix) (node netip.Addr) {
	best := -1
	for i := range c.Encapsulations {
		e := &c.Encapsulations[i]
		to := e.Match.Destination
		if e.Tunnel == nil || !to.IsValid() || to.Bits() > p.Bits() || !to.Contains(p.Addr()) || to.Bits() <= best {
			continue
		}
		node, best = e.Tunnel.Destination, to.Bits()
	}
	return node
}

// ProbeTime is an interval or a timeout.
type ProbeTime time.Duration

// ProbeFlows is a number of flows to a destination.
type ProbeFlows int

// ProbeBudget is a number of packets a second.
type ProbeBudget int

const (
	maxProbed       = 1024
	maxProbeFlows   = 64
	maxProbeBudget  = 50_000
	minProbeTime    = 10 * time.Millisecond
	maxProbeTime    = time.Minute
	maxProbeTimeout = 10 * time.Second
	maxProbeWaiting = 256 // intervals of a timeout
)

// hostName is a name that can be looked up (RFC 1123 §2.1).
var hostName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func parseProbeDestination(s string) (d ProbeDestination, err error) {
	name, at, named := strings.Cut(s, "=")
	if !named {
		name, at = "", s
	} else if err := checkPointName(name); err != nil {
		return d, err
	}
	d.Name = name
	if strings.Contains(at, "/") {
		if d.Prefix, err = netip.ParsePrefix(at); err != nil || !d.Prefix.Addr().Is6() || d.Prefix.Addr().Is4In6() {
			return d, fmt.Errorf("%q is no IPv6 prefix", at)
		}
		if d.Prefix != d.Prefix.Masked() {
			return d, problem.New(fmt.Sprintf("%q has bits beyond its length", at), fmt.Sprintf("want %v", d.Prefix.Masked()))
		}
		return d, nil
	}
	if strings.Contains(at, ":") || strings.Trim(at, "0123456789.") == "" {
		d.Address, err = parseNodeAddr(at)
		return d, err
	}
	if !hostName.MatchString(at) || len(at) > 253 {
		return d, fmt.Errorf("%q is neither an address nor the name of a host", at)
	}
	d.Host = at
	return d, nil
}

func formatProbeDestination(d ProbeDestination) string {
	text := d.Host
	if d.Address.IsValid() {
		text = d.Address.String()
	}
	if d.Prefix.IsValid() {
		text = d.Prefix.String()
	}
	if d.Name != "" {
		text = d.Name + "=" + text
	}
	return text
}

func parseProbeTime(s string) (ProbeTime, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time with a unit", s)
	case d < minProbeTime || d > maxProbeTime:
		return 0, fmt.Errorf("%s is not from %v to 1m", s, minProbeTime)
	case d%time.Millisecond != 0:
		return 0, errors.New(s + " is not whole milliseconds")
	}
	return ProbeTime(d), nil
}

func formatProbeTime(d ProbeTime) string { return yamlfile.FormatPeriod(d) }

// SearchRate is how many packets a second are kept for probes whose hop limits end on the way.
func (p *Probes) SearchRate(destinations int) int {
	return max(20, p.perSecond(destinations)/10)
}

// perSecond is how many probes a second go to a number of destinations, rounded up.
func (p *Probes) perSecond(destinations int) int {
	second, interval := int64(time.Second), int64(p.Interval)
	return int((int64(destinations)*int64(p.Flows)*second + interval - 1) / interval)
}

// Arriving is how many probes a second come to one of the nodes that all have this list.
func (p *Probes) Arriving(nodes int) int { return p.perSecond(nodes - 1) }

// probingRules are the rules of probes.
func (c *Config) probingRules(add func(path, problem, cure string)) {
	p := c.Probes
	if p == nil {
		return
	}
	if n := len(p.Destinations); n == 0 || n > maxProbed {
		add(
			"probes.destinations",
			fmt.Sprintf("%d destinations", n),
			fmt.Sprintf("list 1 to %d addresses, names of hosts or prefixes", maxProbed),
		)
		return
	}
	if p.Interval == 0 || p.Timeout == 0 || p.Flows == 0 || p.Budget == 0 { // errors of their own
		return
	}
	p.distinct(add)
	if p.Namespace == nil && len(c.Namespaces) == 0 {
		add("probes.namespace", "the node has no namespaces", "name the namespace of the probes here")
	}
	switch timeout, interval := time.Duration(p.Timeout), time.Duration(p.Interval); {
	case timeout > maxProbeTimeout:
		add("probes.timeout", fmt.Sprintf("%v is too long", timeout), fmt.Sprintf("use at most %v", maxProbeTimeout))
	case timeout/interval > maxProbeWaiting:
		add("probes.timeout", fmt.Sprintf("%v is more than %d intervals of %v", timeout, maxProbeWaiting, interval),
			fmt.Sprintf("use at most %v, or a longer interval", interval*maxProbeWaiting))
	}
	c.probeBudget(add)
}

// distinct refuses two destinations that are one node, or have one name in results.
func (p *Probes) distinct(add func(path, problem, cure string)) {
	seen, named := make(map[ProbeDestination]int), make(map[string]int)
	for i, d := range p.Destinations {
		path, key, name := fmt.Sprintf("probes.destinations[%d]", i), ProbeDestination{Address: d.Address, Host: d.Host, Prefix: d.Prefix}, d.Name
		if name == "" {
			name = formatProbeDestination(d)
		}
		first, same := seen[key]
		other, twice := named[name]
		switch {
		case same:
			add(path, fmt.Sprintf("destinations[%d] is the same node", first), "remove one of them")
		case twice:
			add(path, fmt.Sprintf("destinations[%d] has the name %q, too: results could not tell them apart", other, name),
				"give each its own name: NAME="+formatProbeDestination(key))
		}
		seen[key], named[name] = i, i
	}
}

// probeBudget refuses probes that are more than the budget.
func (c *Config) probeBudget(add func(path, problem, cure string)) {
	p, n := c.Probes, len(c.Probes.Destinations)
	probes, search := p.perSecond(n), p.SearchRate(n)
	if probes+search <= int(p.Budget) {
		return
	}
	destinations := "1 destination"
	if n != 1 {
		destinations = fmt.Sprintf("%d destinations", n)
	}
	most := int(p.Budget) - max(20, int(p.Budget)/11) // what search leaves
	interval := (time.Duration(n*int(p.Flows))*time.Second/time.Duration(max(most,
		1)) + 99*time.Millisecond) / (100 * time.Millisecond) * (100 * time.Millisecond)
	var cures []string
	if interval <= maxProbeTime {
		cures = append(cures, fmt.Sprintf("interval: %v", yamlfile.FormatPeriod(interval)))
	}
	if flows := int64(most) * int64(p.Interval) / int64(time.Second) / int64(n); flows >= 1 {
		cures = append(cures, fmt.Sprintf("flows: %d", flows))
	}
	if probes+search <= maxProbeBudget {
		cures = append(cures, fmt.Sprintf("budget: %d", probes+search))
	}
	cure := "list fewer destinations"
	if len(cures) > 0 {
		cure = "set " + strings.Join(cures, ", or ")
	}
	add("probes.budget", fmt.Sprintf("%s with %d flows every %v are %d probes a second, and %d more packets find broken links: more than %d",
		destinations, p.Flows, time.Duration(p.Interval), probes, search, p.Budget), cure)
}
