// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/eventlog"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
)

// Events keeps the events of the last hour, whichever service found them, and tells those that the history
// shows: they are records, lines of the log, and metrics.
type Events struct {
	service.Idle
	d       Dependencies
	records *Records
	history *History
	log     *eventlog.Log
	engine  *insight.Engine // that was asked last
	file    *eventlog.File

	mu    sync.Mutex
	lines eventlog.Lines
}

// eventsKept is how long they are kept.
const eventsKept = time.Hour

// NewEvents makes the service, which gets all records that are offered.
func NewEvents(d Dependencies, records *Records, history *History) *Events {
	x := &Events{d: d, records: records, history: history, log: eventlog.New(eventsKept)}
	x.file = eventlog.NewFile(d.EventsFile, x.log)
	records.events = x
	return x
}

// Open reads what an earlier agent kept.
func (x *Events) Open() error {
	if err := x.file.Restore(time.Now()); err != nil {
		x.d.Log.Warn("the events of the last hour could not be read completely", "error", err)
	}
	return nil
}

// addEvents keeps the events among records, and leaves out those that are to go nowhere.
func (x *Events) addEvents(records []record.Record) []record.Record {
	is := func(r record.Record) bool { _, is := r.(*record.Event); return is }
	if !slices.ContainsFunc(records, is) {
		return records
	}
	return slices.DeleteFunc(slices.Clone(records), func(r record.Record) bool {
		e, is := r.(*record.Event)
		if is && !x.log.Add(e) {
			return true
		}
		if is && !strings.HasPrefix(e.Name, "probe_") { // the service of probes has lines of its own
			x.writeLine(e, time.Now())
		}
		return false
	})
}

// Run looks every second at what is new in the history.
func (x *Events) Run(ctx context.Context) error {
	x.d.Tasks.Every(ctx, service.PollPeriod, x.second)
	return nil
}

func (x *Events) second() {
	now := time.Now()
	if x.log.Followed() {
		x.history.noteLook(now)
	}
	if e := x.history.engine.Load(); e != nil {
		if x.engine != nil && x.engine != e { // the new one does not know what began
			x.log.Doubt(now, record.EventSegmentSlow, record.EventHeldLong, record.EventLoss, record.EventNodeSilent)
		}
		x.engine = e
		for _, f := range e.Judge(now) {
			if s := x.d.State.Load(); s != nil {
				f.Name(s.Names)
			}
			x.records.Offer(f.Record(x.d.NodeName()))
		}
	}
	for _, e := range x.log.Unseen(now, x.d.NodeName()) {
		x.records.Offer(e)
	}
	x.save()
}

func (x *Events) save() {
	if err := x.file.Save(); err != nil {
		x.d.Log.Warn("the events of the last hour could not be kept for the next agent", "error", err)
	}
}

// Close keeps what there is for the next agent, or removes it with all else.
func (x *Events) Close(removing bool) {
	if removing {
		_ = os.Remove(x.d.EventsFile) // it may not exist
		return
	}
	x.save()
}

var (
	descEvents        = service.Metric("events_total", "Events that were told, by kind of event.", "kind")
	descEventsBegun   = service.Metric("events_begun", "What has begun and not ended, by the kind of event that began it.", "kind")
	descEventsLeftOut = service.Metric(
		"events_left_out_total",
		"Events that were not told, because there were six of their kind and subject in ten minutes, or 1000 in a minute.",
	)
)

// Collect has all kinds from the start.
func (x *Events) Collect(g *metrics.Gatherer) {
	t := x.log.Totals()
	for i := range record.EventKinds() {
		k := &record.EventKinds()[i]
		g.Add(descEvents, float64(t.Admitted[k.Name]), k.Name)
		if k.Begins() {
			g.Add(descEventsBegun, float64(t.Begun[k.Name]), k.Name)
		}
	}
	g.Add(descEventsLeftOut, float64(t.LeftOut))
}

// writeLine writes a line of the log, or counts one that is too many. Several goroutines call it at once.
func (x *Events) writeLine(e *record.Event, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	write, leftOut := x.lines.Next(now)
	if leftOut > 0 {
		x.d.Log.Warn("more events than lines in the log; waymark events has all", "events", leftOut)
	}
	if !write {
		return
	}
	log := x.d.Log.Info
	if e.Severity != record.SeverityInfo {
		log = x.d.Log.Warn
	}
	log(e.Facts, "event", e.Name, "id", e.ID, "subject", e.Subject)
}
