// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/config"
)

// RouteName is the name that a rule gets when none is given: what it selects
// by, so that rules that differ in it have different names.
func RouteName(e config.Encapsulation) string {
	words := append([]string{"route", prefixWord(e.Match.Destination), e.Interface}, criteria(e.Match)...)
	return strings.NewReplacer(":", "-", "/", "_").Replace(strings.Join(words, "-"))
}

// FormatRoute writes a rule as the words that add it, quoted for a shell.
func FormatRoute(e config.Encapsulation) string {
	words := append([]string{prefixWord(e.Match.Destination)}, criteria(e.Match)...)
	words = append(words, "encap", "ioam6", "freq", config.FormatText(e.Frequency))
	if e.Flows > 1 {
		words = append(words, "flows", config.FormatText(e.Flows))
	}
	words = append(words, "mode", e.Mode.String())
	if e.Tunnel != nil {
		if e.Tunnel.Source.IsValid() {
			words = append(words, "tunsrc", e.Tunnel.Source.String())
		}
		words = append(words, "tundst", e.Tunnel.Destination.String())
	}
	words = append(words, allOptionWords(e)...)
	words = append(words, "dev", e.Interface)
	if e.Name != RouteName(e) {
		words = append(words, "name", e.Name)
	}
	return shell(words)
}

// FormatSelection writes the words by which del finds a rule and no other,
// quoted for a shell.
func FormatSelection(e config.Encapsulation) string {
	words := append([]string{prefixWord(e.Match.Destination)}, criteria(e.Match)...)
	return shell(append(words, "dev", e.Interface, "name", e.Name))
}

func prefixWord(p netip.Prefix) string {
	if !p.IsValid() || p.Bits() == 0 {
		return "default"
	}
	return p.String()
}

// criteria are the words for what a rule selects by besides the destination,
// those of "ip rule".
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

// shell joins words to what a shell splits into the same words.
func shell(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; w == "" || strings.Trim(w, plain) != "" {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// plain are the characters that no shell treats as special.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-"

// Selects says whether del and show mean a rule: everything that was said of
// it must agree. Who says the encapsulation too says all that there is.
func (c RouteCommand) Selects(e config.Encapsulation) bool {
	said, m := c.Rule.Match, e.Match
	if said.Destination.IsValid() && prefixWord(said.Destination) != prefixWord(m.Destination) {
		return false
	}
	if said.Source.IsValid() && said.Source != m.Source ||
		!agrees(said.NextHeader, m.NextHeader) || !agrees(said.SourcePort, m.SourcePort) || !agrees(said.DestinationPort, m.DestinationPort) ||
		!agrees(said.TrafficClass, m.TrafficClass) || !agrees(said.FlowLabel, m.FlowLabel) {
		return false
	}
	return (c.Rule.Name == "" || c.Rule.Name == e.Name) && (c.Rule.Interface == "" || c.Rule.Interface == e.Interface) &&
		(c.Rule.Options == nil || sameEncap(c.Rule, e) && reflect.DeepEqual(criteria(said), criteria(m)))
}

// SameKey says whether a rule selects the same packets on the same interface:
// what replace overwrites.
func SameKey(a, b config.Encapsulation) bool {
	return a.Interface == b.Interface && prefixWord(a.Match.Destination) == prefixWord(b.Match.Destination) &&
		reflect.DeepEqual(criteria(a.Match), criteria(b.Match))
}

// agrees says whether a criterion is what was said of it, if anything was.
func agrees[T comparable](said, is *T) bool {
	return said == nil || is != nil && *said == *is
}

// sameEncap compares what follows "encap"; the tunnel's source counts only
// when it was said.
func sameEncap(said, e config.Encapsulation) bool {
	if said.Frequency != e.Frequency || max(said.Flows, 1) != max(e.Flows, 1) || said.Mode != e.Mode || (said.Tunnel == nil) != (e.Tunnel == nil) ||
		!slices.Equal(allOptionWords(said), allOptionWords(e)) {
		return false
	}
	return said.Tunnel == nil || said.Tunnel.Destination == e.Tunnel.Destination &&
		(!said.Tunnel.Source.IsValid() || said.Tunnel.Source == e.Tunnel.Source)
}
