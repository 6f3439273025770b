// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"fmt"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// threshold is what flows may be beyond, with its warning.
type threshold struct {
	code    health.Code
	beyond  func(loss.Crossings) bool
	warning func(*comparedFlow, loss.Thresholds) health.Warning
}

var thresholds = [...]threshold{
	{health.FlowLossHigh, func(c loss.Crossings) bool { return c.Loss }, (*comparedFlow).lossWarning},
	{health.FlowDelayHigh, func(c loss.Crossings) bool { return c.Delay }, (*comparedFlow).delayWarning},
	{health.FlowDuplicated, func(c loss.Crossings) bool { return c.Duplicated }, (*comparedFlow).duplicatesWarning},
}

// result gives out the records of a block, and after them what changed: whether the flow is
// beyond a threshold.
func (b *blocks) result(f *comparedFlow, r *loss.Result) {
	list := record.NewResults(record.Measurement{Time: instant.Of(time.Now()), Flow: f.key.name, Source: f.source, SIDs: f.sids}, r)
	if w := b.selects(f, r); w != nil {
		list = append(list, w)
	}
	if f.watch != nil {
		before := f.watch.Beyond()
		block := f.watch.AddResult(r)
		var codes [len(thresholds)]string
		for i, t := range thresholds {
			if t.beyond(block) {
				codes[i] = string(t.code)
			}
			switch was, is := t.beyond(before), t.beyond(f.watch.Beyond()); {
			case is && !was:
				w := t.warning(f, b.accepted)
				list = append(list, f.warns(t.code, true, w.Text, w.Cure))
				b.beyond[i]++
			case was && !is:
				now := " is within its threshold again"
				if r.Whole.Verdict == loss.Idle {
					now = " has no packets any more"
				}
				list = append(list, f.warns(t.code, false, "flow "+f.name()+now, ""))
				b.beyond[i]--
			}
		}
		record.SetWarnings(list, cmp.Or(codes[0], codes[2]), codes[1])
	}
	for _, each := range list {
		b.emit(each)
	}
}

// farewell is why a flow is no longer compared, which says nothing about its loss and delay.
type farewell struct{ facts, cure string }

var (
	evicted = farewell{"made room for others in this collector's memory", "let another collector take some of the flows"}
	silent  = farewell{
		fmt.Sprintf("has not been reported by any of its nodes for %d blocks", idleBlocks),
		"if it was not removed there, look whether these nodes run and export",
	}
	otherGuard = farewell{"is compared anew, because its ingress has another guard", "wait for its next blocks"}
)

// end takes back the warnings of a flow that is no longer compared.
func (b *blocks) end(f *comparedFlow, why farewell) {
	if f.unlike != nil {
		b.emit(
			f.warns(
				health.SelectionsDiffer,
				false,
				"it is not known whether the nodes of flow "+f.name()+" still select different packets: it "+why.facts,
				why.cure,
			),
		)
	}
	if f.watch == nil {
		return
	}
	for i, t := range thresholds {
		if t.beyond(f.watch.Beyond()) {
			b.emit(f.warns(t.code, false, "it is not known whether flow "+f.name()+" is still beyond its threshold: it "+why.facts, why.cure))
			b.beyond[i]--
		}
	}
}

// warns is the record of a warning, or of its end.
func (f *comparedFlow) warns(code health.Code, beyond bool, facts, cure string) *record.Warning {
	return &record.Warning{
		Time:   instant.Of(time.Now()),
		Code:   string(code),
		Flow:   f.key.name,
		FlowID: f.number,
		Beyond: beyond,
		Facts:  facts,
		Cure:   cure,
	}
}

// name is the flow's name, or number, in a text.
func (f *comparedFlow) name() string {
	return cmp.Or(record.Printable(f.key.name), fmt.Sprint(f.number))
}

func (f *comparedFlow) about(s *loss.Stretch) health.FlowBlocks {
	return health.FlowBlocks{
		Flow:    f.name(),
		First:   time.Unix(0, s.First),
		Last:    time.Unix(0, s.Last.Start),
		Count:   s.Blocks,
		Results: "the records of each block show each segment",
	}
}

// between names a part of a way.
func between(from, to loss.PointID) string {
	return fmt.Sprintf("between points %d and %d", from, to)
}

func (f *comparedFlow) lossWarning(accepted loss.Thresholds) health.Warning {
	s := f.watch.Loss()
	where := "the points between do not say where"
	if worst, n := s.Last.WorstSegment(); worst != nil {
		where = fmt.Sprintf("%d of them %s", n, between(worst.From.Point, worst.To.Point))
	}
	p := &s.Last.Whole.Packets
	return health.FlowLoss(f.about(s), p.LeastLost().Value, p.Sent.Value, !p.Lost.Known, accepted.MaxLoss.String(), where)
}

func (f *comparedFlow) duplicatesWarning(loss.Thresholds) health.Warning {
	s := f.watch.Duplicated()
	where := "the points between do not say where"
	if worst, n := s.Last.MostDuplicates(); worst != nil {
		where = fmt.Sprintf("%d more came than were sent %s", n, between(worst.From.Point, worst.To.Point))
	}
	p := &s.Last.Whole.Packets
	return health.FlowDuplicates(f.about(s), p.Sent.Value, p.Duplicated.Value, where)
}

func (f *comparedFlow) delayWarning(accepted loss.Thresholds) health.Warning {
	s := f.watch.Delay()
	slow, _ := s.Last.Slowness()
	out := health.Slowness{Delay: slow.Delay, AtLeast: slow.AtLeast, Clocks: s.Last.ClocksOf(slow)}
	if slow.From != s.Last.Whole.From.Point || slow.To != s.Last.Whole.To.Point {
		out.Part = between(slow.From, slow.To)
	}
	return health.FlowDelay(f.about(s), out, accepted.MaxDelay.String())
}
