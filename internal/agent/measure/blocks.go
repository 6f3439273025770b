// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/stamp"
)

// Editor changes the running configuration.
type Editor func(change func(*config.Config) (*config.Config, error)) error

// Gaps notes the times in which packets may have passed uncounted.
type Gaps interface {
	// Look looks for such times, at the hooks of most interfaces at most where that is slow.
	Look(most int)
	// Await looks until all such times before one are noted, or until an end, with a pause
	// between two looks. The result is why packets may still have passed uncounted.
	Await(ctx context.Context, until, end time.Time, pause time.Duration) loss.Reasons
}

// Blocks reads the counters of measured flows after each block.
type Blocks struct {
	service.Idle
	d    Dependencies
	edit Editor
	gaps Gaps

	closed chan closedBlock // for who compares them with other nodes
	missed atomic.Uint64    // blocks that were not

	mu                 sync.Mutex
	last               map[string]datapath.BlockCounts // by flow, of the last closed block
	before             map[string]datapath.BlockCounts // of the one before, if that was read
	length             time.Duration                   // of a block, when it was read
	totals             map[model.Direction]datapath.BlockCounts
	named              map[string]datapath.BlockCounts // of flows that have metrics
	recent             [2]answers                      // of the last closed blocks, the latest first
	questions          [blocks.NumStates]uint64
	selectionQuestions [blocks.NumStates]uint64 // questions about selections
	malformed          uint64                   // questions
	sums               map[string]*sum
}

// closedBlock is what this node counted in a block, and the configuration by which it counted.
type closedBlock struct {
	number      uint64
	readLate    bool // it was read when a later one was closed already
	counts      map[string]datapath.BlockCounts
	sums        map[string]uint64 // packets of flows with a session in all blocks, to this one
	measurement model.Measurement
}

// answers are what other nodes may ask about a closed block.
type answers struct {
	block  uint64
	length time.Duration
	timed  bool
	clock  int64 // error of this node's clock
	flows  map[blocks.FlowKey]datapath.BlockCounts
	// sessions are the flows that messages without names mean.
	sessions map[uint16]sessionBlock
}

// NewBlocks makes the reader of blocks, which waits until gaps are noted; edit adds and removes flows.
func NewBlocks(d Dependencies, known Gaps, edit Editor) *Blocks {
	return &Blocks{
		d:      d,
		edit:   edit,
		gaps:   known,
		closed: make(chan closedBlock, 2),
		totals: make(map[model.Direction]datapath.BlockCounts),
		sums:   make(map[string]*sum),
	}
}

// idlePeriod is how often a change of the flows is looked for while there are none.
const idlePeriod = time.Second

func (m *Blocks) Run(ctx context.Context) error {
	for read, some := uint64(0), false; ; {
		now := m.d.State.Load().Resolved.Node.Measurement
		if len(now.Flows) == 0 {
			if some {
				some = !m.handOver(closedBlock{}) // who compares forgets its flows, too
			}
			m.forget()
			if !service.Sleep(ctx, idlePeriod) {
				return nil
			}
			continue
		}
		now, some = now.WithDefaults(), true
		block, _ := lastClosed(time.Now(), now.Block)
		if block != read {
			unknown := m.awaitCoverage(ctx, block, now)
			for _, each := range blocksToRead(read, block) {
				m.read(each, each < block, now, unknown)
			}
		}
		read = block
		if !m.waitForNext(ctx, now) {
			return nil
		}
	}
}

// awaitCoverage waits until it is known where a closed block's packets may have passed uncounted, but
// not after the end of the next block: who compares nodes waits for their counters from then on. It
// returns why packets may still have passed uncounted. Meanwhile, other nodes get the answer "not yet", and
// ask about the block once more with their questions about the next one.
func (m *Blocks) awaitCoverage(ctx context.Context, block uint64, how model.Measurement) loss.Reasons {
	last := time.Unix(0, int64(block+1)*int64(how.Block)+int64(how.Guard))
	pause := min(max(how.Block/16, 5*time.Millisecond), longestPause)
	end := last.Add(how.Block - how.Guard)
	if soon := time.Now().Add(how.Block / 8); end.Before(soon) { // this agent has just begun
		end = soon
	}
	return m.gaps.Await(ctx, last, end, pause)
}

