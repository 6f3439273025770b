// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"time"

	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
)

// Blocks gives what was counted in a block, for every measured flow. It is final half a
// block after the block's end, and is kept for two blocks and a half after it. If packets of a
// later block have overwritten it before, it is not Complete.
func (d *Datapath) Blocks(block uint64, visit func(measure.BlockCounts)) {
	d.measured.Load().Read(block, d.coverage, visit)
}

// Coverage knows when interfaces at which measured packets may pass were not counted. Who
// notices such a time tells it; blocks that it overlaps are not Complete.
func (d *Datapath) Coverage() *coverage.Log { return d.coverage }

// countedSince notes for a later agent since when packets are counted at all interfaces;
// [coverage.Open]: at some, they are not.
func (d *Datapath) countedSince(at int64) { d.measured.Load().Distrust(uint64(at)) }

// BlockReported notes for a later agent that the loss of a flow's block was reported.
// Flows that are not measured are ignored.
func (d *Datapath) BlockReported(flow string, block uint64) { d.measured.Load().Report(flow, block) }

// WaysOf are the directions in which packets of measured flows are counted at an
// interface: those in which it is a link of the domain.
func WaysOf(i model.Interface) (ways coverage.Ways) {
	return measure.WaysOf(compile.RolesOf(i))
}

// countingAt are the interfaces at which a generation counts, in which directions.
func countingAt(g *compile.Generation) map[model.IfIndex]coverage.Ways {
	all := make(map[model.IfIndex]coverage.Ways)
	if g == nil {
		return all
	}
	for _, in := range g.Interfaces {
		if ways := measure.WaysOf(in.Entry.Roles); ways != 0 {
			all[in.Index] = ways
		}
	}
	return all
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
func (d *Datapath) noteCoverage(before, after *compile.Generation, t *transaction, name func(model.IfIndex) string, noticed time.Time) {
	was, is, now := countingAt(before), countingAt(after), time.Now().UnixNano()
	addGap := func(index model.IfIndex, ways coverage.Ways, why loss.Reasons, from int64) {
		d.coverage.Add(coverage.Gap{Interface: name(index), Ways: ways, Why: why, From: from, To: now})
	}
	for index, ways := range was {
		if is[index] != ways {
			addGap(index, ways|is[index], loss.InterfacesChanged, noticed.UnixNano())
		}
	}
	for index, ways := range is {
		switch {
		case t.lost[index]:
			addGap(index, ways, loss.NotExecuted, min(d.intact.UnixNano(), noticed.UnixNano()))
		case was[index] == 0, t.hooked[index]:
			addGap(index, ways, loss.InterfacesChanged, noticed.UnixNano())
		}
	}
}

// noteInherited does so when an agent begins, for flows that an earlier one had counted. No one
// looked at the hooks since: one without our program, or with ours out of its place, may have
// been so for all that time.
func (d *Datapath) noteInherited(after *compile.Generation, t *transaction, name func(model.IfIndex) string) {
	now := time.Now().UnixNano()
	for index, ways := range countingAt(after) {
		gap := coverage.Gap{Interface: name(index), Ways: ways, Why: loss.InterfacesChanged, To: now}
		if !t.hooked[index] {
			if d.inPlace(d.served[index]) {
				continue
			}
			gap.Why = loss.NotExecuted
		}
		d.coverage.Add(gap)
	}
}

// inPlace reports whether both programs of an interface are on their hooks, in their places.
func (d *Datapath) inPlace(s *served) bool {
	for _, a := range []*attach.Hook{s.ingress, s.egress} {
		if state := a.State(s.place, &d.query, d.programName); !state.Attached || !state.InPlace {
			return false
		}
	}
	return true
}
