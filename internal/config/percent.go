// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
)

// Percent is a share in millionths, 0 for none.
type Percent uint32

// parsePercent reads a share that is not 0.
func parsePercent(s string) (Percent, error) {
	p, err := parseShareOfAll(s)
	if err == nil && p == 0 {
		err = fmt.Errorf("%s is not possible", s)
	}
	return p, err
}

// parseShareOfAll reads a decimal number with up to four digits after the point.
func parseShareOfAll(s string) (Percent, error) {
	digits, ok := strings.CutSuffix(s, "%")
	whole, fraction, point := strings.Cut(digits, ".")
	if !ok || whole == "" || point && fraction == "" || len(whole) > 3 || len(fraction) > 4 {
		return 0, fmt.Errorf("%q is not a percentage with up to four digits after the point", s)
	}
	n, err := strconv.ParseUint(whole+fraction+"0000"[len(fraction):], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a percentage", s)
	}
	if n > model.MaxBudget {
		return 0, fmt.Errorf("%s is not possible", s)
	}
	return Percent(n), nil
}

func formatPercent(p Percent) string { return loss.Share(p).String() }
