// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
	"github.com/waymark-net/waymark/internal/sink"
)

// Bounds of views: each has an engine.
const (
	mostViews = 2
	// viewFor is how long a view lives after the last question about it.
	viewFor = 90 * time.Second
)

// view has rollups of only those records that pass a filter, since the first question about it: rollups of all records
// do not say what single packets were.
type view struct {
	key       string
	engine    *insight.Engine
	began     time.Time
	lastAsked time.Time // under the lock of the history

	expression      recordfilter.Part // the expression, for the goroutine of the view; nil: there is none
	unexaminedQueue *sink.Queue       // what the expression has not examined
	closed          chan struct{}
	undecided       atomic.Uint64
	unexamined      atomic.Uint64 // found no room in unexaminedQueue

	mu     sync.Mutex // guards what follows
	fields recordfilter.Part
	passed []record.Record
}

func newView(key string, engine *insight.Engine, program *recordfilter.Program, room *sink.QueueSpace, now time.Time) *view {
	v := &view{key: key, engine: engine, began: now, lastAsked: now, closed: make(chan struct{})}
	v.fields, v.expression = program.Parts()
	if v.expression != nil {
		v.unexaminedQueue = sink.NewQueue(room)
		go v.examine()
	}
	return v
}

// add takes the records that pass. Who calls it reads a ring, so an expression is left to a goroutine of the view.
func (v *view) add(now time.Time, records []record.Record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.passed = appendPassing(v.passed[:0], records, v.fields, nil)
	defer clear(v.passed)
	switch {
	case len(v.passed) == 0:
	case v.unexaminedQueue == nil:
		v.engine.Add(now, v.passed...)
	default:
		for _, r := range v.passed {
			if !v.unexaminedQueue.Put(record.Retain(r)) {
				v.unexamined.Add(1)
			}
		}
	}
}

// appendPassing adds the records that pass to a list, and counts those for which there is no result.
func appendPassing(list, records []record.Record, part recordfilter.Part, undecided *atomic.Uint64) []record.Record {
	for _, r := range records {
		is, err := part(r)
		if err != nil && undecided != nil {
			undecided.Add(1)
		} else if is {
			list = append(list, r)
		}
	}
	return list
}

// examine takes the records that pass the expression, until the view is closed.
func (v *view) examine() {
	const most = 64 // at a time, because a closed view is to end soon
	var taken, passed []record.Record
	for {
		select {
		case <-v.closed:
			return
		case <-v.unexaminedQueue.Ready():
		}
		taken = v.unexaminedQueue.Drain(taken)
		for some := range slices.Chunk(taken, most) {
			select {
			case <-v.closed:
				return
			default:
			}
			if passed = appendPassing(passed[:0], some, v.expression, &v.undecided); len(passed) > 0 {
				v.engine.Add(time.Now(), passed...)
				clear(passed)
			}
		}
	}
}

// filterOf reads which part of the traffic a report is to be about; nil: all.
func filterOf(q url.Values) (*recordfilter.Filter, error) {
	if len(q) == 0 {
		return nil, nil
	}
	f, err := recordfilter.FromQuery(q)
	return &f, err
}

// ofRollups reports whether a filter is about what rollups have, too: the nodes, interfaces and flow of a path.
func ofRollups(f *recordfilter.Filter) bool {
	_, err := strconv.ParseUint(f.Flow, 0, 64) // rollups have no numbers of flows
	isNumber := err == nil
	rest := *f
	rest.Node, rest.Interface, rest.Flow = "", "", ""
	return rest == recordfilter.Filter{} && !isNumber
}

