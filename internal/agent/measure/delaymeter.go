// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/query"
)

// DelayMeter measures the delay of flows to their last point, with test packets of STAMP or
// with Delay Measurement messages of RFC 6374, and reports it after each block.
type DelayMeter struct {
	service.Idle
	d Dependencies

	// Of the goroutine that runs.
	prober *query.Prober
	by     protocol // of the prober
	block  uint64
	length time.Duration // of the block

	replies query.Counters

	mu             sync.Mutex
	flows          []model.MeasuredFlow // that are probed
	ids            map[string]loss.FlowID
	periods        []loss.Period // of flows, since the block began
	last           map[string][]record.Record
	means          map[string][]blockMean // of flows whose test packets take their way, the latest last
	sent, answered uint64
	diverted       uint64               // replies that did not take the way that was asked for
	impossible     uint64               // replies with times that cannot be
	failed         error                // why there is no prober, as in the log
	refusals       map[int]probeRefusal // by the number of the flow
}

// probeRefusal is an error of RFC 6374, or an invalid message, in response to a flow's test packet.
type probeRefusal struct {
	code    rfc6374.ControlCode
	invalid string    // not "": what is wrong with the message
	until   time.Time // no test packets before
	to      refused
}

// problem says what is wrong with the responses of a flow's last point, and what to do.
func (r *probeRefusal) problem(f *model.MeasuredFlow) (text, cure string) {
	point := f.Points[len(f.Points)-1].Addr()
	if r.invalid != "" {
		return fmt.Sprintf("%s answers with an invalid message: %s", point, r.invalid),
			fmt.Sprintf("update or correct what answers there, or set probes: none; it is asked again after %v", refusalPause)
	}
	return fmt.Sprintf("%s refuses: %s", point, r.code.ErrorName()),
		fmt.Sprintf(
			"configure the flow there, with session: %d and a responder of rfc6374-delay; it is asked again after %v",
			f.Session,
			refusalPause,
		)
}

// refusalPause is how long a flow has no test packets after an error or an invalid response,
// which end the measurement (RFC 6374 §4.3.4). Then another one begins: the other node may know
// the flow.
const refusalPause = time.Minute

// NewDelayMeter makes a meter that has no test packets under way.
func NewDelayMeter(d Dependencies) *DelayMeter {
	return &DelayMeter{d: d, last: make(map[string][]record.Record), means: make(map[string][]blockMean)}
}

func (m *DelayMeter) Run(ctx context.Context) error {
	defer m.end()
	for {
		how := configured(m.d.State.Load())
		wait := idlePeriod
		if m.prepareFlows(how) {
			now := time.Now().UnixNano()
			if block := uint64(now / int64(how.Block)); block != m.block {
				m.report(how)
				m.block = block
			}
			m.send(how)
			now = time.Now().UnixNano()
			wait = how.ProbeEvery - time.Duration(now%int64(how.ProbeEvery))
		}
		if !service.Sleep(ctx, wait) {
			return nil
		}
	}
}

// prepareFlows follows the configuration; false: there is nothing to measure.
func (m *DelayMeter) prepareFlows(how model.Measurement) bool {
	all := compared(how.Flows)
	flows := slices.DeleteFunc(slices.Clone(all), func(f model.MeasuredFlow) bool {
		return f.Probes == model.ProbesNone || !hasProbes(how)
	})
	if len(flows) == 0 {
		m.end()
		m.begin(nil, nil)
		m.recordFailure(nil)
		return false
	}
	same := func(a, b model.MeasuredFlow) bool { return a.Name == b.Name }
	m.forgetRefusals(flows, how)
	if !slices.EqualFunc(flows, m.flows, same) || m.length != how.Block {
		m.end() // replies to the packets of others would come
		m.length = how.Block
		m.begin(flows, flowIDs(all))
	}
	if by := m.protocol(how); m.prober == nil || m.by != by {
		m.end()
		m.by = by
		err := m.connect()
		if m.recordFailure(err); err != nil {
			return false
		}
	}
	m.mu.Lock()
	m.flows = flows
	m.mu.Unlock()
	return true
}

// recordFailure records why there is no prober; nil: there is one, or none is needed. It logs a
// cause once, until there is another one.
func (m *DelayMeter) recordFailure(err error) {
	m.mu.Lock()
	known := sameText(err, m.failed)
	m.failed = err
	m.mu.Unlock()
	if !known && err != nil {
		m.d.Log.Warn("delays cannot be measured with test packets", "error", err)
	}
}

