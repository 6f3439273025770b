// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
)

const (
	// passed is how many records are offered to a sink at a time.
	passed = 1024
	// mostAwaited is how long the joining stage waits for a sink that has no room and hardly writes
	// meanwhile: a slow sink slows the exporters, and one that has stopped does not stop the collector.
	mostAwaited = time.Second
	// leastWritten is how many records a sink writes in that time, or it counts as stopped: one that writes a record now
	// and then would hold up the exporters, and all other sinks, until its queue has room.
	leastWritten = passed / 8
	// watchInterval is how often the operator gets a message about what became of a sink.
	watchInterval = 100 * time.Millisecond
	// lossInterval is the time between two messages that a sink loses records.
	lossInterval = 10 * time.Second
)

// NewQueueSpace is that of a queue between the joining stage and the writer of an output: of 32,768
// records, of about 2 kB each.
func NewQueueSpace() *sink.QueueSpace {
	var usual, room sink.QueueSpace
	room.SetBurst((1<<15 - usual.Records()) / 2)
	return &room
}

// output is the last stage: the sinks, each with a queue and a goroutine of its own.
type output struct {
	sinks            []sink.Sink
	reportToOperator func(slog.Level, string)
	stopped          []bool // by sink, it had no room and wrote next to nothing; only the joining stage uses it

	running []*running // in the order in which they end
}

// teller is a sink that offers records of its own to others, and ends before them.
type teller interface{ Tell(to ...sink.Sink) }

// running are sinks that end together.
type running struct {
	stop func()
	done sync.WaitGroup
}

func (r *running) end() {
	r.stop()
	r.done.Wait()
}

// start runs the sinks until end.
func (o *output) start() {
	tellers, others := &running{}, &running{}
	o.running = []*running{tellers, others}
	var contexts [2]context.Context
	for i, r := range o.running {
		contexts[i], r.stop = context.WithCancel(context.Background())
	}
	for _, s := range o.sinks {
		ctx, with := contexts[1], others
		if _, tells := s.(teller); tells {
			ctx, with = contexts[0], tellers
		}
		with.done.Go(func() { s.Run(ctx) })
		with.done.Go(func() { o.watch(ctx, s) })
	}
}

// end lets the sinks write what waits, and is why some of it could not be written.
func (o *output) end() error {
	for _, r := range o.running {
		r.end()
	}
	var errs []error
	for _, s := range o.sinks {
		switch stats := s.Stats(); {
		case stats.Missed() == 0:
		case stats.Error != "":
			errs = append(errs, problem.New(fmt.Sprintf("write records: %s; %d were lost", stats.Error, stats.Missed()), stats.Cure))
		default:
			o.reportToOperator(slog.LevelWarn, fmt.Sprintf("%s: %d records were lost in all", s.Name(), stats.Missed()))
		}
	}
	return errors.Join(errs...)
}

// pass offers records to all sinks. If a sink has no room, pass waits for it as long as the sink
// writes enough; for a sink that has stopped writing, it waits only once.
func (o *output) pass(batch []record.Record) {
	for i, s := range o.sinks {
		for rest := batch; len(rest) > 0; {
			n := min(len(rest), passed)
			o.stopped[i] = !o.awaitRoom(i, n)
			s.Offer(rest[:n]...)
			rest = rest[n:]
		}
	}
}

// awaitRoom waits until a sink has room; false: it has stopped.
func (o *output) awaitRoom(i, records int) bool {
	s := o.sinks[i]
	if o.stopped[i] {
		return sink.Await(s, records, 0)
	}
	for written := s.Stats().Written; !sink.Await(s, records, mostAwaited); {
		now := s.Stats().Written
		if now-written < leastWritten {
			return false
		}
		written = now
	}
	return true
}

// watch tells the operator when a sink fails, works again, or loses records.
func (o *output) watch(ctx context.Context, s sink.Sink) {
	each := time.NewTicker(watchInterval)
	defer each.Stop()
	var w reported
	for {
		if level, text := w.describeChange(s.Stats(), time.Now()); text != "" {
			o.reportToOperator(level, s.Name()+": "+text)
		}
		select {
		case <-each.C:
		case <-ctx.Done():
			return
		}
	}
}

// reported is what the operator knows of a sink.
type reported struct {
	fault  string
	missed uint64
	next   time.Time // not before, the next message about losses
}

// describeChange is what has changed, as a text, and how serious it is; "": nothing.
func (w *reported) describeChange(s sink.Stats, now time.Time) (level slog.Level, text string) {
	before, lost := *w, s.Missed()-w.missed
	w.fault = s.Error
	switch {
	case s.Error != "" && before.fault == "":
		w.next = now.Add(lossInterval)
		return slog.LevelError, problem.New(s.Error, s.Cure).Error() + "; it keeps trying, and counts the records that are lost"
	case s.Error == "" && before.fault != "":
		w.missed = s.Missed()
		return slog.LevelInfo, fmt.Sprintf("it works again; %d records were lost", lost)
	case lost > 0 && !now.Before(w.next):
		w.missed, w.next = s.Missed(), now.Add(lossInterval)
		return slog.LevelWarn, fmt.Sprintf("%d records had no room and were lost", lost)
	}
	return slog.LevelInfo, ""
}

var (
	descOutputWritten = desc("output_written_total", "Records that an output wrote.", "output")
	descOutputDropped = desc("output_dropped_total", "Records that an output lost, by cause.", "output", "cause")
	descOutputQueued  = desc("output_queued_records", "Records that wait in an output.", "output")
)

// collect adds the metrics of the sinks.
func (o *output) collect(g *metrics.Gatherer) {
	for _, s := range o.sinks {
		stats := s.Stats()
		g.Add(descOutputWritten, float64(stats.Written), s.Name())
		for cause, n := range stats.ByCause() {
			g.Add(descOutputDropped, float64(n), s.Name(), cause)
		}
		g.Add(descOutputQueued, float64(stats.Waiting()), s.Name())
	}
}
