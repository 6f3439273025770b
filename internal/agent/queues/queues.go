// SPDX-License-Identifier: Apache-2.0

// Package queues has the service that measures how long packets wait in the queues of the served
// interfaces, while the configuration or a client wants it.
package queues

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/datapath/queue"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
)

// Dependencies are what the service needs of the agent.
type Dependencies struct {
	Log     *slog.Logger
	State   service.Current
	Tasks   *service.Tasks
	Machine Machine

	NodeName func() string // of this node in records
	Records  Records
	File     string // keeps what is usual for the next agent; "": nothing does
}

// Records takes the records of events.
type Records interface{ Offer(...record.Record) }

// Machine times packets; [Kernel] is the real one.
type Machine interface {
	Open(devices []model.IfIndex) (Meter, error)
	Disciplines() (map[model.IfIndex]queue.Discipline, error)
}

// Meter is an open measurement; [queue.Meter] documents it.
type Meter interface {
	Follow(devices []model.IfIndex) error
	Read() (map[model.IfIndex]queue.Waits, error)
	Close() error
}

// Kernel measures in the agent's network namespace.
type Kernel struct{}

// Open begins to time the packets of devices.
func (Kernel) Open(devices []model.IfIndex) (Meter, error) {
	cookie, err := queue.Cookie()
	if err != nil {
		return nil, err
	}
	m, err := queue.Open(cookie, devices)
	if err != nil {
		return nil, err // not m, which would be a Meter that is not nil
	}
	return m, nil
}

// Disciplines are the kernel's queues.
func (Kernel) Disciplines() (map[model.IfIndex]queue.Discipline, error) { return queue.Disciplines() }

// period is how often the counters are read, and devices followed.
const period = time.Second

// retryPeriod is the time before a measurement that could not begin is tried again.
const retryPeriod = 10 * time.Second

// mostWatchers bounds the streams of the API.
const mostWatchers = 16

// Queues measures the queues of the served interfaces.
type Queues struct {
	service.Idle
	d       Dependencies
	closing <-chan struct{}
	wake    chan struct{}
	drops   drops

	mu       sync.Mutex // guards what follows
	ended    bool
	watchers int
	looked   time.Time // the last look
	alarm    alarm
	kept     []keptTotals
	meter    Meter     // nil: nothing is measured
	retry    time.Time // not before, after a failure
	fault    string    // why nothing is measured although it is wanted
	last     map[model.IfIndex]reading
	totals   map[string]*totals // by interface, since the agent began
	watch    *insight.QueueWatch
	usual    usualFile
}

// reading is what a device had counted when it was last read.
type reading struct {
	waits   queue.Waits
	dropped uint64
}

// totals are what was counted at an interface.
type totals struct {
	packets, untimed, dropped uint64
	total                     uint64         // nanoseconds
	waits                     map[int]uint64 // by bucket
	unfit                     bool           // the queue reads what stands in packets that are timed, so none is
}

// New makes the service; closing ends its streams.
func New(d Dependencies, closing <-chan struct{}) *Queues {
	return &Queues{
		d:       d,
		closing: closing,
		wake:    make(chan struct{}, 1),
		last:    make(map[model.IfIndex]reading),
		totals:  make(map[string]*totals),
		watch:   insight.NewQueueWatch(time.Now()),
	}
}

// Prepare begins or ends the measurement with the configuration.
func (q *Queues) Prepare(p *service.Plan) error {
	p.OnCommit(q.wakeUp)
	return nil
}

// wakeUp makes Run look at once.
func (q *Queues) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Run reads the counters until the context ends.
func (q *Queues) Run(ctx context.Context) error {
	for due := service.Due(period); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-due:
			due = service.Due(period)
		case <-q.wake:
		}
		end := q.d.Tasks.Begin(time.Now())
		q.follow()
		q.judge(time.Now())
		q.sampleDrops(time.Now())
		q.usual.save(&q.d, q.watch, time.Now())
		end()
	}
}

// Open reads what was usual for an earlier agent.
func (q *Queues) Open() error {
	q.usual.open(&q.d, q.watch, time.Now())
	return nil
}

// Close ends the measurement.
func (q *Queues) Close(removing bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.stop()
	if removing && q.d.File != "" {
		_ = os.Remove(q.d.File) // it may not exist
		return
	}
	q.usual.saved = time.Time{}
	q.usual.save(&q.d, q.watch, time.Now())
}

func (q *Queues) stop() {
	if q.meter == nil {
		return
	}
	if err := q.meter.Close(); err != nil {
		q.d.Log.Warn("the measurement of queues did not end in order", "error", err)
	}
	q.meter, q.last, q.kept = nil, make(map[model.IfIndex]reading), nil
}

// follow measures the interfaces that are served now, or none, and counts what has come.
func (q *Queues) follow() {
	q.mu.Lock()
	defer q.mu.Unlock()
	state := q.d.State.Load()
	if state == nil || q.ended {
		q.stop()
		return
	}
	disciplines, wanted, err := q.look(state, time.Now())
	if err != nil {
		q.fail(err)
		return
	}
	if !wanted {
		q.stop()
		q.fault, q.retry = "", time.Time{}
		return
	}
	unread := q.read(state, disciplines)
	var devices []model.IfIndex
	for _, in := range state.Resolved.Node.Interfaces {
		at := q.of(in.Name)
		if at.unfit = disciplines[in.Index].ReadsOurs(); !at.unfit {
			devices = append(devices, in.Index)
		}
	}
	if q.meter != nil {
		if err = q.meter.Follow(devices); errors.Is(err, queue.ErrRoom) {
			q.stop()
		}
	}
	if q.meter == nil {
		if time.Now().Before(q.retry) {
			return
		}
		q.retry = time.Now().Add(retryPeriod)
		if q.meter, err = q.d.Machine.Open(devices); err == nil {
			q.retry = time.Time{}
			for index, d := range disciplines {
				q.last[index] = reading{dropped: d.Dropped}
			}
		}
	}
	if q.meter != nil {
		q.keep(time.Now())
	}
	q.fail(errors.Join(unread, err))
}

