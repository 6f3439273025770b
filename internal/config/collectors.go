// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

// namedCollector is a collector of the domain and its path in the file.
type namedCollector struct {
	sink.Remote
	path    string
	literal netip.Addr // its host, if that is an address
	others  bool       // this node does not export to it
}

// namedCollectors lists the collectors to which packets may be sent over IPv6, each
// once: this node's own, then those of other nodes.
func (c *Config) namedCollectors() []namedCollector {
	var list []namedCollector
	type flow struct {
		host     string
		port     uint16
		protocol ioam.NextHeader
	}
	seen := map[flow]bool{}
	add := func(n namedCollector) {
		literal, err := netip.ParseAddr(n.Host)
		one := flow{n.Host, n.Port, n.Protocol}
		if n.Host == "" || seen[one] || err == nil && literal.Unmap().Is4() {
			return
		}
		seen[one], n.literal = true, literal
		list = append(list, n)
	}
	for i := range c.Sinks {
		if to := c.Sinks[i].Remote(); to != nil {
			add(namedCollector{Remote: *to, path: fmt.Sprintf("export[%d].address", i)})
		}
	}
	for i, a := range c.Collectors {
		add(namedCollector{Remote: a.Remote(), path: fmt.Sprintf("collectors[%d]", i), others: true})
	}
	return list
}

// CollectorsUnknown reports whether the configuration neither names a collector nor
// says that the domain has none.
func (c *Config) CollectorsUnknown() bool {
	exports := func(e Sink) bool { return e.Remote() != nil }
	return c.Collectors == nil && !slices.ContainsFunc(c.Sinks, exports)
}

// collectorRules refuses more collectors than the data plane can distinguish.
func (c *Config) collectorRules(add func(path, problem, cure string)) {
	if list := c.namedCollectors(); len(list) > model.MaxCollectors {
		add(list[model.MaxCollectors].path, fmt.Sprintf("%d collectors are too many for export and collectors together", len(list)),
			fmt.Sprintf("use at most %d", model.MaxCollectors))
	}
}

// collectors lists the collectors to which packets are sent over IPv6, as far as the
// host knows their addresses: first those of the file, then those to which sinks send
// now, which may be older. Names come last, because they may have more addresses than there
// is room for.
func (c *Config) collectors(h Host) (list []model.Collector, unspared []Unspared) {
	named := c.namedCollectors()
	for _, n := range named {
		if n.literal.IsValid() {
			list = append(list, model.Collector{Address: n.literal.WithZone(""), Port: n.Port, Protocol: n.Protocol})
		}
	}
	for _, to := range h.Peers() {
		if to.Address = to.Address.WithZone(""); to.Address.Is6() && !to.Address.Is4In6() && len(list) < model.MaxCollectors &&
			!slices.Contains(list, to) {
			list = append(list, to)
		}
	}
	for _, n := range named {
		if n.literal.IsValid() {
			continue
		}
		found, left := 0, 0
		for _, a := range h.Addresses(n.Host) {
			to := model.Collector{Address: a.WithZone(""), Port: n.Port, Protocol: n.Protocol}
			switch {
			case !a.Is6() || a.Is4In6():
				continue
			case slices.Contains(list, to):
			case len(list) == model.MaxCollectors:
				left++
			default:
				list = append(list, to)
			}
			found++
		}
		switch {
		case left > 0:
			unspared = append(unspared, Unspared{n.Text,
				fmt.Sprintf("%d of its %d addresses exceed the limit of %d for all collectors together", left, found, model.MaxCollectors)})
		case found == 0 && n.others: // the exporter reports our own
			unspared = append(unspared, Unspared{n.Text, "its name has no IPv6 address now"})
		}
	}
	return list, unspared
}
