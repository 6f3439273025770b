// SPDX-License-Identifier: Apache-2.0

// Package eventlog keeps the events of the last hour. It gives the event that begins something and the event
// that ends it the same id, knows what has begun and not ended, and leaves out events that repeat too often.
// It reads no clock: its caller says what time it is.
package eventlog

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// Bounds.
const (
	keepOctets   = 1 << 20 // of the lines of all kept events
	mostBegun    = 1024
	mostSubjects = 1024 // of which it is known how often they began
	// One subject has at most subjectEvents of a name in subjectTime, and all together allEvents in a minute.
	subjectEvents = 6
	subjectTime   = 10 * time.Minute
	allEvents     = 1000
	// restoredFor is how long something that an earlier agent saw begin may stay unseen.
	restoredFor = 2 * time.Minute

	expirePeriod = 10 * time.Second
	mostUnread   = 64
)

// MostFollowers is how many may follow.
const MostFollowers = 16

// Log keeps events. Several goroutines may use it.
type Log struct {
	keep time.Duration

	mu            sync.Mutex
	list          []kept // by time
	octets        int
	expired       time.Time          // when it was last looked what is too old
	begun         map[string]*begun  // by id
	begunIDs      map[subject]string // of what has begun
	repetitions   map[subject]*repetition
	minute        int64 // in which taken were taken
	takenInMinute int
	counts        map[string]uint64 // by name
	leftOut       uint64
	changes       uint64
	followers     map[chan *record.Event]bool
}

// kept is an event with its line of JSON.
type kept struct {
	event *record.Event
	line  []byte
}

// subject is what an event is about.
type subject struct{ name, subject string }

// begun is something that has begun, and not ended.
type begun struct {
	event    *record.Event
	silent   bool      // it was left out, so its end is, too
	restored time.Time // an earlier agent saw it begin, and it was not seen since this time
}

// repetition is when events about a subject were taken, and how many were left out since.
type repetition struct {
	times   []time.Time
	leftOut int
}

// New makes a log that keeps events for a time.
func New(keep time.Duration) *Log {
	return &Log{
		keep: keep, begun: make(map[string]*begun), begunIDs: make(map[subject]string), repetitions: make(map[subject]*repetition),
		counts: make(map[string]uint64), followers: make(map[chan *record.Event]bool),
	}
}

// Add counts and keeps an event, and gives it its id. False: it is to go nowhere, because what it says has
// begun already, or it repeats too often.
func (l *Log) Add(e *record.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind := record.EventKindOf(e.Name)
	if kind == nil {
		return true // not ours to judge
	}
	now := e.Time.Time
	about := subject{e.Name, e.Subject}
	switch {
	case len(kind.Ends) > 0:
		if one := l.end(kind, e); one != nil && one.silent {
			l.leftOut++
			return false
		}
	case kind.Begins():
		id := l.begunIDs[about]
		if one := l.begun[id]; one != nil && (e.ID == "" || e.ID == id) {
			one.restored = time.Time{}
			return false
		}
		admitted := l.admit(about, now, e)
		e.ID = cmp.Or(e.ID, idOf(e))
		l.begin(about, e, !admitted)
		if !admitted {
			return false
		}
	case !l.admit(about, now, e):
		return false
	}
	e.ID = cmp.Or(e.ID, idOf(e))
	l.counts[e.Name]++
	l.append(e)
	for f := range l.followers {
		select {
		case f <- e:
		default: // it is too slow
			delete(l.followers, f)
			close(f)
		}
	}
	return true
}

// end finds what an event ends, and gives it that id; nil: that is not known.
func (l *Log) end(kind *record.EventKind, e *record.Event) *begun {
	id, names := e.ID, kind.Ends
	if began := e.Label("event"); began != "" { // one of several that it may end
		names = []string{began}
	}
	for _, name := range names {
		if id == "" {
			id = l.begunIDs[subject{name, e.Subject}]
		}
	}
	one := l.begun[id]
	if one == nil {
		return nil
	}
	e.ID = id
	delete(l.begun, id)
	if about := (subject{one.event.Name, one.event.Subject}); l.begunIDs[about] == id {
		delete(l.begunIDs, about)
	}
	return one
}

