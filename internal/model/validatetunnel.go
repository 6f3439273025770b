// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net/netip"
)

func (c NodeConfig) validateDecapsulations(root faults) {
	if len(c.Decapsulations) > MaxDecapsulations {
		root.as(CodeDecapsulations).add("decapsulations",
			fmt.Sprintf("use at most %d", MaxDecapsulations), "%d decapsulations", len(c.Decapsulations))
		c.Decapsulations = c.Decapsulations[:MaxDecapsulations]
	}
	destinations := map[netip.Addr]int{}
	for i, d := range c.Decapsulations {
		f := root.in("decapsulations[%d]", i)
		if !validateTunnelAddress(f, "tunnel-destination", d.TunnelDestination) {
			continue
		}
		if j, dup := seen(destinations, d.TunnelDestination, i); dup {
			f.add("tunnel-destination", "list each address once", "%v is also in decapsulations[%d]", d.TunnelDestination, j)
		}
		d.validateSources(f)
	}
}

func (d Decapsulation) validateSources(f faults) {
	if d.Sources != nil && len(d.Sources) == 0 {
		f.add("sources", "list the prefixes of the encapsulating nodes, or remove it", "no source is listed, so no packet would be decapsulated")
	}
	if len(d.Sources) > MaxTunnelSources {
		f.add("sources", fmt.Sprintf("use at most %d, which may be shorter prefixes", MaxTunnelSources), "%d prefixes", len(d.Sources))
	}
	for i, source := range d.Sources {
		f := f.in(".sources[%d]", i)
		if address := source.Addr(); !source.IsValid() || address.Is4() || address.Is4In6() {
			f.add("", "use an IPv6 prefix, such as 2001:db8:ff::/48", "%v is not an IPv6 prefix", source)
		}
	}
}

func (c NodeConfig) validateTunnelDestinations(root faults) {
	if len(c.TunnelDestinations) > MaxTunnelDestinations {
		root.add("tunnel-destinations", fmt.Sprintf("use at most %d", MaxTunnelDestinations), "%d tunnel destinations", len(c.TunnelDestinations))
		c.TunnelDestinations = c.TunnelDestinations[:MaxTunnelDestinations]
	}
	before := map[netip.Addr]int{}
	for i, a := range c.TunnelDestinations {
		field := fmt.Sprintf("tunnel-destinations[%d]", i)
		if !validateTunnelAddress(root, field, a) {
			continue
		}
		if j, dup := seen(before, a, i); dup {
			root.add(field, "list each address once", "%v is also tunnel-destinations[%d]", a, j)
		}
	}
}

// validateTunnelAddress checks an end of an IPv6-in-IPv6 tunnel.
func validateTunnelAddress(f faults, field string, address netip.Addr) bool {
	const cure = "use a unicast IPv6 address, such as 2001:db8:3::1"
	switch {
	case !address.IsValid():
		f.add(field, cure, "no address")
	case address.Is4() || address.Is4In6():
		f.add(field, cure, "%v is an IPv4 address", address)
	case address.IsUnspecified():
		f.add(field, cure, "%v is the unspecified address", address)
	case address.IsLoopback():
		f.add(field, cure, "%v is the loopback address", address)
	case address.IsMulticast():
		f.add(field, cure, "%v is a multicast address", address)
	case address.IsLinkLocalUnicast():
		f.add(field, "use an address that is valid beyond the link, such as 2001:db8:3::1", "%v is a link-local address", address)
	case address.Zone() != "":
		f.add(field, "remove the part after %", "%v has a zone", address)
	default:
		return true
	}
	return false
}
