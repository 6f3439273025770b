// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"github.com/waymark-net/waymark/internal/ipv6"
	"net/netip"
	"strings"
)

func (c NodeConfig) validateEncapsulations(root faults) {
	if len(c.Encapsulations) > MaxEncapsulations {
		root.as(CodeEncapsulations).add("encapsulations",
			fmt.Sprintf("use at most %d", MaxEncapsulations), "%d encapsulations", len(c.Encapsulations))
		c.Encapsulations = c.Encapsulations[:MaxEncapsulations]
	}
	interfaces := map[IfIndex]Interface{}
	for _, iface := range c.Interfaces {
		interfaces[iface.Index] = iface
	}
	names := map[string]int{}
	for i, e := range c.Encapsulations {
		f := root.in("encapsulations[%d]", i)
		if strings.TrimSpace(e.Name) == "" {
			f.add("name", "give it a name: it appears in status and metrics", "no name")
		} else if j, dup := seen(names, e.Name, i); dup {
			f.add("name", "give each encapsulation its own name", "%q is also the name of encapsulations[%d]", e.Name, j)
		}
		if iface, ok := interfaces[e.Interface]; !ok {
			f.as(CodeInterfaceUnserved).add("interface", "name one that is listed under interfaces", "interface %d is not served", e.Interface)
		} else if iface.Roles&RoleEgress == 0 {
			f.as(CodeNoEgressRole).add("interface", "add egress to its role", "%q lacks the egress role, so no IOAM may leave there", iface.Name)
		}
		e.Match.validate(f.in(".match"))
		e.validateFlows(f)
		e.Frequency.validate(f)
		e.Budget.validate(f)
		e.validateTunnel(f)
		c.validateOptions(f, e)
	}
	c.validateOverlap(root)
}

func (m Match) validate(f faults) {
	for _, p := range []struct {
		field  string
		prefix netip.Prefix
	}{{"destination", m.Destination}, {"source", m.Source}} {
		if address := p.prefix.Addr(); p.prefix.IsValid() && (address.Is4() || address.Is4In6()) {
			f.add(p.field, "use an IPv6 prefix, such as 2001:db8:2::/64", "%v is IPv4", p.prefix)
		}
	}
	if m.FlowLabel != nil && *m.FlowLabel > 0xfffff {
		f.add("flow-label", "use 0…1048575", "%d has more than 20 bits", *m.FlowLabel)
	}
	asksPorts := false
	for _, r := range []struct {
		field string
		ports *PortRange
	}{{"source-port", m.SourcePort}, {"destination-port", m.DestinationPort}} {
		if r.ports == nil || *r.ports == (PortRange{}) {
			continue
		}
		asksPorts = true
		if r.ports.From > r.ports.To {
			f.add(r.field, "put the smaller port first", "%d-%d is empty", r.ports.From, r.ports.To)
		}
	}
	if m.NextHeader != nil && asksPorts && !ipv6.HasPorts(*m.NextHeader) {
		f.add("next-header", "remove the ports, or use 6, 17, 33, 132 or 136",
			"protocol %d has no ports, so no packet matches", *m.NextHeader)
	}
}

func (q Frequency) validate(f faults) {
	if q != (Frequency{}) && (q.K < 1 || q.K > q.N || q.N > MaxFrequency) {
		f.add("frequency", fmt.Sprintf("use k/n with 1 ≤ k ≤ n ≤ %d", MaxFrequency), "%d/%d is not possible", q.K, q.N)
	}
}

func (b Budget) validate(f faults) {
	for _, share := range []struct {
		field string
		value uint32
	}{{"packets", b.Packets}, {"octets", b.Octets}} {
		if share.value > MaxBudget {
			f.in(".budget").add(share.field, "use at most 100%", "a share of %d millionths is not possible", share.value)
		}
	}
}

func (e Encapsulation) validateFlows(f faults) {
	if e.Flows > MaxFrequency {
		f.add("flows", fmt.Sprintf("use 1/n with n ≤ %d", MaxFrequency), "1/%d is not possible", e.Flows)
	}
	for i, o := range e.Options {
		if e.Flows > 1 && o.DirectExport != nil && o.DirectExport.FlowID.Kind == FlowIDFixed {
			f.in(".options[%d]", i).add("flow-id", "use hash or flow-label, or remove flows",
				"one Flow-ID for all packets does not distinguish the 1/%d of the flows that are selected", e.Flows)
		}
	}
}

func (e Encapsulation) validateTunnel(f faults) {
	if e.PathMTU < 0 || int64(e.PathMTU) > 1<<32-1 {
		f.add("path-mtu", "use 1280 or more, or 0 when it is not known", "%d is not a size", e.PathMTU)
	}
	switch e.Mode {
	case ModeInline:
		if e.TunnelSource.IsValid() {
			f.add("tunnel.source", "remove it, or use mode encap or auto", "mode inline has no tunnel")
		}
		if e.TunnelDestination.IsValid() {
			f.add("tunnel.destination", "remove it, or use mode encap or auto", "mode inline has no tunnel")
		}
	case ModeEncap, ModeAuto:
		source := validateTunnelAddress(f, "tunnel.source", e.TunnelSource)
		destination := validateTunnelAddress(f, "tunnel.destination", e.TunnelDestination)
		if source && destination && e.TunnelSource == e.TunnelDestination {
			f.add("tunnel.destination", "name the node that decapsulates", "%v is also the tunnel's source", e.TunnelDestination)
		}
	default:
		f.add("mode", "use inline, encap or auto", "unknown mode %d", e.Mode)
	}
}

// validateOverlap bounds the rules that a lookup may have to compare: all rules
// that contain one address are on one chain of prefixes.
func (c NodeConfig) validateOverlap(root faults) {
	for i, e := range c.Encapsulations {
		count := 0
		for j, other := range c.Encapsulations {
			if other.Interface != e.Interface || !contains(other.Match.Destination, e.Match.Destination) {
				continue
			}
			if j <= i || !contains(e.Match.Destination, other.Match.Destination) {
				count++
			}
		}
		if count > MaxEncapsulationOverlap {
			root.in("encapsulations[%d]", i).as(CodeDestinationOverlap).add("match.destination",
				fmt.Sprintf("at most %d may overlap on one interface", MaxEncapsulationOverlap),
				"%d encapsulations match one destination", count)
		}
	}
}

// contains reports whether every address of the inner prefix is in the outer;
// an invalid prefix has every address.
func contains(outer, inner netip.Prefix) bool {
	switch {
	case !outer.IsValid():
		return true
	case !inner.IsValid():
		return outer.Bits() == 0
	}
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}
