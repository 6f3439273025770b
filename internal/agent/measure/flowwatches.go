// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
)

// flowWatches compare the results of measured flows with their thresholds, and warn.
type flowWatches struct {
	d Dependencies

	mu     sync.Mutex
	flows  []*watchedFlow // in the order of the configuration
	named  map[string]*watchedFlow
	block  int64 // of the lines in the log
	logged int   // lines about it

	unmeasured int             // flows of which an event says that their loss is not known
	events     []record.Record // not offered yet
}

type watchedFlow struct {
	model.MeasuredFlow
	watch                *loss.Watch
	unasked              error    // why no node could be asked about the last block
	selectionDifferences []string // by point: how it selects other packets than this node, as far as it has said
	latest               int64    // block of which that is known

	unmeasured *record.Event // that says that the loss is not known; nil: none does
}

// mostFlowWarnings is how many flows have a warning and a line in the log of their own,
// of each code: there may be many flows, and one cause.
const mostFlowWarnings = 10

// begin takes over flows. Those that are as before stay beyond their thresholds.
func (w *flowWatches) begin(flows []model.MeasuredFlow) {
	defer w.offerEvents()
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.named
	w.flows, w.named = make([]*watchedFlow, len(flows)), make(map[string]*watchedFlow, len(flows))
	for i, f := range flows {
		known := before[f.Name]
		if known == nil || !reflect.DeepEqual(known.MeasuredFlow, f) {
			known = &watchedFlow{MeasuredFlow: f, watch: loss.NewWatch(f.Thresholds)}
		}
		w.flows[i], w.named[f.Name] = known, known
	}
	for name, f := range before {
		if w.named[name] != f {
			w.forgetUnmeasured(f)
		}
	}
}

// keepMeasured forgets the flows that are not measured any more. New ones follow with their first
// block.
func (w *flowWatches) keepMeasured(flows []model.MeasuredFlow) {
	defer w.offerEvents()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.flows) == 0 {
		return
	}
	measured := make(map[string]bool, len(flows))
	for i := range flows {
		measured[flows[i].Name] = len(flows[i].Points) > 0
	}
	for _, f := range w.flows {
		if !measured[f.Name] {
			w.forgetUnmeasured(f)
		}
	}
	w.flows = slices.DeleteFunc(w.flows, func(f *watchedFlow) bool { return !measured[f.Name] })
	maps.DeleteFunc(w.named, func(name string, _ *watchedFlow) bool { return !measured[name] })
}

// recordUnasked records that no other node could be asked about a block, and why.
func (w *flowWatches) recordUnasked(r loss.Result, why error) {
	defer w.offerEvents()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.flows {
		f.unasked = why
		w.compareBlock(f, &r)
	}
}

// result takes the result of a flow's block, and why no node can be asked about it, if that is
// so. It returns the codes of the thresholds for loss (or its being unknown) and for delay that
// the block is beyond.
func (w *flowWatches) result(name string, r *loss.Result, unasked error) (ofLoss, ofDelay health.Code) {
	defer w.offerEvents()
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.named[name]
	if f == nil {
		return "", ""
	}
	f.unasked = unasked
	c := w.compareBlock(f, r)
	w.takeSelections(f, r)
	switch {
	case c.NoData:
		ofLoss = health.FlowUnmeasured
	case c.Loss:
		ofLoss = health.FlowLossHigh
	case c.Duplicated:
		ofLoss = health.FlowDuplicated
	}
	if c.Delay {
		ofDelay = health.FlowDelayHigh
	}
	return ofLoss, ofDelay
}

func (w *flowWatches) compareBlock(f *watchedFlow, r *loss.Result) loss.Crossings {
	before := f.watch.Beyond()
	block := f.watch.AddResult(r)
	w.noteUnmeasured(f, r)
	if r.Block != w.block {
		w.block, w.logged = r.Block, 0
	}
	for _, k := range flowKinds {
		switch was, is := k.beyond(before), k.beyond(f.watch.Beyond()); {
		case was == is || w.logged > mostFlowWarnings:
		case w.logged == mostFlowWarnings:
			w.d.Log.Warn("the warnings of further flows change in this block; list them with 'waymark loss'")
			w.logged++
		case is:
			service.LogWarning(w.d.Log, k.warning(f))
			w.logged++
		default:
			text := "the flow is within its threshold again"
			if r.Whole.Verdict == loss.Idle {
				text = "the flow has no packets any more"
			}
			w.d.Log.Info(text, "warning", k.code, "flow", f.Name)
			w.logged++
		}
	}
	return block
}

// flowKind is a threshold with its warning.
type flowKind struct {
	code    health.Code
	beyond  func(loss.Crossings) bool
	warning func(*watchedFlow) health.Warning
}

var flowKinds = []flowKind{
	{health.FlowLossHigh, func(c loss.Crossings) bool { return c.Loss }, (*watchedFlow).lossWarning},
	{health.FlowDelayHigh, func(c loss.Crossings) bool { return c.Delay }, (*watchedFlow).delayWarning},
	{health.FlowDuplicated, func(c loss.Crossings) bool { return c.Duplicated }, (*watchedFlow).duplicatesWarning},
	{health.FlowUnmeasured, func(c loss.Crossings) bool { return c.NoData }, (*watchedFlow).unmeasuredWarning},
}

