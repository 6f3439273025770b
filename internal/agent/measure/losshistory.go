// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
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
	"github.com/waymark-net/waymark/internal/recordfilter"
)

const (
	// lossHistory is for how long results are kept.
	lossHistory = time.Hour
	// lossHistoryRoom is how many octets they take at most. A result takes about 45, with
	// four points 140: an hour of 5,000 flows with blocks of 10 s takes 80 MB.
	lossHistoryRoom = 64 << 20
	// mostKeptFlows bounds the flows that results are of, with those that are gone.
	mostKeptFlows = 2 << 16
)

// pastResults are the results of the last hour, of flows that may be gone.
type pastResults struct {
	mu        sync.Mutex
	history   *loss.History
	flows     map[uint32]*keptFlow
	named     map[string]uint32 // that are measured now
	number    uint32            // of the next flow
	began     time.Time
	goneFlows []uint32 // flows, in the order in which they went
}

// keptFlow is a flow as it was configured.
type keptFlow struct {
	flow   model.MeasuredFlow
	id     loss.FlowID
	leftAt time.Time // zero: it is measured now
}

func newPastResults() *pastResults {
	return &pastResults{
		history: loss.NewHistory(lossHistoryRoom, lossHistory),
		flows:   make(map[uint32]*keptFlow),
		named:   make(map[string]uint32),
		began:   time.Now(),
	}
}

// begin takes over the flows that are measured from now on.
func (p *pastResults) begin(flows []model.MeasuredFlow, ids map[string]loss.FlowID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.named
	p.named = make(map[string]uint32, len(flows))
	for i := range flows {
		name := flows[i].Name
		number, known := before[name]
		if !known || !reflect.DeepEqual(p.flows[number].flow, flows[i]) {
			number = p.number
			p.number++
			p.flows[number] = &keptFlow{flow: flows[i], id: ids[name]}
		}
		p.named[name] = number
	}
	for name, number := range before {
		if now, known := p.named[name]; !known || now != number {
			p.flows[number].leftAt = time.Now()
			p.goneFlows = append(p.goneFlows, number)
		}
	}
	for len(p.goneFlows) > 0 && (len(p.flows) > mostKeptFlows || time.Since(p.flows[p.goneFlows[0]].leftAt) > 2*lossHistory) {
		delete(p.flows, p.goneFlows[0])
		p.goneFlows = p.goneFlows[1:]
	}
}

// warningMarks are the codes of thresholds, by the bit of a kept result.
var warningMarks = [...]health.Code{health.FlowLossHigh, health.FlowDuplicated, health.FlowUnmeasured, health.FlowDelayHigh}

