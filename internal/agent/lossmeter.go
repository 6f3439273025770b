// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/internal/stamp/keyfile"
	"github.com/waymark-net/waymark/internal/stamp/query"
	"github.com/waymark-net/waymark/stamp"
)

// lossMeter asks the other nodes of measured flows what they counted, and reports loss
// and delay of each block.
type lossMeter struct {
	idle
	*core
	records *records
	closed  <-chan closedBlock

	// Of the goroutine that runs.
	client    *query.Client
	keyFile   string // of the client's key
	assembler *loss.Assembler
	flows     map[loss.FlowID]*model.MeasuredFlow
	ids       map[string]loss.FlowID
	how       model.Measurement // for which the assembler was made

	mu      sync.Mutex
	last    map[string][]record.Record // by flow, of the last block with a result
	results [loss.NumVerdicts]uint64
	packets loss.Totals // of blocks that were exact
}

func newLossMeter(c *core, records *records, closed <-chan closedBlock) *lossMeter {
	return &lossMeter{core: c, records: records, closed: closed, last: make(map[string][]record.Record)}
}

// querySSID tells our questions apart from other test sessions.
const querySSID stamp.SSID = 0x574d

func (m *lossMeter) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			if m.client != nil {
				m.client.Close()
			}
			return nil
		case b := <-m.closed:
			m.block(ctx, b)
		}
	}
}

// block computes the results of a closed block.
func (m *lossMeter) block(ctx context.Context, b closedBlock) {
	flows := slices.DeleteFunc(slices.Clone(b.how.Flows), func(f model.MeasuredFlow) bool { return len(f.Points) == 0 })
	b.how.Flows = flows
	if (!reflect.DeepEqual(b.how, m.how) || m.keyFile != keyFileOf(m.core)) && !m.begin(b.how, b.number) {
		return
	}
	if len(flows) == 0 || m.assembler == nil {
		return
	}
	now := time.Now().UnixNano()
	for i := range flows {
		m.assembler.Add(reading(m.ids[flows[i].Name], 0, int64(b.number), m.own(b, flows[i].Name)), now)
	}
	m.ask(ctx, b)
	m.assembler.Advance(time.Now().UnixNano())
}

// own is what this node counted of a flow, as another one would say it.
func (m *lossMeter) own(b closedBlock, name string) answered {
	c, ok := b.counts[name]
	return answered{countersOf(c, b.how.MeanDelay), ok, clockError(m.core, b.how)}
}

// answered is what a node says of a flow's block.
type answered struct {
	blocks.Counters
	known bool
	clock int64
}

// begin makes an assembler for other flows, or another plan.
func (m *lossMeter) begin(how model.Measurement, block uint64) bool {
	if m.assembler != nil {
		m.assembler.Flush()
	}
	m.how, m.flows, m.ids = how, make(map[loss.FlowID]*model.MeasuredFlow), make(map[string]loss.FlowID)
	m.mu.Lock()
	clear(m.last)
	m.mu.Unlock()
	if len(how.Flows) == 0 {
		return true
	}
	err := m.connect()
	if err != nil {
		m.log.Warn("loss cannot be computed: other nodes cannot be asked", "error", err)
		m.how = model.Measurement{} // tries again after the next block
		return false
	}
	m.assembler, err = loss.NewAssembler(loss.Limits{Flows: len(how.Flows), Blocks: 4, Wait: how.Block}, m.result)
	for i := range how.Flows {
		f := &how.Flows[i]
		id := flowID(f.Name)
		for m.flows[id] != nil { // another name has the same hash
			id++
		}
		m.flows[id], m.ids[f.Name] = f, id
		if err == nil {
			err = m.assembler.AddFlow(planned(id, f, how), int64(block)*int64(how.Block))
		}
	}
	if err != nil {
		m.log.Warn("loss cannot be computed", "error", err)
		m.assembler, m.how = nil, model.Measurement{}
	}
	return err == nil
}

// connect opens the client anew: the key may have changed.
func (m *lossMeter) connect() (err error) {
	if m.client != nil {
		m.client.Close()
		m.client = nil
	}
	var key []byte
	if m.keyFile = keyFileOf(m.core); m.keyFile != "" {
		if key, err = keyfile.Read(m.keyFile); err != nil {
			return err
		}
	}
	m.client, err = query.Open(querySSID, key)
	return err
}

func keyFileOf(c *core) string {
	if s := c.state.Load().config.Stamp; s != nil {
		return s.KeyFile
	}
	return ""
}

func flowID(name string) loss.FlowID { return loss.FlowID(blocks.KeyOf(name) >> 32) }

// planned is a flow as its loss is computed: points are numbered along the path, this node
// is 0.
func planned(id loss.FlowID, f *model.MeasuredFlow, how model.Measurement) loss.Flow {
	out := loss.Flow{ID: id, Timing: loss.Timing{Length: how.Block, ClockDifference: how.Guard / 2, MaxDelay: how.Guard - how.Guard/2}}
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
	if !a.Complete {
		r.Flags |= loss.Began
	}
	if !a.known {
		r.Flags |= loss.Interrupted
	}
	return r
}

