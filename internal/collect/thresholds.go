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
}

// result gives out the records of a block, and after them what changed: whether the flow is
// beyond a threshold.
func (b *blocks) result(f *comparedFlow, r *loss.Result) {
	list := record.NewResults(record.Measurement{Time: instant.Of(time.Now()), Flow: f.key.name, Source: f.source, SIDs: f.sids}, r)
	if w := f.selects(r); w != nil {
		list = append(list, w)
	}
	if f.watch != nil {
		before := f.watch.Beyond()
		block := f.watch.Take(r)
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
				list = append(list, f.warns(t.code, false, "flow "+f.name()+" is within its threshold again", ""))
				b.beyond[i]--
			}
		}
		record.SetWarnings(list, codes[0], codes[1])
	}
	for _, each := range list {
		b.emit(each)
	}
}

// farewell is why a flow is no longer compared, which says nothing about its loss and delay.
type farewell struct{ facts, cure string }

var (
	evicted    = farewell{"made room for others in this collector's memory", "let another collector take some of the flows"}
	silent     = farewell{fmt.Sprintf("has not been reported by any of its nodes for %d blocks", idleBlocks), "if it was not removed there, look whether these nodes run and export"}
	otherGuard = farewell{"is compared anew, because its ingress has another guard", "wait for its next blocks"}
)

// end takes back the warnings of a flow that is no longer compared.
func (b *blocks) end(f *comparedFlow, why farewell) {
	if f.unlike != 0 {
		b.emit(f.warns(health.SelectionsDiffer, false, "it is not known whether the nodes of flow "+f.name()+" still select different packets: it "+why.facts, why.cure))
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
	return &record.Warning{Time: instant.Of(time.Now()), Code: string(code), Flow: f.key.name, FlowID: f.number, Beyond: beyond, Facts: facts, Cure: cure}
}

// name is the flow's name, or number, in a text.
func (f *comparedFlow) name() string {
	return cmp.Or(record.Printable(f.key.name), fmt.Sprint(f.number))
}

func (f *comparedFlow) about(r *loss.Result) health.FlowBlock {
	return health.FlowBlock{Flow: f.name(), Start: time.Unix(0, r.Start), Results: "the records of each block show each segment"}
}

func (f *comparedFlow) lossWarning(accepted loss.Thresholds) health.Warning {
	r, _, _, _ := f.watch.Worst()
	where := "the points between do not say where"
	if worst := r.WorstSegment(); worst != nil {
		where = fmt.Sprintf("%d of them between points %d and %d", worst.Packets.Lost.Value, worst.From.Point, worst.To.Point)
	}
	p := &r.Whole.Packets
	return health.FlowLoss(f.about(r), p.Lost.Value, p.Sent.Value, accepted.MaxLoss.String(), where)
}

func (f *comparedFlow) delayWarning(accepted loss.Thresholds) health.Warning {
	_, r, _, _ := f.watch.Worst()
	s := &r.Whole
	clocks := time.Duration(s.From.ClockError) + time.Duration(s.To.ClockError) // known, because the block is exact
	return health.FlowDelay(f.about(r), s.Delay().Delay, clocks, accepted.MaxDelay.String())
}
