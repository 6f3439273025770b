// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
)

// LossShare is a share of lost packets, in millionths.
type LossShare loss.Share

// DelayLimit is a delay of whole microseconds.
type DelayLimit time.Duration

// BlockCount is a number of blocks.
type BlockCount uint

const (
	defaultNoDataAfter = BlockCount(3)
	maxBlocks          = 1000
)

func parseLossShare(s string) (LossShare, error) {
	p, err := parseShareOfAll(s)
	return LossShare(p), err
}

func formatLossShare(s LossShare) string { return loss.Share(s).String() }

func parseDelayLimit(s string) (DelayLimit, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time with a unit", s)
	case d < time.Microsecond || d > model.MaxBlock:
		return 0, fmt.Errorf("%s is not from 1us to %v", s, model.MaxBlock)
	case d%time.Microsecond != 0:
		return 0, fmt.Errorf("%s is not whole microseconds", s)
	}
	return DelayLimit(d), nil
}

func formatDelayLimit(d DelayLimit) string {
	return strings.ReplaceAll(yamlfile.FormatPeriod(d), "\u00b5s", "us")
}

func parseBlockCount(s string) (BlockCount, error) {
	n, err := yamlfile.ParseUint(s, 16)
	if err == nil && n > maxBlocks {
		err = fmt.Errorf("%s is too large", s)
	}
	return BlockCount(n), err
}

// thresholds are those of a flow, and of its node where the flow has none.
func (f Flow) thresholds(m *Measurement) loss.Thresholds {
	if m == nil {
		m = &Measurement{NoDataAfter: defaultNoDataAfter}
	}
	out := loss.Thresholds{MaxLoss: (*loss.Share)(m.MaxLoss), MaxDelay: (*time.Duration)(m.MaxDelay), NoDataAfter: uint(m.NoDataAfter)}
	if f.MaxLoss != nil {
		out.MaxLoss = (*loss.Share)(f.MaxLoss)
	}
	if f.MaxDelay != nil {
		out.MaxDelay = (*time.Duration)(f.MaxDelay)
	}
	if f.NoDataAfter != nil {
		out.NoDataAfter = uint(*f.NoDataAfter)
	}
	return out
}

// thresholdRules are the rules of thresholds.
func (c *Config) thresholdRules(add func(path, problem, cure string)) {
	if c.Measurement != nil {
		c.delayRules("measurement", c.Measurement.MaxDelay, add)
	}
	for i, f := range c.Flows {
		path := fmt.Sprintf("flows[%d]", i)
		c.delayRules(path, f.MaxDelay, add)
		for _, each := range []struct {
			key string
			set bool
		}{{"max-loss", f.MaxLoss != nil}, {"max-delay", f.MaxDelay != nil}, {"no-data-after", f.NoDataAfter != nil}} {
			if each.set && len(f.Points) == 0 {
				add(
					path+"."+each.key,
					"loss and delay of the flow are not computed here: it has no points",
					"remove it, or list points, at the ingress of the path",
				)
			}
		}
	}
}

// delayRules refuses thresholds that no block can be beyond.
func (c *Config) delayRules(path string, limit *DelayLimit, add func(path, problem, cure string)) {
	if limit == nil {
		return
	}
	m := Measurement{}
	if c.Measurement != nil {
		m = *c.Measurement
	}
	node := m.node().WithDefaults()
	guard := node.Guard
	switch path += ".max-delay"; {
	case !m.MeanDelay && m.DelayEven == nil && node.Marking.Delay == nil: // the option has bits for delay marks
		add(path, "no delay is measured", "set mean-delay: true, or delay-even and delay-odd, under measurement, or remove it")
	case time.Duration(*limit) >= guard:
		add(
			path,
			fmt.Sprintf("packets with a delay of %s make blocks uncertain: guard is %v", formatDelayLimit(*limit), guard),
			"use less than guard, or a longer guard under measurement",
		)
	}
}
