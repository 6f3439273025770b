// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
	"github.com/waymark-net/waymark/internal/sink"
)

// maxObservers bounds the cost of observers: each has a queue and a copy of every line.
const maxObservers = 64

// Records passes records from their sources to observers and sinks, and turns sources
// on while records are wanted.
type Records struct {
	service.Idle
	d       Dependencies
	clock   *Clock
	sinks   *Sinks
	history *History        // nil: there is none
	events  *Events         // nil: there are none
	closing <-chan struct{} // closed when observers must end
	stream  sink.Stream

	read      atomic.Uint64
	malformed atomic.Uint64

	sources   []func(wanted bool) // besides the data plane; each is called with requestMu held
	requestMu sync.Mutex
	ended     bool   // guarded by requestMu, as the next three: no more records are requested
	applied   demand // what the data plane was last asked for
	wanted    bool   // something besides the history wants them
	isApplied bool   // the data plane has accepted it
}

// demand is how many records the data plane is to make.
type demand struct {
	records int    // up to datapath.AllRecords
	part    uint64 // of the history's time, each with a number of its own
}

// NewRecords makes the way of records to observers, until closing, and to sinks.
func NewRecords(d Dependencies, clock *Clock, sinks *Sinks, closing <-chan struct{}) *Records {
	return &Records{d: d, clock: clock, sinks: sinks, closing: closing}
}

// Offer passes records to the observers and all sinks. Several goroutines call it at
// once.
func (x *Records) Offer(records ...record.Record) {
	if x.events != nil {
		records = x.events.addEvents(records)
	}
	x.stream.Publish(records...)
	x.sinks.offer(records...)
	if x.history != nil {
		x.history.add(records...)
	}
}

// Prepare requests records before the next configuration is in force, so that its sinks
// miss none.
func (x *Records) Prepare(p *service.Plan) error {
	p.OnAbandon(x.updateWanted)
	p.OnCommit(x.updateWanted)
	if len(p.Next.Config.Sinks) == 0 {
		return nil
	}
	x.requestMu.Lock()
	defer x.requestMu.Unlock()
	x.isApplied = false // updateWanted says it again
	return x.d.Datapath.SetRecordsWanted(datapath.AllRecords)
}

// updateWanted turns the data plane's records and other sources on while a sink or an observer
// wants them, else off. For the history alone, only those of the data plane are on.
func (x *Records) updateWanted() {
	x.requestMu.Lock()
	defer x.requestMu.Unlock()
	if x.ended {
		return
	}
	wanted := x.isAskedFor()
	var made demand
	if x.history != nil {
		made = x.history.wants()
	}
	if wanted {
		made = demand{records: datapath.AllRecords}
	}
	if made != x.applied || wanted != x.wanted || !x.isApplied {
		err := x.d.Datapath.SetRecordsWanted(made.records)
		if err != nil {
			x.d.Log.Warn("the data plane's records could not be turned on or off", "error", err)
		}
		x.applied, x.wanted, x.isApplied = made, wanted, err == nil
	}
	if x.history != nil {
		x.history.watched(made.records > 0)
	}
	for _, source := range x.sources {
		source(wanted)
	}
}

// isSampled reports whether records are made for the history alone, which takes a sample of them, or
// have been until just now.
func (x *Records) isSampled() bool {
	x.requestMu.Lock()
	defer x.requestMu.Unlock()
	return !x.wanted && (x.applied.records > 0 || x.history != nil && x.history.limit(time.Now()) > 0)
}

// isAskedFor reports whether a sink or an observer wants records.
func (x *Records) isAskedFor() bool { return x.stream.Observers() > 0 || x.sinks.Any() }

// end leaves records in the rings for the next agent only if there is a sink for them,
// because observers must connect again. It reports whether the rings go away, and must
// be read now.
func (x *Records) end(removing bool) (leaving bool) {
	x.requestMu.Lock()
	defer x.requestMu.Unlock()
	x.ended = true
	if x.sinks.Any() && !removing {
		return false
	}
	if err := x.d.Datapath.SetRecordsWanted(0); err != nil {
		x.d.Log.Warn("records are written although nothing wants them", "error", err)
	}
	return removing
}

var (
	descRecordsRead     = service.Metric("records_read_total", "Records that the agent read.")
	descRecordsBad      = service.Metric("records_malformed_total", "Traces in records that could not be read completely.")
	descObservers       = service.Metric("observers", "Observers of live records.")
	descObserverDropped = service.Metric("observer_dropped_total", "Records that did not fit an observer's queue.")
	descUndecided       = service.Metric(
		"observer_undecided_total",
		"Records that an observer did not get because its expression has no result for them.",
	)
)

