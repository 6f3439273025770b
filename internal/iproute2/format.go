// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/shellword"
)

// RouteName is the name of a rule when none is given. It is made of the rule's
// criteria, so that rules with different criteria have different names.
func RouteName(e config.Encapsulation) string {
	words := append([]string{"route", prefixWord(e.Match.Destination), e.Interface}, criteria(e.Match)...)
	return strings.NewReplacer(":", "-", "/", "_").Replace(strings.Join(words, "-"))
}

// FormatRoute writes a rule as the words that add it, quoted for a shell.
func FormatRoute(e config.Encapsulation) string {
	words := append([]string{prefixWord(e.Match.Destination)}, criteria(e.Match)...)
	words = append(words, insertionWords(e)...)
	words = append(words, "dev", e.Interface)
	if e.Name != RouteName(e) {
		words = append(words, "name", e.Name)
	}
	return shellword.Join(words)
}

// FormatSelection writes the words by which del finds exactly one rule,
// quoted for a shell.
func FormatSelection(e config.Encapsulation) string {
	words := append([]string{prefixWord(e.Match.Destination)}, criteria(e.Match)...)
	return shellword.Join(append(words, "dev", e.Interface, "name", e.Name))
}

func prefixWord(p netip.Prefix) string {
	if !p.IsValid() || p.Bits() == 0 {
		return "default"
	}
	return p.String()
}

// criteria are the words of "ip rule" for a rule's criteria except the destination.
func criteria(m config.Match) []string {
	var words []string
	if m.Source.IsValid() && m.Source.Bits() > 0 {
		words = append(words, "from", m.Source.String())
	}
	if m.TrafficClass != nil {
		words = append(words, "tos", fmt.Sprintf("0x%02x", uint8(*m.TrafficClass)))
	}
	if m.NextHeader != nil {
		words = append(words, "ipproto", config.FormatText(*m.NextHeader))
	}
	if m.SourcePort != nil {
		words = append(words, "sport", config.FormatText(*m.SourcePort))
	}
	if m.DestinationPort != nil {
		words = append(words, "dport", config.FormatText(*m.DestinationPort))
	}
	if m.FlowLabel != nil {
		words = append(words, "flowlabel", fmt.Sprintf("0x%05x", uint32(*m.FlowLabel)))
	}
	return words
}

// Selection is what del and show select by: everything given for a rule. A command that
// includes an encapsulation gives it completely.
func (c RouteCommand) Selection() config.Selection {
	e := c.Rule
	s := config.Selection{Name: e.Name, Interface: e.Interface, Match: e.Match}
	if e.Options != nil {
		s.Insertion = insertionOf(e)
	}
	return s
}
