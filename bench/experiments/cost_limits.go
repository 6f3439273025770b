// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// costLimit is what may keep a case with an aim from it, as far as it is measured alone:
// a call that no program with this outcome can avoid, or a smaller case of the same.
func costLimit(c costCase) *report.Limit {
	alone := func(name string) report.Reference { return figuresOf("parts", ofPart(name))[0] }
	switch c.outcome {
	case model.OutcomeEncapInserted, model.OutcomeEncapTunneled:
		l := &report.Limit{Why: "room for the header, made by the helper `bpf_skb_adjust_room`", Floor: alone(partEgressGrow)}
		l.Ours = figuresOf("parts", ofPart(partEgressMatch))
		if c.detail == oneTrace {
			l.Ours = append(l.Ours, figuresOf("parts", ofPart(partEgressInsert))...)
		}
		return l
	case model.OutcomePotUpdated:
		return &report.Limit{Why: "the walk to an option, of which nothing is read", Floor: alone(partHeader)}
	}
	switch {
	case c.detail == largestHeaderAtHook && c.hook == datapath.HookEgressTC:
		return &report.Limit{Why: "one of the nine traces, alone", Floor: alone(partComplete)}
	case c.detail == largestHeaderAtHook:
		return &report.Limit{Why: "one of the nine traces, alone", Floor: alone(partTrace)}
	case c.hook == datapath.HookEgressTC:
		return &report.Limit{Why: "a look at the link and IPv6 header", Floor: alone(partEgressParse)}
	case c.aim == timedAim:
		return &report.Limit{Why: "a reading of the clock (`bpf_ktime_get_tai_ns`), and another field", Floor: alone(partClock)}
	}
	return &report.Limit{Why: "a look at the link and IPv6 header", Floor: alone(partParse)}
}