// Warnings is one while flows have no test packets, and one for those that are refused.
func (m *DelayMeter) Warnings(*service.State) (ws []health.Warning) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil && len(m.flows) > 0 {
		text, cure := problem.Of(m.failed)
		ws = append(ws, health.New(health.ProbesUnsent, "", notDelayed(&m.flows[0], len(m.flows))+": "+text,
			cmp.Or(cure, "correct it; the agent tries again every few seconds")))
	}
	if len(m.refusals) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(m.refusals)))
		f, refusal := &m.flows[first], m.refusals[first]
		text, cure := refusal.problem(f)
		ws = append(ws, health.New(health.ProbesUnsent, "", notDelayed(f, len(m.refusals))+": "+text, cure))
	}
	return ws
}

// notDelayed says that n flows, of which f is one, have no delays.
func notDelayed(f *model.MeasuredFlow, n int) string {
	if n > 1 {
		return fmt.Sprintf("test packets do not measure the delay of %d flows, such as %q", n, f.Name)
	}
	return fmt.Sprintf("test packets do not measure the delay of flow %q", f.Name)
}

// protocol is by what delays are measured.
type protocol struct {
	key      keySource
	messages bool  // of RFC 6374
	clock    int64 // of their other ends
}

func (m *DelayMeter) protocol(how model.Measurement) protocol {
	if how.Exchange == model.ExchangeRFC6374 {
		return protocol{messages: true, clock: assumedClock(how)}
	}
	return protocol{key: keyOf(m.d.State.Load())}
}

// connect opens a prober.
func (m *DelayMeter) connect() error {
	key, err := readKey(m.by.key.file)
	if err != nil {
		return err
	}
	by := query.Probing(query.NewStamp(key))
	if m.by.messages {
		by = query.NewDelayMessages(sourceTo(m.d.Log, m.d.System), m.by.clock)
	}
	m.prober, err = query.OpenProber(by, &m.replies, m.acceptSample)
	return err
}

func (m *DelayMeter) end() {
	if m.prober != nil {
		m.prober.Close()
		m.prober = nil
	}
}

// begin begins with other flows.
func (m *DelayMeter) begin(flows []model.MeasuredFlow, ids map[string]loss.FlowID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flows, m.ids, m.periods, m.refusals = flows, ids, make([]loss.Period, len(flows)), make(map[int]probeRefusal)
	clear(m.last)
	clear(m.means)
}

// send sends a test packet of each flow.
func (m *DelayMeter) send(how model.Measurement) {
	ways, list := newPaths(m.d.System, how, how.Flows), []query.Probe(nil)
	now := time.Now()
	for i := range m.flows {
		if m.refuses(i, now) {
			continue
		}
		f := &m.flows[i]
		p := query.Probe{Flow: i, Peer: probed(f, how), Session: f.Session, Class: probeClass(f, how.Marking)}
		if f.Probes.InBand() {
			var err error
			if p.Path, err = ways.to(f, len(f.Points)-1); err != nil {
				m.replies.NotSent(query.NoPath)
				continue // another way has another delay; the loss meter warns
			}
			p.Return = f.Return
		}
		list = append(list, p)
	}
	sent := m.prober.Send(list)
	m.mu.Lock()
	m.sent += uint64(sent)
	m.mu.Unlock()
}

// probed is where a flow's test packets go.
func probed(f *model.MeasuredFlow, how model.Measurement) netip.AddrPort {
	last := f.Points[len(f.Points)-1]
	if how.Exchange == model.ExchangeRFC6374 {
		last = netip.AddrPortFrom(last.Addr(), how.DelayPort)
	}
	return last
}

// forgetRefusals forgets those that are old, or about what is configured otherwise now.
func (m *DelayMeter) forgetRefusals(flows []model.MeasuredFlow, how model.Measurement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(m.refusals, func(i int, r probeRefusal) bool {
		return i >= len(flows) || r.to != refusing(&flows[i], how) || now.After(r.until.Add(refusalPause))
	})
}

// refused is what a refusal is about.
type refused struct {
	exchange model.Exchange
	point    netip.AddrPort
	port     uint16
	session  uint16
}

func refusing(f *model.MeasuredFlow, how model.Measurement) refused {
	return refused{how.Exchange, f.Points[len(f.Points)-1], how.DelayPort, f.Session}
}

// refuses reports whether a flow has no test packets now, because of an error.
func (m *DelayMeter) refuses(flow int, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Before(m.refusals[flow].until)
}

