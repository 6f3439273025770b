// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
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
	saved   uint64          // changes of the log that are in the file

	mu    sync.Mutex
	lines limitedLines
}

// eventsKept is how long they are kept.
const eventsKept = time.Hour

// NewEvents makes the service, which gets all records that are offered.
func NewEvents(d Dependencies, records *Records, history *History) *Events {
	x := &Events{d: d, records: records, history: history, log: eventlog.New(eventsKept), lines: limitedLines{log: d.Log}}
	records.events = x
	return x
}

// Open reads what an earlier agent kept.
func (x *Events) Open() error {
	const most = 4 << 20
	info, err := os.Stat(x.d.EventsFile)
	var saved []byte
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && info.Size() > most:
		err = errors.New("it is larger than such a file")
	case err == nil:
		saved, err = os.ReadFile(x.d.EventsFile)
	}
	if err == nil {
		err = x.log.Restore(saved, time.Now())
	}
	if err != nil {
		aside := x.d.EventsFile + ".broken"
		x.d.Log.Warn("the events of the last hour could not be read completely; they were set aside", "error", err, "file", aside)
		if err := os.Rename(x.d.EventsFile, aside); err != nil {
			x.d.Log.Warn("the events could not be set aside", "error", err)
		}
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
		if is && !x.log.Take(e) {
			return true
		}
		if is && !strings.HasPrefix(e.Name, "probe_") { // the service of probes has lines of its own
			x.mu.Lock()
			x.lines.write(e, time.Now())
			x.mu.Unlock()
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
	changes := x.log.Totals().Changes
	if changes == x.saved {
		return
	}
	x.saved = changes
	if err := service.ReplaceFile(x.d.EventsFile, x.log.Save()); err != nil {
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

// limitedLines writes a limited number of lines of events in a minute, and then how many there were.
type limitedLines struct {
	log    *slog.Logger
	began  time.Time
	lines  int
	silent int
}

// mostEventLines of a minute.
const mostEventLines = 20

func (l *limitedLines) write(e *record.Event, now time.Time) {
	if now.Sub(l.began) >= time.Minute {
		if l.silent > 0 {
			l.log.Warn("more events than lines in the log; waymark events has all", "events", l.silent)
		}
		l.began, l.lines, l.silent = now, 0, 0
	}
	if l.lines++; l.lines > mostEventLines {
		l.silent++
		return
	}
	log := l.log.Info
	if e.Severity != record.SeverityInfo {
		log = l.log.Warn
	}
	log(e.Facts, "event", e.Name, "id", e.ID, "subject", e.Subject)
}
