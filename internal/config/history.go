// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/waymark-net/waymark/internal/yamlfile"
)

// History is what the agent keeps of the last time.
type History struct {
	Keep     yamlfile.Period `key:"keep" default:"1h"`
	Rate     HistoryRate     `key:"rate" default:"200"`
	Prefixes []NamedPrefix   `key:"prefixes" default:"[]"`
}

// NamedPrefix is a prefix with a name.
type NamedPrefix struct {
	Name   string       `key:"name" required:"true"`
	Prefix netip.Prefix `key:"prefix" required:"true"`
}

// historyTexts say what the keys of history mean.
var historyTexts = yamlfile.KeyTexts{
	"keep": `For how long rollups of ten seconds are kept, for "waymark top" and alike, as far as they fit into 8 MiB, ` +
		"compressed.",
	"rate": "How many records per second the node makes at most for the history alone, when no sink, observer or " +
		`"waymark top" wants any: a tenth of them in each tenth of a second, of the first packets whose traces end ` +
		"here; all others are treated as if no record was wanted. With 0, the history has only times in which " +
		"something else wanted records. Nodes that report Direct Exports (namespaces.export) never make any for it.",
	"prefixes": "Names of prefixes, between which the history groups packets, the longest one first; other addresses " +
		"are grouped by their /64. At most 64.",
	"prefixes[].name":   "The name, 1 to 32 characters without = and spaces.",
	"prefixes[].prefix": "An IPv6 prefix.",
}

// HistoryRate is a number of records per second.
type HistoryRate uint32

const (
	// defaultHistoryRate gives 2000 records for each interval.
	defaultHistoryRate = 200
	// MaxHistoryRate is what the history takes at most.
	MaxHistoryRate = 100_000
	// maxNamedPrefixes bounds what each new address is compared with.
	maxNamedPrefixes = 64
	maxPrefixName    = 32
)

// Kept is what the agent keeps: as configured, or the defaults.
func (c *Config) Kept() History {
	if c.History == nil {
		return History{Keep: yamlfile.Period(time.Hour), Rate: defaultHistoryRate}
	}
	return *c.History
}

func (c *Config) historyRules(add func(path, problem, cure string)) {
	if c.History == nil {
		return
	}
	seen := make(map[string]bool)
	if n := len(c.History.Prefixes); n > maxNamedPrefixes {
		add("history.prefixes", fmt.Sprintf("%d prefixes", n), fmt.Sprintf("name at most %d", maxNamedPrefixes))
	}
	for i, p := range c.History.Prefixes {
		path := fmt.Sprintf("history.prefixes[%d].name", i)
		switch {
		case !ValidPrefixName(p.Name):
			add(path, fmt.Sprintf("%q", p.Name), fmt.Sprintf("write 1 to %d printable characters without = and spaces", maxPrefixName))
		case seen[p.Name]:
			add(path, fmt.Sprintf("%q is there twice", p.Name), "give each prefix its own name")
		}
		seen[p.Name] = true
	}
}

// ValidPrefixName reports whether a prefix may have that name.
func ValidPrefixName(name string) bool {
	return name != "" && name != "other" && len(name) <= maxPrefixName &&
		!strings.ContainsFunc(name, func(r rune) bool { return r == '=' || unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

func parseHistoryRate(s string) (HistoryRate, error) {
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil || n > MaxHistoryRate {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", s, MaxHistoryRate)
	}
	return HistoryRate(n), nil
}