// add keeps a result, with the codes of the thresholds that it is beyond.
func (p *pastResults) add(r *loss.Result, flow string, ofLoss, ofDelay health.Code) {
	marks := uint8(0)
	for i, code := range warningMarks {
		if code == ofLoss || code == ofDelay {
			marks |= 1 << i
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if number, ok := p.named[flow]; ok {
		p.history.Add(number, marks, r)
	}
}

func (p *pastResults) read(since time.Time) (results loss.Remembered, flows map[uint32]*keptFlow, from time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	results, from = p.history.Read(since.UnixNano()), p.began
	if results.IsCut {
		from = time.Unix(0, results.Cut)
	}
	flows = make(map[uint32]*keptFlow, len(p.flows))
	for number, f := range p.flows {
		flows[number] = f // which does not change, but for the time at which it left
	}
	return results, flows, from
}

func (p *pastResults) octets() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.history.Octets()
}

// getLossHistory answers with the records of the results of the last time, as JSON lines.
func (m *LossMeter) getLossHistory(w http.ResponseWriter, r *http.Request) error {
	last, flow, selects, err := historyQuery(r)
	if err != nil {
		return err
	}
	since := time.Now().Add(-last)
	results, flows, from := m.pastResults.read(since)
	if flow != "" {
		if err := m.findFlow(flow, flows); err != nil {
			return err
		}
	}
	if from.After(since) {
		w.Header().Set(api.CompleteSince, instant.Of(from).String())
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	out := bufio.NewWriterSize(w, 64<<10)
	now := instant.Of(time.Now())
	results.Each(func(k *loss.Kept) bool {
		f := flows[k.Flow]
		if f == nil || flow != "" && f.flow.Name != flow {
			return true
		}
		for _, each := range m.recordsOf(f, k, now) {
			if is, _ := selects.Match(each); !is { // an error: its expression has no result
				continue
			}
			if _, err := out.Write(record.AppendLine(nil, each)); err != nil {
				return false // the client has gone
			}
		}
		return r.Context().Err() == nil
	})
	_ = out.Flush() // as above
	return nil
}

// mostNames is how many flows an error names.
const mostNames = 10

// findFlow is an error if no flow of a name is measured here, nor one of the history was.
func (m *LossMeter) findFlow(name string, past map[uint32]*keptFlow) error {
	names := make(map[string]bool)
	for _, f := range past {
		names[f.flow.Name] = true
	}
	configured := m.d.State.Load().Resolved.Node.Measurement.Flows
	for i := range configured {
		names[configured[i].Name] = true
	}
	if names[name] {
		return nil
	}
	cure := "add it with: waymark flow add"
	if list := slices.Sorted(maps.Keys(names)); len(list) > 0 {
		cure = "choose one of: " + strings.Join(list[:min(len(list), mostNames)], ", ")
		if more := len(list) - mostNames; more > 0 {
			cure += fmt.Sprintf(" and %d more (waymark flow show)", more)
		}
	}
	return service.NotFound(problem.New(
		fmt.Sprintf("no flow %q is measured here, and there are no results of one", name),
		cure,
	))
}

// recordsOf makes the records of a kept result again.
func (m *LossMeter) recordsOf(f *keptFlow, k *loss.Kept, now instant.Time) []record.Record {
	k.Result.Flow = f.id
	list := recordsOfResult(m.d.NodeName(), &f.flow, &k.Result, now)
	var ofLoss, ofDelay string
	for i, code := range warningMarks {
		switch {
		case k.Marks>>i&1 == 0:
		case code == health.FlowDelayHigh:
			ofDelay = string(code)
		default:
			ofLoss = string(code)
		}
	}
	record.SetWarnings(list, ofLoss, ofDelay)
	return list
}

// historyQuery reads what is asked for.
func historyQuery(r *http.Request) (last time.Duration, flow string, selects *recordfilter.Program, err error) {
	last = lossHistory
	q := r.URL.Query()
	for key, values := range q {
		if len(values) != 1 {
			return 0, "", nil, service.BadRequest(fmt.Errorf("%s is given %d times", key, len(values)))
		}
		switch key {
		case "flow":
			flow = values[0]
		case "last":
			if last, err = time.ParseDuration(values[0]); err != nil || last <= 0 || last > lossHistory {
				return 0, "", nil, service.BadRequest(
					fmt.Errorf("last: %q: want a time up to %s, for which results are kept, such as 30m", values[0], "1h"),
				)
			}
		}
	}
	q.Del("last")
	q.Del("flow") // a name alone, which need not be measured any more
	selects, err = recordsQuery(q)
	return last, flow, selects, err
}

// recordsQuery reads which records are wanted.
func recordsQuery(q url.Values) (*recordfilter.Program, error) {
	f, err := recordfilter.FromQuery(q)
	if err != nil {
		return nil, service.BadRequest(err)
	}
	selects, err := f.Compile()
	if err != nil {
		return nil, service.BadRequest(fmt.Errorf("where: %w", err))
	}
	return selects, nil
}

var descHistory = service.Metric(
	"loss_history_bytes",
	"Bytes that the results of measured flows take that are kept for an hour, at most 67108864.",
)

func (p *pastResults) collect(g *metrics.Gatherer) { g.Add(descHistory, float64(p.octets())) }
