// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/internal/stamp/query"
)

// LossMeter asks the other nodes of measured flows what they counted, and reports loss
// and delay of each block.
type LossMeter struct {
	service.Idle
	d           Dependencies
	watches     *flowWatches
	pastResults *pastResults
	closed      <-chan closedBlock

	// Of the goroutine that runs.
	exchange           exchange
	selectionQuestions *selectionQuestions // nil if the exchange asks what other nodes select
	pending            []*asked            // questions about the previous block that have no answer yet
	key                keySource           // of the exchange
	assembler          *loss.Assembler
	flows              map[loss.FlowID]*model.MeasuredFlow
	ids                map[string]loss.FlowID
	measurement        model.Measurement // for which the assembler was made
	reported           map[string]int64  // by flow, the last block with a result
	results            []flowResult      // that are not released yet
	pacer              *pacer            // of them
	paths              *paths            // of in-band questions
	noPath             complaints
	unasked            map[string]error // of flows about which no node can be asked, although others can
	logged             string           // why other nodes cannot be asked, in the log
	ended              loss.Counters    // of earlier assemblers
	replies            query.Counters

	mu        sync.Mutex
	last      map[string][]record.Record // by flow, of the last block with a result
	verdicts  [loss.NumVerdicts]uint64
	delays    testDelays              // of test packets
	packets   loss.Totals             // of blocks that were exact
	named     map[string]flowResults  // of flows that have metrics
	answers   [numBlockAnswers]uint64 // flows about which others were asked
	assembled loss.Counters           // of all assemblers
}

// testDelays are the delays of flows by test packets.
type testDelays interface {
	// lastOf are the records of the last block of a flow.
	lastOf(flow string) []record.Record
	// through is the mean one-way delay of test packets that took the flow's way in a block.
	meanOfBlock(flow string, block int64) loss.Tested
}

// NewLossMeter makes a meter that compares the blocks of this node with those of others. Its results
// have the delays of test packets, too.
func NewLossMeter(d Dependencies, of *Blocks, delays testDelays) *LossMeter {
	m := &LossMeter{
		d: d, watches: &flowWatches{d: d}, pastResults: newPastResults(), closed: of.closed, delays: delays,
		reported: make(map[string]int64), last: make(map[string][]record.Record),
	}
	m.pacer = newPacer(m.publishResult)
	return m
}

// publishResult passes on the records of a result, and notes for a later agent that it was done.
func (m *LossMeter) publishResult(r flowResult) {
	m.d.Records.Offer(r.list...)
	if r.block != 0 {
		m.d.Datapath.BlockReported(r.flow, r.block)
	}
}

// release gives the results that were computed meanwhile, spread over a quarter of a block.
func (m *LossMeter) release(length time.Duration) {
	m.pacer.release(m.results, length/4)
	m.results = nil
}

// Prepare ends the warnings of flows that are removed: their last block may be long.
func (m *LossMeter) Prepare(p *service.Plan) error {
	p.OnCommit(func() { m.watches.keepMeasured(p.Next.Resolved.Node.Measurement.Flows) })
	return nil
}

func (m *LossMeter) Run(ctx context.Context) error {
	go m.pacer.run()
	for {
		select {
		case <-ctx.Done():
			m.disconnect()
			m.pacer.end()
			return nil
		case b := <-m.closed:
			m.block(ctx, b)
		}
	}
}

// block computes the results of a closed block.
func (m *LossMeter) block(ctx context.Context, b closedBlock) {
	if b.measurement.Exchange == model.ExchangeIPFIX {
		m.export(&b)
	}
	all := b.measurement.Flows
	flows := compared(all)
	b.measurement.Flows = flows
	if (!reflect.DeepEqual(b.measurement, m.measurement) || m.key != keyOf(m.d.State.Load())) && !m.begin(b) {
		return
	}
	if len(flows) == 0 || m.assembler == nil {
		return
	}
	flows = slices.DeleteFunc(slices.Clone(flows), func(f model.MeasuredFlow) bool { return m.skips(&b, f.Name) })
	b.measurement.Flows = flows
	now := time.Now().UnixNano()
	for i := range flows {
		m.assembler.Add(reading(m.ids[flows[i].Name], 0, int64(b.number), m.ownCounters(b, flows[i].Name)), now)
		m.selects(&b, &flows[i], 0, b.counts[flows[i].Name].Selection)
	}
	m.paths = newPaths(m.d.System, b.measurement, all)
	m.askPoints(ctx, b)
	m.assembler.Advance(time.Now().UnixNano())
	m.release(b.measurement.Block)
	m.countAssembled()
}

// skips reports whether a flow's block has no result here: an earlier agent has reported it,
// it was over before the counting began, or other nodes would answer about a later block.
func (m *LossMeter) skips(b *closedBlock, flow string) bool {
	c := b.counts[flow]
	return c.Reported || b.readLate && !(c.Complete && m.exchange.names(b.number))
}