func (f *watchedFlow) about(s *loss.Stretch) health.FlowBlocks {
	first := time.Unix(0, s.First)
	since := min(max(time.Since(first)+2*time.Minute, 0).Truncate(time.Minute), lossHistory)
	return health.FlowBlocks{
		Flow: f.Name, First: first, Last: time.Unix(0, s.Last.Start), Count: s.Blocks,
		Results: fmt.Sprintf("'waymark loss --flow %s --last %dm' shows each segment in each block", f.Name, int(since.Minutes())),
	}
}

// point names a node of the flow's path.
func (f *watchedFlow) point(id loss.PointID) string {
	if id < 1 || int(id) > len(f.Points) {
		return "this node"
	}
	if name, address := f.PointName(int(id)-1), f.Points[id-1].Addr().String(); name != address {
		return fmt.Sprintf("%s (%s)", name, address)
	}
	return fmt.Sprintf("node %d (%v)", id, f.Points[id-1].Addr())
}

// between names a part of the flow's way.
func (f *watchedFlow) between(from, to loss.PointID) string {
	return fmt.Sprintf("between %s and %s", f.point(from), f.point(to))
}

func (f *watchedFlow) lossWarning() health.Warning {
	s := f.watch.Loss()
	where := "the nodes between do not say where"
	if worst, n := s.Last.WorstSegment(); worst != nil {
		where = fmt.Sprintf("%d of them %s", n, f.between(worst.From.Point, worst.To.Point))
	}
	p := &s.Last.Whole.Packets
	return health.FlowLoss(
		f.about(s),
		p.LeastLost().Value,
		p.Sent.Value,
		!p.Lost.Known,
		config.FormatText(config.LossShare(*f.Thresholds.MaxLoss)),
		where,
	)
}

func (f *watchedFlow) duplicatesWarning() health.Warning {
	s := f.watch.Duplicated()
	where := "the nodes between do not say where"
	if worst, n := s.Last.MostDuplicates(); worst != nil {
		where = fmt.Sprintf("%d more came than were sent %s", n, f.between(worst.From.Point, worst.To.Point))
	}
	p := &s.Last.Whole.Packets
	return health.FlowDuplicates(f.about(s), p.Sent.Value, p.Duplicated.Value, where)
}

func (f *watchedFlow) delayWarning() health.Warning {
	s := f.watch.Delay()
	slow, _ := s.Last.Slowness()
	out := health.Slowness{Delay: slow.Delay, AtLeast: slow.AtLeast, Tested: slow.Tested, Clocks: s.Last.ClocksOf(slow)}
	if slow.From != s.Last.Whole.From.Point || slow.To != s.Last.Whole.To.Point {
		out.Part = f.between(slow.From, slow.To)
	}
	return health.FlowDelay(f.about(s), out, config.FormatText(config.DelayLimit(*f.Thresholds.MaxDelay)))
}

func (f *watchedFlow) unmeasuredWarning() health.Warning {
	s := f.watch.NoData()
	ends, all := f.reasons(s.Last)
	return health.FlowNotMeasured(f.about(s), ends, all.Names(), f.unasked)
}

// reasons are why the loss of a block is not known, by node, and all together.
func (f *watchedFlow) reasons(r *loss.Result) (ends []string, all loss.Reasons) {
	reasons := make([]loss.Reasons, len(f.Points)+1)
	for _, s := range append([]loss.Segment{r.Whole}, r.Segments...) {
		for _, e := range []loss.End{s.From, s.To} {
			if int(e.Point) < len(reasons) {
				reasons[e.Point] |= e.Reasons
			}
		}
	}
	for i, why := range reasons {
		if all |= why; why != 0 {
			ends = append(ends, f.point(loss.PointID(i))+": "+strings.Join(why.Names(), ", "))
		}
	}
	return ends, all
}

// warnings are those of the first flows beyond each threshold, and the number of the rest.
func (w *flowWatches) warnings() (ws []health.Warning) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range flowKinds {
		n := 0
		for _, f := range w.flows {
			if k.beyond(f.watch.Beyond()) {
				if n++; n <= mostFlowWarnings {
					ws = append(ws, k.warning(f))
				}
			}
		}
		if n > mostFlowWarnings {
			ws = append(ws, health.FurtherFlows(k.code, n-mostFlowWarnings))
		}
	}
	return append(ws, w.selectionWarnings()...)
}

var descFlowsBeyond = service.Metric(
	"flows_beyond_threshold",
	"Measured flows that are beyond their threshold for loss or delay, or whose loss is not known, and those whose nodes select "+
		"different packets, by the code of the warning.",
	"code",
)

func (w *flowWatches) collect(g *metrics.Gatherer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range flowKinds {
		n := 0
		for _, f := range w.flows {
			if k.beyond(f.watch.Beyond()) {
				n++
			}
		}
		g.Add(descFlowsBeyond, float64(n), string(k.code))
	}
	g.Add(descFlowsBeyond, float64(w.countSelectionDifferences()), string(health.SelectionsDiffer))
}
