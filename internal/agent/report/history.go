// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
)

// History keeps rollups of the last hour, of all records that anything wants. When nothing else does, it
// asks for some itself: a number in each part of a second, which the programs do not exceed. So what it costs
// is bounded however many packets there are.
type History struct {
	service.Idle
	d       Dependencies
	records *Records
	waits   Waits // nil: queues are not measured

	engine   atomic.Pointer[insight.Engine]
	keep     time.Duration // of the engine; under the lock of changes, as the next
	prefixes []insight.NamedPrefix
	rate     atomic.Int64 // records in a second, if nothing else wants them
	none     atomic.Bool  // it asks for no records unless it is watched

	part      atomic.Uint64 // of the time: parts of a second that began
	counted   atomic.Int64  // records in this part, or in this second while it is watched
	newest    atomic.Int64  // the time of the last record, in ns of UTC
	paused    atomic.Bool   // until the next part or second
	lastAsked atomic.Int64  // when it was last asked what is going on, in ns of UTC
	wake      chan struct{}

	resting atomic.Bool   // the part lasts until the next second, or until a record comes
	roused  chan struct{} // gets a value when a record comes meanwhile
	active  bool          // there were records in this second; only Run's

	reports chan struct{} // has one for each report that is being made

	mu        sync.Mutex
	followers map[chan []byte]bool // each gets intervals when they end
	saved     uint64               // intervals that had ended when the file was written

	file  historyFile
	views atomic.Pointer[[]*view] // changed under mu
}

// Waits says what packets wait in the queues of this node, and measures that while it is asked.
type Waits interface {
	Look(live bool, since time.Time) *insight.Queues
}

// NewHistory makes the history, which gets all records that are offered.
func NewHistory(d Dependencies, records *Records, waits Waits) *History {
	h := &History{
		d:         d,
		records:   records,
		waits:     waits,
		wake:      make(chan struct{}, 1),
		roused:    make(chan struct{}, 1),
		reports:   make(chan struct{}, mostReports),
		followers: make(map[chan []byte]bool),
	}
	records.history = h
	return h
}

// parts is in how many parts of a second the history gets its records, so that it has samples of the whole
// second.
const parts = 10

// liveRate is how many records in a second are made while the history is watched, and nothing else wants any.
const liveRate = config.MaxHistoryRate

// liveFor is how long after a question the history counts as watched.
const liveFor = 5 * time.Second

func (h *History) isLive(now time.Time) bool {
	return time.Duration(now.UnixNano()-h.lastAsked.Load()).Abs() < liveFor // the clock may have been set back
}

// limit is how many records it asks for in a second.
func (h *History) limit(now time.Time) int64 {
	switch {
	case h.isLive(now):
		return liveRate
	case h.none.Load():
		return 0
	}
	return h.rate.Load()
}

// share is how many of them it asks for in this part of the second, in the first at least one; while it is watched,
// in the second, because who looks is to see all that there is.
func (h *History) share(now time.Time) int64 {
	limit := h.limit(now)
	if h.isLive(now) {
		return limit
	}
	k := int64(h.part.Load() % parts)
	return (limit*(k+1)+parts-1)/parts - (limit*k+parts-1)/parts
}

// wants is how many records it wants from now on.
func (h *History) wants() demand {
	now := time.Now()
	switch share := h.share(now); {
	case h.engine.Load() == nil || h.paused.Load() || share == 0:
		return demand{}
	case h.isLive(now):
		return demand{records: datapath.AllRecords}
	default:
		return demand{int(share), h.part.Load()}
	}
}

