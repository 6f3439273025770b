// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/waymark-net/waymark/internal/insight"
)

// mostTopQueues are the queues that top shows, those with the longest waits.
const mostTopQueues = 4

var queueColumns = []topColumn{
	{name: "QUEUES HERE", left: true, want: 24, least: 12}, {name: "PACKETS", order: 2}, {name: "p50", order: 1}, {name: "p95", order: 4},
	{name: "p99", order: 0}, {name: "max", order: 3}, {name: "DROPPED", order: 0},
}

// queueLines are what packets waited in this node's queues, of interfaces that have packets.
func (s topStyle) queueLines(q *insight.Queues) []string {
	if q == nil {
		return nil
	}
	var rows [][]string
	for _, one := range q.Interfaces {
		if len(rows) == mostTopQueues || one.Waits == nil && one.Dropped == 0 {
			continue
		}
		packets := "-"
		if one.Waits != nil {
			packets = fmt.Sprint(one.Waits.Count)
		}
		rows = append(rows, []string{s.safe(one.Interface), packets, s.quantile(one.Waits, p50), s.quantile(one.Waits, p95),
			s.quantile(one.Waits, p99), s.quantile(one.Waits, longest), fmt.Sprint(one.Dropped)})
	}
	if len(rows) == 0 {
		return nil
	}
	return append([]string{""}, s.table("", queueColumns, rows)...)
}