// longestPause is the longest time between two looks while the coverage of a block is not known.
const longestPause = 250 * time.Millisecond

// waitForNext waits until the counters of the next block are final. After the last packets of the
// block, it looks at the hooks: if they count packets from then on, they also saw the packets of the block.
func (m *Blocks) waitForNext(ctx context.Context, how model.Measurement) bool {
	_, wait := lastClosed(time.Now(), how.Block)
	next := time.Now().Add(wait)
	if wait -= how.Block/2 - how.Guard; wait > 0 {
		if !service.Sleep(ctx, wait) {
			return false
		}
		m.gaps.Look(len(m.d.State.Load().Resolved.Node.Interfaces))
	}
	return service.Sleep(ctx, time.Until(next))
}

// lastClosed is the last block whose counters are final, and how long it stays the last.
// Programs count late packets for half a block; who reads earlier does not see that
// there were any (RFC 9341 §5).
func lastClosed(now time.Time, length time.Duration) (block uint64, wait time.Duration) {
	at := now.UnixNano() - int64(length/2)
	return uint64(at/int64(length)) - 1, length - time.Duration(at%int64(length)) + time.Millisecond
}

// blocksToRead are the closed blocks to be read after the block read (0: none was read yet), in their
// order. The data plane still has the counters of the last block but one. So an agent that did not
// run when that block was closed still reads it, and other nodes, which ask about two blocks, get it.
func blocksToRead(read, last uint64) []uint64 {
	switch {
	case read == last:
		return nil
	case read < last-1:
		return []uint64{last - 1, last}
	}
	return []uint64{last} // also where numbers became smaller, with longer blocks
}

func (m *Blocks) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.before, m.recent = nil, nil, [2]answers{}
	clear(m.sums)
}

