// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// Selection selects encapsulations by the fields that are given. An absent field
// selects any.
type Selection struct {
	Name      string     `key:"name" optional:"any"`
	Interface string     `key:"interface" optional:"any"`
	Match     Match      `key:"match"`
	Insertion *Insertion `key:"insertion" optional:"any"`
}

// MarshalJSON writes the selection with the keys of the file.
func (s Selection) MarshalJSON() ([]byte, error) { return marshalJSON(&s) }

// UnmarshalJSON reads a selection as strictly as the file.
func (s *Selection) UnmarshalJSON(data []byte) error { return decodeFragment(data, s) }

// IsEmpty reports whether a selection selects every encapsulation.
func (s Selection) IsEmpty() bool {
	return s.Name == "" && s.Interface == "" && s.Match == (Match{}) && s.Insertion == nil
}

// Selects reports whether an encapsulation agrees with every field that is given.
func (s Selection) Selects(e Encapsulation) bool {
	said, is := s.Match, e.Match
	complete := said
	if !complete.Destination.IsValid() {
		complete.Destination = is.Destination
	}
	return (s.Name == "" || s.Name == e.Name) && (s.Interface == "" || s.Interface == e.Interface) &&
		(!said.Destination.IsValid() || samePrefix(said.Destination, is.Destination)) &&
		(!said.Source.IsValid() || samePrefix(said.Source, is.Source)) &&
		agrees(said.NextHeader, is.NextHeader) && agrees(said.SourcePort, is.SourcePort) && agrees(said.DestinationPort, is.DestinationPort) &&
		agrees(said.TrafficClass, is.TrafficClass) && agrees(said.FlowLabel, is.FlowLabel) &&
		(s.Insertion == nil || s.Insertion.matches(e) && complete.same(is))
}

// agrees reports whether a criterion is the one given, if one is.
func agrees[T comparable](said, is *T) bool { return said == nil || sameValue(said, is) }

func sameValue[T comparable](a, b *T) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

// samePrefix compares prefixes; an absent one and ::/0 are the same.
func samePrefix(a, b netip.Prefix) bool {
	isAny := func(p netip.Prefix) bool { return !p.IsValid() || p.Bits() == 0 }
	return a == b || isAny(a) && isAny(b)
}

// same reports whether two matches select the same packets.
func (m Match) same(other Match) bool {
	return samePrefix(m.Destination, other.Destination) && samePrefix(m.Source, other.Source) &&
		sameValue(
			m.NextHeader,
			other.NextHeader,
		) && sameValue(m.SourcePort, other.SourcePort) && sameValue(m.DestinationPort, other.DestinationPort) &&
		sameValue(m.TrafficClass, other.TrafficClass) && sameValue(m.FlowLabel, other.FlowLabel)
}

// AmbiguousError refuses a change of one encapsulation when several fit.
type AmbiguousError struct{ Fit []Encapsulation }

func (e *AmbiguousError) Error() string {
	names := make([]string, len(e.Fit))
	for i, fit := range e.Fit {
		names[i] = fit.Name
	}
	return fmt.Sprintf("%d encapsulations fit, and nothing was changed; name the one you mean: %s", len(names), strings.Join(names, ", "))
}

// onlyFit is the index of the only encapsulation that fits, -1 if none does.
func (c *Config) onlyFit(fits func(Encapsulation) bool) (int, error) {
	at, list := -1, []Encapsulation(nil)
	for i, e := range c.Encapsulations {
		if fits(e) {
			at, list = i, append(list, e)
		}
	}
	if len(list) > 1 {
		return -1, &AmbiguousError{list}
	}
	return at, nil
}

// Same is the name of the rule that selects the same packets on the same
// interface, "" without one.
func (c *Config) Same(e Encapsulation) (name string, err error) {
	i, err := c.onlyFit(func(other Encapsulation) bool { return other.Interface == e.Interface && other.Match.same(e.Match) })
	if i < 0 {
		return "", err
	}
	return c.Encapsulations[i].Name, nil
}

// Selected is the name of the one rule that s selects, "" without one.
func (c *Config) Selected(s Selection) (name string, err error) {
	i, err := c.onlyFit(s.Selects)
	if i < 0 {
		return "", err
	}
	return c.Encapsulations[i].Name, nil
}
