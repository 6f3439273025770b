// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"slices"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
)

// clockNear is how far from a packet's time a record of the node's clock may be.
const clockNear = 10 * time.Minute

// clockError is the greatest error of a node's clock in one minute, as it said itself.
type clockError struct {
	minute time.Time
	ns     uint64
}

// addClockErrors says of each node how wrong its clock was near the packet's time, as far as records of blocks and of
// delays say it: nodes export blocks themselves, and delays come from the ingress of a flow, which names its points. Nodes
// are told apart by name: these records have no other identity of theirs.
func addClockErrors(ctx context.Context, r *store.Reading, packets []Packet) error {
	from, until := packets[0].Time.Time, packets[0].Time.Time
	for i := range packets {
		if at := packets[i].Time.Time; at.Before(from) {
			from = at
		} else if at.After(until) {
			until = at
		}
	}
	p := &parameters{}
	where := " WHERE time >= " + p.add(
		from.Add(-clockNear).UTC(),
	) + "::TIMESTAMP_NS AND time <= " + p.add(
		until.Add(clockNear).UTC(),
	) + "::TIMESTAMP_NS AND "
	query := "SELECT node, date_trunc('minute', time::TIMESTAMP) AS minute, max(ns)::UBIGINT FROM (" +
		store.Union(
			r.Files,
			"SELECT node, time, clock_error_ns AS ns FROM FILE(block)"+where+"node IS NOT NULL AND clock_error_ns IS NOT NULL",
		) + "\nUNION ALL " +
		store.Union(
			r.Files,
			"SELECT from_node, time, from_clock_error_ns FROM FILE(delay)"+where+"from_node IS NOT NULL AND from_clock_error_ns IS NOT NULL",
		) + "\nUNION ALL " +
		store.Union(
			r.Files,
			"SELECT to_node, time, to_clock_error_ns FROM FILE(delay)"+where+"to_node IS NOT NULL AND to_clock_error_ns IS NOT NULL",
		) +
		") GROUP BY node, minute ORDER BY minute LIMIT " + p.add(mostNames)
	known := map[string][]clockError{}
	err := rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		var node string
		var e clockError
		err := scan(&node, &e.minute, &e.ns)
		known[node] = append(known[node], e)
		return err
	})
	if err != nil || len(known) == 0 {
		return err
	}
	for i := range packets {
		at := packets[i].Time.Time
		for k := range packets[i].Nodes {
			n := &packets[i].Nodes[k]
			if e := nearest(known[n.Name], at); n.Name != "" && e != nil {
				minute := instant.Of(e.minute)
				n.ClockError, n.ClockErrorAt = &e.ns, &minute
			}
		}
	}
	return nil
}

// nearest is the error of the minute nearest to a time; nil: none is near. The list is in order.
func nearest(list []clockError, at time.Time) *clockError {
	minute := at.Truncate(time.Minute)
	i, _ := slices.BinarySearchFunc(list, minute, func(e clockError, t time.Time) int { return e.minute.Compare(t) })
	var best *clockError
	for k := max(i-1, 0); k < min(i+1, len(list)); k++ {
		if best == nil || list[k].minute.Sub(minute).Abs() < best.minute.Sub(minute).Abs() {
			best = &list[k]
		}
	}
	if best == nil || best.minute.Sub(minute).Abs() > clockNear {
		return nil
	}
	return best
}