// read takes over the counters of a closed block. A late one of which no flow was counted
// as a whole says nothing: the counting began after it. unknown is why packets may have passed
// uncounted, until a look at the hooks shows more.
func (m *Blocks) read(block uint64, late bool, now model.Measurement, unknown loss.Reasons) {
	leaves := make(map[string]bool)
	for _, f := range now.Flows {
		leaves[f.Name] = f.Direction == model.DirectionOut
	}
	last := make(map[string]datapath.BlockCounts, len(now.Flows))
	a := answers{
		block:  block,
		length: now.Block,
		timed:  now.MeanDelay,
		clock:  clockError(m.d.System, now),
		flows:  make(map[blocks.FlowKey]datapath.BlockCounts, len(now.Flows)),
	}
	some := false
	m.d.Datapath.Blocks(block, func(c datapath.BlockCounts) {
		c.Uncovered |= unknown
		if leaves[c.Flow] {
			c.Uncovered &^= loss.UnservedInterface
		}
		c.Complete = c.Complete && c.Uncovered == 0
		last[c.Flow] = c
		a.flows[blocks.KeyOf(c.Flow)] = c
		some = some || c.Complete
	})
	if late && !some {
		return
	}
	m.mu.Lock()
	sums := m.addSessions(&a, now, last)
	m.mu.Unlock()
	if !m.handOver(closedBlock{block, late, last, sums, now}) {
		m.missed.Add(1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.before = m.last; m.recent[0].block+1 != block || m.length != now.Block {
		m.before = nil
	}
	m.last, m.length = last, now.Block
	m.recent = [2]answers{a, m.recent[0]}
	m.countNamed(now.Flows, last)
	for _, f := range now.Flows {
		c, sum := last[f.Name], m.totals[f.Direction]
		sum.Packets += c.Packets
		sum.Octets += c.Octets
		sum.Late += c.Late
		sum.Early += c.Early
		sum.Unmarked += c.Unmarked
		sum.Unsized += c.Unsized
		m.totals[f.Direction] = sum
	}
}

// handOver hands a block over to be compared with other nodes. False: the comparison of an earlier
// one is not done, and this block has no result.
func (m *Blocks) handOver(b closedBlock) bool {
	select {
	case m.closed <- b:
		return true
	default:
		return false
	}
}

// clockError bounds the error of this node's clock in ns; loss.UnknownClock without a
// bound.
func clockError(system System, now model.Measurement) int64 {
	if now.ClockError != nil {
		return int64(*now.ClockError)
	}
	if clock, err := system.Clock(); err == nil && clock.Synchronised {
		return int64(clock.MaxError)
	}
	return loss.UnknownClock
}

// answer fills another node's question about a block in place. False: it is none.
func (m *Blocks) answer(t stamp.TLV) bool {
	switch t.Type() {
	case blocks.SelectionsType:
		return m.answerSelections(t.Value())
	case blocks.Type:
	default:
		return false
	}
	q, err := blocks.Decode(t.Value())
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.malformed++
		return false
	}
	q.ClockError = loss.UnknownClock
	for i := range q.Entries {
		m.fill(&q, &q.Entries[i])
		m.questions[q.Entries[i].State]++
	}
	q.Append(t.Value()[:0])
	return true
}

func (m *Blocks) fill(q *blocks.Message, e *blocks.Entry) {
	e.Counters = blocks.Counters{}
	a, state := m.answersFor(q.Block, q.Length)
	e.State = state
	if state != blocks.Answered {
		return
	}
	c, ok := a.flows[e.Flow]
	if !ok {
		e.State = blocks.UnknownFlow
		return
	}
	e.Counters, q.ClockError = countersOf(c, a.timed), a.clock
}

// answersFor is what may be asked about a block; Answered: there is something. The caller holds m.mu.
func (m *Blocks) answersFor(block uint64, length time.Duration) (*answers, blocks.State) {
	newest := &m.recent[0]
	for i := range m.recent {
		if a := &m.recent[i]; a.flows != nil && a.block == block && a.length == length {
			return a, blocks.Answered
		}
	}
	switch {
	case newest.flows == nil || newest.length == length && block > newest.block:
		return nil, blocks.NotYet
	case newest.length != length:
		return nil, blocks.OtherLength
	}
	return nil, blocks.Gone
}

// countersOf is the answer to another node. Numbers beyond 32 bits say that there are
// many.
func countersOf(c datapath.BlockCounts, timed bool) blocks.Counters {
	narrow := func(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }
	return blocks.Counters{
		Packets: c.Packets, Octets: c.Octets, TimeSum: c.TimeSum, DelayTimeSum: c.DelayTimeSum, DelayPackets: narrow(c.DelayPackets),
		Late: narrow(c.Late), Early: narrow(c.Early), Unmarked: narrow(c.Unmarked), Unsized: narrow(c.Unsized),
		Complete: c.Complete, Timed: timed,
		Uncovered: uncoveredBits(c.Uncovered),
	}
}

func (m *Blocks) Routes() service.Routes {
	return service.Routes{
		// The SRv6 flows, each with its `flow` as configured and, in `last`, what this node counted of it in the
		// last closed block: `number`, `start`, `length`, `complete` (counted from its start), `packets`, `octets`
		// (of IPv6 packets), `late`, `early`, `unmarked`, `unsized`. `previous` has the same of the block before,
		// if the agent has read that.
		"GET /v1/flows": m.getFlows,
		// Adds one:
		// `{"name":"red","direction":"out","source":"2001:db8::1","segments":["fc00:2::e","fc00:3::d6"]}`; the
		// keys are those of `flows` in the [configuration](configuration.md).
		"POST /v1/flows": m.postFlow,
		// Ends the measurement of a flow.
		"DELETE /v1/flows/{name}": m.deleteFlow,
	}
}

func (m *Blocks) getFlows(w http.ResponseWriter, _ *http.Request) error {
	flows := m.d.State.Load().Config.Flows
	list := make([]api.MeasuredFlow, len(flows))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, f := range flows {
		list[i].Flow = f
		if c, ok := m.last[f.Name]; ok {
			list[i].Last = blockOf(c, m.length)
		}
		if c, ok := m.before[f.Name]; ok {
			list[i].Previous = blockOf(c, m.length)
		}
	}
	service.Answer(w, http.StatusOK, list)
	return nil
}

func blockOf(c datapath.BlockCounts, length time.Duration) *api.Block {
	return &api.Block{
		Number: c.Block, Start: instant.Of(time.Unix(0, int64(c.Block)*int64(length))), Length: length.String(), Complete: c.Complete,
		Packets: c.Packets, Octets: c.Octets, Late: c.Late, Early: c.Early, Unmarked: c.Unmarked, Unsized: c.Unsized,
	}
}

func (m *Blocks) postFlow(w http.ResponseWriter, r *http.Request) error {
	var f config.Flow
	if err := service.Decode(r, &f); err != nil {
		return err
	}
	return service.Done(w, m.edit(func(c *config.Config) (*config.Config, error) { return c.AddFlow(f) }))
}

func (m *Blocks) deleteFlow(w http.ResponseWriter, r *http.Request) error {
	return service.Done(w, m.edit(func(c *config.Config) (*config.Config, error) { return c.RemoveFlow(r.PathValue("name")) }))
}

var (
	descMeasuredFlows   = service.Metric("measured_flows", "SRv6 flows that are measured, by direction.", "direction")
	descMeasuredPackets = service.Metric("measured_packets_total", "Packets of measured flows, in closed blocks.", "direction")
	descMeasuredOctets  = service.Metric(
		"measured_octets_total",
		"Octets of the IPv6 packets of measured flows, in closed blocks.",
		"direction",
	)
	descMeasuredLate = service.Metric(
		"measured_late_packets_total",
		"Packets that arrived farther after their block than the guard.",
		"direction",
	)
	descMeasuredEarly = service.Metric(
		"measured_early_packets_total",
		"Packets that arrived farther before their block than the guard.",
		"direction",
	)
	descBlockQuestions = service.Metric(
		"block_questions_total",
		"Flows that other nodes asked about by STAMP, by what they were told.",
		"answer",
	)
	descBlocksMissed = service.Metric(
		"measured_blocks_missed_total",
		"Closed blocks that were not compared with other nodes, because those before them took too long.",
	)
	descMeasuredUnmarked = service.Metric(
		"measured_unmarked_packets_total",
		"Packets of measured flows that arrived without a colour.",
		"direction",
	)
)

func (m *Blocks) Collect(g *metrics.Gatherer) {
	flows := make(map[model.Direction]int)
	all := m.d.State.Load().Resolved.Node.Measurement.Flows
	for _, f := range all {
		flows[f.Direction]++
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collectNamed(g, all)
	for s := blocks.Answered; s < blocks.NumStates; s++ {
		g.Add(descBlockQuestions, float64(m.questions[s]), s.String())
	}
	g.Add(descBlockQuestions, float64(m.malformed), "malformed")
	m.collectSelections(g)
	g.Add(descBlocksMissed, float64(m.missed.Load()))
	for _, d := range []model.Direction{model.DirectionOut, model.DirectionIn, model.DirectionTransit} {
		sum, name := m.totals[d], d.String()
		g.Add(descMeasuredFlows, float64(flows[d]), name)
		g.Add(descMeasuredPackets, float64(sum.Packets), name)
		g.Add(descMeasuredOctets, float64(sum.Octets), name)
		g.Add(descMeasuredLate, float64(sum.Late), name)
		g.Add(descMeasuredEarly, float64(sum.Early), name)
		g.Add(descMeasuredUnmarked, float64(sum.Unmarked), name)
	}
}
