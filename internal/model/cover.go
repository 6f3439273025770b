// SPDX-License-Identifier: Apache-2.0

package model

import "net/netip"

// Shadowed gives, for each encapsulation that no packet can get, the number of the one
// before it that matches all of its packets: among rules with equal destinations, the
// first that matches applies, also when it does not select the packet.
func (c NodeConfig) Shadowed() map[int]int {
	type chain struct {
		device      IfIndex
		destination netip.Prefix
	}
	out, before := make(map[int]int), make(map[chain][]int)
	for i, e := range c.Encapsulations {
		at := chain{e.Interface, e.Match.Destination}
		if !at.destination.IsValid() {
			at.destination = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		for _, j := range before[at] {
			if c.Encapsulations[j].Match.covers(e.Match) {
				out[i] = j
				break
			}
		}
		before[at] = append(before[at], i)
	}
	return out
}

// covers reports whether every packet with the destination that the other matches is
// matched, too.
func (m Match) covers(other Match) bool {
	return contains(m.Source, other.Source) && equals(m.NextHeader, other.NextHeader) &&
		equals(m.TrafficClass, other.TrafficClass) && equals(m.FlowLabel, other.FlowLabel) &&
		m.SourcePort.covers(other.SourcePort) && m.DestinationPort.covers(other.DestinationPort)
}

// equals reports whether a criterion is absent, or the same as another.
func equals[T comparable](criterion, other *T) bool {
	return criterion == nil || other != nil && *criterion == *other
}

func (r *PortRange) covers(other *PortRange) bool {
	switch {
	case r == nil || *r == (PortRange{}):
		return true
	case other == nil || *other == (PortRange{}): // also packets without ports
		return false
	}
	return r.From <= other.From && other.To <= r.To
}