func (x *Records) Collect(g *metrics.Gatherer) {
	g.Add(descRecordsRead, float64(x.read.Load()))
	g.Add(descRecordsBad, float64(x.malformed.Load()))
	g.Add(descObservers, float64(x.stream.Observers()))
	g.Add(descObserverDropped, float64(x.stream.Dropped()))
	g.Add(descUndecided, float64(x.stream.Undecided()))
}

func (x *Records) Report(s *service.State, status *api.Status) {
	r := &status.Records
	r.Read, r.Malformed = x.read.Load(), x.malformed.Load()
	r.Observers, r.Dropped = x.stream.Observers(), x.stream.Dropped()
	r.Advice = whyNone(s.Config)
}

func (x *Records) Routes() service.Routes {
	return service.Routes{
		// A stream of records, one JSON object per line, as they happen, until the client closes the connection.
		// At most 64 observers are served at once, 48 if a member of `node.read-group` asks. Filters:
		// `kinds=KIND,KIND`, `namespace=ID`, `source=PREFIX`,
		// `destination=PREFIX`, `port=PORT`, `protocol=NUMBER`, `node=NAME`, `interface=NAME`, `flow=NAME`,
		// `min-delay=TIME`, `incomplete=true` and `where=EXPRESSION`, as [the flags of `observe`](../how-to/filter-records.md);
		// a record must pass all given filters, and an observer gets nothing else. What can match nothing, such as an
		// unknown kind or a wrong expression, is refused with 400.
		// With `form=monitor`, the lines are the traces alone, as `ip ioam monitor` of iproute2 prints the
		// kernel's events; lines about the observer itself stay JSON.
		//
		// Lines have a `kind`; skip those you do not know. `trace` is a trace. `{"kind":"lost","count":N}` says
		// that N records did not fit the observer's queue, which takes 4096 and the results of two blocks of all
		// measured flows, or could not be examined by its expression in time: a slow observer loses records and never
		// slows packets. The line comes after the records
		// that were queued before, whatever was lost.
		"GET /v1/records": x.getRecords,
	}
}

// getRecords streams records as JSON lines until the observer has enough.
func (x *Records) getRecords(w http.ResponseWriter, r *http.Request) error {
	filter, write, err := recordQuery(r)
	if err != nil {
		return err
	}
	if places, maximum := service.Places(r, maxObservers); x.stream.Observers() >= places {
		return service.Refused(problem.New(
			fmt.Sprintf("%d observers are connected, %s", places, maximum),
			"end one of them, or let a sink write a file for several readers",
		))
	}
	var filters sink.Filters
	quick, where := filter.Parts()
	filters.Quick = quick
	if where != nil {
		filters.Costly = where
	}
	o := x.stream.Observe(filters, x.sinks.environment.QueueSpace)
	x.updateWanted()
	defer x.updateWanted()
	defer o.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	var taken []record.Record
	follow(w, r, x.closing, o.Queue().Ready(), func(struct{}) bool {
		taken = o.Queue().Drain(taken)
		return writeRecords(w, taken, o.TakeLost(), write)
	})
	return nil
}

// writeRecords writes records, then how many were lost after them, which has a line of its own
// whatever became of the queue.
func writeRecords(w io.Writer, list []record.Record, lost uint64, line func(record.Record) []byte) bool {
	for _, r := range list {
		if _, err := w.Write(line(r)); err != nil {
			return false
		}
	}
	if lost > 0 {
		_, err := w.Write(line(&record.Lost{Count: lost}))
		return err == nil
	}
	return true
}

// recordQuery reads which records are wanted, and how.
func recordQuery(r *http.Request) (*recordfilter.Program, func(record.Record) []byte, error) {
	line := func(r record.Record) []byte { return record.AppendLine(nil, r) }
	q := r.URL.Query()
	switch form := q["form"]; {
	case len(form) == 1 && form[0] == "monitor":
		line = monitorLine
	case len(form) > 0 && !(len(form) == 1 && form[0] == "json"):
		return nil, nil, service.BadRequest(problem.New(fmt.Sprintf("form=%s is not valid", strings.Join(form, ",")), "use json, or monitor"))
	}
	q.Del("form")
	f, err := recordfilter.FromQuery(q)
	if err != nil {
		return nil, nil, service.BadRequest(err)
	}
	program, err := f.Compile()
	if err != nil {
		return nil, nil, service.BadRequest(fmt.Errorf("where: %w", err))
	}
	return program, line, nil
}

// monitorLine is a trace as iproute2 prints it, and how many were lost; nothing of other records.
func monitorLine(r record.Record) []byte {
	switch r := r.(type) {
	case *record.Trace:
		return []byte(r.MonitorLine())
	case *record.Lost:
		return record.AppendLine(nil, r)
	}
	return nil
}