func (l *Log) begin(about subject, e *record.Event, silent bool) {
	if len(l.begun) < mostBegun {
		l.begun[e.ID] = &begun{event: e, silent: silent}
		l.begunIDs[about] = e.ID
	}
}

// idOf is the id of an event, as good as unique.
func idOf(e *record.Event) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %q %d", e.Node, e.Name, e.Subject, e.Time.UnixNano())
	return fmt.Sprintf("%012x", h.Sum64()>>16)
}

// admit reports whether a further event about a subject is to be kept. One that comes after some were left
// out says how many. What brings its own id, as losses of probes, is bounded by its source.
func (l *Log) admit(about subject, now time.Time, e *record.Event) bool {
	if minute := now.Unix() / 60; minute != l.minute {
		l.minute, l.takenInMinute = minute, 0
	}
	one := l.repetitions[about]
	if one == nil {
		if len(l.repetitions) >= mostSubjects {
			l.forget(now)
		}
		one = &repetition{}
		l.repetitions[about] = one
	}
	one.times = slices.DeleteFunc(one.times, func(t time.Time) bool { return now.Sub(t) >= subjectTime || t.After(now) })
	if e.ID == "" && len(one.times) >= subjectEvents || l.takenInMinute >= allEvents {
		one.leftOut++
		l.leftOut++
		return false
	}
	one.times = append(one.times, now)
	l.takenInMinute++
	if one.leftOut > 0 {
		e.Values = append(e.Values, record.Value{Name: "left_out", Number: float64(one.leftOut)})
		one.leftOut = 0
	}
	return true
}

// forget makes room for the subject of an event: it removes subjects without an event lately; if there are none, all.
func (l *Log) forget(now time.Time) {
	for about, one := range l.repetitions {
		if len(one.times) == 0 || now.Sub(one.times[len(one.times)-1]) >= subjectTime {
			delete(l.repetitions, about)
		}
	}
	if len(l.repetitions) >= mostSubjects {
		clear(l.repetitions)
	}
}

// append keeps an event, and drops what is too old or has no room. What has begun and not ended stays.
func (l *Log) append(e *record.Event) {
	line := record.AppendLine(nil, e)
	l.list = append(l.list, kept{e, line})
	l.octets += len(line)
	l.changes++
	if now := e.Time.Time; now.Sub(l.expired).Abs() >= expirePeriod {
		l.expired = now
		l.expire(now)
	}
	for l.octets > keepOctets {
		at := max(slices.IndexFunc(l.list, func(k kept) bool { return !l.isOn(k.event) }), 0) // 0: all of them last
		l.octets -= len(l.list[at].line)
		l.list = slices.Delete(l.list, at, at+1)
	}
}

func (l *Log) expire(now time.Time) {
	l.list = slices.DeleteFunc(l.list, func(k kept) bool {
		old := now.Sub(k.event.Time.Time) > l.keep && !l.isOn(k.event)
		if old {
			l.octets -= len(k.line)
		}
		return old
	})
}

func (l *Log) isOn(e *record.Event) bool {
	one := l.begun[e.ID]
	return one != nil && one.event.Name == e.Name
}

// IsOn reports whether an event began what has not ended.
func (l *Log) IsOn(e *record.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isOn(e)
}

// Followed reports whether there is a follower.
func (l *Log) Followed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.followers) > 0
}

// Doubt treats what began under these names as seen by an earlier agent: who found it has forgotten it.
func (l *Log) Doubt(now time.Time, names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.begun {
		if slices.Contains(names, one.event.Name) {
			one.restored = now
		}
	}
}