// add takes records. Several goroutines call it at once.
func (h *History) add(records ...record.Record) {
	e := h.engine.Load()
	if e == nil {
		return
	}
	now := time.Now()
	e.Add(now, records...)
	for _, v := range h.viewList() {
		v.add(now, records)
	}
	for _, r := range records {
		if t, ok := r.(*record.Trace); ok {
			h.newest.Store(t.Time.UnixNano())
		}
	}
	if h.counted.Add(int64(len(records))) >= h.share(now) && !h.paused.Swap(true) {
		notify(h.wake)
	}
	if h.resting.Load() && h.resting.Swap(false) {
		notify(h.roused)
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watched notes whether records are made from now on. If they end because the programs have made as many
// as they may, they ended with the last record.
func (h *History) watched(wanted bool) {
	e, at := h.engine.Load(), time.Now()
	if e == nil {
		return
	}
	if newest := time.Unix(0, h.newest.Load()); !wanted && h.paused.Load() && newest.Before(at) {
		at = newest
	}
	e.Watch(at, wanted)
	for _, v := range h.viewList() {
		v.engine.Watch(at, wanted)
	}
}

// Prepare makes an engine when there is none, or it is to keep another time.
func (h *History) Prepare(p *service.Plan) error {
	kept := p.Next.Config.Kept()
	p.OnCommit(func() {
		names := make([]insight.NamedPrefix, 0, len(kept.Prefixes))
		for _, one := range kept.Prefixes {
			names = append(names, insight.NamedPrefix{Name: one.Name, Prefix: one.Prefix})
		}
		h.rate.Store(int64(kept.Rate))
		h.none.Store(exports(p.Next.Config))
		e, keep := h.engine.Load(), time.Duration(kept.Keep)
		same := keep == h.keep && slices.Equal(names, h.prefixes)
		switch {
		case e == nil:
			h.begin(keep, h.read())
		case keep != h.keep:
			h.begin(keep, e.Save())
		}
		h.engine.Load().SetPrefixes(names)
		if h.prefixes = names; !same {
			h.endViews() // they begin again, with these prefixes
		}
		h.records.updateWanted()
	})
	return nil
}

func (h *History) endViews() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setViews(nil)
}

// exports reports whether the node reports Direct Exports. There, the history asks for no records unless it is watched:
// postcards and flows are for collectors, and their limits and tables are not to be used up before there is one.
func exports(c *config.Config) bool {
	return slices.ContainsFunc(c.Namespaces, func(ns config.Namespace) bool { return ns.Export != model.ExportNone })
}

// begin makes an engine with what was kept before.
func (h *History) begin(keep time.Duration, saved []byte) {
	now := time.Now()
	e := insight.New(insight.Settings{Keep: keep, Rate: config.MaxHistoryRate}, now)
	switch err := e.Restore(saved, now); {
	case errors.Is(err, insight.ErrCut): // it is at the end of the file, and nothing else is wrong
		h.d.Log.Info("the agent before was ended while it wrote its history: the last interval lacks")
	case err != nil:
		h.setAside(err)
	}
	e.OnClosed(h.publish)
	e.SetClockError(h.clockError())
	h.keep = keep
	h.engine.Store(e)
}

// read reads what an earlier agent kept.
func (h *History) read() []byte {
	const most = 64 << 20
	info, err := os.Stat(h.d.HistoryFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var b []byte
	if err == nil && info.Size() <= most {
		b, err = os.ReadFile(h.d.HistoryFile)
	} else if err == nil {
		err = errors.New("it is larger than a history")
	}
	if err != nil {
		h.setAside(err)
	}
	return b
}

// setAside keeps a file that cannot be read for who wants to know why.
func (h *History) setAside(why error) {
	aside := h.d.HistoryFile + ".broken"
	h.d.Log.Warn("the history of the last hour could not be read completely; it was set aside", "error", why, "file", aside)
	if err := os.Rename(h.d.HistoryFile, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.d.Log.Warn("the history could not be set aside", "error", err)
	}
}

// clockError is by how much the difference of two nodes' clocks may be wrong: twice what is known of
// this one's.
func (h *History) clockError() int64 {
	if h.d.OneClock {
		return 0
	}
	if s := h.d.State.Load(); s != nil && s.Resolved.Node.Measurement.ClockError != nil {
		return 2 * int64(*s.Resolved.Node.Measurement.ClockError)
	}
	if clock, err := h.d.System.Clock(); err == nil && clock.Synchronised {
		return 2 * int64(clock.MaxError)
	}
	return insight.UnknownClock
}

// Run begins a new part of a second with each, and ends intervals.
func (h *History) Run(ctx context.Context) error {
	var pausing sync.WaitGroup
	defer pausing.Wait()
	pausing.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-h.wake:
				h.records.updateWanted()
			}
		}
	})
	for last := time.Second / parts; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-h.roused:
			last = time.Second / parts
			continue
		case <-service.Due(last):
		}
		end := h.d.Tasks.Begin(time.Now())
		last = h.next(last)
		end()
	}
}

// next begins the next part of a second, after one that lasted some time. It returns how long the new one lasts:
// after a second without records, until there is one, so that an idle agent does not wake up for each part.
func (h *History) next(last time.Duration) time.Duration {
	e := h.engine.Load()
	if e == nil {
		return time.Second
	}
	second := h.part.Add(uint64(last*parts/time.Second))%parts == 0
	now := time.Now()
	divided := h.limit(now) > 0 && !h.isLive(now)
	if second || divided {
		h.active = h.counted.Swap(0) > 0 || h.active
		h.paused.Store(false)
		h.records.updateWanted()
	}
	if !second {
		return time.Second / parts
	}
	h.second(e)
	rest := divided && !h.active
	h.active = false
	h.resting.Store(rest)
	if rest && h.counted.Load() > 0 { // a record came before resting was set
		h.resting.Store(false)
		rest = false
	}
	if rest || !divided {
		return time.Second
	}
	return time.Second / parts
}

// second does what is due each second.
func (h *History) second(e *insight.Engine) {
	e.SetClockError(h.clockError())
	e.Advance(time.Now())
	h.tendViews(time.Now())
	if ended := e.Totals().Intervals; ended != h.saved {
		h.saved = ended
		h.save(e)
	}
}

func (h *History) save(e *insight.Engine) {
	if err := h.file.save(h.d.HistoryFile, e); err != nil {
		h.d.Log.Warn("the history of the last hour could not be kept for the next agent", "error", err)
	}
}

// Close keeps what there is for the next agent, or removes it with all else.
func (h *History) Close(removing bool) {
	h.endViews()
	e := h.engine.Load()
	switch {
	case removing:
		_ = os.Remove(h.d.HistoryFile) // it may not exist
	case e != nil:
		e.Close(time.Now())
		h.save(e)
	}
}

var (
	descHistoryBytes   = service.Metric("history_bytes", "Bytes that the kept rollups of the last hour take, compressed, at most 8388608.")
	descHistoryRecords = service.Metric("history_records_total", "Records that are in the history of the last hour, or were.")
	descHistoryLeftOut = service.Metric(
		"history_records_left_out_total",
		"Records that are not in the history because there were more than 100000 in a second.",
	)
)

func (h *History) Collect(g *metrics.Gatherer) {
	var t insight.Totals
	if e := h.engine.Load(); e != nil {
		t = e.Totals()
	}
	g.Add(descHistoryBytes, float64(t.Octets))
	g.Add(descHistoryRecords, float64(t.Records))
	g.Add(descHistoryLeftOut, float64(t.LeftOut))
}