// firstOf is the first block from b on of which a flow has a result here. An earlier agent may have
// reported blocks after b: who starts reads two.
func (m *LossMeter) firstOf(b *closedBlock, flow string) uint64 {
	switch c := b.counts[flow]; {
	case c.Reported:
		return c.LastReported + 1
	case m.skips(b, flow):
		return b.number + 1
	}
	return b.number
}

// ownCounters is what this node counted of a flow, in the form of another node's answer.
func (m *LossMeter) ownCounters(b closedBlock, name string) answered {
	c, ok := b.counts[name]
	return answered{Counters: countersOf(c, b.measurement.MeanDelay), known: ok, clock: clockError(m.d.System, b.measurement)}
}

// answered is what a node says of a flow's block.
type answered struct {
	blocks.Counters
	known     bool
	otherTime bool // counted at another time
	clock     int64
}

// begin makes an assembler for other flows, or another plan, from a block on.
func (m *LossMeter) begin(b closedBlock) bool {
	how, before := b.measurement, m.measurement
	if m.assembler != nil {
		m.assembler.Flush()
		m.release(before.Block)
		m.ended, m.assembler = m.ended.Plus(m.assembler.Counters()), nil
		m.countAssembled()
	}
	m.pending, m.unasked = nil, make(map[string]error)
	m.measurement, m.flows, m.ids = how, make(map[loss.FlowID]*model.MeasuredFlow), flowIDs(how.Flows)
	m.noPath.clear()
	m.mu.Lock()
	m.last = keepLast(m.last, before, how)
	m.named = keepNamed(m.named, how.Flows)
	m.mu.Unlock()
	m.continueAfter(before, &b)
	m.watches.begin(how.Flows)
	m.pastResults.begin(how.Flows, m.ids)
	if len(how.Flows) == 0 {
		m.disconnect()
		return true
	}
	err := m.connect(how)
	if err != nil {
		if text := err.Error(); text != m.logged { // it comes again after each block
			m.logged = text
			m.d.Log.Warn("loss cannot be computed: other nodes cannot be asked", "error", err)
		}
		block := int64(b.number)
		m.watches.recordUnasked(loss.Result{Block: block, Start: block * int64(how.Block), Length: how.Block}, err)
		m.measurement = model.Measurement{} // tries again after the next block
		return false
	}
	m.logged = ""
	m.assembler, err = loss.NewAssembler(loss.Limits{Flows: len(how.Flows), Blocks: waitingBlocks, Wait: how.Block}, m.result)
	for i := range how.Flows {
		f := &how.Flows[i]
		id := m.ids[f.Name]
		m.flows[id] = f
		if err == nil {
			err = m.assembler.AddFlow(planned(id, f, how), int64(m.firstOf(&b, f.Name))*int64(how.Block))
		}
	}
	if err != nil {
		m.d.Log.Warn("loss cannot be computed", "error", err)
		m.assembler, m.measurement = nil, model.Measurement{}
	}
	return err == nil
}

// planned is a flow as its loss is computed: points are numbered along the path, this node
// is 0.
func planned(id loss.FlowID, f *model.MeasuredFlow, how model.Measurement) loss.Flow {
	out := loss.Flow{ID: id, Assumed: f.AssumeSelection, Timing: timingOf(how)}
	for i := range len(f.Points) + 1 {
		out.Points = append(out.Points, loss.PointID(i))
	}
	return out
}

// reading is what a point says, as the arithmetic takes it.
func reading(id loss.FlowID, point int, block int64, a answered) loss.Reading {
	outside := uint64(a.Late) + uint64(a.Early)
	r := loss.Reading{
		Flow: id, Point: loss.PointID(point), Block: block, Packets: a.Packets - min(outside, a.Packets), Octets: a.Octets,
		TimeSum: int64(a.TimeSum), Timed: a.Timed, DoubleMarked: loss.Marked{Packets: uint64(a.DelayPackets), TimeSum: int64(a.DelayTimeSum)},
		Late: uint64(a.Late), OutOfTurn: uint64(a.Early), Unmarked: uint64(a.Unmarked), UnsureOctets: uint64(a.Unsized), ClockError: a.clock,
	}
	r.Flags |= loss.FlagsOf(uncoveredBy(a.Uncovered))
	if !a.Complete && a.Uncovered == 0 {
		r.Flags |= loss.Began
	}
	if !a.known {
		r.Flags |= loss.Interrupted
	}
	if a.otherTime {
		r.Flags |= loss.OutsideWindow
	}
	return r
}

// keepLast forgets the last results of flows that are no longer measured as they were.
func keepLast(last map[string][]record.Record, before, how model.Measurement) map[string][]record.Record {
	next := make(map[string][]record.Record)
	if before.Block != how.Block {
		return next
	}
	old := make(map[string]*model.MeasuredFlow)
	for i := range before.Flows {
		old[before.Flows[i].Name] = &before.Flows[i]
	}
	for i := range how.Flows {
		f := &how.Flows[i]
		if list := last[f.Name]; list != nil && reflect.DeepEqual(old[f.Name], f) {
			next[f.Name] = list
		}
	}
	return next
}