// Unseen makes events that end what an earlier agent saw begin, and this one has not seen for a while. The
// caller takes them.
func (l *Log) Unseen(now time.Time, node string) (list []*record.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.begun {
		if !one.restored.IsZero() && now.Sub(one.restored) >= restoredFor {
			list = append(list, NotSeen(one.event, now, node))
		}
	}
	return list
}

// NotSeen says that nothing shows any more whether what an event began still holds.
func NotSeen(began *record.Event, now time.Time, node string) *record.Event {
	e := &record.Event{
		Time: instant.Of(
			now.UTC(),
		), Node: node, Name: record.EventNotSeen, ID: began.ID, Severity: record.SeverityInfo, Subject: began.Subject, Since: began.Time,
		Facts: "whether it still is so is not known, because nothing shows it any more: " + began.Facts,
	}
	e.Labels = append(slices.Clone(began.Labels), record.Label{Name: "event", Text: began.Name})
	e.Values = []record.Value{{Name: "lasted_ns", Number: float64(max(now.Sub(began.Time.Time), 0))}} // 0: the clock was set back
	return e
}

// Read gives the events of a time, the oldest first, with those before it that have begun and not ended.
func (l *Log) Read(since, until time.Time) []*record.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read(since, until)
}

func (l *Log) read(since, until time.Time) (list []*record.Event) {
	for _, k := range l.list {
		if at := k.event.Time.Time; at.Before(until) && (!at.Before(since) || l.isOn(k.event)) {
			list = append(list, k.event)
		}
	}
	return list
}

// Follow gives the events since a time, and all that come from now on, until end is called; not if so many follow
// already. A follower that
// leaves too many unread is ended. False: no more may follow.
func (l *Log) Follow(since time.Time, most int) (past []*record.Event, next <-chan *record.Event, end func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.followers) >= most {
		return nil, nil, nil, false
	}
	f := make(chan *record.Event, mostUnread)
	l.followers[f] = true
	end = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.followers, f)
	}
	past = l.read(since, time.Unix(1<<40, 0))
	return past, f, end, true
}

// Totals count since the log was made.
type Totals struct {
	Admitted map[string]uint64 // by name
	Begun    map[string]int    // that have not ended
	LeftOut  uint64            // because they repeat too often
	Octets   int               // that the kept ones take now
	Changes  uint64            // of what Save returns
}

// Totals are what it has counted.
func (l *Log) Totals() Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := Totals{Admitted: make(map[string]uint64), Begun: make(map[string]int), LeftOut: l.leftOut, Octets: l.octets, Changes: l.changes}
	for name, n := range l.counts {
		t.Admitted[name] = n
	}
	for _, one := range l.begun {
		t.Begun[one.event.Name]++
	}
	return t
}

// Save is what Restore takes: lines of JSON.
func (l *Log) Save() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]byte, 0, l.octets)
	for _, k := range l.list {
		out = append(out, k.line...)
	}
	return out
}

// Restore takes over the events of an earlier log, before the first event. It takes all before the first error.
func (l *Log) Restore(saved []byte, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(saved) > 0 {
		line := saved
		if i := slices.Index(saved, '\n'); i >= 0 {
			line = saved[:i+1]
		}
		saved = saved[len(line):]
		r, err := record.Parse(line)
		if err != nil {
			return fmt.Errorf("an event that was kept: %w", err)
		}
		e, ok := r.(*record.Event)
		if !ok || e.Time.After(now.Add(time.Minute)) {
			return fmt.Errorf("%.80q is no event of the past", line)
		}
		switch kind := record.EventKindOf(e.Name); {
		case kind == nil:
			continue
		case len(kind.Ends) > 0:
			l.end(kind, e)
		case kind.Begins():
			l.begin(subject{e.Name, e.Subject}, e, false)
			if one := l.begun[e.ID]; one != nil {
				one.restored = now
			}
		}
		l.list = append(l.list, kept{e, slices.Clone(line)})
		l.octets += len(line)
	}
	l.expire(now)
	return nil
}
