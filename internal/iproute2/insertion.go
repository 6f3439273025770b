// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
)

// encap reads what follows "encap".
func (p *routeParser) encap() error {
	if kind, err := p.nextWord("encap"); err != nil {
		return err
	} else if kind != "ioam6" {
		return problem.New(fmt.Sprintf("encap %s: only ioam6 is supported here", kind), "use 'ip route' for others")
	}
	e := &p.rule
	e.Frequency, e.Flows, e.Mode = model.Frequency{K: 1, N: 1}, 1, model.ModeInline
	var source, destination netip.Addr
	for {
		if !p.more() {
			return errors.New(
				"trace, dex, pot or e2e is missing: end the rule with trace prealloc type TYPE ns ID size BYTES, dex ns ID trace-type " +
					"TYPE, pot ns ID, or e2e ns ID type TYPE",
			)
		}
		word, err := p.once()
		if err != nil {
			return err
		}
		switch word {
		case "freq":
			e.Frequency, err = p.frequency()
		case "flows":
			err = value(p, word, &e.Flows)
		case "budget":
			e.Budget, err = p.budget()
		case "mode":
			e.Mode, err = p.mode()
		case "nested":
			e.Nested = true
		case "tunsrc":
			source, err = p.tunnelAddress(word)
		case "tundst":
			destination, err = p.tunnelAddress(word)
		case "trace", "dex", "pot", "e2e":
			if err := p.options(word); err != nil {
				return err
			}
			return p.tunnel(source, destination)
		default:
			return problem.New(
				fmt.Sprintf("%q: unknown word", word),
				"use freq, flows, budget, mode, nested, tunsrc, tundst, trace, dex, pot or e2e",
			)
		}
		if err != nil {
			return err
		}
	}
}

// insertionWords are the words after the criteria of a rule: what it inserts, and how often.
func insertionWords(e config.Encapsulation) []string {
	words := []string{"encap", "ioam6", "freq", config.FormatText(e.Frequency)}
	if e.Flows > 1 {
		words = append(words, "flows", config.FormatText(e.Flows))
	}
	words = append(words, budgetWords(e.Budget)...)
	words = append(words, "mode", e.Mode.String())
	if e.Nested {
		words = append(words, "nested")
	}
	if e.Tunnel != nil {
		if e.Tunnel.Source.IsValid() {
			words = append(words, "tunsrc", e.Tunnel.Source.String())
		}
		words = append(words, "tundst", e.Tunnel.Destination.String())
	}
	return append(words, allOptionWords(e)...)
}

// insertionOf is all that a rule inserts, and how often.
func insertionOf(e config.Encapsulation) *config.Insertion {
	return &config.Insertion{
		Flows:     e.Flows,
		Frequency: e.Frequency,
		Budget:    e.Budget,
		Mode:      e.Mode,
		Tunnel:    e.Tunnel,
		Nested:    e.Nested,
		Options:   e.Options,
	}
}

func (p *routeParser) frequency() (model.Frequency, error) {
	var none model.Frequency
	word, err := p.nextWord("freq")
	if err != nil {
		return none, err
	}
	first, second, ok := strings.Cut(word, "/")
	if !ok {
		return none, fmt.Errorf("freq %q: want K/N, such as 1/100", word)
	}
	k, err := parseNumber("freq K", first, 32)
	if err != nil {
		return none, err
	}
	n, err := parseNumber("freq N", second, 32)
	if err != nil {
		return none, err
	}
	if k < 1 || k > n || n > model.MaxFrequency {
		return none, fmt.Errorf("freq %s: the first K of every N packets need 1 ≤ K ≤ N ≤ %d", word, model.MaxFrequency)
	}
	return model.Frequency{K: uint32(k), N: uint32(n)}, nil
}

func (p *routeParser) mode() (model.Mode, error) {
	word, err := p.nextWord("mode")
	if err != nil {
		return 0, err
	}
	var mode model.Mode
	if mode.UnmarshalText([]byte(word)) != nil {
		return 0, fmt.Errorf("mode %q: want inline, encap or auto", word)
	}
	return mode, nil
}

func (p *routeParser) tunnelAddress(name string) (netip.Addr, error) {
	word, err := p.nextWord(name)
	if err != nil {
		return netip.Addr{}, err
	}
	addr, err := netip.ParseAddr(word)
	switch {
	case err != nil || addr.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%s %q: want an IPv6 address", name, word)
	case addr.Is4() || addr.Is4In6():
		return netip.Addr{}, problem.New(fmt.Sprintf("%s %s: the tunnel is IPv6-in-IPv6", name, addr), "want an IPv6 address")
	case addr.IsUnspecified() || addr.IsMulticast():
		return netip.Addr{}, fmt.Errorf("%s %s: want the unicast address of a node", name, addr)
	}
	return addr, nil
}

// tunnel checks the addresses against the mode.
func (p *routeParser) tunnel(source, destination netip.Addr) error {
	switch mode := p.rule.Mode; {
	case mode == model.ModeInline && source.IsValid():
		return problem.New("tunsrc: mode inline adds no outer header", "remove it, or use mode encap or auto")
	case mode == model.ModeInline && destination.IsValid():
		return problem.New("tundst: mode inline adds no outer header", "remove it, or use mode encap or auto")
	case mode != model.ModeInline && !destination.IsValid():
		return fmt.Errorf("tundst is missing: mode %s needs the address of the node that decapsulates", mode)
	case destination.IsValid():
		p.rule.Tunnel = &config.Tunnel{Source: source, Destination: destination}
	}
	return nil
}
