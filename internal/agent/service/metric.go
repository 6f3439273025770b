// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"

	"github.com/waymark-net/waymark/internal/metrics"
)

// Metric describes a metric of the agent.
func Metric(name, help string, labels ...string) *metrics.Desc {
	return &metrics.Desc{Name: "waymark_" + name, Help: help, Labels: labels}
}

// CountsByName gives counts their names, without zeros.
func CountsByName[T interface {
	~uint8 | ~int
	fmt.Stringer
}](counts []uint64) map[string]uint64 {
	out := map[string]uint64{}
	for i, n := range counts {
		if n > 0 {
			out[T(i).String()] = n
		}
	}
	return out
}
