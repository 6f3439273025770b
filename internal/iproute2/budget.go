// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"errors"
	"fmt"

	"github.com/waymark-net/waymark/internal/config"
)

// budget reads what follows "budget": packets SHARE, octets SHARE, or both.
func (p *routeParser) budget() (*config.Budget, error) {
	b := &config.Budget{}
	for {
		var share *config.Percent
		word := p.peek()
		switch word {
		case "packets":
			share = &b.Packets
		case "octets":
			share = &b.Octets
		default:
			if *b == (config.Budget{}) {
				return nil, errors.New("budget: want packets SHARE or octets SHARE, such as budget packets 1%")
			}
			return b, nil
		}
		if *share != 0 {
			return nil, fmt.Errorf("budget %s: given twice", word)
		}
		if _, err := p.nextWord(word); err != nil {
			return nil, err
		}
		if err := value(p, "budget "+word, share); err != nil {
			return nil, err
		}
	}
}

// budgetWords are the words that set a budget.
func budgetWords(b *config.Budget) []string {
	if b == nil || *b == (config.Budget{}) {
		return nil
	}
	words := []string{"budget"}
	if b.Packets != 0 {
		words = append(words, "packets", config.FormatText(b.Packets))
	}
	if b.Octets != 0 {
		words = append(words, "octets", config.FormatText(b.Octets))
	}
	return words
}