// asked is a question, and the flows and points that it is about.
type asked struct {
	query.Question
	flows  []*model.MeasuredFlow
	points []int
}

// ask asks all points, until all have answered or the next block is near.
func (m *lossMeter) ask(ctx context.Context, b closedBlock) {
	end := time.Unix(0, int64(b.number+2)*int64(b.how.Block)) // one block's time
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	// The other nodes read their counters when this one does, by their own clocks.
	for open := m.questions(b); len(open) > 0 && sleep(ctx, min(b.how.Guard, b.how.Block/8)); {
		list := make([]*query.Question, len(open))
		for i, q := range open {
			list[i] = &q.Question
		}
		m.client.Ask(ctx, list)
		open = slices.DeleteFunc(open, func(q *asked) bool { return m.take(b, q) })
	}
}

// questions are those of a block, of several flows each.
func (m *lossMeter) questions(b closedBlock) (list []*asked) {
	open := make(map[netip.AddrPort]*asked)
	for i := range b.how.Flows {
		f := &b.how.Flows[i]
		for point, peer := range f.Points {
			q := open[peer]
			if q == nil || len(q.flows) == blocks.MostFlows {
				q = &asked{Question: query.Question{Peer: peer, Type: blocks.Type}}
				open[peer], list = q, append(list, q)
			}
			q.flows, q.points = append(q.flows, f), append(q.points, point+1)
		}
	}
	for _, q := range list {
		message := blocks.Message{Length: b.how.Block, Block: b.number, ClockError: loss.UnknownClock}
		for _, f := range q.flows {
			c := b.counts[f.Name]
			message.Entries = append(message.Entries, blocks.Entry{Flow: blocks.KeyOf(f.Name), Sent: c.Packets, SentBytes: c.Octets})
		}
		q.Value = message.Append(nil)
	}
	return list
}

// take takes an answer over. False: it must be asked again.
func (m *lossMeter) take(b closedBlock, q *asked) bool {
	if q.Answer == nil {
		return false
	}
	message, err := blocks.Decode(q.Answer)
	q.Answer = nil
	if err != nil || message.Block != b.number || len(message.Entries) != len(q.flows) {
		return false
	}
	now, final := time.Now().UnixNano(), true
	for i := range message.Entries {
		switch e := &message.Entries[i]; e.State {
		case blocks.Answered:
			m.assembler.Add(reading(m.ids[q.flows[i].Name], q.points[i], int64(b.number), answered{e.Counters, true, message.ClockError}), now)
		case blocks.NotYet:
			final = false
		}
	}
	return final
}

// result reports a block's loss and delay.
func (m *lossMeter) result(r *loss.Result) {
	f := m.flows[r.Flow]
	if f == nil {
		return
	}
	about := record.Measurement{Time: instant.Of(time.Now()), Node: m.options.NodeName, Flow: f.Name, Source: f.Source, SIDs: f.Path.Segments}
	var list []record.Record
	parts := append([]loss.Segment{r.Whole}, r.Segments...)
	for i := range parts {
		list = append(list, record.NewLoss(about, r, &parts[i]))
		for _, d := range record.NewBlockDelays(about, r, &parts[i]) {
			list = append(list, d)
		}
	}
	m.records.offer(list...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[f.Name] = list
	m.results[r.Whole.Verdict]++
	if p := &r.Whole.Packets; r.Whole.Verdict.Exact() {
		m.packets.Sent += p.Sent.Value
		m.packets.Received += p.Received.Value
		m.packets.Lost += p.Lost.Value
		m.packets.Duplicated += p.Duplicated.Value
	}
}

func (m *lossMeter) routes() []route { return []route{{"GET /v1/loss", m.getLoss}} }

// getLoss answers with the records of the last block of each flow, in the order of the
// configuration.
func (m *lossMeter) getLoss(w http.ResponseWriter, _ *http.Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []record.Record{}
	for _, f := range m.state.Load().config.Flows {
		list = append(list, m.last[f.Name]...)
	}
	answer(w, http.StatusOK, list)
	return nil
}

var (
	descLossBlocks  = desc("loss_blocks_total", "Blocks of measured flows that were compared with other nodes, by verdict.", "verdict")
	descLossPackets = desc("loss_packets_total", "Packets of measured flows in blocks whose counters are exact, from ingress to egress, by what became of them.", "kind")
)

func (m *lossMeter) collect(g *metrics.Gatherer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for v, n := range m.results {
		g.Add(descLossBlocks, float64(n), loss.Verdict(v).String())
	}
	for _, p := range []struct {
		kind string
		n    uint64
	}{{"sent", m.packets.Sent}, {"received", m.packets.Received}, {"lost", m.packets.Lost}, {"duplicated", m.packets.Duplicated}} {
		g.Add(descLossPackets, float64(p.n), p.kind)
	}
}
