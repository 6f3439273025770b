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
// than before, since a change was noticed.
func (d *Datapath) noteCoverage(before, after *generation, t *transaction, name func(model.IfIndex) string, noticed time.Time) {
	was, is, now := before.counting(), after.counting(), time.Now().UnixNano()
	note := func(index model.IfIndex, ways coverage.Ways, why loss.Reasons, from int64) {
		d.coverage.Note(coverage.Gap{Interface: name(index), Ways: ways, Why: why, From: from, To: now})
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

// noteInherited does so when an agent begins, for flows that an earlier one had counted. No one
// looked at the hooks since: one without our program, or with ours out of its place, may have
// been so for all that time.
func (d *Datapath) noteInherited(after *generation, t *transaction, name func(model.IfIndex) string) {
	now := time.Now().UnixNano()
	for index, ways := range after.counting() {
		gap := coverage.Gap{Interface: name(index), Ways: ways, Why: loss.InterfacesChanged, To: now}
		if !t.hooked[index] {
			if d.inPlace(d.served[index]) {
				continue
			}
			gap.Why = loss.NotExecuted
		}
		d.coverage.Note(gap)
	}
}

// inPlace reports whether both programs of an interface are on their hooks, in their places.
func (d *Datapath) inPlace(s *served) bool {
	for _, a := range []*attachment{s.ingress, s.egress} {
		if state := a.state(s.place, &d.query, d.programName); !state.Attached || !state.InPlace {
			return false
		}
	}
	return true
}
