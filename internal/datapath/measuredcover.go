// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
)

// WaysOf are the directions in which packets of measured flows are counted at an
// interface: those in which it is a link of the domain.
func WaysOf(i model.Interface) (ways coverage.Ways) {
	return waysOf(compileInterface(i, device{}).Roles)
}

func waysOf(roles uint8) (ways coverage.Ways) {
	if roles&uint8(abiOutsideOUTSIDE_INGRESS) == 0 {
		ways |= coverage.Arrivals
	}
	if roles&uint8(abiOutsideOUTSIDE_EGRESS) == 0 {
		ways |= coverage.Departures
	}
	return ways
}

// way is the direction in which packets of a flow are counted.
func (s *selectedFlow) way() coverage.Ways {
	if s.direction == uint32(abiDirectionDIRECTION_OUT) {
		return coverage.Departures
	}
	return coverage.Arrivals
}

// counting are the interfaces at which a generation counts, in which directions.
func (g *generation) counting() map[model.IfIndex]coverage.Ways {
	all := make(map[model.IfIndex]coverage.Ways)
	if g == nil {
		return all
	}
	for _, in := range g.interfaces {
		if ways := waysOf(in.entry.Roles); ways != 0 {
			all[in.index] = ways
		}
	}
	return all
}

// servedDigest tells sets of interfaces at which packets are counted apart. It is not 0.
func (g *generation) servedDigest() uint32 {
	h, all := fnv.New32a(), g.counting()
	indexes := make([]model.IfIndex, 0, len(all))
	for index := range all {
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	for _, index := range indexes {
		var b [5]byte
		binary.NativeEndian.PutUint32(b[:], uint32(index))
		b[4] = byte(all[index])
		_, _ = h.Write(b[:])
	}
	return h.Sum32() | 1
}

// names are those of the served interfaces.
func (d *Datapath) names() map[model.IfIndex]string {
	all := make(map[model.IfIndex]string, len(d.served))
	for index, s := range d.served {
		all[index] = s.name
	}
	return all
}

// noteCoverage tells the log at which interfaces packets were not counted, or otherwise
// than before, since a change was noticed. Of the time before this agent, nothing is known
// but what an earlier one left attached.
func (d *Datapath) noteCoverage(before, after *generation, t *transaction, name func(model.IfIndex) string, noticed time.Time) {
	was, is, now := before.counting(), after.counting(), time.Now().UnixNano()
	note := func(index model.IfIndex, ways coverage.Ways, why loss.Reasons, from int64) {
		d.coverage.Note(coverage.Gap{Interface: name(index), Ways: ways, Why: why, From: from, To: now})
	}
	if before == nil {
		for index := range t.hooked {
			if d.recovered { // else all flows begin anew
				note(index, is[index], loss.InterfacesChanged, 0)
			}
		}
		return
	}
	for index, ways := range was {
		if is[index] != ways {
			note(index, ways|is[index], loss.InterfacesChanged, noticed.UnixNano())
		}
	}
	for index, ways := range is {
		switch {
		case t.lost[index]:
			note(index, ways, loss.NotExecuted, min(d.intact.UnixNano(), noticed.UnixNano()))
		case was[index] == 0, t.hooked[index]:
			note(index, ways, loss.InterfacesChanged, noticed.UnixNano())
		}
	}
}