// onPath reports whether a path has the nodes, interfaces and flow of a filter.
func onPath(f *recordfilter.Filter, p *insight.PathReport) bool {
	is := func(wanted, name string, id uint64) bool {
		n, err := strconv.ParseUint(wanted, 0, 64)
		return wanted == name || err == nil && id != 0 && n == id
	}
	return (f.Flow == "" || f.Flow == p.Flow) &&
		(f.Node == "" || slices.ContainsFunc(p.Hops, func(h insight.HopReport) bool { return is(f.Node, h.Node, h.NodeID) })) &&
		(f.Interface == "" || slices.ContainsFunc(p.Hops, func(h insight.HopReport) bool {
			return is(f.Interface, h.IngressName, h.IngressID) || is(f.Interface, h.EgressName, h.EgressID)
		}))
}

// errNoPackets is why a filter cannot be about the past.
var errNoPackets error = problem.New(
	"only node, interface and flow can select of the kept hour, which has sums and no packets",
	"for the others, leave out since and until, and set live=true",
)

// filtered is a report of what passes a filter.
func (h *History) filtered(request *http.Request, q *historyTimes, now time.Time) (*insight.Report, error) {
	f := q.filter
	program, err := f.Compile()
	if err != nil {
		return nil, service.BadRequest(err)
	}
	if ofRollups(f) {
		r := h.engine.Load().Report(q.since, q.until, now, q.names...)
		h.name(r)
		r.Select(func(p *insight.PathReport) bool { return onPath(f, p) })
		return r, nil
	}
	if q.past || !q.live {
		return nil, service.BadRequest(errNoPackets)
	}
	v, err := h.viewOf(request, f.Query().Encode(), program, now)
	if err != nil {
		return nil, err
	}
	r := v.engine.Report(q.since, q.until, now, q.names...)
	r.Filtered = &insight.Filtered{Since: instant.Of(v.began.UTC()), Undecided: v.undecided.Load(), Unexamined: v.unexamined.Load()}
	h.name(r)
	return r, nil
}

// name adds names to a report.
func (h *History) name(r *insight.Report) {
	if s := h.d.State.Load(); s != nil {
		r.Name(s.Names)
	}
}

// viewOf is the view with a filter, which begins now if there is none.
func (h *History) viewOf(r *http.Request, key string, program *recordfilter.Program, now time.Time) (*view, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.freshViews(now)
	for _, v := range list {
		if v.key == key {
			v.lastAsked = now
			return v, nil
		}
	}
	if places, maximum := service.Places(r, mostViews); len(list) >= places {
		names := make([]string, len(list))
		for i, v := range list {
			names[i], _ = url.QueryUnescape(v.key)
		}
		return nil, service.Refused(problem.New(
			fmt.Sprintf("%d filters are looked through, %s: %s", len(list), maximum, strings.Join(names, " and ")),
			fmt.Sprintf("end one, or wait for %v", viewFor),
		))
	}
	v := newView(key, h.engine.Load().View(viewKeep, now), program, h.records.sinks.environment.QueueSpace, now)
	h.setViews(append(list, v))
	return v, nil
}

// setViews ends the views that are not in a list. The caller holds h.mu.
func (h *History) setViews(list []*view) {
	old := h.viewList()
	h.views.Store(&list)
	for _, v := range old {
		if !slices.Contains(list, v) {
			close(v.closed)
		}
	}
}

// viewKeep is how long the rollups of a view are kept.
const viewKeep = 10 * time.Minute

// freshViews are those that were asked for lately. The caller holds h.mu.
func (h *History) freshViews(now time.Time) []*view {
	return slices.DeleteFunc(slices.Clone(h.viewList()), func(v *view) bool { return now.Sub(v.lastAsked).Abs() >= viewFor })
}

func (h *History) viewList() []*view {
	if list := h.views.Load(); list != nil {
		return *list
	}
	return nil
}

// tendViews ends the intervals of views, and the views that are no longer asked for. It is called every second.
func (h *History) tendViews(now time.Time) {
	list := h.viewList()
	if len(list) == 0 {
		return
	}
	h.mu.Lock()
	list = h.freshViews(now)
	h.setViews(list)
	h.mu.Unlock()
	for _, v := range list {
		v.engine.SetClockError(h.clockError())
		v.engine.Advance(now)
		v.engine.Judge(now) // events are of all traffic
	}
}