// fail keeps why the measurement lacks something, and logs it once.
func (q *Queues) fail(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != q.fault {
		q.d.Log.Warn("queues are not measured, or not all", "error", text)
	}
	q.fault = text
}

// of are the totals of an interface.
func (q *Queues) of(name string) *totals {
	if q.totals[name] == nil {
		q.totals[name] = &totals{waits: make(map[int]uint64)}
	}
	return q.totals[name]
}

// read adds what was counted since the last time.
func (q *Queues) read(state *service.State, disciplines map[model.IfIndex]queue.Discipline) error {
	if q.meter == nil {
		return nil
	}
	now, err := q.meter.Read()
	if err != nil {
		return err
	}
	next := make(map[model.IfIndex]reading, len(now))
	for _, in := range state.Resolved.Node.Interfaces {
		waits := now[in.Index]
		before, known := q.last[in.Index]
		next[in.Index] = reading{waits, disciplines[in.Index].Dropped}
		if waits.Packets < before.waits.Packets || waits.Untimed < before.waits.Untimed {
			before.waits = queue.Waits{} // another device has the index
		}
		at := q.of(in.Name)
		was := *at
		was.waits = maps.Clone(at.waits)
		at.add(waits, before.waits)
		if dropped := next[in.Index].dropped; known && dropped > before.dropped {
			at.dropped += dropped - before.dropped
		}
		q.addTotals(time.Now(), in.Name, at.minus(&was))
	}
	q.last = next
	return nil
}

func (t *totals) add(now, before queue.Waits) {
	t.packets += now.Packets - before.Packets
	t.untimed += now.Untimed - before.Untimed
	t.total += now.Total - before.Total
	for _, b := range now.Buckets {
		t.waits[b.Index] += b.Count
	}
	for _, b := range before.Buckets {
		t.waits[b.Index] -= b.Count
	}
}

// minus is what was counted since an earlier copy.
func (t *totals) minus(before *totals) totals {
	out := totals{waits: make(map[int]uint64), unfit: t.unfit}
	if before == nil {
		before = &totals{}
	}
	out.packets, out.untimed = t.packets-before.packets, t.untimed-before.untimed
	out.dropped, out.total = t.dropped-before.dropped, t.total-before.total
	for index, n := range t.waits {
		if n -= before.waits[index]; n > 0 {
			out.waits[index] = n
		}
	}
	return out
}

// histogram has the buckets with packets, in order.
func (t *totals) histogram() *exponential.Histogram {
	h := &exponential.Histogram{Scale: exponential.DelayScale}
	for _, index := range slices.Sorted(maps.Keys(t.waits)) {
		if n := t.waits[index]; n > 0 {
			h.Buckets = append(h.Buckets, exponential.Bucket{Index: index, Count: n})
		}
	}
	return h
}

// addTotals gives what a queue did since the last time to who looks for what is unusual.
func (q *Queues) addTotals(now time.Time, name string, t totals) {
	var waits exponential.Delays
	for _, b := range t.histogram().Buckets { // of seconds
		low, high := exponential.Upper(b.Index-1, exponential.DelayScale), exponential.Upper(b.Index, exponential.DelayScale)
		waits.AddN(int64(1e9*math.Sqrt(low*high)), b.Count)
	}
	dropped := t.dropped
	q.watch.Add(now, name, &waits, insight.Loss{Sent: t.packets + t.untimed + dropped, Lost: dropped})
}

// judge tells what is unusual as events.
func (q *Queues) judge(now time.Time) {
	for _, f := range q.watch.Judge(now) {
		q.d.Records.Offer(f.Record(q.d.NodeName()))
	}
}

var (
	descDelay = histogram(service.Metric("queue_delay_seconds",
		"Time that packets waited in the queue of an interface, from the egress hook to the driver, while queues are measured.", "interface"))
	descUntimed = service.Metric(
		"queue_untimed_packets_total",
		"Packets that reached the driver without being timed, because their sender paces them, or another program ended the chain "+
			"of the egress hook.",
		"interface",
	)
	descDropped = service.Metric(
		"queue_dropped_packets_total",
		"Packets that the queue of an interface dropped while queues were measured, as the kernel counts them.",
		"interface",
	)
)

// histogram gives a metric classic buckets from a microsecond to 16 seconds.
func histogram(d *metrics.Desc) *metrics.Desc {
	d.Bounds = exponential.Powers(-20, 4, 1)
	return d
}

// Collect adds the metrics of all interfaces that were measured.
func (q *Queues) Collect(g *metrics.Gatherer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(q.totals)) {
		t := q.totals[name]
		g.AddHistogram(descDelay, metrics.Histogram{Sum: float64(t.total) / 1e9, Native: t.histogram()}, name)
		g.Add(descUntimed, float64(t.untimed), name)
		g.Add(descDropped, float64(t.dropped), name)
	}
}

// Routes answers what packets waited.
func (q *Queues) Routes() service.Routes {
	return service.Routes{
		// How long packets wait in the queues of the served interfaces: a stream of JSON lines, one each second,
		// each about the second before, until the client closes the connection. Queues are measured at least
		// as long; at most 16 clients are served at once. `interval=10s` sets another time, from 1s to 1h.
		// Quantiles are the middle of an exponential histogram's bucket, at most 2.2% away from the value.
		"GET /v1/queues": q.getQueues,
	}
}