// probeClass is the traffic class of a flow's test packets: the one that the flow selects, if it
// selects one, so that test packets wait in the same queues as the flow's. Bits of the mark have the value for unmarked packets,
// and the bits of ECN are 0 (RFC 3168).
func probeClass(f *model.MeasuredFlow, marking model.Marking) uint8 {
	if f.TrafficClass == nil {
		return 0
	}
	class := *f.TrafficClass
	if marking.Carrier == model.CarrierClass {
		class = class&^marking.Mask | marking.None&marking.Mask
	}
	return class &^ 3
}

// acceptSample takes the delay of a test packet and its reply, or that the other node refuses.
func (m *DelayMeter) acceptSample(s query.Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Ends() {
		if s.Flow >= len(m.periods) {
			return
		}
		f, how := &m.flows[s.Flow], configured(m.d.State.Load())
		if s.Session != f.Session || s.Peer != probed(f, how) {
			return // to a test packet of before the configuration changed
		}
		m.refusals[s.Flow] = probeRefusal{code: s.Refusal, invalid: s.Invalid, until: time.Now().Add(refusalPause), to: refusing(f, how)}
		return
	}
	delete(m.refusals, s.Flow)
	m.answered++
	if s.Diverted {
		m.diverted++
	}
	if s.Impossible {
		m.impossible++
	}
	if s.Flow >= len(m.periods) { // of a flow that was removed
		return
	}
	p, number := &m.periods[s.Flow], uint32(s.Number)
	p.AddDelay(loss.RoundTrip, number, s.RoundTrip, s.ClockError, s.RemoteClock)
	if s.TwoWayKnown {
		p.AddDelay(loss.TwoWay, number, s.TwoWay, s.ClockError, s.RemoteClock)
	}
	if s.OneWayKnown {
		p.AddDelay(loss.OneWay, number, s.OneWay, s.ClockError, s.RemoteClock)
	}
}

// report makes the records of the block that has ended.
func (m *DelayMeter) report(how model.Measurement) {
	m.mu.Lock()
	var all []record.Record
	for i := range m.flows {
		f := &m.flows[i]
		about := record.Measurement{
			Time: instant.Of(time.Now()), Node: m.d.NodeName(), Flow: f.Name, FlowID: m.ids[f.Name], Source: f.Source, SIDs: f.Path.Segments,
			Scope: record.WholeWay, To: loss.PointID(len(f.Points)), Start: instant.Of(time.Unix(0, int64(m.block)*int64(how.Block))),
			Length: uint64(how.Block),
		}
		var list []record.Record
		for _, method := range []loss.Method{loss.OneWay, loss.TwoWay, loss.RoundTrip} {
			if d := record.NewDelay(about, &m.periods[i], method); d != nil {
				list = append(list, d)
			}
		}
		record.NamePoints(list, nodesOf(m.d.NodeName(), f))
		m.noteMean(f, &m.periods[i], timingOf(how))
		m.last[f.Name], m.periods[i] = list, loss.Period{}
		all = append(all, list...)
	}
	m.mu.Unlock()
	m.d.Records.Offer(all...)
}

// lastOf are the records of the last block of a flow.
func (m *DelayMeter) lastOf(flow string) []record.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last[flow]
}

var descProbes = service.Metric(
	"delay_probes_total",
	"Test packets that measure the delay of flows: sent, answered, answered by another way than was asked for (diverted), and "+
		"answered with times that cannot be (time_impossible): the other node held them for a negative time, or longer than the "+
		"round trip, so only the round trip counts. Replies of STAMP say that; responses of RFC 6374 do not, so there is no "+
		"diverted with exchange: rfc6374.",
	"kind",
)

func (m *DelayMeter) Report(_ *service.State, out *api.Status) {
	replies, unsent := m.replies.Counts(), m.replies.Unsent()
	out.Measurement.ProbeReplies, out.Measurement.ProbesUnsent = service.CountsByName[query.Outcome](
		replies[:],
	), service.CountsByName[query.Cause](
		unsent[:],
	)
}

func (m *DelayMeter) Collect(g *metrics.Gatherer) {
	collectAsked(g, "probes", &m.replies)
	m.mu.Lock()
	defer m.mu.Unlock()
	g.Add(descProbes, float64(m.sent), "sent")
	g.Add(descProbes, float64(m.answered), "answered")
	g.Add(descProbes, float64(m.impossible), "time_impossible")
	if m.diverted > 0 || m.d.State.Load().Resolved.Node.Measurement.Exchange != model.ExchangeRFC6374 {
		g.Add(descProbes, float64(m.diverted), "diverted")
	}
}
