// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
)

// Bounds of views: each has an engine.
const (
	mostViews = 2
	// viewFor is how long a view lives after somebody looked at it last.
	viewFor = 90 * time.Second
)

// view has rollups of the records alone that pass a filter, since somebody began to look: rollups of all records
// do not say what single packets were.
type view struct {
	key    string
	engine *insight.Engine
	began  time.Time
	asked  time.Time // under the lock of the history

	mu        sync.Mutex // guards what follows
	program   *recordfilter.Program
	undecided uint64
	picked    []record.Record
}

// take takes the records that pass.
func (v *view) take(now time.Time, records []record.Record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.picked = v.picked[:0]
	for _, r := range records {
		is, err := v.program.Match(r)
		if err != nil {
			v.undecided++
		} else if is {
			v.picked = append(v.picked, r)
		}
	}
	if len(v.picked) > 0 {
		v.engine.Add(now, v.picked...)
		clear(v.picked)
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
var errNoPackets = errors.New(
	"only node, interface and flow can select of the kept hour, which has sums and no packets; for the others, leave out since and until, and set live=true",
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
	v.mu.Lock()
	r.Filtered = &insight.Filtered{Since: instant.Of(v.began.UTC()), Undecided: v.undecided}
	v.mu.Unlock()
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
			v.asked = now
			return v, nil
		}
	}
	if places, maximum := service.Places(r, mostViews); len(list) >= places {
		names := make([]string, len(list))
		for i, v := range list {
			names[i], _ = url.QueryUnescape(v.key)
		}
		return nil, service.Refusef(
			"%d filters are looked through, %s: %s; end one, or wait for %v",
			len(list),
			maximum,
			strings.Join(names, " and "),
			viewFor,
		)
	}
	v := &view{key: key, engine: h.engine.Load().View(viewKeep, now), began: now, asked: now, program: program}
	list = append(list, v)
	h.views.Store(&list)
	return v, nil
}

// viewKeep is how long the rollups of a view are kept.
const viewKeep = 10 * time.Minute

// freshViews are those that somebody looks at. The caller holds h.mu.
func (h *History) freshViews(now time.Time) []*view {
	return slices.DeleteFunc(slices.Clone(h.viewList()), func(v *view) bool { return now.Sub(v.asked).Abs() >= viewFor })
}

func (h *History) viewList() []*view {
	if list := h.views.Load(); list != nil {
		return *list
	}
	return nil
}

// tendViews ends their intervals, and those that nobody looks at. Called every second.
func (h *History) tendViews(now time.Time) {
	list := h.viewList()
	if len(list) == 0 {
		return
	}
	h.mu.Lock()
	list = h.freshViews(now)
	h.views.Store(&list)
	h.mu.Unlock()
	for _, v := range list {
		v.engine.SetClockError(h.clockError())
		v.engine.Advance(now)
		v.engine.Judge(now) // events are of all traffic
	}
}