// result reports a block's loss and delay.
func (m *LossMeter) result(r *loss.Result) {
	f := m.flows[r.Flow]
	if f == nil {
		return
	}
	m.fillGap(f, r)
	r.Tested = m.delays.meanOfBlock(f.Name, r.Block)
	list := recordsOfResult(m.d.NodeName(), f, r, instant.Of(time.Now()))
	ofLoss, ofDelay := m.watches.result(f.Name, r, m.unasked[f.Name])
	record.SetWarnings(list, string(ofLoss), string(ofDelay))
	m.pastResults.add(r, f.Name, ofLoss, ofDelay)
	m.results = append(m.results, flowResult{f.Name, uint64(r.Block), list})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[f.Name] = list
	m.verdicts[r.Whole.Verdict]++
	m.packets.Add(&r.Whole.Packets)
	if f.Metrics {
		m.named[f.Name] = m.named[f.Name].plus(r)
	}
}

// recordsOfResult makes the records of a result, without warnings.
func recordsOfResult(node string, f *model.MeasuredFlow, r *loss.Result, now instant.Time) []record.Record {
	about := record.Measurement{Time: now, Node: node, Flow: f.Name, Source: f.Source, SIDs: f.Path.Segments}
	list := record.NewResults(about, r)
	record.NamePoints(list, nodesOf(node, f))
	return list
}

// nodesOf names the points of a flow whose ingress is this node.
func nodesOf(node string, f *model.MeasuredFlow) func(loss.PointID) string {
	return func(id loss.PointID) string {
		switch {
		case id == 0:
			return node
		case int(id) > len(f.Points):
			return ""
		}
		return f.PointName(int(id) - 1)
	}
}

func (m *LossMeter) Warnings(*service.State) []health.Warning {
	return append(m.watches.warnings(), m.noPath.warnings()...)
}

func (m *LossMeter) Routes() service.Routes {
	return service.Routes{
		// The [records](records.md) of loss and delay of the last block of each flow that this node compares with
		// others, in the order of the configuration, and of the delays of its test packets. The filters of
		// `GET /v1/records` select some of them; those about packets select none.
		"GET /v1/loss": m.getLoss,
		// The records of loss and delay, without those of test packets, in the blocks of the last hour, one JSON
		// object per line, in the order in which they became known. Filters are those of `GET /v1/loss`. `last=30m`
		// asks for a shorter time, `flow=NAME` for one flow, which may be gone; if it is not measured here and has no results, the answer
		// is 404, with the names of some flows that there are. Their `time` is that of the answer. The header
		// `Waymark-Complete-Since` gives a time, if the history does not reach as far back as was asked: blocks
		// that began before it may be missing, because the agent began then, or the results have not fitted into
		// 64 MB. The history ends with the agent.
		"GET /v1/loss/history": m.getLossHistory,
	}
}

// getLoss answers with the records of the last block of each flow, in the order of the
// configuration.
func (m *LossMeter) getLoss(w http.ResponseWriter, r *http.Request) error {
	selects, err := recordsQuery(r.URL.Query())
	if err != nil {
		return err
	}
	list := record.List{}
	for _, each := range m.latest() {
		if is, _ := selects.Match(each); is { // an error: its expression has no result
			list = append(list, each)
		}
	}
	service.Answer(w, http.StatusOK, list)
	return nil
}

// latest are the records of the last blocks.
func (m *LossMeter) latest() (list []record.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.d.State.Load().Config.Flows {
		list = append(list, m.last[f.Name]...)
		list = append(list, m.delays.lastOf(f.Name)...)
	}
	return list
}

var (
	descLossBlocks = service.Metric(
		"loss_blocks_total",
		"Blocks of measured flows that were compared with other nodes, by verdict.",
		"verdict",
	)
	descLossPackets = service.Metric(
		"loss_packets_total",
		"Packets of measured flows in blocks whose counters are exact, from ingress to egress, by what became of them. sent, "+
			"received and lost: in blocks of which it is known how many were lost. duplicated and lost_min: in those with duplicates, "+
			"of which it is not known, the least number that came twice, and the least number that did not come to a point.",
		"kind",
	)
)

func (m *LossMeter) Collect(g *metrics.Gatherer) {
	m.watches.collect(g)
	m.pastResults.collect(g)
	m.mu.Lock()
	defer m.mu.Unlock()
	for v, n := range m.verdicts {
		g.Add(descLossBlocks, float64(n), loss.Verdict(v).String())
	}
	for kind, n := range becameOf(&m.packets) {
		g.Add(descLossPackets, float64(n), kind)
	}
	m.collectAnswers(g)
	m.collectNamed(g)
}
